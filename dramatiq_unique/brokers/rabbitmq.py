"""The RabbitMQ broker: dead letters are the queue ``<queue>.XQ``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pika
from dramatiq import Message
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.common import dq_name, xq_name

from dramatiq_unique.brokers.adapter import AnyBroker, decoded


__all__ = ["Rabbitmq"]


class Rabbitmq(AnyBroker):
    """A waiting message cannot be taken out of a RabbitMQ queue; a worker skips it when it comes up."""

    def __init__(self, broker: RabbitmqBroker) -> None:
        super().__init__(broker.enqueue)
        self._broker = broker

    def flushed(self, queue_name: str) -> Iterator[Message[Any]]:
        """Take the waiting messages off the queue and its delay queue, the only way RabbitMQ has to look at them."""
        self._broker.declare_queue(queue_name, ensure=True)
        for name in (queue_name, dq_name(queue_name)):
            yield from decoded(iter(partial(self._take, name), None))

    def _take(self, name: str) -> bytes | None:
        body: bytes | None = self._broker.channel.basic_get(name, auto_ack=True)[2]
        return body

    def dead_letter(self, message: Message[Any], error: Exception) -> None:
        """Publish the message where RabbitMQ would route a rejected one (``x-dead-letter-routing-key``)."""
        self._broker.declare_queue(message.queue_name, ensure=True)
        self._broker.channel.basic_publish(
            exchange="",
            routing_key=xq_name(message.queue_name),
            body=message.encode(),
            properties=pika.BasicProperties(delivery_mode=2, priority=message.options.get("broker_priority")),
        )
