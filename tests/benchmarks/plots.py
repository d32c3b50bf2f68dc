"""The plots, as SVG whose text is text: everything from the results, nothing from the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tests.benchmarks.benches import BENCHES, Table
from tests.benchmarks.figures import Results


__all__ = ["drawn"]

WIDTH = 8.0
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dramatiq-unique",  # The same figures give the same file.
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
COLOURS = ("#1f5a8a", "#5b9bd0", "#a9cdea")
MARKS = "osD^v"


def drawn(results: Results, folder: Path) -> list[Path]:
    """Draw every table that has a plot.

    Args:
        results: What was found.
        folder: Where the plots go, each by the name of its figures.

    Returns:
        What was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(STYLE):
        for table in (table for bench in BENCHES for table in bench.tables if table.plot):
            canvas = _bars(table, results) if table.plot == "bars" else _lines(table, results)
            written.append(folder / f"{table.figures}.svg")
            canvas.savefig(written[-1], format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            _end_lines(written[-1])
    return written


def _bars(table: Table, results: Results) -> Canvas:
    """Draw a bar for each arm and condition, from top to bottom, and the middle half of the rounds on it."""
    arms, conditions = results.arms(table.figures), results.conditions(table.figures)
    thick = 0.8 / len(conditions)
    canvas, axes = _sheet(0.6 + 0.42 * len(arms) * max(1.0, 0.6 * len(conditions)))
    for place, at in enumerate(conditions):
        spreads = [results.one(table.figures, arm, at).spread for arm in arms]
        middle = [spread.median for spread in spreads]
        around = [[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]]
        where = [row + place * thick for row in range(len(arms))]
        label = f"{table.across}: {at}" if table.across else None
        axes.barh(where, middle, thick, xerr=around, color=COLOURS[place % 3], ecolor="#555555", label=label)
    axes.set_yticks(
        [row + thick * (len(conditions) - 1) / 2 for row in range(len(arms))], [_plain(arm) for arm in arms]
    )
    axes.invert_yaxis()
    axes.axvline(1, color="#555555", linewidth=0.8, linestyle="--")
    axes.set_xlabel("times the reference (less is better)")
    if table.across:
        axes.legend(frameon=False)
    return canvas


def _lines(table: Table, results: Results) -> Canvas:
    """Draw a line for each arm over the conditions, and the middle half of the rounds around it."""
    canvas, axes = _sheet(3.4)
    for mark, arm in zip(MARKS, results.arms(table.figures), strict=False):
        figures = list(results.of(table.figures, arm))
        across = [figure.at for figure in figures]
        [line] = axes.plot(across, [figure.spread.median for figure in figures], marker=mark, label=_plain(arm))
        low, high = [figure.spread.low for figure in figures], [figure.spread.high for figure in figures]
        axes.fill_between(across, low, high, alpha=0.15, color=line.get_color(), linewidth=0)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.axhline(1, color="#555555", linewidth=0.8, linestyle="--")
    axes.set_xlabel(table.across)
    axes.set_ylabel("times the reference")
    axes.legend(frameon=False, fontsize="small")
    return canvas


def _sheet(height: float) -> tuple[Canvas, Axes]:
    canvas = Canvas(figsize=(WIDTH, height))
    return canvas, canvas.add_subplot()


def _plain(arm: str) -> str:
    return arm.replace("`", "")


def _end_lines(path: Path) -> None:
    """Take the blanks away that matplotlib leaves at the ends of lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*(line.rstrip() for line in lines), ""]), encoding="utf-8")
