"""Redis does what it is told, and the answer is lost; or it is away, and what was to be done is done later.

Meanwhile life goes on: the message is sent again, its dead letter is, another takes its place.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dramatiq import Message
from dramatiq.middleware import CurrentMessage

from dramatiq_unique import LockStoreUnavailable, UniqueMiddleware, backlog, outcome
from dramatiq_unique.backlog import Pending
from dramatiq_unique.store import Kind
from tests.rig import Gate, Rig, eventually


class Wire:
    """The way to the lock store, on which single operations go wrong.

    Args:
        rig: Whose store.
    """

    def __init__(self, rig: Rig) -> None:
        self._scripts = rig.store._scripts
        self.acquire = "send" if rig.unique.locks.one_step else "acquire"
        self._whole = dict(self._scripts)

    def away(self, operation: str) -> None:
        """The store is not reached."""

        def fail(**_: Any) -> Any:
            raise LockStoreUnavailable("away")

        self._scripts[operation] = fail  # type: ignore[assignment]

    def deaf(self, operation: str) -> None:
        """The store does what it is told, and its answer is lost."""
        whole = self._whole[operation]

        def do_and_fail(**call: Any) -> Any:
            whole(**call)
            raise LockStoreUnavailable("deaf")

        self._scripts[operation] = do_and_fail  # type: ignore[assignment]

    def stutters(self, operation: str, between: Callable[[], object] = lambda: None) -> None:
        """The answer is lost, and the driver asks again."""
        whole = self._whole[operation]

        def do_twice(**call: Any) -> Any:
            whole(**call)
            between()
            return whole(**call)

        self._scripts[operation] = do_twice  # type: ignore[assignment]

    def works(self) -> None:
        """All is well again."""
        self._scripts.update(self._whole)


@pytest.fixture
def wire(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """The way to the lock store of the rig; what is left to the backlog is tried every 20 ms."""
    monkeypatch.setattr(backlog, "_EVERY_S", 0.02)
    made = Wire(rig)
    yield made
    made.works()
    _all_is_made_good(rig)


in_two_steps = pytest.mark.parametrize("backend", ["stub-last", "own-redis-last"])
in_one_step = pytest.mark.parametrize("backend", ["redis-last", "redis-first"])


def _all_is_made_good(rig: Rig) -> None:
    """Wait until the backlog is empty, and its last entry is done."""
    backlog = rig.unique._on(rig.broker).parts.holding._backlog
    eventually(lambda: not backlog._pending)
    done = threading.Event()
    backlog.later(Pending("", done.set, float("inf")))
    assert done.wait(15)


def _cannot_store(monkeypatch: pytest.MonkeyPatch, send: Callable[[], object]) -> None:
    def fail(*_: object) -> bytes:
        raise ConnectionError("the broker is gone")

    with monkeypatch.context() as broken:
        broken.setattr(Message, "encode", fail)
        with pytest.raises(ConnectionError):
            send()


def test_a_lock_that_is_given_back_late_is_not_that_of_the_message_sent_again(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first enqueue cannot be stored, nor its lock given back; the second is stored; then the first is undone."""
    ran: list[int] = []
    actor = rig.actor(lambda: ran.append(1), actor_name="work", lock="until_executed")
    message = actor.message()
    wire.away("restore")
    _cannot_store(monkeypatch, lambda: rig.broker.enqueue(message))

    assert outcome(rig.broker.enqueue(message)).action == "enqueued"
    wire.works()
    _all_is_made_good(rig)

    assert rig.holders() == {message.message_id}
    assert outcome(actor.send()).action == "discarded"
    rig.drain()
    assert ran == [1]
    assert rig.lock_keys() == []


def test_a_lock_that_is_let_go_late_is_not_that_of_the_dead_letter_sent_again(rig: Rig, wire: Wire) -> None:
    """A job fails for good, and its lock cannot be let go; an operator sends the dead letter again."""
    fails = [True]
    ran: list[int] = []

    def work() -> None:
        if fails:
            raise RuntimeError
        ran.append(1)

    actor = rig.actor(work, lock="until_executed", max_retries=0)
    wire.away("finish")
    actor.send()
    rig.start()
    eventually(rig.dead_letters)
    [letter] = rig.dead_letters()
    fails.clear()

    rig.broker.enqueue(letter, delay=700)
    wire.works()
    _all_is_made_good(rig)

    assert rig.holders() == {letter.message_id}
    assert outcome(actor.send()).action == "discarded"
    rig.drain()
    assert ran == [1]
    assert rig.lock_keys() == []


