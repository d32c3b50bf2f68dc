"""Workers that are killed, stopped and shut down while they run a job, on the brokers that deliver it again."""

from collections.abc import Iterator

import pytest
import redis
from dramatiq import Message

from dramatiq_unique import outcome
from tests.processes.site import LEASE_S, Site
from tests.rig import eventually
from tests.servers import GivenRedis, RedisServer, rabbitmq_answers


LEASE_MS = LEASE_S * 1000
PROMPTLY_MS = 10_000
"""What a busy machine may take beyond a lease: to look again, to deliver, to start."""
BELIEVED_MS = 5000
"""How long a holder is believed after it was last seen, where a lease is shorter."""


@pytest.fixture(params=["redis", "rabbitmq"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of broker; a test may narrow it."""
    name: str = request.param
    return name


@pytest.fixture
def site(kind: str, server: RedisServer | GivenRedis, redis_client: "redis.Redis") -> Iterator[Site]:
    """A broker with nothing in it, and workers to kill."""
    if kind == "rabbitmq" and not rabbitmq_answers():
        pytest.skip("RabbitMQ is taken where it runs, and it does not run here")
    made = Site(kind, server.url, redis_client)
    yield made
    made.close()


def test_a_killed_worker_blocks_its_key_for_one_lease_at_most(site: Site) -> None:
    """C01: the next copy runs within a lease of the kill; the killed job runs again; the two never overlap."""
    first_worker = site.worker("first")
    site.send("while_executing", "x")
    site.wait_for("started", "x", 1)
    site.worker("second")
    killed_ms = site.kill(first_worker, "first")
    site.send("while_executing", "copy")
    site.open("copy", 1)
    site.open("x", 2)

    started = site.wait_for("started", "copy", 1)
    site.wait_for("ended", "copy", 1)
    site.wait_for("ended", "x", 2)
    assert started.at_ms - killed_ms < LEASE_MS + PROMPTLY_MS
    assert site.most_at_once() == 1
    eventually(lambda: site.lock_keys() == [])


def test_a_job_delivered_again_gets_its_own_lock_back(site: Site) -> None:
    """C02: the queue lock lets its own message in at once, and refuses a copy before and after."""
    first_worker = site.worker("first")
    x = site.send("until_executed", "x")
    site.wait_for("started", "x", 1)
    site.worker("second")
    site.kill(first_worker, "first")

    _assert_refused(site.send("until_executed", "copy"), x)
    site.wait_for("started", "x", 2)
    _assert_refused(site.send("until_executed", "copy"), x)
    assert not site.told("lapsed", x)
    assert not site.told("rescheduled", x)
    assert not site.told("locked", x)  # It was never without.
    site.open("x", 2)
    site.wait_for("ended", "x", 2)
    eventually(lambda: site.lock_keys() == [])
    assert outcome(site.send("until_executed", "next")).action == "enqueued"


@pytest.mark.parametrize("kind", ["redis"])
def test_a_job_that_is_lost_with_its_worker_blocks_its_key_for_a_lease_at_most(site: Site) -> None:
    """The broker has forgotten the job that ran, so nobody delivers it again: the next send takes its lock over."""
    worker = site.worker("only")
    x = site.send("until_executed", "x")
    site.wait_for("started", "x", 1)
    killed_ms = site.kill(worker, "only")
    site.redis.delete(*site.redis.scan_iter("dramatiq:*"))

    _assert_refused(site.send("until_executed", "copy"), x)
    eventually(lambda: outcome(site.send("until_executed", "copy")).action == "enqueued")
    assert site.now_ms() - killed_ms < max(LEASE_MS, BELIEVED_MS) + PROMPTLY_MS


def test_the_lock_travels_with_a_job_that_a_shutdown_interrupts(site: Site) -> None:
    """C03: a deploy raises Shutdown in the actor; a copy sent before the job runs again is refused."""
    worker = site.worker("first")
    x = site.send("until_executed", "x")
    site.wait_for("started", "x", 1)
    worker.shut_down()
    assert [step.what for step in site.steps()] == ["started", "Shutdown"]
    _assert_refused(site.send("until_executed", "copy"), x)

    site.worker("second")
    site.wait_for("started", "x", 2)
    _assert_refused(site.send("until_executed", "copy"), x)
    site.open("x", 2)
    site.wait_for("ended", "x", 2)
    eventually(lambda: site.lock_keys() == [])
    assert not site.told("lapsed", x)


def test_a_copy_that_waits_starts_after_the_first_ends_however_long_it_takes(site: Site) -> None:
    """C04: a lease is no time limit. One runs for several leases, one waits, and no third is let in."""
    site.worker("only")
    x = site.send("until_and_while_executing", "x")
    site.wait_for("started", "x", 1)
    copy = site.send("until_and_while_executing", "copy")
    assert outcome(copy).action == "enqueued"

    def kept_for_ms() -> int:
        record = site.record(x)
        assert record is not None, "the lock of a job that runs is gone"
        return int(record["deadline_ms"] - record["since_ms"])

    eventually(lambda: kept_for_ms() > 3 * LEASE_MS)
    assert site.told("rescheduled", copy, holder_id=x.message_id)  # It came up, and was put back.
    _assert_refused(site.send("until_and_while_executing", "third"), copy)
    site.open("x", 1)
    site.wait_for("started", "copy", 1)
    site.open("copy", 1)
    site.wait_for("ended", "copy", 1)
    assert [(step.what, step.name) for step in site.steps()] == [
        ("started", "x"),
        ("ended", "x"),
        ("started", "copy"),
        ("ended", "copy"),
    ]
    eventually(lambda: site.lock_keys() == [])


def test_a_first_delivery_that_stalled_frees_nothing_of_the_second(site: Site) -> None:
    """C33: a worker stops past its lease, the job starts elsewhere, the worker goes on: its late release is nothing."""
    stalled = site.worker("stalled", TEST_HEARTBEAT_S="1")  # RabbitMQ waits for two of them to fail to come.
    x = site.send("while_executing", "x")
    site.wait_for("started", "x", 1)
    site.worker("other")
    stalled.suspend()
    assert site.wait_for("started", "x", 2).worker == "other"
    second = site.record(x)
    assert second is not None

    stalled.resume()
    eventually(lambda: site.told("lease_lost", x, worker="stalled"))
    site.open("x", 1)
    site.wait_for("ended", "x", 1)
    eventually(lambda: site.redis.sismember("acked:stalled", x.message_id))
    still = site.record(x)
    assert still is not None
    assert still["token"] == second["token"]
    copy = site.send("while_executing", "copy")
    eventually(lambda: site.told("rescheduled", copy, holder_id=x.message_id))
    assert not site.steps("started", "copy")

    site.open("x", 2)
    site.open("copy", 1)
    site.wait_for("ended", "copy", 1)
    assert not site.told("lease_lost", x, worker="other")
    eventually(lambda: site.lock_keys() == [])


@pytest.mark.parametrize("kind", ["redis"])
def test_a_second_delivery_waits_its_turn_and_is_never_dropped(site: Site) -> None:
    """The first delivery's lease lives: the second is put back, retries untouched, whatever ``on_conflict`` says."""
    site.worker("only")
    x = site.send("until_and_while_executing", "x", on_conflict={"server": "log"})
    site.wait_for("started", "x", 1)
    [fetched] = site.redis.hkeys(f"dramatiq:{site.queue}.msgs")
    site.redis.rpush(f"dramatiq:{site.queue}", fetched)  # As the broker does with the messages of a dead worker.

    eventually(lambda: site.told("rescheduled", x, strategy="redelivery", holder_id=x.message_id))
    [put_back] = map(Message.decode, site.redis.hvals(f"dramatiq:{site.queue}.DQ.msgs"))
    assert put_back.message_id == x.message_id
    assert put_back.options.get("retries", 0) == 0
    # Until it has come back once more, and still was neither run nor dropped.
    eventually(lambda: len(site.told("rescheduled", x, strategy="redelivery")) > 1)
    assert len(site.steps("started", "x")) == 1
    assert not site.told("refused", x)

    site.open("x", 1)
    site.open("x", 2)
    site.wait_for("ended", "x", 2)
    assert site.most_at_once() == 1
    eventually(lambda: site.lock_keys() == [])


def _assert_refused(copy: Message[object], holder: Message[object]) -> None:
    refused = outcome(copy)
    assert (refused.action, refused.holder_id) == ("discarded", holder.message_id)
