"""What it may cost, and whether it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.figures import Figure, Results, Spread
from tests.benchmarks.locking import OURS
from tests.benchmarks.sides import AT_ENQUEUE, REFUSED


__all__ = ["BUDGETS", "Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """One row: what may cost how much.

    Args:
        name: What.
        limit: How much, at most.
        shown: How a value is written.
        spent: Finds in the results what it was, and which it was where the worst of several counts.
    """

    name: str
    limit: float
    shown: str
    spent: Callable[[Results], tuple[Spread, str]]

    def held(self, results: Results) -> bool:
        """Whether it was no more."""
        return self.spent(results)[0].median <= self.limit


def _worst(figures: list[Figure]) -> tuple[Spread, str]:
    worst = max(figures, key=lambda figure: figure.spread.median)
    return worst.spread, worst.arm


def _own(results: Results) -> tuple[Spread, str]:
    spread, arm = _worst(list(results.of("own", *AT_ENQUEUE)))
    return Spread(spread.median - 1, spread.low - 1, spread.high - 1), arm


def _send(results: Results) -> tuple[Spread, str]:
    return _worst(list(results.of("send", *AT_ENQUEUE, at=1)))


def _refused(results: Results) -> tuple[Spread, str]:
    return results.one("send", REFUSED, 1).spread, ""


def _done(results: Results) -> tuple[Spread, str]:
    worst = max(results.of("done", "until_executed"), key=lambda figure: figure.spread.median)
    return worst.spread, f"threads: {worst.at}"


def _growth(results: Results) -> tuple[Spread, str]:
    return _worst(list(results.of("growth-locks", at=results.conditions("growth-locks")[-1])))


def _lock(results: Results) -> tuple[Spread, str]:
    return results.one("lock", OURS).spread, ""


def _memory(results: Results) -> tuple[Spread, str]:
    heaviest = max(results.of("memory", *AT_ENQUEUE), key=lambda figure: figure.counts["bytes"])
    return Spread.of([heaviest.counts["bytes"]]), heaviest.arm


BUDGETS = (
    Budget("Python's own time added to a send, Redis aside, beside that of a bare send", 0.40, "{:.0%}", _own),
    Budget("a send that takes a lock, beside a bare send", 1.3, "{:.2f}", _send),
    Budget("`until_executed` from send to done, beside bare Dramatiq, one worker process", 1.5, "{:.2f}", _done),
    Budget("a refused duplicate, beside a bare send", 1.1, "{:.2f}", _refused),
    Budget("any operation beside the most locks, beside the same with the fewest", 1.3, "{:.2f}", _growth),
    Budget("one lock and its release, beside `SET NX PX` and compare-and-delete", 1.5, "{:.2f}", _lock),
    Budget("memory of a lock, in bytes", 400, "{:.0f}", _memory),
)
