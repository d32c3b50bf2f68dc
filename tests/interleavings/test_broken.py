"""What is broken on purpose is found: a machine that finds nothing proves nothing unless it can find something."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.keeper import Keeper
from dramatiq_unique.store import prefixed
from tests.interleavings.machine import run_sequences
from tests.interleavings.world import Violation


pytestmark = pytest.mark.timeout(600)  # As many sequences as it takes.


@dataclass(frozen=True, slots=True)
class Break:
    """Something to break in a script.

    Args:
        lock: The lock type whose sequences find it.
        script: The script.
        part: What is taken out of it.
        instead: What is put there.
        found: What the audit says.
    """

    lock: str
    script: str
    part: str
    instead: str
    found: str


BROKEN = {
    "whoever finishes frees the run lock": Break(
        "while_executing",
        "finish",
        "run and run.token == token",
        "run",
        "let go of the run lock of another delivery",
    ),
    "a late delivery frees the queue lock": Break(
        "until_executed",
        "finish",
        "own or",
        "true or",
        "of which a later delivery runs",
    ),
    "a send looks at no limit": Break(
        "until_executing",
        "acquire",
        "#live >= limit",
        "false",
        "holders of one lock",
    ),
    "a start looks at no limit": Break(
        "while_executing",
        "begin",
        "#live >= limit",
        "false",
        "holders of one lock",
    ),
    "what runs is replaced": Break(
        "until_executed",
        "acquire",
        "string.find('wnv'",
        "string.find('wnvr'",
        "let go of the queue lock",
    ),
    "the queue lock stays at the start": Break(
        "until_and_while_executing",
        "begin",
        "drop(KEYS[1], id)",
        "",
        "runs and has its queue lock still",
    ),
}


def finds(lock: str, what: str) -> None:
    """Run sequences until one fails, and look at what it says."""
    with pytest.raises(Violation, match=what):
        run_sequences(lock, 500, 1, shrink=False)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_script_is_caught(name: str, break_script: Callable[[Break], None]) -> None:
    """Each in a few dozen sequences."""
    broken = BROKEN[name]
    break_script(broken)

    finds(broken.lock, broken.found)


@pytest.fixture
def break_script(monkeypatch: pytest.MonkeyPatch) -> Callable[[Break], None]:
    """Break one script of the store."""
    whole = prefixed._source

    def source(broken: Break, operation: str) -> str:
        text = whole(operation)
        if operation != broken.script:
            return text
        assert broken.part in text, "there is nothing to break: the script has changed"
        return text.replace(broken.part, broken.instead)

    def break_it(broken: Break) -> None:
        monkeypatch.setattr(prefixed, "_source", lambda operation: source(broken, operation))

    return break_it


def test_a_lock_that_outlives_a_dead_letter_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all is quiet something is held."""
    monkeypatch.setattr(UniqueMiddleware, "before_nack", lambda *args: None)

    finds("until_executed", "locks are left over")


def test_a_lease_that_nobody_renews_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job runs without its lock."""
    monkeypatch.setattr(Keeper, "_work", lambda keeper: None)

    finds("while_executing", "runs without its run lock")
