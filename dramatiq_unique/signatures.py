"""What a function takes, as far as its signature says."""

import inspect
from collections.abc import Callable
from typing import Any


__all__ = ["is_plain", "takes"]


def takes(function: Callable[..., object], *args: Any, **kwargs: Any) -> bool:
    """Tell whether a function takes these arguments; one that does not tell its signature (a built-in) does."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def is_plain(function: object) -> bool:
    """Tell whether calling it runs it: not where that gives a coroutine or a generator, whose body nobody would run."""
    return not any(
        runs_later(called)
        for called in (function, getattr(function, "__call__", None))  # noqa: B004
        for runs_later in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )
