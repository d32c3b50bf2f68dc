"""Around ``broker.enqueue``: a refusal is quiet, and a message that was not stored gives its lock back.

Dramatiq has no way to refuse a message quietly from ``before_enqueue``: whatever is raised there reaches the caller
of ``send`` (https://github.com/Bogdanp/dramatiq/issues/276). So the ``enqueue`` of the broker *instance* is wrapped
once. https://github.com/Bogdanp/dramatiq/pull/890 would add ``SkipEnqueue``, which a broker catches itself; where
that exists, :class:`NotEnqueued` is one, never arrives here, and what is left of the wrapper is giving back.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

import dramatiq.middleware
from dramatiq import Broker, Message
from dramatiq.broker import MessageProxy

from dramatiq_unique.claim import Claim
from dramatiq_unique.store import Holder, Storing, new_token


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


class Attempt:
    """One call of ``broker.enqueue``.

    Arguments:
        passive: Whether the message goes in without asking for a lock.
        watched: Whether it goes through the wrapper, so that its end is heard of.

    What is known of it later, one after the other:

    * ``token``: what it is known by in the lock; a broker's reconnect loop asks again with the same one.
    * ``since_s``: when it began, by :func:`time.monotonic`.
    * ``delay_ms``: the delay of the message.
    * ``refused``: whether the message is not to be stored; where Dramatiq has ``SkipEnqueue``, nothing else tells.
    * ``noted``: whether the message was noted as enqueued again.
    * ``claim``: what it asked the store for, if it did.
    * ``to_take``: the claim and the message, where the lock is left to be taken in the step that stores the message.
    * ``storing``: the message as its broker stores it, for that step; ``None`` once the store was asked, or elsewhere.
    * ``answered``: whether the store has answered; if not, it may have given the lock.
    * ``holds``: whether it gave the lock, or the message had it.
    * ``replaced``: whose place was taken with it.
    * ``together``: whether the message was stored in the step that took its lock; so it is, or neither was done, where
      that has not answered.
    * ``keeps_from_s``: when the lock was taken that is to be kept in full once the message is stored, by
      :func:`time.monotonic`; ``None``: it needs no keeping.
    """

    # On the class, since most of it stays so in most attempts.
    delay_ms: float = 0
    refused = False
    noted = False
    claim: Claim | None = None
    to_take: tuple[Claim, Message[Any]] | None = None
    storing: Storing | None = None
    answered = False
    holds = False
    replaced: Holder | None = None
    together = False
    keeps_from_s: float | None = None

    def __init__(self, *, passive: bool = False, watched: bool = False) -> None:
        self.passive = passive
        self.watched = watched
        self.token = new_token()
        self.since_s = time.monotonic()


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
        copies: Whether messages have to be copied, because the broker does not.
    """

    def __init__(self, broker: Broker, *, copies: bool = True) -> None:
        self._broker = broker
        self._copies = copies
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
        attempts = self._stack.attempts
        return attempts[-1] if attempts else Attempt()

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
            copied: Any = _copied(message) if self._copies else message
            stored = self._enqueue(copied, delay=delay)
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
