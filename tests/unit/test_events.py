"""What is told: the catalogue of events, who hears them, and the lines in the log."""

import dataclasses
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_type_hints

import dramatiq
import fakeredis
import pytest
import redis
import structlog
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from structlog.testing import CapturingLoggerFactory, capture_logs

from dramatiq_unique import InvalidLockOptions, LockStoreUnavailable, UniqueMiddleware, events, outcome
from dramatiq_unique.events import LEVELS, Event
from dramatiq_unique.journal import Journal
from tests.rig import Gate, Rig, StubBench, eventually


NAMES = {
    "locked",
    "refused",
    "rejected",
    "replaced",
    "superseded",
    "rescheduled",
    "merged",
    "released",
    "lapsed",
    "reclaimed",
    "lease_lost",
    "after_unlock_failed",
    "store_error",
}
KINDS: list[type[Any]] = [
    kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
]
CATALOGUE = {kind.name: kind for kind in KINDS}
IDS: dict[str, Any] = {
    "message_id": "a-message",
    "actor_name": "export",
    "queue_name": "default",
    "digest": "d1935",
    "lock": "a-lock",
}


@pytest.fixture(autouse=True)
def unconfigured_structlog() -> Iterator[None]:
    """An application that did not configure structlog, nor leaves it configured."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def hints(kind: type[Any]) -> dict[str, Any]:
    """Give the types of an event's fields."""
    found = get_type_hints(kind)
    return {field.name: found[field.name] for field in dataclasses.fields(kind)}


def example(kind: type[Any]) -> Event:
    """Make an event, with something in every field."""
    own = {name: 7 if hint is int else "something" for name, hint in hints(kind).items()}
    event: Event = kind(**own | IDS)
    return event


REFUSED = events.Refused(**IDS, side="client", strategy="log", holder_id="another")


class TestTheCatalogue:
    """One class for each fact."""

    def test_has_the_names_of_the_contract(self) -> None:
        """Neither more nor fewer, and no name twice."""
        assert set(CATALOGUE) == NAMES
        assert len(KINDS) == len(NAMES)

    def test_is_what_the_module_exports(self) -> None:
        """Whoever imports everything has everything."""
        assert set(events.__all__) == {"LEVELS", "Event"} | {kind.__name__ for kind in KINDS}

    def test_is_told_in_the_docstring(self) -> None:
        """The table is the reference: it lists each event, in a row of its own, and nothing else."""
        table = str(events.__doc__).split("====\n")[2]

        assert re.findall(r"^(\w+) {2,}\S", table, re.MULTILINE) == list(LEVELS)

    def test_has_a_level_for_each(self) -> None:
        """A line for every fact, at a level that logging knows."""
        assert set(LEVELS) == NAMES
        assert {logging.getLevelName(level) for level in LEVELS.values()} <= {"DEBUG", "INFO", "WARNING", "ERROR"}

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_is_frozen_and_slotted(self, name: str) -> None:
        """A subscriber can neither change what the next one hears, nor hang something on it."""
        event = example(CATALOGUE[name])

        with pytest.raises(dataclasses.FrozenInstanceError):
            event.digest = "another"  # type: ignore[misc]
        assert not hasattr(event, "__dict__")

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_says_whose_fact_it_is(self, name: str) -> None:
        """Every event has its name, the message, its actor, and the digest."""
        event = example(CATALOGUE[name])

        assert (event.name, event.message_id, event.actor_name, event.digest) == (name, "a-message", "export", "d1935")

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_carries_no_argument_of_a_job(self, name: str) -> None:
        """Ids, names, numbers; and a number that is a time has its unit in the name."""
        for field, hint in hints(CATALOGUE[name]).items():
            assert hint in (str, int, str | None)
            assert hint is not int or field.endswith("_ms") or field == "attempt"
            assert field not in ("args", "kwargs", "options", "message")

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_is_made_by_name(self, name: str) -> None:
        """No field is told by its position, so that one can be added."""
        with pytest.raises(TypeError, match="positional argument"):
            CATALOGUE[name](*IDS.values())


