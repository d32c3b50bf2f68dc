"""The benchmark runs to its end and says all that it should; how long anything took is nobody's business here."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import summary
from tests.benchmarks.benches import BENCHES
from tests.benchmarks.budgets import BUDGETS
from tests.benchmarks.figures import Results, Spread, beside
from tests.benchmarks.locking import OTHERS
from tests.benchmarks.machine import OTHERS as PACKAGES
from tests.benchmarks.page import rendered
from tests.benchmarks.scale import QUICK
from tests.benchmarks.sides import LOCKS
from tests.servers import executables, skip_or_fail


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a quick run, with what lies beside it."""
    if not executables():
        skip_or_fail("no redis-server: neither on PATH nor as a wheel (dependency group `server`)")
    written = tmp_path_factory.mktemp("docs") / "cost.md"
    command = [sys.executable, "-m", "tests.benchmarks", "--quick", "--page", str(written)]
    subprocess.run([*command, "--json", str(written.parent / "cost" / "results.json")], cwd=ROOT, check=True)
    return written


@pytest.fixture(scope="module")
def results(page: Path) -> Results:
    """What it has found."""
    return Results.read(page.parent / "cost" / "results.json")


@pytest.mark.timeout(300)
class TestAQuickRun:
    """It measures everything, in small."""

    def test_every_table_has_figures(self, results: Results) -> None:
        """Ratios that are positive, or counts."""
        for table in (table for bench in BENCHES for table in bench.tables):
            figures = list(results.of(table.figures))
            assert figures, table.figures
            assert all(ratio > 0 for figure in figures for ratio in figure.ratios)
            assert all(figure.ratios or figure.counts for figure in figures)

    @pytest.mark.parametrize("figures", ["send", "own", "done"])
    def test_every_lock_type_is_measured(self, results: Results, figures: str) -> None:
        """Beside bare Dramatiq."""
        assert set(LOCKS) < set(results.arms(figures))

    def test_every_other_lock_is_measured_or_known_to_be_missing(self, results: Results) -> None:
        """It depends on what is installed."""
        assert {other.name for other in OTHERS} == set(results.arms("lock")) | (
            set(PACKAGES.values()) & set(results.missing)
        )

    def test_round_trips_are_as_promised(self, results: Results) -> None:
        """Counted at the server, they are exact: none without a lock, and none but the lock's if refused."""
        trips = {figure.arm: figure.counts["trips"] for figure in results.of("send", at=1)}
        assert trips["bare Dramatiq"] == trips["an actor without a lock"] == trips["while_executing"] == 1
        assert trips["a refused duplicate"] == 1
        assert trips["until_executed"] <= 2

    def test_more_locks_are_not_more_commands(self, results: Results) -> None:
        """Whatever the operation."""
        for arm in results.arms("growth-locks"):
            assert len({figure.counts["commands"] for figure in results.of("growth-locks", arm)}) == 1, arm
        assert results.conditions("growth-locks") == list(QUICK.locks)

    def test_the_page_shows_every_budget_and_every_plot(self, page: Path, results: Results) -> None:
        """Held or missed; and it says that the run was a quick one."""
        text = page.read_text(encoding="utf-8")
        assert all(budget.name in text for budget in BUDGETS)
        assert all(f"## {bench.title}\n" in text for bench in BENCHES)
        assert text.count("| held |") + text.count("| **missed** |") == len(BUDGETS)
        assert "quick run" in text
        plots = [table.figures for bench in BENCHES for table in bench.tables if table.plot]
        for name in plots:
            assert f"](cost/{name}.svg)" in text
            assert (page.parent / "cost" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
        assert len(summary(results).splitlines()) == len(BUDGETS)

    def test_the_page_names_nobody(self, page: Path, results: Results) -> None:
        """No path, no address."""
        text = page.read_text(encoding="utf-8") + "".join(results.machine.values())
        assert str(ROOT) not in text
        assert str(page.parent) not in text
        assert "127.0.0.1" not in text

    def test_what_is_not_installed_is_said(self, results: Results) -> None:
        """The page can do without."""
        without = Results(
            results.machine,
            results.scale,
            results.minutes,
            [figure for figure in results.figures if figure.arm != "celery-once"],
            {"celery-once": "it is not installed here"},
        )
        text = rendered(without, folder="cost", json_name="results.json", plots=False)
        assert "* **celery-once** was not measured: it is not installed here.\n" in text
        assert ".svg" not in text


def test_the_page_in_the_docs_is_of_a_full_run() -> None:
    """And it is what its results say."""
    results = Results.read(ROOT / "docs" / "cost" / "results.json")
    page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    assert results.scale == "full"
    assert page == rendered(results, folder="cost", json_name="results.json", plots=True)


def test_rounds_are_compared_one_by_one() -> None:
    """A round in which the machine was slow was slow for all."""
    ratios = dict(beside({"ours": [2.0, 20.0, 3.0], "bare": [1.0, 10.0, 2.0]}, "bare"))
    assert ratios == {"ours": [2.0, 2.0, 1.5], "bare": [1.0, 1.0, 1.0]}
    assert Spread.of(ratios["ours"]) == Spread(2.0, 1.75, 2.0)
