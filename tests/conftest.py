"""Fixtures that every folder of tests may use: a private Redis, and the same rig on each broker."""

from collections.abc import Iterator
from uuid import uuid4

import dramatiq
import fakeredis
import pytest
import redis
import structlog
from dramatiq.middleware import AgeLimit

from dramatiq_unique import UniqueMiddleware
from tests.rig import Bench, OwnRedisBroker, RabbitmqBench, RedisBench, Rig, StubBench
from tests.servers import GivenRedis, RedisServer, rabbitmq_answers, redis_server


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    """Forget what a test told structlog; `capture_logs` alone leaves it configured."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer | GivenRedis]:
    """A private Redis for the whole run; every test begins with an empty database."""
    with redis_server() as running:
        yield running


@pytest.fixture
def redis_client(server: RedisServer | GivenRedis) -> Iterator["redis.Redis"]:
    """A client of the private Redis, emptied."""
    with redis.Redis.from_url(server.url) as client:
        client.flushdb()
        yield client


BACKENDS = ["stub-last", "stub-first", "redis-last", "redis-first", "own-redis-last"]
"""The broker, and where the middleware stands in its list; RabbitMQ has a module of its own in `life`.

On the Redis broker a send takes one step, on one of somebody's own two."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of the backend that a rig is built on; a test may narrow it."""
    name: str = request.param
    return name


@pytest.fixture
def rig(backend: str, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A broker with the middleware on it, and the means to look at both."""
    client: redis.Redis
    bench: Bench
    if backend.startswith("stub"):
        client, bench = fakeredis.FakeRedis(), StubBench()
    elif backend.startswith("redis"):
        client = request.getfixturevalue("redis_client")
        bench = RedisBench(client)
    elif backend.startswith("own-redis"):
        client = request.getfixturevalue("redis_client")
        bench = RedisBench(client, OwnRedisBroker)
    else:
        if not rabbitmq_answers():
            pytest.skip("RabbitMQ is taken where it runs, and it does not run here")
        client = request.getfixturevalue("redis_client")
        bench = RabbitmqBench(f"dramatiq-unique-test-{uuid4()}")
    unique = UniqueMiddleware(client, lease=5)
    if backend.endswith("first"):
        bench.broker.add_middleware(unique, before=AgeLimit)
    else:
        bench.broker.add_middleware(unique)
    dramatiq.set_broker(bench.broker)
    made = Rig(bench, unique, client)
    yield made
    made.stop()
    lasting = [key for key in made.lock_keys() if client.ttl(key) == -1]
    assert not lasting, f"keys without an expiry: {lasting}"
    bench.close()
