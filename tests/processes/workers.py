"""Real ``dramatiq`` worker processes, and producers of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


ROOT = Path(__file__).parents[2]


def environment(url: str, **more: str) -> dict[str, str]:
    """The environment of a process that uses the jobs of these tests."""
    return {**os.environ, "TEST_REDIS_URL": url, "PYTHONPATH": str(ROOT), **more}


@contextmanager
def dramatiq_worker(
    url: str, *, processes: int = 1, threads: int = 4, module: str = "tests.processes.jobs", **more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the ``dramatiq`` command; it is ended with the block, and killed if it does not end.

    Args:
        url: The Redis of broker and locks.
        processes: How many worker processes.
        threads: How many threads in each.
        module: Where the actors are.
        more: More of its environment.
    """
    command = [sys.executable, "-m", "dramatiq", module, "-p", str(processes), "-t", str(threads)]
    command += ["--worker-shutdown-timeout", "5000"]
    process = subprocess.Popen(command, env=environment(url, **more), cwd=ROOT, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
