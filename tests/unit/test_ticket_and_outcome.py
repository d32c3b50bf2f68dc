"""What travels with a message, and what its sender learns."""

import json
import pickle
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import DuplicateMessage, Outcome, original, outcome
from dramatiq_unique.ticket import OPTION, Ticket


FULL = Ticket(
    message_id="x",
    digest="d1935",
    lock="until_executed",
    ttl_ms=1000,
    held=True,
    rescheduled=3,
    outcome={"action": "discarded", "holder_id": "y"},
)


def export(tenant: object = None) -> None:
    """Do the work of the actor in these tests."""


def declare(broker: StubBroker, **options: Any) -> dramatiq.Actor[..., Any]:
    """Declare an actor."""
    return dramatiq.actor(broker=broker, **({"lock": "until_executed"} | options))(export)


class TestTheTicket:
    """One entry in the options of a message."""

    def test_it_comes_back_from_json_as_it_was(self) -> None:
        """Whatever its fields are."""
        entry = json.loads(json.dumps(FULL.entry()))

        assert Ticket.on("x", {OPTION: entry}) == FULL

    @pytest.mark.parametrize("field", Ticket._fields)
    def test_every_field_travels(self, field: str) -> None:
        """A field that is added to the ticket is written down."""
        least = Ticket("x", "d1935", "until_executed")
        other = {
            "int | None": 7,
            "int": 7,
            "bool": True,
            "str": "x",
            "Mapping[str, str] | None": {"action": "rejected"},
        }
        change: dict[str, Any] = {field: other[Ticket.__annotations__[field].__forward_arg__]}
        ticket = least._replace(**change)

        assert Ticket.on("x", {OPTION: ticket.entry()}) == ticket

    def test_it_is_small(self) -> None:
        """What is at its default isn't written down."""
        assert set(Ticket("x", "d1935", "until_executed").entry()) == {"message_id", "digest", "lock"}

    def test_it_is_frozen(self) -> None:
        """What was settled at enqueue stays so."""
        with pytest.raises(AttributeError):
            FULL.digest = "another"  # type: ignore[misc]

    def test_a_copy_with_another_id_starts_afresh(self) -> None:
        """A copied message is another message: the ticket isn't its own."""
        assert Ticket.on("z", {OPTION: FULL.entry()}) is None

    @pytest.mark.parametrize(
        "entry",
        [
            None,
            "a string",
            ["a", "list"],
            {},
            {"message_id": "x"},
            {"message_id": "x", "digest": "d1935"},
            {"message_id": "x", "digest": "d1935", "lock": "until_executed", "colour": "red"},
        ],
        ids=["none", "string", "list", "empty", "id only", "no lock", "a field of another version"],
    )
    def test_one_that_cannot_be_read_is_none(self, entry: object) -> None:
        """Whoever wrote it; the lock is then settled again."""
        assert Ticket.on("x", {OPTION: entry}) is None

    def test_a_message_without_one_has_none(self) -> None:
        """Another producer sent it, or a broker dropped it."""
        assert Ticket.on("x", {"retries": 1}) is None

    def test_one_that_cannot_be_read_is_settled_again(self, broker: StubBroker) -> None:
        """A send goes on, with a lock."""
        actor = declare(broker)
        message = actor.message(1)

        sent = broker.enqueue(message.copy(options={OPTION: {"message_id": message.message_id, "version": 2}}))

        assert outcome(actor.send(1)).holder_id == sent.message_id

    def test_putting_back_is_counted(self) -> None:
        """And what became of the send no longer holds."""
        assert FULL.put_back().rescheduled == 4
        assert FULL.put_back().outcome is None


