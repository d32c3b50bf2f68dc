"""`unique.locks`: who holds what, and letting go by hand."""

import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from os import getpid
from typing import Any

import dramatiq
import pytest
import redis
import structlog
from dramatiq import Worker
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import InvalidLockOptions, LockStoreUnavailable, UniqueError, UniqueMiddleware, outcome
from dramatiq_unique.events import Event
from dramatiq_unique.locks import Lock, LockHolder, Locks
from tests.rig import Gate, eventually
from tests.servers import HOST, free_port


PREFIX = "dramatiq-unique"


class Bench:
    """Two actors with locks, and what is told of them.

    Args:
        broker: The broker that they are on.
        unique: Its middleware.
    """

    def __init__(self, broker: StubBroker, unique: UniqueMiddleware) -> None:
        self.broker = broker
        self.unique = unique
        self.gate = Gate()
        self.events: list[Event] = []
        unique.subscribe(self.events.append)
        self.ship = self.actor("ship_order", lock="until_executed", lock_info=True)
        self.bill = self.actor("bill_order", lock="until_executed", queue_name="money")
        self.alone = self.actor("alone", lock="while_executing", lock_args=[], lock_timeout=30)

    def actor(self, name: str, **options: Any) -> Any:
        """Declare an actor that stands at the gate."""

        def work(order_id: int) -> None:
            self.gate.arrive()

        options = {"max_retries": 0, **options}
        return dramatiq.actor(work, actor_name=name, broker=self.broker, **options)  # type: ignore[call-overload]

    def told(self, name: str) -> list[Any]:
        """List the events of one name."""
        return [event for event in list(self.events) if event.name == name]


@pytest.fixture
def bench(broker: StubBroker, unique: UniqueMiddleware) -> Bench:
    """Two actors with locks."""
    return Bench(broker, unique)


@pytest.fixture
def worker(bench: Bench) -> Iterator[Worker]:
    """A worker for them."""
    worker = Worker(bench.broker, worker_timeout=20, worker_threads=4)
    worker.start()
    yield worker
    bench.gate.open(10)
    worker.stop()


