"""The life of a message, as its locks see it: enqueue, start, finish, end.

Each transition reads the row of the lock type and asks the store once. What a full lock means is settled in
:mod:`dramatiq_unique.conflicts`; how leases are kept and releases made, in :mod:`dramatiq_unique.holding`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dramatiq.middleware import MiddlewareError, SkipMessage

from dramatiq_unique import events
from dramatiq_unique.brokers import REJECTED
from dramatiq_unique.claims import stamp
from dramatiq_unique.errors import DuplicateMessage, LockStoreUnavailable, UniqueError
from dramatiq_unique.guard import NotEnqueued
from dramatiq_unique.lock_types import Until
from dramatiq_unique.store import Begun, Found, Kind, Status
from dramatiq_unique.strategies import Action

if TYPE_CHECKING:
    from dramatiq import Message
    from dramatiq.broker import MessageProxy

    from dramatiq_unique.brokers import BrokerAdapter
    from dramatiq_unique.claims import Claim, Claims
    from dramatiq_unique.conflicts import Conflicts
    from dramatiq_unique.deliveries import Deliveries, Delivery
    from dramatiq_unique.guard import Attempt
    from dramatiq_unique.holding import Holding
    from dramatiq_unique.journal import Journal
    from dramatiq_unique.store import Acquired, RedisStore

__all__ = ["Life"]

_PUT_BACK_AT_LEAST_MS = 500
_LOOK_AGAIN_S = 0.01


class Life:
    """The transitions of the messages of one broker.

    Arguments:
        store: The locks.
        claims: What messages ask for.
        deliveries: What runs in this process.
        holding: Keeps and lets go of what deliveries hold.
        journal: Where facts are told.
        lease_ms: The lease of a run lock, in milliseconds.
        without_store: Whether messages go on without a lock where the store cannot be reached.
    """

    def __init__(
        self,
        *,
        store: RedisStore,
        claims: Claims,
        deliveries: Deliveries,
        holding: Holding,
        journal: Journal,
        lease_ms: int,
        without_store: bool,
    ) -> None:
        self._store = store
        self._claims = claims
        self._deliveries = deliveries
        self._holding = holding
        self._journal = journal
        self._lease_ms = lease_ms
        self._without_store = without_store
        # Set once the broker's enqueue is guarded, since each knows the other.
        self.conflicts: Conflicts
        self.adapter: BrokerAdapter

    # Enqueue

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
        if attempt.passive:
            return
        try:
            self._enqueue(message, delay_ms, attempt)
        except (NotEnqueued, DuplicateMessage):
            raise
        except Exception as exc:
            if self._deliveries.sent_by_dramatiq:
                # Raising would lose the message (a retry, a delayed one, the next step of a pipeline); where its
                # options are wrong, the worker will say so and fail it.
                self._journal.complain("not_locked", exc, message_id=message.message_id, actor_name=message.actor_name)
                return
            raise as_ours(exc, message) from exc

    def _enqueue(self, message: Message[Any], delay_ms: float | None, attempt: Attempt) -> None:
        claim = self._claims.of(message)
        if claim is None:
            return
        held = not claim.first and claim.ticket.held
        if claim.lock.queue is None or claim.ticket.redelivered:
            stamp(message, claim.ticket)
            return
        if claim.lock.queue is Until.EXPIRY and held:
            return  # A retry neither opens nor stretches a window.
        try:
            acquired = self._acquire(claim, message, delay_ms, takeover=self.conflicts.replaces_at_once(claim) and not held)
        except LockStoreUnavailable as exc:
            self._enqueue_without_store(claim, message, exc)
            return
        if acquired.status is Status.HELD and acquired.holder is not None:
            acquired = self._conflict_at_enqueue(claim, message, delay_ms, acquired, held=held)
        self._settle(claim, message, delay_ms, acquired, attempt)

    def _acquire(self, claim: Claim, message: Message[Any], delay_ms: float | None, *, takeover: bool) -> Acquired:
        if claim.lock.queue is Until.EXPIRY and not claim.ticket.marked:
            state = "f"
        else:
            runs = not claim.first and self._deliveries.in_body(message.message_id)
            state = "" if runs else "w"
        return self._store.acquire(
            claim.request(message), hold_ms=claim.hold_ms(delay_ms or 0), state=state, takeover=takeover
        )

    def _conflict_at_enqueue(
        self, claim: Claim, message: Message[Any], delay_ms: float | None, acquired: Acquired, *, held: bool
    ) -> Acquired:
        """Settle a full lock; return where the message is enqueued after all."""
        holder = acquired.holder
        assert holder is not None
        action = self.conflicts.action("client", claim, holder)
        if held and claim.lock.queue is Until.END:
            return acquired  # Its lock had lapsed; the start decides.
        if held and action not in (Action.REJECT, Action.RESCHEDULE, Action.RAISE):
            self.conflicts.merge(claim, message, holder)
        if action is Action.REPLACE and not self.conflicts.replaces_at_once(claim):
            acquired = self._acquire(claim, message, delay_ms, takeover=True)
            if acquired.status is not Status.HELD:
                return acquired
        by_dramatiq = self._deliveries.sent_by_dramatiq
        self.conflicts.at_enqueue(action, claim, message, acquired.holder or holder, by_dramatiq=by_dramatiq)

    def _settle(
        self, claim: Claim, message: Message[Any], delay_ms: float | None, acquired: Acquired, attempt: Attempt
    ) -> None:
        if acquired.status is Status.SUPERSEDED:
            by_id = acquired.superseded_by or ""
            self._deliveries.note_superseded(message.message_id)
            self.conflicts.superseded(claim, message, by_id)
            stamp(message, claim.ticket.with_outcome("discarded", holder_id=by_id))
            raise NotEnqueued(message)
        ticket = claim.ticket if acquired.status is Status.HELD else replace(claim.ticket, held=True)
        if acquired.status in (Status.TAKEN, Status.REPLACED):
            attempt.taken = True
            attempt.replaced = acquired.holder
            hold_ms = claim.hold_ms(delay_ms or 0)
            self._journal.tell(events.Locked(**claim.facts(), kind=Kind.QUEUE.value, hold_ms=hold_ms))
        if acquired.status is Status.REPLACED and acquired.holder is not None:
            ticket = ticket.with_outcome("replaced", holder_id=acquired.holder.message_id)
            self._journal.tell(events.Replaced(**claim.facts(), replaced_id=acquired.holder.message_id))
        attempt.claim = claim
        stamp(message, ticket)

    def _enqueue_without_store(self, claim: Claim, message: Message[Any], error: LockStoreUnavailable) -> None:
        """Go on without a lock where the caller wants that, or where raising would lose the message."""
        goes_on = self._without_store or self._deliveries.sent_by_dramatiq
        self._journal.tell(
            events.StoreError(
                **claim.facts(),
                operation="enqueue",
                error=str(error),
                consequence="unlocked" if goes_on else "refused",
            )
        )
        if not goes_on:
            raise error
        stamp(message, claim.ticket)

    def stored(self, message: Message[Any], attempt: Attempt) -> None:
        """Note that a message is in the broker, and take the one whose place it took out of it."""
        self._deliveries.note_requeued(message.message_id)
        old = attempt.replaced
        if attempt.claim is not None and old is not None and self.adapter.withdraw(old.queue_name, old.broker_id):
            self._holding.forget(attempt.claim, old.message_id)

    def give_back(self, attempt: Attempt) -> None:
        """Give back the lock of a message that was not stored."""
        if attempt.claim is not None and attempt.taken:
            self._holding.give_back(attempt.claim, attempt.replaced)

    # Start

    def start(self, message: MessageProxy) -> None:
        """Settle the locks of a delivery before its actor runs.

        Arguments:
            message: The delivered message.

        Raises:
            SkipMessage: It is not to run now, or ever.
            DuplicateMessage: Its lock is full and its strategy says ``raise``.
            InvalidLockOptions: Its options are wrong, or do not fit its arguments.
            LockStoreUnavailable: The store cannot be reached.
        """
        delivery = self._deliveries.open(message.message_id)
        if message.options.get(REJECTED):
            message.fail()
            msg = "rejected at enqueue"
            raise SkipMessage(msg)
        if not message.failed:
            try:
                self._start(delivery, message)
            except MiddlewareError:
                raise
            except Exception as exc:
                raise as_ours(exc, message) from exc
        delivery.in_body = True

    def _start(self, delivery: Delivery, message: MessageProxy) -> None:
        claim = delivery.claim = self._claims.of(message)
        if claim is None or not _has_a_start(claim):
            return
        try:
            begun = self._begin(claim, delivery, message)
        except LockStoreUnavailable as exc:
            consequence = "unlocked" if self._without_store else "failed"
            self._journal.tell(
                events.StoreError(**claim.facts(), operation="start", error=str(exc), consequence=consequence)
            )
            if self._without_store:
                return
            raise
        if begun.status is Status.SUPERSEDED:
            self._deliveries.note_superseded(message.message_id)
            self.conflicts.superseded(claim, message, begun.superseded_by or "")
            msg = f"message {begun.superseded_by} took its place"
            raise SkipMessage(msg)
        if begun.status is Status.RUNNING:
            self.conflicts.put_back_redelivered(claim, message, max(begun.left_ms, _PUT_BACK_AT_LEAST_MS))
            msg = "an earlier delivery of it may be running yet"
            raise SkipMessage(msg)
        if begun.status is Status.HELD and begun.holder is not None:
            action = self.conflicts.action("server", claim, begun.holder)
            self.conflicts.at_start(action, claim, message, begun.holder)
        self._begun(claim, delivery, message, begun)

    def _begin(self, claim: Claim, delivery: Delivery, message: MessageProxy) -> Begun:
        """Ask the store, and wait for a run lock as long as ``lock_timeout`` allows."""
        begun = self._begin_once(claim, delivery, message)
        timeout_s = claim.options.lock_timeout / 1000
        if begun.status is not Status.HELD or not claim.lock.run or not timeout_s:
            return begun
        until_s = time.monotonic() + timeout_s
        with self._store.releases(claim.ticket.digest) as wait:
            while True:
                begun = self._begin_once(claim, delivery, message)
                left_s = until_s - time.monotonic()
                if begun.status is not Status.HELD or begun.holder is None or left_s <= 0:
                    return begun
                # Nobody tells of a holder that died: look again when its lease is over.
                wait(min(left_s, max(begun.left_ms / 1000, _LOOK_AGAIN_S)))

    def _begin_once(self, claim: Claim, delivery: Delivery, message: MessageProxy) -> Begun:
        return self._store.begin(
            claim.request(message),
            token=delivery.token,
            queue=_queue_at_start(claim),
            run=claim.lock.run,
            lease_ms=claim.lease_ms(self._lease_ms),
            hold_ms=claim.hold_ms(),
        )

    def _begun(self, claim: Claim, delivery: Delivery, message: MessageProxy, begun: Begun) -> None:
        lock, ticket = claim.lock, claim.ticket
        lapsed = ticket.held and begun.found is not Found.MINE
        taken = begun.found is Found.FREE and _queue_at_start(claim) in ("end", "take")
        lease_ms = claim.lease_ms(self._lease_ms)
        if lapsed:
            self._journal.tell(events.Lapsed(**claim.facts()))
        if taken:
            self._journal.tell(events.Locked(**claim.facts(), kind=Kind.QUEUE.value, hold_ms=claim.hold_ms()))
        if lock.run:
            self._journal.tell(events.Locked(**claim.facts(), kind=Kind.RUN.value, hold_ms=lease_ms))
        self._holding.hold(claim, delivery, lease_ms)
        if claim.first or taken or ticket.redelivered:
            # What travels on with a retry: that this is no first send, and what it has.
            stamp(message, replace(ticket, held=ticket.held or taken, redelivered=False))
        if lock.queue is Until.START and begun.found is Found.MINE:
            self._holding.released(claim, message, queue=True, run=False)

    # Finish and end

    def finish(self, message: MessageProxy, exception: BaseException | None) -> None:
        """Let go of what ends with the actor, however it ended. Doing it twice is nothing.

        Arguments:
            message: The delivered message.
            exception: What it raised, if it did.
        """
        self._deliveries.body_ended()
        delivery = self._deliveries.here(message.message_id)
        if delivery is not None and delivery.claim is not None:
            succeeded = exception is None and not message.failed
            self._holding.let_go(
                delivery.claim, message, delivery, queue=succeeded and delivery.queue_held, run=delivery.run_held
            )

    def end(self, message: MessageProxy, *, dead: bool) -> None:
        """Let go of everything, if this ack or nack is the end of the message.

        Arguments:
            message: The message that is about to be acknowledged or rejected.
            dead: Whether it is rejected, which is always its end.
        """
        goes_on = message.queue_name.endswith(".DQ") or self._deliveries.was_requeued(message.message_id)
        delivery = self._deliveries.here(message.message_id)
        claim = (delivery and delivery.claim) or self._claims.to_let_go(message)
        if claim is None:
            return
        ended = dead or not goes_on
        run = delivery is not None and delivery.run_held
        if delivery is not None and delivery.settled:
            queue = ended and delivery.queue_held
        else:
            queue = ended and claim.lets_queue_lock_go and claim.ticket.held
        self._holding.let_go(claim, message, delivery, queue=queue, run=run)

    def close(self, message: MessageProxy) -> None:
        """Forget a delivery once the broker was told."""
        if self._deliveries.take_superseded(message.message_id):
            claim = self._claims.to_let_go(message)
            if claim is not None:
                self._holding.forget(claim, message.message_id)
        self._deliveries.close(message.message_id)


def as_ours(error: Exception, message: Message[Any] | MessageProxy) -> UniqueError:
    """Turn an error into one that Dramatiq lets out of a hook; anything else it would swallow, and run unlocked."""
    if isinstance(error, UniqueError):
        return error
    msg = (
        f"message {message.message_id} of actor {message.actor_name!r} could not be locked: "
        f"{type(error).__name__}: {error}"
    )
    return UniqueError(msg)


def _has_a_start(claim: Claim) -> bool:
    """Whether the store has to be asked at the start: not for a window that nobody can replace."""
    if claim.lock.run or claim.lock.queue is not Until.EXPIRY:
        return True
    return claim.ticket.marked or not claim.ticket.held


def _queue_at_start(claim: Claim) -> str:
    """Say what happens to the queue lock at the start, in the store's words."""
    if claim.lock.queue is Until.EXPIRY:
        return "mark" if claim.ticket.held else "take"
    return claim.lock.queue.value if claim.lock.queue else ""
