"""``docs/reference/command-line.md`` and the help tell of everything there is."""

import re

import pytest

from dramatiq_unique.cli import main
from dramatiq_unique.cli.exits import Exit
from tests.cli.shell import ROOT


PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
COMMANDS = ("list", "show", "explain", "release", "watch", "doctor")


def test_the_exit_codes_are_those_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    """On the page all of them, in the help those that a script needs."""
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == set(Exit)
    assert main(["--help"]) == 0
    told = capsys.readouterr().out.partition("exit codes:")[2]
    assert {int(code) for code in re.findall(r"^  (\d+) ", told, re.MULTILINE)} == set(Exit) - {Exit.PIPE_CLOSED}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_on_the_page(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And each command has a heading."""
    assert main([command, "--help"]) == 0
    options = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
    assert len(options) > 5
    assert {option for option in options if f"`{option}" not in PAGE and f" {option}" not in PAGE} == set()
    assert f"\n## `{command}`\n" in PAGE