class TestGet:
    """Who holds the locks of a digest."""

    def test_a_holder_says_who_and_where_it_is(self, bench: Bench) -> None:
        """All that stands in Redis of it, for people and for programs."""
        message = bench.ship.send(7)
        digest = str(outcome(message).digest)
        lock = bench.unique.locks.get(digest)
        assert lock is not None
        [holder] = lock.holders
        assert lock == Lock(digest, (holder,), lock.read_ms)
        assert (holder.kind, holder.message_id, holder.actor_name) == ("queue", message.message_id, "ship_order")
        assert (holder.queue_name, holder.state, holder.delayed) == ("default", "waiting", False)
        assert (holder.host, holder.pid) == (socket.gethostname(), getpid())
        assert holder.since_ms <= holder.seen_ms <= lock.read_ms < holder.until_ms
        assert json.loads(str(holder.args)) == {"args": [7], "kwargs": {}}

    def test_it_can_be_written_as_json(self, bench: Bench) -> None:
        """Every field but the token, which is nobody's business."""
        bench.ship.send(7)
        lock = bench.unique.locks.find(bench.ship, 7)
        assert lock is not None
        written = json.loads(json.dumps(lock.as_dict()))
        assert list(written) == ["digest", "holders", "read_ms", "unreadable"]
        [holder] = written["holders"]
        fields = [name for name in LockHolder.__dataclass_fields__ if name != "token"]
        assert holder == {name: getattr(lock.holders[0], name) for name in fields}
        assert "token" not in repr(lock)
        explained = bench.unique.locks.explain(bench.ship, 7)
        assert json.loads(json.dumps(explained.as_dict()))["holder"] == holder
        assert bench.unique.locks.explain(bench.ship, 8).as_dict()["holder"] is None

    def test_what_is_found_does_not_change(self, bench: Bench) -> None:
        """It stays what was seen."""
        bench.ship.send(7)
        lock: Any = bench.unique.locks.find(bench.ship, 7)
        for frozen, name in (
            (lock, "digest"),
            (lock.holders[0], "state"),
            (bench.unique.locks.explain(bench.ship, 7), "action"),
        ):
            with pytest.raises(FrozenInstanceError):
                setattr(frozen, name, "other")

    def test_arguments_are_there_under_lock_info_only(self, bench: Bench) -> None:
        """They may be a secret."""
        bench.bill.send(7)
        lock = bench.unique.locks.find(bench.bill, 7)
        assert lock is not None
        assert lock.holders[0].args is None

    def test_nobody_holds_an_unknown_digest(self, bench: Bench) -> None:
        """Nor one that nobody has any more."""
        locks = bench.unique.locks
        assert locks.get("unknown") is None
        assert locks.find(bench.ship, 7) is None

    def test_a_delayed_message_is_on_its_queue_and_says_that_it_is_delayed(self, bench: Bench) -> None:
        """The delay queue's name is the broker's business."""
        bench.ship.send_with_options(args=(7,), delay=60_000)
        lock = bench.unique.locks.find(bench.ship, 7)
        assert lock is not None
        assert (lock.holders[0].queue_name, lock.holders[0].delayed) == ("default", True)

    def test_a_window_says_so(self, bench: Bench) -> None:
        """And until when."""
        actor = bench.actor("daily", lock="until_expired", lock_ttl=60)
        actor.send(1)
        lock = bench.unique.locks.find(actor, 1)
        assert lock is not None
        [holder] = lock.holders
        assert holder.state == "window"
        assert 0 < holder.until_ms - lock.read_ms <= 60_000

    def test_who_runs_says_so(self, bench: Bench, worker: Worker) -> None:
        """In the queue lock, and in the run lock."""
        bench.alone.send(7)
        bench.ship.send(7)
        bench.gate.wait_for_arrival()
        bench.gate.wait_for_arrival()
        for actor, kind in ((bench.ship, "queue"), (bench.alone, "run")):
            lock = bench.unique.locks.find(actor, 7)
            assert lock is not None
            [holder] = lock.holders
            assert (holder.kind, holder.state, holder.queue_name) == (kind, "running", "default")

    def test_a_record_without_its_process_is_shown_as_it_is(self, bench: Bench, memory: Any) -> None:
        """Somebody may have written it."""
        bench.ship.send(7)
        [key] = memory.scan_iter(f"{PREFIX}:*")
        [who] = [field for field in memory.hkeys(key) if field.startswith(b"i:")]
        memory.hset(key, who, "nowhere")
        lock = bench.unique.locks.find(bench.ship, 7)
        assert lock is not None
        assert (lock.holders[0].host, lock.holders[0].pid, lock.holders[0].actor_name) == ("", 0, "")

    def test_an_id_that_no_terminal_prints_is_written_out(self, bench: Bench, memory: Any) -> None:
        """Somebody may have written it; the sentence stays one line."""
        digest = str(outcome(bench.ship.send(7)).digest)
        key = f"{PREFIX}:{{{digest}}}:queue"
        memory.delete(key)
        memory.hset(key, "o:\n\x1b[2J", "1 2 99999999999999 w -")
        said = str(bench.unique.locks.explain(bench.ship, 7))
        assert r"message '\n\x1b[2J' of actor ''" in said
        assert said.isprintable()


