"""Fixtures that every folder of tests may use: a private Redis, and the same rig on each broker."""

from collections.abc import Iterator

import dramatiq
import fakeredis
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AgeLimit

from dramatiq_unique import UniqueMiddleware
from tests.rig import Rig
from tests.servers import GivenRedis, RedisServer, redis_server


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


BACKENDS = ["stub-last", "stub-first", "redis-last", "redis-first"]
"""The broker, and where the middleware stands in its list."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of the backend that a rig is built on; a test may narrow it."""
    name: str = request.param
    return name


@pytest.fixture
def rig(backend: str, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A broker with the middleware on it, and the means to look at both."""
    client: redis.Redis
    broker: StubBroker | RedisBroker
    if backend.startswith("stub"):
        client = fakeredis.FakeRedis()
        broker = StubBroker(fail_fast_default=False)
    else:
        client = request.getfixturevalue("redis_client")
        broker = RedisBroker(client=client)
    unique = UniqueMiddleware(client, lease=5)
    if backend.endswith("first"):
        broker.add_middleware(unique, before=AgeLimit)
    else:
        broker.add_middleware(unique)
    dramatiq.set_broker(broker)
    made = Rig(broker, unique, client)
    yield made
    made.stop()
    lasting = [key for key in made.lock_keys("*") if client.ttl(key) == -1]
    assert not lasting, f"keys without an expiry: {lasting}"
    broker.close()
