"""The examples in README.md and docs/ are tests: every Python block in them is run."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], pattern="*.md").pytest()
