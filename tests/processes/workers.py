"""Real ``dramatiq`` worker processes, and producers of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO


ROOT = Path(__file__).parents[2]


def environment(url: str, **more: str) -> dict[str, str]:
    """The environment of a process that uses the jobs of these tests.

    Its consumers ask for messages ten times a second, which is also how often the Redis broker hears its heartbeat.
    """
    own = {"TEST_REDIS_URL": url, "PYTHONPATH": str(ROOT), "dramatiq_worker_timeout": "100"}
    return {**os.environ, **own, **more}


class DramatiqWorker:
    """The ``dramatiq`` command and its worker processes, in a process group of their own.

    Args:
        target: The module with the actors, or ``module:function`` where the function makes the broker.
        environment: Its environment.
        processes: How many worker processes.
        threads: How many threads in each.
        arguments: More of its arguments.
        log: Where its log goes; by default, where the test's own standard error goes.
    """

    def __init__(
        self,
        target: str,
        environment: dict[str, str],
        *,
        processes: int = 1,
        threads: int = 4,
        arguments: Sequence[str] = (),
        log: IO[bytes] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "dramatiq", target, "-p", str(processes), "-t", str(threads)]
        command += ["--worker-shutdown-timeout", "5000", *arguments]
        self._process = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill everything at once (``SIGKILL``); nothing if it has ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def suspend(self) -> None:
        """Stop everything where it is (``SIGSTOP``)."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (``SIGCONT``)."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def shut_down(self, within_s: float = 20) -> None:
        """End it as a deploy does (``SIGTERM``), and kill it if it does not end; nothing if it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(within_s)
            except subprocess.TimeoutExpired:
                self.kill()


@contextmanager
def dramatiq_worker(url: str, *, processes: int = 1, threads: int = 4, **more: str) -> Iterator[DramatiqWorker]:
    """Work on the actors in :mod:`tests.processes.jobs` until the block ends.

    Args:
        url: The Redis of broker and locks.
        processes: How many worker processes.
        threads: How many threads in each.
        more: More of its environment.
    """
    worker = DramatiqWorker("tests.processes.jobs", environment(url, **more), processes=processes, threads=threads)
    try:
        yield worker
    finally:
        worker.kill()