@in_two_steps
def test_a_lock_that_nobody_heard_of_is_given_back(rig: Rig, wire: Wire) -> None:
    """Each time, however long the call took: the enqueue is known by its token, not by a clock."""
    actor = rig.actor(lambda key: None, actor_name="work", lock="until_executed")
    for key in range(10):
        wire.deaf(wire.acquire)
        with pytest.raises(LockStoreUnavailable):
            actor.send(key)
        wire.works()
        _all_is_made_good(rig)
        assert rig.lock_keys() == []
    assert rig.waiting() == []


def test_a_lock_that_the_message_had_is_not_given_back(rig: Rig, wire: Wire) -> None:
    """It was sent before, and waits; the second send of the very same message was answered by nobody."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    message = actor.send()
    wire.deaf("acquire")
    with pytest.raises(LockStoreUnavailable):
        rig.broker.enqueue(message)
    wire.works()
    _all_is_made_good(rig)

    assert rig.holders() == {message.message_id}
    rig.drain()
    assert rig.lock_keys() == []


@pytest.mark.parametrize("first_runs", [False, True])
def test_a_second_send_of_a_message_that_fails_leaves_the_first_its_lock(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch, first_runs: bool
) -> None:
    """Whether it waits or runs, it lets go in the end as if there had been no second one."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
    message = actor.send()
    if first_runs:
        rig.start()
        gate.wait_for_arrival()

    _cannot_store(monkeypatch, lambda: rig.broker.enqueue(message))

    assert rig.holders() == {message.message_id}
    gate.open()
    rig.drain()
    assert rig.lock_keys() == []
    assert rig.told("lease_lost") == []
    assert len(rig.told("released")) == 1
    assert wire is not None


def test_a_replacement_whose_answer_was_lost_knows_whom_it_replaced(rig: Rig, wire: Wire) -> None:
    """The driver asks again, and hears the same: one of the two runs, and the replacement is told."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    first = actor.send(1)
    wire.stutters(wire.acquire)
    second = actor.send(2)
    wire.works()

    assert outcome(second).action == "replaced"
    assert outcome(second).holder_id == first.message_id
    assert [event.replaced_id for event in rig.told("replaced")] == [first.message_id]
    rig.drain()
    assert ran == [2]
    assert [event.message_id for event in rig.told("superseded")] == [first.message_id]
    assert rig.lock_keys() == []


@in_two_steps
def test_a_replacement_that_nobody_heard_of_gives_the_place_back(rig: Rig, wire: Wire) -> None:
    """Its sender has the error; the message that waited counts as before, and runs."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    first = actor.send(1)
    wire.deaf(wire.acquire)
    with pytest.raises(LockStoreUnavailable):
        actor.send(2)
    wire.works()
    _all_is_made_good(rig)

    assert rig.holders() == {first.message_id}
    assert rig.lock_keys("superseded") == []
    rig.drain()
    assert ran == [1]


@in_two_steps
def test_what_was_replaced_is_skipped_although_the_store_was_away_for_longer_than_the_lock(
    rig: Rig, wire: Wire
) -> None:
    """It is remembered for as long as a message may be in a queue, so it can be made good for as long."""
    ran: list[str] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed", on_conflict="replace", lock_args=[])
    wire.away("confirm")
    actor.send_with_options(args=("old",), lock_ttl=1)
    new = actor.send_with_options(args=("new",), lock_ttl=1)
    eventually(lambda: not rig.redis.exists(rig.store.key(outcome(new).digest or "", Kind.QUEUE)))
    time.sleep(0.5)  # By now it would have been given up.

    wire.works()

    rig.drain()
    assert ran == ["new"]
    assert rig.told("superseded")


