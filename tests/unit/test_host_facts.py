"""Facts about Dramatiq that the package rests on, each pinned so that a release that changes one is noticed.

None of our own middleware is on these brokers. Where one of these tests fails with a new Dramatiq, its docstring says
what to look at.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq import Actor, Message, MessageProxy, Middleware, Worker, group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import q_name
from dramatiq.middleware import GroupCallbacks, Interrupt, MiddlewareError, Pipelines, Retries, SkipMessage
from dramatiq.rate_limits.backends import StubBackend as StubBarriers
from dramatiq.results import ResultMissing, Results
from dramatiq.results.backends import StubBackend

from tests.rig import eventually


HOOKS = [
    "before_enqueue",
    "after_enqueue",
    "before_process_message",
    "after_process_message",
    "after_skip_message",
    "before_ack",
    "after_ack",
    "before_nack",
    "after_nack",
]


class Recorder(Middleware):
    """Notes each hook, and does in one of them what a test says.

    Args:
        calls: Where hooks are noted; several recorders may share one list.
        name: Which recorder it was.
    """

    def __init__(self, calls: list["Call"] | None = None, name: str = "") -> None:
        self.name = name
        self.calls: list[Call] = [] if calls is None else calls
        self.do: dict[str, Callable[..., object]] = {}

    def __getattribute__(self, hook: str) -> Any:
        """Make a hook of each name in the list."""
        if hook not in HOOKS:
            return super().__getattribute__(hook)

        def note(broker: Any, message: Any, *args: Any, **kwargs: Any) -> None:
            self.calls.append(Call(self.name, hook, message, kwargs))
            if hook in self.do:
                self.do[hook](message)

        return note

    def named(self, *hooks: str) -> list["Call"]:
        """List the calls of some hooks."""
        return [call for call in self.calls if call.hook in hooks]


class Call:
    """One call of a hook, with the options of the message as they were then."""

    def __init__(self, name: str, hook: str, message: Any, kwargs: dict[str, Any]) -> None:
        self.name = name
        self.hook = hook
        self.message = message
        self.message_id = message.message_id
        self.queue = message.queue_name
        self.options = dict(message.options)
        self.kwargs = kwargs
        self.thread = threading.current_thread()


class Bench:
    """A broker with a recorder last in its list, and a worker."""

    def __init__(self, *middleware: Middleware) -> None:
        self.recorder = Recorder()
        self.broker = StubBroker(middleware=[*middleware, self.recorder], fail_fast_default=False)
        self.ran: list[Any] = []

    def actor(self, fn: Callable[..., Any] | None = None, **options: Any) -> Actor[..., Any]:
        """Declare an actor that comes back at once when it fails."""
        if any(isinstance(middleware, Retries) for middleware in self.broker.middleware):
            options = {"min_backoff": 1, "max_backoff": 1} | options
        return dramatiq.actor(broker=self.broker, actor_name="export", **options)(fn or self.ran.append)

    def work(self) -> None:
        """Work until the queue is empty."""
        worker = Worker(self.broker, worker_timeout=10, worker_threads=1)
        worker.start()
        try:
            self.broker.join("default", timeout=20_000)
        finally:
            worker.stop()


@pytest.fixture
def bench() -> Bench:
    """A broker with retries."""
    return Bench(Retries())


def fail_once() -> Callable[[Any], None]:
    """Make an actor that fails the first time."""
    runs: list[Any] = []

    def fn(value: Any) -> None:
        runs.append(value)
        if len(runs) == 1:
            raise RuntimeError("the first time")

    return fn


def raising(error: BaseException) -> Callable[[Any], None]:
    """Make a hook that raises."""

    def hook(_message: Any) -> None:
        raise error

    return hook


class TestHooks:
    """Their order, and what they may raise."""

    def test_before_hooks_run_in_the_order_of_the_list_and_after_hooks_in_reverse(self) -> None:
        """`AfterBody` stands last in the list, so it is the first to hear that an actor is done."""
        calls: list[Call] = []
        broker = StubBroker(middleware=[Recorder(calls, "first"), Recorder(calls, "last")])

        dramatiq.actor(broker=broker, actor_name="export")(print).send()

        assert [(call.hook, call.name) for call in calls] == [
            ("before_enqueue", "first"),
            ("before_enqueue", "last"),
            ("after_enqueue", "last"),
            ("after_enqueue", "first"),
        ]

    def test_only_a_middleware_error_gets_out_of_a_before_hook(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        """`errors.as_ours`: any other error would be logged, and the message would go on without its lock."""
        actor = bench.actor()
        bench.recorder.do["before_enqueue"] = raising(ValueError("swallowed"))
        actor.send(1)

        assert bench.broker.queues["default"].qsize() == 1
        assert [record.levelname for record in caplog.records if "before_enqueue" in record.getMessage()] == [
            "CRITICAL"
        ]

        error = MiddlewareError("raised")
        bench.recorder.do["before_enqueue"] = raising(error)
        with pytest.raises(MiddlewareError) as raised:
            actor.send(1)
        assert raised.value is error
        assert bench.broker.queues["default"].qsize() == 1

    def test_only_a_middleware_error_reaches_who_declares_an_actor(self) -> None:
        """`InvalidLockOptions` is one, raised from `before_declare_actor`; nothing gets out of the after hook."""

        class Checks(Middleware):
            def __init__(self, before: Exception | None, after: Exception | None = None) -> None:
                self.before, self.after = before, after

            def before_declare_actor(self, broker: Any, actor: Any) -> None:
                if self.before:
                    raise self.before

            def after_declare_actor(self, broker: Any, actor: Any) -> None:
                if self.after:
                    raise self.after

        for checks in (Checks(ValueError()), Checks(None, MiddlewareError())):
            dramatiq.actor(broker=StubBroker(middleware=[checks]))(print)
        with pytest.raises(MiddlewareError):
            dramatiq.actor(broker=StubBroker(middleware=[Checks(MiddlewareError())]))(print)

    def test_adding_a_middleware_shows_it_the_actors_and_queues_that_are_there(self) -> None:
        """It may be added after the actors; there, what `after_declare_actor` raises gets out."""

        class Looks(Middleware):
            def __init__(self) -> None:
                self.seen: list[str] = []

            def after_declare_actor(self, broker: Any, actor: Any) -> None:
                self.seen.append(actor.actor_name)
                if actor.actor_name == "wrong":
                    raise MiddlewareError

            def after_declare_queue(self, broker: Any, queue_name: str) -> None:
                self.seen.append(queue_name)

        broker, looks = StubBroker(middleware=[]), Looks()
        dramatiq.actor(broker=broker, actor_name="export")(print)
        broker.add_middleware(looks)
        assert looks.seen[0] == "export"
        assert "default" in looks.seen

        dramatiq.actor(broker=broker, actor_name="wrong", queue_name="other")(print)
        with pytest.raises(MiddlewareError):
            broker.add_middleware(Looks())

    @pytest.mark.parametrize("error", [ValueError(), MiddlewareError()], ids=["error", "middleware error"])
    @pytest.mark.parametrize("hook", ["after_enqueue", "after_process_message", "after_ack"])
    def test_whatever_an_after_hook_raises_is_swallowed(self, bench: Bench, hook: str, error: Exception) -> None:
        """So no after hook of ours can fail a job; nor can it say that something went wrong."""
        bench.recorder.do[hook] = raising(error)

        bench.actor().send(1)
        bench.work()

        assert bench.ran == [1]
        assert len(bench.recorder.named("after_ack")) == 1

    def test_an_unknown_option_of_an_actor_is_refused_before_any_hook(self, bench: Bench) -> None:
        """A misspelled option is Dramatiq's own `ValueError`, which names it: we are not asked."""
        with pytest.raises(ValueError, match="actor options are undefined: lock_tll"):
            bench.actor(lock_tll=1)

    def test_there_is_no_quiet_way_to_refuse_a_message(self) -> None:
        """Once there is (https://github.com/Bogdanp/dramatiq/pull/890), `guard.py` has less to do: see what remains."""
        assert not hasattr(dramatiq.middleware, "SkipEnqueue")

    def test_every_way_to_send_goes_through_the_enqueue_of_the_instance(self) -> None:
        """`guard.py` wraps that: a send, a retry, a delayed message coming due, a group, a pipeline."""
        bench = Bench(Retries(), Pipelines())
        seen: list[tuple[str, int | None]] = []
        enqueue = bench.broker.enqueue

        def wrapped(message: Message[Any], *, delay: int | None = None) -> Message[Any]:
            seen.append((message.queue_name, delay))
            return enqueue(message, delay=delay)

        bench.broker.enqueue = wrapped  # type: ignore[method-assign]
        actor = bench.actor(fail_once())

        actor.send_with_options(args=(1,), delay=1)
        bench.work()
        assert [(queue, delay is None) for queue, delay in seen] == [
            ("default", False),
            ("default", True),
            ("default", False),
            ("default", True),
        ]

        seen.clear()
        group([actor.message(1), actor.message(2)], broker=bench.broker).run()
        assert len(seen) == 2
        pipeline([actor.message(1), actor.message()], broker=bench.broker).run()
        bench.work()
        assert len(seen) == 4


