"""How much of everything: a full run, and the same in small."""

from dataclasses import dataclass


__all__ = ["FULL", "QUICK", "Scale"]


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a run.

    Args:
        name: Its name.
        rounds: In how many rounds the arms alternate.
        batch: How many operations an arm does at its turn.
        threads: With how many threads it is sent and worked.
        slow_rounds: Rounds of what takes long: real workers, and locks with many holders.
        jobs: How many jobs a worker process has at its turn.
        locks: How many locks are held.
        messages: How many messages are queued.
        growth_batch: How many operations at a turn there; what is healed is prepared for all rounds, and has to be
            within the smallest number of locks.
        growth_rounds: How many rounds there.
        limits: Which ``lock_limit``.
        running: How many jobs run whose leases are renewed.
        arguments: How large an argument is, in characters.
        weighed: How many locks are put on the scales together.
    """

    name: str
    rounds: int
    batch: int
    threads: tuple[int, ...]
    slow_rounds: int
    jobs: int
    locks: tuple[int, ...]
    messages: tuple[int, ...]
    growth_batch: int
    growth_rounds: int
    limits: tuple[int, ...]
    running: tuple[int, ...]
    arguments: tuple[int, ...]
    weighed: int


FULL = Scale(
    name="full",
    rounds=150,
    batch=96,
    threads=(1, 4, 16),
    slow_rounds=25,
    jobs=320,
    locks=(1_000, 10_000, 100_000, 1_000_000),
    messages=(1_000, 10_000, 100_000, 500_000),
    growth_batch=20,
    growth_rounds=45,
    limits=(1, 10, 100, 1_000),
    running=(1, 10, 100),
    arguments=(10, 1_000, 10_000, 100_000),
    weighed=100_000,
)

QUICK = Scale(
    name="quick",
    rounds=5,
    batch=16,
    threads=(1, 4),
    slow_rounds=2,
    jobs=16,
    locks=(100, 1_000),
    messages=(100, 1_000),
    growth_batch=4,
    growth_rounds=4,
    limits=(1, 10),
    running=(1, 10),
    arguments=(10, 1_000),
    weighed=1_000,
)
