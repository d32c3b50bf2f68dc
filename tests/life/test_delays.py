"""C21: a delayed message is enqueued twice and acknowledged twice, and is one message all the same."""

from typing import Any

import pytest
from dramatiq.common import dq_name
from dramatiq.middleware import Middleware

from dramatiq_unique import outcome
from tests.rig import Gate, Rig, Runs, eventually


ALL = ["until_executing", "until_executed", "until_expired", "while_executing", "until_and_while_executing"]


@pytest.mark.parametrize("lock", ALL)
def test_a_delayed_message_runs_once_and_is_not_its_own_duplicate(rig: Rig, lock: str) -> None:
    """A copy is refused meanwhile where the type says so; when it comes due it goes on with the lock it has."""
    runs = Runs()

    def work() -> None:
        with runs.of():
            pass

    actor = rig.actor(
        work, lock=lock, lock_ttl=60, on_conflict={"client": "raise"} if lock != "while_executing" else None
    )
    first = actor.send_with_options(delay=200)
    if lock != "while_executing":
        assert outcome(actor.send_with_options(on_conflict=None)).holder_id == first.message_id
    rig.drain()
    assert len(runs.ended) == 1
    assert rig.dead_letters() == []
    assert rig.told("lapsed") == []
    assert rig.holders() == ({first.message_id} if lock == "until_expired" else set())


@pytest.mark.parametrize("lock", ["until_executed", "until_and_while_executing"])
def test_acknowledging_the_delayed_copy_frees_nothing(rig: Rig, lock: str) -> None:
    """The ack of the copy on the delay queue is not the end of the message."""
    acknowledged: list[str] = []

    class Looks(Middleware):
        def after_ack(self, broker: Any, message: Any) -> None:
            acknowledged.append(message.queue_name)

    rig.broker.add_middleware(Looks())
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock=lock)
    blocker = rig.actor(gate.arrive, actor_name="blocker")
    rig.start(threads=1)
    blocker.send()
    gate.wait_for_arrival()
    first = actor.send_with_options(delay=50)
    eventually(lambda: acknowledged == [dq_name(rig.queue)])
    assert rig.holders() == {first.message_id}
    assert outcome(actor.send()).holder_id == first.message_id
    gate.open(2)
    rig.join()


@pytest.mark.parametrize("delay", [-5, 0])
def test_an_odd_delay_is_as_dramatiq_takes_it(rig: Rig, delay: int) -> None:
    """A delay of nothing, or in the past, is due at once, and no life is shortened by it."""
    runs = Runs()

    def work() -> None:
        with runs.of():
            pass

    actor = rig.actor(work, lock="until_executed", lock_ttl=60)
    actor.send_with_options(delay=delay)
    [key] = rig.lock_keys("queue")
    assert rig.redis.ttl(key) >= 59
    rig.drain()
    assert len(runs.ended) == 1


def test_an_absurd_delay_overflows_nothing(rig: Rig) -> None:
    """Ten thousand years: Dramatiq takes it, and so does the lock."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    message = actor.send_with_options(delay=10_000 * 365 * 24 * 3600 * 1000)
    assert outcome(message).action == "enqueued"
    [key] = rig.lock_keys("queue")
    assert rig.redis.ttl(key) > 9 * 365 * 24 * 3600
