"""The sides that are compared: a broker with its actor, bare or with a lock, each in a namespace of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.lock_types import LOCK_TYPES


__all__ = ["AT_ENQUEUE", "BARE", "LOCKS", "NO_LOCK", "PREFIX", "REFUSED", "Side", "declare"]

PREFIX = "dramatiq-unique"
BARE = "bare Dramatiq"
NO_LOCK = "an actor without a lock"
REFUSED = "a refused duplicate"
LOCKS = tuple(row.name for row in LOCK_TYPES)
AT_ENQUEUE = tuple(row.name for row in LOCK_TYPES if row.queue is not None)
"""Those that take a lock at a send."""


class Side:
    """One broker with one actor, which does nothing.

    Args:
        name: :data:`BARE`, :data:`NO_LOCK`, :data:`REFUSED`, or a lock type.
        client: The Redis of messages and locks.
        options: More options of the actor.
    """

    def __init__(self, name: str, client: redis.Redis, **options: Any) -> None:
        self.name = name
        self.client: Any = client
        self.broker = RedisBroker(client=client, namespace=name.replace(" ", "-"))
        self.unique = None if name == BARE else UniqueMiddleware()
        if self.unique is not None:
            self.broker.add_middleware(self.unique)
        self.actor = declare(self.broker, _options(name) | options)

    def send(self, number: int) -> None:
        """Send one job; another number is another job, except where it is to be refused."""
        self.actor.send(0 if self.name == REFUSED else number)

    def forget(self) -> None:
        """Leave nothing in Redis but what a refusal needs."""
        self.client.flushdb()
        if self.name == REFUSED:
            self.actor.send(0)


def declare(broker: RedisBroker, options: Mapping[str, Any], name: str = "work") -> Any:
    """Declare an actor that does nothing."""

    def work(number: int, note: str = "") -> None:
        pass

    return dramatiq.actor(work, broker=broker, actor_name=name, **options)


def _options(name: str) -> dict[str, Any]:
    if name in (BARE, NO_LOCK):
        return {}
    lock = "until_executed" if name == REFUSED else name
    return {"lock": lock} | ({"lock_ttl": 3600} if lock == "until_expired" else {})
