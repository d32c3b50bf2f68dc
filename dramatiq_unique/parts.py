"""What the two sides of a message's life work with, on one broker."""

from dataclasses import dataclass

from dramatiq_unique.brokers import BrokerAdapter
from dramatiq_unique.claims import Claims
from dramatiq_unique.conflicts import Conflicts
from dramatiq_unique.deliveries import Deliveries
from dramatiq_unique.holding import Holding
from dramatiq_unique.journal import Journal
from dramatiq_unique.one_step import OneStep
from dramatiq_unique.orphans import Orphans
from dramatiq_unique.rescheduling import Rescheduling
from dramatiq_unique.store import RedisStore


__all__ = ["Parts"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that enqueueing and processing share.

    Arguments:
        store: The locks.
        claims: What messages ask for.
        deliveries: What runs in this process, and who is sending.
        holding: Keeps and lets go of what is held.
        conflicts: Settles full locks.
        rescheduling: Puts messages back.
        orphans: Asks after holders whose message may be gone.
        adapter: What the broker can do beyond what all brokers have.
        journal: Where facts are told.
        lease_ms: The lease of a run lock, in milliseconds.
        one_step: Takes the lock in the step that stores the message, on a broker where that can be done.
        without_store: Whether messages go on without a lock where the store cannot be reached.
    """

    store: RedisStore
    claims: Claims
    deliveries: Deliveries
    holding: Holding
    conflicts: Conflicts
    rescheduling: Rescheduling
    orphans: Orphans
    adapter: BrokerAdapter
    journal: Journal
    lease_ms: int
    one_step: OneStep | None
    without_store: bool
