"""A send: beside that of bare Dramatiq, in wall time and in Python's own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks.counting import counted
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.place import Place
from tests.benchmarks.replayed import Replaying, replaying
from tests.benchmarks.rounds import Batch, alternate, timed
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import BARE, LOCKS, NO_LOCK, REFUSED, Side
from tests.servers import HOST


__all__ = ["own", "sent"]

SIDES = (BARE, NO_LOCK, *LOCKS, REFUSED)
COUNTED = 20


def sent(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure a send by the clock, from one thread and from several."""
    server = place.server()
    sides = [Side(name, place.client(server)) for name in SIDES]
    for threads in scale.threads:
        with ThreadPoolExecutor(threads) as pool:
            times = alternate({side.name: _batch(side, scale.batch, threads, pool) for side in sides}, scale.rounds)
        for side, (name, ratios) in zip(sides, beside(times, BARE), strict=True):
            side.forget()
            counts = counted(side.client, side.send, COUNTED) if threads == 1 else {}
            yield Figure("send", name, threads, ratios, counts)


def own(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure a send by the CPU time of its thread: without any Redis, and with one."""
    server = place.server()
    for bench in ("own", "own-with-redis"):
        sides = [Side(name, replaying(HOST, server.port)) for name in SIDES]
        arms = {side.name: _own_batch(side, scale.batch, replays=bench == "own") for side in sides}
        for name, ratios in beside(alternate(arms, scale.rounds), BARE):
            yield Figure(bench, name, 0, ratios)


def _batch(side: Side, size: int, threads: int, pool: ThreadPoolExecutor) -> Batch:
    share = size // threads

    def send_some(first: int) -> None:
        for number in range(first, first + share):
            side.send(number)

    def batch() -> float:
        side.forget()
        if threads == 1:
            return timed(side.send, size)
        began = time.perf_counter()
        list(pool.map(send_some, range(0, size, share)))
        return (time.perf_counter() - began) / size

    return batch


def _own_batch(side: Side, size: int, *, replays: bool) -> Batch:
    numbers = itertools.count()
    client = side.client
    assert isinstance(client, Replaying)
    side.forget()
    for _ in range(3):
        side.send(next(numbers))
    if replays:
        client.replay()

    def batch() -> float:
        if not replays:
            side.forget()
        return timed(lambda _: side.send(next(numbers)), size, clock=time.thread_time)

    return batch
