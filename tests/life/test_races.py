"""Moments in which one thing has happened and the next has not: what a hostile reader found there."""

import threading
from typing import Any

import dramatiq
import pytest
from dramatiq import Message
from dramatiq.middleware import CurrentMessage, GroupCallbacks, Middleware, MiddlewareError
from dramatiq.rate_limits.backends import StubBackend

from dramatiq_unique import InvalidLockOptions, UniqueMiddleware, outcome
from tests.rig import Gate, RedisBench, Rig, Runs, eventually


class _LostError(MiddlewareError):
    pass


class _Refuses(Middleware):
    """Does not let one message be stored, once it was told to go on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def before_enqueue(self, broker: Any, message: Message[Any], delay: Any) -> None:
        if message.args[-1:] == (self.number,):
            self.reached.set()
            assert self.go_on.wait(15)
            raise _LostError


def _send_in_vain(actor: Any, *args: Any) -> threading.Thread:
    def send() -> None:
        with pytest.raises(_LostError):
            actor.send(*args)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_retry_is_not_merged_into_a_copy_that_is_not_stored_yet(rig: Rig) -> None:
    """The copy's store fails afterwards: the retry, which was accepted, still runs."""
    gate, runs = Gate(), Runs()

    def work(number: int) -> None:
        with runs.of(number):
            if len(runs.started) == 1:
                gate.arrive()
                raise RuntimeError("once")

    refuses = _Refuses(2)
    rig.broker.middleware.append(refuses)
    actor = rig.actor(work, lock="until_executing", lock_args=[])
    actor.send(1)
    rig.start()
    gate.wait_for_arrival()
    sender = _send_in_vain(actor, 2)
    assert refuses.reached.wait(15)
    gate.open()
    eventually(lambda: len(runs.ended) == 2)
    refuses.go_on.set()
    sender.join()
    rig.join()
    assert runs.ended == [1, 1]
    assert rig.told("merged") == []
    eventually(lambda: rig.lock_keys() == [])


@pytest.mark.parametrize("backend", ["stub-last", "own-redis-last"])  # In one step there is no such moment.
def test_a_message_is_not_skipped_for_a_replacement_that_is_not_stored_yet(rig: Rig) -> None:
    """It comes up meanwhile, is put back, and runs once the replacement's store has failed."""
    ran: list[int] = []
    refuses = _Refuses(2)
    rig.broker.middleware.append(refuses)
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    actor.send(1)
    sender = _send_in_vain(actor, 2)
    assert refuses.reached.wait(15)
    rig.start()
    eventually(lambda: rig.told("rescheduled"))
    refuses.go_on.set()
    sender.join()
    rig.join()
    assert ran == [1]
    assert rig.told("superseded") == []
    eventually(lambda: rig.lock_keys() == [])


def test_a_job_that_sends_its_own_message_again_keeps_its_lock(rig: Rig) -> None:
    """Its success is not the end of the message: a copy is refused until it is."""
    rig.broker.add_middleware(CurrentMessage())
    runs = Runs()

    def work() -> None:
        with runs.of():
            if len(runs.started) == 1:
                current: Any = CurrentMessage.get_current_message()
                rig.broker.enqueue(current, delay=400)

    actor = rig.actor(work, lock="until_executed")
    first = actor.send()
    rig.start()
    eventually(lambda: len(runs.ended) == 1)
    assert outcome(actor.send()).holder_id == first.message_id
    rig.join()
    assert len(runs.ended) == 2
    eventually(lambda: rig.lock_keys() == [])


def test_one_worker_that_stops_leaves_the_leases_of_another(rig: Rig) -> None:
    """Two workers of one process share the thread that keeps their locks."""
    rig.use(UniqueMiddleware(rig.client, lease=1))
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="while_executing")
    rig.start(threads=1)
    actor.send()
    gate.wait_for_arrival()
    rig.start(threads=1)
    rig.workers.pop().stop()
    before = _deadline(rig)
    eventually(lambda: _deadline(rig) > before + 1500)
    gate.open()
    rig.join()
    assert rig.told("lease_lost") == []


def test_rescheduling_at_enqueue_keeps_the_senders_delay(rig: Rig) -> None:
    """It comes back no sooner than it would have been due."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", on_conflict={"client": "reschedule"})
    actor.send()
    second = actor.send_with_options(delay=60_000)
    assert outcome(second).action == "rescheduled"
    [event] = rig.told("rescheduled")
    assert 55_000 < event.delay_ms <= 60_000


def test_a_replaced_child_counts_as_done_in_its_group(rig: Rig) -> None:
    """Whether it is taken out of the queue, or skipped when it comes up; and that is told."""
    rig.broker.add_middleware(GroupCallbacks(StubBackend()))
    done: list[int] = []
    callback = rig.actor(lambda: done.append(1), actor_name="callback")
    actor = rig.actor(
        lambda key, number: None, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=["key"]
    )
    group = dramatiq.group([actor.message(1, 1), actor.message(2, 1)], broker=rig.broker)
    group.add_completion_callback(callback.message())
    group.run()
    assert outcome(actor.send(1, 2)).action == "replaced"
    if isinstance(rig.bench, RedisBench):
        assert len(rig.told("superseded")) == 1
    rig.drain()
    assert done == [1]
    assert len(rig.told("superseded")) == 1


def test_a_group_callback_that_would_be_refused_loudly_is_dead_lettered(rig: Rig) -> None:
    """It is Dramatiq's own send, also where the refused child was sent by a program."""
    rig.broker.add_middleware(GroupCallbacks(StubBackend()))
    callback = rig.actor(lambda: None, actor_name="callback", lock="until_executed", on_conflict="raise")
    child = rig.actor(lambda: None, actor_name="child", lock="until_executed")
    callback.send()
    child.send()
    group = dramatiq.group([child.message()], broker=rig.broker)
    group.add_completion_callback(callback.message())
    group.run()
    assert [letter.actor_name for letter in rig.dead_letters()] == ["callback"]


