"""What happens to a duplicate, on either side."""

from functools import partial
from typing import Any

import pytest
import structlog
from dramatiq.middleware import CurrentMessage, Middleware

from dramatiq_unique import DuplicateMessage, UniqueMiddleware, outcome
from dramatiq_unique.strategies import Action, Conflict
from tests.rig import Gate, RedisBench, Rig, Runs, eventually


def test_a_duplicate_is_refused_silently_by_default(rig: Rig) -> None:
    """Nothing is raised, nothing is logged, and subscribers hear of it."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    first = actor.send()
    with structlog.testing.capture_logs() as lines:
        second = actor.send()
    assert lines == []
    [refused] = rig.told("refused")
    assert (refused.message_id, refused.holder_id, refused.side) == (second.message_id, first.message_id, "client")


def test_log_refuses_at_enqueue_with_one_line(rig: Rig) -> None:
    """One structured line, with ids and digest and no arguments."""
    actor = rig.actor(lambda secret: None, actor_name="work", lock="until_executed", on_conflict="log")
    first = actor.send("hunter2")
    with structlog.testing.capture_logs() as lines:
        second = actor.send("hunter2")
    assert lines == [
        {
            "event": "refused",
            "log_level": "info",
            "message_id": second.message_id,
            "actor_name": "work",
            "queue_name": rig.queue,
            "digest": outcome(second).digest,
            "lock": "until_executed",
            "side": "client",
            "strategy": "log",
            "holder_id": first.message_id,
        }
    ]


def test_raise_reaches_the_caller_of_send(rig: Rig) -> None:
    """The error says which message, which actor, which lock, and who holds it; nothing is enqueued."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", on_conflict="raise")
    first = actor.send()
    with pytest.raises(DuplicateMessage, match=r"actor 'work' is a duplicate.*until_executed") as caught:
        actor.send()
    assert caught.value.holder_id == first.message_id
    assert caught.value.actor_name == "work"
    assert len(rig.waiting()) == 1
    assert rig.holders() == {first.message_id}


def test_raise_reaches_the_body_of_an_actor_that_sends(rig: Rig) -> None:
    """An actor's own send is a caller's send."""
    caught: list[str | None] = []
    target = rig.actor(lambda: None, actor_name="target", lock="until_executed", on_conflict="raise", queue_name="o")
    first = target.send()

    def work() -> None:
        try:
            target.send()
        except DuplicateMessage as exc:
            caught.append(exc.holder_id)

    rig.actor(work).send()
    rig.start()
    rig.workers[0].consumers["o"].pause()
    rig.join()
    eventually(lambda: caught == [first.message_id] or rig.told("released"))


def test_reject_puts_a_duplicate_into_the_dead_letters(rig: Rig) -> None:
    """C34: it is in the broker's own dead letters, and not in the queue; the holder is left alone."""
    actor = rig.actor(lambda number: None, actor_name="work", lock="until_executed", on_conflict="reject", lock_args=[])
    first = actor.send(1)
    second = actor.send_with_options(args=(2,), delay=1000)

    assert outcome(second).action == "rejected"
    [letter] = rig.dead_letters()
    assert (letter.message_id, letter.args, letter.queue_name) == (second.message_id, (2,), rig.queue)
    assert "eta" not in letter.options
    assert [message.message_id for message in rig.waiting()] == [first.message_id]
    assert rig.holders() == {first.message_id}
    assert [event.message_id for event in rig.told("rejected")] == [second.message_id]


def test_rejecting_at_the_worker_leaves_the_holders_lock_alone(rig: Rig) -> None:
    """C17: while one runs, the second is rejected and the third is rejected too."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="while_executing", on_conflict="reject")
    first = actor.send()
    rig.start()
    gate.wait_for_arrival()
    for expected in (1, 2):
        actor.send()
        eventually(partial(_has_dead_letters, rig, expected))
        assert rig.holders("run") == {first.message_id}
    gate.open()
    rig.join()
    eventually(lambda: rig.lock_keys() == [])


def test_log_drops_at_the_worker_with_one_line(rig: Rig) -> None:
    """The owner asked for it: the delivery is acknowledged without a run."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="while_executing", on_conflict={"server": "log"})
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    second = actor.send()
    eventually(lambda: rig.told("refused"))
    gate.open()
    rig.join()
    assert len(runs.ended) == 1
    [refused] = rig.told("refused")
    assert (refused.message_id, refused.side, refused.strategy) == (second.message_id, "server", "log")


