"""The enqueue side: a message takes its queue lock before it is stored, and gives it back if it is not.

What a full lock means is found out in :mod:`dramatiq_unique.asking`. On a broker that can do both in one step, the lock
is taken where the message is stored (:mod:`dramatiq_unique.one_step`).
"""

import time
from typing import Any

from dramatiq import Message
from dramatiq.broker import MessageProxy

from dramatiq_unique import events
from dramatiq_unique.asking import Asking
from dramatiq_unique.claim import Claim
from dramatiq_unique.claims import carry_durations, stamp
from dramatiq_unique.errors import DuplicateMessage, LockStoreUnavailable, UniqueError, as_ours
from dramatiq_unique.guard import Attempt, NotEnqueued
from dramatiq_unique.lock_types import Until
from dramatiq_unique.one_step import OneStep
from dramatiq_unique.parts import Parts
from dramatiq_unique.store import Acquired, Contested, Held, Holder, Kept, Replaced, Storing, Superseded, Taken


__all__ = ["Enqueueing"]


class Enqueueing:
    """The transitions of messages that are enqueued on one broker, for the first time or again.

    Arguments:
        parts: What it works with.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._asking = Asking(parts)

    def enqueue(self, message: Message[Any], delay_ms: float | None, attempt: Attempt) -> None:
        """Take the queue lock of a message that is about to be stored.

        Arguments:
            message: The message as it will be stored; its ticket is put on it.
            delay_ms: Its delay, if it is delayed.
            attempt: The call of ``enqueue`` that this is part of.

        Raises:
            NotEnqueued: It is not to be stored.
            DuplicateMessage: The same, for its sender to hear.
            InvalidLockOptions: Its options are wrong, or do not fit its arguments.
            LockStoreUnavailable: The store cannot be reached.
        """
        attempt.delay_ms = delay_ms or 0
        if not attempt.passive:
            try:
                self._enqueue(message, attempt)
            except Exception as exc:  # noqa: BLE001 - looked at there
                self._fail_or_go_on(message, attempt, exc)
        if attempt.to_take is None:
            self._note(message, attempt)

    def _fail_or_go_on(self, message: Message[Any], attempt: Attempt, error: Exception) -> None:
        """Raise what came of settling a lock, or go on without the lock where raising would lose the message."""
        if isinstance(error, NotEnqueued):
            attempt.refused = True
            self._note_not_stored(message, attempt)  # Nothing is given back for it, which would do that.
        if isinstance(error, NotEnqueued | DuplicateMessage):
            raise error
        if self._parts.deliveries.sent_by_dramatiq:
            # Raising would lose the message (a retry, a delayed one, the next step of a pipeline); where its options
            # are wrong, the worker will say so and fail it.
            self._parts.journal.complain(
                "not_locked", error, message_id=message.message_id, actor_name=message.actor_name
            )
        elif isinstance(error, UniqueError):
            raise error
        else:
            what = f"could not lock message {message.message_id} of {message.actor_name!r}"
            raise as_ours(error, what) from error

    def _note(self, message: Message[Any], attempt: Attempt) -> None:
        if not attempt.noted:
            self._parts.deliveries.note_requeued(message.message_id)
            attempt.noted = True

    def _note_not_stored(self, message: Message[Any] | MessageProxy, attempt: Attempt) -> None:
        if attempt.noted:
            self._parts.deliveries.note_not_requeued(message.message_id)
            attempt.noted = False

    def _enqueue(self, message: Message[Any], attempt: Attempt) -> None:
        claim = self._parts.claims.of(message, sent=not self._parts.deliveries.sent_by_dramatiq)
        carry_durations(message)
        if claim is None:
            return
        if not _asks_at_enqueue(claim):
            stamp(message, claim.ticket)
            return
        one_step = self._parts.one_step
        if one_step is not None and attempt.watched and not claim.again and one_step.in_use:
            stamp(message, claim.ticket.taken(attempt.token))
            attempt.to_take = claim, message
            return
        self._take(claim, message, attempt)

    def _take(self, claim: Claim, message: Message[Any], attempt: Attempt) -> None:
        attempt.claim, attempt.answered = claim, False
        try:
            answer = self._asking.ask(claim, message, attempt)
        except LockStoreUnavailable as exc:
            self._enqueue_without_store(claim, message, attempt, exc)
            return
        self._settle(answer, claim, message, attempt)

    def store(self, one_step: OneStep, storing: Storing, attempt: Attempt, claim: Claim, message: Message[Any]) -> None:
        """Store a message, and take its lock in the same step.

        Arguments:
            one_step: Does it.
            storing: The message as the broker is about to store it.
            attempt: The call of ``enqueue`` that this is part of.
            claim: What the message asks for.
            message: The message.

        Raises:
            Exception: As :meth:`enqueue`, and whatever the broker raises where it cannot store the message.
        """
        attempt.storing = storing
        self._note(message, attempt)
        try:
            self._take(claim, message, attempt)
        except Exception as exc:  # noqa: BLE001 - looked at there
            self._fail_or_go_on(message, attempt, exc)
        if attempt.together and not attempt.answered:
            one_step.store_unless_there(storing, message.encode())
        elif not attempt.together:
            one_step.store(storing, message.encode())

    def _settle(self, answer: Acquired, claim: Claim, message: Message[Any], attempt: Attempt) -> None:
        """Give a message its ticket, as the store has answered."""
        match answer:
            case Superseded(by_id):
                self._parts.deliveries.note_superseded(message.message_id)
                raise self._parts.conflicts.superseded_at_enqueue(claim, message, by_id)
            case Taken():
                if not attempt.together:  # Else it was stored with it.
                    stamp(message, claim.ticket.taken(attempt.token))
                self._took(claim, attempt)
            case Replaced(holder):
                ticket = claim.ticket.taken(attempt.token).with_outcome("replaced", holder_id=holder.message_id)
                stamp(message, ticket)
                self._took(claim, attempt, holder)
            case Kept(held_ms):
                stamp(message, claim.ticket.taken(attempt.token))
                attempt.holds = True
                if not claim.again:  # Who took it died before the message was stored, or could not store it.
                    attempt.keeps_from_s = time.monotonic() - held_ms / 1000
            case Held() | Contested():
                stamp(message, claim.ticket)

    def _took(self, claim: Claim, attempt: Attempt, replaced: Holder | None = None) -> None:
        """Note that the lock was taken, and tell it once: a broker's reconnect loop comes here again."""
        if not attempt.holds:
            self._parts.holding.tell_locked(claim, delay_ms=attempt.delay_ms)
            if replaced is not None:
                self._parts.journal.tell(events.Replaced(**claim.facts(), replaced_id=replaced.message_id))
        attempt.holds, attempt.keeps_from_s, attempt.replaced = True, attempt.since_s, replaced

    def _enqueue_without_store(
        self, claim: Claim, message: Message[Any], attempt: Attempt, error: LockStoreUnavailable
    ) -> None:
        """Go on without a lock where the caller wants that, or where raising would lose the message."""
        goes_on = self._parts.without_store or self._parts.deliveries.sent_by_dramatiq
        self._parts.journal.tell(
            events.StoreError(
                **claim.facts(),
                operation="enqueue",
                error=str(error),
                consequence="unlocked" if goes_on else "refused",
            )
        )
        if not goes_on:
            raise error
        stamp(message, claim.ticket.maybe_taken(attempt.token))

    def stored(self, message: Message[Any], attempt: Attempt) -> None:
        """Keep the lock of a message in full, now that it is in the broker, and withdraw the one that it replaced.

        Never raises: the message will run, and its sender would send it again.
        """
        claim, since_s = attempt.claim, attempt.keeps_from_s
        if claim is None:
            return
        try:
            if since_s is not None and not self._parts.adapter.can_say:
                self._parts.holding.keep_in_full(claim, since_s + claim.hold_ms(attempt.delay_ms) / 1000)
            if attempt.replaced is not None:
                self._settle_replaced(claim, attempt.replaced, known_as_stored=attempt.together)
        except Exception as exc:  # noqa: BLE001 - whatever a broker's adapter raises
            self._parts.journal.complain("not_settled", exc, **claim.ids())

    def _settle_replaced(self, claim: Claim, old: Holder, *, known_as_stored: bool) -> None:
        """Take the message that was replaced out of the broker, or have a worker skip it when it comes up."""
        try:
            withdrawn = self._parts.adapter.withdraw(old.queue_name, old.broker_id)
        except Exception as exc:  # noqa: BLE001 - whatever a broker, or the body of another's message, raises
            self._parts.journal.complain("not_withdrawn", exc, **claim.ids(), replaced_id=old.message_id)
            withdrawn = None
        if withdrawn is None:
            if not known_as_stored:
                self._parts.holding.confirm(claim, old.message_id)
            return
        old_claim = self._parts.claims.to_let_go(withdrawn)
        if old_claim is not None:
            self._parts.conflicts.superseded(old_claim, withdrawn, claim.ticket.message_id)
        self._parts.holding.forget(claim, old.message_id)

    def give_back(self, message: Message[Any] | MessageProxy, attempt: Attempt) -> None:
        """Give back the lock of a message that was not stored."""
        self._note_not_stored(message, attempt)
        # What is stored together with its lock, or neither, leaves nothing to undo, whoever heard of it.
        if attempt.claim is not None and not attempt.together and (attempt.holds or not attempt.answered):
            self._parts.holding.give_back(attempt.claim, attempt.token, attempt.replaced, answered=attempt.answered)


def _asks_at_enqueue(claim: Claim) -> bool:
    """Whether the store has to be asked at enqueue."""
    # A retry neither opens nor stretches a window.
    return claim.lock.queue is not None and not (claim.lock.queue is Until.EXPIRY and claim.again)
