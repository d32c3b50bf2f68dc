"""The brokers: what each one can do for the locks. Nothing here knows how locks are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dramatiq import Broker, Message

from dramatiq_unique.brokers.adapter import REJECTED, AnyBroker, BrokerAdapter


__all__ = ["REJECTED", "AnyBroker", "BrokerAdapter", "adapter_for", "client_of"]


def adapter_for(broker: Broker, enqueue: Callable[[Message[Any]], object]) -> BrokerAdapter:
    """Choose the adapter of a broker.

    Arguments:
        broker: The broker; a subclass of one of Dramatiq's is treated like it.
        enqueue: Enqueues a message without asking for a lock.

    Returns:
        Its adapter; :class:`AnyBroker` for a class that is not known.
    """
    # By name along the class hierarchy, so that no broker's driver is imported for the sake of the question.
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(broker).__mro__}
    if "dramatiq.brokers.redis.RedisBroker" in names:
        from dramatiq_unique.brokers.redis import Redis  # noqa: PLC0415

        return Redis(broker)  # type: ignore[arg-type]
    if "dramatiq.brokers.rabbitmq.RabbitmqBroker" in names:
        from dramatiq_unique.brokers.rabbitmq import Rabbitmq  # noqa: PLC0415

        return Rabbitmq(broker)  # type: ignore[arg-type]
    if "dramatiq.brokers.stub.StubBroker" in names:
        from dramatiq_unique.brokers.stub import Stub  # noqa: PLC0415

        return Stub(broker)  # type: ignore[arg-type]
    return AnyBroker(enqueue)


def client_of(broker: Broker) -> Any | None:
    """Find the Redis client of a broker that has one (the Redis broker), else ``None``."""
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(broker).__mro__}
    return broker.client if "dramatiq.brokers.redis.RedisBroker" in names else None  # type: ignore[attr-defined]
