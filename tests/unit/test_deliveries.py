"""What runs in this process, and who is sending."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from dramatiq_unique.deliveries import Deliveries


Answer = TypeVar("Answer")


def elsewhere(ask: Callable[[], Answer]) -> Answer:
    """Ask on another thread."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]


@pytest.fixture
def deliveries() -> Deliveries:
    """No delivery yet."""
    return Deliveries()


class TestADelivery:
    """From the first hook to the ack, on one thread."""

    def test_is_found_on_its_thread(self, deliveries: Deliveries) -> None:
        """By the message, and there alone."""
        delivery = deliveries.open("x")

        assert deliveries.here("x") is delivery
        assert deliveries.here("y") is None
        assert elsewhere(lambda: deliveries.here("x")) is None

    def test_is_forgotten_once_it_is_closed(self, deliveries: Deliveries) -> None:
        """Nothing of it is kept; closing twice is nothing."""
        deliveries.open("x")

        deliveries.close("x")
        deliveries.close("x")

        assert deliveries.here("x") is None
        assert deliveries._open == {}

    def test_that_was_never_acknowledged_is_over_with_the_next(self, deliveries: Deliveries) -> None:
        """An interrupt may keep the ack hooks from running."""
        first = deliveries.open("x")
        first.in_body = True

        deliveries.open("y")

        assert deliveries.here("x") is None
        assert not deliveries.in_body("x")
        assert set(deliveries._open) == {"y"}

    def test_has_a_token_of_its_own(self, deliveries: Deliveries) -> None:
        """The same message twice is two owners of a run lock."""
        tokens = {deliveries.open("x").token for _ in range(100)}

        assert len(tokens) == 100
        assert all(token.isalnum() for token in tokens)

    def test_runs_from_its_start_to_the_end_of_its_body(self, deliveries: Deliveries) -> None:
        """Whichever thread asks."""
        delivery = deliveries.open("x")
        assert not deliveries.in_body("x")

        delivery.in_body = True
        assert elsewhere(lambda: deliveries.in_body("x"))

        deliveries.body_ended()
        assert not deliveries.in_body("x")

    def test_may_be_one_of_two_of_one_message(self, deliveries: Deliveries) -> None:
        """A stalled worker's message runs twice at once; the end of one isn't the end of the other."""

        def open_and_run() -> None:
            deliveries.open("x").in_body = True

        elsewhere(open_and_run)
        deliveries.open("x").in_body = True

        deliveries.close("x")

        assert deliveries.in_body("x")

    def test_is_closed_by_its_own_message_alone(self, deliveries: Deliveries) -> None:
        """Closing another's is nothing."""
        delivery = deliveries.open("x")

        deliveries.close("y")

        assert deliveries.here("x") is delivery

    def test_that_does_not_exist_has_no_body(self, deliveries: Deliveries) -> None:
        """Where no delivery was opened, nothing happens."""
        deliveries.body_ended()

        assert not deliveries.in_body("x")


class TestAMessageThatIsEnqueuedAgain:
    """The ack of its delivery is not its end."""

    def test_during_its_own_delivery(self, deliveries: Deliveries) -> None:
        """A retry, a reschedule, the job itself."""
        deliveries.open("x")
        assert not deliveries.was_requeued("x")

        deliveries.note_requeued("x")

        assert deliveries.was_requeued("x")

    def test_is_forgotten_with_the_delivery(self, deliveries: Deliveries) -> None:
        """The next delivery on this thread, of this message or of another, knows nothing of it."""
        deliveries.enter_thread()
        deliveries.open("x")
        deliveries.note_requeued("x")
        deliveries.close("x")

        deliveries.open("x")

        assert not deliveries.was_requeued("x")

    def test_is_no_other_message(self, deliveries: Deliveries) -> None:
        """A job that sends another message ends all the same."""
        deliveries.open("x")

        deliveries.note_requeued("y")

        assert not deliveries.was_requeued("x")

    def test_a_program_that_sends_for_dramatiq_keeps_no_count(self, deliveries: Deliveries) -> None:
        """It acknowledges nothing, so nothing would ever clear it (the callback of a group, child after child)."""
        with deliveries.as_dramatiq():
            deliveries.note_requeued("x")

        assert not deliveries.was_requeued("x")

    def test_on_the_event_loop_of_an_async_actor(self, deliveries: Deliveries) -> None:
        """Another thread than the delivery's."""
        deliveries.open("x")

        elsewhere(lambda: deliveries.note_requeued("x"))

        assert deliveries.was_requeued("x")

    def test_on_a_consumer_thread_as_it_comes_due(self, deliveries: Deliveries) -> None:
        """There is no delivery there; the ack of the delayed copy comes next, and nothing is left after it."""

        def come_due() -> list[bool]:
            deliveries.enter_thread()
            deliveries.note_requeued("x")
            before = deliveries.was_requeued("x")
            deliveries.close("x")
            return [before, deliveries.was_requeued("x")]

        assert elsewhere(come_due) == [True, False]

    def test_on_a_thread_of_the_program_is_kept_nowhere(self, deliveries: Deliveries) -> None:
        """A web process that sends for years collects nothing."""
        for number in range(100):
            deliveries.note_requeued(f"m{number}")

        assert not deliveries._thread.requeued
        assert deliveries._open == {}


class TestWhoSends:
    """Whether what is raised reaches a caller who asked for it."""

    def test_a_program_sends_for_itself(self, deliveries: Deliveries) -> None:
        """Outside any worker."""
        assert not deliveries.sent_by_dramatiq

    def test_dramatiq_sends_on_its_threads(self, deliveries: Deliveries) -> None:
        """A retry, a delayed message coming due, a pipeline's next step."""

        def on_a_worker() -> list[bool]:
            deliveries.enter_thread()
            before = deliveries.sent_by_dramatiq
            deliveries.open("x")
            return [before, deliveries.sent_by_dramatiq]

        assert elsewhere(on_a_worker) == [True, True]
        assert not deliveries.sent_by_dramatiq

    def test_a_job_sends_for_itself(self, deliveries: Deliveries) -> None:
        """Inside the body of an actor, and not after it."""

        def on_a_worker() -> list[bool]:
            deliveries.enter_thread()
            deliveries.open("x").in_body = True
            inside = deliveries.sent_by_dramatiq
            deliveries.body_ended()
            return [inside, deliveries.sent_by_dramatiq]

        assert elsewhere(on_a_worker) == [False, True]


class TestASupersededMessage:
    """Found so on this thread, and about to be acknowledged."""

    def test_is_told_once(self, deliveries: Deliveries) -> None:
        """Then it is gone from the broker, and can be forgotten."""
        deliveries.note_superseded("x")

        assert [deliveries.take_superseded("x"), deliveries.take_superseded("x")] == [True, False]

    def test_is_no_other(self, deliveries: Deliveries) -> None:
        """Asking for another leaves it there."""
        deliveries.note_superseded("x")

        assert not deliveries.take_superseded("y")
        assert not elsewhere(lambda: deliveries.take_superseded("x"))
        assert deliveries.take_superseded("x")
