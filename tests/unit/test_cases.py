"""The pages that name tests cannot rot: each test they name exists, and each case and each bound names one."""

import ast
import re
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
CASES = ROOT / "docs" / "explanation" / "cases.md"
GUARANTEES = ROOT / "docs" / "guarantees.md"
ON_RABBITMQ = "tests/life/test_rabbitmq.py"


def named_in(text: str) -> list[str]:
    """List the tests that a text names, as ``path::name`` or ``path::class::name``."""
    return re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", text)


def defined_in(path: str) -> set[str]:
    """List the tests that a file defines; those of a class with its name before theirs."""
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    found = {(node.name, *names) for node in classes for names in _functions(node)}
    return {"::".join((path, *names)) for names in found | set(_functions(module))}


def _functions(node: ast.Module | ast.ClassDef) -> list[tuple[str]]:
    return [(child.name,) for child in node.body if isinstance(child, ast.FunctionDef)]


def table(page: Path, heading: str, *, nth: int = 1, of: int = 1) -> list[list[str]]:
    """Read the rows of the table whose first heading is this one, cell by cell; the nth of so many."""
    lines = page.read_text(encoding="utf-8").splitlines()
    firsts = [number for number, line in enumerate(lines) if line.startswith(f"| {heading} |")]
    assert len(firsts) == of
    first = firsts[nth - 1]
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


CASE_ROWS = table(CASES, "case")
BOUND_ROWS = table(GUARANTEES, "what died")


@pytest.mark.parametrize("page", [CASES, GUARANTEES], ids=lambda page: str(page.stem))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    """Under this very name, in this very file; and nothing that looks like a test's name is passed over."""
    text = page.read_text(encoding="utf-8")
    named = named_in(text)

    assert [name for name in named if name not in defined_in(name.partition("::")[0])] == []
    assert len(named) == text.count("::") - sum(name.count("::") - 1 for name in named)
    assert named


def test_every_case_has_its_row() -> None:
    """All of them, C01 to C34, in order."""
    assert [row[0] for row in CASE_ROWS] == [f"C{number:02}" for number in range(1, 35)]


@pytest.mark.parametrize("row", CASE_ROWS, ids=lambda row: str(row[0]))
def test_every_case_is_held_by_a_test(row: list[str]) -> None:
    """One at least, on the brokers that are named."""
    _, *_, tests, brokers = row

    assert named_in(tests)
    assert re.search("Stub|Redis|RabbitMQ", brokers)


@pytest.mark.parametrize("row", [row for row in CASE_ROWS if "RabbitMQ" in row[-1]], ids=lambda row: str(row[0]))
def test_a_case_that_is_held_on_rabbitmq_has_a_test_there(row: list[str]) -> None:
    """One that the module for RabbitMQ takes over, or one whose own module names that broker."""
    taken_over = (ROOT / ON_RABBITMQ).read_text(encoding="utf-8")

    def runs_there(name: str) -> bool:
        path, _, test = name.partition("::")
        return f'"{test}"' in taken_over or '"rabbitmq' in (ROOT / path).read_text(encoding="utf-8")

    assert any(runs_there(name) for name in named_in(row[-2]))


@pytest.mark.parametrize("row", BOUND_ROWS, ids=lambda row: f"{row[0]}: {row[1]}")
def test_every_bound_is_held_by_a_test(row: list[str]) -> None:
    """None is pending."""
    assert named_in(row[-1])
