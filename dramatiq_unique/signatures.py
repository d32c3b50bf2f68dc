"""What a function takes, as far as its signature says."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any


__all__ = ["calls_of", "is_plain", "is_plain_of_one", "takes", "takes_all"]


def takes(function: Callable[..., object], *args: Any, **kwargs: Any) -> bool:
    """Tell whether a function takes these arguments; one that does not tell its signature (a built-in) does."""
    return takes_all(function, [(args, kwargs)])


def takes_all(function: Callable[..., object], calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]]) -> bool:
    """Tell whether a function takes the arguments of each of these calls."""
    try:
        signature = inspect.signature(function)
        for args, kwargs in calls:
            signature.bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def calls_of(signature: inspect.Signature) -> Iterator[tuple[tuple[None, ...], dict[str, None]]]:
    """List the calls that stand for all that a function takes, but for a required argument that is given by name.

    What has a default is given by place, by name, or not at all. What is taken by ``*args`` or ``**kwargs`` is unknown.

    Arguments:
        signature: The function's.

    Yields:
        Positional and keyword arguments, each of them ``None``.
    """
    parameters = signature.parameters.values()
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    for by_place in range(sum(p.default is p.empty for p in placed), len(placed) + 1):
        rest = [p for p in placed[by_place:] if p.kind is not p.POSITIONAL_ONLY]
        for by_name in ([p for p in named if p.default is p.empty], rest + named):
            yield (None,) * by_place, {p.name: None for p in by_name}


def is_plain(function: object) -> bool:
    """Tell whether calling it runs it: not where that gives a coroutine or a generator, whose body nobody would run."""
    return not any(
        runs_later(called)
        for called in (function, getattr(function, "__call__", None))  # noqa: B004
        for runs_later in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )


def is_plain_of_one(function: object) -> bool:
    """Tell whether this can be called with one argument, and runs when it is."""
    return callable(function) and takes(function, None) and is_plain(function)
