"""Locks in a cluster, and behind a Sentinel whose master fails."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from dramatiq_unique import LockStoreUnavailable, UniqueMiddleware, outcome
from dramatiq_unique.locks import Locks
from dramatiq_unique.testing import assert_locked, assert_not_locked, free_everything
from tests.engines.topology import Pair, cluster, pair
from tests.rig import Gate, Rig, Runs, StubBench, eventually


@pytest.fixture(scope="module")
def clustered() -> Iterator[Any]:
    """A client of a cluster of three."""
    with cluster() as client:
        yield client


@pytest.fixture
def watched() -> Iterator[Pair]:
    """A pair behind a Sentinel."""
    with pair() as made:
        yield made


def _rig(client: Any, **arguments: Any) -> Rig:
    bench = StubBench()
    unique = UniqueMiddleware(client, **arguments)
    bench.broker.add_middleware(unique)
    return Rig(bench, unique, client)


class TestCluster:
    """The keys of a digest share a hash tag, so every script finds them on one node."""

    @pytest.mark.parametrize(
        "lock", ["until_executing", "until_executed", "until_expired", "while_executing", "until_and_while_executing"]
    )
    def test_every_lock_type_works_for_keys_on_every_node(self, clustered: Any, lock: str) -> None:
        """Twenty keys fall on all three nodes; each is sent twice."""
        rig = _rig(clustered, prefix=f"cluster-{lock}")
        runs = Runs()

        def work(number: int) -> None:
            with runs.of(number):
                pass

        actor = rig.actor(work, lock=lock, lock_ttl=60)
        sent = [actor.send(number) for number in range(20) for _ in range(2)]
        refused = [message for message in sent if outcome(message).action == "discarded"]
        assert len(refused) == (0 if lock == "while_executing" else 20)
        rig.drain()
        assert len(runs.ended) == 40 - len(refused)
        left = list(clustered.scan_iter(f"cluster-{lock}:*", target_nodes=clustered.ALL_NODES))
        assert len(left) == (20 if lock == "until_expired" else 0)

    def test_leases_on_several_nodes_are_renewed(self, clustered: Any) -> None:
        """One call renews what runs on each of them."""
        rig = _rig(clustered, prefix="cluster-renewal", lease=1)
        gate = Gate()
        actor = rig.actor(lambda number: gate.arrive(), actor_name="work", lock="while_executing")
        for number in range(4):
            actor.send(number)
        rig.start(threads=4)
        for _ in range(4):
            gate.wait_for_arrival()
        keys = list(clustered.scan_iter("cluster-renewal:*:run", target_nodes=clustered.ALL_NODES))
        records = {key: _record(clustered, key) for key in keys}
        assert len(records) == 4
        eventually(lambda: all(_record(clustered, key) > before + 1500 for key, before in records.items()))
        gate.open(4)
        rig.drain()
        assert rig.told("lease_lost") == []

    def test_a_worker_that_waits_is_woken_across_nodes(self, clustered: Any) -> None:
        """The release is published on the node of the lock, and heard wherever the worker listens."""
        rig = _rig(clustered, prefix="cluster-waking")
        gate, runs = Gate(), Runs()

        def work(number: int) -> None:
            with runs.of(number):
                gate.arrive()

        actor = rig.actor(work, lock="while_executing", lock_args=[], lock_timeout=20)
        actor.send(1)
        rig.start()
        gate.wait_for_arrival()
        actor.send(2)
        gate.open(2)
        rig.drain()
        assert runs.ended == [1, 2]
        assert runs.most_at_once == 1
        assert rig.told("rescheduled") == []

    @pytest.mark.parametrize("decoding", [False, True], ids=["bytes", "decoding"])
    def test_locks_are_looked_at_and_let_go_on_every_node(self, clustered: Any, decoding: bool) -> None:
        """Each once, page by page, and nothing of another prefix."""
        prefix = f"cluster-looking-{decoding}"
        rig = _rig(clustered, prefix=prefix)
        gate = Gate()
        actor = rig.actor(lambda _: gate.arrive(), actor_name="work", lock="until_and_while_executing")
        digests = {str(outcome(actor.send(number)).digest) for number in range(20)}
        rig.start(threads=3)
        for _ in range(3):
            gate.wait_for_arrival()
        for number in range(20):
            actor.send(number)  # Three more wait behind those that run.
        [node] = clustered.get_nodes()[:1]
        with redis.RedisCluster(host=node.host, port=node.port, decode_responses=decoding) as client:
            spoilt = f"{prefix}:{{spoilt}}:queue"
            client.set(spoilt, b"\xff", ex=60)
            locks = Locks(client, prefix=prefix)
            for page in (1, 500):
                found = [seen.digest for seen in locks._lookups.walk(page=page)]
                assert sorted(found) == sorted({*digests, "spoilt"})
            assert [lock.digest for lock in locks.iter() if lock.unreadable] == ["spoilt"]
            both = [lock for lock in locks.iter() if {holder.kind for holder in lock.holders} == {"queue", "run"}]
            assert len(both) == 3
            assert locks.get(both[0].digest) is not None
            assert rig.unique.locks.explain(actor, 0).action == "discarded"
            assert locks.release_matching("work") == 23
            assert list(locks.iter("work")) == []
            client.delete(spoilt)
        gate.open(30)
        rig.drain()

    def test_the_helpers_for_tests_look_at_every_node(self, clustered: Any) -> None:
        """Twenty locks on all three nodes are seen, and dropped; the twenty of another prefix stay."""
        rig, other = _rig(clustered, prefix="cluster-helpers"), _rig(clustered, prefix="cluster-helpers-other")
        actor = rig.actor(lambda number: None, actor_name="work", lock="until_executed")
        others = other.actor(lambda number: None, actor_name="work", lock="until_executed")
        for number in range(20):
            actor.send(number)
            others.send(number)
        for number in range(20):
            assert_locked(actor, number)

        assert free_everything(rig.unique) == 20

        for number in range(20):
            assert_not_locked(actor, number)
            assert_locked(others, number)


class TestSentinel:
    """The client of a Sentinel's master, through a failover."""

    def test_locks_go_on_with_the_new_master(self, watched: Pair) -> None:
        """Its script cache is empty and its clock is another's; what it has of the locks counts."""
        master: Any = watched.sentinel.master_for(watched.name, socket_timeout=1)
        rig = _rig(master)
        ran: list[int] = []
        actor = rig.actor(ran.append, actor_name="work", lock="until_executed")
        first = actor.send(1)
        master.wait(1, 5000)  # What was not replicated would be lost: that is not promised.

        watched.fail_over()

        eventually(lambda: _refused_by(actor, first.message_id), 30)
        rig.drain()
        assert ran == [1]
        assert outcome(actor.send(1)).action == "enqueued"
        rig.drain()


def _refused_by(actor: Any, holder_id: str) -> bool:
    """Whether the store answers again, and still has the lock."""
    try:
        return outcome(actor.send(1)).holder_id == holder_id
    except LockStoreUnavailable:
        return False


def _record(client: Any, key: bytes) -> int:
    """Read the deadline of the only holder."""
    [raw] = [value for field, value in client.hgetall(key).items() if field.startswith(b"o:")]
    return int(raw.split()[2])
