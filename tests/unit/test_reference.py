"""The reference is complete: whoever adds an error, an event, a field, a line or a public name adds it there too."""

import dataclasses
import importlib
import logging
import re
from pathlib import Path

import pytest

import dramatiq_unique
from dramatiq_unique import errors
from dramatiq_unique.events import LEVELS, Event
from tests.unit.test_cases import ROOT, table
from tests.unit.test_events import CATALOGUE


DOCS = ROOT / "docs"
EVENTS, ERRORS, API = (DOCS / "reference" / f"{name}.md" for name in ("events", "errors", "api"))
ERROR_CLASSES = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
}
EVENT_ROWS = {row[0].strip("`"): row for row in table(EVENTS, "event | what happened")}
FIELD_ROWS = {name: row[1] for row in table(EVENTS, "field", nth=2, of=2) for name in re.findall(r"`(\w+)`", row[0])}
FIELDS = {name: [field.name for field in dataclasses.fields(kind)] for name, kind in CATALOGUE.items()}
OF_ALL = [field.name for field in dataclasses.fields(Event)]


class TestErrors:
    """A section for each: when, and what to do."""

    @pytest.mark.parametrize("name", sorted(ERROR_CLASSES))
    def test_has_each(self, name: str) -> None:
        """With its table, and its docstring."""
        section = sections(ERRORS)[f"`{name}`"]

        assert "| when | what to do |" in section
        assert f".. autoexception:: dramatiq_unique.{name}" in section

    def test_has_no_other(self) -> None:
        """Nothing is told of an error that is no more."""
        assert {name for name in sections(ERRORS) if name.startswith("`")} == {f"`{name}`" for name in ERROR_CLASSES}

    def test_draws_the_tree(self) -> None:
        """The one of the module's docstring."""
        tree = str(errors.__doc__).split("::\n\n")[1].split("\n\n")[0]

        assert re.sub("^    ", "", tree, flags=re.MULTILINE) in ERRORS.read_text(encoding="utf-8")


class TestEvents:
    """The tables of the catalogue."""

    def test_have_each(self) -> None:
        """In a row of its own."""
        assert EVENT_ROWS.keys() == CATALOGUE.keys()

    @pytest.mark.parametrize("name", sorted(CATALOGUE))
    def test_have_its_fields(self, name: str) -> None:
        """In the order of the class."""
        told = EVENT_ROWS[name][2]
        same = re.fullmatch(r"as `(\w+)`", told)

        assert re.findall(r"`(\w+)`", EVENT_ROWS[same[1]][2] if same else told) == FIELDS[name][len(OF_ALL) :]

    @pytest.mark.parametrize("name", sorted(CATALOGUE))
    def test_have_its_level(self, name: str) -> None:
        """The one of the catalogue comes first; exceptions after it."""
        assert EVENT_ROWS[name][3].startswith(logging.getLevelName(LEVELS[name]))

    def test_say_what_all_have(self) -> None:
        """The name, and the fields of the class that all are of."""
        assert [row[0].strip("`") for row in table(EVENTS, "field", of=2)] == ["name", *OF_ALL]

    def test_explain_each_field(self) -> None:
        """And none that there is not."""
        assert FIELD_ROWS.keys() == {field for fields in FIELDS.values() for field in fields[len(OF_ALL) :]}

    @pytest.mark.parametrize("field", sorted(field for field in FIELD_ROWS if field.endswith("_ms")))
    def test_give_a_time_its_unit(self, field: str) -> None:
        """In words, though it is in the name."""
        assert "in milliseconds" in FIELD_ROWS[field]

    def test_say_what_to_do_about_each(self) -> None:
        """If only: nothing."""
        told = [
            name for row in table(EVENTS, "event | what an operator does") for name in re.findall(r"`(\w+)`", row[0])
        ]

        assert sorted(told) == sorted(CATALOGUE)

    def test_give_every_end_of_a_message_its_event(self) -> None:
        """One, or it says why there is none."""
        for how, told in table(EVENTS, "how a message ends"):
            event = re.match(r"`(\w+)`|none: ", told)
            assert event, how
            assert event[1] in (*CATALOGUE, None)

    def test_have_each_line_that_has_no_event(self) -> None:
        """Whatever the code complains of is in the table, and nothing else."""
        sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "dramatiq_unique").rglob("*.py"))
        told = {row[0].strip("`") for row in table(EVENTS, "line")}

        assert told == set(re.findall(r"(?:journal|self)\.complain\(\s*\"(\w+)\"", sources))


class TestApi:
    """What can be imported is in the reference."""

    def test_has_every_public_name(self) -> None:
        """Of the package itself, from a class or function of that name."""
        documented = API.read_text(encoding="utf-8") + ERRORS.read_text(encoding="utf-8")

        assert set(
            re.findall(r"\.\. auto(?:class|function|exception):: dramatiq_unique\.(\w+)$", documented, re.MULTILINE)
        ) == set(dramatiq_unique.__all__)

    @pytest.mark.parametrize("module", ["locks", "strategies", "testing", "events", "prometheus"])
    def test_names_what_there_is(self, module: str) -> None:
        """A module is there as a whole, or with names that it exports."""
        text = API.read_text(encoding="utf-8")
        named = set(re.findall(rf"\.\. autoclass:: dramatiq_unique\.{module}\.(\w+)", text))
        exported = set(importlib.import_module(f"dramatiq_unique.{module}").__all__)

        assert named <= exported
        assert named or f".. automodule:: dramatiq_unique.{module}\n   :members:" in text


def test_the_first_page_has_every_page() -> None:
    """With a line that says what it is for."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}

    assert pages == {page for page in re.findall(r"^\* \[[^]]+\]\(([^)]+)\): ", text, re.MULTILINE) if page in pages}


def sections(page: Path) -> dict[str, str]:
    """Cut a page at its headings of the second level."""
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}
