"""Sending in one step: the script that takes the lock stores the message."""

from typing import Any

import dramatiq
import fakeredis
import pytest
import redis
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Middleware, MiddlewareError

from dramatiq_unique import UniqueMiddleware, one_step, outcome
from dramatiq_unique.one_step import KNOWN, OneStep
from dramatiq_unique.store import RedisStore
from tests.rig import OwnRedisBroker, Rig, eventually
from tests.servers import HOST, GivenRedis, RedisServer


def store(client: Any) -> RedisStore:
    """A lock store."""
    return RedisStore(client, prefix="test", memory_ms=1)


def _own(client: Any) -> RedisBroker:
    own: Any = OwnRedisBroker
    broker: RedisBroker = own(client=client)
    return broker


class TestWhere:
    """It is done where it is known to be right, and nowhere else."""

    @pytest.fixture
    def broker(self, redis_client: "redis.Redis") -> RedisBroker:
        """A Redis broker."""
        return RedisBroker(client=redis_client)

    def test_on_the_redis_broker_whose_client_holds_the_locks(
        self, broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """And with the dispatch script that is installed: whoever raises the version of Dramatiq looks at it."""
        assert OneStep.on(broker, store(redis_client)) is not None

    def test_with_another_client_of_the_same_redis(self, broker: RedisBroker, server: RedisServer | GivenRedis) -> None:
        """Named in the same way; what is named in another counts as another."""
        with (
            redis.Redis.from_url(server.url) as same,
            redis.Redis(host=HOST, port=same.connection_pool.connection_kwargs["port"], db=3) as other,
        ):
            assert OneStep.on(broker, store(same)) is not None
            assert OneStep.on(broker, store(other)) is None

    def test_not_as_another_user(self, server: RedisServer | GivenRedis) -> None:
        """Who may touch the locks may not touch the queues, perhaps: it takes two steps."""
        with (
            redis.Redis.from_url(server.url) as queues,
            redis.Redis.from_url(server.url.replace("redis://", "redis://locks:secret@")) as locks,
        ):
            assert OneStep.on(RedisBroker(client=queues), store(locks)) is None

    def test_not_where_one_of_them_imitates_a_server(self, broker: RedisBroker, redis_client: "redis.Redis") -> None:
        """Whatever address it was given: the message would be stored there, and nobody would fetch it."""
        given = redis_client.connection_pool.connection_kwargs
        address = {name: given[name] for name in ("host", "port", "db")}
        assert OneStep.on(broker, store(fakeredis.FakeRedis(**address))) is None

    def test_not_where_the_script_is_not_known(
        self, broker: RedisBroker, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A newer Dramatiq may lay out its queues in another way: it takes two steps, until somebody has looked."""
        monkeypatch.setattr(one_step, "KNOWN", frozenset({"another"}))
        assert OneStep.on(broker, store(redis_client)) is None
        assert len(KNOWN) == 1

    def test_not_in_a_class_of_somebodys_own(self, redis_client: "redis.Redis") -> None:
        """It may do anything at enqueue."""
        assert OneStep.on(_own(redis_client), store(redis_client)) is None

    @pytest.mark.parametrize("name", ["do_enqueue", "_dispatch"])
    def test_not_where_somebody_has_put_something_in_its_way(
        self, broker: RedisBroker, redis_client: "redis.Redis", name: str
    ) -> None:
        """Tracing, say."""
        vars(broker)[name] = lambda *_: None
        assert OneStep.on(broker, store(redis_client)) is None

    def test_the_locks_tell(self, rig: Rig, backend: str) -> None:
        """An operator can see which way is in use."""
        rig.broker.declare_queue("any")
        assert rig.unique.locks.one_step is backend.startswith("redis")


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """One on which it is done; a test may say otherwise."""
    return str(getattr(request, "param", "redis-last"))


class TestAnUnknownLayout:
    """The same jobs, in two steps, by itself."""

    def test_it_falls_back(self, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch) -> None:
        """One is sent, one is refused."""
        monkeypatch.setattr(one_step, "KNOWN", frozenset())
        broker, unique = RedisBroker(client=redis_client), UniqueMiddleware()
        broker.add_middleware(unique)
        actor = _actor(broker)
        assert [outcome(actor.send()).action for _ in range(2)] == ["enqueued", "discarded"]
        assert not unique.locks.one_step
        assert redis_client.llen("dramatiq:default") == 1

    def test_it_falls_back_where_somebody_puts_something_in_its_way_later(self, redis_client: "redis.Redis") -> None:
        """What was put there is called for each message that is stored, and locks are taken all the same."""
        broker = RedisBroker(client=redis_client)
        broker.add_middleware(UniqueMiddleware())
        actor, stored = _actor(broker), []
        actor.send_with_options(lock=None)
        enqueue = broker.do_enqueue

        def traced(*args: Any) -> None:
            stored.append(args)
            enqueue(*args)

        vars(broker)["do_enqueue"] = traced
        assert [outcome(actor.send()).action for _ in range(2)] == ["enqueued", "discarded"]
        assert len(stored) == 1
        assert redis_client.llen("dramatiq:default") == 2


def _actor(broker: RedisBroker) -> Any:
    return dramatiq.actor(broker=broker, actor_name="work", lock="until_executed")(lambda: None)


class TestBothOrNeither:
    """There is no lock without its message, and no message without its lock."""

    def test_a_send_that_is_taken_is_stored_by_that_very_script(self, rig: Rig) -> None:
        """Redis sees one script, and in it both."""
        actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
        actor.send()
        rig.drain()
        rig.redis.config_resetstat()
        message = actor.send()
        stats = rig.redis.info("commandstats")
        assert stats["cmdstat_evalsha"]["calls"] == 1
        assert rig.holders() == {message.message_id}
        assert [waiting.message_id for waiting in rig.waiting()] == [message.message_id]

    def test_a_send_that_is_refused_is_not_stored(self, rig: Rig) -> None:
        """One round trip in all."""
        actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
        actor.send()
        rig.redis.config_resetstat()
        assert outcome(actor.send()).action == "discarded"
        stats = rig.redis.info("commandstats")
        assert stats["cmdstat_evalsha"]["calls"] == 1
        assert "cmdstat_rpush" not in stats
        assert len(rig.waiting()) == 1

    def test_a_queue_that_cannot_be_written_to_takes_no_message(self, rig: Rig) -> None:
        """The error is told, and the lock that was taken in the same script is given back."""
        actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
        rig.redis.set(f"dramatiq:{rig.queue}", "no list")
        with pytest.raises(Exception, match="WRONGTYPE"):
            actor.send()
        rig.redis.delete(f"dramatiq:{rig.queue}")
        eventually(lambda: rig.lock_keys() == [])

    def test_a_later_middleware_that_refuses_the_message_leaves_no_lock(self, rig: Rig) -> None:
        """None was taken yet."""

        class RefusesError(MiddlewareError):
            pass

        class Refuses(Middleware):
            def before_enqueue(self, broker: Any, message: Message[Any], delay: Any) -> None:
                raise RefusesError

        actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
        rig.broker.middleware.append(Refuses())
        with pytest.raises(RefusesError):
            actor.send()
        assert rig.lock_keys() == []
        assert rig.waiting() == []

    def test_the_maintenance_of_the_broker_goes_on(self, rig: Rig) -> None:
        """Each command of the broker may start it, a send in one step too: its script runs as it stands."""
        broker = rig.broker
        assert isinstance(broker, RedisBroker)
        broker.maintenance_chance = 1_000_000
        long_ago_ms = 1
        rig.redis.zadd("dramatiq:__heartbeats__", {"dead": long_ago_ms})
        rig.redis.sadd(f"dramatiq:__acks__.dead.{rig.queue}", "lost")
        rig.redis.hset(
            f"dramatiq:{rig.queue}.msgs", "lost", rig.actor(lambda: None, actor_name="lost").message().encode()
        )
        rig.actor(lambda: None, actor_name="work", lock="until_executed").send()
        assert rig.redis.lrange(f"dramatiq:{rig.queue}", 0, 0) == [b"lost"]
