"""What the locks know of an actor: its parameters, its methods, and its options as declared."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dramatiq import GenericActor

from dramatiq_unique.signatures import calls_of, takes_all


__all__ = ["ActorView"]


@dataclass(frozen=True)
class ActorView:
    """A Dramatiq actor as the options and the digest look at it.

    Arguments:
        actor_name: The name of the actor.
        signature: How its arguments are bound; ``None`` where it cannot be told (an actor that this process does
            not know, a built-in function), and arguments are taken as they were given.
        instance: The instance behind a class-based actor (:class:`dramatiq.GenericActor`), else ``None``.
    """

    actor_name: str
    signature: inspect.Signature | None
    instance: object | None = None

    @classmethod
    def of(cls, actor_name: str, fn: Callable[..., Any]) -> ActorView:
        """Look at the function or the class-based actor behind an actor.

        ``Actor.fn`` of a class-based actor is its instance, whose ``__call__`` hands over to ``perform``; that of
        an async actor is a wrapper that :func:`inspect.signature` sees through.
        """
        instance = fn if isinstance(fn, GenericActor) else None
        try:
            signature = inspect.signature(instance.perform if instance is not None else fn)
        except (TypeError, ValueError):
            return cls(actor_name, None, instance)
        return cls(actor_name, signature, instance)

    @property
    def parameters(self) -> Collection[str] | None:
        """The names of its parameters, in order; ``None`` where they cannot be told."""
        return tuple(self.signature.parameters) if self.signature else None

    def method(self, name: str) -> Callable[..., Any] | None:
        """Find a method of a class-based actor.

        Arguments:
            name: The method's name.

        Returns:
            The bound method; ``None`` where there is none, or the actor is a function.
        """
        if self.instance is None or not callable(getattr(type(self.instance), name, None)):
            return None
        found: Callable[..., Any] = getattr(self.instance, name)
        return found

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """Bind arguments to the actor's parameters, defaults spelled out.

        Arguments:
            args: Positional arguments of a message.
            kwargs: Its keyword arguments.

        Returns:
            Values by parameter name; ``None`` where they do not fit.
        """
        if self.signature is None:
            return None
        plainly = self._bound_plainly(args, kwargs)
        if plainly is not None:
            return plainly
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        return bound.arguments

    def _bound_plainly(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """Bind as :meth:`bind` does, for a tenth of the time; ``None`` where it does not see at once that they fit."""
        defaults, required = self._plain
        if len(args) < required or len(args) > len(defaults):
            return None
        bound = defaults.copy()
        bound.update(zip(defaults, args, strict=False))
        if kwargs:
            bound.update(kwargs)
            by_place = itertools.islice(defaults, len(args))
            if len(bound) > len(defaults) or not kwargs.keys().isdisjoint(by_place):
                return None
        return bound

    @cached_property
    def _plain(self) -> tuple[dict[str, Any], float]:
        """The default of each parameter, and how many have none; infinitely many where one cannot be given by place."""
        parameters = self.signature.parameters.values() if self.signature else ()
        plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
        required = sum(parameter.default is parameter.empty for parameter in parameters)
        return {parameter.name: parameter.default for parameter in parameters}, required if plain else math.inf

    def can_be_given_to(self, function: Callable[..., Any]) -> bool:
        """Tell whether a function takes what the actor takes, as far as their signatures say (:func:`calls_of`)."""
        return self.signature is None or takes_all(function, calls_of(self.signature))

    def is_default(self, name: str, value: object) -> bool:
        """Tell whether a bound argument is the very default of its parameter."""
        return self.signature is not None and self.signature.parameters[name].default is value
