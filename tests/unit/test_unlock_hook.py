"""``after_unlock`` hooks are called with the message, or with nothing if they take no argument."""

from collections.abc import Callable
from typing import Any

import pytest

from dramatiq_unique.unlock_hook import call_hook


class Hooks:
    """Hooks of several shapes, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def one(self, message: object) -> None:
        """Take the message."""
        self.calls.append((message,))

    def optional(self, message: object = None) -> None:
        """Take the message where there is one."""
        self.calls.append((message,))

    def many(self, *args: object, **kwargs: object) -> None:
        """Take anything."""
        self.calls.append((*args, *kwargs))

    def nothing(self) -> None:
        """Take nothing."""
        self.calls.append(())

    def keyword_only(self, *, verbose: bool = False) -> None:
        """Take no positional argument."""
        self.calls.append(())


@pytest.mark.parametrize("hook", [Hooks.one, Hooks.optional, Hooks.many])
def test_a_hook_that_takes_an_argument_gets_the_message(hook: Callable[..., object]) -> None:
    """Whether the argument is required, optional or one of many."""
    hooks, message = Hooks(), object()

    call_hook(hook.__get__(hooks), message)

    assert hooks.calls == [(message,)]


@pytest.mark.parametrize("hook", [Hooks.nothing, Hooks.keyword_only])
def test_a_hook_that_takes_no_argument_gets_none(hook: Callable[..., object]) -> None:
    """A hook need not take the message."""
    hooks = Hooks()

    call_hook(hook.__get__(hooks), object())

    assert hooks.calls == [()]


def test_a_builtin_that_hides_its_signature_gets_the_message() -> None:
    """Where it cannot be told what a hook takes, it gets the message: `max` of an empty list says so."""
    with pytest.raises(ValueError, match="empty"):
        call_hook(max, [])


@pytest.mark.parametrize("error", [TypeError("from inside"), ValueError("from inside"), KeyError("from inside")])
def test_what_a_hook_raises_is_raised_after_one_call(error: Exception) -> None:
    """An error from inside the hook isn't taken for a wrong number of arguments, and the hook isn't called again."""
    calls = []

    def hook(message: object) -> None:
        calls.append(message)
        raise error

    with pytest.raises(type(error), match="from inside"):
        call_hook(hook, "message")

    assert calls == ["message"]