class TestSubscribers:
    """Any number of functions hear every event."""

    def test_hear_events_in_turn(self) -> None:
        """In the order in which they subscribed, each the same object."""
        journal, heard = Journal(), list[tuple[str, Event]]()
        journal.subscribe(lambda event: heard.append(("first", event)))
        journal.subscribe(lambda event: heard.append(("second", event)))

        journal.tell(REFUSED)

        assert heard == [("first", REFUSED), ("second", REFUSED)]

    def test_subscribe_as_a_decorator_too(self, unique: UniqueMiddleware, broker: StubBroker) -> None:
        """The function stays what it was."""
        heard = []

        @unique.subscribe
        def listen(event: Event) -> str:
            heard.append(event.name)
            return "heard"

        dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None).send()

        assert heard == ["locked"]
        assert listen(REFUSED) == "heard"

    def test_that_raise_are_logged_and_harm_nobody(
        self, unique: UniqueMiddleware, broker: StubBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Neither the sender nor the next subscriber notices."""
        heard: list[Event] = []

        @unique.subscribe
        def broken(event: Event) -> None:
            raise ZeroDivisionError

        unique.subscribe(heard.append)
        dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None).send()

        assert [event.name for event in heard] == ["locked"]
        assert broker.queues["default"].qsize() == 1
        (record,) = [record for record in caplog.records if record.name == "dramatiq_unique"]
        assert record.levelname == "ERROR"
        assert record.getMessage().startswith("subscriber_failed subscriber=")
        assert "broken" in record.getMessage()
        assert " told=locked error=ZeroDivisionError where=" in record.getMessage()

    def test_may_subscribe_another_while_they_hear(self) -> None:
        """The new one hears from the next event on."""
        journal, heard = Journal(), list[Event]()
        journal.subscribe(lambda _: journal.subscribe(heard.append))

        journal.tell(REFUSED)
        assert heard == []
        journal.tell(REFUSED)
        assert heard == [REFUSED]


class TestLines:
    """The same facts in the log, under the same names, with the same fields."""

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_go_through_structlog_with_the_fields_of_the_event(self, name: str) -> None:
        """At the level of the catalogue; what is `None` is left out."""
        event = example(CATALOGUE[name])

        with capture_logs() as lines:
            Journal().tell(event)

        fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        level = logging.getLevelName(LEVELS[name]).lower()
        assert lines == [{"event": name, "log_level": level, **fields}]

    def test_leave_out_what_is_none(self) -> None:
        """A message outside a pipeline has no next actor."""
        with capture_logs() as lines:
            Journal().tell(REFUSED)

        assert "next_actor" not in lines[0]

    def test_may_have_another_level_or_none(self) -> None:
        """A refusal that cuts a pipeline short is a warning, and one that nobody asked to hear of is no line."""
        heard: list[Event] = []
        journal = Journal()
        journal.subscribe(heard.append)

        with capture_logs() as lines:
            journal.tell(REFUSED, level=logging.WARNING)
            journal.tell(REFUSED, level=0)

        assert [line["log_level"] for line in lines] == ["warning"]
        assert heard == [REFUSED, REFUSED]

    def test_have_the_type_of_what_was_raised_and_where(self) -> None:
        """Where the fact is an error in code of the user's own; its text may have arguments of a job in it."""
        with capture_logs() as lines:
            try:
                {"name": 1}["hunter2"]
            except KeyError as error:
                Journal().complain("strategy_failed", error, strategy="mine")

        (line,) = lines
        where = line.pop("where")
        assert line == {"event": "strategy_failed", "log_level": "error", "strategy": "mine", "error": "KeyError"}
        assert re.search(r"test_events\.py:\d+ in test_have_the_type", where)

    def test_that_cannot_be_written_harm_nobody(self, caplog: pytest.LogCaptureFixture) -> None:
        """A log that is set up wrongly loses no message."""

        def broken(*_: object) -> str:
            raise ZeroDivisionError

        structlog.configure(processors=[broken])
        try:
            Journal().tell(REFUSED)
        finally:
            structlog.reset_defaults()

        assert "The line 'refused' could not be written." in caplog.text

    def test_need_no_log_method(self) -> None:
        """Any wrapper class that has a method for each level will do."""
        written: list[str] = []

        def write(_: object, method: str, __: object) -> str:
            written.append(method)
            return ""

        structlog.configure(wrapper_class=structlog.BoundLogger, processors=[write])
        try:
            Journal().tell(REFUSED)
        finally:
            structlog.reset_defaults()

        assert written == ["info"]

    def test_go_to_logging_where_structlog_is_not_configured(self, caplog: pytest.LogCaptureFixture) -> None:
        """Under `dramatiq_unique`, beside Dramatiq's own lines, in its way."""
        Journal().tell(dataclasses.replace(REFUSED, next_actor="100%s"), level=logging.WARNING)

        ids = "message_id=a-message actor_name=export queue_name=default digest=d1935 lock=a-lock"
        assert caplog.record_tuples == [
            (
                "dramatiq_unique",
                logging.WARNING,
                f"refused {ids} side=client strategy=log holder_id=another next_actor=100%s",
            )
        ]

    def test_are_kept_by_the_level_of_the_logger(self, caplog: pytest.LogCaptureFixture) -> None:
        """`logging` is configured as ever: DEBUG shows where it is asked for."""
        locked = events.Locked(**IDS, kind="queue", hold_ms=1000)

        with caplog.at_level(logging.INFO, "dramatiq_unique"):
            Journal().tell(locked)
        assert caplog.records == []

        with caplog.at_level(logging.DEBUG, "dramatiq_unique"):
            Journal().tell(locked)
        assert [record.levelname for record in caplog.records] == ["DEBUG"]

    def test_go_through_what_the_application_configured(self, unique: UniqueMiddleware, broker: StubBroker) -> None:
        """Its processors, its context and its factory of loggers; nothing goes to `logging` beside them."""
        factory = CapturingLoggerFactory()
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=factory,
        )

        with structlog.contextvars.bound_contextvars(request_id="r1"):
            actor = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed", lock_ttl=60)(lambda: None)
            message = actor.send()

        [call] = factory.logger.calls
        assert (call.method_name, json.loads(*call.args)) == (
            "debug",
            {
                "event": "locked",
                "level": "debug",
                "request_id": "r1",
                "message_id": message.message_id,
                "actor_name": "export",
                "queue_name": "default",
                "digest": outcome(message).digest,
                "lock": "until_executed",
                "kind": "queue",
                "hold_ms": 60_000,
                "waited_ms": 0,
            },
        )

    def test_go_where_an_application_says_later(self, caplog: pytest.LogCaptureFixture) -> None:
        """An application may configure structlog after it made the middleware."""
        journal, printed = Journal(), list[str]()
        journal.tell(REFUSED, level=logging.WARNING)

        def keep(_logger: object, _method: str, line: structlog.typing.EventDict) -> str:
            printed.append(line["event"])
            raise structlog.DropEvent

        structlog.configure(processors=[keep])
        journal.tell(REFUSED, level=logging.WARNING)

        assert len(caplog.records) == 1
        assert printed == ["refused"]


