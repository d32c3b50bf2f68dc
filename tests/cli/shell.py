"""The real command, as a process: with pipes, and on a terminal."""

import contextlib
import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from dramatiq_unique.cli import main
from dramatiq_unique.store import URL_VARIABLE


__all__ = ["COMMAND", "ROOT", "Ended", "Terminal", "environment", "run", "run_process", "terminal"]

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "dramatiq_unique"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that says what is wrong, without the command's name."""
        [line] = self.err.splitlines()
        assert line.startswith("dramatiq-unique: "), line
        return line.removeprefix("dramatiq-unique: ")


def environment(url: str, **more: str) -> dict[str, str]:
    """The environment of a command; where nothing else is said, it looks at this Redis."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "CI")}
    own = {URL_VARIABLE: url, "TEST_REDIS_URL": url, "PYTHONPATH": str(ROOT)}
    return {**kept, **own, **more}


def run(url: str, *arguments: str, said: str = "", **more: str) -> Ended:
    """Run a command with pipes: in this process, which is faster, unless it imports a user's module.

    Args:
        url: The Redis.
        arguments: The command and its arguments.
        said: What stands in its standard input.
        more: More of its environment.
    """
    if "--broker" in arguments:
        return run_process(url, *arguments, said=said, **more)
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(url, **more), clear=True),
        mock.patch.object(sys, "stdin", io.StringIO(said)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


def run_process(url: str, *arguments: str, said: str = "", **more: str) -> Ended:
    """Run a command with pipes, in a process of its own.

    Args:
        url: The Redis.
        arguments: The command and its arguments.
        said: What stands in its standard input.
        more: More of its environment.
    """
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=environment(url, **more),
        cwd=ROOT,
        input=said,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A command on a terminal.

    Args:
        process: Its process.
        master: The other end of its terminal.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self._process = process
        self._master = master
        self.shown = ""

    def wait_for(self, text: str, within_s: float = 30) -> None:
        """Wait until something is shown."""
        deadline_s = time.monotonic() + within_s
        while text not in self.shown:
            assert time.monotonic() < deadline_s, f"{text!r} was not shown: {self.shown}"
            assert self._read(1) or self._process.poll() is None, f"{text!r} was not shown: {self.shown}"

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Do what a terminal does at Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def end_by_interrupt(self) -> int:
        """Press Ctrl-C as somebody does who sees a question, again if nothing happens, and give the exit code.

        A signal that comes in the moment before Python begins to read is only looked at when it has read.
        """
        while self._process.poll() is None:
            self.interrupt()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        return self.end()

    def end(self, within_s: float = 30) -> int:
        """Wait until it ends, and give its exit code."""
        deadline_s = time.monotonic() + within_s
        while self._process.poll() is None:
            assert time.monotonic() < deadline_s, f"it does not end: {self.shown}"
            self._read(0.1)
        while self._read(0.1):
            pass
        assert "Traceback" not in self.shown, self.shown
        return self._process.returncode

    def _read(self, within_s: float) -> bool:
        if not select.select([self._master], [], [], within_s)[0]:
            return False
        try:
            read = os.read(self._master, 65_536)
        except OSError:  # Linux: nobody has the other end open.
            return False
        self.shown += read.decode(errors="replace")
        return bool(read)


@contextmanager
def terminal(url: str, *arguments: str, columns: int = 200, lines: int = 40, **more: str) -> Iterator[Terminal]:
    """Run a command on a terminal until the block ends."""
    size = {"COLUMNS": str(columns), "LINES": str(lines), "TERM": "xterm"}
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment(url, **{**size, **more}),
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(master)
