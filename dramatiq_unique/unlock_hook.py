"""``after_unlock``: the hook that is told once a lock was let go."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


__all__ = ["call_hook"]


def call_hook(hook: Callable[..., object], message: object) -> None:
    """Call a hook with the message, or with nothing if it takes no argument.

    Arguments:
        hook: The hook.
        message: The message whose lock was let go.

    Raises:
        Exception: Whatever the hook raises.
    """
    arguments: tuple[Any, ...] = (message,)
    try:
        inspect.signature(hook).bind(*arguments)
    except TypeError:
        arguments = ()
    except ValueError:  # A built-in that does not tell its signature.
        pass
    hook(*arguments)