Line = dict[str, Any]
Case = tuple[str, Callable[[Rig], list[Line]]]
CASES: list[Case] = []
"""What makes the middleware tell each event, and the lines that are then to be read, each with all its keys."""


def case(event: str) -> Callable[[Callable[[Rig], list[Line]]], Callable[[Rig], list[Line]]]:
    """Register what makes the middleware tell an event."""

    def register(happens: Callable[[Rig], list[Line]]) -> Callable[[Rig], list[Line]]:
        CASES.append((event, happens))
        return happens

    return register


def line(event: str, level: str, message: Message[Any], lock: str, **own: Any) -> Line:
    """Say how a line of the actor ``export`` reads."""
    return {
        "event": event,
        "log_level": level,
        "message_id": message.message_id,
        "actor_name": "export",
        "queue_name": "default",
        "digest": outcome(message).digest,
        "lock": lock,
        **own,
    }


def between(low: int, high: int) -> Any:
    """Stand for a number that cannot be told beforehand."""
    return pytest.approx((low + high) / 2, abs=(high - low) / 2)


def export() -> None:
    """Do nothing."""


A_WHILE_MS = between(0, 60_000)


@contextmanager
def one_runs(rig: Rig, **options: Any) -> Iterator[tuple[Any, Message[Any]]]:
    """Give an actor whose first message runs as long as the block does; there is another thread for a second one."""
    gate = Gate()

    def export() -> None:
        gate.arrive()

    actor = rig.actor(export, **options)
    first = actor.send()
    rig.start(threads=2)
    gate.wait_for_arrival()
    try:
        yield actor, first
    finally:
        gate.open(times=10)