class TestIter:
    """All locks, by pattern."""

    @pytest.mark.parametrize(
        ("pattern", "queue", "found"),
        [
            ("*", None, {"ship_order", "bill_order"}),
            ("ship_*", None, {"ship_order"}),
            ("[sb]*_order", None, {"ship_order", "bill_order"}),
            ("????_order", "money", {"bill_order"}),
            ("*", "money", {"bill_order"}),
            ("*", "mone*", set()),
            ("SHIP_*", None, set()),
            ("ship", None, set()),
            ("", None, set()),
        ],
    )
    def test_a_glob_is_compared_with_the_actor(
        self, bench: Bench, pattern: str, queue: str | None, found: set[str]
    ) -> None:
        """The whole name, upper and lower case told apart; the queue is a name and no glob."""
        bench.ship.send(1)
        bench.bill.send(1)
        locks = list(bench.unique.locks.iter(pattern, queue=queue))
        assert {holder.actor_name for lock in locks for holder in lock.holders} == found

    def test_a_glob_is_compared_with_the_digest(self, bench: Bench) -> None:
        """So that one can be found by its beginning."""
        digest = str(outcome(bench.ship.send(1)).digest)
        bench.ship.send(2)
        assert [lock.digest for lock in bench.unique.locks.iter(f"{digest[:8]}*")] == [digest]

    def test_of_a_lock_that_is_shared_the_matching_holders_come(self, bench: Bench) -> None:
        """Two actors on two queues, under one digest; by digest, all of them."""
        shared = {"lock": "until_executed", "unique_across_actors": True, "unique_across_queues": True, "lock_limit": 2}
        bench.actor("here", **shared).send(1)
        digest = str(outcome(bench.actor("there", queue_name="far", **shared).send(1)).digest)
        locks = bench.unique.locks
        for pattern, queue, found in (
            ("here", None, ["here"]),
            ("*", "far", ["there"]),
            (digest, None, ["here", "there"]),
        ):
            [lock] = locks.iter(pattern, queue=queue)
            assert sorted(holder.actor_name for holder in lock.holders) == found
        assert locks.release_matching("here") == 1
        [left] = locks.iter()
        assert [holder.actor_name for holder in left.holders] == ["there"]

    def test_a_key_that_cannot_be_read_is_told_and_the_others_come(self, bench: Bench, memory: Any) -> None:
        """By its digest only, since nobody knows the actor."""
        bench.ship.send(1)
        memory.set(f"{PREFIX}:{{spoilt}}:run", "hello")
        locks = bench.unique.locks
        found = {lock.digest: lock for lock in locks.iter()}
        spoilt = found.pop("spoilt")
        assert spoilt.holders == ()
        assert spoilt.unreadable is not None
        assert f"'{PREFIX}:{{spoilt}}:run'" in spoilt.unreadable
        assert len(found) == 1
        assert [lock.digest for lock in locks.iter("spoi*")] == ["spoilt"]
        assert [lock.digest for lock in locks.iter("ship*")] == list(found)
        assert [lock.digest for lock in locks.iter(queue="default")] == list(found)
        with pytest.raises(UniqueError, match="spoilt"):
            locks.get("spoilt")
        with pytest.raises(UniqueError, match="spoilt"):
            locks.release("spoilt")
        assert locks.release(spoilt) == 0
        assert locks.release_matching("*") == 1
        assert memory.get(f"{PREFIX}:{{spoilt}}:run") == b"hello"