def test_a_message_dropped_at_the_worker_frees_the_queue_lock_it_waited_with(rig: Rig) -> None:
    """Under until_and_while_executing the copy that waited is over, so another may wait."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_and_while_executing", on_conflict={"server": "log"})
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    actor.send()
    eventually(lambda: rig.told("refused") and rig.holders("queue") == set())
    assert outcome(actor.send()).action == "enqueued"
    eventually(lambda: len(rig.told("refused")) == 2)
    gate.open()
    rig.join()


def test_raise_at_the_worker_fails_the_delivery_and_is_retried(rig: Rig) -> None:
    """Dramatiq's retries apply until the lock is free."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="while_executing", on_conflict={"server": "raise"}, max_retries=100)
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    second = actor.send()
    eventually(lambda: rig.told("refused"))
    gate.open(2)
    rig.join()
    assert len(runs.ended) == 2
    assert rig.told("refused")[0].message_id == second.message_id
    assert rig.dead_letters() == []


@pytest.mark.parametrize("value", [None, False, 7])
def test_nothing_is_rescheduled_after_a_success(rig: Rig, value: Any) -> None:
    """C15: an actor that returns ``None``, ``False`` or a value runs once."""
    runs = Runs()

    def work() -> Any:
        with runs.of():
            return value

    rig.actor(work, lock="while_executing", on_conflict="reschedule").send()
    rig.drain()
    assert len(runs.ended) == 1
    assert rig.told("rescheduled") == []


