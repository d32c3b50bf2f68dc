"""What `examples/` shows is so: every file runs, with the server at hand and without one."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.servers import executables, skip_or_fail


EXAMPLES = Path(__file__).parent.parent / "examples"
DOCS = EXAMPLES.parent / "docs"
MODULES = {"setting.py", "demo_actors.py"}
DECISIVE = {
    "collapse_burst.py": "11 changes, 2 runs",
    "daily_email.py": "5 sign-ins, 2 mails: ada, bob",
    "demo.py": "As promised: what was queued has run, and what was refused was a duplicate of it.",
    "one_running_one_waiting.py": "11 pushes, 2 runs, the last one saw 11 pushes",
    "per_account.py": "20 bookings, 110 in all, at most 2 at once",
    "webhook_once.py": "4 deliveries, 3 tries, handled once each: evt_1, evt_2",
}
WITHOUT_A_SERVER = """\
import runpy, sys
sys.path.insert(0, sys.argv[1])
import setting
setting._executable = lambda: None
runpy.run_path(f"{sys.argv[1]}/{sys.argv[2]}", run_name="__main__")
"""
WITHOUT_LOCKS = """\
import functools
import dramatiq_unique
dramatiq_unique.UniqueMiddleware = functools.partial(dramatiq_unique.UniqueMiddleware, enabled=False)
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python as somebody does who has nothing set up."""
    return subprocess.run(
        [sys.executable, *arguments], env=_nothing_set_up(), capture_output=True, text=True, timeout=50, check=False
    )


def _nothing_set_up() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "DRAMATIQ_UNIQUE_URL"}


def visible(page: str) -> str:
    """Copy the Python blocks of a page that a reader sees."""
    shown = re.sub(r"<!---.*?--->", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return "\n".join(re.findall(r"^```python\n(.*?)^```", shown, flags=re.DOTALL | re.MULTILINE))


def test_no_example_is_forgotten() -> None:
    """A file in `examples/` is a module of another one, is tested by pytest, or has a line that decides."""
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert files == {*DECISIVE, *MODULES, "test_your_actors.py"}


@pytest.mark.parametrize("name", DECISIVE)
def test_an_example_runs(name: str) -> None:
    """It ends well, and says last what it is there to show."""
    done = run(str(EXAMPLES / name))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == DECISIVE[name]


@pytest.mark.parametrize("name", DECISIVE)
def test_an_example_runs_without_a_server(name: str) -> None:
    """The Stub broker and fakeredis show the same."""
    done = run("-c", WITHOUT_A_SERVER, str(EXAMPLES), name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == DECISIVE[name]


def test_the_tests_to_copy_pass() -> None:
    """They pass wherever they are copied to: our configuration is not needed."""
    done = run("-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", str(EXAMPLES / "test_your_actors.py"))
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_the_tutorial_can_be_pasted_into_a_session() -> None:
    """Block by block, as it says; its last one is a program of its own, that needs a server."""
    session, end = visible("tutorial.md").rsplit("import dramatiq\n", 1)
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=session,
        env=_nothing_set_up(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "RedisBroker" in end
    assert "Error" not in done.stderr
    assert "held by message" in done.stdout


def test_the_page_about_tests_can_be_copied_as_one_file(tmp_path: Path) -> None:
    """What a reader does not see is not needed."""
    copied = tmp_path / "test_mine.py"
    copied.write_text("import os\nos.environ['APP_ENV'] = 'test'\n" + visible("how-to/test-your-actors.md"))
    done = run("-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", str(copied))
    assert done.returncode == 0, done.stdout


def test_the_demo_fails_where_a_lock_does_not_keep_its_promise() -> None:
    """Without locks it exits with 1, and names every lock type; only what has none is as promised."""
    done = run("-c", WITHOUT_LOCKS + WITHOUT_A_SERVER, str(EXAMPLES), "demo.py")
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("is not as promised") == 5
    assert "no_lock is not" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_leaves_nothing_behind(number: signal.Signals) -> None:
    """Ctrl-C in the middle ends its worker and its Redis too, and removes their files."""
    if not executables():
        skip_or_fail("no redis-server")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path has to be short
        demo = subprocess.Popen(
            [sys.executable, "-u", str(EXAMPLES / "demo.py")],
            env=_nothing_set_up() | {"TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert demo.stdout is not None
        while "sent while" not in demo.stdout.readline():
            assert demo.poll() is None
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=40)  # a server that lived on would keep the pipe open
        assert (demo.returncode, errors) == (128 + number, "")
        assert list(Path(folder).iterdir()) == []
