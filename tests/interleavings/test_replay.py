"""A sequence that fails is printed as a program, and the program fails in the same way."""

import re

import pytest

from dramatiq_unique import UniqueMiddleware
from tests.interleavings import machine
from tests.interleavings.world import Violation


@pytest.mark.timeout(600)  # As many sequences as it takes.
def test_a_printed_sequence_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Hypothesis and its seed; nothing but the names of the machine's module is needed."""
    monkeypatch.setattr(UniqueMiddleware, "before_nack", lambda *args: None)
    with pytest.raises(Violation) as found:
        machine.run_sequences("until_executed", 500, 1, shrink=False)

    printed = "\n".join(getattr(found.value, "__notes__", ()))
    program = "\n".join(line.strip() for line in printed.splitlines() if re.match(r"\s*state\b", line))
    assert program.startswith("state = Interleavings()\nstate.begin(plan=Plan("), printed

    with pytest.raises(Violation) as again:
        exec(program, {name: getattr(machine, name) for name in machine.__all__})  # noqa: S102 - as somebody pastes it
    assert without_tokens(again.value) == without_tokens(found.value)


def without_tokens(violation: Violation) -> str:
    """Leave out what is different each time: the tokens of enqueues and deliveries."""
    return re.sub(r"[-+= w][0-9a-f]{8}\b", "", str(violation))
