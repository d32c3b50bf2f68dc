"""What the digest costs, beside the Python of a bare send of the same arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.benchmarks.driving import digester
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.place import Place
from tests.benchmarks.replayed import replaying
from tests.benchmarks.rounds import Batch, alternate, timed
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import BARE, Side
from tests.servers import HOST


__all__ = ["OF_ALL", "OF_ONE", "digested"]

OF_ALL = "all arguments count"
OF_ONE = '`lock_args=["number"]`'
BATCH = 24


def digested(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure the digest by the CPU time of its thread."""
    side = Side(BARE, replaying(HOST, place.server().port))
    for size in scale.arguments:
        args = (42, _text(size))
        calls: dict[str, Callable[[int], object]] = {
            BARE: partial(_send, side, args),
            OF_ALL: digester(side.actor.fn, args),
            OF_ONE: digester(side.actor.fn, args, ["number"]),
        }
        side.client.learn()
        calls[BARE](0)
        side.client.replay()
        arms: dict[str, Batch] = {
            name: partial(timed, call, BATCH, clock=time.thread_time) for name, call in calls.items()
        }
        for name, ratios in beside(alternate(arms, scale.rounds), BARE):
            if name != BARE:
                yield Figure("digest", name, size, ratios)


def _send(side: Side, args: tuple[Any, ...], _: int) -> None:
    side.actor.send(*args)


def _text(size: int) -> str:
    words = "a note that somebody wrote, with a line break\n and an é "
    return (words * (size // len(words) + 1))[:size]
