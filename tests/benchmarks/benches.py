"""The table of benches: what is measured, how, and how its figures are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.benchmarks.digesting import digested
from tests.benchmarks.figures import Figure
from tests.benchmarks.growing import grown_locks, grown_messages
from tests.benchmarks.limiting import limited
from tests.benchmarks.locking import locked
from tests.benchmarks.place import Place
from tests.benchmarks.renewing import renewed
from tests.benchmarks.scale import Scale
from tests.benchmarks.sending import own, sent
from tests.benchmarks.weighing import weighed
from tests.benchmarks.working import worked


__all__ = ["BENCHES", "Bench", "Table"]


@dataclass(frozen=True, slots=True)
class Table:
    """How the figures of one name are shown: a row for each arm, a column for each condition.

    Args:
        figures: Their name.
        arm: The head of the first column.
        condition: The head of the column of one condition, which takes its number; or of the only one.
        counts: What was counted, and the heads of its columns.
        plot: How they are drawn, if they are.
        across: What the conditions are, under the plot.
    """

    figures: str
    arm: str
    condition: str = "time"
    counts: tuple[tuple[str, str], ...] = ()
    plot: Literal["bars", "lines"] | None = None
    across: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """One row: what is measured, and how it is shown.

    Args:
        title: The head of its section.
        measured: What is measured, and what is 1.
        run: Measures it.
        tables: How it is shown.
    """

    title: str
    measured: str
    run: Callable[[Scale, Place], Iterator[Figure]]
    tables: tuple[Table, ...]


_AT_REDIS = (("trips", "round trips"), ("commands", "commands at Redis"))

BENCHES = (
    Bench(
        "A send",
        "One `send` on the Redis broker, by the clock; 1 is the same send by bare Dramatiq, without the middleware. "
        "Every send is of another job, except the refused ones. With several threads, they send at once.",
        sent,
        (Table("send", "send", "threads: {}", _AT_REDIS, "bars", "threads"),),
    ),
    Bench(
        "Python's own time of a send",
        "The CPU time of the thread that sends; 1 is that of a bare send. First without any Redis: the socket of the "
        "driver answers at once what the server answered before, so all the Python is in it, the driver's too, and "
        "nothing else. Then with Redis: the kernel's share of the socket is in it as well.",
        own,
        (
            Table("own", "send, without Redis", "CPU time", plot="bars"),
            Table("own-with-redis", "send, with Redis", "CPU time"),
        ),
    ),
    Bench(
        "From send to done",
        "So many jobs that do nothing are sent, then one worker process runs them all, from the first send to the last "
        "acknowledgement; 1 is bare Dramatiq. As many threads work as send. With few threads a worker mostly sleeps: "
        "Dramatiq's consumer has no place for more messages then, and looks again later; here, after a millisecond at "
        "most. The counts are of one job, with what the worker's polling adds.",
        worked,
        (Table("done", "job", "threads: {}", _AT_REDIS, "bars", "threads"),),
    ),
    Bench(
        "One lock and its release",
        "Taken and let go by one thread, and nothing else: no job, no digest; 1 is what one would write by hand. Each "
        "of the others is driven by its locking part alone.",
        locked,
        (Table("lock", "one lock and its release", "time", _AT_REDIS, "bars"),),
    ),
    Bench(
        "Many locks",
        "The same operations beside so many held locks; 1 is beside the fewest. *Heal* is a send that takes over the "
        "lock of a message that is gone. *Release* is what the worker does at the end.",
        grown_locks,
        (Table("growth-locks", "operation", "locks: {}", _AT_REDIS, "lines", "held locks"),),
    ),
    Bench(
        "Many messages",
        "The same operations beside so many queued messages; 1 is beside the fewest.",
        grown_messages,
        (Table("growth-messages", "operation", "messages: {}", _AT_REDIS, "lines", "queued messages"),),
    ),
    Bench(
        "Many holders",
        "A lock with `lock_limit` holders, or all but one; 1 is a limit of one.",
        limited,
        (Table("limit", "send", "limit: {}", _AT_REDIS, "lines", "lock_limit"),),
    ),
    Bench(
        "The digest",
        "The digest of a message with one text of so many characters beside a number; 1 is the Python of a whole bare "
        "send of the same arguments, without Redis.",
        digested,
        (Table("digest", "digest", "characters: {}", plot="lines", across="characters"),),
    ),
    Bench(
        "Memory",
        "Bytes in Redis for each held lock: of its key alone (`MEMORY USAGE`), and of many together divided by their "
        "number (`used_memory`), with Redis's own tables.",
        weighed,
        (
            Table(
                "memory", "lock", "", (("bytes", "bytes of its key"), ("bytes_together", "bytes with Redis's tables"))
            ),
        ),
    ),
    Bench(
        "Renewal",
        "The locks of running jobs are renewed by one thread for each worker process, every 10 seconds by default; 1 "
        "is one bare send. The share is of one core's time, even if everything that waits for the renewal is counted. "
        "Round trips are counted as reads by the server, which reads a large pipeline in pieces.",
        renewed,
        (
            Table(
                "renewal",
                "renewal",
                "running: {}",
                (*_AT_REDIS, ("share", "share of one core")),
            ),
        ),
    ),
)
