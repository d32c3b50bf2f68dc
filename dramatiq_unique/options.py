"""The lock options: what each one takes, and which level wins.

Every option may stand on the middleware (a default for all), on the actor, and, where JSON can carry it, on one
message. Message beats actor beats middleware, option by option; ``on_conflict`` side by side. A wrong one raises
:class:`~dramatiq_unique.InvalidLockOptions` with the actor, the option, and what would be right.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, cast

from dramatiq_unique.errors import InvalidLockOptions
from dramatiq_unique.lock_types import LockType, Until
from dramatiq_unique.option_values import PARSERS, guess, one_of, plain
from dramatiq_unique.strategies import Strategy


__all__ = ["OPTION_NAMES", "ActorFacts", "LockOptions", "OptionRules", "nearly_an_option"]


class ActorFacts(Protocol):
    """What the options are checked against."""

    @property
    def actor_name(self) -> str:
        """The actor's name."""

    @property
    def parameters(self) -> Collection[str] | None:
        """The names of its parameters; ``None`` where they cannot be told."""

    def method(self, name: str) -> Callable[..., Any] | None:
        """Find a method of a class-based actor by name; ``None`` where there is none."""

    def can_be_given_to(self, function: Callable[..., Any]) -> bool:
        """Tell whether a function takes what the actor takes, as far as their signatures say."""


@dataclass(frozen=True, slots=True)
class LockOptions:
    """The options of one actor or one message, resolved and checked. Times are in milliseconds."""

    lock: LockType | None
    lock_ttl: int | Callable[..., object] | None
    lock_timeout: int
    lock_limit: int
    lock_args: tuple[str, ...] | None
    lock_args_method: Callable[..., object] | None
    unique_across_queues: bool
    unique_across_actors: bool
    client: str | None
    server: str | None
    reschedule_delay: int
    reschedule_limit: int | None
    after_unlock: Callable[..., object] | None
    lock_info: bool


OPTION_NAMES: frozenset[str] = frozenset(PARSERS) | {"lock", "on_conflict"}
"""Every option that an actor may carry."""


@lru_cache(maxsize=1024)
def nearly_an_option(name: str) -> str | None:
    """Tell which option a name was probably meant to be; ``None`` for an option, and for anything else."""
    if name in OPTION_NAMES:
        return None
    close = difflib.get_close_matches(name, OPTION_NAMES, n=1, cutoff=0.85)
    return close[0] if close else None


_OTHER_ARGUMENTS = ("client", "url", "prefix", "lease", "on_store_error", "enabled", "lock_types", "strategies")
_EITHER_OR = ("lock_args", "lock_args_method")


