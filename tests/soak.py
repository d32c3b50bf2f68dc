"""Producers, workers, and somebody who kills workers: is anything lost, run twice at once, or left locked?

    python -m tests.soak --seconds 400 --kills 200 --seed 1

It runs on a Redis of its own, prints a table, and ends with 1 where an accepted message was never run to its end (nor
merged into a newer copy that was), two runs under one run lock overlapped, or a lock was left when all was quiet.

A run that its worker's death cut short is over when the worker was killed. A worker that is too slow to keep its leases
(a busy machine) loses them, says ``lease_lost``, and what then overlaps is counted apart: that is the contract.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import redis

from tests.processes.soaked import LEASE_S, LOCKS, STOP
from tests.processes.workers import ROOT, DramatiqWorker, environment
from tests.rig import PREFIX
from tests.servers import RedisServer


WORKERS = 3
THREADS = 4
PRODUCERS = 2
RATE = 12.0
"""Jobs a second, from each producer."""

QUIET_WITHIN_S = 60.0
NEVER = (float("inf"), 0)
RUN_LOCKS = ("while_executing", "until_and_while_executing")


@dataclass
class Run:
    """One run of one job; ``ended`` is never while nothing is known of its end.

    Times are milliseconds of the server's clock, and the place among what happened in the same millisecond.
    """

    lock: str
    key: str
    message: str
    worker: str
    started: tuple[float, int]
    ended: tuple[float, int]
    finished: bool = False


@dataclass
class Row:
    """What is known of one lock type."""

    sent: int = 0
    accepted: int = 0
    refused: int = 0
    runs: int = 0
    cut_short: int = 0
    again: int = 0
    merged: int = 0
    lost: int = 0
    overlaps: int = 0
    after_lost_lease: int = 0


@dataclass
class Verdict:
    """What came of it."""

    rows: dict[str, Row]
    kills: int
    told: dict[str, int]
    left: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether all was as promised."""
        lost = sum(row.lost for row in self.rows.values())
        return not lost and not self.left and not any(self.rows[lock].overlaps for lock in RUN_LOCKS)

    def table(self) -> str:
        """Show it."""
        names = list(vars(Row()))
        lines = ["".join([f"{'':26}", *(f"{name.replace('_', ' '):>17}" for name in names)])]
        for lock, row in self.rows.items():
            lines.append("".join([f"{lock:26}", *(f"{getattr(row, name):>17}" for name in names)]))
        told = ", ".join(f"{name} {count}" for name, count in sorted(self.told.items())) or "nothing"
        lines += [f"kills {self.kills}; told: {told}; locks left: {len(self.left)}", *self.left]
        return "\n".join([*lines, "good" if self.good else "NOT GOOD"]) + "\n"


class Crew:
    """Workers that are killed one by one, each followed by a new one.

    Args:
        url: The Redis of everything.
        client: A client of it.
        log: Where their logs go.
    """

    def __init__(self, url: str, client: Any, log: IO[bytes]) -> None:
        self._url = url
        self._client = client
        self._log = log
        self._hired = 0
        self._workers: dict[str, DramatiqWorker] = {}
        for _ in range(WORKERS):
            self._hire()

    def kill_one(self, chance: random.Random) -> None:
        """Kill one of them, note it, and start another."""
        name = chance.choice(sorted(self._workers))
        seconds, microseconds = self._client.time()
        self._workers.pop(name).kill()
        self._client.hset("killed", name, seconds * 1000 + microseconds / 1000)
        self._hire()

    def end(self) -> None:
        """Kill them all; nobody is looking any more."""
        for worker in self._workers.values():
            worker.kill()

    def _hire(self) -> None:
        self._hired += 1
        name = f"worker-{self._hired}"
        own = environment(self._url, TEST_WORKER=name)
        self._workers[name] = DramatiqWorker("tests.processes.soaked:work", own, threads=THREADS, log=self._log)


def soak(seconds: float, kills: int, seed: int, log: IO[bytes]) -> Verdict:
    """Let it run.

    Args:
        seconds: How long there are producers, in seconds.
        kills: How many workers are killed meanwhile.
        seed: What makes the choices.
        log: Where the workers' logs go.

    Returns:
        What came of it.
    """
    chance = random.Random(seed)  # noqa: S311 - nothing here is a secret
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer())
        client: Any = stack.enter_context(redis.Redis.from_url(server.url, decode_responses=True))
        crew = Crew(server.url, client, log)
        stack.callback(crew.end)
        with _producers(server.url, client, seed):
            until_s = time.monotonic() + seconds
            for left in range(kills, 0, -1):
                pause_s = (until_s - time.monotonic()) / left
                time.sleep(max(0.0, chance.uniform(0.5, 1.5) * pause_s))  # Its rate, not a wait for something.
                crew.kill_one(chance)
            time.sleep(max(0.0, until_s - time.monotonic()))
        _wait(lambda: _waiting(client) == 0, QUIET_WITHIN_S)
        _wait(lambda: not _left(client), LEASE_S + 1)
        return Verdict(_count(client), kills, {k: int(v) for k, v in client.hgetall("told").items()}, _left(client))