@pytest.mark.parametrize("backend", ["redis-last"])  # The others refuse a queue that was not declared.
def test_a_first_message_of_a_producer_that_declares_nothing_goes_in(rig: Rig) -> None:
    """The middleware meets the broker inside of its enqueue; the next one is refused quietly."""
    bare: Any = type(rig.broker)
    broker = bare(client=rig.client)
    broker.add_middleware(UniqueMiddleware(rig.client, lock="until_executed"))
    sent = [broker.enqueue(Message(rig.queue, "work", (1,), {}, {})) for _ in range(3)]
    assert [outcome(message).action for message in sent] == ["enqueued", "enqueued", "discarded"]


def test_a_message_of_an_unknown_actor_is_rejected_whatever_the_defaults_are(rig: Rig) -> None:
    """A default that names a method fits no actor that is not known; its nack lets go all the same."""
    actor = rig.actor(lambda: None, actor_name="gone", lock="until_executed")
    actor.send()
    del rig.broker.actors["gone"]
    rig.use(UniqueMiddleware(rig.client, lock_args_method="key"))
    rig.start()
    eventually(lambda: len(rig.dead_letters()) == 1)
    eventually(lambda: rig.lock_keys() == [])


def test_two_of_them_on_one_broker_are_refused(rig: Rig) -> None:
    """Each would take the other's locks for conflicts."""
    second = UniqueMiddleware(rig.client)
    rig.broker.add_middleware(second)
    with pytest.raises(InvalidLockOptions, match="another one on this broker"):
        rig.actor(lambda: None, actor_name="work")


@pytest.mark.parametrize("address", ["localhost:6379", "http://localhost"])
def test_a_wrong_address_in_the_environment_is_told_at_declaration(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Nothing goes on unlocked for it."""
    monkeypatch.setenv("DRAMATIQ_UNIQUE_URL", address)
    rig.broker.middleware = [m for m in rig.broker.middleware if m is not rig.unique]
    rig.broker.add_middleware(UniqueMiddleware())
    with pytest.raises(InvalidLockOptions, match="DRAMATIQ_UNIQUE_URL is no address") as raised:
        rig.actor(lambda: None, actor_name="work")
    assert address not in str(raised.value)


def test_a_message_put_back_into_a_newer_copy_is_told_once(rig: Rig) -> None:
    """What became of it is merged, and not rescheduled besides."""
    gate, runs = Gate(), Runs()

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    actor = rig.actor(work, lock="until_and_while_executing", lock_args=[])
    actor.send(1)
    rig.start(threads=2)
    gate.wait_for_arrival()
    blocker = rig.actor(gate.arrive, actor_name="blocker")
    blocker.send()
    gate.wait_for_arrival()  # Both threads are busy: what is sent now waits in the queue.
    second = actor.send(2)
    [key] = rig.lock_keys("queue")
    rig.redis.delete(key)
    third = actor.send(3)
    gate.open(1)
    eventually(lambda: rig.told("merged") or len(runs.ended) == 1)
    gate.open(4)
    rig.join()
    for message in (second, third):
        ends = [e.name for e in rig.events if e.message_id == message.message_id and e.name in ("merged", "refused")]
        assert len(ends) <= 1
    merged = {event.message_id for event in rig.told("merged")}
    assert {2, 3} - set(runs.ended) == {m.args[0] for m in (second, third) if m.message_id in merged}


def _deadline(rig: Rig) -> int:
    [key] = rig.lock_keys("run")
    [raw] = [value for field, value in rig.redis.hgetall(key).items() if field.startswith(b"o:")]
    return int(raw.split()[2])


def test_a_delivery_that_ends_late_keeps_the_queue_lock_for_the_second(rig: Rig) -> None:
    """C33 under until_executed: the first delivery stalled, and the second, which runs yet, keeps copies out."""
    first, second = Gate(), Gate()
    gates = iter([first, second])
    actor = rig.actor(lambda: next(gates).arrive(), actor_name="work", lock="until_executed")
    message = actor.send()
    body = rig.waiting()[0]
    rig.start()
    first.wait_for_arrival()
    rig.deliver_again(body)
    second.wait_for_arrival()
    first.open()
    eventually(lambda: rig.pending() <= 1)
    assert rig.told("released") == []
    assert outcome(actor.send()).holder_id == message.message_id
    second.open()
    eventually(lambda: len(rig.told("released")) == 1)
    assert rig.lock_keys() == []


def test_a_lock_that_was_taken_while_the_answer_was_lost_is_kept_in_full(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that tries again finds the message's own lock; the message is new all the same."""
    acquire = rig.store._scripts["acquire"]

    def twice(**call: Any) -> Any:
        acquire(**call)
        return acquire(**call)

    monkeypatch.setitem(rig.store._scripts, "acquire", twice)
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", lock_ttl=600)
    actor.send()
    [key] = rig.lock_keys("queue")
    assert rig.redis.pttl(key) > 500_000
    refuses = _Refuses(2)
    refuses.go_on.set()
    rig.broker.middleware.append(refuses)
    with pytest.raises(_LostError):
        actor.send(2)
    assert rig.lock_keys("queue") == [key]
