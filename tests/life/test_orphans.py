"""Locks whose message is gone, and messages that are dropped."""

from typing import Any

import pytest
from dramatiq import Broker, Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import dq_name
from dramatiq.middleware import Middleware, MiddlewareError

from dramatiq_unique import outcome
from tests.rig import Gate, Rig, Runs, StubBench, eventually


LONG_AGO_MS = 10_000


@pytest.fixture
def backend() -> str:
    """Only the Redis broker can say whether a message exists."""
    return "redis-last"


@pytest.fixture(params=["stub-last", "redis-last", "rabbitmq-last"])
def any_backend(request: pytest.FixtureRequest) -> str:
    """All of them, for what every broker does."""
    name: str = request.param
    return name


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_and_while_executing"])
def test_a_lock_whose_message_is_gone_is_taken_over_by_the_next_send(rig: Rig, lock: str) -> None:
    """The broker lost its messages (or its producer died before it stored one): one HEXISTS, and the lock is free."""
    actor = rig.actor(lambda: None, actor_name="work", lock=lock)
    first = actor.send()
    rig.lose_messages()
    rig.not_seen_for(LONG_AGO_MS)

    second = actor.send()

    assert outcome(second).action == "enqueued"
    assert [event.holder_id for event in rig.told("reclaimed")] == [first.message_id]
    assert rig.holders() == {second.message_id}
    rig.drain()
    assert rig.lock_keys() == []


def test_a_holder_that_was_seen_a_moment_ago_is_believed(rig: Rig) -> None:
    """Its message may be on its way into the broker."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    actor.send()
    rig.lose_messages()
    assert outcome(actor.send()).action == "discarded"


def test_a_message_that_exists_keeps_its_lock_and_is_not_asked_after_again_for_a_while(rig: Rig) -> None:
    """A queue may be long: what waits in it is no orphan."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    first = actor.send()
    rig.not_seen_for(LONG_AGO_MS)
    assert outcome(actor.send()).holder_id == first.message_id
    asked = _calls(rig, "hexists")
    assert outcome(actor.send()).holder_id == first.message_id
    after_itself = int(rig.unique.locks.one_step)  # A send in one step looks whether it was stored before.
    assert _calls(rig, "hexists") == asked + after_itself
    rig.drain()


def test_a_message_that_runs_keeps_its_lock(rig: Rig) -> None:
    """Its body stays in the broker until it is acknowledged."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
    first = actor.send()
    rig.start()
    gate.wait_for_arrival()
    rig.not_seen_for(LONG_AGO_MS)
    assert outcome(actor.send()).holder_id == first.message_id
    gate.open()
    rig.join()


def test_a_delayed_message_keeps_its_lock(rig: Rig) -> None:
    """The place that is asked at moves with the message, from queue to queue."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    first = actor.send_with_options(delay=60_000)
    rig.not_seen_for(LONG_AGO_MS)
    assert outcome(actor.send()).holder_id == first.message_id


def test_a_window_outlives_its_message(rig: Rig) -> None:
    """The holder of ``until_expired`` is long gone when somebody meets its lock; that is what it is for."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_expired", lock_ttl=600)
    actor.send()
    replacing = rig.actor(lambda: None, actor_name="other", lock="until_expired", lock_ttl=600, on_conflict="replace")
    replacing.send()
    rig.drain()
    rig.not_seen_for(LONG_AGO_MS)
    assert outcome(actor.send()).action == "discarded"
    assert outcome(replacing.send()).action == "discarded"


def test_every_holder_of_a_lock_with_a_limit_is_asked_after_in_turn(rig: Rig) -> None:
    """One that exists does not hide one that is gone."""
    actor = rig.actor(lambda _: None, actor_name="work", lock="until_executed", lock_limit=2, lock_args=[])
    kept = actor.send(1)
    lost = actor.send(2)
    client: Any = rig.client
    client.hdel("dramatiq:default.msgs", lost.options["redis_message_id"])
    client.lrem("dramatiq:default", 1, lost.options["redis_message_id"])
    rig.not_seen_for(LONG_AGO_MS)
    actions = [outcome(actor.send(number)).action for number in (3, 4)]
    assert "enqueued" in actions
    assert rig.holders() >= {kept.message_id}
    assert lost.message_id not in rig.holders()
    rig.drain()


def test_two_who_take_over_at_once_leave_one_lock(rig: Rig) -> None:
    """The holder is compared before it is dropped: whoever comes second finds the first."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    actor.send()
    rig.lose_messages()
    rig.not_seen_for(LONG_AGO_MS)
    actions = [outcome(actor.send()).action for _ in range(3)]
    assert actions == ["enqueued", "discarded", "discarded"]


def test_a_worker_takes_over_too(rig: Rig) -> None:
    """A message from elsewhere meets the lock of one that is gone, and runs."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed")
    lost = actor.send(1)
    rig.lose_messages()
    rig.not_seen_for(LONG_AGO_MS)
    RedisBroker(client=rig.client).enqueue(actor.message(1))
    rig.drain()
    assert ran == [1]
    assert [event.holder_id for event in rig.told("reclaimed")] == [lost.message_id]
    assert rig.lock_keys() == []


class FlushesAndFails(Middleware):
    """Has a queue flushed between a message's lock and its storing, and the storing fail."""

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: float | None) -> None:
        """Flush, and fail."""
        broker.flush(message.queue_name)
        raise MiddlewareError("not stored")


