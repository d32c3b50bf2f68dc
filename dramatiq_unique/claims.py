"""Makes claims: the options, the digest and the lock type of a message, put together once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from dramatiq import Actor, Broker, Message
from dramatiq.broker import MessageProxy
from dramatiq.common import q_name

from dramatiq_unique.actors import ActorView
from dramatiq_unique.claim import Claim
from dramatiq_unique.digest import digest_of
from dramatiq_unique.durations import to_ms
from dramatiq_unique.errors import InvalidLockOptions
from dramatiq_unique.lock_types import LockType, Until
from dramatiq_unique.options import OPTION_NAMES, LockOptions, OptionRules, nearly_an_option
from dramatiq_unique.strategies import Action, BuiltIn
from dramatiq_unique.ticket import OPTION, Ticket


__all__ = ["Claims", "carry_durations", "stamp"]


@dataclass(frozen=True, slots=True)
class _Known:
    view: ActorView
    declared: Mapping[str, Any]
    options: LockOptions


class Claims:
    """Knows the actors of one broker, and makes the claims of their messages.

    Arguments:
        broker: The broker; its other middleware may have options with names like ours.
        rules: The options of the middleware.
    """

    def __init__(self, broker: Broker, rules: OptionRules) -> None:
        self._broker = broker
        self._rules = rules
        self._known: dict[str, _Known] = {}

    def declare(self, actor: Actor[Any, Any]) -> None:
        """Check the options of an actor, and remember it.

        Raises:
            InvalidLockOptions: One of them is wrong.
        """
        view = ActorView.of(actor.actor_name, actor.fn)
        self._known[actor.actor_name] = _Known(view, actor.options, self._rules.for_actor(view, actor.options))

    def fits(self, message: Message[Any]) -> bool:
        """Tell whether the arguments of a message fit its actor's signature, as far as that is known."""
        view = self._known_of(message.actor_name).view
        return view.signature is None or view.bind(message.args, message.kwargs) is not None

    def of(self, message: Message[Any] | MessageProxy, *, sent: bool = False) -> Claim | None:
        """Make the claim of a message.

        Arguments:
            message: The message; one that carries a ticket keeps its digest, lock type and ``lock_ttl``.
            sent: Whether it is being sent, so that a misspelt option can be told to its sender.

        Returns:
            The claim; ``None`` where the message asks for no lock.

        Raises:
            InvalidLockOptions: Its options are wrong, or do not fit its arguments.
        """
        known = self._known_of(message.actor_name)
        ticket = Ticket.on(message.message_id, message.options)
        options = self._options(known, message)
        if sent and ticket is None and options.lock is not None:
            self._check_names(message)
        if ticket is not None:
            # What became of an earlier send says nothing of this one.
            ticket = ticket if ticket.outcome is None else ticket._replace(outcome=None)
            return self._claim(ticket, options, message, first=False)
        if options.lock is None:
            return None
        return self._claim(self._settle(options.lock, known.view, options, message), options, message, first=True)

    def to_let_go(self, message: Message[Any] | MessageProxy) -> Claim | None:
        """Make the claim of a message that has ended: its ticket is enough, whatever its actor and options are now."""
        ticket = Ticket.on(message.message_id, message.options)
        if ticket is None:
            return None
        known = self._known_of(message.actor_name)
        return self._claim(ticket, known.options, message, first=False)

    def _known_of(self, actor_name: str) -> _Known:
        """What is known of an actor; of one that this process does not have, the middleware's defaults."""
        return self._known.get(actor_name) or _Known(ActorView(actor_name, None), {}, self._defaults)

    @cached_property
    def _defaults(self) -> LockOptions:
        return self._rules.without_actor()

    def _options(self, known: _Known, message: Message[Any] | MessageProxy) -> LockOptions:
        given = OPTION_NAMES.intersection(message.options)
        if not given:
            return known.options
        for name in given:
            if callable(message.options[name]):
                raise InvalidLockOptions(
                    f"message {message.message_id} of actor {message.actor_name!r}: option {name} takes no callable on "
                    "a message, which could not carry it; put it on the actor"
                )
        return self._rules.for_message(message.message_id, known.view, known.declared, message.options)

    def _check_names(self, message: Message[Any] | MessageProxy) -> None:
        """Refuse what is nearly an option of ours, and nobody else's; a message may carry anything else."""
        for name in message.options:
            meant = nearly_an_option(name)
            if meant and name not in self._broker.actor_options:
                raise InvalidLockOptions(
                    f"message {message.message_id} of actor {message.actor_name!r}: there is no option {name!r}; "
                    f"did you mean {meant!r}?"
                )

    def _settle(
        self, lock: LockType, view: ActorView, options: LockOptions, message: Message[Any] | MessageProxy
    ) -> Ticket:
        digest = digest_of(
            view,
            options,
            message_id=message.message_id,
            queue_name=message.queue_name,
            args=message.args,
            kwargs=message.kwargs,
        )
        ttl = options.lock_ttl
        return Ticket(
            message_id=message.message_id,
            digest=digest,
            lock=lock.name,
            ttl_ms=_called_ttl(ttl, message) if callable(ttl) else ttl,
            marked=lock.queue is Until.EXPIRY and self._may_replace(options.client),
        )

    def _may_replace(self, strategy: str | None) -> bool:
        if strategy is None:
            return False
        known = self._rules.strategies[strategy]
        return not isinstance(known, BuiltIn) or known.client is Action.REPLACE

    def _claim(
        self, ticket: Ticket, options: LockOptions, message: Message[Any] | MessageProxy, *, first: bool
    ) -> Claim:
        return Claim(
            ticket=ticket,
            first=first,
            # A lock type that this process does not have (another version, a row not registered here) is let go at
            # the end: whatever the message holds, it holds no longer than itself.
            lock=self._rules.lock_types.get(ticket.lock) or LockType(ticket.lock, queue=Until.END),
            options=options,
            actor_name=message.actor_name,
            queue_name=q_name(message.queue_name),
            args=_shown(message) if options.lock_info else "",
        )


def stamp(message: Message[Any] | MessageProxy, ticket: Ticket) -> None:
    """Put the ticket on a message."""
    message.options[OPTION] = ticket.entry()


def carry_durations(message: Message[Any]) -> None:
    """Put the durations among a message's options in a form that JSON can carry."""
    for name in OPTION_NAMES.intersection(message.options):
        if isinstance(message.options[name], timedelta):
            message.options[name] = message.options[name].total_seconds()


def _shown(message: Message[Any] | MessageProxy) -> str:
    return json.dumps({"args": message.args, "kwargs": message.kwargs}, default=repr)


def _called_ttl(ttl: Callable[..., object], message: Message[Any] | MessageProxy) -> int:
    where = f"message {message.message_id} of actor {message.actor_name!r}"
    try:
        value = ttl(*message.args, **message.kwargs)
    except Exception as exc:
        raise InvalidLockOptions(f"{where}: the lock_ttl callable raised {type(exc).__name__}") from exc
    try:
        return to_ms(value)
    except ValueError as exc:
        if isinstance(value, int | float | None):
            raise InvalidLockOptions(f"{where}: the lock_ttl callable returned {value!r}; it {exc}") from None
        # Anything else is not repeated: it may be an argument of the job.
        reason = str(exc).rpartition(", not ")[0]
        raise InvalidLockOptions(
            f"{where}: the lock_ttl callable returned {type(value).__name__}; it {reason}"
        ) from None
