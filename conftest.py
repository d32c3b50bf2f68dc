"""The examples in README.md and docs/ are tests: every Python block in them is run.

`pytest examples/test_your_actors.py` needs none of this: it runs where only pytest is installed beside the package.
"""

import doctest
import importlib.util

import pytest


if importlib.util.find_spec("sybil"):
    from sybil import Sybil
    from sybil.integration.pytest import SybilItem
    from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

    pytest_collect_file = Sybil(
        parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.ELLIPSIS), SkipParser()], pattern="*.md"
    ).pytest()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Put the blocks of a document back in order after pytest-randomly: each builds on those before it."""
        blocks = sorted(
            (item for item in items if isinstance(item, SybilItem)), key=lambda item: (item.path, item.example.line)
        )
        in_order = iter(blocks)
        items[:] = [next(in_order) if isinstance(item, SybilItem) else item for item in items]


if not importlib.util.find_spec("pytest_timeout"):

    def pytest_addoption(parser: pytest.Parser) -> None:
        """Know the setting of a plugin that is not here: an unknown one is an error (`strict` in pyproject.toml)."""
        parser.addini("timeout", "seconds for one test, where pytest-timeout is installed")