def cut_off(rig: Rig) -> str:
    """Cut the locks off from now on until the first word about it; what comes back is what the client says."""
    server = rig.redis.connection_pool.connection_kwargs["server"]
    server.connected = False
    with pytest.raises(redis.ConnectionError) as raised:
        rig.redis.ping()

    @rig.unique.subscribe
    def reconnect(event: Event) -> None:
        server.connected = server.connected or event.name == "store_error"

    return f"ConnectionError: {raised.value}"


@case("locked")
def a_message_takes_its_queue_lock(rig: Rig) -> list[Line]:
    """For as long as `lock_ttl` says."""
    message = rig.actor(export, lock="until_executed", lock_ttl=60).send()
    return [line("locked", "debug", message, "until_executed", kind="queue", hold_ms=60_000, waited_ms=0)]


@case("locked")
def a_delivery_takes_its_run_lock(rig: Rig) -> list[Line]:
    """For a lease; and another one, which waited for it, after that."""
    with one_runs(rig, lock="while_executing", lock_timeout=30) as (actor, first):
        second = actor.send()
        eventually(rig.redis.pubsub_channels)
    rig.join()
    taken = {"kind": "run", "hold_ms": 30_000}
    return [
        line("locked", "debug", first, "while_executing", **taken, waited_ms=0),
        line("locked", "debug", second, "while_executing", **taken, waited_ms=A_WHILE_MS),
    ]


@case("refused")
def a_duplicate_is_refused_at_enqueue(rig: Rig) -> list[Line]:
    """Under `log`."""
    actor = rig.actor(export, lock="until_executed", on_conflict="log")
    first, second = actor.send(), actor.send()
    why = {"side": "client", "strategy": "log", "holder_id": first.message_id}
    return [line("refused", "info", second, "until_executed", **why)]


@case("refused")
def a_refusal_cuts_a_pipeline_short(rig: Rig) -> list[Line]:
    """A warning, though nobody asked for a line."""
    actor = rig.actor(export, lock="until_executed")
    after = rig.actor(lambda _: None, actor_name="after")
    first = actor.send()
    second = (actor.message() | after.message()).run().messages[0]
    why = {"side": "client", "strategy": "none", "holder_id": first.message_id, "next_actor": "after"}
    same = line("refused", "warning", first, "until_executed", **why)
    return [same | {"message_id": second.message_id}]


@case("refused")
def a_duplicate_is_dropped_by_a_worker(rig: Rig) -> list[Line]:
    """Under `log`."""
    with one_runs(rig, lock="while_executing", on_conflict="log") as (actor, first):
        second = actor.send()
        eventually(lambda: rig.told("refused"))
    why = {"side": "server", "strategy": "log", "holder_id": first.message_id}
    return [line("refused", "info", second, "while_executing", **why)]


@case("rejected")
def a_duplicate_is_dead_lettered_at_enqueue(rig: Rig) -> list[Line]:
    """Under `reject`."""
    actor = rig.actor(export, lock="until_executed", on_conflict="reject")
    first, second = actor.send(), actor.send()
    why = {"side": "client", "strategy": "reject", "holder_id": first.message_id}
    return [line("rejected", "warning", second, "until_executed", **why)]