class TestRelease:
    """Letting go by hand."""

    def test_the_next_send_is_accepted(self, bench: Bench) -> None:
        """By digest, and by what was looked at."""
        for way in ("digest", "lock"):
            message = bench.ship.send(7)
            assert outcome(message).action == "enqueued"
            lock = bench.unique.locks.find(bench.ship, 7)
            assert lock is not None
            assert bench.unique.locks.release(lock.digest if way == "digest" else lock) == 1
            assert bench.unique.locks.find(bench.ship, 7) is None

    def test_it_is_told(self, bench: Bench) -> None:
        """One event for each holder, and a line that a production log shows."""
        message = bench.ship.send(7)
        digest = str(outcome(message).digest)
        bench.events.clear()
        with structlog.testing.capture_logs() as lines:
            bench.unique.locks.release(digest)
        [event] = bench.told("released")
        assert lines == [
            {
                "event": "released",
                "log_level": "info",
                "message_id": message.message_id,
                "actor_name": "ship_order",
                "queue_name": "default",
                "digest": digest,
                "lock": "",
                "kind": "queue",
                "held_ms": event.held_ms,
            }
        ]
        assert bench.events == [event]

    def test_what_nobody_holds_is_nothing(self, bench: Bench) -> None:
        """Twice, an unknown digest, another message."""
        digest = str(outcome(bench.ship.send(7)).digest)
        locks = bench.unique.locks
        assert locks.release("unknown") == 0
        assert locks.release(digest, message_id="another") == 0
        assert locks.release(digest) == 1
        assert locks.release(digest) == 0
        assert len(bench.told("released")) == 1

    @pytest.mark.parametrize("wrong", [None, 5, b"digest", dramatiq.Message("default", "ship", (1,), {}, {})], ids=type)
    def test_what_is_no_digest_and_no_pattern_is_told(self, bench: Bench, wrong: Any) -> None:
        """It would release nothing, and look as if there was nothing; the arguments of a message are not repeated."""
        locks, kind = bench.unique.locks, type(wrong).__name__
        for by_digest in (locks.get, locks.release):
            with pytest.raises(UniqueError, match=rf"^a lock goes by its digest, as outcome.*, not {kind}$"):
                by_digest(wrong)
        for by_pattern in (lambda pattern: list(locks.iter(pattern)), locks.release_matching):
            with pytest.raises(UniqueError, match=rf"^a pattern is a string, as 'reindex_\*', not {kind}$"):
                by_pattern(wrong)

    def test_one_of_several_holders_can_be_named(self, bench: Bench) -> None:
        """The others keep the lock."""
        actor = bench.actor("some", lock="until_executed", lock_limit=3, lock_args=[])
        first, second, third = (actor.send(number) for number in range(3))
        digest = str(outcome(first).digest)
        assert bench.unique.locks.release(digest, message_id=second.message_id) == 1
        lock = bench.unique.locks.get(digest)
        assert lock is not None
        assert {holder.message_id for holder in lock.holders} == {first.message_id, third.message_id}
        assert bench.unique.locks.release(digest) == 2

    def test_only_what_was_seen_is_let_go(self, bench: Bench) -> None:
        """A message that took the lock since keeps it."""
        bench.ship.send(7)
        locks = bench.unique.locks
        seen = locks.find(bench.ship, 7)
        assert seen is not None
        locks.release(seen)
        newer = bench.ship.send(7)
        assert locks.release(seen) == 0
        lock = locks.find(bench.ship, 7)
        assert lock is not None
        assert lock.holders[0].message_id == newer.message_id

    def test_by_pattern_those_that_iter_finds_are_let_go(self, bench: Bench) -> None:
        """And no others."""
        for number in range(3):
            bench.ship.send(number)
            bench.bill.send(number)
        locks = bench.unique.locks
        assert locks.release_matching("*_order", queue="money") == 3
        assert locks.release_matching("bill*") == 0
        assert [event.actor_name for event in bench.told("released")] == ["bill_order"] * 3
        assert locks.release_matching("*") == 3

    def test_a_waiting_message_runs_all_the_same(self, bench: Bench) -> None:
        """It says that its lock was gone, and takes it again."""
        message = bench.ship.send(7)
        bench.unique.locks.release(str(outcome(message).digest))
        worker = Worker(bench.broker, worker_timeout=20)
        worker.start()
        bench.gate.wait_for_arrival()
        assert [event.message_id for event in bench.told("lapsed")] == [message.message_id]
        bench.gate.open()
        bench.broker.join("default", timeout=10_000)
        worker.stop()

    def test_beside_a_message_that_runs_another_runs(self, bench: Bench, worker: Worker) -> None:
        """The worker that waits is woken; the first says that it lost its lease, once it would renew it."""
        first = bench.alone.send(1)
        bench.gate.wait_for_arrival()
        bench.alone.send(2)
        memory: Any = bench.unique.locks._lookups.client
        eventually(lambda: memory.pubsub_channels(f"{PREFIX}:*"))
        lock = bench.unique.locks.find(bench.alone, 1)
        assert lock is not None
        assert bench.unique.locks.release(lock) == 1
        bench.gate.wait_for_arrival()
        [event] = bench.told("released")
        assert (event.kind, event.message_id) == ("run", first.message_id)


