"""Failure, retries, and the end without success."""

import threading
from typing import Any

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.middleware import Middleware

from dramatiq_unique import DuplicateMessage, outcome
from tests.rig import Gate, Rig, Runs, eventually


def test_until_executed_keeps_its_lock_while_a_retry_is_due(rig: Rig) -> None:
    """C06: copies are refused while the retry waits, its own retries are accepted, and the dead letter frees."""
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        raise RuntimeError("always")

    actor = rig.actor(work, lock="until_executed", max_retries=3, min_backoff=300, max_backoff=300)
    first = actor.send()
    rig.start()
    eventually(lambda: len(attempts) == 1)

    copies = [actor.send() for _ in range(10)]

    assert {outcome(copy).holder_id for copy in copies} == {first.message_id}
    rig.join()
    eventually(lambda: rig.lock_keys() == [])
    assert len(attempts) == 4
    assert [letter.message_id for letter in rig.dead_letters()] == [first.message_id]
    assert outcome(actor.send()).action == "enqueued"


def test_a_replacement_takes_the_place_of_a_waiting_retry(rig: Rig) -> None:
    """C07: exactly one message waits, with the newer payload."""
    runs = Runs()

    def work(key: str, payload: str) -> None:
        with runs.of(payload):
            if payload == "old":
                raise RuntimeError("old")

    actor = rig.actor(
        work,
        lock="until_executing",
        on_conflict="replace",
        lock_args=["key"],
        min_backoff=400,
        max_backoff=400,
        max_retries=5,
    )
    actor.send("k", "old")
    rig.start()
    eventually(lambda: runs.ended == ["old"] and rig.holders())

    newer = actor.send("k", "new")

    assert outcome(newer).action == "replaced"
    rig.join()
    assert runs.ended == ["old", "new"]
    eventually(lambda: rig.lock_keys() == [])


def test_a_retry_is_merged_into_the_newer_copy_that_waits(rig: Rig) -> None:
    """A copy sent during the run does the work of the retry: one line, one event, one run more."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()
            if len(runs.started) == 1:
                raise RuntimeError("first")

    actor = rig.actor(work, lock="until_executing", max_retries=5)
    first = actor.send()
    rig.start(threads=1)
    gate.wait_for_arrival()
    second = actor.send()
    gate.open(2)
    rig.join()

    assert len(runs.ended) == 2
    [merged] = rig.told("merged")
    assert (merged.message_id, merged.holder_id) == (first.message_id, second.message_id)
    assert rig.dead_letters() == []
    eventually(lambda: rig.lock_keys() == [])


@pytest.mark.parametrize(("strategy", "dead"), [("reject", 1), ("raise", 1), ("reschedule", 0)])
def test_a_retry_that_meets_a_newer_copy_goes_where_its_owner_said(rig: Rig, strategy: str, dead: int) -> None:
    """``reject`` and ``reschedule`` do as they say; what nobody could catch is dead-lettered."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()
            if len(runs.started) == 1:
                raise RuntimeError("first")

    actor = rig.actor(work, lock="until_executing", max_retries=5, on_conflict={"client": strategy})
    first = actor.send()
    rig.start(threads=1)
    gate.wait_for_arrival()
    actor.send()
    gate.open(3)
    rig.join()
    assert [letter.message_id for letter in rig.dead_letters()] == [first.message_id] * dead
    assert len(runs.ended) == 3 - dead
    assert rig.told("merged") == []


@pytest.mark.parametrize("lock", ["until_executed", "while_executing", "until_and_while_executing"])
def test_a_failure_without_retries_frees_everything(rig: Rig, lock: str) -> None:
    """C08: after the dead letter the next copy runs."""
    runs = Runs()

    def work() -> None:
        with runs.of():
            raise RuntimeError("once and for all")

    actor = rig.actor(work, lock=lock, max_retries=0)
    actor.send()
    rig.drain()
    assert rig.lock_keys() == []
    assert outcome(actor.send()).action == "enqueued"
    rig.drain()
    assert len(runs.ended) == 2