class TestADelivery:
    """The hooks of one delivery, on a worker."""

    def test_to_skip_a_message_is_to_acknowledge_it(self, bench: Bench) -> None:
        """`processing.py` raises `SkipMessage` for what is not to run now, or ever."""
        bench.recorder.do["before_process_message"] = raising(SkipMessage())

        bench.actor().send(1)
        bench.work()

        assert bench.ran == []
        assert [call.hook for call in bench.recorder.calls][2:] == [
            "before_process_message",
            "after_skip_message",
            "before_ack",
            "after_ack",
        ]

    def test_a_skipped_message_that_was_failed_goes_to_the_dead_letters(self, bench: Bench) -> None:
        """`reject` at the worker: `fail()`, then `SkipMessage`."""

        def reject(message: MessageProxy) -> None:
            message.fail()
            raise SkipMessage

        bench.recorder.do["before_process_message"] = reject

        sent = bench.actor().send(1)
        bench.work()

        assert bench.ran == []
        assert [letter.message_id for letter in bench.broker.dead_letters_by_queue["default"]] == [sent.message_id]
        assert bench.recorder.calls[-1].hook == "after_nack"

    def test_another_middleware_error_before_the_run_is_a_failure(self, bench: Bench) -> None:
        """`raise` at the worker: Dramatiq's retries apply, then the dead letters."""
        bench.recorder.do["before_process_message"] = raising(MiddlewareError())

        bench.actor(max_retries=1).send(1)
        bench.work()

        assert bench.ran == []
        assert len(bench.recorder.named("before_process_message")) == 2
        assert len(bench.broker.dead_letters_by_queue["default"]) == 1

    def test_any_other_error_before_the_run_is_swallowed_and_the_actor_runs(self, bench: Bench) -> None:
        """`errors.as_ours` again: the actor would run unlocked."""
        bench.recorder.do["before_process_message"] = raising(ValueError())

        bench.actor().send(1)
        bench.work()

        assert bench.ran == [1]

    def test_what_an_earlier_middleware_skips_reaches_a_later_one_as_a_skip_only(self) -> None:
        """There is no start, so `processing.end` lets go of what the message carries in its ticket."""
        first, last = Recorder(name="first"), Recorder(name="last")
        bench = Bench(first, last)
        first.do["before_process_message"] = raising(SkipMessage())

        bench.actor().send(1)
        bench.work()

        assert [call.hook for call in last.calls][2:] == ["after_skip_message", "before_ack", "after_ack"]

    def test_a_message_that_was_failed_without_an_error_looks_like_success(self, bench: Bench) -> None:
        """`processing.finish` asks `message.failed` beside the exception."""
        bench.recorder.do["before_process_message"] = lambda message: message.fail()

        bench.actor().send(1)
        bench.work()

        assert bench.ran == []
        (done,) = bench.recorder.named("after_process_message")
        assert done.kwargs == {"result": None}
        assert len(bench.broker.dead_letters_by_queue["default"]) == 1

    def test_every_hook_has_the_same_proxy_on_the_same_thread(self, bench: Bench) -> None:
        """`deliveries.py` keeps what is known of a delivery on its thread; the ack hooks run there too."""
        bench.actor().send(1)
        bench.work()

        calls = bench.recorder.named("before_process_message", "after_process_message", "before_ack", "after_ack")
        assert len(calls) == 4
        assert len({id(call.message) for call in calls}) == 1
        assert {type(call.thread).__name__ for call in calls} == {"WorkerThread"}
        assert len({call.thread for call in calls}) == 1

    def test_an_unknown_actor_gives_nack_hooks_only_on_a_consumer_thread(self, bench: Bench) -> None:
        """There is no start and no actor: the ticket alone says what to let go."""
        bench.actor()
        bench.broker.enqueue(Message("default", "nobody", (), {}, {}))
        bench.work()

        calls = bench.recorder.calls[2:]
        assert [call.hook for call in calls] == ["before_nack", "after_nack"]
        assert {type(call.thread).__name__ for call in calls} == {"ConsumerThread"}

    def test_an_interrupt_in_a_hook_after_success_makes_the_after_hooks_fire_again(self, bench: Bench) -> None:
        """C28: `finish` may come twice, first as success, then with the interrupt; the job is retried."""
        interrupts = iter([Interrupt()])

        def interrupt(_message: Any) -> None:
            for error in interrupts:
                raise error

        bench.recorder.do["after_process_message"] = interrupt
        bench.actor().send(1)
        bench.work()

        done = bench.recorder.named("after_process_message")
        assert [isinstance(call.kwargs.get("exception"), Interrupt) for call in done] == [False, True, False]
        assert len(bench.recorder.named("after_ack")) == 3  # the first delivery, the delayed copy, the second delivery

    def test_the_last_in_the_list_hears_of_a_failure_before_it_is_retried_and_the_first_after(self) -> None:
        """`AfterBody` lets the run lock go before `Retries` enqueues the next attempt, which may start at once."""
        calls: list[Call] = []
        first, last = Recorder(calls, "first"), Recorder(calls, "last")
        broker = StubBroker(middleware=[first, Retries(), last])
        actor = dramatiq.actor(broker=broker, actor_name="export", max_retries=1, min_backoff=1, max_backoff=1)(
            fail_once()
        )
        actor.send(1)
        worker = Worker(broker, worker_timeout=10, worker_threads=1)
        worker.start()
        broker.join("default", timeout=20_000)
        worker.stop()

        failed = [call for call in calls if call.kwargs.get("exception")]
        again = next(call for call in calls if call.hook == "before_enqueue" and "retries" in call.options)
        assert [call.name for call in failed] == ["last", "first"]
        assert calls.index(failed[0]) < calls.index(again) < calls.index(failed[1])

    def test_a_worker_takes_the_list_as_it_is_and_adds_its_own(self, bench: Bench) -> None:
        """`before_worker_boot` puts a new list in its place while Dramatiq walks the old one."""
        late = Recorder(bench.recorder.calls, "late")

        class Boots(Middleware):
            def before_worker_boot(self, broker: Any, worker: Any) -> None:
                broker.middleware = [*broker.middleware, late]

        bench.broker.add_middleware(Boots())
        bench.actor().send(1)
        bench.work()

        assert [type(middleware).__name__ for middleware in bench.broker.middleware[-2:]] == [
            "Recorder",
            "_WorkerMiddleware",
        ]
        done = [call.name for call in bench.recorder.named("after_process_message")]
        assert done == ["late", ""]


