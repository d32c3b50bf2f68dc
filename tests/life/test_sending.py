"""Sends that go wrong, sends from elsewhere, and sends at once."""

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Middleware, MiddlewareError
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_unique import InvalidLockOptions, LockStoreUnavailable, UniqueMiddleware, outcome
from tests.rig import Gate, RabbitmqBench, RedisBench, Rig, Runs, StubBench, eventually


LOCKED = ["until_executing", "until_executed", "until_expired", "until_and_while_executing"]


class _RefusedByAnother(MiddlewareError):
    pass


@pytest.mark.parametrize("lock", LOCKED)
def test_a_later_middleware_that_raises_gives_the_lock_back(rig: Rig, lock: str) -> None:
    """C25: the error is the caller's, and nothing is locked."""

    class Raises(Middleware):
        def before_enqueue(self, broker: Any, message: Any, delay: Any) -> None:
            raise _RefusedByAnother("no")

    actor = rig.actor(lambda: None, actor_name="work", lock=lock, lock_ttl=60)
    rig.broker.add_middleware(Raises())
    with pytest.raises(_RefusedByAnother):
        actor.send()
    assert rig.lock_keys() == []
    assert rig.waiting() == []


@pytest.mark.parametrize("lock", LOCKED)
def test_an_argument_that_cannot_be_encoded_leaves_no_lock(rig: Rig, lock: str) -> None:
    """C25: what counts could be locked, the message could not be stored."""
    actor = rig.actor(lambda key, blob: None, actor_name="work", lock=lock, lock_ttl=60, lock_args=["key"])
    with pytest.raises(TypeError, match="not JSON serializable"):
        actor.send(1, object())
    assert rig.lock_keys() == []
    assert rig.waiting() == []


def test_an_argument_without_a_canonical_form_is_refused(rig: Rig) -> None:
    """A clear error to the sender, nothing enqueued, no lock left."""
    actor = rig.actor(lambda key, blob: None, actor_name="work", lock="until_executed")
    with pytest.raises(InvalidLockOptions, match=r"actor 'work'.*'blob' \(object\).*lock_args"):
        actor.send(1, object())
    assert rig.lock_keys() == []
    assert rig.waiting() == []


@pytest.mark.parametrize("key", [lambda *_: None, lambda *_: 1 / 0], ids=["none", "raises"])
def test_a_key_function_that_fails_is_never_one_key_for_all(rig: Rig, key: Any) -> None:
    """An error to the sender that names it, nothing enqueued, no lock left."""
    actor = rig.actor(lambda number: None, actor_name="work", lock="until_executed", lock_args_method=key)
    with pytest.raises(InvalidLockOptions, match="lock_args_method '<lambda>'"):
        actor.send(1)
    assert rig.lock_keys() == []
    assert rig.waiting() == []


def test_a_store_that_fails_gives_the_lock_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """C25: the broker's connection fails where the message is stored."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    monkeypatch.setattr(Message, "encode", _fail)
    with pytest.raises(ConnectionError):
        actor.send()
    monkeypatch.undo()
    assert rig.lock_keys() == []
    assert outcome(actor.send()).action == "enqueued"
    rig.drain()


def test_a_replacement_that_was_not_stored_leaves_the_replaced_message_as_it_was(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message that waited still counts, and runs."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    first = actor.send(1)
    monkeypatch.setattr(Message, "encode", _fail)
    with pytest.raises(ConnectionError):
        actor.send(2)
    monkeypatch.undo()
    assert rig.holders() == {first.message_id}
    assert rig.lock_keys("superseded") == []
    rig.drain()
    assert ran == [1]


def test_a_lost_script_cache_is_nobodys_problem(rig: Rig) -> None:
    """C22: ``SCRIPT FLUSH`` between any two calls."""
    actor = rig.actor(rig.redis.script_flush, actor_name="work", lock="until_and_while_executing")
    actor.send()
    rig.redis.script_flush()
    assert outcome(actor.send()).action == "discarded"
    rig.redis.script_flush()
    rig.drain()
    assert rig.lock_keys() == []
    assert len(rig.told("released")) == 2


@pytest.mark.parametrize("lock", [*LOCKED, "while_executing"])
def test_a_message_from_a_producer_without_the_middleware_runs(rig: Rig, lock: str) -> None:
    """C23: the worker settles what the producer did not; nothing is left behind."""
    runs = Runs()

    def work(number: int) -> None:
        with runs.of(number):
            if runs.started.count(number) == 1:
                raise RuntimeError("once")

    actor = rig.actor(work, lock=lock, lock_ttl=60)
    _send_from_elsewhere(rig, actor.message(7))
    assert rig.lock_keys() == []
    rig.drain()
    assert runs.ended == [7, 7]
    assert rig.dead_letters() == []
    assert len(rig.lock_keys()) == (1 if lock == "until_expired" else 0)


def test_a_message_from_elsewhere_waits_for_the_one_that_holds_its_lock(rig: Rig) -> None:
    """Somebody else's lock at the start is a conflict on the server side: rescheduled, then run."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="until_executed")
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    _send_from_elsewhere(rig, actor.message())
    eventually(lambda: rig.told("rescheduled"))
    gate.open(2)
    rig.join()
    assert len(runs.ended) == 2
    assert runs.most_at_once == 1


def test_a_deploy_that_changes_the_lock_releases_what_was_taken(rig: Rig) -> None:
    """The digest and the lock type travel with the message."""
    rig.actor(lambda number: None, actor_name="work", lock="until_executed").send(1)
    del rig.broker.actors["work"]
    rig.actor(lambda number: None, actor_name="work", lock="while_executing", unique_across_queues=True)
    rig.drain()
    assert rig.lock_keys() == []


