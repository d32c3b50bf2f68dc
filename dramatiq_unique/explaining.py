"""Foretelling: the decisions that enqueueing and processing would take, taken without changing anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dramatiq import Message

from dramatiq_unique.claim import Claim
from dramatiq_unique.errors import ours
from dramatiq_unique.explanation import AtStart, ExplainedAction, Explanation, Sentence
from dramatiq_unique.holders import LockHolder
from dramatiq_unique.parts import Parts
from dramatiq_unique.store import Holder, Kind, Lookups, Sighting, first_waiting, longest_unseen
from dramatiq_unique.strategies import Action


__all__ = ["Explaining"]

_REFUSED: dict[Action, ExplainedAction] = {
    Action.DISCARD: "discarded",
    Action.RAISE: "raised",
    Action.REJECT: "rejected",
    Action.REPLACE: "discarded",  # Nobody waits whose place could be taken.
    Action.RESCHEDULE: "rescheduled",
}
_AT_START: dict[Action, AtStart] = {
    Action.DISCARD: "discarded",
    Action.RAISE: "raised",
    Action.REJECT: "rejected",
    Action.RESCHEDULE: "rescheduled",
}


class Explaining:
    """Says what would happen to messages on one broker. No key is touched.

    Arguments:
        parts: What enqueueing and processing work with there.
        enabled: Whether anything is locked.
    """

    def __init__(self, parts: Parts, *, enabled: bool) -> None:
        self._parts = parts
        self._lookups = Lookups(parts.store.client, prefix=parts.store.prefix)
        self._enabled = enabled

    def look(self, message: Message[Any]) -> Sighting | None:
        """Look at the locks that a message would ask for.

        Arguments:
            message: A message that was not sent.

        Returns:
            How they stand; ``None`` where it asks for none.

        Raises:
            InvalidLockOptions: Its options are wrong, or do not fit its arguments.
            LockStoreUnavailable: The store cannot be reached.
        """
        claim = self._claim(message)
        return None if claim is None else self._lookups.look(claim.ticket.digest)

    def explain(self, message: Message[Any]) -> Explanation:
        """Say what would happen to a message.

        Arguments:
            message: A message that was not sent.

        Raises:
            InvalidLockOptions: Its options are wrong, or do not fit its arguments: ``send`` would raise this.
            LockStoreUnavailable: The store cannot be reached.
            UniqueError: A key of its locks cannot be read.
        """
        explained = self._by_its_lock(message)
        if self._parts.claims.fits(message):
            return explained
        return replace(explained, reason=f"{explained.reason} Its arguments do not fit the actor, so a run would fail.")

    def _by_its_lock(self, message: Message[Any]) -> Explanation:
        if not self._enabled:
            return _unlocked(message, "UniqueMiddleware(enabled=False) locks nothing")
        claim = self._claim(message)
        if claim is None:
            return _unlocked(message, f"actor {message.actor_name!r} has no lock")
        return self._explained(claim, self._lookups.look(claim.ticket.digest).checked())

    def _explained(self, claim: Claim, seen: Sighting) -> Explanation:
        action, first, orphan = self._at_enqueue(claim, seen)
        holder = None if first is None else LockHolder.of(Kind.QUEUE, first)
        words = Sentence(claim.lock.name, claim.options.lock_limit, seen.now_ms)
        at_start: AtStart | None = None
        if action not in ("enqueued", "replaced") and holder is not None:
            reason = words.refused(action, holder)
        else:
            at_start, second = self._at_start(claim, seen)
            reason = words.enqueued(holder, orphan=orphan)
            if second is not None:
                running = LockHolder.of(Kind.RUN, second)
                reason = words.in_the_way(holder, orphan=orphan, at_start=at_start, running=running)
                holder = holder or running
        return Explanation(
            actor_name=claim.actor_name,
            queue_name=claim.queue_name,
            digest=claim.ticket.digest,
            lock=claim.lock.name,
            action=action,
            at_start=at_start,
            holder=holder,
            orphan=orphan,
            reason=reason,
        )

    def _claim(self, message: Message[Any]) -> Claim | None:
        with ours(f"could not tell the lock of a message of {message.actor_name!r}"):
            return self._parts.claims.of(message, sent=True)

    def _at_enqueue(self, claim: Claim, seen: Sighting) -> tuple[ExplainedAction, Holder | None, bool]:
        """Foretell :meth:`Enqueueing.enqueue`: what is done, because of whom, and whether that is an orphan."""
        holders, limit = seen.queue, claim.options.lock_limit
        if claim.lock.queue is None or len(holders) < limit:
            return "enqueued", None, False
        waiting = first_waiting(holders)
        if waiting is not None and self._parts.conflicts.replaces_at_once(claim):
            return "replaced", waiting, False
        holder = longest_unseen(holders)
        if self._parts.orphans.is_orphan(holder, seen.unseen_ms(holder)):
            holders = tuple(other for other in holders if other is not holder)
            if len(holders) < limit:
                return "enqueued", holder, True
            holder, waiting = longest_unseen(holders), first_waiting(holders)
        action = self._parts.conflicts.action("client", claim, holder)
        if action is Action.REPLACE and waiting is not None:
            return "replaced", waiting, False
        return _REFUSED[action], holder, False

    def _at_start(self, claim: Claim, seen: Sighting) -> tuple[AtStart, Holder | None]:
        """Foretell :meth:`Processing.start` of a message that has its queue lock, if it asks for one."""
        if not claim.lock.run or len(seen.run) < claim.options.lock_limit:
            return "runs", None
        holder = seen.run[0]
        if claim.options.lock_timeout:
            return "waits", holder
        return _AT_START[self._parts.conflicts.action("server", claim, holder)], holder


def _unlocked(message: Message[Any], why: str) -> Explanation:
    return Explanation(
        actor_name=message.actor_name,
        queue_name=message.queue_name,
        digest=None,
        lock=None,
        action="enqueued",
        at_start="runs",
        holder=None,
        orphan=False,
        reason=f"It would be enqueued: {why}.",
    )
