"""The Stub broker: everything is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dramatiq import Message, MessageProxy
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique.brokers.adapter import AnyBroker, decoded


__all__ = ["Stub"]


class Stub(AnyBroker):
    """Dead letters are in ``dead_letters_by_queue``, where ``StubBroker.join`` finds and raises their errors."""

    def __init__(self, broker: StubBroker) -> None:
        super().__init__(broker.enqueue)
        self._broker = broker

    def flushed(self, queue_name: str) -> Iterator[Message[Any]]:
        """Look at what is in the queue now."""
        return decoded(tuple(self._broker.queues[queue_name].queue))

    def dead_letter(self, message: Message[Any], error: Exception) -> None:
        """Put the message beside those that a worker rejected."""
        letter = MessageProxy(message)
        letter.fail()
        letter.stuff_exception(error)
        self._broker.dead_letters_by_queue[message.queue_name].append(letter)