def test_a_lock_type_that_a_worker_does_not_know_is_let_go_at_the_end(rig: Rig) -> None:
    """A ticket of another version neither fails the message nor leaks its lock."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed")
    message = actor.message(1)
    strange = {"message_id": message.message_id, "digest": "d" * 40, "lock": "until_tomorrow", "held": True}
    rig.broker.enqueue(message.copy(options={"dramatiq_unique": strange}))
    rig.drain()
    assert ran == [1]
    assert rig.lock_keys() == []


def test_a_copy_under_another_id_starts_afresh(rig: Rig) -> None:
    """The ticket of one message is nothing to another."""
    actor = rig.actor(lambda number: None, actor_name="work", lock="until_executed")
    first = actor.send(1)
    copy = first.copy(message_id="another", args=(2,))
    assert outcome(copy) == outcome(actor.message(9))
    assert outcome(rig.broker.enqueue(copy)).action == "enqueued"
    assert rig.holders() == {first.message_id, "another"}
    rig.drain()


def test_what_was_passed_to_enqueue_is_left_as_it_was(rig: Rig) -> None:
    """The ticket is on what comes back, so a message may be used again."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    message = actor.message()
    sent = rig.broker.enqueue(message)
    assert message.options == {}
    assert outcome(sent).digest is not None
    rig.drain()


def _on_a_real_redis(rig: Rig, client: "redis.Redis") -> None:
    """Put the locks of a Stub broker there: in fakeredis a busy machine was seen to mix two scripts.

    Twice, each time with the machine busy, and never on a Redis.
    """
    if isinstance(rig.bench, StubBench):
        rig.use(UniqueMiddleware(client, lease=5))
        rig.client = rig.redis = client


def test_many_senders_at_once_send_one_message(rig: Rig, redis_client: "redis.Redis") -> None:
    """C26: 50 sends of one key from eight threads: one message, one run."""
    _on_a_real_redis(rig, redis_client)
    runs = Runs()

    def work() -> None:
        with runs.of():
            pass

    actor = rig.actor(work, lock="until_executed")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda _: actor.send(), range(50)))
    actions = [outcome(message).action for message in sent]
    assert actions.count("enqueued") == 1, [e for e in rig.events if e.name != "refused"]
    assert actions.count("discarded") == 49
    rig.drain()
    assert len(runs.ended) == 1


def test_two_who_replace_at_once_leave_exactly_one(rig: Rig, redis_client: "redis.Redis") -> None:
    """However many replace at once, one message runs: the one that holds the lock at the end."""
    _on_a_real_redis(rig, redis_client)
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executing", on_conflict="replace", lock_args=[])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(actor.send, range(50)))
    [holder] = rig.holders()
    rig.drain()
    assert [message.args[0] for message in sent if message.message_id == holder] == ran
    assert rig.lock_keys() == []


def test_a_store_that_is_down_refuses_the_send(unreachable: Rig) -> None:
    """``LockStoreUnavailable`` reaches the caller, and nothing is enqueued."""
    actor = unreachable.actor(lambda: None, actor_name="work", lock="until_executed")
    with pytest.raises(LockStoreUnavailable, match="ConnectionError") as caught:
        actor.send()
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    assert unreachable.pending() == 0


def test_ignoring_store_errors_sends_and_runs_without_a_lock(unreachable: Rig) -> None:
    """``on_store_error="ignore"``: it goes on, and says so loudly."""
    unreachable.use(UniqueMiddleware(unreachable.client, on_store_error="ignore"))
    ran: list[int] = []
    actor = unreachable.actor(ran.append, actor_name="work", lock="until_and_while_executing")
    actor.send(1)
    unreachable.drain()
    assert ran == [1]
    assert {(event.operation, event.consequence) for event in unreachable.told("store_error")} >= {
        ("enqueue", "unlocked"),
        ("start", "unlocked"),
    }


def test_a_store_that_is_down_at_the_start_fails_the_delivery(unreachable: Rig) -> None:
    """The actor does not run unlocked; Dramatiq's retries apply, and then its dead letters."""
    ran: list[int] = []
    actor = unreachable.actor(ran.append, actor_name="work", lock="while_executing", max_retries=1)
    actor.send(1)
    unreachable.drain()
    assert ran == []
    assert len(unreachable.dead_letters()) == 1
    told = {(event.operation, event.consequence) for event in unreachable.told("store_error")}
    # What was asked for may have been taken although the answer never came, so letting go is tried too.
    assert told == {("start", "failed"), ("release", "later")}


@pytest.fixture
def unreachable() -> Iterator[Rig]:
    """A Stub broker whose lock store nobody answers for."""
    bench = StubBench()
    nobody = redis.Redis(port=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
    unique = UniqueMiddleware(nobody)
    bench.broker.add_middleware(unique)
    rig = Rig(bench, unique, nobody)
    yield rig
    rig.stop()


def _send_from_elsewhere(rig: Rig, message: Message[Any]) -> None:
    """Put a message on the queue as a producer would that has no such middleware."""
    if isinstance(rig.bench, RedisBench):
        RedisBroker(client=rig.client).enqueue(message)
    elif isinstance(rig.bench, RabbitmqBench):
        rig.bench.broker.declare_queue(rig.queue, ensure=True)
        rig.bench.broker.channel.basic_publish("", rig.queue, message.encode())
    elif isinstance(rig.bench, StubBench):
        rig.bench.broker.queues[rig.queue].put(message.encode())


def _fail(*_: object) -> bytes:
    raise ConnectionError("the store is gone")
