"""The locks beside the rest of Dramatiq: async actors, limits, aborts, gevent."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import dramatiq_abort
import pytest
import redis
from dramatiq.asyncio import get_event_loop_thread, set_event_loop_thread
from dramatiq.middleware import AsyncIO
from dramatiq_abort.backends import StubBackend

from dramatiq_unique import DuplicateMessage, outcome
from tests.processes.workers import ROOT, environment
from tests.rig import Gate, Rig, Runs, eventually
from tests.servers import GivenRedis, RedisServer


@pytest.fixture
def _event_loop(rig: Rig) -> Iterator[None]:
    """The event loop thread that AsyncIO starts, ended with the test."""
    rig.broker.add_middleware(AsyncIO())
    yield
    rig.stop()
    thread = get_event_loop_thread()
    if thread is not None:
        thread.stop()
        set_event_loop_thread(None)


@pytest.mark.usefixtures("_event_loop")
@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "while_executing", "until_and_while_executing"])
def test_an_async_actor_is_locked_like_any_other(rig: Rig, lock: str) -> None:
    """Its body runs on the event loop's thread; its locks are those of its delivery."""
    runs = Runs()

    async def work(number: int) -> None:
        with runs.of(number):
            await asyncio.sleep(0)

    actor = rig.actor(work, lock=lock)
    sent = [actor.send(1) for _ in range(2)]
    assert outcome(sent[1]).action == ("enqueued" if lock == "while_executing" else "discarded")
    rig.drain()
    assert len(runs.ended) == (2 if lock == "while_executing" else 1)
    assert runs.most_at_once == 1
    assert rig.lock_keys() == []


@pytest.mark.usefixtures("_event_loop")
def test_what_an_async_actor_sends_may_be_refused_loudly(rig: Rig) -> None:
    """Its send is a caller's send, on whatever thread it is made."""
    refused: list[str | None] = []
    target = rig.actor(lambda: None, actor_name="target", lock="until_executed", on_conflict="raise")
    first = target.send_with_options(delay=60_000)

    async def work() -> None:
        try:
            target.send()
        except DuplicateMessage as error:
            refused.append(error.holder_id)

    rig.actor(work).send()
    rig.start()
    eventually(lambda: refused == [first.message_id])


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_and_while_executing"])
def test_a_message_that_is_too_old_lets_go(rig: Rig, lock: str) -> None:
    """C27: the age limit skips it and fails it."""
    actor = rig.actor(lambda: None, actor_name="work", lock=lock, max_age=1)
    message = actor.send()
    eventually(lambda: time.time() * 1000 > message.message_timestamp + 5)
    rig.drain()
    assert len(rig.dead_letters()) == 1
    assert rig.lock_keys() == []


@pytest.mark.parametrize("lock", ["until_executed", "while_executing", "until_and_while_executing"])
def test_a_message_that_takes_too_long_lets_go(rig: Rig, lock: str) -> None:
    """A time limit is an Interrupt in the actor: no lock is left once the message was rejected."""
    limit = next(m for m in rig.broker.middleware if isinstance(m, dramatiq.middleware.TimeLimit))
    limit.manager.interval = 0.02  # type: ignore[union-attr]
    rig.broker.emit_after("process_boot")

    def work() -> None:
        deadline_s = time.monotonic() + 15
        while time.monotonic() < deadline_s:
            time.sleep(0.005)  # Work that takes time, where an Interrupt can land.

    actor = rig.actor(work, lock=lock, time_limit=200, max_retries=0)
    actor.send()
    rig.drain()
    assert len(rig.dead_letters()) == 1
    assert rig.lock_keys() == []


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_and_while_executing"])
def test_a_message_that_was_aborted_before_it_began_lets_go(rig: Rig, lock: str) -> None:
    """`dramatiq-abort` skips it, before our hook or after it."""
    backend = StubBackend()
    abortable = dramatiq_abort.Abortable(backend=backend)
    rig.broker.add_middleware(abortable)
    ran: list[int] = []
    actor = rig.actor(ran.append, actor_name="work", lock=lock)
    message = actor.send(1)
    dramatiq_abort.abort(message.message_id, middleware=abortable)
    rig.drain()
    assert ran == []
    assert rig.lock_keys() == []


@pytest.mark.parametrize("lock", ["until_executed", "while_executing", "until_and_while_executing"])
def test_a_message_that_is_aborted_while_it_runs_lets_go(rig: Rig, lock: str) -> None:
    """The abort is an Interrupt in the actor; dramatiq-abort does not retry it."""
    backend = StubBackend()
    abortable = dramatiq_abort.Abortable(backend=backend)
    rig.broker.add_middleware(abortable)
    rig.broker.emit_after("process_boot")
    gate = Gate()

    def work() -> None:
        gate.arrive()
        deadline_s = time.monotonic() + 15
        while time.monotonic() < deadline_s:
            time.sleep(0.005)  # Work that takes time, where an Interrupt can land.

    actor = rig.actor(work, lock=lock, max_retries=0)
    message = actor.send()
    rig.start()
    gate.wait_for_arrival()
    gate.open()
    dramatiq_abort.abort(message.message_id, middleware=abortable)
    rig.join()
    eventually(lambda: rig.lock_keys() == [])


def test_gevent_workers_keep_the_locks(server: RedisServer | GivenRedis, redis_client: "redis.Redis") -> None:
    """`dramatiq-gevent` runs actors in greenlets: all of them run, never two of a key at once, and nothing is left."""
    client: Any = redis_client
    command: list[str | Path] = [
        Path(sys.executable).with_name("dramatiq-gevent"),
        "tests.processes.jobs",
        "-p",
        "1",
        "-t",
        "8",
    ]
    worker = subprocess.Popen(command, env=environment(server.url), cwd=ROOT, start_new_session=True)
    try:
        code = "from tests.processes.jobs import alone, once\nfor n in range(10): alone.send('k', n); once.send('o')"
        subprocess.run([sys.executable, "-c", code], env=environment(server.url), cwd=ROOT, check=True, timeout=60)
        eventually(lambda: client.llen("ran:k") == 10, 50)
        eventually(lambda: list(client.scan_iter("dramatiq-unique:*")) == [], 20)
    finally:
        worker.terminate()
        worker.wait(30)
    assert set(client.lrange("together:k", 0, -1)) == {b"1"}