def test_rescheduling_runs_all_of_them_one_at_a_time(rig: Rig) -> None:
    """C16: five sent at once run in turn, each with its own ``message_id`` and no retry counted."""
    runs = Runs()
    retries: list[int] = []

    class Looks(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            retries.append(message.options.get("retries", 0))

    rig.broker.add_middleware(Looks())

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    gate = Gate()
    actor = rig.actor(work, lock="while_executing", on_conflict="reschedule", lock_args=[])
    sent = [actor.send(number) for number in range(5)]
    rig.start(threads=5)
    gate.wait_for_arrival()
    eventually(lambda: len({event.message_id for event in rig.told("rescheduled")}) == 4)
    gate.open(5)
    eventually(lambda: len(runs.ended) >= 5)
    rig.join()
    assert sorted(runs.ended) == list(range(5))
    assert runs.most_at_once == 1
    assert len({message.message_id for message in sent}) == 5
    assert set(retries) == {0}


def test_rescheduling_at_enqueue_tries_again_later(rig: Rig) -> None:
    """The duplicate is enqueued after a delay, takes the lock then, and runs; the sender learns of it."""
    runs = Runs()

    def work(number: int) -> None:
        with runs.of(number):
            pass

    actor = rig.actor(work, lock="until_executed", on_conflict={"client": "reschedule"}, lock_args=[])
    first, second = actor.send(1), actor.send(2)
    assert outcome(second).action == "rescheduled"
    assert outcome(second).holder_id == first.message_id
    assert rig.holders() == {first.message_id}
    rig.drain()
    assert runs.ended == [1, 2]
    assert rig.lock_keys() == []


@pytest.mark.parametrize("side", ["client", "server"])
def test_after_so_many_reschedules_a_message_is_dead_lettered(rig: Rig, side: str) -> None:
    """``reschedule_limit`` bounds them on either side."""
    gate = Gate()
    lock = "until_executed" if side == "client" else "while_executing"
    actor = rig.actor(gate.arrive, actor_name="work", lock=lock, on_conflict={side: "reschedule"}, reschedule_limit=2)
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    second = actor.send()
    eventually(lambda: [letter.message_id for letter in rig.dead_letters()] == [second.message_id])
    assert [event.attempt for event in rig.told("rescheduled")] == [1, 2]
    gate.open()
    rig.join()


def test_replace_takes_the_place_of_a_message_that_waits(rig: Rig) -> None:
    """Of three sends only the last runs; on the Redis broker only the last is in the queue."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    sent = [actor.send(number) for number in range(3)]
    assert [outcome(message).action for message in sent] == ["enqueued", "replaced", "replaced"]
    assert outcome(sent[2]).holder_id == sent[1].message_id
    if isinstance(rig.bench, RedisBench):
        assert [message.args for message in rig.waiting()] == [(2,)]
        assert rig.lock_keys("superseded") == []
    rig.drain()
    assert ran == [2]
    assert rig.lock_keys() == []


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_expired", "until_and_while_executing"])
def test_a_replaced_message_never_runs_under_any_lock(rig: Rig, lock: str) -> None:
    """Delayed where the broker cannot take it out of the queue, it is skipped when it comes up, and said."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock=lock, on_conflict="replace", lock_args=[], lock_ttl=60)
    old = actor.send_with_options(args=(1,), delay=300)
    rig.start()
    eventually(lambda: old.message_id in rig.holders())
    new = actor.send_with_options(args=(2,), delay=300)
    assert outcome(new).action == "replaced"
    rig.join()
    assert ran == [2]
    rig.stop()
    assert rig.lock_keys("superseded") == []


def test_a_job_that_sent_its_own_message_again_waits_like_any_other(rig: Rig) -> None:
    """While it runs nobody may take its place; once it has run, its message waits, and a newer payload replaces it."""
    gate, ran = Gate(), []

    def work(number: int) -> None:
        ran.append(number)
        if number == 1:
            blocker.send()
            own = CurrentMessage.get_current_message()
            assert own is not None
            rig.broker.enqueue(own)
            assert outcome(actor.send(2)).action == "discarded"
        gate.arrive()

    rig.broker.add_middleware(CurrentMessage())
    actor = rig.actor(work, actor_name="work", lock="until_executed", on_conflict="replace", lock_args=[])
    blocker = rig.actor(gate.arrive, actor_name="blocker")
    actor.send(1)
    rig.start(threads=1)
    gate.wait_for_arrival()
    gate.open()
    gate.wait_for_arrival()
    eventually(lambda: [holder.state for lock in rig.unique.locks.iter() for holder in lock.holders] == ["waiting"])
    assert outcome(actor.send(3)).action == "replaced"
    gate.open(2)
    rig.join()
    eventually(lambda: ran == [1, 3])
    eventually(lambda: rig.lock_keys() == [])


def test_replacing_leaves_what_runs_undisturbed(rig: Rig) -> None:
    """C18: one runs, one waits, and two more are sent: only the last waits, and nothing overlaps."""
    gate, runs = Gate(), Runs()

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    actor = rig.actor(
        work, lock="until_and_while_executing", on_conflict={"client": "replace"}, lock_args=[], reschedule_delay=0.1
    )
    actor.send(0)
    rig.start()
    gate.wait_for_arrival()
    for number in (1, 2, 3):
        actor.send(number)
    assert len(rig.holders("queue")) == 1
    gate.open(2)
    rig.join()
    assert runs.ended == [0, 3]
    assert runs.most_at_once == 1
    eventually(lambda: rig.lock_keys() == [])


@pytest.mark.parametrize("lock", ["until_executed", "until_expired"])
def test_replace_is_refused_where_the_holder_runs_or_has_run(rig: Rig, lock: str) -> None:
    """It takes the place of a message that waits, and of no other."""
    gate = Gate()
    actor = rig.actor(
        lambda number: gate.arrive(), actor_name="work", lock=lock, on_conflict="replace", lock_args=[], lock_ttl=60
    )
    actor.send(1)
    rig.start()
    gate.wait_for_arrival()
    assert outcome(actor.send(2)).action == "discarded"
    gate.open()
    rig.join()
    if lock == "until_expired":
        assert outcome(actor.send(3)).action == "discarded"


def test_a_window_that_was_sent_without_replace_is_never_replaced(rig: Rig) -> None:
    """Nobody says when such a message starts, so it may have run: the newcomer is refused."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_expired", lock_ttl=60)
    actor.send()
    assert outcome(actor.send_with_options(on_conflict="replace")).action == "discarded"


def test_replace_on_both_sides_reschedules_at_the_worker(rig: Rig) -> None:
    """Where a strategy is not possible the default stands."""
    runs, gate = Runs(), Gate()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="while_executing", on_conflict="replace")
    actor.send()
    actor.send()
    rig.start()
    eventually(lambda: rig.told("rescheduled"))
    gate.open(2)
    rig.join()
    assert len(runs.ended) == 2


def test_a_strategy_of_ones_own_decides_by_the_conflict(rig: Rig) -> None:
    """Registered by name from a test file; it is told the side, the ids and the holder."""
    seen: list[Conflict] = []

    def newest(conflict: Conflict) -> Action:
        seen.append(conflict)
        return Action.REPLACE if conflict.side == "client" else Action.DISCARD

    rig.use(UniqueMiddleware(rig.client, strategies={"newest": newest}))
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="newest", lock_args=[])
    first, second = actor.send(1), actor.send(2)
    assert outcome(second).action == "replaced"
    [conflict] = seen
    assert (conflict.side, conflict.message_id, conflict.holder_id) == ("client", second.message_id, first.message_id)
    rig.drain()
    assert ran == [2]


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: "discard"], ids=["raises", "no-action"])
def test_a_strategy_of_ones_own_that_fails_is_logged_and_the_default_stands(rig: Rig, broken: Any) -> None:
    """It harms no message: refused at enqueue, as without it."""
    rig.use(UniqueMiddleware(rig.client, strategies={"broken": broken}))
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", on_conflict="broken")
    actor.send()
    with structlog.testing.capture_logs() as lines:
        assert outcome(actor.send()).action == "discarded"
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["strategy_failed"]


def _has_dead_letters(rig: Rig, count: int) -> bool:
    return len(rig.dead_letters()) == count
