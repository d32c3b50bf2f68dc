"""Test your own actors: Dramatiq's Stub broker, fakeredis for the locks, and pytest. No server, nothing to set up.

    python -m pytest examples/test_your_actors.py

To be copied. In your application the broker and the actors stand in a module of their own, which takes the Stub broker
and fakeredis when it is tested.
"""

import dramatiq
import fakeredis
import pytest
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import DuplicateMessage, UniqueMiddleware
from dramatiq_unique.testing import (
    assert_enqueued,
    assert_locked,
    assert_not_locked,
    assert_refused,
    disabled,
    free_everything,
)


# The application.

broker = StubBroker()
unique = UniqueMiddleware(fakeredis.FakeRedis())
broker.add_middleware(unique)
mails: list[int] = []


@dramatiq.actor(broker=broker, lock="until_executed", max_retries=0)
def welcome(user_id: int) -> None:
    """Mail a user; there are none below zero."""
    if user_id < 0:
        raise ValueError(user_id)
    mails.append(user_id)


# Its tests.


@pytest.fixture(autouse=True)
def _nothing_left() -> None:
    """Begin each test without messages, locks and mails."""
    broker.flush_all()
    free_everything(unique)
    mails.clear()


def work() -> None:
    """Do everything that was sent, in this process, and raise what a dead letter died of."""
    worker = dramatiq.Worker(broker, worker_timeout=100)
    worker.start()
    try:
        broker.join("default")
        worker.join()
    finally:
        worker.stop()


def test_a_duplicate_is_refused_while_the_first_waits() -> None:
    """No worker is needed to see that: the lock is taken by `send`."""
    first, second = welcome.send(1), welcome.send(1)
    assert_enqueued(first)
    assert_refused(second, by=first)
    assert_locked(welcome, 1)


def test_another_user_is_no_duplicate() -> None:
    """The arguments count."""
    assert_enqueued(welcome.send(1))
    assert_enqueued(welcome.send(2))


def test_a_duplicate_can_be_an_error() -> None:
    """A message can say more strictly than its actor what a duplicate is."""
    welcome.send(1)
    with pytest.raises(DuplicateMessage):
        welcome.send_with_options(args=(1,), on_conflict="raise")


def test_two_sends_are_one_run() -> None:
    """The duplicate never reaches a worker."""
    welcome.send(1)
    welcome.send(1)
    work()
    assert mails == [1]


def test_the_lock_is_free_again_after_the_run() -> None:
    """A message that comes after the run is a new one."""
    welcome.send(1)
    work()
    assert_not_locked(welcome, 1)
    assert_enqueued(welcome.send(1))


def test_the_lock_is_free_again_after_a_failure() -> None:
    """A message that has failed for good holds nothing any longer."""
    welcome.send(-1)
    with pytest.raises(ValueError, match="-1"):
        work()
    assert_not_locked(welcome, -1)


def test_called_directly_an_actor_knows_no_locks() -> None:
    """The body alone is tested best like this."""
    welcome(1)
    welcome(1)
    assert mails == [1, 1]


def test_without_the_locks_everything_runs() -> None:
    """For a test about something else that sends the same job twice."""
    with disabled(unique):
        welcome.send(1)
        welcome.send(1)
        work()
    assert mails == [1, 1]
