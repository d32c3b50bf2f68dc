"""Around `broker.enqueue`: a refusal is quiet, and what was not stored is given back."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dramatiq import Message, Middleware
from dramatiq.broker import MessageProxy
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import MiddlewareError

from dramatiq_unique.guard import Attempt, Guard, NotEnqueued


ROOT = Path(__file__).parents[2]


class Hook(Middleware):
    """Does in `before_enqueue` what a test says."""

    def __init__(self) -> None:
        self.do: Callable[[Message[Any]], object] = lambda message: None

    def before_enqueue(self, broker: Any, message: Message[Any], delay: int | None) -> None:
        """Do it."""
        self.do(message)


class Heard:
    """What was heard of attempts."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Attempt]] = []

    def stored(self, message: Message[Any], attempt: Attempt) -> None:
        """Hear of a message that was stored."""
        self.told.append(("stored " + message.message_id, attempt))

    def give_back(self, message: Message[Any] | MessageProxy, attempt: Attempt) -> None:
        """Hear of one that was not."""
        self.told.append(("give back", attempt))

    @property
    def names(self) -> list[str]:
        """Name what was heard."""
        return [name for name, _ in self.told]


class Bench:
    """A Stub broker behind a guard."""

    def __init__(self) -> None:
        self.hook = Hook()
        self.broker = StubBroker(middleware=[self.hook])
        self.broker.declare_queue("default")
        self.guard = Guard(self.broker)
        self.heard = Heard()
        self.guard.install(self.heard)

    @property
    def waiting(self) -> list[str]:
        """Name the messages in the queue."""
        return [Message.decode(body).message_id for body in self.broker.queues["default"].queue]


@pytest.fixture
def bench() -> Bench:
    """A Stub broker behind a guard."""
    return Bench()


def message(message_id: str = "x", **options: Any) -> Message[Any]:
    """Make a message."""
    return Message("default", "export", (), {}, options, message_id=message_id)


class TestAMessageThatIsStored:
    """As without the guard."""

    def test_is_returned_as_the_broker_stored_it(self, bench: Bench) -> None:
        """With what hooks put on it."""
        bench.hook.do = lambda sent: sent.options.update(seen=True)

        stored = bench.broker.enqueue(message())

        assert stored.options == {"seen": True}
        assert bench.waiting == ["x"]

    def test_is_told_once_with_its_attempt(self, bench: Bench) -> None:
        """The one that was under way in the hook."""
        seen: list[Attempt] = []
        bench.hook.do = lambda _: seen.append(bench.guard.attempt)

        bench.broker.enqueue(message())

        assert bench.heard.names == ["stored x"]
        assert bench.heard.told[0][1] is seen[0]

    def test_leaves_the_callers_message_alone(self, bench: Bench) -> None:
        """Brokers that write options into what they are given write into a copy."""
        mine = message(max_retries=1)
        bench.hook.do = lambda sent: sent.options.update(seen=True)

        bench.broker.enqueue(mine)

        assert mine.options == {"max_retries": 1}

    def test_is_delayed_as_ever(self, bench: Bench) -> None:
        """The delay is passed on."""
        stored = bench.broker.enqueue(message(), delay=1000)

        assert stored.queue_name == "default.DQ"
        assert bench.broker.queues["default.DQ"].qsize() == 1


class TestAMessageThatIsRefused:
    """Quietly not enqueued."""

    def test_is_returned_and_nothing_is_raised(self, bench: Bench) -> None:
        """The sender gets what the refusal carries."""
        theirs = message("refused")

        def refuse(_message: Message[Any]) -> None:
            raise NotEnqueued(theirs)

        bench.hook.do = refuse

        assert bench.broker.enqueue(message()) is theirs
        assert bench.waiting == []

    def test_is_neither_stored_nor_given_back(self, bench: Bench) -> None:
        """It never had a lock."""

        def refuse(sent: Message[Any]) -> None:
            raise NotEnqueued(sent)

        bench.hook.do = refuse

        bench.broker.enqueue(message())

        assert bench.heard.told == []

    def test_reaches_a_caller_only_as_a_middleware_error(self) -> None:
        """Dramatiq lets no other kind out of a hook; and whoever catches it sees which message it was."""
        refusal = NotEnqueued(message())

        assert isinstance(refusal, MiddlewareError)
        assert str(refusal) == "message x is not enqueued"


class TestAMessageThatIsNotStored:
    """Its lock is given back, and the error is the caller's."""

    @pytest.mark.parametrize("error", [MiddlewareError("no"), KeyboardInterrupt(), SystemExit()], ids=repr)
    def test_because_a_hook_raised(self, bench: Bench, error: BaseException) -> None:
        """An interrupt too, which can land anywhere."""

        def fail(_message: Message[Any]) -> None:
            raise error

        bench.hook.do = fail

        with pytest.raises(type(error)) as raised:
            bench.broker.enqueue(message())

        assert raised.value is error
        assert bench.heard.names == ["give back"]

    def test_because_it_cannot_be_encoded(self, bench: Bench) -> None:
        """The encoder raises after the lock was taken."""
        with pytest.raises(TypeError, match="not JSON serializable"):
            bench.broker.enqueue(message(unencodable=object()))

        assert bench.heard.names == ["give back"]

    def test_because_the_broker_has_no_such_queue(self, bench: Bench) -> None:
        """Before any hook."""
        with pytest.raises(Exception, match="nowhere"):
            bench.broker.enqueue(message().copy(queue_name="nowhere"))

        assert bench.heard.names == ["give back"]

    def test_is_followed_by_the_next_as_if_nothing_had_been(self, bench: Bench) -> None:
        """No attempt is left under way."""

        def fail(_message: Message[Any]) -> None:
            raise MiddlewareError

        bench.hook.do = fail
        with pytest.raises(MiddlewareError):
            bench.broker.enqueue(message())
        bench.hook.do = lambda _: None
        bench.broker.enqueue(message("y"))

        assert bench.heard.names == ["give back", "stored y"]
        assert bench.heard.told[0][1] is not bench.heard.told[1][1]


