"""Alternating: in every round every arm has its turn, so that whatever else the machine does hits them alike."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


__all__ = ["Batch", "alternate", "timed"]

Batch = Callable[[], float]
"""Runs one arm for a while, and says how long one operation took, in seconds."""

SEED = 1


def alternate(arms: Mapping[str, Batch], rounds: int) -> dict[str, list[float]]:
    """Run all arms in so many rounds, in another order each time, after one round that does not count.

    Args:
        arms: The arms by name.
        rounds: How many rounds count.

    Returns:
        For each arm, how long one operation took in each round, in seconds.
    """
    chance = random.Random(SEED)  # noqa: S311 - nothing here is a secret
    times: dict[str, list[float]] = {name: [] for name in arms}
    for batch in arms.values():
        batch()
    gc.freeze()  # What is loaded by now is not looked at again and again.
    try:
        for _ in range(rounds):
            for name in chance.sample(list(arms), len(arms)):
                with _no_collection():
                    times[name].append(arms[name]())
    finally:
        gc.unfreeze()
    return times


def timed(operation: Callable[[int], object], times: int, *, clock: Callable[[], float] = time.perf_counter) -> float:
    """Run an operation so many times, each with its number.

    Args:
        operation: What is timed.
        times: How many times.
        clock: What it is timed by.

    Returns:
        How long one took, in seconds.
    """
    began = clock()
    for number in range(times):
        operation(number)
    return (clock() - began) / times


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage before a batch and not in it, as :mod:`timeit` does: it would hit one arm or another."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
