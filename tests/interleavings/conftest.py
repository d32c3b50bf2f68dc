"""Says at the end of a run which sequences there were, and how to have them again."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the seed of each test that ran sequences; heard where this folder is named on the command line."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            told = dict(report.user_properties)
            if report.when == "call" and "seed" in told:
                terminalreporter.write_line(
                    f"{outcome}: {report.nodeid} with DRAMATIQ_UNIQUE_SEED={told['seed']}, "
                    f"{told.get('sequences', 'not all')} sequences in {report.duration:.0f} s"
                )
