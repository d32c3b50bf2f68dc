"""What is told: the catalogue of events, who hears them, and the lines in the log."""

import dataclasses
import logging
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import dramatiq
import pytest
import redis
import structlog
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker
from structlog.testing import capture_logs

from dramatiq_unique import InvalidLockOptions, UniqueMiddleware, events
from dramatiq_unique.events import LEVELS, Event
from dramatiq_unique.journal import Journal


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
