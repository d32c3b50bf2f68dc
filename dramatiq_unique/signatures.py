"""What a function takes, as far as its signature says."""

import inspect
from collections.abc import Callable
from typing import Any


__all__ = ["is_asynchronous", "takes"]


def takes(function: Callable[..., object], *args: Any, **kwargs: Any) -> bool:
    """Tell whether a function takes these arguments; one that does not tell its signature (a built-in) does."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def is_asynchronous(function: object) -> bool:
    """Tell whether calling it gives a coroutine, which nobody here would await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
