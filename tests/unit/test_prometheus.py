"""The metrics: each event moves its counter and no other, and what it measures is in a histogram."""

import dataclasses
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import dramatiq
import pytest
import redis
from dramatiq.brokers.stub import StubBroker
from prometheus_client import REGISTRY, CollectorRegistry, Counter
from prometheus_client.metrics_core import Metric

from dramatiq_unique import UniqueMiddleware, events
from dramatiq_unique.events import LEVELS, Event
from dramatiq_unique.prometheus import COUNTERS, HISTOGRAMS, HOLD_BUCKETS_MS, WAIT_BUCKETS_MS, Metrics


ROOT = Path(__file__).parents[2]
EXPECTED = {
    "locked": ("locks_taken", {"kind": "queue"}),
    "refused": ("messages_refused", {"side": "client", "strategy": "log"}),
    "rejected": ("messages_rejected", {"side": "client", "strategy": "log"}),
    "replaced": ("messages_replaced", {}),
    "superseded": ("messages_superseded", {}),
    "rescheduled": ("messages_rescheduled", {"side": "client", "strategy": "log"}),
    "merged": ("messages_merged", {}),
    "released": ("locks_released", {"kind": "queue"}),
    "lapsed": ("locks_lapsed", {}),
    "reclaimed": ("locks_reclaimed", {}),
    "lease_lost": ("locks_lost", {"kind": "queue"}),
    "after_unlock_failed": ("after_unlock_errors", {}),
    "store_error": ("store_errors", {"operation": "renew", "consequence": "later"}),
}
"""What each event counts: the metric, and its labels beside those that all have. A new event is decided on here."""

IDS: dict[str, Any] = {
    "message_id": "m1",
    "actor_name": "export",
    "queue_name": "files",
    "digest": "d1935",
    "lock": "until_executed",
}
ALWAYS = {"queue_name": "files", "actor_name": "export", "lock": "until_executed"}
CATALOGUE: dict[str, type[Any]] = {
    kind.name: kind for kind in vars(events).values() if isinstance(kind, type) and kind in Event.__subclasses__()
}


def example(name: str, **own: Any) -> Event:
    """Make an event, with something in every field."""
    words = {"kind": "queue", "side": "client", "strategy": "log", "operation": "renew", "consequence": "later"}
    hints = get_type_hints(CATALOGUE[name])
    fields = [field.name for field in dataclasses.fields(CATALOGUE[name])]
    given = {field: 7 if hints[field] is int else words.get(field, f"some {field}") for field in fields}
    event: Event = CATALOGUE[name](**given | IDS | own)
    return event


class Scrape:
    """Metrics with a registry of their own, and what it shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)

    def families(self) -> list[Metric]:
        """Collect everything."""
        return list(self.registry.collect())

    def counted(self) -> dict[str, tuple[dict[str, str], float]]:
        """Give the counters that have moved, by name."""
        return {
            sample.name: (sample.labels, sample.value)
            for family in self.families()
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def value(self, name: str, **labels: str) -> float | None:
        """Give the value of one series of ours."""
        return self.registry.get_sample_value(f"dramatiq_unique_{name}", {**ALWAYS, **labels})


@pytest.fixture
def scrape() -> Scrape:
    """Metrics in which nothing was counted."""
    return Scrape()


class TestCounters:
    """One for each event."""

    def test_every_event_of_the_catalogue_was_decided_on(self) -> None:
        """A new event needs a metric, in the module and in the table above."""
        assert set(COUNTERS) == set(EXPECTED) == set(CATALOGUE) == set(LEVELS)

    @pytest.mark.parametrize("name", sorted(LEVELS))
    def test_an_event_moves_its_counter_and_no_other(self, name: str, scrape: Scrape) -> None:
        """By one, under the labels that it has."""
        metric, labels = EXPECTED[name]

        scrape.metrics(example(name))
        scrape.metrics(example(name))

        assert scrape.counted() == {f"dramatiq_unique_{metric}_total": (ALWAYS | labels, 2.0)}

    def test_the_page_for_operators_lists_them_all(self) -> None:
        """Each with its labels, beside those that every metric has; and no other."""
        page = (ROOT / "docs/how-to/watch-in-production.md").read_text("utf-8")
        told = dict(re.findall(r"^\| `(dramatiq_unique_\w+)` \| .* \| ([^|]*) ?\|$", page, re.MULTILINE))

        measures = [*COUNTERS.values(), *HISTOGRAMS.values()]
        assert {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in told.items()} == {
            measure.name: measure.labels for measure in measures
        }

    def test_a_label_has_few_values(self) -> None:
        """Neither an id, nor a digest, nor the text of an error, nor a number."""
        few = {"side", "strategy", "kind", "operation", "consequence"}

        assert {label for measure in COUNTERS.values() for label in measure.labels} <= few
        assert len({measure.name for measure in COUNTERS.values()}) == len(COUNTERS)

    def test_what_differs_is_counted_apart(self, scrape: Scrape) -> None:
        """Queue, actor, lock type, and the labels of one event."""
        for own in ({}, {"queue_name": "other"}, {"actor_name": "other"}, {"lock": "other"}, {"side": "server"}):
            scrape.metrics(example("refused", **own))

        name, labels = "messages_refused_total", {"side": "client", "strategy": "log"}
        assert scrape.value(name, **labels) == 1
        for own in ({"queue_name": "other"}, {"actor_name": "other"}, {"lock": "other"}, {"side": "server"}):
            assert scrape.value(name, **{**labels, **own}) == 1


class TestHistograms:
    """How long locks are held, and waited for."""

    def test_a_release_tells_how_long_the_lock_was_held(self, scrape: Scrape) -> None:
        """In milliseconds, by the kind of the lock."""
        scrape.metrics(example("released", kind="queue", held_ms=70_000))
        scrape.metrics(example("released", kind="run", held_ms=40))

        name = "lock_hold_duration_milliseconds"
        assert scrape.value(f"{name}_sum", kind="queue") == 70_000
        assert scrape.value(f"{name}_sum", kind="run") == 40
        assert scrape.value(f"{name}_bucket", kind="run", le="25.0") == 0
        assert scrape.value(f"{name}_bucket", kind="run", le="50.0") == 1

    def test_a_run_lock_tells_how_long_it_was_waited_for(self, scrape: Scrape) -> None:
        """One that came at once counts as well, so that the share of those that waited can be told."""
        scrape.metrics(example("locked", kind="run", waited_ms=0))
        scrape.metrics(example("locked", kind="run", waited_ms=600))

        name = "lock_wait_duration_milliseconds"
        assert (scrape.value(f"{name}_count"), scrape.value(f"{name}_sum")) == (2, 600)
        assert scrape.value(f"{name}_bucket", le="5.0") == 1

    def test_nobody_waits_for_a_queue_lock(self, scrape: Scrape) -> None:
        """It is taken at once or not at all."""
        scrape.metrics(example("locked", kind="queue", waited_ms=0))

        assert scrape.value("lock_wait_duration_milliseconds_count") is None

    def test_buckets_are_those_of_dramatiq(
        self, scrape: Scrape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that both can be drawn in one picture; a lock is held for hours as well."""
        monkeypatch.setenv("dramatiq_prom_db", str(tmp_path))  # It makes the directory when it is imported.
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # It sets them for good.
        monkeypatch.setenv("prometheus_multiproc_dir", "")
        theirs = importlib.import_module("dramatiq.middleware.prometheus").Prometheus()
        theirs.after_process_boot(StubBroker())

        assert tuple(theirs.message_durations._kwargs["buckets"]) == WAIT_BUCKETS_MS
        assert HOLD_BUCKETS_MS[: len(WAIT_BUCKETS_MS) - 1] == WAIT_BUCKETS_MS[:-1]
        assert list(HOLD_BUCKETS_MS) == sorted(HOLD_BUCKETS_MS)


