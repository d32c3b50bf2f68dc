"""The middleware, switched off and on for a block: what :mod:`dramatiq_unique.testing` gives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

from dramatiq_unique.errors import UniqueError
from dramatiq_unique.middleware import UniqueMiddleware
from dramatiq_unique.signatures import is_plain


__all__ = ["Switch", "checked"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Switch(ContextDecorator):
    """For a ``with`` statement, or to decorate a plain function.

    Arguments:
        unique: The middleware.
        on: Whether it locks meanwhile.

    Raises:
        UniqueError: It is no such middleware.
    """

    def __init__(self, unique: UniqueMiddleware, *, on: bool) -> None:
        self._unique = checked(unique)
        self._on = on
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(self._unique.enabled)
        self._unique.enabled = self._on

    def __exit__(self, *_: object) -> None:
        self._unique.enabled = self._before.pop()

    def __call__(self, function: Function) -> Function:
        """Decorate a function.

        Raises:
            UniqueError: It is a coroutine or a generator function, which runs when the block is over.
        """
        if not is_plain(function):
            raise UniqueError(f"a coroutine or generator, such as {function!r}, runs later: use the block inside of it")
        return super().__call__(function)


def checked(unique: UniqueMiddleware) -> UniqueMiddleware:
    """Give back the middleware that was passed.

    Raises:
        UniqueError: It is something else.
    """
    if not isinstance(unique, UniqueMiddleware):
        raise UniqueError(f"pass the UniqueMiddleware, not {unique!r}")
    return unique
