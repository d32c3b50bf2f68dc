"""SPEC 10: the lock store is down, at every moment in the life of a message. The broker is another server, and up."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_unique import LockStoreUnavailable, UniqueMiddleware, outcome
from tests.processes.desk import leases_kept
from tests.rig import Bench, Gate, RedisBench, Rig, Runs, StubBench, eventually
from tests.servers import RedisServer


TIMEOUT_S = 0.3
LEASE_S = 2.0
MADE_GOOD_WITHIN_S = 10
LOCKS = ["until_executed", "while_executing", "until_and_while_executing"]
OUTAGES = ["stopped", "suspended", "shut out"]
"""Stopped: connections are refused, and everything is forgotten. Suspended: nothing answers, and what was asked is done
when it goes on. Shut out: everybody is turned away, and nothing is forgotten."""


class LockServer:
    """The Redis of the locks, and its outages.

    Args:
        server: The server.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._how: str | None = None
        self._clients: list[redis.Redis] = []
        self.admin: Any = redis.Redis.from_url(server.url)
        self._allow()

    def reset(self) -> None:
        """End what a test has left, and forget everything."""
        self.up()
        self.admin.replicaof("NO", "ONE")
        self.admin.flushall()
        while self._clients:
            self._clients.pop().close()

    def client(self) -> "redis.Redis":
        """Make a client that does not wait long, and does not try again."""
        client = redis.Redis(
            host="127.0.0.1",
            port=self._server.port,
            username="locks",
            password="locks",  # noqa: S106 - of a server that lives for one test
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._clients.append(client)
        return client

    def down(self, how: str) -> None:
        """Begin an outage."""
        self._how = how
        if how == "stopped":
            self._server.stop()
        elif how == "suspended":
            os.kill(self._server.pid, signal.SIGSTOP)
        else:
            self.admin.acl_setuser("locks", enabled=False)
            self.admin.client_kill_filter(user="locks")

    def up(self) -> None:
        """End it."""
        if self._how == "stopped":
            self._server.restart()
            self._allow()
        elif self._how == "suspended":
            os.kill(self._server.pid, signal.SIGCONT)
        elif self._how == "shut out":
            self._allow()
        self._how = None

    def _allow(self) -> None:
        self.admin.acl_setuser(
            "locks", enabled=True, passwords=["+locks"], keys=["*"], channels=["*"], commands=["+@all"]
        )


@pytest.fixture(scope="module")
def lock_server() -> Iterator[LockServer]:
    """A Redis for the locks alone."""
    with RedisServer() as server:
        made = LockServer(server)
        yield made
        made.admin.close()


@pytest.fixture
def locks(lock_server: LockServer) -> Iterator[LockServer]:
    """The same, up and with nothing in it."""
    yield lock_server
    lock_server.reset()


@pytest.fixture(params=["stub", "redis"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """A broker whose messages are elsewhere; a test may narrow it."""
    if request.param == "stub":
        return StubBench()
    return RedisBench(request.getfixturevalue("redis_client"))


@pytest.fixture
def rig(locks: LockServer, bench: Bench, caplog: pytest.LogCaptureFixture) -> Iterator[Rig]:
    """The broker with the middleware on it; looking at the locks is not subject to their outages."""
    caplog.set_level(logging.CRITICAL)  # A job that is tried again and again says so each time.
    unique = UniqueMiddleware(locks.client(), lease=LEASE_S)
    bench.broker.add_middleware(unique)
    made = Rig(bench, unique, locks.admin)
    yield made
    made.stop()
    bench.close()


only_stub = pytest.mark.parametrize("bench", ["stub"], indirect=True)
each_outage = pytest.mark.parametrize("how", OUTAGES)


@each_outage
def test_a_send_raises_and_enqueues_nothing(rig: Rig, locks: LockServer, how: str) -> None:
    """The caller has the error; once the store is back the same job can be sent, and runs once."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed")
    actor.send(1)
    locks.down(how)
    with pytest.raises(LockStoreUnavailable) as caught:
        actor.send(2)
    assert isinstance(caught.value.__cause__, redis.RedisError)
    assert rig.pending() == 1
    told = [(event.operation, event.consequence) for event in rig.told("store_error")]
    assert told[0] == ("enqueue", "refused")
    assert ("enqueue", "unlocked") not in told

    locks.up()
    eventually(lambda: outcome(actor.send(2)).action == "enqueued", MADE_GOOD_WITHIN_S)
    rig.drain(threads=1)
    assert ran == [1, 2]
    eventually(lambda: rig.lock_keys() == [])


@each_outage
@only_stub
def test_a_send_goes_on_without_a_lock_where_errors_are_ignored(rig: Rig, locks: LockServer, how: str) -> None:
    """``on_store_error="ignore"``: both copies are enqueued and run, and it is said for each."""
    rig.use(UniqueMiddleware(locks.client(), on_store_error="ignore"))
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed")
    locks.down(how)
    actor.send(1)
    actor.send(1)
    rig.drain()
    assert ran == [1, 1]
    told = [(event.operation, event.consequence) for event in rig.told("store_error")]
    assert told.count(("enqueue", "unlocked")) == 2
    assert told.count(("start", "unlocked")) == 2
    locks.up()


@pytest.mark.parametrize(("how", "lock"), list(zip(OUTAGES, LOCKS, strict=True)))
def test_a_job_that_cannot_lock_is_retried_until_it_can(rig: Rig, locks: LockServer, lock: str, how: str) -> None:
    """The actor does not run unlocked, nothing is lost, and the job runs once when the store is back."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock=lock, max_retries=10_000)
    actor.send(1)
    locks.down(how)
    rig.start(2)
    eventually(lambda: [event.consequence for event in rig.told("store_error")].count("failed") >= 2)
    assert ran == []
    locks.up()
    rig.join()
    assert ran == [1]
    assert rig.dead_letters() == []
    eventually(lambda: rig.lock_keys() == [], MADE_GOOD_WITHIN_S)


@pytest.mark.parametrize(
    ("how", "lock"), [("stopped", LOCKS[0]), ("suspended", LOCKS[2]), *(("shut out", lock) for lock in LOCKS)]
)
@only_stub
def test_a_release_that_cannot_be_made_is_made_good(rig: Rig, locks: LockServer, lock: str, how: str) -> None:
    """The job has succeeded, whatever the store says; its lock goes within 10 s of the store's return."""
    gate, told = Gate(), list[Any]()
    rig.use(UniqueMiddleware(locks.client(), lease=60))  # So that nothing goes by itself.
    actor = rig.actor(gate.arrive, actor_name="work", lock=lock, after_unlock=told.append)
    message = actor.send()
    rig.start(2)
    gate.wait_for_arrival()
    locks.down(how)
    gate.open()
    rig.join()
    eventually(lambda: [event.consequence for event in rig.told("store_error")] == ["later"])
    locks.up()
    eventually(lambda: rig.lock_keys() == [], MADE_GOOD_WITHIN_S)
    if how == "shut out":  # Otherwise the server has forgotten the lock, or let it go before it was asked again.
        eventually(lambda: [seen.message_id for seen in told] == [message.message_id])
        assert rig.told("released")
    assert outcome(actor.send()).action == "enqueued"
    gate.open()
    rig.join()
    eventually(lambda: rig.lock_keys() == [])


@only_stub
def test_a_short_outage_costs_no_lease(rig: Rig, locks: LockServer) -> None:
    """A renewal that fails is said, and tried again before the lease is over."""
    gate = Gate()
    rig.use(UniqueMiddleware(locks.client(), lease=3))
    rig.actor(gate.arrive, actor_name="work", lock="while_executing").send()
    rig.start(2)
    gate.wait_for_arrival()
    locks.down("shut out")
    eventually(lambda: [event.operation for event in rig.told("store_error")] == ["renew"])
    locks.up()
    until = _deadline(rig)
    eventually(lambda: _deadline(rig) > until)
    gate.open()
    rig.join()
    assert not rig.told("lease_lost")
    assert rig.lock_keys() == []


@pytest.mark.parametrize(
    "options", [{"lock": "while_executing"}, {"lock": "until_executed", "lock_ttl": 1}], ids=lambda given: given["lock"]
)
@only_stub
def test_an_outage_longer_than_the_lease_loses_it_and_fails_no_job(
    rig: Rig, locks: LockServer, options: dict[str, Any]
) -> None:
    """``lease_lost`` is told once, the job succeeds, and lets go of nothing that is not its own."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    rig.actor(work, **options).send()
    rig.start(2)
    gate.wait_for_arrival()
    locks.down("shut out")
    eventually(lambda: rig.lock_keys() == [])
    locks.up()
    eventually(lambda: rig.told("lease_lost"))
    gate.open()
    rig.join()
    assert len(rig.told("lease_lost")) == 1
    assert len(runs.ended) == 1
    assert leases_kept(rig) == []


@pytest.mark.parametrize(
    ("how", "lock"),
    [("stopped", "until_executing"), ("suspended", "until_executed"), ("shut out", "until_and_while_executing")],
)
@only_stub
def test_a_retry_during_an_outage_is_not_lost(rig: Rig, locks: LockServer, lock: str, how: str) -> None:
    """Raising where Dramatiq enqueues would lose the message: it goes on without its lock, and that is said."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()
            if len(runs.started) == 1:
                raise ValueError

    rig.actor(work, lock=lock, max_retries=10_000).send()
    rig.start(2)
    gate.wait_for_arrival()
    locks.down(how)
    gate.open()
    eventually(lambda: ("enqueue", "unlocked") in [(e.operation, e.consequence) for e in rig.told("store_error")])
    locks.up()
    gate.open()
    rig.join()
    assert len(runs.ended) == 2
    assert rig.dead_letters() == []
    eventually(lambda: rig.lock_keys() == [], MADE_GOOD_WITHIN_S)


@each_outage
def test_a_delayed_message_that_comes_due_during_an_outage_is_not_lost(rig: Rig, locks: LockServer, how: str) -> None:
    """It goes from the delay queue into the queue without its lock, and its start is tried until the store is back."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed", max_retries=10_000)
    actor.send_with_options(args=(1,), delay=50)
    locks.down(how)
    rig.start(2)
    eventually(lambda: {"enqueue", "start"} <= {event.operation for event in rig.told("store_error")})
    locks.up()
    rig.join()
    assert ran == [1]
    eventually(lambda: rig.lock_keys() == [], MADE_GOOD_WITHIN_S)


@each_outage
@only_stub
def test_a_job_that_waits_for_a_lock_is_not_lost(rig: Rig, locks: LockServer, how: str) -> None:
    """An outage ends the wait as a failure, which is retried: both run, whoever holds what by then."""
    gate, ran = Gate(), []

    def work(number: int) -> None:
        gate.arrive()
        ran.append(number)

    actor = rig.actor(work, lock="while_executing", lock_args=[], lock_timeout=30, max_retries=10_000)
    actor.send(1)
    rig.start(2)
    gate.wait_for_arrival()
    actor.send(2)
    eventually(locks.admin.pubsub_channels)
    locks.down(how)
    eventually(lambda: "start" in [event.operation for event in rig.told("store_error")])
    gate.open(2)
    locks.up()
    rig.join()
    assert sorted(ran) == [1, 2]
    eventually(lambda: rig.lock_keys() == [], MADE_GOOD_WITHIN_S)


@only_stub
def test_a_replica_that_cannot_be_written_to_is_named(rig: Rig, locks: LockServer) -> None:
    """After a failover to the wrong server: a send is refused with the server's own words, and nothing is lost."""
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock="until_executed", max_retries=10_000)
    actor.send(1)
    with RedisServer(repl_diskless_sync_delay="0") as leader:
        locks.admin.replicaof("127.0.0.1", leader.port)
        eventually(lambda: locks.admin.info("replication").get("master_link_status") == "up")
        with pytest.raises(LockStoreUnavailable, match="read only replica"):
            actor.send(2)
        assert rig.pending() == 1
        rig.start(2)
        eventually(lambda: "failed" in [event.consequence for event in rig.told("store_error")])
        assert ran == []
        locks.admin.replicaof("NO", "ONE")
        rig.join()
    assert ran == [1]


@pytest.mark.parametrize("lock", LOCKS)
@only_stub
def test_a_store_without_memory_refuses_a_send_and_lets_go_of_what_runs(rig: Rig, locks: LockServer, lock: str) -> None:
    """``maxmemory`` with ``noeviction``: a send is refused clearly, a release works."""
    gate = Gate()
    actor = rig.actor(lambda number: gate.arrive(), actor_name="work", lock=lock)
    actor.send(1)
    rig.start(2)
    gate.wait_for_arrival()
    with _no_memory(locks.admin):
        other = rig.actor(print, actor_name="other", lock="until_executed")
        with pytest.raises(LockStoreUnavailable, match="maxmemory"):
            other.send(2)
        gate.open()
        rig.join()
        assert rig.lock_keys() == []


@only_stub
def test_a_store_without_memory_keeps_the_lease_of_what_runs(rig: Rig, locks: LockServer) -> None:
    """A renewal needs no more memory than there is: the job stays locked for as long as it runs."""
    gate = Gate()
    rig.actor(gate.arrive, actor_name="work", lock="while_executing").send()
    rig.start(2)
    gate.wait_for_arrival()
    with _no_memory(locks.admin):
        until = _deadline(rig)
        eventually(lambda: rig.told("store_error") or _deadline(rig) > until)
        gate.open()
        rig.join()
    assert not rig.told("store_error")
    assert not rig.told("lease_lost")


@contextmanager
def _no_memory(admin: Any) -> Iterator[None]:
    """Leave a server nothing to write into."""
    admin.config_set("maxmemory-policy", "noeviction")
    admin.config_set("maxmemory", 1)
    try:
        yield
    finally:
        admin.config_set("maxmemory", 0)


def _deadline(rig: Rig) -> int:
    """Look until when the one lock there is is held, by the server's clock."""
    [key] = rig.lock_keys()
    [record] = [value for field, value in rig.redis.hgetall(key).items() if field.startswith(b"o:")]
    return int(record.split()[2])