class OptionRules:
    """Checks options and resolves their three levels.

    Arguments:
        lock_types: The rows that ``lock`` may name.
        strategies: The strategies that ``on_conflict`` may name.
        defaults: The middleware's own level.

    Raises:
        InvalidLockOptions: A default is wrong.
    """

    def __init__(
        self, lock_types: Iterable[LockType], strategies: Mapping[str, Strategy], defaults: Mapping[str, object]
    ) -> None:
        for name in defaults.keys() - OPTION_NAMES:
            known = (*OPTION_NAMES, *_OTHER_ARGUMENTS)
            raise InvalidLockOptions(f"UniqueMiddleware: there is no argument {name!r}{guess(name, known)}")
        self.lock_types = {row.name: row for row in lock_types}
        self.strategies = strategies
        built_in: dict[str, object] = {name: parse(default) for name, (default, parse) in PARSERS.items()}
        self._defaults = self._stack(
            built_in | {"lock": None, "client": None, "server": None}, self._parse("UniqueMiddleware", defaults)
        )

    def for_actor(self, actor: ActorFacts, given: Mapping[str, object]) -> LockOptions:
        """Resolve what one actor says over the middleware's defaults.

        Arguments:
            actor: The actor; its parameters and methods are looked at.
            given: All its options; those of others are passed over.

        Returns:
            The options that its messages have unless they say otherwise.

        Raises:
            InvalidLockOptions: A name, type, range or combination is wrong.
        """
        where = f"actor {actor.actor_name!r}"
        return self._finish(where, self._stack(self._defaults, self._actor_level(where, actor, given)), actor)

    def without_actor(self) -> LockOptions:
        """Give the middleware's defaults, for the messages of an actor that is not known here."""
        defaults = self._defaults
        if isinstance(defaults["lock_args_method"], str):
            defaults = defaults | {"lock_args_method": None}
        return LockOptions(**cast("dict[str, Any]", defaults))

    def _actor_level(self, where: str, actor: ActorFacts, given: Mapping[str, object]) -> dict[str, object]:
        """Parse what stands on an actor, the ``after_unlock`` method of a class-based one included."""
        parsed = self._parse(where, given)
        method = actor.method("after_unlock")
        if method is not None and parsed.get("after_unlock") is None:
            parsed |= self._parse(where, {"after_unlock": method})
        return parsed

    def for_message(
        self, message_id: str, actor: ActorFacts, declared: Mapping[str, object], own: Mapping[str, object]
    ) -> LockOptions:
        """Resolve what one message says over its actor and the middleware.

        Arguments:
            message_id: The message.
            actor: Its actor.
            declared: All options of the actor.
            own: All options of the message.

        Returns:
            The options of this message.

        Raises:
            InvalidLockOptions: A name, type, range or combination is wrong.
        """
        where = f"message {message_id} of actor {actor.actor_name!r}"
        values = self._stack(self._defaults, self._actor_level(where, actor, declared))
        values = self._stack(values, self._parse(where, own))
        return self._finish(where, values, actor)

    def _parse(self, where: str, given: Mapping[str, object]) -> dict[str, object]:
        parsed: dict[str, object] = {}
        for name in OPTION_NAMES & given.keys():
            try:
                if name == "lock":
                    parsed[name] = self._parse_lock(given[name])
                elif name == "on_conflict":
                    parsed.update(self._parse_conflict(given[name]))
                else:
                    parsed[name] = PARSERS[name][1](given[name])
            except ValueError as exc:
                raise InvalidLockOptions(f"{where}: option {name} {exc}") from None
        if all(parsed.get(name) is not None for name in _EITHER_OR):
            raise InvalidLockOptions(
                f"{where}: lock_args and lock_args_method do not go together; keep the one that says what counts"
            )
        return parsed

    def _parse_lock(self, value: object) -> LockType | None:
        if value is None or value is False:
            return None
        return self.lock_types[one_of(value, self.lock_types)]

    def _parse_conflict(self, value: object) -> dict[str, object]:
        if value is None:
            return {"client": None, "server": None}
        if not isinstance(value, dict):
            name = one_of(value, self.strategies)
            return {"client": name, "server": name}
        sides: dict[str, object] = {}
        for side, name in value.items():
            if side not in ("client", "server"):
                raise ValueError(
                    f"knows the sides 'client' and 'server', not {side!r}{guess(side, ('client', 'server'))}"
                )
            sides[side] = None if name is None else one_of(name, self.strategies)
        if sides.get("server") == "replace":
            raise ValueError(
                "cannot be 'replace' on the server side, where the message is already taken from the queue; "
                "use 'log', 'raise', 'reject' or 'reschedule'"
            )
        return sides

    @staticmethod
    def _stack(below: dict[str, object], above: dict[str, object]) -> dict[str, object]:
        stacked = below | above
        for name, other in (_EITHER_OR, _EITHER_OR[::-1]):
            if above.get(name) is not None:
                stacked[other] = None
        return stacked

    def _finish(self, where: str, values: Mapping[str, Any], actor: ActorFacts) -> LockOptions:
        options = dict(values)
        lock: LockType | None = options["lock"]
        if lock is not None and lock.queue is Until.EXPIRY and options["lock_ttl"] is None:
            raise InvalidLockOptions(f"{where}: lock={lock.name!r} needs lock_ttl, the seconds that its window lasts")
        for name, fit in (("lock_args", _fit_names), ("lock_args_method", _fit_callable), ("lock_ttl", _fit_callable)):
            try:
                options[name] = fit(options[name], actor)
            except ValueError as exc:
                if lock is None and values[name] is self._defaults[name]:
                    options[name] = None  # A default of the middleware need not fit an actor without a lock.
                    continue
                raise InvalidLockOptions(f"{where}: option {name} {exc}") from None
        return LockOptions(**options)


def _fit_names(names: tuple[str, ...] | None, actor: ActorFacts) -> tuple[str, ...] | None:
    """Check that the actor has the parameters that are named."""
    parameters = actor.parameters
    if names is None or parameters is None:
        return names
    for name in names:
        if name not in parameters:
            raise ValueError(
                f"names {name!r}, and the actor has the parameters "
                f"{', '.join(map(repr, parameters)) or '(none)'}{guess(name, parameters)}"
            )
    return names


def _fit_callable(value: object, actor: ActorFacts) -> object:
    """Find a method by its name, and check that it can be called with the actor's arguments."""
    function = actor.method(value) if isinstance(value, str) else value
    if value is not None and function is None:
        raise ValueError(f"names {value!r}, which is no method of a class-based actor")
    if callable(function) and not actor.can_be_given_to(function):
        raise ValueError(
            "is called as the actor is, and cannot take each call that the actor takes with the parameters "
            f"{', '.join(map(repr, actor.parameters or ())) or '(none)'}; give it the same, or *args and **kwargs"
        )
    return plain(function)
