"""Finding the user's broker and actors, by the names that Dramatiq's own command takes.

Dramatiq's functions for that are not to be relied on, as ``dramatiq/cli.py`` says; these do the same.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dramatiq import Broker, get_broker

from dramatiq_unique import UniqueError
from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.journal import where_raised


__all__ = ["import_broker"]

T = TypeVar("T")

_TEXT_IS_SAFE = (ImportError, SyntaxError, NameError, AttributeError, KeyError, UniqueError)
"""Errors whose text says what is missing. Of any other only type and place are shown: there may be a password in it."""


def import_broker(name: str, modules: Iterable[str], path: str) -> Broker:
    """Import a broker, and further modules that declare actors on it.

    Arguments:
        name: ``module``, which sets the global broker; ``module:attribute``, a broker; or ``module:callable``, which
            sets the global broker.
        modules: More modules.
        path: The folder where modules are looked for first.

    Raises:
        Stop: There is none.
    """
    sys.path.insert(0, path)
    module_name, _, attribute = name.partition(":")
    module = _tried(f"importing {module_name!r}", lambda: importlib.import_module(module_name))
    found: Any = None
    if attribute:
        try:
            found = functools.reduce(getattr, attribute.split("."), module)
        except AttributeError:
            raise Stop(
                f"module {module_name!r} has no {attribute!r}; --broker takes module:attribute", Exit.USAGE
            ) from None
        if not isinstance(found, Broker):
            found = _called(name, found)
    for other in modules:
        _tried(f"importing {other!r}", lambda other=other: importlib.import_module(other))  # type: ignore[misc]
    broker: Broker = _tried("finding the global broker", get_broker) if found is None else found
    return broker


def _called(name: str, made: Any) -> Broker | None:
    """Have a callable set the global broker, or take the one that it returns."""
    if not callable(made):
        raise Stop(
            f"{name!r} is no broker but a {type(made).__qualname__}; --broker takes a broker or a callable", Exit.USAGE
        )
    returned = _tried(f"calling {name!r}", made)
    return returned if isinstance(returned, Broker) else None


def _tried(doing: str, step: Callable[[], T]) -> T:
    """Run code of the user's, and say in a line what it raised."""
    try:
        return step()
    except (Exception, SystemExit) as exc:
        text = f": {exc}" if isinstance(exc, _TEXT_IS_SAFE) else f" at {where_raised(exc)}"
        raise Stop(
            f"{doing} failed with {type(exc).__name__}{text}; look at --broker, --import and --path", Exit.USAGE
        ) from exc
