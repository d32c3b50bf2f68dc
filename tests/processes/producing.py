"""A producer that comes as far as its locks: what it sends is locked, and is not in the broker when it is killed.

``python -m tests.processes.producing`` sends one message for each lock type of :data:`QUEUE_LOCKS`, each on a thread of
its own, and waits to be killed where the next thing to do is to store it. What it holds by then is in Redis, one entry
of the hash ``locked`` for each: the lock type, the ``message_id``, and until when it has the lock.
"""

import os
import threading
from typing import Any

import dramatiq
import redis
from dramatiq import Actor, Broker, Message
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware

from dramatiq_unique import UniqueMiddleware, asking
from tests.rig import PREFIX, OwnRedisBroker


__all__ = ["QUEUE_LOCKS", "WINDOW_S", "declare"]

QUEUE_LOCKS = ("until_executing", "until_executed", "until_expired", "until_and_while_executing")
"""For each of these there is an actor of that name."""

WINDOW_S = 600
"""The window of ``until_expired``; the others have no ``lock_ttl``."""


def declare(broker: Broker, queue: str) -> dict[str, Actor[[], None]]:
    """Declare the actors, by the name of their lock type."""

    def work() -> None:
        """Nothing."""

    return {
        lock: dramatiq.actor(  # type: ignore[call-overload]
            work,
            broker=broker,
            actor_name=lock,
            queue_name=queue,
            lock=lock,
            **{"lock_ttl": WINDOW_S} if lock == "until_expired" else {},
        )
        for lock in QUEUE_LOCKS
    }


class ComesNoFurther(Middleware):
    """Stands behind the locks in the list, so that a message which comes here has its lock; it is never stored.

    Args:
        seen: Where it is noted.
    """

    def __init__(self, seen: "redis.Redis") -> None:
        self._seen: Any = seen

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: float | None) -> None:
        """Note what the message holds, and wait to be killed."""
        held = "nothing 0"
        for key in self._seen.scan_iter(f"{PREFIX}:*:queue"):
            record = self._seen.hget(key, f"o:{message.message_id}")
            if record is not None:
                since_ms, _, deadline_ms = map(int, record.split()[:3])
                held = f"{message.message_id} {since_ms + deadline_ms}"
        self._seen.hset("locked", message.actor_name, held)
        threading.Event().wait()


def _broker(kind: str, url: str) -> Broker:
    if kind == "rabbitmq":
        return RabbitmqBroker(host="127.0.0.1", port=5672)
    if kind == "stub":
        return StubBroker()
    return RedisBroker(url=url) if kind == "redis" else OwnRedisBroker(url=url)  # type: ignore[no-untyped-call]


def _produce(kind: str, url: str, queue: str) -> None:
    broker = _broker(kind, url)
    broker.add_middleware(UniqueMiddleware(url=url))
    broker.add_middleware(ComesNoFurther(redis.Redis.from_url(url)))
    for actor in declare(broker, queue).values():
        threading.Thread(target=actor.send).start()


if __name__ == "__main__":
    if "TEST_UNSTORED_MS" in os.environ:
        asking.UNSTORED_MS = int(os.environ["TEST_UNSTORED_MS"])
    _produce(os.environ["TEST_BROKER"], os.environ["TEST_REDIS_URL"], os.environ["TEST_QUEUE"])
