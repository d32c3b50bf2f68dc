"""What is asked of a broker beyond what all brokers have, and the answer where nothing more is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dramatiq import Message


__all__ = ["REJECTED", "AnyBroker", "BrokerAdapter"]

REJECTED = "dramatiq_unique_rejected"
"""An option that makes a worker dead-letter a message instead of running it."""


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

    def withdraw(self, queue_name: str, broker_id: str) -> bool:
        """Take a waiting message out of its queue where that costs no scan.

        Arguments:
            queue_name: The queue it waits on; a delay queue's name while it is delayed.
            broker_id: The broker's own id of it.

        Returns:
            Whether it is gone; otherwise a worker skips it when it comes up. Never raises.
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

    def withdraw(self, queue_name: str, broker_id: str) -> bool:
        """Leave it to the worker."""
        return False