@in_one_step
@pytest.mark.parametrize("on_conflict", ["log", "replace"])
def test_a_send_in_one_step_that_nobody_heard_of_is_a_message_with_its_lock(
    rig: Rig, wire: Wire, on_conflict: str
) -> None:
    """Its sender has an error, and may send again; lock and message are both there, and the job runs once."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed", on_conflict=on_conflict, lock_args=[])
    if on_conflict == "replace":
        actor.send(0)
    wire.deaf("send")
    with pytest.raises(LockStoreUnavailable):
        actor.send(1)
    wire.works()
    _all_is_made_good(rig)

    if on_conflict == "log":
        assert len(rig.holders()) == 1
        assert outcome(actor.send(2)).action == "discarded"
    rig.drain()
    assert ran[-1:] == [1]
    assert rig.lock_keys("queue") == []


@in_one_step
@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_and_while_executing"])
def test_a_send_in_one_step_that_is_asked_again_when_its_message_runs_changes_nothing(
    rig: Rig, wire: Wire, lock: str
) -> None:
    """The driver tries again after a while: what was let go stays so, and nobody takes the place of what runs."""
    gate = Gate()
    actor = rig.actor(lambda _: gate.arrive(), actor_name="work", lock=lock, on_conflict="replace", lock_args=[])
    rig.start()
    wire.stutters("send", between=gate.wait_for_arrival)
    first = actor.send(1)
    wire.works()

    second = actor.send(2)
    refused = lock == "until_executed"
    assert outcome(second).action == ("discarded" if refused else "enqueued")
    assert rig.holders() == {(first if refused else second).message_id}
    gate.open(2)
    rig.join()
    eventually(lambda: rig.lock_keys() == [])
    assert len(rig.told("superseded")) == 0


@in_one_step
def test_a_send_in_one_step_that_goes_on_without_an_answer_is_stored_once(rig: Rig, wire: Wire) -> None:
    """Twice in its queue, under one id, it would be fetched a second time without a body."""
    rig.use(UniqueMiddleware(rig.client, on_store_error="ignore"))
    unlocked = Wire(rig)
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed")
    unlocked.deaf(unlocked.acquire)
    actor.send(1)
    unlocked.away(unlocked.acquire)
    actor.send(2)
    unlocked.works()

    assert rig.redis.llen(f"dramatiq:{rig.queue}") == 2
    rig.drain()
    assert sorted(ran) == [1, 2]
    assert rig.lock_keys() == []
    assert wire is not None


def test_a_delivery_whose_start_was_answered_late_runs_once(rig: Rig, wire: Wire) -> None:
    """The driver asks again with the same token: the delivery has its locks, and is not in its own way."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_and_while_executing")
    actor.send(1)
    wire.stutters("begin")
    rig.drain()

    assert ran == [1]
    assert rig.told("rescheduled") == []
    assert rig.told("lease_lost") == []
    assert rig.lock_keys() == []


def test_a_job_that_sends_its_own_message_twice_keeps_its_lock_where_only_the_second_fails(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first copy waits under it; the end of this delivery is not the end of the message."""
    rig.broker.add_middleware(CurrentMessage())
    ran: list[int] = []
    gate = Gate()

    def work() -> None:
        ran.append(1)
        if len(ran) == 1:
            mine: Any = CurrentMessage.get_current_message()
            again = mine.copy()
            rig.broker.enqueue(again, delay=400)
            _cannot_store(monkeypatch, lambda: rig.broker.enqueue(again))
        gate.arrive()

    actor = rig.actor(work, lock="until_executed")
    message = actor.send()
    rig.start()
    gate.wait_for_arrival()
    gate.open()
    eventually(lambda: rig.pending() == 1)

    assert rig.holders() == {message.message_id}
    assert outcome(actor.send()).action == "discarded"
    gate.open()
    rig.drain()
    assert ran == [1, 1]
    assert rig.lock_keys() == []
    assert wire is not None


def test_a_slow_hook_of_what_is_made_good_costs_nobody_a_lease(rig: Rig, wire: Wire) -> None:
    """`after_unlock` runs where the lock is let go, in the background where that was done late."""
    slow, work = Gate(), Gate()
    ended = rig.actor(lambda: None, actor_name="ended", lock="until_executed", after_unlock=slow.arrive)
    runs = rig.actor(work.arrive, actor_name="runs", lock="while_executing", lock_ttl=1)
    wire.away("finish")
    ended.send()
    rig.start()
    eventually(lambda: rig.told("store_error"))
    wire.works()
    slow.wait_for_arrival()

    runs.send()
    work.wait_for_arrival()
    [key] = rig.lock_keys("run")
    since_ms = rig.now_ms()
    eventually(lambda: rig.now_ms() > since_ms + 1500)

    assert rig.redis.exists(key)
    assert rig.told("lease_lost") == []
    slow.open()
    work.open()
    rig.drain()
    assert rig.lock_keys() == []


def test_what_goes_wrong_once_a_message_is_stored_is_not_its_senders(
    rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is in the broker, and will run: an error would have it sent twice."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    actor.send(1)

    def fail(*_: object) -> None:
        raise RuntimeError("whatever it is")

    monkeypatch.setattr(type(rig.unique._on(rig.broker).parts.adapter), "withdraw", fail)
    assert outcome(actor.send(2)).action == "replaced"
    rig.drain()
    assert ran == [2]
    assert wire is not None
