"""Tables of holders: which columns there is room for, and how wide they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dramatiq_unique.cli.wording import clipped, printable, width_of
from dramatiq_unique.explanation import span
from dramatiq_unique.locks import Lock, LockHolder


__all__ = ["NARROWEST", "Row", "Table", "row_of"]

NARROWEST = 40
"""Columns of a terminal that a table needs at least: a digest."""

Row = tuple[str, ...]
_GAP = 2


@dataclass(frozen=True, slots=True)
class _Column:
    """A column.

    Arguments:
        title: What stands above it.
        width: How wide it is where the terminal bounds it.
        rank: Which columns go first where there is not enough room: those of the highest rank; 0 never goes.
    """

    title: str
    width: int
    rank: int = 0


_COLUMNS = (
    _Column("digest", 40),
    _Column("lock", 5, rank=2),
    _Column("state", 8),
    _Column("actor", 14),
    _Column("queue", 12, rank=2),
    _Column("held for", 8),
    _Column("free in", 8, rank=1),
    _Column("process", 20, rank=3),
    _Column("message", 36, rank=4),
)


_ACTOR = 3


def row_of(lock: Lock, holder: LockHolder) -> Row:
    """Write a holder down, with every column, safe to show."""
    cells = (
        lock.digest,
        holder.kind,
        _state(holder),
        holder.actor_name,
        holder.queue_name,
        span(lock.read_ms - holder.since_ms),
        span(holder.until_ms - lock.read_ms),
        f"{holder.host}:{holder.pid}",
        holder.message_id,
    )
    return tuple(printable(cell) for cell in cells)


def _state(holder: LockHolder) -> str:
    return "delayed" if holder.state == "waiting" and holder.delayed else holder.state


class Table:
    """Lays out rows, page by page.

    Arguments:
        width: How many columns the terminal has; ``None`` where nothing bounds a line.
    """

    def __init__(self, width: int | None) -> None:
        self._width = width
        self._shown = _fitting(width)
        self.stacked = not self._shown
        """Whether there is no room for a table, so that the fields of a holder stand below each other."""
        self._widths = [width_of(_COLUMNS[index].title) for index in self._shown]
        self._spare = 0 if width is None else max(width - _width_of(self._shown), 0)

    @property
    def titles(self) -> Sequence[str]:
        """The titles of the columns that are shown."""
        return [_COLUMNS[index].title for index in self._shown]

    def page(self, rows: Sequence[Row]) -> tuple[list[list[str]], list[int]]:
        """Choose and shorten the cells of a page.

        Arguments:
            rows: The rows of the page.

        Returns:
            The cells that are shown, and how wide each column is: never less than on the page before.
        """
        cells = [[self._cell(row, index) for index in self._shown] for row in rows]
        for row in cells:
            self._widths = [max(width, width_of(cell)) for width, cell in zip(self._widths, row, strict=True)]
        return cells, self._widths

    def lines(self, rows: Sequence[Row], *, titled: bool) -> Iterable[str]:
        """Write a page as plain text.

        Arguments:
            rows: The rows of the page.
            titled: Whether the titles stand above it.
        """
        if self.stacked:
            for row in rows:
                for column, cell in zip(_COLUMNS, row, strict=True):
                    yield f"{column.title:<9}{cell}"
                yield ""
            return
        cells, widths = self.page(rows)
        for row_cells in ([list(self.titles)] if titled else []) + cells:
            padded = (cell + " " * (width - width_of(cell)) for cell, width in zip(row_cells, widths, strict=True))
            yield (" " * _GAP).join(padded).rstrip()

    def _cell(self, row: Row, index: int) -> str:
        cell = row[index]
        # A digest is what the other commands are given: it is never shortened.
        if self._width is None or index == 0:
            return cell
        # What is left over is the actor's.
        return clipped(cell, _COLUMNS[index].width + (self._spare if index == _ACTOR else 0))


def _width_of(shown: Iterable[int]) -> int:
    """Say how wide some columns are, with the gaps between them."""
    return sum(_COLUMNS[index].width + _GAP for index in shown) - _GAP


def _fitting(width: int | None) -> list[int]:
    """Choose the columns that there is room for; none where not even the most important fit."""
    shown = list(range(len(_COLUMNS)))
    while width is not None and _width_of(shown) > width:
        last = max(shown, key=lambda index: (_COLUMNS[index].rank, index))
        if _COLUMNS[last].rank == 0:
            return []
        shown.remove(last)
    return shown