class TestRegistering:
    """Where the metrics are shown."""

    def test_nothing_is_registered_before_the_first_event(self, scrape: Scrape) -> None:
        """Until then the directory may not be known."""
        assert scrape.families() == []

        scrape.metrics(example("merged"))

        assert len(scrape.families()) == len(COUNTERS) + 2

    def test_two_in_one_process_count_the_same_series(self, scrape: Scrape) -> None:
        """One for each middleware, as a program with two brokers may have."""
        another = Metrics(scrape.registry)

        scrape.metrics(example("merged"))
        another(example("merged"))

        assert scrape.value("messages_merged_total") == 2

    def test_the_registry_is_the_clients_own_by_default(self) -> None:
        """Where the endpoint of a web application looks."""
        labels = ALWAYS | {"actor_name": "of_the_default_registry"}

        Metrics()(example("merged", actor_name="of_the_default_registry"))

        assert REGISTRY.get_sample_value("dramatiq_unique_messages_merged_total", labels) == 1

    def test_a_name_that_is_taken_is_said_each_time(self, scrape: Scrape) -> None:
        """The application has a metric of that name; what a subscriber raises is logged."""
        Counter("dramatiq_unique_messages_merged_total", "Another one.", registry=scrape.registry)

        for _ in range(2):
            with pytest.raises(ValueError, match="Duplicated timeseries"):
                scrape.metrics(example("refused"))

    def test_it_hears_what_a_middleware_tells(
        self, unique: UniqueMiddleware, broker: StubBroker, memory: "redis.Redis", scrape: Scrape
    ) -> None:
        """By subscribing, as anybody does."""
        unique.subscribe(scrape.metrics)
        actor = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None)

        actor.send()
        actor.send()

        labels = {"queue_name": "default", "kind": "queue"}
        assert scrape.value("locks_taken_total", **labels) == 1
        refused = {"queue_name": "default", "side": "client", "strategy": "none"}
        assert scrape.value("messages_refused_total", **refused) == 1


class TestImporting:
    """The client decides when it is imported whether it writes into the directory."""

    @pytest.mark.parametrize(
        ("imports", "directory", "imported"),
        [("", False, False), ("", True, True), ("prometheus_client", False, True)],
        ids=["nothing", "a-directory", "the-client"],
    )
    def test_it_is_never_imported_first_without_the_directory(
        self, imports: str, directory: bool, imported: bool, tmp_path: Path
    ) -> None:
        """What happens while a worker process still imports its modules spoils neither these metrics nor Dramatiq's."""
        environment = {name: value for name, value in os.environ.items() if "multiproc" not in name.lower()}
        environment |= {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if directory else {}
        code = f"""
import sys
{imports and f"import {imports}"}
from dramatiq_unique.events import Merged
from dramatiq_unique.prometheus import Metrics
metrics = Metrics()
assert ("prometheus_client" in sys.modules) is bool({imports!r})
metrics(Merged(message_id="m", actor_name="a", queue_name="q", digest="d", lock="l", holder_id="h"))
sys.exit("prometheus_client" in sys.modules)
"""
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=False, timeout=30)

        assert done.returncode == imported
        assert bool(list(tmp_path.iterdir())) == directory

    def test_without_the_client_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """When it is made, and not when something is to be counted."""
        monkeypatch.setitem(sys.modules, "prometheus_client", None)

        with pytest.raises(ModuleNotFoundError, match=r"pip install 'dramatiq-unique\[prometheus\]'"):
            Metrics()
