"""Pipelines, groups, callbacks and results."""

from typing import Any

import dramatiq
import pytest
import structlog
from dramatiq.rate_limits.backends import StubBackend as StubLimits
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend as StubResults

from dramatiq_unique import original, outcome
from tests.rig import Gate, Rig, Runs, eventually


def test_a_pipeline_whose_step_is_refused_says_whose_step_is_lost(rig: Rig) -> None:
    """C30: one line that names the actor of the next step, although the strategy is silent."""
    first = rig.actor(lambda: 1, actor_name="first", lock="until_executed")
    ran: list[int] = []
    second = rig.actor(lambda *_: ran.append(1), actor_name="second")
    (first.message() | second.message()).run()
    with structlog.testing.capture_logs() as lines:
        (first.message() | second.message()).run()
    [line] = [line for line in lines if line["event"] == "refused"]
    assert (line["log_level"], line["next_actor"]) == ("warning", "second")
    rig.drain()
    assert ran == [1]


def test_the_next_step_of_a_pipeline_is_sent_by_dramatiq(rig: Rig) -> None:
    """A duplicate that would be raised there is dead-lettered, since nobody could catch it."""
    gate = Gate()
    target = rig.actor(gate.arrive, actor_name="target", lock="until_executed", on_conflict="raise")
    source = rig.actor(lambda: None, actor_name="source", pipe_ignore=True)
    target.send()
    rig.start()
    gate.wait_for_arrival()
    (source.message() | target.message_with_options(pipe_ignore=True)).run()
    eventually(rig.dead_letters)
    assert [letter.actor_name for letter in rig.dead_letters()] == ["target"]
    gate.open()
    rig.join()


def test_a_callback_is_sent_by_dramatiq(rig: Rig) -> None:
    """The same for what ``on_success`` sends."""
    gate = Gate()
    target = rig.actor(
        lambda *_: gate.arrive(), actor_name="target", lock="until_executed", on_conflict="raise", lock_args=[]
    )
    source = rig.actor(lambda: None, actor_name="source")
    target.send()
    rig.start()
    gate.wait_for_arrival()
    source.send_with_options(on_success=target)
    eventually(rig.dead_letters)
    gate.open()
    rig.join()


def test_a_step_whose_arguments_have_no_canonical_form_is_not_lost(rig: Rig) -> None:
    """Dramatiq would swallow an error there; the message goes on, and the worker says what is wrong."""
    target = rig.actor(
        lambda _: None, actor_name="target", lock="until_executed", lock_args_method=lambda _: None, max_retries=0
    )
    source = rig.actor(lambda: 1, actor_name="source")
    (source.message() | target.message()).run()
    rig.drain()
    assert [letter.actor_name for letter in rig.dead_letters()] == ["target"]


def test_a_refused_child_counts_as_done_in_its_group(rig: Rig) -> None:
    """C29: one child refused at enqueue and one dropped at the worker; the completion callback fires once."""
    rig.broker.add_middleware(dramatiq.middleware.GroupCallbacks(StubLimits()))
    gate = Gate()
    done: list[int] = []
    callback = rig.actor(lambda: done.append(1), actor_name="callback")
    queued = rig.actor(gate.arrive, actor_name="queued", lock="until_executed")
    running = rig.actor(gate.arrive, actor_name="running", lock="while_executing", on_conflict="log")
    queued.send()
    running.send()
    rig.start()
    gate.wait_for_arrival()
    gate.wait_for_arrival()
    group = dramatiq.group([queued.message(), running.message(), callback.message()], broker=rig.broker)
    group.add_completion_callback(callback.message())
    group.run()
    eventually(lambda: len(done) == 2)
    gate.open(2)
    rig.join()
    assert len(done) == 2


def test_the_original_of_a_refused_message_has_the_result(rig: Rig) -> None:
    """C32: ``original(x2).get_result(block=True)`` waits for the one that does the work."""
    backend = StubResults()
    rig.broker.add_middleware(Results(backend=backend))
    actor = rig.actor(
        lambda number: number * 2, actor_name="work", lock="until_executed", store_results=True, lock_args=[]
    )
    first, second = actor.send(4), actor.send(5)
    assert original(first) is first
    assert original(second).message_id == first.message_id
    rig.start()
    assert original(second).get_result(backend=backend, block=True) == 8
    assert outcome(original(second)).action == "enqueued"


def test_the_original_may_be_on_another_queue_and_actor(rig: Rig) -> None:
    """Where the lock is shared, the handle names the holder's own queue and actor."""
    options: dict[str, Any] = {
        "lock": "until_executed",
        "unique_across_queues": True,
        "unique_across_actors": True,
        "lock_args": [],
    }
    one = rig.actor(lambda: None, actor_name="one", queue_name="left", **options)
    two = rig.actor(lambda: None, actor_name="two", queue_name="right", **options)
    first = one.send_with_options(delay=10)
    handle = original(two.send())
    assert (handle.message_id, handle.actor_name, handle.queue_name) == (first.message_id, "one", "left")


def test_a_rescheduled_message_has_no_result_before_it_has_run(rig: Rig) -> None:
    """C31: waiting for its result waits for the real one."""
    backend = StubResults()
    rig.broker.add_middleware(Results(backend=backend))
    gate = Gate()

    def work(number: int) -> int:
        gate.arrive()
        return number

    actor = rig.actor(work, lock="while_executing", store_results=True, lock_args=[])
    actor.send(1)
    rig.start()
    gate.wait_for_arrival()
    second = actor.send(2)
    eventually(lambda: rig.told("rescheduled"))
    with pytest.raises(dramatiq.results.ResultMissing):
        second.get_result(backend=backend)
    gate.open(2)
    assert second.get_result(backend=backend, block=True, timeout=20_000) == 2
    rig.join()


def test_runs_helper_counts_overlaps() -> None:
    """The suite's own counter sees two at once."""
    runs = Runs()
    with runs.of(), runs.of():
        pass
    assert runs.most_at_once == 2
