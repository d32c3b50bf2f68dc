"""Asking for a queue lock: what the store answers, and what is made of a lock that is full.

How the message goes on then is settled in :mod:`dramatiq_unique.enqueueing`.
"""

from typing import Any

from dramatiq import Message

from dramatiq_unique.claim import Claim
from dramatiq_unique.guard import Attempt
from dramatiq_unique.lock_types import Until
from dramatiq_unique.parts import Parts
from dramatiq_unique.store import Acquired, Held, Holder, Taken, Terms
from dramatiq_unique.strategies import Action


__all__ = ["Asking"]

UNSTORED_MS = 60_000
"""How long a lock stands whose message is not known to be in the broker yet."""


class Asking:
    """Asks for the queue locks of messages that are enqueued on one broker.

    Arguments:
        parts: What it works with.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def ask(self, claim: Claim, message: Message[Any], attempt: Attempt) -> Acquired:
        """Ask for the queue lock, and settle what is found.

        Arguments:
            claim: What the message asks for.
            message: The message as it is to be stored.
            attempt: The call of ``enqueue`` that this is part of.

        Returns:
            How the message goes on: with its lock, or, under ``Held`` and ``Contested``, without it; ``Superseded`` is
            not to go on.

        Raises:
            NotEnqueued: It is not to be stored.
            DuplicateMessage: The same, for its sender to hear.
            LockStoreUnavailable: The store cannot be reached.
        """
        delivery = self._parts.deliveries.here(message.message_id)
        if delivery is not None:
            # Noted before the store is asked: an Interrupt may land in between, and then the ack has to let go.
            delivery.queue_held = claim.lets_queue_lock_go
            delivery.enqueued_as.append(attempt.token)
        answer = self._acquire(claim, message, attempt)
        if isinstance(answer, Held) and self._parts.orphans.found(claim, answer):
            answer = self._take_over(answer, claim, message, attempt)
        return self._meet(answer, claim, message, attempt) if isinstance(answer, Held) else answer

    def _acquire(
        self,
        claim: Claim,
        message: Message[Any],
        attempt: Attempt,
        *,
        takeover: bool | None = None,
        orphan: Holder | None = None,
    ) -> Acquired:
        if takeover is None:
            takeover = not claim.again and self._parts.conflicts.replaces_at_once(claim)
        terms = self._terms(claim, attempt, takeover=takeover)
        attempt.answered = False
        request = claim.request(message, self._parts.adapter.broker_id(message))
        # In the first call the message may be stored too; what comes after is about a lock that was full.
        storing, attempt.storing = attempt.storing, None
        if storing is not None and self._parts.one_step is not None:
            answer = self._parts.one_step.acquire(storing, attempt, request, terms)
        else:
            answer = self._parts.store.acquire(request, terms, orphan=orphan)
        attempt.answered = True
        return answer

    def _terms(self, claim: Claim, attempt: Attempt, *, takeover: bool) -> Terms:
        message_id, can_say = claim.ticket.message_id, self._parts.adapter.can_say
        hold_ms = claim.hold_ms(attempt.delay_ms)
        # Whoever dies before the broker has the message blocks nobody for longer; kept in full once it is stored.
        taken_ms = hold_ms if can_say else min(hold_ms, UNSTORED_MS)
        if claim.lock.queue is Until.EXPIRY:
            taken_state = kept_state = "v" if claim.ticket.marked else "f"
        else:
            runs = not claim.first and self._parts.deliveries.in_body(message_id)
            taken_state = "w" if can_say else "n"
            kept_state = "" if runs else "w" if claim.again else taken_state
        here = self._parts.deliveries.here(message_id)
        return Terms(
            token=attempt.token,
            taken_ms=taken_ms,
            taken_state=taken_state,
            kept_ms=hold_ms if claim.again else taken_ms,
            kept_state=kept_state,
            takeover=takeover,
            delivery="" if here is None else here.token,
        )

    def _take_over(self, held: Held, claim: Claim, message: Message[Any], attempt: Attempt) -> Acquired:
        """Take the lock over from a holder whose message is gone, unless somebody was faster."""
        answer = self._acquire(claim, message, attempt, orphan=held.holder)
        if isinstance(answer, Taken):
            self._parts.orphans.reclaimed(claim, held)
        return answer

    def _meet(self, held: Held, claim: Claim, message: Message[Any], attempt: Attempt) -> Acquired:
        """Settle a full lock; what comes back is how the message goes on all the same."""
        if claim.again and not self._may_be_merged(claim, held):
            return held  # Its own lock had lapsed, or was never taken; the start decides.
        action = self._parts.conflicts.action("client", claim, held.holder)
        if claim.again and action in (Action.DISCARD, Action.REPLACE):
            raise self._parts.conflicts.merged(claim, message, held.holder)
        if action is Action.REPLACE:
            answer = self._acquire(claim, message, attempt, takeover=True)
            if not isinstance(answer, Held):
                return answer
            held = answer
        by_dramatiq = self._parts.deliveries.sent_by_dramatiq
        raise self._parts.conflicts.at_enqueue(action, claim, message, held.holder, by_dramatiq=by_dramatiq)

    def _may_be_merged(self, claim: Claim, held: Held) -> bool:
        """Whether a message that was accepted may leave its work to the holder: one that waits, and is stored."""
        if claim.lock.queue is not Until.START or claim.ticket.redelivered:
            return False
        return self._parts.orphans.is_stored(held.holder)
