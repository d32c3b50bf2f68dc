"""Producers that are killed between their lock and their message, and how long they block whoever comes next."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
import redis
from dramatiq import Actor

from dramatiq_unique import UniqueMiddleware, outcome
from tests.processes.producing import QUEUE_LOCKS, WINDOW_S, declare
from tests.processes.workers import ROOT, environment
from tests.rig import Bench, OwnRedisBroker, RabbitmqBench, RedisBench, Rig, StubBench, eventually
from tests.servers import GivenRedis, RedisServer, rabbitmq_answers


Actors: TypeAlias = dict[str, Actor[[], None]]

MINUTE_MS = 60_000
SHORTENED_MS = 2000
AFTER_S = 10
"""How long after a crash the broker is asked at the latest: a holder is believed for the first five seconds."""

cannot_be_asked = pytest.mark.parametrize("kind", ["stub", "rabbitmq"])
can_be_asked = pytest.mark.parametrize("kind", ["own-redis"])
in_one_step = pytest.mark.parametrize("kind", ["redis"])


@pytest.fixture
def rig(kind: str, redis_client: "redis.Redis") -> Iterator[Rig]:
    """The producer that comes next; its locks are in a real Redis, whatever its broker."""
    if kind == "rabbitmq" and not rabbitmq_answers():
        pytest.skip("RabbitMQ is taken where it runs, and it does not run here")
    benches: dict[str, Any] = {
        "stub": StubBench,
        "redis": lambda: RedisBench(redis_client),
        "own-redis": lambda: RedisBench(redis_client, OwnRedisBroker),
        "rabbitmq": lambda: RabbitmqBench(f"dramatiq-unique-test-{uuid4()}"),
    }
    bench: Bench = benches[kind]()
    unique = UniqueMiddleware(redis_client)
    bench.broker.add_middleware(unique)
    yield Rig(bench, unique, redis_client)
    bench.close()


@pytest.fixture
def actors(rig: Rig) -> Actors:
    """Its actors, by lock type."""
    return declare(rig.broker, rig.queue)


def _kill_a_producer(kind: str, rig: Rig, url: str, **more: str) -> dict[str, tuple[str, int]]:
    """Kill a producer that has its locks and has stored nothing.

    Returns:
        What it held, by lock type: the ``message_id``, and until when by the server's clock.
    """
    env = environment(url, TEST_BROKER=kind, TEST_QUEUE=rig.queue, **more)
    producer = subprocess.Popen([sys.executable, "-m", "tests.processes.producing"], env=env, cwd=ROOT)
    try:
        eventually(lambda: rig.redis.hlen("locked") == len(QUEUE_LOCKS), 30)
    finally:
        producer.kill()
        producer.wait()
    assert rig.waiting() == []
    held = {lock.decode(): entry.decode().split() for lock, entry in rig.redis.hgetall("locked").items()}
    return {lock: (message_id, int(deadline_ms)) for lock, (message_id, deadline_ms) in held.items()}


def _now_ms(rig: Rig) -> int:
    seconds, microseconds = rig.redis.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


@cannot_be_asked
def test_a_killed_producer_blocks_its_keys_for_a_minute_at_most(
    rig: Rig, actors: Actors, kind: str, server: RedisServer | GivenRedis
) -> None:
    """Whatever the lock type, a window included: a copy is refused, and each lock ends within the minute."""
    held = _kill_a_producer(kind, rig, server.url)
    refused = {lock: outcome(actor.send()).holder_id for lock, actor in actors.items()}
    assert refused == {lock: message_id for lock, (message_id, _) in held.items()}

    now_ms = _now_ms(rig)
    assert [lock for lock, (_, deadline_ms) in held.items() if deadline_ms > now_ms + MINUTE_MS] == []
    assert len(rig.lock_keys("queue")) == len(QUEUE_LOCKS)
    # Nothing that came since has made them longer.
    assert [key for key in rig.lock_keys("queue") if rig.redis.pttl(key) > MINUTE_MS] == []


@cannot_be_asked
def test_the_keys_of_a_killed_producer_are_free_once_that_minute_is_over(
    rig: Rig, actors: Actors, kind: str, server: RedisServer | GivenRedis
) -> None:
    """The minute is two seconds here: no key is free before, and each one is free after."""
    held = _kill_a_producer(kind, rig, server.url, TEST_UNSTORED_MS=str(SHORTENED_MS))
    for lock, actor in actors.items():
        _, deadline_ms = held[lock]

        def accepted(actor: Any = actor) -> bool:
            return outcome(actor.send()).action == "enqueued"

        eventually(accepted)
        assert _now_ms(rig) >= deadline_ms
    assert rig.told("reclaimed") == []


@can_be_asked
def test_the_redis_broker_is_asked_after_the_message_of_a_killed_producer(
    rig: Rig, actors: Actors, kind: str, server: RedisServer | GivenRedis
) -> None:
    """It never had one, so the next send takes the lock over once its holder is no longer believed."""
    held = _kill_a_producer(kind, rig, server.url)
    window = actors.pop("until_expired")
    lost = {message_id for lock, (message_id, _) in held.items() if lock in actors}

    def all_are_free() -> bool:
        for lock in [lock for lock, actor in actors.items() if outcome(actor.send()).action == "enqueued"]:
            del actors[lock]
        return not actors

    eventually(all_are_free, AFTER_S)
    assert {event.holder_id for event in rig.told("reclaimed")} == lost
    # A window outlives its message, so it is never asked after: it stays shut until it is over.
    message_id, deadline_ms = held["until_expired"]
    assert outcome(window.send()).holder_id == message_id
    assert deadline_ms > _now_ms(rig) + MINUTE_MS
    assert max(rig.redis.pttl(key) for key in rig.lock_keys("queue") if _holds(rig, key, message_id)) <= WINDOW_S * 1000


@in_one_step
def test_a_producer_that_sends_in_one_step_has_no_lock_before_its_message(
    rig: Rig, actors: Actors, kind: str, server: RedisServer | GivenRedis
) -> None:
    """Killed at the last moment before, it blocks nobody, whatever the lock type."""
    held = _kill_a_producer(kind, rig, server.url)
    assert {message_id for message_id, _ in held.values()} == {"nothing"}
    assert rig.lock_keys() == []
    assert {outcome(actor.send()).action for actor in actors.values()} == {"enqueued"}


def _holds(rig: Rig, key: str, message_id: str) -> bool:
    return bool(rig.redis.hexists(key, f"o:{message_id}"))
