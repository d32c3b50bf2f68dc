"""C28: a time limit lands inside a hook, where Dramatiq cannot hold it back.

An interrupt is an exception that another thread raises in this one, wherever it is. While the actor succeeds, the after
hooks then come a second time and the job is retried. While an exception is handled, the worker thread dies, and of the
hooks only those of the ack or nack are still called; what was to be retried is lost to Dramatiq itself.
"""

import logging
import threading
from typing import Any, NoReturn

import pytest
import redis
from dramatiq.middleware import TimeLimitExceeded
from dramatiq.middleware.threading import raise_thread_exception

from dramatiq_unique.store import RedisStore
from tests.processes.desk import Desk, Landing, leases_kept
from tests.rig import Rig, eventually


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

LOCKS = ["until_executing", "until_executed", "while_executing", "until_and_while_executing"]
on_every_broker = pytest.mark.parametrize("backend", ["stub-last", "redis-first", "rabbitmq-last"])


class Once:
    """Around one call of the lock store: a time limit lands, the first time only.

    Args:
        monkeypatch: Undoes it.
        operation: The name of the call.
        when: ``"before"``, or ``"after"``: Redis has done it, and nobody here knows the answer.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, operation: str, when: str) -> None:
        self.landed = False
        call = getattr(RedisStore, operation)

        def call_or_land(*args: Any, **kwargs: Any) -> Any:
            lands, self.landed = not self.landed, True
            if lands and when == "before":
                _land()
            answer = call(*args, **kwargs)
            if lands:
                _land()
            return answer

        monkeypatch.setattr(RedisStore, operation, call_or_land)


@on_every_broker
@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_time_limit_around_the_start_leaves_no_lock(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lock: str, when: str
) -> None:
    """The job is retried and runs; then nothing is locked, and nothing is renewed."""
    ran: list[int] = []
    rig.actor(ran.append, actor_name="work", lock=lock).send(1)
    once = Once(monkeypatch, "begin", when)
    rig.start(2)
    rig.join()
    assert once.landed
    assert ran == [1]
    assert leases_kept(rig) == []
    assert rig.lock_keys() == []


@on_every_broker
@pytest.mark.parametrize("lock", ["until_executed", "while_executing", "until_and_while_executing"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_time_limit_around_the_release_after_a_success_leaves_no_lock(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lock: str, when: str
) -> None:
    """The job is retried, for Dramatiq takes it for failed; then nothing is locked, and nothing is renewed."""
    ran: list[int] = []
    rig.actor(ran.append, actor_name="work", lock=lock).send(1)
    once = Once(monkeypatch, "finish", when)
    rig.start(2)
    rig.join()
    assert once.landed
    assert ran == [1, 1]
    assert leases_kept(rig) == []
    assert rig.lock_keys() == []


@on_every_broker
@pytest.mark.parametrize(
    ("lock", "operation"),
    [
        ("until_executing", "acquire"),
        ("until_executed", "acquire"),
        ("while_executing", "finish"),
        ("until_and_while_executing", "acquire"),
        ("until_and_while_executing", "finish"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_time_limit_while_a_failure_is_handled_leaves_no_lock(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lock: str, operation: str, when: str
) -> None:
    """It lands in the release, or where the retry is enqueued: the thread dies, the message is acknowledged."""

    def work() -> None:
        raise ValueError

    rig.actor(work, lock=lock).send()
    once = Once(monkeypatch, operation, when)
    worker = rig.start(2)
    eventually(lambda: once.landed and rig.pending() == 0)
    eventually(lambda: not all(thread.is_alive() for thread in worker.workers))
    assert leases_kept(rig) == []
    assert rig.lock_keys() == []


@on_every_broker
@pytest.mark.parametrize("lock", ["until_executed", "while_executing"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_nothing_is_renewed_for_a_message_that_was_never_rejected(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lock: str, when: str
) -> None:
    """It lands in the very hook that lets go at the end: the broker is not told, and will deliver the message again."""

    def work() -> None:
        raise ValueError

    message = rig.actor(work, lock=lock, max_retries=0).send()
    once = Once(monkeypatch, "finish", when)
    worker = rig.start(2)
    eventually(lambda: once.landed and not all(thread.is_alive() for thread in worker.workers))
    assert leases_kept(rig) == []
    # Whatever is left is the message's own, which lets its next delivery in.
    assert rig.holders("queue") | rig.holders("run") <= {message.message_id}
    assert when == "before" or rig.lock_keys() == []


@pytest.mark.parametrize(
    ("lock", "ending"),
    [
        ("until_executed", "is rejected"),
        ("until_and_while_executing", "succeeds"),
        ("until_and_while_executing", "is retried"),
    ],
)
def test_wherever_a_time_limit_lands_no_lock_is_left_and_nobody_is_stuck(
    redis_client: "redis.Redis", caplog: pytest.LogCaptureFixture, lock: str, ending: str
) -> None:
    """At each place in turn where one could land on a worker's thread, from the delivery to the end."""
    caplog.set_level(logging.CRITICAL)  # Hundreds of failures are logged, and none of them is the test's.

    def work() -> None:
        if ending != "succeeds":
            raise ValueError

    place = 1
    while _is_a_place(Desk(redis_client), place, work, lock=lock, max_retries=int(ending != "is rejected")):
        place += 1
    assert place > 50, "too few places: is the profiler called at all?"


def _is_a_place(desk: Desk, place: int, work: Any, **options: Any) -> bool:
    landing = Landing(place)
    desk.rig.actor(work, **options | {"min_backoff": 1, "max_backoff": 2}).send()
    try:
        over = desk.work(landing)
        left = leases_kept(desk.rig), desk.rig.lock_keys() if over else []
        desk.shut_down()
    except AssertionError as exc:
        pytest.fail(f"{exc} after place {place}: {landing.where}")
    assert left == ([], []), f"left after place {place}: {landing.where}"
    return bool(landing.where)


def _land() -> NoReturn:
    """Have a time limit raised in this thread, as Dramatiq's does, and wait until it lands."""
    raise_thread_exception(threading.get_ident(), TimeLimitExceeded)
    while True:
        pass