class TestOneMessage:
    """One message id, many hooks."""

    def test_sent_with_a_delay_it_fails_once_and_succeeds(self, bench: Bench) -> None:
        """An ack is its end only on its own queue, and where nothing enqueued it again: `processing.end`."""
        sent = bench.actor(fail_once()).send_with_options(args=(1,), delay=1)
        bench.work()

        enqueued = bench.recorder.named("before_enqueue")
        assert {call.message_id for call in bench.recorder.calls} == {sent.message_id}
        assert [call.queue for call in enqueued] == ["default.DQ", "default", "default.DQ", "default"]
        assert ["eta" in call.options for call in enqueued] == [True, False, True, False]
        assert [call.options.get("retries") for call in enqueued] == [None, None, 1, 1]
        acks = bench.recorder.named("after_ack")
        assert [call.queue for call in acks] == ["default.DQ", "default", "default.DQ", "default"]
        assert [type(call.thread).__name__ for call in acks] == ["ConsumerThread", "WorkerThread"] * 2
        assert bench.recorder.named("before_nack") == []

    def test_a_retry_is_enqueued_on_the_thread_and_within_the_delivery_that_failed(self, bench: Bench) -> None:
        """`deliveries.note_requeued`: so its ack is known not to be the end."""
        bench.actor(fail_once()).send(1)
        bench.work()

        hooks = [(call.hook, call.queue) for call in bench.recorder.calls]
        first_run = hooks.index(("before_process_message", "default"))
        retried = hooks.index(("before_enqueue", "default.DQ"))
        acked = hooks.index(("before_ack", "default"))
        assert first_run < retried < acked
        threads = {bench.recorder.calls[position].thread for position in (first_run, retried, acked)}
        assert len(threads) == 1

    def test_a_message_that_comes_due_is_enqueued_before_its_delayed_copy_is_acknowledged(self, bench: Bench) -> None:
        """On the consumer's thread: an ack of a `.DQ` copy frees nothing."""
        bench.actor().send_with_options(args=(1,), delay=1)
        bench.work()

        calls = [call for call in bench.recorder.calls if type(call.thread).__name__ == "ConsumerThread"]
        assert [(call.hook, call.queue) for call in calls] == [
            ("before_enqueue", "default"),
            ("after_enqueue", "default"),
            ("before_ack", "default.DQ"),
            ("after_ack", "default.DQ"),
        ]

    def test_a_nack_is_its_end(self, bench: Bench) -> None:
        """Retries used up: nothing enqueues it again."""
        bench.actor(raising(RuntimeError()), max_retries=1).send(1)
        bench.work()

        assert bench.recorder.calls[-1].hook == "after_nack"
        assert [call.queue for call in bench.recorder.named("before_nack")] == ["default"]

    def test_a_retry_that_is_refused_by_an_error_is_lost(self, bench: Bench) -> None:
        """Nothing is raised where Dramatiq itself enqueues: what would be raised is dead-lettered."""

        def refuse(message: Message[Any]) -> None:
            if "retries" in message.options:
                raise MiddlewareError

        bench.recorder.do["before_enqueue"] = refuse
        bench.actor(fail_once()).send(1)
        bench.work()

        assert len(bench.recorder.named("before_process_message")) == 1
        assert bench.recorder.calls[-1].hook == "after_ack"
        assert bench.broker.dead_letters_by_queue["default"] == []

    def test_options_that_a_hook_sets_travel_with_it(self, bench: Bench) -> None:
        """The ticket is set in `before_enqueue`, and is there at the worker and at the retry."""

        def set_option(message: Message[Any]) -> None:
            message.options.setdefault("ticket", {"digest": "d"})

        bench.recorder.do["before_enqueue"] = set_option
        bench.actor(fail_once()).send(1)
        bench.work()

        started = bench.recorder.named("before_process_message")
        assert [call.options["ticket"] for call in started] == [{"digest": "d"}] * 2

    def test_the_stub_broker_writes_options_into_the_message_of_the_caller(self, bench: Bench) -> None:
        """So the guard passes a copy on."""
        bench.recorder.do["before_enqueue"] = lambda message: message.options.update(seen=True)
        message = bench.actor().message(1)

        bench.broker.enqueue(message)

        assert message.options == {"seen": True}

    def test_the_name_of_a_delay_queue_ends_in_dq(self) -> None:
        """`q_name` gives the canonical name, for the digest and for every event."""
        assert [q_name(name) for name in ("default", "default.DQ", "default.XQ")] == ["default"] * 3


