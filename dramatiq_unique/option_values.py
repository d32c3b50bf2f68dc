"""What each lock option takes: its default, and how a value is checked; what is raised says what would be right."""

import difflib
from collections.abc import Callable, Iterable, Mapping

from dramatiq_unique.durations import to_ms
from dramatiq_unique.signatures import is_plain, takes


__all__ = ["PARSERS", "guess", "one_of", "plain"]


def guess(word: object, known: Iterable[str]) -> str:
    """End a sentence with what was probably meant."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(value: object, known: Mapping[str, object]) -> str:
    """Check a name against those that are known."""
    if isinstance(value, str) and value in known:
        return value
    hint = guess(value, known) if isinstance(value, str) else ""
    raise ValueError(f"must be one of {', '.join(map(repr, sorted(known)))}, not {value!r}{hint}")


def plain(value: object) -> object:
    """Check that a function is run where it is called."""
    if not is_plain(value):
        raise ValueError("must be a plain function: nobody would await this one, or go through what it yields")
    return value


def _parse_ttl(value: object) -> object:
    return plain(value) if value is None or callable(value) else to_ms(value)


def _parse_wait(value: object) -> object:
    return to_ms(value, zero=True)


def _parse_count(value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"must be a whole number, {least} or more, not {value!r}")
    return value


def _parse_limit(value: object) -> object:
    return _parse_count(value, 1)


def _parse_optional_count(value: object) -> object:
    return None if value is None else _parse_count(value, 0)


def _parse_flag(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {value!r}")  # noqa: TRY004 - one kind of error for every wrong value
    return value


def _parse_names(value: object) -> object:
    if value is None:
        return None
    if isinstance(value, str):
        raise ValueError(f"must be a list of parameter names, not the string {value!r}; did you mean [{value!r}]?")  # noqa: TRY004 - one kind of error for every wrong value
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"must be a list of parameter names, not {value!r}")
    return tuple(sorted(set(value)))


def _parse_key(value: object) -> object:
    if value is None or callable(value) or isinstance(value, str):
        return plain(value)
    raise ValueError(f"must be a callable of the actor's arguments, or the name of a method, not {value!r}")


def _parse_hook(value: object) -> object:
    if value is not None and not callable(value):
        raise ValueError(f"must be callable, not {value!r}")
    if value is not None and not (takes(value, None) or takes(value)):
        raise ValueError("is called with the message or with nothing, and takes neither")
    return plain(value)


PARSERS: dict[str, tuple[object, Callable[[object], object]]] = {
    "lock_ttl": (None, _parse_ttl),
    "lock_timeout": (0, _parse_wait),
    "lock_limit": (1, _parse_limit),
    "lock_args": (None, _parse_names),
    "lock_args_method": (None, _parse_key),
    "unique_across_queues": (False, _parse_flag),
    "unique_across_actors": (False, _parse_flag),
    "reschedule_delay": (5, _parse_wait),
    "reschedule_limit": (None, _parse_optional_count),
    "after_unlock": (None, _parse_hook),
    "lock_info": (False, _parse_flag),
}
"""By name: the default, and what checks a value of any level and gives it in the form of ``LockOptions``."""
