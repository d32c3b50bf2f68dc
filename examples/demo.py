"""Five lock types at a glance: what `make demo` runs.

It starts a Redis of its own and a real `dramatiq` worker process, sends the same bursts under each lock type, and
prints what was sent, refused and run. It exits with 1 if that is not what the lock types promise.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import setting

from dramatiq_unique import outcome


THREADS = 4
ORDER = 7


@dataclass(frozen=True, slots=True)
class Tally:
    """What was seen of one lock type."""

    sent: int
    queued: int
    refused: int
    run: int
    at_once: int


@dataclass(frozen=True, slots=True)
class Act:
    """One lock type: its actor, what it promises for the bursts below, and what that prevented."""

    name: str
    promise: Tally
    prevented: str


ACTS = (
    Act("no_lock", Tally(11, 11, 0, 11, THREADS), "nothing: here to compare"),
    Act("until_executing", Tally(11, 3, 8, 3, 2), "a second copy while one waits"),
    Act("until_executed", Tally(11, 2, 9, 2, 1), "a second copy from send to done"),
    Act("until_expired", Tally(11, 1, 10, 1, 1), "a second copy within the hour"),
    Act("while_executing", Tally(11, 11, 0, 11, 1), "two at once; none is refused"),
    Act("until_and_while_executing", Tally(11, 3, 8, 3, 1), "two waiting, and two at once"),
)


class Show:
    """The bursts, and what became of them.

    Arguments:
        actors: The module of the actors.
        check_worker: Called while waiting; raises where the worker has died.
    """

    def __init__(self, actors: ModuleType, check_worker: Callable[[], None]) -> None:
        self._actors = actors
        self._check_worker = check_worker

    def play(self, act: Act) -> Tally:
        """Send the bursts of one lock type, and count."""
        print(f"\n{act.name}")
        client, broker = self._actors.client, self._actors.broker
        for _ in range(THREADS):
            self._actors.occupy.send(act.name)
        self._wait(lambda: client.llen(f"demo:occupied:{act.name}") == THREADS, "every worker thread to be taken")
        became = self._burst(act, 5, "while every thread is busy")
        self._free_threads(act, 1)
        self._wait(lambda: self._log(act) == ["start"], "the first copy to start")
        became += self._burst(act, 5, "while the first copy runs")
        self._free_threads(act, THREADS - 1)
        self._wait(lambda: len(self._log(act)) >= act.promise.at_once, "other copies to start")
        client.set(f"demo:open:{act.name}", "1")
        setting.drain(broker)
        became += self._burst(act, 1, "after all of that is done")
        setting.drain(broker)
        at_once = max(accumulate(1 if what == "start" else -1 for what in self._log(act)))
        run = self._log(act).count("end")
        print(f"  {run:2} run, at most {at_once} at once")
        return Tally(became.total(), became["enqueued"], became["discarded"], run, at_once)

    def _burst(self, act: Act, size: int, when: str) -> Counter[str]:
        actor = getattr(self._actors, act.name)
        became: Counter[str] = Counter(outcome(actor.send(ORDER)).action for _ in range(size))
        print(f"  {size:2} sent {when:27} {became['enqueued']} queued, {became['discarded']} refused")
        return became

    def _free_threads(self, act: Act, threads: int) -> None:
        self._actors.client.rpush(f"demo:let-go:{act.name}", *["go"] * threads)

    def _log(self, act: Act) -> list[str]:
        lines: list[bytes] = self._actors.client.lrange(f"demo:log:{act.name}", 0, -1)
        return [line.decode().split()[0] for line in lines]

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        def happened_at_last() -> bool:
            self._check_worker()
            return happened()

        setting.wait_until(happened_at_last, what)


def main() -> int:
    """Play every act, and show the table.

    Returns:
        0 if everything was as promised, else 1.
    """
    setting.exit_on_signals()
    os.environ.pop("DRAMATIQ_UNIQUE_URL", None)
    with ExitStack() as stack:
        url = stack.enter_context(setting.private_redis())
        if url:
            os.environ["DRAMATIQ_UNIQUE_URL"] = url
        import demo_actors  # noqa: PLC0415 - connects to the Redis that was only just started

        if url:
            server = demo_actors.client.info("server")
            name = "Valkey" if "valkey_version" in server else "Redis"
            version = server[f"{name.lower()}_version"]
            print(f"A {name} {version} of its own, and a dramatiq worker process with {THREADS} threads.")
            check_worker = stack.enter_context(worker_process())
        else:
            print(f"No redis-server here: the Stub broker, fakeredis, and {THREADS} worker threads in this process.")
            stack.enter_context(setting.worker(demo_actors.broker, threads=THREADS))
            check_worker = _nothing
        show = Show(demo_actors, check_worker)
        tallies = {act: show.play(act) for act in ACTS}
    print_table(tallies)
    broken = [act for act, tally in tallies.items() if tally != act.promise]
    for act in broken:
        print(f"\n{act.name} is not as promised, which is {act.promise}")
    if not broken:
        print("\nAs promised: what was queued has run, and what was refused was a duplicate of it.")
    return 1 if broken else 0


@contextmanager
def worker_process() -> Iterator[Callable[[], None]]:
    """Run `dramatiq` as one would in production, while the block runs.

    Yields:
        A function that raises where the process has ended.
    """
    here = str(Path(__file__).parent)
    command = [sys.executable, "-m", "dramatiq", "demo_actors", "--path", here, "--processes", "1"]
    command += ["--threads", str(THREADS), "--worker-shutdown-timeout", "500"]
    environment = os.environ | {"dramatiq_worker_timeout": "100"}
    with tempfile.TemporaryFile() as log:
        worker = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)  # noqa: S603

        def said() -> str:
            log.seek(0)
            return f"the worker said:\n{log.read().decode()[-3000:]}"

        def check() -> None:
            if worker.poll() is not None:
                raise RuntimeError(f"the worker has ended with {worker.returncode}; {said()}")

        try:
            yield check
        except TimeoutError as exc:
            raise RuntimeError(f"{exc}; {said()}") from None
        finally:
            stop(worker)


def stop(worker: "subprocess.Popen[bytes]") -> None:
    """End the worker gracefully, or in ten seconds."""
    worker.terminate()
    try:
        worker.wait(10)
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, 9)
            worker.wait()


def print_table(tallies: dict[Act, Tally]) -> None:
    """Show every lock type in one line."""
    widths = (25, 4, 6, 7, 3, 12, 31)
    header = ("lock type", "sent", "queued", "refused", "run", "most at once", "what it prevented")
    rows: list[tuple[str, ...]] = [header, tuple("-" * width for width in widths)]
    rows += [(act.name, *map(str, astuple(seen)), act.prevented) for act, seen in tallies.items()]
    print()
    for name, *numbers, prevented in rows:
        columns = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
        print("  ".join([name.ljust(widths[0]), *columns, prevented]))


def _nothing() -> None:
    """Check nothing: the worker is this process."""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