@contextmanager
def _producers(url: str, client: Any, seed: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.processes.soaked", url, str(RATE)]
    producers = [
        subprocess.Popen([*command, str(seed * PRODUCERS + number)], env=environment(url), cwd=ROOT)
        for number in range(PRODUCERS)
    ]
    try:
        yield
    finally:
        client.set(STOP, 1)
        for producer in producers:
            if producer.wait(20):
                raise RuntimeError("a producer failed")


def _wait(predicate: Any, within_s: float) -> None:
    """Wait until something is true, but no longer; the verdict says what is not."""
    until_s = time.monotonic() + within_s
    while not predicate() and time.monotonic() < until_s:
        time.sleep(0.05)


def _waiting(client: Any) -> int:
    return sum(client.hlen(f"dramatiq:{queue}.msgs") for queue in ("default", "default.DQ"))


def _left(client: Any) -> list[str]:
    return sorted(f"{key}: {client.hgetall(key)}" for key in client.scan_iter(f"{PREFIX}:*"))


def _count(client: Any) -> dict[str, Row]:
    rows = {lock: Row() for lock in LOCKS}
    runs = _runs(client)
    lost_leases, merged = client.smembers("lost leases"), client.hgetall("merged")
    for lock, row in rows.items():
        accepted = client.smembers(f"accepted:{lock}")
        row.accepted, row.refused = len(accepted), int(client.hget("refused", lock) or 0)
        row.sent = row.accepted + row.refused
        mine = [run for run in runs if run.lock == lock]
        times = Counter(run.message for run in mine if run.finished)
        row.runs = len(mine)
        row.cut_short = sum(not run.finished for run in mine)
        row.again = sum(count - 1 for count in times.values())
        unfinished = accepted - times.keys()
        row.lost = sum(_does_the_work(message, merged) not in times for message in unfinished)
        row.merged = len(unfinished) - row.lost
        for first, _second in _overlaps(mine):
            if first.message in lost_leases:
                row.after_lost_lease += 1
            else:
                row.overlaps += 1
    return rows


def _runs(client: Any) -> list[Run]:
    """Read what ran, in order; what a killed worker ran is over when it was killed."""
    killed = {name: (float(at_ms), 0) for name, at_ms in client.hgetall("killed").items()}
    runs: list[Run] = []
    under_way: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for id_, entry in client.xrange("runs"):
        milliseconds, place = id_.split("-")
        at = float(milliseconds), int(place)
        mine = under_way[entry["worker"], entry["message"]]
        if entry["what"] == "started":
            over = killed.get(entry["worker"], NEVER)
            run = Run(entry["lock"], entry["key"], entry["message"], entry["worker"], at, over)
            runs.append(run)
            mine.append(run)
        else:
            run = mine.pop(0)
            run.ended, run.finished = at, True
    return runs


def _does_the_work(message: str, merged: dict[str, str]) -> str:
    """Follow a message to the newer copy that it was merged into, which waited then, and does its work."""
    seen = set()
    while message in merged and message not in seen:
        seen.add(message)
        message = merged[message]
    return message


def _overlaps(runs: list[Run]) -> Iterator[tuple[Run, Run]]:
    """Find each run that began before an earlier one of the same key was over."""
    latest: dict[str, Run] = {}
    for run in runs:
        before = latest.get(run.key)
        if before is not None and run.started < before.ended:
            yield before, run
        if before is None or run.ended > before.ended:
            latest[run.key] = run


def main() -> int:
    """Run it from a shell."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400.0, help="how long there are producers")
    parser.add_argument("--kills", type=int, default=200, help="how many workers are killed meanwhile")
    parser.add_argument("--seed", type=int, default=1, help="what makes the choices")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as output:
            verdict = soak(given.seconds, given.kills, given.seed, output)
        sys.stdout.write(verdict.table())
        if not verdict.good:
            wrong = [line for line in log.read_text(errors="replace").splitlines() if "CRITICAL" in line]
            sys.stdout.write("\n".join(["what the workers found critical:", *wrong[:20]]) + "\n")
    return 0 if verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