class TestTheOutcome:
    """`send` always returns a message; `outcome` says what became of it."""

    def test_without_a_lock_it_was_enqueued(self, broker: StubBroker) -> None:
        """There is no digest."""
        assert outcome(declare(broker, lock=None).send(1)) == Outcome("enqueued")

    @pytest.mark.parametrize(
        "lock", ["until_executing", "until_executed", "until_expired", "while_executing", "until_and_while_executing"]
    )
    def test_under_a_lock_it_was_enqueued_with_a_digest(self, broker: StubBroker, lock: str) -> None:
        """Whatever the lock type; the digest is there before any lock is taken."""
        message = declare(broker, lock=lock, lock_ttl=60).send(1)

        assert outcome(message).action == "enqueued"
        assert len(str(outcome(message).digest)) == 40
        assert outcome(message).holder_id is None

    @pytest.mark.parametrize(
        ("strategy", "action", "waiting"),
        [
            (None, "discarded", 1),
            ("log", "discarded", 1),
            ("reject", "rejected", 1),
            ("replace", "replaced", 2),
            ("reschedule", "rescheduled", 2),
        ],
    )
    def test_a_duplicate_says_what_was_done_and_who_was_in_the_way(
        self, broker: StubBroker, strategy: str | None, action: str, waiting: int
    ) -> None:
        """By every strategy that returns."""
        actor = declare(broker, on_conflict=strategy)
        first = actor.send(1)

        second = actor.send(1)

        assert (outcome(second).action, outcome(second).holder_id) == (action, first.message_id)
        assert outcome(second).digest == outcome(first).digest
        assert second.message_id != first.message_id
        assert broker.queues["default"].qsize() + broker.queues["default.DQ"].qsize() == waiting

    def test_it_is_the_same_for_every_way_to_send(self, broker: StubBroker) -> None:
        """`send`, `send_with_options`, with a delay, and `broker.enqueue` with a message."""
        actor = declare(broker)
        first = actor.send(1)
        sends = [
            actor.send(1),
            actor.send_with_options(args=(1,)),
            actor.send_with_options(kwargs={"tenant": 1}, delay=60_000),
            broker.enqueue(actor.message(1)),
        ]

        assert [(outcome(sent).action, outcome(sent).holder_id) for sent in sends] == [
            ("discarded", first.message_id)
        ] * 4

    def test_what_was_passed_to_the_broker_is_not_changed(self, broker: StubBroker) -> None:
        """A message that is kept may be enqueued again, as another program would."""
        actor = declare(broker)
        message = actor.message_with_options(args=(1,), max_retries=3)

        broker.enqueue(message)

        assert message.options == {"max_retries": 3}

    def test_a_message_that_was_refused_and_is_sent_again_is_enqueued(
        self, broker: StubBroker, memory: "redis.Redis"
    ) -> None:
        """Once the lock is free, what became of it before no longer holds."""
        actor = declare(broker)
        actor.send(1)
        refused = actor.send(1)
        memory.flushall()

        again = broker.enqueue(refused)

        assert (outcome(again).action, outcome(again).holder_id) == ("enqueued", None)
        assert original(again) is again
        assert actor.send(1).message_id != again.message_id
        assert outcome(actor.send(1)).holder_id == again.message_id

    def test_a_message_that_was_refused_and_is_sent_again_may_be_refused_again(self, broker: StubBroker) -> None:
        """Because of whoever holds the lock now."""
        actor = declare(broker)
        first = actor.send(1)

        again = broker.enqueue(actor.send(1))

        assert (outcome(again).action, outcome(again).holder_id) == ("discarded", first.message_id)

    def test_it_is_a_value(self) -> None:
        """Frozen, comparable, and readable."""
        assert Outcome("discarded", "d1935", "y") == Outcome("discarded", digest="d1935", holder_id="y")
        assert repr(Outcome("enqueued")) == "Outcome(action='enqueued', digest=None, holder_id=None)"
        with pytest.raises(AttributeError):
            Outcome("enqueued").action = "discarded"  # type: ignore[misc]


class TestTheOriginal:
    """`original` is a handle to the message that does the work."""

    @pytest.mark.parametrize("strategy", [None, "log", "reject"])
    def test_of_a_duplicate_is_the_holder(self, broker: StubBroker, strategy: str | None) -> None:
        """Good for asking for its result: which is stored by queue, actor and message id."""
        actor = declare(broker, on_conflict=strategy)
        first = actor.send(1)

        found = original(actor.send(1))

        assert (found.message_id, found.queue_name, found.actor_name) == (first.message_id, "default", "export")

    def test_of_a_message_that_was_rescheduled_is_itself(self, broker: StubBroker) -> None:
        """It does its work later, so its result is its own."""
        actor = declare(broker, on_conflict="reschedule")
        actor.send(1)
        second = actor.send(1)

        assert outcome(second).action == "rescheduled"
        assert original(second) is second

    @pytest.mark.parametrize("lock", [None, "until_executed"])
    def test_of_a_message_that_was_enqueued_is_itself(self, broker: StubBroker, lock: str | None) -> None:
        """With and without a lock."""
        message = declare(broker, lock=lock).send(1)

        assert original(message) is message

    def test_of_a_message_that_replaced_another_is_itself(self, broker: StubBroker) -> None:
        """The other never runs."""
        actor = declare(broker, on_conflict="replace")
        actor.send(1)
        message = actor.send(1)

        assert original(message) is message

    def test_of_a_duplicate_across_queues_and_actors_is_where_the_holder_is(self, broker: StubBroker) -> None:
        """Its own queue and its own actor; never the delay queue, under which no result is stored."""
        across: dict[str, Any] = {"unique_across_queues": True, "unique_across_actors": True}
        slow = dramatiq.actor(broker=broker, actor_name="slow", queue_name="night", lock="until_executed", **across)(
            export
        )
        first = slow.send_with_options(args=(1,), delay=60_000)

        found = original(declare(broker, **across).send(1))

        assert (found.message_id, found.queue_name, found.actor_name) == (first.message_id, "night", "slow")

    def test_says_nothing_of_a_message_that_was_never_sent(self) -> None:
        """There is no other than itself."""
        message: Message[Any] = Message("default", "export", (), {}, {})

        assert original(message) is message
        assert outcome(message) == Outcome("enqueued")


def test_a_duplicate_message_travels_between_processes() -> None:
    """Worker pools and test runners pickle errors; the ids arrive with it."""
    error = DuplicateMessage("twice", message_id="m", actor_name="a", digest="d", holder_id="h")
    arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert str(arrived) == "twice"
    assert vars(arrived) == vars(error)
