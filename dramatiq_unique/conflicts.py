"""A message meets a full lock: what its strategy says, carried out.

Whatever is done here, the lock of the holder is left alone; taking its place is the store's business
(:meth:`~dramatiq_unique.store.RedisStore.acquire`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dramatiq import Message
from dramatiq.broker import MessageProxy
from dramatiq.common import q_name
from dramatiq.middleware import MiddlewareError, SkipMessage

from dramatiq_unique import events
from dramatiq_unique.brokers import BrokerAdapter
from dramatiq_unique.claim import Claim
from dramatiq_unique.claims import stamp
from dramatiq_unique.errors import DuplicateMessage, UniqueError
from dramatiq_unique.groups import Groups
from dramatiq_unique.guard import NotEnqueued
from dramatiq_unique.journal import Journal
from dramatiq_unique.rescheduling import Rescheduling, waiting
from dramatiq_unique.store import Holder
from dramatiq_unique.strategies import SILENCE, Action, BuiltIn, Conflict, Side, Strategy, decide


__all__ = ["Conflicts"]


class Conflicts:
    """Carries strategies out on one broker.

    Arguments:
        adapter: What the broker can do beyond.
        rescheduling: Puts messages back.
        groups: Counts what will not run.
        journal: Where facts are told.
        strategies: Every strategy that ``on_conflict`` may name.
    """

    def __init__(
        self,
        *,
        adapter: BrokerAdapter,
        rescheduling: Rescheduling,
        groups: Groups,
        journal: Journal,
        strategies: Mapping[str, Strategy],
    ) -> None:
        self._adapter = adapter
        self._rescheduling = rescheduling
        self._groups = groups
        self._journal = journal
        self._strategies = strategies

    def action(self, side: Side, claim: Claim, holder: Holder) -> Action:
        """Ask the strategy of a message what is done with it.

        Arguments:
            side: Where the message is.
            claim: What it asks for.
            holder: Who is in the way.

        Returns:
            The action. A strategy of the user's own that raises or returns no action is logged, and the default of
            the side stands.
        """
        conflict = Conflict(
            **claim.ids(),
            side=side,
            queue_name=claim.queue_name,
            holder_id=holder.message_id,
            rescheduled=claim.ticket.rescheduled,
        )
        try:
            action = decide(self._strategy(side, claim), conflict)
        except Exception as exc:  # noqa: BLE001 - raising here would lose the message
            self._journal.complain("strategy_failed", exc, strategy=_name(side, claim), **claim.ids())
            action = decide(SILENCE, conflict)
        limit = claim.options.reschedule_limit
        if action is Action.RESCHEDULE and limit is not None and claim.ticket.rescheduled >= limit:
            return Action.REJECT
        return action

    def replaces_at_once(self, claim: Claim) -> bool:
        """Tell whether a message may take the place of a waiting one in the very step that finds it."""
        strategy = self._strategy("client", claim)
        return isinstance(strategy, BuiltIn) and strategy.client is Action.REPLACE

    def at_enqueue(
        self, action: Action, claim: Claim, message: Message[Any], holder: Holder, *, by_dramatiq: bool
    ) -> UniqueError | NotEnqueued:
        """Carry out what is done with a message that is not enqueued.

        Arguments:
            action: What is done; ``REPLACE`` found nobody waiting and counts as ``DISCARD``.
            claim: What the message asked for.
            message: The message, as the hook was given it.
            holder: Who is in the way.
            by_dramatiq: Whether Dramatiq itself enqueues: there, what would be raised is dead-lettered.

        Returns:
            What to raise: :class:`DuplicateMessage` to the caller's own send under ``raise``, else
            :class:`NotEnqueued`.
        """
        if action is Action.RAISE and not by_dramatiq:
            self._tell_refused("client", claim, message, holder, level=0)
            return self._duplicate(claim, holder)
        if action in (Action.REJECT, Action.RAISE):
            self._reject(claim, message, holder)
            return self._not_enqueued("rejected", claim, message, holder)
        if action is Action.RESCHEDULE:
            self._put_back("client", claim, message, holder)
            return self._not_enqueued("rescheduled", claim, message, holder)
        self._tell_refused("client", claim, message, holder)
        self._groups.count_as_done(message)
        return self._not_enqueued("discarded", claim, message, holder)

    def at_start(self, action: Action, claim: Claim, message: MessageProxy, holder: Holder) -> MiddlewareError:
        """Carry out what is done with a delivery that cannot have its lock.

        Arguments:
            action: What is done.
            claim: What the message asked for.
            message: The delivered message.
            holder: Who is in the way.

        Returns:
            What to raise: :class:`DuplicateMessage` under ``raise`` (the delivery fails, and Dramatiq's retries
            apply), else :class:`dramatiq.middleware.SkipMessage`.
        """
        if action is Action.RAISE:
            self._tell_refused("server", claim, message, holder, level=0)
            return self._duplicate(claim, holder)
        if action is Action.REJECT:
            self._journal.tell(
                events.Rejected(**claim.facts(), **_because("server", claim, holder), next_actor=_next_actor(message))
            )
            message.fail()
        elif action is Action.RESCHEDULE:
            self._put_back("server", claim, message, holder)
        else:
            self._tell_refused("server", claim, message, holder)
            self._groups.count_as_done(message)
        return SkipMessage(f"{action.value}: the lock is held by message {holder.message_id}")

    def merged(self, claim: Claim, message: Message[Any], holder: Holder) -> NotEnqueued:
        """Let a retry go, since a newer copy of it waits; what comes back is to be raised."""
        next_actor = _next_actor(message)
        self._journal.tell(
            events.Merged(**claim.facts(), holder_id=holder.message_id, next_actor=next_actor),
            level=logging.WARNING if next_actor else None,
        )
        self._groups.count_as_done(message)
        return self._not_enqueued("discarded", claim, message, holder)

    def superseded(self, claim: Claim, message: Message[Any] | MessageProxy, by_id: str) -> None:
        """Say that a message whose place was taken came up and is skipped."""
        next_actor = _next_actor(message)
        self._journal.tell(
            events.Superseded(**claim.facts(), by_id=by_id, next_actor=next_actor),
            level=logging.WARNING if next_actor else None,
        )
        self._groups.count_as_done(message)

    def superseded_at_enqueue(self, claim: Claim, message: Message[Any], by_id: str) -> NotEnqueued:
        """Do not enqueue a message again whose place was taken; what comes back is to be raised."""
        self.superseded(claim, message, by_id)
        stamp(message, claim.ticket.refused("discarded", holder_id=by_id))
        return NotEnqueued(message)

    def _strategy(self, side: Side, claim: Claim) -> Strategy:
        name = claim.options.client if side == "client" else claim.options.server
        return SILENCE if name is None else self._strategies[name]

    def _put_back(self, side: Side, claim: Claim, message: Message[Any] | MessageProxy, holder: Holder) -> None:
        strategy = _name(side, claim)
        self._rescheduling.put_back(side, claim, message, strategy=strategy, holder_id=holder.message_id)

    def _reject(self, claim: Claim, message: Message[Any], holder: Holder) -> None:
        letter = waiting(message)
        stamp(letter, claim.ticket.refused("rejected", holder_id=holder.message_id))
        self._adapter.dead_letter(letter, self._duplicate(claim, holder))
        self._journal.tell(
            events.Rejected(**claim.facts(), **_because("client", claim, holder), next_actor=_next_actor(message))
        )

    def _tell_refused(
        self,
        side: Side,
        claim: Claim,
        message: Message[Any] | MessageProxy,
        holder: Holder,
        *,
        level: int | None = None,
    ) -> None:
        next_actor = _next_actor(message)
        if level is None and next_actor:
            level = logging.WARNING
        elif level is None and side == "client" and self._strategy(side, claim) is SILENCE:
            level = 0
        if self._journal.is_heard(events.Refused, level=level):
            self._journal.tell(
                events.Refused(**claim.facts(), **_because(side, claim, holder), next_actor=next_actor), level=level
            )

    @staticmethod
    def _duplicate(claim: Claim, holder: Holder) -> DuplicateMessage:
        ticket = claim.ticket
        text = (
            f"message {ticket.message_id} of actor {claim.actor_name!r} is a duplicate: its {claim.lock.name} lock "
            f"{ticket.digest} is held by message {holder.message_id} on queue {holder.queue_name!r}"
        )
        return DuplicateMessage(
            text,
            message_id=ticket.message_id,
            actor_name=claim.actor_name,
            digest=ticket.digest,
            holder_id=holder.message_id,
        )

    @staticmethod
    def _not_enqueued(action: str, claim: Claim, message: Message[Any], holder: Holder) -> NotEnqueued:
        noted = claim.ticket.refused(
            action,
            holder_id=holder.message_id,
            holder_queue=q_name(holder.queue_name),
            holder_actor=holder.actor_name,
        )
        stamp(message, noted)
        return NotEnqueued(message)


def _next_actor(message: Message[Any] | MessageProxy) -> str | None:
    target = message.options.get("pipe_target")
    return target.get("actor_name") if isinstance(target, dict) else None


def _name(side: Side, claim: Claim) -> str:
    name = claim.options.client if side == "client" else claim.options.server
    return name or ("none" if side == "client" else "reschedule")


def _because(side: Side, claim: Claim, holder: Holder) -> dict[str, str]:
    return {"side": side, "strategy": _name(side, claim), "holder_id": holder.message_id}
