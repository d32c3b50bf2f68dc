"""What is asked of a broker beyond what all brokers have, and the answer where nothing more is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from dramatiq import Message
from dramatiq.broker import MessageProxy
from dramatiq.errors import DecodeError


__all__ = ["REJECTED", "AnyBroker", "BrokerAdapter", "decoded"]

REJECTED = "dramatiq_unique_rejected"
"""An option that makes a worker dead-letter a message instead of running it."""


def decoded(bodies: Iterable[bytes | None]) -> Iterator[Message[Any]]:
    """Decode what is in a queue; what cannot be decoded is somebody else's, and holds no lock."""
    for body in bodies:
        if body is not None:
            try:
                yield Message.decode(body)
            except DecodeError:
                continue


class BrokerAdapter(Protocol):
    """A broker as the locks need it."""

    def dead_letter(self, message: Message[Any], error: Exception) -> None:
        """Put a message into the broker's dead letters without queueing it.

        Arguments:
            message: The message, on its canonical queue.
            error: Why.

        Raises:
            Exception: Whatever the broker raises where it cannot store the message.
        """

    def broker_id(self, message: Message[Any] | MessageProxy) -> str:
        """Name a message as :meth:`exists` and :meth:`withdraw` want it: the broker's own id of this hop, or ``""``."""

    @property
    def can_say(self) -> bool:
        """Whether :meth:`exists` has an answer."""

    def exists(self, queue_name: str, broker_id: str) -> bool | None:
        """Tell whether a message still exists, waiting or running.

        Arguments:
            queue_name: The queue it was last seen on; a delay queue's name while it is delayed.
            broker_id: The broker's own id of it.

        Returns:
            ``None`` where the broker cannot say. Never raises.
        """

    def flushed(self, queue_name: str) -> Iterator[Message[Any]]:
        """Give the waiting messages that ``flush(queue_name)`` is about to drop, as far as the broker can tell."""

    def withdraw(self, queue_name: str, broker_id: str) -> Message[Any] | None:
        """Take a waiting message out of its queue where that costs no scan.

        Arguments:
            queue_name: The queue it waits on; a delay queue's name while it is delayed.
            broker_id: The broker's own id of it.

        Returns:
            The message, where it is gone; otherwise a worker skips it when it comes up. Never raises.
        """


class AnyBroker:
    """A broker of which nothing more is known.

    Arguments:
        enqueue: Enqueues a message without asking for a lock.
    """

    def __init__(self, enqueue: Callable[[Message[Any]], object]) -> None:
        self._enqueue = enqueue

    def dead_letter(self, message: Message[Any], error: Exception) -> None:
        """Enqueue the message marked, for a worker to dead-letter: the one way that every broker has."""
        self._enqueue(message.copy(options={REJECTED: True}))

    can_say = False

    def broker_id(self, message: Message[Any] | MessageProxy) -> str:
        """Name it by nothing: no broker has an id in common."""
        return ""

    def exists(self, queue_name: str, broker_id: str) -> bool | None:
        """Say nothing: no broker has a way in common."""

    def flushed(self, queue_name: str) -> Iterator[Message[Any]]:
        """Tell of none."""
        return iter(())

    def withdraw(self, queue_name: str, broker_id: str) -> Message[Any] | None:
        """Leave it to the worker."""