@case("rejected")
def a_duplicate_is_dead_lettered_by_a_worker(rig: Rig) -> list[Line]:
    """Under `reject`."""
    with one_runs(rig, lock="while_executing", on_conflict="reject") as (actor, first):
        second = actor.send()
        eventually(lambda: rig.told("rejected"))
    why = {"side": "server", "strategy": "reject", "holder_id": first.message_id}
    return [line("rejected", "warning", second, "while_executing", **why)]


@case("replaced")
def a_message_takes_the_place_of_one_that_waits(rig: Rig) -> list[Line]:
    """Under `replace`."""
    actor = rig.actor(export, lock="until_executed", on_conflict="replace")
    first, second = actor.send(), actor.send()
    return [line("replaced", "info", second, "until_executed", replaced_id=first.message_id)]


@case("superseded")
def a_message_comes_up_whose_place_was_taken(rig: Rig) -> list[Line]:
    """It is skipped."""
    actor = rig.actor(export, lock="until_executed", on_conflict="replace")
    first, second = actor.send(), actor.send()
    rig.drain()
    return [line("superseded", "info", first, "until_executed", by_id=second.message_id)]


@case("rescheduled")
def a_duplicate_is_put_back_at_enqueue(rig: Rig) -> list[Line]:
    """Under `reschedule`."""
    actor = rig.actor(export, lock="until_executed", on_conflict="reschedule", reschedule_delay=5)
    first, second = actor.send(), actor.send()
    why = {"side": "client", "strategy": "reschedule", "holder_id": first.message_id}
    return [
        line("rescheduled", "info", second, "until_executed", **why, delay_ms=between(5000, 10_000), attempt=1),
    ]


@case("rescheduled")
def a_duplicate_is_put_back_by_a_worker(rig: Rig) -> list[Line]:
    """Where nothing else was asked for."""
    with one_runs(rig, lock="while_executing", reschedule_delay=5) as (actor, first):
        second = actor.send()
        eventually(lambda: rig.told("rescheduled"))
    why = {"side": "server", "strategy": "reschedule", "holder_id": first.message_id}
    return [line("rescheduled", "info", second, "while_executing", **why, delay_ms=between(5000, 10_000), attempt=1)]


@case("rescheduled")
def a_message_is_delivered_again_while_it_runs(rig: Rig) -> list[Line]:
    """It comes back when the lease of its first delivery is over."""
    with one_runs(rig, lock="while_executing") as (_, message):
        rig.deliver_again(message)
        eventually(lambda: rig.told("rescheduled"))
    why = {"side": "server", "strategy": "redelivery", "holder_id": message.message_id}
    return [line("rescheduled", "info", message, "while_executing", **why, delay_ms=between(500, 30_000), attempt=0)]


@case("merged")
def a_retry_meets_a_newer_copy(rig: Rig) -> list[Line]:
    """The copy was sent while the first one ran, and failed."""
    gate, copies = Gate(), list[Message[Any]]()

    def export() -> None:
        gate.arrive()
        if not rig.told("merged"):
            raise RuntimeError

    actor = rig.actor(export, lock="until_executing")
    copies.append(actor.send())
    rig.start(threads=1)
    gate.wait_for_arrival()
    copies.append(actor.send())
    gate.open(times=2)
    rig.join()
    first, second = copies
    return [line("merged", "info", first, "until_executing", holder_id=second.message_id)]


@case("released")
def both_locks_are_let_go(rig: Rig) -> list[Line]:
    """The queue lock when the run lock is taken, and that one after the run."""
    message = rig.actor(export, lock="until_and_while_executing").send()
    rig.drain()
    return [
        line("released", "debug", message, "until_and_while_executing", kind=kind, held_ms=A_WHILE_MS)
        for kind in ("queue", "run")
    ]