class TestAttempts:
    """Each call of `enqueue` is an attempt of its own."""

    def test_one_inside_another_is_another(self, bench: Bench) -> None:
        """A hook may send a message of its own: each hears of its own end."""
        seen: list[tuple[str, Attempt]] = []

        def send_another(sent: Message[Any]) -> None:
            if sent.message_id == "outer":
                bench.broker.enqueue(message("inner"))
            seen.append((sent.message_id, bench.guard.attempt))

        bench.hook.do = send_another
        bench.broker.enqueue(message("outer"))

        assert bench.heard.names == ["stored inner", "stored outer"]
        assert [attempt for _, attempt in bench.heard.told] == [attempt for _, attempt in seen]
        assert seen[0][1] is not seen[1][1]

    def test_one_on_another_thread_is_another(self, bench: Bench) -> None:
        """Two threads send at once, and neither sees the other's."""
        both_there = threading.Barrier(2, timeout=15)
        seen: dict[str, Attempt] = {}

        def meet(sent: Message[Any]) -> None:
            both_there.wait()
            seen[sent.message_id] = bench.guard.attempt
            both_there.wait()

        bench.hook.do = meet
        threads = [threading.Thread(target=bench.broker.enqueue, args=(message(name),)) for name in ("x", "y")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert seen["x"] is not seen["y"]
        for name, attempt in bench.heard.told:
            assert seen[name.removeprefix("stored ")] is attempt

    def test_past_the_guard_there_is_a_throw_away_one(self, bench: Bench) -> None:
        """A subclass may call the class's own `enqueue`: hooks run, and nobody hears of it."""
        seen: list[Attempt] = []
        bench.hook.do = lambda _: seen.append(bench.guard.attempt)

        StubBroker.enqueue(bench.broker, message())

        assert [(attempt.claim, attempt.holds) for attempt in seen] == [(None, False)]
        assert bench.heard.told == []
        assert bench.guard.attempt is not seen[0]

    def test_a_passive_one_is_known_to_the_hooks(self, bench: Bench) -> None:
        """The message goes in without asking for a lock."""
        seen: list[bool] = []
        bench.hook.do = lambda _: seen.append(bench.guard.attempt.passive)

        bench.guard.enqueue_passively(message(), delay=10)

        assert seen == [True]
        assert bench.broker.queues["default.DQ"].qsize() == 1
        assert [attempt.passive for _, attempt in bench.heard.told] == [True]


UPSTREAM = """
# Dramatiq with `SkipEnqueue`, as far as it matters here: https://github.com/Bogdanp/dramatiq/pull/890

import dramatiq.middleware
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker


class SkipEnqueue(dramatiq.middleware.MiddlewareError):
    pass


dramatiq.middleware.SkipEnqueue = SkipEnqueue


class NewStubBroker(StubBroker):
    def enqueue(self, message, *, delay=None):
        if delay is not None:
            message = message.copy(queue_name=message.queue_name + ".DQ", options={"eta": 0})
        try:
            self.emit_before("enqueue", message, delay)
        except SkipEnqueue:
            return message
        self.queues[message.queue_name].put(message.encode())
        self.emit_after("enqueue", message, delay)
        return message


import dramatiq
import fakeredis
from dramatiq_unique import UniqueMiddleware, outcome
from dramatiq_unique.guard import NotEnqueued
from tests.unit.test_guard import Heard

assert issubclass(NotEnqueued, SkipEnqueue), NotEnqueued.__mro__
broker = NewStubBroker(middleware=[UniqueMiddleware(fakeredis.FakeRedis())])
actor = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(print)
first = actor.send(1)
"""


def run_upstream(program: str) -> None:
    """Run a program where Dramatiq has `SkipEnqueue`."""
    ran = subprocess.run(
        [sys.executable, "-c", UPSTREAM + program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )
    assert ran.returncode == 0, ran.stderr


class TestWhereDramatiqCanSkip:
    """Once `SkipEnqueue` is released, a refusal is one, and a broker catches it itself."""

    def test_a_refusal_is_quiet(self) -> None:
        """And the sender learns what became of the message."""
        run_upstream(
            """
second = actor.send(1)
assert broker.queues["default"].qsize() == 1
assert outcome(first).action == "enqueued", outcome(first)
assert (outcome(second).action, outcome(second).holder_id) == ("discarded", first.message_id), outcome(second)
"""
        )

    def test_a_refusal_is_quiet_with_a_delay(self) -> None:
        """The broker returns what it gave to the hooks."""
        run_upstream(
            """
second = actor.send_with_options(args=(1,), delay=1000)
assert broker.queues["default.DQ"].qsize() == 0
assert (outcome(second).action, outcome(second).holder_id) == ("discarded", first.message_id), outcome(second)
"""
        )

    def test_a_refusal_is_not_told_as_stored(self) -> None:
        """Nothing is in the broker, so an ack after it may be the end of the message."""
        run_upstream(
            """
heard = Heard()
from dramatiq_unique.guard import Guard
hook = type("Hook", (dramatiq.Middleware,), {})()
def refuse(broker, message, delay):
    guard.attempt.refused = True
    raise NotEnqueued(message)
hook.before_enqueue = refuse
broker = NewStubBroker(middleware=[hook])
broker.declare_queue("default")
guard = Guard(broker)
guard.install(heard)
broker.enqueue(Message("default", "export", (), {}, {}))
assert broker.queues["default"].empty()
assert heard.names == [], heard.names
"""
        )
