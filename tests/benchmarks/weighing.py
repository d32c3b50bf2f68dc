"""Bytes for each held lock, by Redis's own account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.benchmarks.figures import Figure
from tests.benchmarks.filling import copy_lock
from tests.benchmarks.place import Place
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import AT_ENQUEUE, PREFIX, Side, locked_by


__all__ = ["STRING", "weighed"]

STRING = "a string key, as `SET NX PX` leaves it"
HELD_MS = 3_600_000


def weighed(scale: Scale, place: Place) -> Iterator[Figure]:
    """Weigh the key of one lock (``MEMORY USAGE``), and many together (``used_memory``), Redis's tables included."""
    client = place.client(place.server())
    digest = ""
    for lock in AT_ENQUEUE:
        side = Side(lock, client)
        client.flushdb()
        digest = locked_by(side.actor.send(42))
        yield Figure("memory", lock, counts=_weigh(client, digest, scale.weighed))
    client.flushdb()
    client.set(f"{PREFIX}:{digest}", str(uuid4()), px=HELD_MS, nx=True)
    yield Figure("memory", STRING, counts=_weigh(client, digest, scale.weighed))


def _weigh(client: Any, digest: str, copies: int) -> dict[str, float]:
    alone = sum(client.memory_usage(key) for key in client.scan_iter(match=f"{PREFIX}:*"))
    before = _used(client)
    copy_lock(client, digest, copies)
    return {"bytes": alone, "bytes_together": (_used(client) - before) / copies}


def _used(client: Any) -> int:
    return int(client.info("memory")["used_memory"])