class TestFlushing:
    """C24: what is dropped from a queue holds nothing any more."""

    @pytest.fixture
    def backend(self, any_backend: str) -> str:
        """Every broker can be flushed."""
        return any_backend

    @pytest.mark.parametrize("everything", [False, True], ids=["flush", "flush_all"])
    @pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_expired"])
    def test_the_same_keys_can_be_sent_again(self, rig: Rig, lock: str, everything: bool) -> None:
        """Waiting and delayed messages alike."""
        actor = rig.actor(lambda _: None, actor_name="work", lock=lock, lock_ttl=600)
        actor.send(1)
        actor.send_with_options(args=(2,), delay=60_000)
        if everything:
            rig.broker.flush_all()
        else:
            rig.broker.flush(rig.queue)
            if isinstance(rig.bench, StubBench):  # The others take the delay queue with it.
                rig.broker.flush(dq_name(rig.queue))
        assert rig.lock_keys() == []
        assert [outcome(actor.send(number)).action for number in (1, 2)] == ["enqueued"] * 2

    def test_what_cannot_be_decoded_is_passed_over(self, rig: Rig) -> None:
        """Anybody may have put it there; what is behind it holds nothing any more all the same."""
        actor = rig.actor(lambda _: None, actor_name="work", lock="until_executed")
        actor.send(1)
        rig.put(b"no message")
        actor.send(2)
        rig.broker.flush(rig.queue)
        assert rig.lock_keys() == []

    def test_nobody_gives_a_lock_back_to_what_was_dropped(self, rig: Rig) -> None:
        """Its place was taken by a message that then could not be stored."""
        actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", on_conflict="replace")
        actor.send()
        rig.broker.add_middleware(FlushesAndFails())
        with pytest.raises(MiddlewareError):
            actor.send()
        assert rig.lock_keys() == []

    def test_what_runs_keeps_its_lock(self, rig: Rig) -> None:
        """It was taken from the queue before."""
        gate = Gate()
        actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
        first = actor.send()
        rig.start()
        gate.wait_for_arrival()
        rig.broker.flush(rig.queue)
        assert rig.holders() == {first.message_id}
        gate.open()
        eventually(lambda: rig.lock_keys() == [])


class TestRedelivery:
    """A message that is delivered again while its first delivery may be running yet."""

    @pytest.fixture
    def backend(self, any_backend: str) -> str:
        """Delivered again by hand."""
        return any_backend

    @pytest.mark.parametrize("strategy", [None, "log", "reject", "raise"])
    @pytest.mark.parametrize("lock", ["while_executing", "until_and_while_executing"])
    def test_it_waits_its_turn_whatever_its_strategy(self, rig: Rig, lock: str, strategy: str | None) -> None:
        """Put back, its retries untouched, and never dropped."""
        gate, runs = Gate(), Runs()

        def work() -> None:
            with runs.of():
                gate.arrive()

        actor = rig.actor(work, lock=lock, on_conflict={"server": strategy}, lock_ttl=1)
        first = actor.send()
        body = rig.waiting()[0]
        rig.start()
        gate.wait_for_arrival()
        rig.deliver_again(body)
        eventually(lambda: rig.told("rescheduled"))
        [event] = {(event.message_id, event.strategy) for event in rig.told("rescheduled")}
        assert event == (first.message_id, "redelivery")
        gate.open(2)
        eventually(lambda: len(runs.ended) == 2)
        rig.join()
        assert runs.most_at_once == 1
        assert rig.dead_letters() == []
        eventually(lambda: rig.lock_keys() == [])

    def test_its_queue_lock_lets_it_in(self, rig: Rig) -> None:
        """Under until_executed it is the owner, and a copy is not; only a run lock keeps two deliveries apart."""
        gate = Gate()
        actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
        first = actor.send()
        body = rig.waiting()[0]
        rig.start()
        gate.wait_for_arrival()
        rig.deliver_again(body)
        gate.wait_for_arrival()
        assert outcome(actor.send()).holder_id == first.message_id
        gate.open(2)
        eventually(lambda: rig.lock_keys() == [])
        assert rig.told("rescheduled") == rig.told("lapsed") == []

    @pytest.mark.parametrize("lock", ["until_executed", "while_executing", "until_and_while_executing"])
    def test_a_first_delivery_that_ends_late_frees_nothing_of_the_second(self, rig: Rig, lock: str) -> None:
        """C33: its lease lapsed and the job was started again elsewhere; what it lets go of is not the second's."""
        gate = Gate()
        ended: list[str] = []

        class Looks(Middleware):
            def after_ack(self, broker: Any, message: Any) -> None:
                ended.append(message.message_id)

        rig.broker.add_middleware(Looks())
        actor = rig.actor(gate.arrive, actor_name="work", lock=lock)
        first = actor.send()
        body = rig.waiting()[0]
        rig.start()
        gate.wait_for_arrival()
        for key in rig.lock_keys():
            rig.redis.delete(key)  # As a lease does that nobody renewed in time.
        rig.deliver_again(body)
        gate.wait_for_arrival()
        kind = "queue" if lock == "until_executed" else "run"
        assert rig.holders(kind) == {first.message_id}

        gate.open()
        eventually(lambda: ended == [first.message_id])
        assert rig.holders(kind) == {first.message_id}
        gate.open()
        eventually(lambda: rig.lock_keys() == [])


def _calls(rig: Rig, command: str) -> int:
    return int(rig.redis.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])
