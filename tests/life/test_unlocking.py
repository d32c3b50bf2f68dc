"""``after_unlock``, and waiting for a run lock."""

import time
from typing import Any

import pytest
import structlog
from dramatiq import GenericActor

from tests.rig import Gate, Rig, Runs, eventually


@pytest.mark.parametrize(
    ("lock", "order"),
    [
        ("until_executing", ["unlocked", "body"]),
        ("until_executed", ["body", "unlocked"]),
        ("until_expired", ["body"]),
        ("while_executing", ["body", "unlocked"]),
        ("until_and_while_executing", ["body", "unlocked"]),
    ],
)
def test_after_unlock_is_told_once_at_its_time(rig: Rig, lock: str, order: list[str]) -> None:
    """Before the body for until_executing, after it for the others, and never for a window."""
    seen: list[str] = []
    told: list[str] = []

    def unlocked(message: Any) -> None:
        seen.append("unlocked")
        told.append(message.message_id)

    actor = rig.actor(lambda: seen.append("body"), actor_name="work", lock=lock, lock_ttl=60, after_unlock=unlocked)
    sent = actor.send()
    rig.drain()
    assert seen == order
    assert told == [sent.message_id] * order.count("unlocked")


def test_after_unlock_may_take_no_argument(rig: Rig) -> None:
    """It is called with the message, or with nothing."""
    seen: list[int] = []
    rig.actor(lambda: None, actor_name="work", lock="until_executed", after_unlock=lambda: seen.append(1)).send()
    rig.drain()
    assert seen == [1]


def test_after_unlock_may_be_a_method_of_a_class_based_actor(rig: Rig) -> None:
    """So may what counts, by the method's name."""
    seen: list[Any] = []

    class Work(GenericActor):
        class Meta:
            broker = rig.broker
            lock = "until_executed"
            lock_args_method = "key"

        def perform(self, number: int, note: str) -> None:
            seen.append(number)

        def key(self, number: int, note: str) -> int:
            return number

        def after_unlock(self, message: Any) -> None:
            seen.append(message.message_id)

    send: Any = Work.send
    first = send(1, "a")
    send(1, "b")
    rig.drain()
    assert seen == [1, first.message_id]


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "while_executing"])
def test_after_unlock_that_raises_cannot_fail_the_job(rig: Rig, lock: str) -> None:
    """It is logged and told as an event."""
    ran: list[int] = []

    def unlocked() -> None:
        raise RuntimeError("hook")

    actor = rig.actor(lambda: ran.append(1), actor_name="work", lock=lock, after_unlock=unlocked)
    with structlog.testing.capture_logs() as lines:
        actor.send()
        rig.drain()
    assert ran == [1]
    assert [event.error for event in rig.told("after_unlock_failed")] == ["RuntimeError"]
    assert [line["log_level"] for line in lines if line["event"] == "after_unlock_failed"] == ["error"]
    assert rig.dead_letters() == []


def test_a_worker_that_waits_for_a_run_lock_is_woken_by_its_release(rig: Rig) -> None:
    """With ``lock_timeout`` the second starts when the first ends, without being put back."""
    gate, runs = Gate(), Runs()

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    actor = rig.actor(work, lock="while_executing", lock_timeout=20, lock_args=[])
    actor.send(1)
    rig.start()
    gate.wait_for_arrival()
    actor.send(2)
    eventually(lambda: _listeners(rig) == 1)
    began_s = time.monotonic()
    gate.open(2)
    rig.join()
    assert runs.ended == [1, 2]
    assert runs.most_at_once == 1
    assert rig.told("rescheduled") == []
    assert time.monotonic() - began_s < 15


def test_a_worker_waits_no_longer_than_its_lock_timeout(rig: Rig) -> None:
    """When the time is over the strategy applies."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="while_executing", lock_timeout=0.1, on_conflict="reject")
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    second = actor.send()
    eventually(lambda: [letter.message_id for letter in rig.dead_letters()] == [second.message_id])
    gate.open()
    rig.join()


def test_a_worker_that_waits_takes_over_when_the_holder_dies(rig: Rig) -> None:
    """Nobody tells of a lease that ends; the waiting worker looks again when it does."""
    gate, runs = Gate(), Runs()

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    actor = rig.actor(work, lock="while_executing", lock_timeout=20, lock_args=[], lock_ttl=1)
    first = actor.send(1)
    rig.start()
    gate.wait_for_arrival()
    [key] = rig.lock_keys("run")
    record = rig.redis.hget(key, f"o:{first.message_id}").decode().split()
    actor.send(2)
    eventually(lambda: _listeners(rig) == 1)
    # As if its process had died: another token, which nobody renews, and a deadline that is near.
    record[2], record[4] = str(int(time.time() * 1000) + 300 - int(record[0])), "dead"
    rig.redis.hset(key, f"o:{first.message_id}", " ".join(record))
    gate.wait_for_arrival()
    assert runs.started == [1, 2]
    gate.open(2)
    rig.join()


def _listeners(rig: Rig) -> int:
    return sum(count for _, count in rig.redis.pubsub_numsub(*_channels(rig)))


def _channels(rig: Rig) -> list[Any]:
    return list(rig.redis.pubsub_channels("dramatiq-unique:*"))
