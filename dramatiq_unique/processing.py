"""The worker side: a delivery settles its locks before the actor runs, and lets them go as its row says.

What a full lock means is settled in :mod:`dramatiq_unique.conflicts`; how locks are kept and let go, in
:mod:`dramatiq_unique.holding`.
"""

import time

from dramatiq.broker import MessageProxy
from dramatiq.middleware import MiddlewareError, SkipMessage

from dramatiq_unique import events
from dramatiq_unique.brokers import REJECTED
from dramatiq_unique.claim import Claim
from dramatiq_unique.claims import stamp
from dramatiq_unique.deliveries import Delivery
from dramatiq_unique.errors import LockStoreUnavailable, as_ours
from dramatiq_unique.lock_types import Until
from dramatiq_unique.parts import Parts
from dramatiq_unique.store import Begun, Contested, Found, Held, Holder, Running, Started, Superseded


__all__ = ["Processing"]

_PUT_BACK_AT_LEAST_MS = 500
_LOOK_AGAIN_S = 0.01
_CONTESTED_MS = 1000


class Processing:
    """The transitions of messages that are delivered to this process.

    Arguments:
        parts: What it works with.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

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
        delivery = self._parts.deliveries.open(message.message_id)
        if message.options.get(REJECTED):
            message.fail()
            raise SkipMessage("rejected at enqueue")
        if not message.failed:
            try:
                self._start(delivery, message)
            except MiddlewareError:
                raise
            except Exception as exc:
                raise as_ours(exc, f"could not lock message {message.message_id} of {message.actor_name!r}") from exc
        delivery.in_body = True

    def _start(self, delivery: Delivery, message: MessageProxy) -> None:
        claim = delivery.claim = self._parts.claims.of(message)
        if claim is None or not _asks_at_start(claim):
            return
        # Noted before the store is asked: an Interrupt may land in between, and then the ack has to let go.
        delivery.run_held, delivery.queue_held = claim.lock.run, claim.lock.queue is Until.END
        try:
            begun = self._begin(claim, delivery, message)
        except LockStoreUnavailable as exc:
            consequence = "unlocked" if self._parts.without_store else "failed"
            self._parts.journal.tell(
                events.StoreError(**claim.facts(), operation="start", error=str(exc), consequence=consequence)
            )
            if self._parts.without_store:
                return
            raise
        if not isinstance(begun, Started):
            delivery.run_held = delivery.queue_held = False
        match begun:
            case Superseded(by_id):
                self._parts.deliveries.note_superseded(message.message_id)
                self._parts.conflicts.superseded(claim, message, by_id)
                raise SkipMessage(f"message {by_id} took its place")
            case Contested(by_id):
                self._parts.rescheduling.put_back_for_now(claim, message, by_id, "replacement", _CONTESTED_MS)
                raise SkipMessage(f"message {by_id} is about to take its place")
            case Running(left_ms):
                left_ms = max(left_ms, _PUT_BACK_AT_LEAST_MS)
                self._parts.rescheduling.put_back_for_now(claim, message, message.message_id, "redelivery", left_ms)
                raise SkipMessage("an earlier delivery of it may be running yet")
            case Held(holder):
                action = self._parts.conflicts.action("server", claim, holder)
                raise self._parts.conflicts.at_start(action, claim, message, holder)
            case Started():
                self._started(claim, delivery, message, begun)

    def _begin(self, claim: Claim, delivery: Delivery, message: MessageProxy) -> Begun:
        """Ask the store, and wait for a run lock as long as ``lock_timeout`` allows."""
        begun = self._begin_once(claim, delivery, message)
        if isinstance(begun, Held) and self._parts.orphans.found(claim, begun):
            held, begun = begun, self._begin_once(claim, delivery, message, orphan=begun.holder)
            if isinstance(begun, Started):
                self._parts.orphans.reclaimed(claim, held)
        timeout_s = claim.options.lock_timeout / 1000
        if not isinstance(begun, Held) or not claim.lock.run or not timeout_s:
            return begun
        since_s = time.monotonic()
        with self._parts.store.releases(claim.ticket.digest) as wait:
            while True:
                begun = self._begin_once(claim, delivery, message)
                waited_s = time.monotonic() - since_s
                delivery.waited_ms, left_s = int(waited_s * 1000), timeout_s - waited_s
                if not isinstance(begun, Held) or left_s <= 0:
                    return begun
                # Nobody tells of a holder that died: look again when its lease is over.
                wait(min(left_s, max(begun.left_ms / 1000, _LOOK_AGAIN_S)))

    def _begin_once(
        self, claim: Claim, delivery: Delivery, message: MessageProxy, *, orphan: Holder | None = None
    ) -> Begun:
        return self._parts.store.begin(
            claim.request(message, self._parts.adapter.broker_id(message)),
            token=delivery.token,
            queue=_queue_at_start(claim),
            run=claim.lock.run,
            lease_ms=claim.lease_ms(self._parts.lease_ms),
            hold_ms=claim.hold_ms(),
            orphan=orphan,
        )

    def _started(self, claim: Claim, delivery: Delivery, message: MessageProxy, begun: Started) -> None:
        lock, ticket = claim.lock, claim.ticket
        lapsed = ticket.held and begun.found is not Found.MINE
        taken = begun.found is Found.FREE and _queue_at_start(claim) in ("end", "take")
        lease_ms = claim.lease_ms(self._parts.lease_ms)
        if lapsed:
            self._parts.journal.tell(events.Lapsed(**claim.facts()))
        if taken:
            self._parts.holding.tell_locked(claim)
        if lock.run:
            self._parts.holding.tell_locked(claim, run_ms=lease_ms, waited_ms=delivery.waited_ms)
        self._parts.holding.hold(claim, delivery, lease_ms)
        if claim.first or taken or ticket.redelivered:
            # What travels on with a retry: that this is no first send, and what it has.
            stamp(message, ticket._replace(held=ticket.held or taken, waits=False, redelivered=False))
        if lock.queue is Until.START and begun.found is Found.MINE:
            self._parts.holding.released(claim, message, queue_ms=begun.held_ms)

    def finish(self, message: MessageProxy, exception: BaseException | None) -> None:
        """Let go of what ends with the actor, however it ended. Doing it twice is nothing.

        Arguments:
            message: The delivered message.
            exception: What it raised, if it did.
        """
        delivery = self._parts.deliveries.here(message.message_id)
        sent_itself = delivery is not None and delivery.in_body and bool(delivery.requeued)
        self._parts.deliveries.body_ended()
        if delivery is not None and delivery.claim is not None:
            if sent_itself and delivery.queue_held:
                self._parts.holding.waits_again(delivery.claim, delivery)
            # A job that sent its own message again goes on under its lock.
            succeeded = exception is None and not message.failed and not delivery.requeued
            self._parts.holding.let_go(
                delivery.claim, message, delivery, queue=succeeded and delivery.queue_held, run=delivery.run_held
            )

    def end(self, message: MessageProxy, *, dead: bool) -> None:
        """Let go of everything, if this ack or nack is the end of the message. Never raises: it would not be acked.

        Arguments:
            message: The message that is about to be acknowledged or rejected.
            dead: Whether it is rejected, which is always its end.
        """
        try:
            self._end(message, dead=dead)
        except Exception as exc:  # noqa: BLE001 - a message that is never acked is worse than a lock that lapses
            self._parts.journal.complain(
                "not_let_go", exc, message_id=message.message_id, actor_name=message.actor_name
            )

    def _end(self, message: MessageProxy, *, dead: bool) -> None:
        goes_on = message.queue_name.endswith(".DQ") or self._parts.deliveries.was_requeued(message.message_id)
        ended = dead or not goes_on
        delivery = self._parts.deliveries.here(message.message_id)
        claim = (delivery and delivery.claim) or self._parts.claims.to_let_go(message)
        if claim is None:
            return
        # Whatever its ticket says: Redis may have given the lock, and the answer was lost.
        queue, run = claim.lets_queue_lock_go and not claim.ticket.waits, False
        if delivery is not None:
            queue = delivery.queue_held or (queue and not delivery.settled)
            run = delivery.run_held
        self._parts.holding.let_go(claim, message, delivery, queue=queue and ended, run=run)

    def close(self, message: MessageProxy) -> None:
        """Forget a delivery once the broker was told."""
        if self._parts.deliveries.take_superseded(message.message_id):
            claim = self._parts.claims.to_let_go(message)
            if claim is not None:
                self._parts.holding.forget(claim, message.message_id)
        self._parts.deliveries.close(message.message_id)


def _asks_at_start(claim: Claim) -> bool:
    """Whether the store has to be asked at the start: not for a window that nobody can replace."""
    if claim.lock.run or claim.lock.queue is not Until.EXPIRY:
        return True
    return claim.ticket.marked or not claim.ticket.held


def _queue_at_start(claim: Claim) -> str:
    """Say what happens to the queue lock at the start, in the store's words."""
    if claim.lock.queue is Until.EXPIRY:
        return "mark" if claim.ticket.held else "take"
    return claim.lock.queue.value if claim.lock.queue else ""
