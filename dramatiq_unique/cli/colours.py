"""Tables and progress bars by ``rich``, which comes with the extra ``cli``.

Everything goes in as :class:`rich.text.Text`: nothing that stands in Redis is read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from dramatiq_unique.cli.table import Row, Table


__all__ = ["Colours"]

_STYLES = {"running": "green", "waiting": "yellow", "delayed": "cyan", "window": "blue", "unstored": "magenta"}


class Colours:
    """A terminal that shows colours.

    Arguments:
        stream: The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False)

    def table(self, table: Table, rows: list[Row], *, titled: bool) -> None:
        """Print a page of a table.

        Arguments:
            table: The table.
            rows: The rows of the page.
            titled: Whether the titles stand above it.
        """
        if table.stacked:
            for line in table.lines(rows, titled=titled):
                self.line(line)
        else:
            self._console.print(_drawn(table, rows, titled=titled))

    def line(self, text: str) -> None:
        """Print a line, above whatever changes.

        Arguments:
            text: The line; the terminal breaks it where it is too long.
        """
        self._console.print(Text(text), soft_wrap=True)

    @contextmanager
    def progress(self, total: int, what: str) -> Iterator[Callable[[int], object]]:
        """Show a bar until the block ends, and then nothing of it.

        Arguments:
            total: How many keys there are.
            what: What is done.

        Yields:
            What to tell how many keys were walked.
        """
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True, redirect_stdout=False) as bar:
            task = bar.add_task(what, total=max(total, 1))

            def advance(keys: int) -> None:
                bar.advance(task, keys)

            yield advance

    @contextmanager
    def live(self) -> Iterator[Callable[[str, Table, list[Row]], object]]:
        """Show one table that changes until the block ends.

        Yields:
            What to give a headline and the rows to.
        """
        with Live(console=self._console, auto_refresh=False, redirect_stdout=False) as shown:

            def update(headline: str, table: Table, rows: list[Row]) -> None:
                body = Text("\n".join(table.lines(rows, titled=True))) if table.stacked else _drawn(table, rows)
                shown.update(Group(Text(headline, style="bold"), body), refresh=True)

            yield update


def _drawn(table: Table, rows: list[Row], *, titled: bool = True) -> RichTable:
    cells, widths = table.page(rows)
    drawn = RichTable(box=None, show_header=titled, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for title, width in zip(table.titles, widths, strict=True):
        drawn.add_column(title, min_width=width, no_wrap=True)
    for row in cells:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return drawn
