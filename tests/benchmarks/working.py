"""From send to done, with a real worker process for each side.

All workers are there all the time, and suspended (``SIGSTOP``) but one. At its turn a side's jobs are sent, then its
worker goes on, and is suspended again when the last job is acknowledged. So no poll of an idle worker is in the time,
nor in the way of another side.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.benchmarks.counting import counted
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.place import Place
from tests.benchmarks.rounds import alternate
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import BARE, LOCKS, NO_LOCK, Side
from tests.processes.workers import DramatiqWorker, environment
from tests.servers import RedisServer


__all__ = ["worked"]

SIDES = (BARE, NO_LOCK, *LOCKS)
IDLE_MS = "1"
"""How long a worker sleeps at most when it fetches nothing; what it sleeps hides what it does."""

LOOK_S = 0.002
WITHIN_S = 60.0


def worked(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure it, with one worker process of so many threads."""
    server = place.server()
    for threads in scale.threads:
        with Place() as floor:
            pool = floor.enter_context(ThreadPoolExecutor(threads))
            desks = [Desk(name, floor, server, threads, pool) for name in SIDES]
            arms = {desk.side.name: partial(desk.batch, scale.jobs) for desk in desks}
            times = alternate(arms, scale.slow_rounds)
            for desk, (name, ratios) in zip(desks, beside(times, BARE), strict=True):
                counts = desk.counts(scale.jobs) if threads == 1 else {}
                yield Figure("done", name, threads, ratios, counts)


class Desk:
    """One side, who sends its jobs, and its worker.

    Args:
        name: The side.
        floor: Ends the worker.
        server: The Redis of everything.
        threads: How many threads the worker has.
        pool: As many threads that send.
    """

    def __init__(self, name: str, floor: Place, server: RedisServer, threads: int, pool: ThreadPoolExecutor) -> None:
        self.side = Side(name, floor.client(server))
        self._threads, self._pool = threads, pool
        self._bodies = f"{self.side.broker.namespace}:default.msgs"
        own = environment(server.url, TEST_SIDE=name, dramatiq_worker_timeout=IDLE_MS)
        self._worker = DramatiqWorker("tests.benchmarks.worked:work", own, threads=threads, log=floor.log())
        floor.callback(self._worker.kill)
        self.side.send(-1)
        self._wait()
        self._worker.suspend()

    def batch(self, jobs: int) -> float:
        """Send so many jobs, have them done, and say how long one took, in seconds."""
        self.side.client.flushdb()
        began = time.perf_counter()
        self._send(jobs)
        self._worker.resume()
        self._wait()
        took = time.perf_counter() - began
        self._worker.suspend()
        return took / jobs

    def counts(self, jobs: int) -> dict[str, float]:
        """Count what a job asks of Redis; the worker fetches some at a time, so not every number is whole."""
        self.side.client.flushdb()

        def at_once(number: int) -> None:
            if number:
                self._send(jobs)
                self._worker.resume()
                self._wait()
                self._worker.suspend()

        return {name: count / jobs for name, count in counted(self.side.client, at_once, 1).items()}

    def _send(self, jobs: int) -> None:
        share = jobs // self._threads

        def send_some(first: int) -> None:
            for number in range(first, first + share):
                self.side.send(number)

        list(self._pool.map(send_some, range(0, share * self._threads, share)))

    def _wait(self) -> None:
        """Wait until the last job is acknowledged."""
        until_s = time.monotonic() + WITHIN_S
        while self.side.client.hlen(self._bodies):
            if time.monotonic() > until_s:
                raise TimeoutError(f"the worker of {self.side.name} does not get done")
            time.sleep(LOOK_S)  # Its pace: each look costs the worker a little.
