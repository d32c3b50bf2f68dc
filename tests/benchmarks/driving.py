"""The store and the digest, driven without a message: the one place to adapt when they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

from dramatiq_unique.actors import ActorView
from dramatiq_unique.digest import digest_of
from dramatiq_unique.lock_types import LOCK_TYPES
from dramatiq_unique.options import OptionRules
from dramatiq_unique.store import Kind, Lease, RedisStore, Request, Started, Taken, Terms
from dramatiq_unique.strategies import strategy_table
from tests.benchmarks.sides import PREFIX


__all__ = ["Driver", "digester"]

HOLD_MS = 3_600_000
LEASE_MS = 30_000


class Driver:
    """Takes and lets go of locks as the middleware does.

    Args:
        client: The Redis of the locks.
        limit: How many holders a lock may have.
    """

    def __init__(self, client: redis.Redis, limit: int = 1) -> None:
        self._limit = limit
        self._store = RedisStore(client, prefix=PREFIX, memory_ms=HOLD_MS)

    def take(self, digest: str, message_id: str) -> None:
        """Take the queue lock, as a send does."""
        taken = self._store.acquire(
            self._request(digest, message_id), Terms(message_id[:8], HOLD_MS, "w", HOLD_MS, "w")
        )
        if not isinstance(taken, Taken):
            raise TypeError(f"the lock is not to be had: {taken}")

    def let_go(self, digest: str, message_id: str) -> None:
        """Let go of the queue lock, as the end of a message does."""
        finished = self._store.finish(digest, message_id, token="", queue="anybody", run=False)
        if finished.queue_ms is None:
            raise ValueError("there was no such lock")

    def start(self, digest: str, message_id: str) -> Lease:
        """Take the run lock, as a delivery does that starts."""
        token = message_id[:8]
        begun = self._store.begin(
            self._request(digest, message_id), token=token, queue="", run=True, lease_ms=LEASE_MS, hold_ms=0
        )
        if not isinstance(begun, Started):
            raise TypeError(f"the lock is not to be had: {begun}")
        return Lease(digest, Kind.RUN, message_id, token, LEASE_MS)

    def renew(self, leases: Sequence[Lease]) -> None:
        """Renew leases, as the keeper does at a third of a lease."""
        if not all(kept is True for kept in self._store.renew(leases)):
            raise ValueError("a lease was lost")

    def _request(self, digest: str, message_id: str) -> Request:
        return Request(digest, message_id, actor_name="work", queue_name="default", broker_id="", limit=self._limit)


def digester(
    function: Callable[..., object], args: tuple[Any, ...], lock_args: list[str] | None = None
) -> Callable[[int], str]:
    """Make what computes the digest of a message with these arguments, of which those count."""
    view = ActorView.of("work", function)
    given = {} if lock_args is None else {"lock_args": lock_args}
    options = OptionRules(LOCK_TYPES, strategy_table(), {}).for_actor(view, given | {"lock": "until_executed"})
    return lambda _: digest_of(view, options, message_id="", queue_name="default", args=args, kwargs={})


def _request(digest: str, message_id: str) -> Request:
    return Request(digest, message_id, actor_name="work", queue_name="default", broker_id="", limit=1)
