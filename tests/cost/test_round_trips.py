"""Round trips beside the broker's own, counted with ``INFO commandstats`` at a Redis that holds only locks."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from dramatiq_unique import UniqueMiddleware, outcome
from tests.rig import RedisBench, Rig, Runs
from tests.servers import GivenRedis, RedisServer, skip_or_fail


class Counted:
    """A Redis broker whose locks are in a server of their own.

    Args:
        rig: The broker under test.
        locks: A client of the server that holds the locks.
    """

    def __init__(self, rig: Rig, locks: Any) -> None:
        self.rig = rig
        self.locks = locks

    def trips(self) -> int:
        """Count the round trips that the lock store has seen since the last time."""
        stats = self.locks.info("commandstats")
        outside = {name.removeprefix("cmdstat_").split("|")[0]: stat["calls"] for name, stat in stats.items()}
        self.locks.config_resetstat()
        # Every operation is one script. What scripts call inside costs no trip; nothing else may be asked.
        inside = {"time", "hget", "hset", "hmget", "hgetall", "hlen", "hdel", "pexpire", "pttl", "publish"}
        looking = {"info", "config", "client", "hello"}
        assert outside.keys() - inside - looking <= {"evalsha"}
        return int(outside.get("evalsha", 0))


@pytest.fixture
def counted(server: RedisServer | GivenRedis, redis_client: "redis.Redis") -> Iterator[Counted]:
    """Scripts are loaded before the counting begins, as they are in an application that runs."""
    if isinstance(server, GivenRedis):
        skip_or_fail("a second Redis, for the locks alone, can only be started where the tests start their own")
    with RedisServer() as own, redis.Redis.from_url(own.url) as locks:
        unique = UniqueMiddleware(locks, lease=30)
        bench = RedisBench(redis_client)
        bench.broker.add_middleware(unique)
        rig = Rig(bench, unique, locks)
        warm = rig.actor(lambda: None, actor_name="warm", lock="until_and_while_executing")
        warm.send()
        rig.drain()
        locks.config_resetstat()
        yield Counted(rig, locks)
        rig.stop()
        bench.close()


@pytest.mark.parametrize(
    ("lock", "at_send", "in_all"),
    [
        ("until_executing", 1, 2),
        ("until_executed", 1, 3),
        ("until_expired", 1, 1),
        ("while_executing", 0, 2),
        ("until_and_while_executing", 1, 3),
    ],
)
@pytest.mark.parametrize("delayed", [False, True], ids=["at-once", "delayed"])
def test_from_send_to_done(counted: Counted, lock: str, at_send: int, in_all: int, delayed: bool) -> None:
    """The table of the contract; a delayed message is enqueued once more, which keeps its queue lock at one trip."""
    runs = Runs()

    def work() -> None:
        with runs.of():
            pass

    actor = counted.rig.actor(work, lock=lock, lock_ttl=600)
    actor.send_with_options(delay=50 if delayed else None)
    assert counted.trips() == at_send
    counted.rig.drain()
    assert len(runs.ended) == 1
    again = 1 if delayed and at_send and lock != "until_expired" else 0
    assert at_send + counted.trips() == in_all + again


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_expired", "until_and_while_executing"])
def test_a_refused_send(counted: Counted, redis_client: "redis.Redis", lock: str) -> None:
    """One round trip in all: the broker is not asked."""
    actor = counted.rig.actor(lambda: None, actor_name="work", lock=lock, lock_ttl=600)
    actor.send()
    counted.trips()
    before = _scripts(redis_client)
    assert outcome(actor.send()).action == "discarded"
    after = _scripts(redis_client)
    assert counted.trips() == 1
    assert after == before


def test_a_replacement_costs_no_more_however_long_the_queue_is(counted: Counted) -> None:
    """One step at the locks; at the broker a bounded look at either end of the queue."""
    actor = counted.rig.actor(
        lambda key, _: None, actor_name="keyed", lock="until_executing", on_conflict="replace", lock_args=["key"]
    )
    for number in range(1000):
        actor.send(number, 0)
    actor.send(250, 1)
    counted.locks.config_resetstat()  # The script that this one needed is loaded now, too.
    for number in (0, 500, 999):
        assert outcome(actor.send(number, 1)).action == "replaced"
    # One each; then an HDEL where the message was taken out of the queue, to forget that it was replaced, and one more
    # script for the one in the middle, which is left for a worker to skip.
    assert counted.trips() == 3 + 1
    assert counted.rig.pending() == 1000 + 2


def test_an_actor_without_a_lock(counted: Counted) -> None:
    """Nothing: no trip at all."""
    actor = counted.rig.actor(lambda: None, actor_name="work")
    actor.send()
    counted.rig.drain()
    assert counted.trips() == 0


def _scripts(client: Any) -> int:
    """Count the scripts that the broker has called, which is how it stores a message."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])
