"""What each row of the table prevents, and when it lets go."""

from typing import Any

import pytest
from dramatiq.middleware import Middleware

from dramatiq_unique import LockType, Outcome, UniqueMiddleware, outcome
from dramatiq_unique.lock_types import LOCK_TYPES, Until
from tests.rig import Gate, Rig, Runs, eventually


def test_until_executing_refuses_a_second_copy_while_one_waits(rig: Rig) -> None:
    """Of three sends one is queued, and another product has its own lock."""
    runs = Runs()

    def reindex(product_id: int) -> None:
        with runs.of(product_id):
            pass

    actor = rig.actor(reindex, lock="until_executing")

    first, second, other = actor.send(42), actor.send(42), actor.send(43)

    assert outcome(first).action == "enqueued"
    assert outcome(second).action == "discarded"
    assert outcome(second).holder_id == first.message_id
    assert outcome(other).action == "enqueued"
    assert {message.message_id for message in rig.waiting()} == {first.message_id, other.message_id}
    rig.drain()
    assert sorted(runs.ended) == [42, 43]
    assert rig.lock_keys() == []


def test_until_executing_lets_the_next_copy_in_once_the_first_has_started(rig: Rig) -> None:
    """The lock goes just before the actor runs, so a trigger that comes during the run is not lost."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="until_executing")
    actor.send()
    rig.start()
    gate.wait_for_arrival()

    assert outcome(actor.send()).action == "enqueued"
    gate.open(2)
    rig.join()
    assert len(runs.ended) == 2


def test_until_executed_refuses_a_second_copy_until_the_first_is_done(rig: Rig) -> None:
    """A copy is refused while the first waits and while it runs, and accepted afterwards."""
    gate = Gate()

    def work() -> None:
        gate.arrive()

    actor = rig.actor(work, lock="until_executed")
    actor.send()
    assert outcome(actor.send()).action == "discarded"
    rig.start()
    gate.wait_for_arrival()
    assert outcome(actor.send()).action == "discarded"
    gate.open()
    rig.join()
    assert outcome(actor.send()).action == "enqueued"
    gate.open()
    rig.drain()


def test_until_executed_is_free_before_its_message_is_acknowledged(rig: Rig) -> None:
    """On success the lock is released at once: a crash before the ack leaves no lock behind."""
    held_at_ack: list[set[str]] = []

    class Looks(Middleware):
        def before_ack(self, broker: Any, message: Any) -> None:
            held_at_ack.append(rig.holders())

    rig.broker.middleware.insert(0, Looks())
    rig.actor(lambda: None, actor_name="work", lock="until_executed").send()
    rig.drain()
    assert held_at_ack == [set()]


def test_until_expired_holds_its_window_after_the_run(rig: Rig) -> None:
    """C05: the window counts from the send, and the end of the run does not open it."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_expired", lock_ttl=600)
    first = actor.send()
    rig.drain()

    second = actor.send()

    assert outcome(second).action == "discarded"
    assert outcome(second).holder_id == first.message_id
    [key] = rig.lock_keys("queue")
    assert 590 < rig.client.ttl(key) <= 600


def test_until_expired_opens_when_its_window_is_over(rig: Rig) -> None:
    """Nothing else than time lets the lock go."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_expired", lock_ttl=0.3)
    actor.send()
    rig.drain()
    eventually(lambda: outcome(actor.send()).action == "enqueued")


def test_while_executing_lets_everything_in_and_runs_one_at_a_time(rig: Rig) -> None:
    """C19: three sent at once all run, one by one, since the server reschedules unless told otherwise."""
    runs = Runs()

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    gate = Gate()
    gate.open(3)
    actor = rig.actor(work, lock="while_executing", lock_args=[])
    sent = [actor.send(number) for number in range(3)]

    rig.drain()

    assert {outcome(message).action for message in sent} == {"enqueued"}
    assert sorted(runs.ended) == [0, 1, 2]
    assert runs.most_at_once == 1
    assert rig.lock_keys() == []


def test_until_and_while_executing_has_one_waiting_and_one_running(rig: Rig) -> None:
    """While one runs a second may wait, and a third is refused; the second starts after the first."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="until_and_while_executing")
    actor.send()
    rig.start()
    gate.wait_for_arrival()

    second, third = actor.send(), actor.send()

    assert outcome(second).action == "enqueued"
    assert outcome(third).action == "discarded"
    assert outcome(third).holder_id == second.message_id
    gate.open(2)
    rig.join()
    assert len(runs.ended) == 2
    assert runs.most_at_once == 1
    eventually(lambda: rig.lock_keys() == [])


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_and_while_executing"])
def test_a_limit_lets_so_many_hold_at_once(rig: Rig, lock: str) -> None:
    """With ``lock_limit=2`` the third is refused."""
    actor = rig.actor(lambda: None, actor_name="work", lock=lock, lock_limit=2)
    assert [outcome(actor.send()).action for _ in range(3)] == ["enqueued", "enqueued", "discarded"]
    rig.drain()
    assert rig.lock_keys() == []


def test_a_limit_lets_so_many_run_at_once(rig: Rig) -> None:
    """With ``lock_limit=2`` two of five run at once, and all five run."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="while_executing", lock_limit=2)
    for _ in range(5):
        actor.send()
    rig.start(threads=5)
    gate.wait_for_arrival()
    gate.wait_for_arrival()
    gate.open(5)
    rig.join()
    assert len(runs.ended) == 5
    assert runs.most_at_once == 2


def test_a_message_may_ask_for_no_lock(rig: Rig) -> None:
    """``lock=None`` on a message sends that one without a lock, and without a ticket."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    actor.send()
    for nothing in (None, False):
        message = actor.send_with_options(lock=nothing)
        assert outcome(message) == Outcome("enqueued")
        assert "dramatiq_unique" not in message.options
    rig.drain()


def test_an_actor_without_a_lock_pays_nothing(rig: Rig) -> None:
    """No option is added to its messages, and nothing is written to Redis."""
    actor = rig.actor(lambda: None, actor_name="work")
    message = actor.send()
    assert "dramatiq_unique" not in message.options
    rig.drain()
    assert rig.lock_keys() == []


def test_a_sixth_row_works_as_well_as_the_first_five(rig: Rig) -> None:
    """A lock type registered from outside: refused from enqueue to done, and run one at a time besides."""
    runs, gate = Runs(), Gate()
    row = LockType("until_executed_alone", queue=Until.END, run=True)
    rig.use(UniqueMiddleware(rig.client, lock_types=[row]))

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="until_executed_alone")
    first = actor.send()
    rig.start()
    gate.wait_for_arrival()

    assert outcome(actor.send()).holder_id == first.message_id
    assert rig.holders("queue") == rig.holders("run") == {first.message_id}
    gate.open()
    rig.join()
    eventually(lambda: rig.lock_keys() == [])
    assert len(runs.ended) == 1


def test_a_row_that_locks_nothing_is_refused() -> None:
    """A lock type takes at least one lock."""
    with pytest.raises(ValueError, match="neither a queue lock nor a run lock"):
        LockType("never")


def test_the_five_rows_are_those_of_the_contract() -> None:
    """Five names, in the order of the documentation."""
    assert [row.name for row in LOCK_TYPES] == [
        "until_executing",
        "until_executed",
        "until_expired",
        "while_executing",
        "until_and_while_executing",
    ]
