"""The page: everything from the results, nothing from the run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tests.benchmarks.benches import BENCHES, Bench, Table
from tests.benchmarks.budgets import BUDGETS
from tests.benchmarks.figures import Figure, Results
from tests.benchmarks.saying import others, slow


__all__ = ["rendered"]

HEAD = """\
# What it costs

Every figure here is a ratio or a count, and all are from one run of `make bench`, which anyone can repeat. A ratio is
of times that were taken side by side: in each round every arm has its turn, in another order, and is divided by what it
is compared with in the same round. What stands in a table is the median of the rounds, and behind it, in parentheses,
the half of the rounds around it (the first and the third quartile). Counts are Redis's own (`INFO`), those inside of
scripts included. Garbage is collected between the turns, and not in them; Dramatiq's maintenance, which it does in one
command of a thousand, is off.
"""

REPEAT = """\
## Repeat it

```console
$ make bench                       # this page, in about a quarter of an hour, on a machine that does nothing else
$ make bench BENCH_ARGS=--quick    # the same in small, to see that it works: a minute, and no page
$ .venv/bin/python -m tests.benchmarks --json cost.json --page cost.md    # to another place
```

The run starts Redis servers of its own on free ports, and stops them. Every ratio of every round is in
[`{results}`]({folder}/{results}). The benchmark is in `tests/benchmarks/`, a row for each section above in its
`benches.py`.
"""


def rendered(results: Results, *, folder: str, json_name: str, plots: bool) -> str:
    """Write the page.

    Args:
        results: What was found.
        folder: Where results and plots are, seen from the page.
        json_name: The name of the results there.
        plots: Whether there are plots.
    """
    parts = [HEAD, *_quick(results), _budgets(results), _said(results)]
    parts += [_section(bench, results, folder, plots=plots) for bench in BENCHES]
    parts += [_machine(results), REPEAT.format(results=json_name, folder=folder)]
    return "\n".join(parts)


def _quick(results: Results) -> Iterator[str]:
    if results.scale == "quick":
        yield "**This page is from a quick run, which shows that the benchmark works, and nothing else.**\n"


def _budgets(results: Results) -> str:
    rows = []
    for budget in BUDGETS:
        spread, which = budget.spent(results)
        low, median, high = (budget.shown.format(value) for value in (spread.low, spread.median, spread.high))
        spent = median if low == high else f"{median} ({low} to {high})"
        verdict = "held" if budget.held(results) else "**missed**"
        rows.append((budget.name, f"≤ {budget.shown.format(budget.limit)}", spent + (which and f", {which}"), verdict))
    return "\n".join(["## Budgets\n", *_table(("what", "budget", "this run", "verdict"), rows)])


def _said(results: Results) -> str:
    lines = ["## Where we are slower, and than whom\n", *_points(slow(results)), ""]
    lines += ["One lock and its release, beside that of others:\n", *_points(others(results)), ""]
    return "\n".join(lines)


def _section(bench: Bench, results: Results, folder: str, *, plots: bool) -> str:
    lines = [f"## {bench.title}\n", *_wrapped(bench.measured), ""]
    for table in bench.tables:
        lines += _figures(table, results)
        if table.plot and plots:
            lines += [f"![{bench.title}: the figures of the table]({folder}/{table.figures}.svg)", ""]
    return "\n".join(lines)


def _figures(table: Table, results: Results) -> list[str]:
    conditions = results.conditions(table.figures) if table.condition else []
    heads = [table.arm, *(table.condition.format(f"{at:,}") for at in conditions), *(head for _, head in table.counts)]
    rows = []
    for arm in results.arms(table.figures):
        figures = list(results.of(table.figures, arm))
        times = [_ratio(figure) for figure in figures if figure.ratios]
        rows.append((arm, *times, *(_counted(name, figures) for name, _ in table.counts)))
    return _table(heads, rows)


def _ratio(figure: Figure) -> str:
    spread = figure.spread
    if spread.low == spread.high:
        return f"{spread.median:.2f}"
    return f"{spread.median:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def _counted(name: str, figures: list[Figure]) -> str:
    """Write a count once if it is the same under all conditions, else for the first and the last one."""
    shown = [_count(name, figure.counts[name]) for figure in figures if name in figure.counts]
    return shown[0] if len(set(shown)) == 1 else f"{shown[0]} … {shown[-1]}"


def _count(name: str, count: float) -> str:
    if name == "share":
        return f"{count:.3%}"
    return f"{count:,.0f}" if count == round(count) or count > 100 else f"{count:.1f}"


def _machine(results: Results) -> str:
    rows = [*results.machine.items(), ("time of the run", f"{results.minutes:.0f} minutes")]
    rows += [(name, f"not measured: {why}") for name, why in results.missing.items()]
    return "\n".join(["## The machine\n", *_table(("", ""), rows)])


def _table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _points(sentences: Iterator[str]) -> Iterator[str]:
    for text in sentences:
        first, *rest = _wrapped(text, 118)
        yield from (f"* {first}", *(f"  {line}" for line in rest))


def _wrapped(text: str, width: int = 120) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
