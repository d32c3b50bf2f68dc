"""Test your own actors: Dramatiq's Stub broker, fakeredis for the locks, and pytest. No server, nothing to set up.

    python -m pytest examples/test_your_actors.py

To be copied. In your application the broker and the actors stand in a module of their own, which takes the Stub broker
and fakeredis when it is tested.
"""

import dramatiq
import fakeredis
import pytest
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import DuplicateMessage, UniqueMiddleware, outcome


# The application.

locks = fakeredis.FakeRedis()
broker = StubBroker()
broker.add_middleware(UniqueMiddleware(locks))
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
    locks.flushall()
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
    assert outcome(first).action == "enqueued"
    assert outcome(second).action == "discarded"
    assert outcome(second).holder_id == first.message_id


def test_another_user_is_no_duplicate() -> None:
    """The arguments count."""
    assert outcome(welcome.send(1)).digest != outcome(welcome.send(2)).digest


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
    assert outcome(welcome.send(1)).action == "enqueued"


def test_the_lock_is_free_again_after_a_failure() -> None:
    """A message that has failed for good holds nothing any longer."""
    welcome.send(-1)
    with pytest.raises(ValueError, match="-1"):
        work()
    assert outcome(welcome.send(-1)).action == "enqueued"


def test_called_directly_an_actor_knows_no_locks() -> None:
    """The body alone is tested best like this."""
    welcome(1)
    welcome(1)
    assert mails == [1, 1]
