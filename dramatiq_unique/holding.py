"""What deliveries hold: kept while they run, let go when they are done, made good where that could not be done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from dramatiq import Message
from dramatiq.broker import MessageProxy

from dramatiq_unique import events
from dramatiq_unique.backlog import Backlog, Pending
from dramatiq_unique.claim import SAFETY_MS, Claim
from dramatiq_unique.deliveries import Delivery
from dramatiq_unique.errors import LockStoreUnavailable
from dramatiq_unique.journal import Journal, where_raised
from dramatiq_unique.keeper import Keeper
from dramatiq_unique.lock_types import Until
from dramatiq_unique.store import Holder, Kind, Lease, QueueOwner, RedisStore, in_queue_lock
from dramatiq_unique.unlock_hook import call_hook


__all__ = ["Holding"]


class Holding:
    """Keeps locks and lets them go. Nothing here raises: a finished job is never failed because of its lock.

    Arguments:
        store: The locks.
        journal: Where facts are told.
    """

    def __init__(self, store: RedisStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._keeper = Keeper(store.renew, self._lost, self._could_not_renew)
        self._backlog = Backlog(lambda error: journal.complain("release_failed", error))
        self._claims: dict[Lease, Claim] = {}
        self._workers = 0

    def tell_locked(self, claim: Claim, *, run_ms: int | None = None, delay_ms: float = 0, waited_ms: int = 0) -> None:
        """Say that a lock was taken.

        Arguments:
            claim: What was asked for.
            run_ms: The lease of a run lock, in milliseconds; ``None``: it is the queue lock.
            delay_ms: The delay of the message.
            waited_ms: How long a run lock was waited for.
        """
        if self._journal.is_heard(events.Locked):
            kind, hold_ms = (Kind.QUEUE, claim.hold_ms(delay_ms)) if run_ms is None else (Kind.RUN, run_ms)
            self._journal.tell(events.Locked(**claim.facts(), kind=kind.value, hold_ms=hold_ms, waited_ms=waited_ms))

    def hold(self, claim: Claim, delivery: Delivery, lease_ms: int) -> None:
        """Note what a delivery holds, and keep it while it runs.

        Arguments:
            claim: What its message asked for, and got.
            delivery: The delivery.
            lease_ms: How far ahead each renewal moves a deadline.
        """
        delivery.settled = True
        digest, message_id = claim.ticket.digest, claim.ticket.message_id
        if delivery.run_held:
            delivery.leases.append(Lease(digest, Kind.RUN, message_id, delivery.token, lease_ms))
        if delivery.queue_held:
            delivery.leases.append(Lease(digest, Kind.QUEUE, message_id, in_queue_lock(delivery.token), lease_ms))
        for lease in delivery.leases:
            self._claims[lease] = claim
            self._keeper.hold(lease)

    def let_go(
        self,
        claim: Claim,
        message: Message[Any] | MessageProxy,
        delivery: Delivery | None,
        *,
        queue: bool,
        run: bool,
        flushed: bool = False,
    ) -> None:
        """Let go of locks, now or in the background, and keep nothing of the delivery any longer.

        Arguments:
            claim: What the message asked for.
            message: The message, for ``after_unlock``.
            delivery: Its delivery, where it had one.
            queue: Whether to let its queue lock go.
            run: Whether to let its run lock go.
            flushed: Whether the message is dropped from its queue, and with it any other copy that waits there.
        """
        lasts_ms = claim.hold_ms() if queue else max((lease.lease_ms for lease in _leases(delivery)), default=0)
        self._keep_no_longer(delivery)
        if not queue and not run:
            return
        token = delivery.token if delivery is not None else ""
        sent_as = " ".join([claim.ticket.token, *(delivery.enqueued_as if delivery is not None else ())])
        settled = delivery is not None and delivery.settled
        owner: QueueOwner = "anybody" if flushed else "delivery" if settled else "message"
        began_s = delivery.began_s if delivery is not None else time.monotonic()

        def release() -> None:
            finished = self._store.finish(
                claim.ticket.digest,
                claim.ticket.message_id,
                token=token,
                sent_as=sent_as,
                queue=owner if queue else None,
                run=run,
                since_ms=int((time.monotonic() - began_s) * 1000),
            )
            self.released(claim, message, queue_ms=finished.queue_ms, run_ms=finished.run_ms)

        self._now_or_later(claim, release, lasts_ms)
        if delivery is not None:
            delivery.run_held = delivery.run_held and not run
            delivery.queue_held = delivery.queue_held and not queue

    def give_back(self, claim: Claim, token: str, replaced: Holder | None, *, answered: bool) -> None:
        """Undo what the enqueue of a message that was not stored did to its queue lock.

        Arguments:
            claim: What was asked for.
            token: The token of the enqueue.
            replaced: Whose place it took, where that is known.
            answered: Whether the store had answered; if not it is away, and is asked in the background.
        """
        ticket, replaced_id = claim.ticket, replaced.message_id if replaced else ""

        def restore() -> None:
            counts = self._store.restore(ticket.digest, ticket.message_id, token=token, replaced_id=replaced_id)
            if not counts:
                self._journal.complain("replaced_message_was_skipped", None, **claim.ids(), replaced_id=replaced_id)

        if answered:
            self._now_or_later(claim, restore, claim.hold_ms())
        else:
            self._later(claim, restore, claim.hold_ms())

    def keep_in_full(self, claim: Claim, until_s: float) -> None:
        """Keep the lock of a message for its whole life, now that the message is stored.

        Arguments:
            claim: What it asked for.
            until_s: How long, by :func:`time.monotonic`: a moment, so that a window is no longer for being kept late.
        """
        ticket = claim.ticket

        def keep() -> None:
            left_ms = int((until_s - time.monotonic()) * 1000)
            self._store.keep(ticket.digest, ticket.message_id, max(left_ms, 0))

        self._now_or_later(claim, keep, int((until_s - time.monotonic()) * 1000))

    def waits_again(self, claim: Claim, delivery: Delivery) -> None:
        """Note that the job is over that had sent its own message again: that one waits now, and can be replaced."""
        ticket = claim.ticket
        self._now_or_later(
            claim,
            lambda: self._store.keep(ticket.digest, ticket.message_id, 0, over=delivery.token),
            claim.hold_ms(),
        )

    def confirm(self, claim: Claim, replaced_id: str) -> None:
        """Note that a message which took the place of another is stored now."""
        ticket = claim.ticket
        self._now_or_later(claim, lambda: self._store.confirm(ticket.digest, replaced_id, ticket.message_id), SAFETY_MS)

    def forget(self, claim: Claim, superseded_id: str) -> None:
        """Forget that a message was superseded, now that it is gone from the broker."""
        self._now_or_later(claim, lambda: self._store.forget(claim.ticket.digest, superseded_id), SAFETY_MS)

    def released(
        self,
        claim: Claim,
        message: Message[Any] | MessageProxy,
        *,
        queue_ms: int | None = None,
        run_ms: int | None = None,
    ) -> None:
        """Say which locks were let go by code, and call ``after_unlock`` for the one that it waits for.

        Arguments:
            claim: What the message had asked for.
            message: The message.
            queue_ms: How long its queue lock was held, in milliseconds; ``None``: it was not let go.
            run_ms: The same of its run lock.
        """
        for kind, held_ms in ((Kind.QUEUE, queue_ms), (Kind.RUN, run_ms)):
            if held_ms is not None and self._journal.is_heard(events.Released):
                self._journal.tell(events.Released(**claim.facts(), kind=kind.value, held_ms=held_ms))
        hook, waits_for = claim.options.after_unlock, run_ms if claim.lock.run else queue_ms
        if hook is None or waits_for is None or claim.lock.queue is Until.EXPIRY:
            return
        try:
            call_hook(hook, message)
        except Exception as exc:  # noqa: BLE001 - it cannot fail the job
            self._journal.tell(
                events.AfterUnlockFailed(**claim.facts(), error=type(exc).__name__, where=where_raised(exc))
            )

    def worker_boots(self) -> None:
        """Count a worker of this process, and be ready to keep what it will hold."""
        self._workers += 1
        self._keeper.start()
        self._backlog.start()

    def worker_is_down(self) -> None:
        """Stop keeping once the last worker has shut down; what could not be let go is tried once more."""
        self._workers -= 1
        if self._workers <= 0:
            self._keeper.stop()
            self._backlog.stop()

    def _now_or_later(self, claim: Claim, release: Callable[[], object], lasts_ms: int) -> None:
        try:
            release()
        except LockStoreUnavailable as exc:
            self._journal.tell(
                events.StoreError(**claim.facts(), operation="release", error=str(exc), consequence="later")
            )
            self._later(claim, release, lasts_ms)

    def _later(self, claim: Claim, release: Callable[[], object], lasts_ms: int) -> None:
        self._backlog.later(Pending(claim.ticket.message_id, release, time.monotonic() + lasts_ms / 1000))

    def _keep_no_longer(self, delivery: Delivery | None) -> None:
        for lease in _leases(delivery):
            self._keeper.drop(lease)
            self._claims.pop(lease, None)
        if delivery is not None:
            delivery.leases = []

    def _lost(self, lease: Lease) -> None:
        claim = self._claims.pop(lease, None)
        if claim is not None:
            self._journal.tell(events.LeaseLost(**claim.facts(), kind=lease.kind.value))

    def _could_not_renew(self, leases: Sequence[Lease], error: Exception) -> None:
        for lease in leases:
            claim = self._claims.get(lease)
            if claim is not None:
                self._journal.tell(
                    events.StoreError(**claim.facts(), operation="renew", error=str(error), consequence="later")
                )


def _leases(delivery: Delivery | None) -> Sequence[Lease]:
    return delivery.leases if delivery is not None else ()
