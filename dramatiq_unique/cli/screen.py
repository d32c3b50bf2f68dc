"""Where a command writes: lines and tables for people, JSON for programs, and a word about what is wrong."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, TextIO

from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.cli.table import NARROWEST, Row, Table
from dramatiq_unique.cli.wording import printable, without_passwords


__all__ = ["Screen", "standard"]

_PAGE = 200
_MANY = 5000
_PROGRAM = "dramatiq-unique"
_FEWEST_ROWS = 5
_AROUND_A_TABLE = 4
Advance = Callable[[int], object]


class _Colours(Protocol):
    """What :mod:`dramatiq_unique.cli.colours` offers, where ``rich`` is installed."""

    def table(self, table: Table, rows: list[Row], *, titled: bool) -> None:
        """Print a page of a table."""

    def line(self, text: str) -> None:
        """Print a line, above whatever changes."""

    def progress(self, total: int, what: str) -> contextlib.AbstractContextManager[Advance]:
        """Show a bar until the block ends."""

    def live(self) -> contextlib.AbstractContextManager[Callable[[str, Table, list[Row]], object]]:
        """Show one table that changes until the block ends."""


class Screen:
    """The output of one command.

    Arguments:
        out: Where what was asked for goes.
        err: Where everything else goes.
        as_json: Whether a program reads it.
    """

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool = False) -> None:
        self._out = out
        self._err = err
        self.as_json = as_json
        self._colours = _colours(out) if not as_json and _is_terminal(out) else None
        self._moving = False
        self._bars = self._colours or (_colours(err) if not _is_terminal(out) and _is_terminal(err) else None)

    @property
    def width(self) -> int | None:
        """How many columns a line may have; ``None`` where it is no terminal, and ``COLUMNS`` does not say."""
        said = os.environ.get("COLUMNS", "")
        if said.isdecimal() and int(said):
            return int(said)
        return shutil.get_terminal_size().columns if _is_terminal(self._out) else None

    def table_for_people(self) -> Table | None:
        """Make a table, unless it is JSON that is wanted.

        Raises:
            Stop: The terminal is too narrow.
        """
        return None if self.as_json else self.table()

    def table(self) -> Table:
        """Make a table.

        Raises:
            Stop: The terminal is too narrow.
        """
        width = self.width
        if width is not None and width < NARROWEST:
            raise Stop(
                f"the terminal has {width} columns, and a table needs {NARROWEST}; make it wider, or use --json",
                Exit.USAGE,
            )
        return Table(width)

    def say(self, text: str = "") -> None:
        """Print a line for people."""
        self._out.write(f"{printable(text)}\n")
        self._out.flush()

    def json(self, found: dict[str, Any]) -> None:
        """Print a line for programs."""
        self._out.write(f"{json.dumps(found)}\n")
        self._out.flush()

    def note(self, text: str) -> None:
        """Say something that is not what was asked for."""
        text = without_passwords(printable(text))
        if self._moving and self._bars is not None and _is_terminal(self._err):
            self._bars.line(text)  # Else it would stand in the middle of the bar.
            return
        self._err.write(f"{text}\n")
        self._err.flush()

    def asked(self, question: str) -> str:
        """Ask on the terminal; the end of the input is no answer."""
        self._err.write(question)
        self._err.flush()
        answer = ""
        try:
            answer = sys.stdin.readline()
        finally:
            if not answer.endswith("\n"):
                self._err.write("\n")
        return answer

    def complain(self, text: str) -> None:
        """Say what is wrong, in one line."""
        self.note(f"{_PROGRAM}: {text}")

    def rows(self, table: Table, rows: Iterable[Row]) -> int:
        """Print a table, page by page.

        Returns:
            How many rows it had.
        """
        source, count = iter(rows), 0
        while page := list(islice(source, _PAGE)):
            if self._colours is not None:
                self._colours.table(table, page, titled=not count)
            else:
                self._out.writelines(f"{line}\n" for line in table.lines(page, titled=not count))
                self._out.flush()
            count += len(page)
        return count

    @contextlib.contextmanager
    def progress(self, total: Callable[[], int], what: str) -> Iterator[Advance | None]:
        """Show how far a walk is, where there are many keys and a terminal that it does not disturb.

        Arguments:
            total: Counts the keys to walk; only asked where it is shown.
            what: What is done.

        Yields:
            What to tell how many keys were walked.
        """
        keys = 0 if self._bars is None else total()
        if self._bars is None or keys < _MANY:
            yield None
            return
        with self._bars.progress(keys, what) as advance:
            self._moving = True
            try:
                yield advance
            finally:
                self._moving = False

    @contextlib.contextmanager
    def live(self) -> Iterator[Callable[[str, Table, list[Row]], object]]:
        """Show a table that changes: in place on a terminal with colours, one below the other elsewhere.

        Yields:
            What to give a headline and the rows to.
        """
        if self._colours is None:
            yield self._one_below_the_other
            return
        with self._colours.live() as update:

            def shown(headline: str, table: Table, rows: list[Row]) -> None:
                update(printable(headline), table, rows)

            yield shown

    @property
    def height(self) -> int:
        """How many rows there is room for at once."""
        return max(shutil.get_terminal_size().lines - _AROUND_A_TABLE, _FEWEST_ROWS)

    def _one_below_the_other(self, headline: str, table: Table, rows: list[Row]) -> None:
        self.say(headline)
        self._out.writelines(f"{line}\n" for line in table.lines(rows, titled=True))
        self.say()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _colours(stream: TextIO) -> _Colours | None:
    """Use ``rich`` where it is installed, and the terminal is one that understands it."""
    if os.environ.get("TERM") == "dumb":
        return None
    try:
        from dramatiq_unique.cli.colours import Colours  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    return Colours(stream)


def standard() -> tuple[TextIO, TextIO]:
    """Take the process's own streams; what they cannot encode is written out instead of raised.

    Python has none in the place of one that was closed before it began (``>&-``).
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    out: TextIO | None = sys.stdout
    err: TextIO | None = sys.stderr
    return out or _Closed(), err or _Closed(complains=False)


class _Closed(io.StringIO):
    def __init__(self, *, complains: bool = True) -> None:
        super().__init__()
        self._complains = complains

    def write(self, text: str) -> int:
        if self._complains:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return len(text)
