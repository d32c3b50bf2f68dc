"""The sides that are compared: a broker with its actor, bare or with a lock, each in a namespace of its own."""

from __future__ import annotations

from typing import Any

import dramatiq
import redis
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker

from dramatiq_unique import UniqueMiddleware, outcome
from dramatiq_unique.lock_types import LOCK_TYPES


__all__ = ["AT_ENQUEUE", "BARE", "LOCKS", "NO_LOCK", "PREFIX", "REFUSED", "Side", "broker_of", "declare", "locked_by"]

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
        self.broker = broker_of(client, name.replace(" ", "-"))
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


def broker_of(client: redis.Redis, namespace: str = "dramatiq") -> RedisBroker:
    """Make a broker.

    It does no maintenance: Dramatiq does it in one command of a thousand, with ``KEYS`` in it, which would hit one side
    or another by chance.
    """
    return RedisBroker(client=client, namespace=namespace, maintenance_chance=0)


def declare(broker: RedisBroker, options: dict[str, Any], name: str = "work") -> Any:
    """Declare an actor that does nothing."""

    def work(number: int, note: str = "") -> None:
        pass

    return dramatiq.actor(broker=broker, actor_name=name, **options)(work)


def locked_by(message: Message[Any]) -> str:
    """Name the digest of a message that was just sent."""
    digest = outcome(message).digest
    if digest is None:
        raise ValueError("it asked for no lock")
    return digest


def _options(name: str) -> dict[str, Any]:
    if name in (BARE, NO_LOCK):
        return {}
    lock = "until_executed" if name == REFUSED else name
    return {"lock": lock} | ({"lock_ttl": 3600} if lock == "until_expired" else {})
