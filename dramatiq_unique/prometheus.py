"""Prometheus metrics of the locks, beside those of Dramatiq's own Prometheus middleware.

::

    from dramatiq.middleware.prometheus import Prometheus

    broker.add_middleware(Prometheus())
    broker.add_middleware(unique)
    unique.subscribe(Metrics())

Dramatiq's middleware makes the endpoint and the multi-process directory of a worker; these metrics are written into
the same directory, so one scrape shows both, for all processes of the worker. They are counted from events alone:
neither Redis nor the broker is asked for anything.

Every series has the labels ``queue_name``, ``actor_name`` (as Dramatiq's own have) and ``lock``, the lock type. All
labels are fields of the event, under the same name, and none of them is an id.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Protocol

from dramatiq_unique.events import Event, Locked, Released


__all__ = ["COUNTERS", "HISTOGRAMS", "Measure", "Metrics", "Registry"]

_LABELS = ("queue_name", "actor_name", "lock")
_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

WAIT_BUCKETS_MS = (
    *(5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000, 30_000, 60_000, 600_000, 900_000),
    float("inf"),
)
"""Those of Dramatiq's ``dramatiq_message_duration_milliseconds`` (``dramatiq/middleware/prometheus.py``)."""

HOLD_BUCKETS_MS = (*WAIT_BUCKETS_MS[:-1], 3_600_000, 21_600_000, 86_400_000, float("inf"))
"""The same, and an hour, six hours and a day: a queue lock is held while its message waits."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric.

    Arguments:
        name: Its name.
        help: What it is, for the endpoint.
        labels: Fields of its event that are labels too, besides those that every metric has.
        buckets: The upper bounds of a histogram, in milliseconds; none for a counter.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_DECIDED = ("side", "strategy")

COUNTERS: Mapping[str, Measure] = {
    "locked": Measure("dramatiq_unique_locks_taken_total", "The total number of locks taken.", ("kind",)),
    "refused": Measure(
        "dramatiq_unique_messages_refused_total", "The total number of duplicates refused or dropped.", _DECIDED
    ),
    "rejected": Measure(
        "dramatiq_unique_messages_rejected_total", "The total number of duplicates dead-lettered.", _DECIDED
    ),
    "replaced": Measure(
        "dramatiq_unique_messages_replaced_total", "The total number of messages that took another one's place."
    ),
    "superseded": Measure(
        "dramatiq_unique_messages_superseded_total", "The total number of messages whose place was taken."
    ),
    "rescheduled": Measure(
        "dramatiq_unique_messages_rescheduled_total", "The total number of messages put back.", _DECIDED
    ),
    "merged": Measure(
        "dramatiq_unique_messages_merged_total", "The total number of retries left to a newer copy that waits."
    ),
    "released": Measure("dramatiq_unique_locks_released_total", "The total number of locks released.", ("kind",)),
    "lapsed": Measure(
        "dramatiq_unique_locks_lapsed_total", "The total number of messages that started without the lock they had."
    ),
    "reclaimed": Measure(
        "dramatiq_unique_locks_reclaimed_total", "The total number of locks taken over from messages that are gone."
    ),
    "lease_lost": Measure(
        "dramatiq_unique_locks_lost_total", "The total number of locks lost while their message ran.", ("kind",)
    ),
    "after_unlock_failed": Measure(
        "dramatiq_unique_after_unlock_errors_total", "The total number of after_unlock hooks that raised."
    ),
    "store_error": Measure(
        "dramatiq_unique_store_errors_total",
        "The total number of failures of the lock store.",
        ("operation", "consequence"),
    ),
}
"""The counter of each event, by its name."""

HISTOGRAMS: Mapping[str, Measure] = {
    "held_ms": Measure(
        "dramatiq_unique_lock_hold_duration_milliseconds",
        "The time between taking and releasing a lock.",
        ("kind",),
        HOLD_BUCKETS_MS,
    ),
    "waited_ms": Measure(
        "dramatiq_unique_lock_wait_duration_milliseconds",
        "The time a delivery waited for the run lock that it got.",
        (),
        WAIT_BUCKETS_MS,
    ),
}
"""What is measured, by the field of its event."""


class Registry(Protocol):
    """What metrics are registered with: a ``prometheus_client.CollectorRegistry``."""

    def register(self, collector: Any) -> None:
        """Show a metric from now on."""


class Metrics:
    """A subscriber that counts every event.

    Nothing is made before the first event, since ``prometheus_client`` decides for good when it is imported whether
    it writes into the multi-process directory, and Dramatiq's middleware names that directory when the worker process
    boots. So these metrics never import it first, unless ``PROMETHEUS_MULTIPROC_DIR`` is set: a process that has
    neither shows nothing to anybody, and counts nothing.

    Arguments:
        registry: Where the metrics are registered; ``prometheus_client.REGISTRY`` by default. Under the multi-process
            directory it does not matter: the endpoint reads the directory.

    Raises:
        ModuleNotFoundError: ``prometheus_client`` is not installed.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        if importlib.util.find_spec("prometheus_client") is None:
            raise ModuleNotFoundError(
                "Metrics needs prometheus_client: pip install 'dramatiq-unique[prometheus]'", name="prometheus_client"
            )
        self._registry = registry
        self._families: _Families | None = None

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if self._families is None:
            self._families = self._begin()
        if self._families is not None:
            self._families.count(event)

    def _begin(self) -> _Families | None:
        if self._registry is None and _DIRECTORY not in os.environ and "prometheus_client" not in sys.modules:
            return None
        import prometheus_client  # noqa: PLC0415 - see above

        return _Families.of(prometheus_client, self._registry or prometheus_client.REGISTRY)


class _Families:
    """The metrics in one registry."""

    # One for each, however many subscribe: two that count the same series in one process would overwrite each other.
    _known: ClassVar[weakref.WeakKeyDictionary[Registry, _Families]] = weakref.WeakKeyDictionary()
    _making: ClassVar = threading.Lock()

    def __init__(self, client: ModuleType) -> None:
        self._counters = {
            name: client.Counter(counter.name, counter.help, (*_LABELS, *counter.labels), registry=None)
            for name, counter in COUNTERS.items()
        }
        self._histograms = {
            field: client.Histogram(
                histogram.name,
                histogram.help,
                (*_LABELS, *histogram.labels),
                buckets=histogram.buckets,
                registry=None,
            )
            for field, histogram in HISTOGRAMS.items()
        }

    @classmethod
    def of(cls, client: ModuleType, registry: Registry) -> _Families:
        """Find the metrics of a registry; the first time, make and register them."""
        with cls._making:
            families = cls._known.get(registry)
            if families is None:
                families = cls(client)
                for family in (*families._counters.values(), *families._histograms.values()):
                    registry.register(family)
                cls._known[registry] = families
        return families

    def count(self, event: Event) -> None:
        """Move the counter of an event, and put what it measures into the histogram."""
        self._counters[event.name].labels(*_values(event, COUNTERS[event.name])).inc()
        match event:
            case Released(held_ms=held_ms):
                self._observe("held_ms", event, held_ms)
            case Locked(kind="run", waited_ms=waited_ms):
                self._observe("waited_ms", event, waited_ms)

    def _observe(self, field: str, event: Event, value_ms: int) -> None:
        self._histograms[field].labels(*_values(event, HISTOGRAMS[field])).observe(value_ms)


def _values(event: Event, measure: Measure) -> tuple[str, ...]:
    return tuple(getattr(event, label) for label in (*_LABELS, *measure.labels))