def test_the_end_of_a_message_frees_only_its_own_hold(rig: Rig) -> None:
    """C09: its lock had lapsed and another holds the key by now; the dead letter leaves the other's alone."""
    gate = Gate()

    def work() -> None:
        gate.arrive()
        raise RuntimeError("at last")

    actor = rig.actor(work, lock="until_executed", max_retries=0)
    first = actor.send()
    rig.start(threads=1)
    gate.wait_for_arrival()
    [key] = rig.lock_keys("queue")
    rig.client.delete(key)
    second = actor.send()
    assert outcome(second).action == "enqueued"
    gate.open()
    eventually(lambda: [letter.message_id for letter in rig.dead_letters()] == [first.message_id])
    gate.wait_for_arrival()
    assert rig.holders() == {second.message_id}
    gate.open()
    rig.join()


def test_a_message_never_conflicts_with_itself(rig: Rig) -> None:
    """C10: with ``raise`` on the server, 200 messages fail once and are retried at once, in eight threads."""
    lock, failed, done = threading.Lock(), set(), []

    def work(number: int) -> None:
        with lock:
            first = number not in failed
            failed.add(number)
        if first:
            raise RuntimeError("once")
        done.append(number)

    actor = rig.actor(
        work,
        lock="until_and_while_executing",
        on_conflict={"server": "raise"},
        max_retries=1,
        min_backoff=1,
        max_backoff=1,
    )
    for number in range(200):
        actor.send(number)
    rig.start(threads=8)
    eventually(lambda: len(done) >= 200, 40)
    rig.drain()
    assert sorted(done) == list(range(200))
    assert rig.told("refused") == []
    assert rig.dead_letters() == []
    assert rig.lock_keys() == []


@pytest.mark.parametrize("lock", ["until_executed", "until_and_while_executing", "while_executing"])
def test_throws_is_the_end_of_a_message(rig: Rig, lock: str) -> None:
    """An exception that is not retried frees everything."""

    def work() -> None:
        raise KeyError("expected")

    actor = rig.actor(work, lock=lock, throws=KeyError)
    actor.send()
    rig.drain()
    assert len(rig.dead_letters()) == 1
    assert rig.lock_keys() == []


