"""The soak in small: what survives a handful of kills here has to survive 200 with ``python -m tests.soak``."""

import subprocess
import sys

from tests.processes.workers import ROOT
from tests.servers import executables, skip_or_fail


def test_workers_killed_at_random_lose_double_and_leave_nothing() -> None:
    """C01, C02, C33 at random: every accepted message runs, one at a time under a run lock, and no lock is left."""
    if not executables():
        skip_or_fail("no redis-server: neither on PATH nor as a wheel (dependency group `server`)")
    command = [sys.executable, "-m", "tests.soak", "--seconds", "9", "--kills", "5", "--seed", "7"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "kills 5;" in ended.stdout
