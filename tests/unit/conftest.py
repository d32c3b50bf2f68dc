"""What the unit tests share: a Stub broker whose locks are in memory, and a lock store on every kind of client."""

from collections.abc import Iterator

import fakeredis
import hypothesis
import pytest
import redis
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.store import RedisStore


hypothesis.settings.register_profile("unit", deadline=None)  # a busy machine is no fault of the code
hypothesis.settings.load_profile("unit")


@pytest.fixture
def memory() -> Iterator["redis.Redis"]:
    """A Redis in memory that nobody else has."""
    with fakeredis.FakeRedis(server=fakeredis.FakeServer()) as client:
        yield client


@pytest.fixture
def unique(memory: "redis.Redis") -> UniqueMiddleware:
    """The middleware, its locks in memory."""
    return UniqueMiddleware(memory)


@pytest.fixture
def broker(unique: UniqueMiddleware) -> Iterator[StubBroker]:
    """A Stub broker with the middleware on it."""
    broker = StubBroker(fail_fast_default=False)
    broker.add_middleware(unique)
    yield broker
    broker.close()


@pytest.fixture(params=["fakeredis", "fakeredis-decoding", "redis", "redis-decoding"])
def client(request: pytest.FixtureRequest) -> Iterator["redis.Redis"]:
    """An empty Redis, in memory and real, with a client that decodes replies and one that doesn't."""
    kind, _, decoding = request.param.partition("-")
    client: redis.Redis
    if kind == "fakeredis":
        client = fakeredis.FakeRedis(server=fakeredis.FakeServer(), decode_responses=bool(decoding))
    else:
        url = request.getfixturevalue("server").url
        client = redis.Redis.from_url(url, decode_responses=bool(decoding))
        client.flushdb()
    with client:
        yield client


@pytest.fixture
def store(client: "redis.Redis") -> Iterator[RedisStore]:
    """A lock store; whatever a test leaves in it expires, has the prefix, and is on one node of a cluster."""
    store = RedisStore(client, prefix="test", memory_ms=60_000)
    yield store
    for key in map(as_text, client.scan_iter()):
        assert client.pttl(key) > 0, f"{key} does not expire"
        assert key.startswith("test:{"), f"{key} has neither prefix nor hash tag"


def as_text(reply: str | bytes) -> str:
    """Read a name that a client gave, whether or not it decodes."""
    return reply.decode() if isinstance(reply, bytes) else reply