@case("released")
def a_lock_is_let_go_by_hand(rig: Rig) -> list[Line]:
    """Redis does not know its lock type."""
    actor = rig.actor(export, lock="until_executed")
    message = actor.send()
    assert rig.unique.locks.release_matching("export") == 1
    return [line("released", "info", message, "", kind="queue", held_ms=A_WHILE_MS)]


@case("lapsed")
def a_message_starts_without_the_lock_it_had(rig: Rig) -> list[Line]:
    """Somebody deleted it."""
    message = rig.actor(export, lock="until_executing").send()
    rig.redis.delete(*rig.lock_keys())
    rig.drain()
    return [line("lapsed", "warning", message, "until_executing")]


@case("reclaimed")
def a_lock_is_taken_over_from_a_message_that_is_gone(rig: Rig) -> list[Line]:
    """The Redis broker is asked after a holder that was not seen for a while."""
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    broker = RedisBroker(client=client)
    broker.middleware = []
    broker.add_middleware(rig.unique)
    actor = dramatiq.actor(broker=broker, lock="until_executed")(export)
    first = actor.send()
    client.flushall()
    rig.not_seen_for(10_000)
    second = actor.send()
    return [line("reclaimed", "warning", second, "until_executed", holder_id=first.message_id)]


@case("lease_lost")
def a_lock_is_deleted_while_its_message_runs(rig: Rig) -> list[Line]:
    """It is told when it would be renewed: at a third of the lease."""
    rig.use(UniqueMiddleware(rig.client, lease=1))
    with one_runs(rig, lock="until_executed") as (_, message):
        rig.redis.delete(*rig.lock_keys())
        eventually(lambda: rig.told("lease_lost"))
    return [line("lease_lost", "error", message, "until_executed", kind="queue")]


@case("after_unlock_failed")
def a_hook_raises(rig: Rig) -> list[Line]:
    """The type of it is told, and where; its text may have arguments of the job in it."""

    def raise_it() -> None:
        raise ZeroDivisionError

    message = rig.actor(export, lock="until_executed", after_unlock=raise_it).send()
    rig.drain()
    where = f"{__file__}:{raise_it.__code__.co_firstlineno + 1} in raise_it"
    return [line("after_unlock_failed", "error", message, "until_executed", error="ZeroDivisionError", where=where)]


@case("store_error")
def the_store_is_away_at_enqueue(rig: Rig) -> list[Line]:
    """The caller has the error."""
    actor = rig.actor(export, lock="until_executed")
    message = actor.message()
    cut_off(rig)
    with pytest.raises(LockStoreUnavailable) as raised:
        rig.broker.enqueue(message)
    why = {"operation": "enqueue", "error": str(raised.value), "consequence": "refused"}
    same = line("store_error", "error", actor.send(), "until_executed", **why)
    return [same | {"message_id": message.message_id}]


@case("store_error")
def the_store_is_away_at_enqueue_and_nobody_minds(rig: Rig) -> list[Line]:
    """Under `on_store_error="ignore"`."""
    rig.use(UniqueMiddleware(rig.client, on_store_error="ignore"))
    actor = rig.actor(export, lock="until_executed")
    error = f"the lock store failed at 'acquire': {cut_off(rig)}"
    why = {"operation": "enqueue", "error": error, "consequence": "unlocked"}
    return [line("store_error", "error", actor.send(), "until_executed", **why)]


@case("store_error")
def the_store_is_away_at_a_start(rig: Rig) -> list[Line]:
    """The delivery fails, and its retry runs."""
    message = rig.actor(export, lock="until_executed").send()
    error = f"the lock store failed at 'begin': {cut_off(rig)}"
    rig.drain()
    why = {"operation": "start", "error": error, "consequence": "failed"}
    return [line("store_error", "error", message, "until_executed", **why)]


@case("store_error")
def the_store_is_away_when_a_lock_is_released(rig: Rig) -> list[Line]:
    """It is released in the background."""
    with one_runs(rig, lock="until_executed") as (_, message):
        error = f"the lock store failed at 'finish': {cut_off(rig)}"
    eventually(lambda: rig.told("released"))
    why = {"operation": "release", "error": error, "consequence": "later"}
    return [line("store_error", "error", message, "until_executed", **why)]


