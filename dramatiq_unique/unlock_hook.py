"""``after_unlock``: the hook that is told once a lock was let go."""

from __future__ import annotations

from collections.abc import Callable

from dramatiq_unique.signatures import takes


__all__ = ["call_hook"]


def call_hook(hook: Callable[..., object], message: object) -> None:
    """Call a hook with the message, or with nothing if it takes no argument.

    Arguments:
        hook: The hook.
        message: The message whose lock was let go.

    Raises:
        Exception: Whatever the hook raises.
    """
    if takes(hook, message):
        hook(message)
    else:
        hook()
