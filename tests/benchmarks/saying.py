"""What is to be said of the figures, above all where others are faster: sentences that the run itself makes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.budgets import BUDGETS
from tests.benchmarks.digesting import OF_ALL, OF_ONE
from tests.benchmarks.figures import Results, Spread
from tests.benchmarks.limiting import REFUSAL
from tests.benchmarks.locking import OTHERS, OURS
from tests.benchmarks.sides import AT_ENQUEUE, LOCKS, NO_LOCK, REFUSED


__all__ = ["others", "slow"]

NOTICEABLE = 1.05
"""A difference that is smaller is none: the rounds differ by more."""


def others(results: Results) -> Iterator[str]:
    """Say for each other lock whether it is faster, and what it does not do."""
    ours = results.one("lock", OURS)
    for other in OTHERS:
        if other.name == OURS:
            continue
        if other.name not in results.arms("lock"):
            yield f"**{other.name}** was not measured: {results.missing.get(other.name, 'it is not there')}."
            continue
        theirs = results.one("lock", other.name)
        beside = Spread.of([mine / his for mine, his in zip(ours.ratios, theirs.ratios, strict=True)])
        yield f"**{other.name}**: {_verdict(beside)}. Driven by {other.driven}{_without(owner=other.owner)}."


def slow(results: Results) -> Iterator[str]:
    """Say what takes long, or longer than it should."""
    for budget in BUDGETS:
        if not budget.held(results):
            spread, which = budget.spent(results)
            limit, was = budget.shown.format(budget.limit), budget.shown.format(spread.median)
            yield f"Over budget: {budget.name}. It may be {limit}, and is {was}{which and f' ({which})'}."
    takes, refused, without = (_times(results, "send", *arms) for arms in (AT_ENQUEUE, (REFUSED,), (NO_LOCK,)))
    yield (
        f"Than bare Dramatiq: a send that takes a lock takes {takes} its time, one that is refused {refused}, and one "
        f"of an actor without a lock, on a broker with the middleware, {without}. From send to done it is "
        f"{_times(results, 'done', *LOCKS, at=None)}, depending on the lock type and the number of threads."
    )
    most = results.conditions("limit")[-1]
    refusal = results.one("limit", REFUSAL, most).spread.median
    if refusal > NOTICEABLE:
        yield f"A duplicate that is refused by {most:,} holders takes {refusal:.1f} times as long as by one."
    longest = results.conditions("digest")[-1]
    of_all, of_one = (results.one("digest", arm, longest).spread.median for arm in (OF_ALL, OF_ONE))
    yield (
        f"The digest of a text of {longest:,} characters takes {of_all:.2f} times the Python of a whole bare send; "
        f"where {OF_ONE} leaves the text out, {of_one:.2f} times."
    )


def _times(results: Results, bench: str, *arms: str, at: int | None = 1) -> str:
    """Write how many times as long something took, with so many threads or any: the least and the most of the arms."""
    medians = sorted(figure.spread.median for figure in results.of(bench, *arms, at=at))
    least, most = f"{medians[0]:.2f}", f"{medians[-1]:.2f}"
    return f"{least} times" if least == most else f"{least} to {most} times"


def _verdict(beside: Spread) -> str:
    if beside.median > NOTICEABLE:
        return f"we are **slower**, {beside.median:.2f} times its time"
    if beside.median < 1 / NOTICEABLE:
        return f"we are faster, {beside.median:.2f} times its time"
    return f"about the same, {beside.median:.2f} times its time"


def _without(*, owner: bool) -> str:
    return "" if owner else "; it does not compare the owner, so it can let go of another's lock"