@case("store_error")
def the_store_is_away_when_a_lock_is_renewed(rig: Rig) -> list[Line]:
    """It is renewed the next time."""
    rig.use(UniqueMiddleware(rig.client, lease=1))
    with one_runs(rig, lock="until_executed") as (_, message):
        error = f"the lock store failed at 'renew': {cut_off(rig)}"
        eventually(lambda: rig.told("store_error"))
    why = {"operation": "renew", "error": error, "consequence": "later"}
    return [line("store_error", "error", message, "until_executed", **why)]


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A Stub broker; the locks in memory, in a Redis that can be cut off."""
    client, bench = fakeredis.FakeRedis(server=fakeredis.FakeServer()), StubBench()
    unique = UniqueMiddleware(client)
    bench.broker.add_middleware(unique)
    dramatiq.set_broker(bench.broker)
    rig = Rig(bench, unique, client)
    yield rig
    rig.stop()
    bench.close()


@pytest.mark.parametrize(("event", "happens"), [pytest.param(*case, id=case[1].__name__) for case in CASES])
def test_a_line_has_every_key_of_its_fact(event: str, happens: Callable[[Rig], list[Line]], rig: Rig) -> None:
    """What really happens is told in these lines of that name, with these keys and no other; so are its events."""
    with capture_logs() as lines:
        expected = happens(rig)
        rig.stop()

    assert [line for line in lines if line["event"] == event] == expected
    told = [{"event": event, "log_level": line["log_level"]} for line in expected]
    for fact, keys in zip(rig.told(event), told, strict=True):
        keys |= {name: value for name, value in dataclasses.asdict(fact).items() if value is not None}
    assert told == expected


def test_every_fact_has_such_a_case() -> None:
    """A new event comes with a case above, in which it is really told."""
    assert {event for event, _ in CASES} == set(CATALOGUE)


def test_no_line_and_no_event_has_an_argument_of_a_job(
    unique: UniqueMiddleware, broker: StubBroker, memory: "redis.Redis", caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever happens to a message, what it carries stays with it, though `lock_info` keeps it in the lock."""
    caplog.set_level(logging.DEBUG, "dramatiq_unique")
    heard: list[Event] = []
    unique.subscribe(heard.append)

    def export(secret: str) -> None: ...

    def raise_it(_message: object) -> None:
        raise ZeroDivisionError

    actor = dramatiq.actor(broker=broker, lock="until_executed", lock_info=True, after_unlock=raise_it)(export)
    for strategy in ("log", "reject", "replace", "reschedule"):
        for _ in range(2):
            actor.send_with_options(args=("hunter2",), on_conflict=strategy, reschedule_delay=0.01)
    for options in ({"on_conflict": "raise"}, {"lock_ttl": 0}):
        with pytest.raises(dramatiq.middleware.MiddlewareError) as raised:
            actor.send_with_options(args=("hunter2",), **options)
        assert "hunter2" not in str(raised.value)

    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    broker.join("default", timeout=20_000)
    worker.stop()

    told = {event.name for event in heard}
    assert told >= {"locked", "refused", "rejected", "replaced", "superseded", "rescheduled", "released"}
    assert "after_unlock_failed" in told
    lines = [record.getMessage() for record in caplog.records if record.name == "dramatiq_unique"]
    assert len(lines) >= len(heard) - 1
    assert "hunter2" not in "\n".join([*lines, *map(repr, heard)])


def test_an_error_at_enqueue_has_no_argument_of_a_job_either(broker: StubBroker) -> None:
    """A sender may log what it catches."""

    def key(secret: str) -> None: ...

    def export(secret: str) -> None: ...

    actor: Any = dramatiq.actor(broker=broker, lock="until_executed", lock_args_method=key)(export)
    message: Message[Any] = actor.message("hunter2")

    with pytest.raises(InvalidLockOptions) as raised:
        broker.enqueue(message)

    assert "hunter2" not in str(raised.value)