def test_a_message_failed_without_an_exception_is_freed_at_its_nack(rig: Rig) -> None:
    """``message.fail()`` looks like a success to the hooks, and is the end of the message all the same."""

    class Fails(Middleware):
        def after_process_message(
            self, broker: Any, message: Any, *, result: Any = None, exception: Any = None
        ) -> None:
            message.fail()

    rig.broker.add_middleware(Fails())
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    actor.send()
    rig.drain()
    assert len(rig.dead_letters()) == 1
    assert rig.lock_keys() == []


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_and_while_executing"])
def test_a_message_skipped_by_an_earlier_middleware_is_freed(rig: Rig, lock: str, fails: bool) -> None:
    """C27: an age limit or an abort skips it before our hook; its lock goes, and only its own."""

    class Skips(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            if message.args == ("skip",):
                if fails:
                    message.fail()
                raise dramatiq.middleware.SkipMessage("not today")

    rig.broker.middleware.insert(0, Skips())
    ran: list[str] = []
    actor = rig.actor(ran.append, actor_name="work", lock=lock)
    actor.send("skip")
    actor.send("run")
    rig.drain()
    assert ran == ["run"]
    assert len(rig.dead_letters()) == int(fails)
    assert rig.lock_keys() == []


def test_a_skip_frees_only_the_message_that_was_skipped(rig: Rig) -> None:
    """C27: the lock that another message holds by now stays."""

    class Skips(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            if message.message_id == first.message_id:
                raise dramatiq.middleware.SkipMessage("not today")

    rig.broker.middleware.insert(0, Skips())
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
    first = actor.send()
    [key] = rig.lock_keys("queue")
    rig.client.delete(key)
    second = actor.send()
    rig.start(threads=1)
    gate.wait_for_arrival()
    assert rig.holders() == {second.message_id}
    gate.open()
    rig.join()


def test_a_middleware_that_puts_a_message_back_and_skips_it_does_not_end_it(rig: Rig) -> None:
    """Enqueued again by another before our hook ran: the ack is not its end, and its lock stays."""
    deferred: list[str] = []

    class Defers(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            if not deferred:
                deferred.append(message.message_id)
                broker.enqueue(message, delay=200)
                raise dramatiq.middleware.SkipMessage("later")

    rig.broker.middleware.insert(0, Defers())
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    first = actor.send()
    rig.start()
    eventually(lambda: deferred)
    copy = actor.send()
    assert outcome(copy).holder_id == first.message_id
    rig.join()
    eventually(lambda: rig.lock_keys() == [])


def test_a_delivery_that_is_over_before_its_send_returns_is_the_end_of_its_message(rig: Rig) -> None:
    """A worker may be faster than the sender: the enqueue that brought a message is not one that sends it again."""
    arrived, go_on = threading.Event(), threading.Event()

    class Skips(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            arrived.set()
            assert go_on.wait(10)
            raise dramatiq.middleware.SkipMessage("not today")

    class Lingers(Middleware):
        def after_enqueue(self, broker: Any, message: Any, delay: Any) -> None:
            assert arrived.wait(10)

    rig.broker.middleware.append(Skips())
    rig.broker.middleware.append(Lingers())
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    rig.start()
    actor.send()
    go_on.set()
    eventually(lambda: rig.lock_keys() == [])


def test_an_unknown_actor_is_the_end_of_a_message(rig: Rig) -> None:
    """A nack from a consumer thread is all that Dramatiq tells; the ticket is enough to let go."""
    actor = rig.actor(lambda: None, actor_name="gone", lock="until_executed")
    actor.send()
    assert rig.holders()
    del rig.broker.actors["gone"]
    rig.start()
    eventually(rig.dead_letters)
    eventually(lambda: rig.lock_keys() == [])
    rig.stop()


def test_a_job_may_send_its_own_message_again(rig: Rig) -> None:
    """Never a conflict with itself: it keeps its lock through the ack of the delivery that sent it."""
    runs: list[Message[Any]] = []

    class Remembers(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            current.append(message)

    current: list[Any] = []
    rig.broker.add_middleware(Remembers())

    def work() -> None:
        runs.append(current[-1])
        if len(runs) == 1:
            rig.broker.enqueue(current[-1], delay=150)

    actor = rig.actor(work, lock="until_executed", on_conflict={"client": "raise"})
    first = actor.send()
    rig.drain()
    assert [message.message_id for message in runs] == [first.message_id] * 2
    assert rig.lock_keys() == []


def test_a_caller_who_sends_a_message_again_from_outside_is_no_duplicate_of_it(rig: Rig) -> None:
    """The same ``message_id`` never conflicts with itself, wherever it is sent from."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed", on_conflict="raise")
    message = actor.send(1)
    rig.broker.enqueue(message)
    rig.drain(threads=1)
    assert ran == [1, 1]
    with pytest.raises(DuplicateMessage):
        [actor.send(2) for _ in range(2)]
    rig.drain()


@pytest.mark.parametrize("lock", ["until_executed", "while_executing", "until_and_while_executing"])
@pytest.mark.parametrize("who", ["the actor", "a later middleware"])
def test_a_message_that_is_skipped_after_it_took_its_locks_lets_them_go_at_once(rig: Rig, lock: str, who: str) -> None:
    """``SkipMessage`` out of a body, or after our hook, is as good as an end: nothing is kept until the ack."""
    held: list[list[str]] = []

    class Skips(Middleware):
        def before_process_message(self, broker: Any, message: Any) -> None:
            if who == "a later middleware":
                raise dramatiq.middleware.SkipMessage("not today")

    class Looks(Middleware):
        def after_skip_message(self, broker: Any, message: Any) -> None:
            held.append(rig.lock_keys())

    def work() -> None:
        raise dramatiq.middleware.SkipMessage("nothing to do")

    rig.broker.middleware.append(Skips())
    rig.broker.middleware.insert(0, Looks())
    rig.actor(work, lock=lock).send()
    rig.drain()
    assert held == [[]]
    assert [event.message_id for event in rig.told("released")]
