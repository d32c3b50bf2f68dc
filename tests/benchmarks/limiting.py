"""``lock_limit``: the last place of a lock with many holders, and a refusal by all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.benchmarks.counting import counted
from tests.benchmarks.driving import Driver
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.place import Place
from tests.benchmarks.rounds import Batch, alternate, timed
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import Side, locked_by


__all__ = ["LAST_PLACE", "REFUSAL", "limited"]

LAST_PLACE = "a send that takes the last place"
REFUSAL = "a refused duplicate"
BATCH = 8
COUNTED = 5


def limited(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure sends to a lock that has all its holders, or all but one."""
    server = place.server()
    rooms = {limit: Room(limit, place.client(server)) for limit in scale.limits}
    last = {str(limit): partial(room.last_place, BATCH) for limit, room in rooms.items()}
    taken = alternate(last, scale.slow_rounds)
    counts = {limit: room.count_last_place() for limit, room in rooms.items()}
    for limit, (_, ratios) in zip(rooms, beside(taken, str(scale.limits[0])), strict=True):
        yield Figure("limit", LAST_PLACE, limit, ratios, counts[limit])
    for room in rooms.values():
        room.send(0)
    full: dict[str, Batch] = {str(limit): partial(timed, room.send, BATCH) for limit, room in rooms.items()}
    refused = alternate(full, scale.slow_rounds)
    for (limit, room), (_, ratios) in zip(rooms.items(), beside(refused, str(scale.limits[0])), strict=True):
        yield Figure("limit", REFUSAL, limit, ratios, counted(room.client, room.send, COUNTED))


class Room:
    """A lock for so many holders, all but one of which are there.

    Args:
        limit: How many.
        client: The Redis.
    """

    def __init__(self, limit: int, client: Any) -> None:
        self.client = client
        self._side = Side("until_executed", client, lock_limit=limit, queue_name=f"limit-{limit}")
        self._driver = Driver(client, limit)
        for _ in range(limit - 1):
            self.send(0)

    def send(self, _: int) -> Any:
        """Send the job that all are about."""
        return self._side.actor.send(0)

    def last_place(self, times: int) -> float:
        """Take the last place so many times, and leave it; only taking it is timed."""
        took = 0.0
        for _ in range(times):
            began = time.perf_counter()
            message = self.send(0)
            took += time.perf_counter() - began
            self._leave(message)
        return took / times

    def count_last_place(self) -> dict[str, float]:
        """Count what taking it asks of Redis."""
        self._leave(self.send(0))
        sent: list[Any] = []
        counts = counted(self.client, lambda number: sent.append(self.send(0)) if number else None, 1)
        self._leave(sent.pop())
        return counts

    def _leave(self, message: Any) -> None:
        self._driver.let_go(locked_by(message), message.message_id)
