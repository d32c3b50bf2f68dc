"""Around ``broker.enqueue``: a refusal is quiet, and a message that was not stored gives its lock back.

Dramatiq has no way to refuse a message quietly from ``before_enqueue``: whatever is raised there reaches the caller
of ``send`` (https://github.com/Bogdanp/dramatiq/issues/276). So the ``enqueue`` of the broker *instance* is wrapped
once. https://github.com/Bogdanp/dramatiq/pull/890 would add ``SkipEnqueue``, which a broker catches itself; where
that exists, :class:`NotEnqueued` is one, never arrives here, and what is left of the wrapper is giving back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import dramatiq.middleware
from dramatiq import Broker, Message
from dramatiq.broker import MessageProxy

from dramatiq_unique.claim import Claim
from dramatiq_unique.store import Acquired, Holder, new_token


__all__ = ["Attempt", "Guard", "NotEnqueued"]

_Refusal: type[Exception] = getattr(dramatiq.middleware, "SkipEnqueue", dramatiq.middleware.MiddlewareError)


class NotEnqueued(_Refusal):  # type: ignore[misc, valid-type]
    """A message is quietly not enqueued. Never leaves this package.

    Arguments:
        message: What the sender gets back, with its outcome on it.
    """

    def __init__(self, message: Message[Any]) -> None:
        super().__init__(f"message {message.message_id} is not enqueued")
        self.message = message


@dataclass(slots=True)
class Attempt:
    """One call of ``broker.enqueue``.

    Arguments:
        passive: Whether the message goes in without asking for a lock.
        watched: Whether it goes through the wrapper, so that its end is heard of.
        refused: Whether the message is not to be stored; where Dramatiq has ``SkipEnqueue``, nothing else tells.
        noted: Whether the message was noted as enqueued again.
        claim: What it asked the store for, if it did.
        token: What it is known by in the lock; a broker's reconnect loop asks again with the same one.
        answered: Whether the store has answered; if not, it may have given the lock.
        holds: Whether it gave the lock, or the message had it.
        to_take: The claim and the message, where the lock is left to be taken in the step that stores the message.
        acquire: Asks for the lock, and stores the message in the same step; ``None``: once it was called, or elsewhere.
        together: Whether the message was stored in the step that took its lock; so it is, or neither was done, where
            that has not answered.
        keeps_from_s: When the lock was taken that is to be kept in full once the message is stored, by
            :func:`time.monotonic`; ``None``: it needs no keeping.
        replaced: Whose place was taken with it.
        delay_ms: The delay of the message.
        since_s: When the attempt began, by :func:`time.monotonic`.
    """

    passive: bool = False
    watched: bool = False
    refused: bool = False
    noted: bool = False
    claim: Claim | None = None
    token: str = field(default_factory=new_token)
    answered: bool = False
    holds: bool = False
    to_take: tuple[Claim, Message[Any]] | None = None
    acquire: Callable[..., Acquired] | None = None
    together: bool = False
    keeps_from_s: float | None = None
    replaced: Holder | None = None
    delay_ms: float = 0
    since_s: float = field(default_factory=time.monotonic)


class Attempts(Protocol):
    """Who hears how an attempt ended."""

    def stored(self, message: Message[Any], attempt: Attempt) -> None:
        """The message is in the broker."""

    def give_back(self, message: Message[Any] | MessageProxy, attempt: Attempt) -> None:
        """The message is not in the broker."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.attempts: list[Attempt] = []


class Guard:
    """The wrapper of one broker's ``enqueue``.

    Arguments:
        broker: The broker.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._enqueue = broker.enqueue
        self._stack = _Stack()
        self._attempts: Attempts

    def install(self, attempts: Attempts) -> None:
        """Take the place of the broker instance's ``enqueue``.

        Arguments:
            attempts: Hears how each attempt ended.
        """
        self._attempts = attempts
        self._broker.enqueue = self.enqueue  # type: ignore[method-assign]

    @property
    def attempt(self) -> Attempt:
        """The attempt that is under way on this thread.

        A throw-away one where the class's own ``enqueue`` was called past the wrapper.
        """
        return self._stack.attempts[-1] if self._stack.attempts else Attempt()

    def enqueue(self, message: Message[Any] | MessageProxy, *, delay: int | None = None) -> Message[Any]:
        """Enqueue a message, as the broker's own ``enqueue`` does.

        The message goes in as a copy, since some brokers write options into what they are given, and a ticket must
        not end up on a message that the caller may use again.

        Arguments:
            message: The message.
            delay: Its delay in milliseconds.

        Returns:
            The message as stored, or as refused.
        """
        return self._attempt(message, delay, Attempt(watched=True))

    def enqueue_passively(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Enqueue a message without asking for a lock."""
        return self._attempt(message, delay, Attempt(watched=True, passive=True))

    def _attempt(self, message: Message[Any] | MessageProxy, delay: int | None, attempt: Attempt) -> Message[Any]:
        under_way = self._stack.attempts
        under_way.append(attempt)
        try:
            stored = self._enqueue(_copied(message), delay=delay)
        except NotEnqueued as refusal:
            return refusal.message
        except BaseException:
            self._attempts.give_back(message, attempt)
            raise
        finally:
            under_way.pop()
        if not attempt.refused:
            self._attempts.stored(stored, attempt)
        return stored


def _copied(message: Message[Any] | MessageProxy) -> Message[Any]:
    """Copy a message as its own ``copy`` does, for a third of the time: that looks at the fields anew each time."""
    return Message(
        queue_name=message.queue_name,
        actor_name=message.actor_name,
        args=message.args,
        kwargs=message.kwargs,
        options={**message.options},
        message_id=message.message_id,
        message_timestamp=message.message_timestamp,
    )
