"""One run of the benchmark: see the package."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import tests.benchmarks
from tests.benchmarks.benches import BENCHES
from tests.benchmarks.budgets import BUDGETS
from tests.benchmarks.figures import Figure, Results
from tests.benchmarks.machine import described, missing
from tests.benchmarks.page import rendered
from tests.benchmarks.place import Place
from tests.benchmarks.scale import FULL, QUICK, Scale


PAGE = Path("docs/cost.md")
JSON = Path("docs/cost/results.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it from a shell."""
    about = (tests.benchmarks.__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=about)
    parser.add_argument("--quick", action="store_true", help="everything in small, to see that it works")
    parser.add_argument("--json", type=Path, help=f"where the results go; {JSON} after a full run")
    parser.add_argument("--page", type=Path, help=f"where the page goes; {PAGE} after a full run")
    parser.add_argument(
        "--again", action="store_true", help="measure nothing: the page from the results that are there"
    )
    given = parser.parse_args(arguments)
    json_path = given.json or (None if given.quick else JSON)
    page_path = given.page or (None if given.quick else PAGE)
    if given.again:
        results = Results.read(json_path or JSON)
    else:
        results = measured(QUICK if given.quick else FULL)
        if json_path:
            results.write(json_path)
            results = Results.read(json_path)  # The page says what is there, to the last digit.
    if page_path:
        write_page(results, page_path, json_path or JSON)
    sys.stdout.write(summary(results))
    return 0


def measured(scale: Scale) -> Results:
    """Run every bench, each on servers of its own."""
    # What is below WARNING is not written, as in a program that has not configured logging; nor is the rest, here.
    logging.getLogger().addHandler(logging.NullHandler())
    began = time.monotonic()
    with Place() as place:
        machine = described(place.client(place.server()))
    figures: list[Figure] = []
    for bench in BENCHES:
        sys.stderr.write(f"{(time.monotonic() - began) / 60:5.1f} min  {bench.title}\n")
        with Place() as place:
            figures += bench.run(scale, place)
    return Results(machine, scale.name, (time.monotonic() - began) / 60, figures, missing())


def write_page(results: Results, page: Path, json_path: Path) -> None:
    """Write the page, and the plots into the folder of its name."""
    plots = importlib.util.find_spec("matplotlib") is not None
    if plots:
        from tests.benchmarks.plots import drawn  # noqa: PLC0415 - it may not be installed

        drawn(results, page.with_suffix(""))
    page.parent.mkdir(parents=True, exist_ok=True)
    text = rendered(results, folder=page.stem, json_name=json_path.name, plots=plots)
    page.write_text(text, encoding="utf-8")


def summary(results: Results) -> str:
    """Say for each budget whether it was held."""
    lines = []
    for budget in BUDGETS:
        spent = budget.shown.format(budget.spent(results)[0].median)
        limit = budget.shown.format(budget.limit)
        lines.append(f"{'held' if budget.held(results) else 'MISSED':8}{spent:>8} of {limit:>5}  {budget.name}\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
