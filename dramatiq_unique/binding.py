"""The middleware on one broker: the parts, put together."""

from dataclasses import dataclass

from dramatiq import Broker

from dramatiq_unique.after_body import AfterBody
from dramatiq_unique.brokers import adapter_for, client_of
from dramatiq_unique.claim import SAFETY_MS
from dramatiq_unique.claims import Claims
from dramatiq_unique.conflicts import Conflicts
from dramatiq_unique.deliveries import Deliveries
from dramatiq_unique.enqueueing import Enqueueing
from dramatiq_unique.flush import Flush
from dramatiq_unique.groups import Groups
from dramatiq_unique.guard import Guard
from dramatiq_unique.holding import Holding
from dramatiq_unique.journal import Journal
from dramatiq_unique.one_step import OneStep
from dramatiq_unique.orphans import Orphans
from dramatiq_unique.parts import Parts
from dramatiq_unique.processing import Processing
from dramatiq_unique.rescheduling import Rescheduling
from dramatiq_unique.settings import Settings
from dramatiq_unique.store import RedisStore, connect


__all__ = ["Binding"]


@dataclass(frozen=True, slots=True)
class Binding:
    """The parts that the hooks of one broker are handed to."""

    parts: Parts
    guard: Guard
    enqueueing: Enqueueing
    processing: Processing
    after_body: AfterBody

    @classmethod
    def to(cls, broker: Broker, settings: Settings, journal: Journal) -> "Binding":
        """Bind to a broker: its ``enqueue`` and its ``flush`` are wrapped from now on."""
        client = connect(settings.client, settings.url, client_of(broker))
        store = RedisStore(client, prefix=settings.prefix, memory_ms=SAFETY_MS)
        claims, deliveries, holding = Claims(broker, settings.rules), Deliveries(), Holding(store, journal)
        one_step = OneStep.on(broker, store)
        guard = Guard(broker, copies=one_step is None)
        adapter = adapter_for(broker, guard.enqueue_passively)
        rescheduling = Rescheduling(broker, guard, journal)
        conflicts = Conflicts(
            adapter=adapter,
            rescheduling=rescheduling,
            groups=Groups(broker, deliveries, journal),
            journal=journal,
            strategies=settings.strategies,
        )
        parts = Parts(
            store=store,
            claims=claims,
            deliveries=deliveries,
            holding=holding,
            conflicts=conflicts,
            rescheduling=rescheduling,
            orphans=Orphans(store, adapter, journal, settings.lease_ms),
            adapter=adapter,
            journal=journal,
            lease_ms=settings.lease_ms,
            one_step=one_step,
            without_store=settings.without_store,
        )
        enqueueing, processing = Enqueueing(parts), Processing(parts)
        guard.install(enqueueing)
        if one_step is not None:
            one_step.install(guard, enqueueing.store)
        Flush(broker, adapter, claims, holding, journal)
        return cls(parts, guard, enqueueing, processing, AfterBody(processing.finish))