class TestTheStubBroker:
    """Where users' tests and most of ours run."""

    def test_its_dead_letters_are_proxies_with_the_error(self, bench: Bench) -> None:
        """`brokers/stub.py` puts a rejected message there, for `join` to raise its error."""
        bench.actor(raising(RuntimeError("why")), max_retries=0).send(1)
        bench.work()

        (letter,) = bench.broker.dead_letters_by_queue["default"]
        assert isinstance(letter, MessageProxy)
        assert letter.failed
        assert isinstance(letter._exception, RuntimeError)
        with pytest.raises(RuntimeError, match="why"):
            bench.broker.join("default", fail_fast=True)
        assert bench.broker.dead_letters == [letter]

    def test_one_that_was_put_there_is_raised_by_join(self, bench: Bench) -> None:
        """As if a worker had rejected it."""
        letter = MessageProxy(bench.actor().message(1))
        letter.fail()
        letter.stuff_exception(MiddlewareError("put there"))
        bench.broker.dead_letters_by_queue["default"].append(letter)

        with pytest.raises(MiddlewareError, match="put there"):
            bench.broker.join("default", fail_fast=True)


class TestTheRedisBroker:
    """What lies where, on a private Redis."""

    @pytest.fixture
    def redis_broker(self, redis_client: "redis.Redis") -> Iterator[RedisBroker]:
        """A Redis broker."""
        broker = RedisBroker(client=redis_client, middleware=[Retries()])
        yield broker
        broker.close()

    def test_a_message_is_a_body_in_a_hash_and_an_id_in_a_list(
        self, redis_broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """`withdraw.lua` takes both away; whether a message still exists is asked of the hash."""
        sent = dramatiq.actor(broker=redis_broker, actor_name="export")(print).send(1)

        broker_id = sent.options["redis_message_id"].encode()
        assert redis_client.lrange("dramatiq:default", 0, -1) == [broker_id]
        body = redis_client.hget("dramatiq:default.msgs", broker_id)
        assert Message.decode(body).message_id == sent.message_id  # type: ignore[arg-type]

    def test_a_delayed_message_lies_under_the_name_of_its_delay_queue(
        self, redis_broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """The queue that a lock notes is the one where its message is."""
        actor = dramatiq.actor(broker=redis_broker, actor_name="export")(print)

        sent = actor.send_with_options(args=(1,), delay=60_000)

        broker_id = sent.options["redis_message_id"].encode()
        assert sent.queue_name == "default.DQ"
        assert redis_client.lrange("dramatiq:default.DQ", 0, -1) == [broker_id]
        assert redis_client.hkeys("dramatiq:default.DQ.msgs") == [broker_id]

    def test_every_hop_has_an_id_of_its_own_that_hooks_see(self, redis_broker: RedisBroker) -> None:
        """`before_enqueue` notes it in the lock."""
        recorder = Recorder()
        redis_broker.add_middleware(recorder)
        actor = dramatiq.actor(broker=redis_broker, actor_name="export")(print)

        message = actor.message(1)
        first, second = redis_broker.enqueue(message), redis_broker.enqueue(message)

        seen = [call.options["redis_message_id"] for call in recorder.named("before_enqueue")]
        assert seen == [first.options["redis_message_id"], second.options["redis_message_id"]]
        assert seen[0] != seen[1]
        assert message.options == {}

    def test_a_body_stays_until_its_message_is_acknowledged(
        self, redis_broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """So a message that runs exists, and one that was acknowledged doesn't."""
        sent = dramatiq.actor(broker=redis_broker, actor_name="export")(print).send(1)
        broker_id = sent.options["redis_message_id"]
        consumer = redis_broker.consume("default", timeout=10)

        message = next(consumer)
        assert message is not None
        assert redis_client.llen("dramatiq:default") == 0
        assert redis_client.hexists("dramatiq:default.msgs", broker_id)

        consumer.ack(message)
        assert not redis_client.hexists("dramatiq:default.msgs", broker_id)

    def test_a_dead_letter_is_in_a_sorted_set_by_time_and_in_a_hash(
        self, redis_broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """`brokers/redis.py` leaves a rejected message as a nack would."""
        sent = dramatiq.actor(broker=redis_broker, actor_name="export")(print).send(1)
        broker_id = sent.options["redis_message_id"].encode()
        consumer = redis_broker.consume("default", timeout=10)
        message = next(consumer)
        assert message is not None

        consumer.nack(message)

        assert redis_client.zrange("dramatiq:default.XQ", 0, -1) == [broker_id]
        died_ms = redis_client.zscore("dramatiq:default.XQ", broker_id)
        assert died_ms is not None
        assert abs(died_ms - sent.message_timestamp) < 600_000
        assert redis_client.hkeys("dramatiq:default.XQ.msgs") == [broker_id]
        assert not redis_client.exists("dramatiq:default.msgs")

    def test_an_id_without_a_body_stays_in_the_acks(
        self, redis_broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """`withdraw.lua`: take both away or neither."""
        sent = dramatiq.actor(broker=redis_broker, actor_name="export")(print).send(1)
        redis_client.hdel("dramatiq:default.msgs", sent.options["redis_message_id"])
        consumer = redis_broker.consume("default", timeout=10)

        assert next(consumer) is None

        acks = redis_client.smembers(f"dramatiq:__acks__.{redis_broker.broker_id}.default")
        assert acks == {sent.options["redis_message_id"].encode()}

    def test_its_client_and_its_namespace_are_attributes(
        self, redis_broker: RedisBroker, redis_client: "redis.Redis"
    ) -> None:
        """Where no other Redis is given, the locks are in the broker's."""
        assert redis_broker.client is redis_client
        assert redis_broker.namespace == "dramatiq"


class TestOtherMiddleware:
    """What we ask of Dramatiq's own."""

    def test_results_looks_on_the_delivered_message_first(self) -> None:
        """A delivery that is put back is told not to store its `None` (C31)."""
        backend = StubBackend()
        bench = Bench(Results(backend=backend))

        def skip(message: MessageProxy) -> None:
            if message.args == (1,):
                message.options["store_results"] = False
            raise SkipMessage

        bench.recorder.do["before_process_message"] = skip
        actor = bench.actor(store_results=True)
        silent, ordinary = actor.send(1), actor.send(2)
        bench.work()

        with pytest.raises(ResultMissing):
            silent.get_result(backend=backend)
        assert ordinary.get_result(backend=backend) is None

    def test_a_result_is_found_by_queue_actor_and_message_id(self) -> None:
        """`original` gives a handle of just these."""
        backend = StubBackend()
        bench = Bench(Results(backend=backend))
        sent = bench.actor(lambda value: value + 1, store_results=True).send(1)
        bench.work()

        handle: Message[Any] = Message("default", "export", (), {}, {}, message_id=sent.message_id)
        assert handle.get_result(backend=backend) == 2

    def test_a_child_of_a_group_counts_by_a_hook_and_by_options_that_it_carries(self) -> None:
        """`groups.count_as_done` calls that hook for a child that will not run, or its group never completes."""
        callbacks = GroupCallbacks(StubBarriers())
        bench = Bench(callbacks)
        actor = bench.actor()
        children = group([actor.message(1), actor.message(2)], broker=bench.broker)
        children.add_completion_callback(actor.message("completed"))
        children.run()
        first, second = (Message.decode(bench.broker.queues["default"].get_nowait()) for _ in range(2))
        assert first.options["group_completion_uuid"] == second.options["group_completion_uuid"]

        callbacks.after_process_message(bench.broker, MessageProxy(first))
        assert bench.broker.queues["default"].empty()
        callbacks.after_process_message(bench.broker, MessageProxy(second))

        assert Message.decode(bench.broker.queues["default"].get_nowait()).args == ("completed",)

    def test_a_child_that_is_skipped_never_counts(self) -> None:
        """Which is why we count it."""
        bench = Bench(GroupCallbacks(StubBarriers()))
        actor = bench.actor()
        bench.recorder.do["before_process_message"] = raising(SkipMessage())
        children = group([actor.message(1)], broker=bench.broker)
        children.add_completion_callback(actor.message("completed"))

        children.run()
        bench.work()

        assert len(bench.recorder.named("after_skip_message")) == 1

    def test_a_group_is_enqueued_child_by_child(self, bench: Bench) -> None:
        """Raising at the second leaves the third unsent: a refusal has to be quiet."""
        actor = bench.actor()

        def refuse(message: Message[Any]) -> None:
            if message.args == (2,):
                raise MiddlewareError

        bench.recorder.do["before_enqueue"] = refuse
        with pytest.raises(MiddlewareError):
            group([actor.message(number) for number in (1, 2, 3)], broker=bench.broker).run()

        assert bench.broker.queues["default"].qsize() == 1

    def test_a_pipeline_carries_its_next_step_in_an_option(self, bench: Bench) -> None:
        """An event names the actor whose step is lost."""
        actor = bench.actor()

        pipeline([actor.message(1), actor.message(2)], broker=bench.broker).run()

        first = Message.decode(bench.broker.queues["default"].get_nowait())
        assert first.options["pipe_target"]["actor_name"] == "export"


class TestActors:
    """What an actor shows of its function."""

    def test_an_async_function_is_wrapped_and_seen_through(self, bench: Bench) -> None:
        """`ActorView` takes the signature of what Dramatiq made of it."""

        async def fetch(url: str, *, retries: int = 3) -> None: ...

        fn = bench.actor(fetch).fn

        assert fn is not fetch
        assert fn.__wrapped__ is fetch  # type: ignore[attr-defined]

    def test_the_function_of_a_class_based_actor_is_its_instance(self, bench: Bench) -> None:
        """`ActorView` finds its methods there, and the signature of `perform`."""

        class Export(dramatiq.GenericActor):
            Meta = type("Meta", (), {"broker": bench.broker})  # type: ignore[assignment]

            def perform(self, tenant: str) -> None: ...

        instance: Any = Export
        fn: object = bench.broker.actors["Export"].fn
        assert fn is instance
        assert isinstance(fn, dramatiq.GenericActor)


def test_a_retry_may_start_before_the_first_attempt_is_acknowledged(bench: Bench) -> None:
    """So the run lock is let go before `Retries` hears of a failure, and not at the ack."""
    second_started = threading.Event()
    acked: list[str] = []

    def note_start(message: MessageProxy) -> None:
        if "retries" in message.options and message.queue_name == "default" and acked:
            second_started.set()

    def wait_for_the_second(message: MessageProxy) -> None:
        if message.queue_name == "default" and not acked:
            acked.append(message.message_id)
            assert second_started.wait(15)

    bench.recorder.do = {"before_process_message": note_start, "before_ack": wait_for_the_second}
    bench.actor(fail_once()).send(1)
    worker = Worker(bench.broker, worker_timeout=10, worker_threads=2)
    worker.start()
    try:
        eventually(lambda: len(bench.recorder.named("after_ack")) == 3)
    finally:
        worker.stop()

    assert second_started.is_set()