def test_a_lease_that_was_let_go_by_hand_is_lost(memory: "redis.Redis") -> None:
    """Its worker hears of it at the next renewal."""
    broker = StubBroker(fail_fast_default=False)
    unique = UniqueMiddleware(memory, lease=1)
    broker.add_middleware(unique)
    bench = Bench(broker, unique)
    worker = Worker(broker, worker_timeout=20)
    worker.start()
    bench.alone.send(1)
    bench.gate.wait_for_arrival()
    assert unique.locks.release_matching("alone") == 1
    eventually(lambda: bench.told("lease_lost"))
    bench.gate.open()
    worker.stop()


class TestWithoutABroker:
    """For a program that has an address and nothing else."""

    def test_locks_are_found_and_let_go_by_digest_and_pattern(self, bench: Bench, memory: "redis.Redis") -> None:
        """The release is a line of its log."""
        digest = str(outcome(bench.ship.send(7)).digest)
        locks = Locks(memory)
        lock = locks.get(digest)
        assert lock is not None
        assert lock.holders[0].actor_name == "ship_order"
        assert [found.digest for found in locks.iter("ship*")] == [digest]
        with structlog.testing.capture_logs() as lines:
            assert locks.release(digest) == 1
        assert [line["event"] for line in lines] == ["released"]

    def test_what_goes_by_actor_says_what_to_do(self, bench: Bench, memory: "redis.Redis") -> None:
        """Only the middleware knows the actor's options."""
        locks = Locks(memory)
        for name in ("find", "explain"):
            with pytest.raises(UniqueError, match=rf"^{name} goes by an actor.*use UniqueMiddleware\.locks"):
                getattr(locks, name)(bench.ship, 7)

    def test_another_prefix_has_other_locks(self, bench: Bench, memory: "redis.Redis") -> None:
        """Ours are not there."""
        bench.ship.send(7)
        assert list(Locks(memory, prefix="other").iter()) == []

    @pytest.mark.parametrize("prefix", ["", "a{b", "}", None])
    def test_a_wrong_prefix_is_refused(self, memory: "redis.Redis", prefix: Any) -> None:
        """As the middleware does."""
        with pytest.raises(InvalidLockOptions, match="Locks: prefix must be a string"):
            Locks(memory, prefix=prefix)

    def test_an_address_is_no_client(self) -> None:
        """It may have a password in it, and is not repeated."""
        with pytest.raises(InvalidLockOptions, match="Locks: client must be a synchronous client") as caught:
            Locks("redis://:hunter2@localhost")  # type: ignore[arg-type]
        assert "hunter2" not in str(caught.value)

    def test_nor_is_a_class_or_a_pipeline(self) -> None:
        """It says which it was."""
        with pytest.raises(InvalidLockOptions, match=r"such as redis.Redis, not the class Redis$"):
            Locks(redis.Redis)  # type: ignore[arg-type]
        with pytest.raises(InvalidLockOptions, match=r"such as redis.Redis, not Pipeline$"):
            Locks(redis.Redis().pipeline())

    def test_a_redis_that_is_away_is_unavailable(self) -> None:
        """As everywhere; the password stays where it is."""
        client = redis.Redis.from_url(f"redis://:hunter2@{HOST}:{free_port()}", retry=None)
        locks = Locks(client)
        for ask in (locks.get, locks.release, locks.release_matching, lambda pattern: list(locks.iter(pattern))):
            with pytest.raises(LockStoreUnavailable) as caught:
                ask("x")
            assert "hunter2" not in str(caught.value)


def test_a_release_is_seen_in_a_log_that_nobody_configured(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """One by its owner is not."""
    bench.ship.send(7)
    with caplog.at_level(logging.INFO, "dramatiq_unique"):
        bench.unique.locks.release_matching("ship*")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["released"]
