"""A simulated process: a broker object, a middleware and threads of its own.

Whatever Dramatiq does is done by Dramatiq's own code: the methods of its ``WorkerThread`` and ``ConsumerThread``, which
are not started as threads but called on strands.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import dramatiq
import fakeredis
import redis
from dramatiq import Message, Middleware, Worker
from dramatiq.broker import MessageProxy
from dramatiq.common import dq_name
from dramatiq.middleware import CurrentMessage, Retries, SkipMessage
from dramatiq.worker import ConsumerThread, WorkerThread
from redis.exceptions import NoScriptError

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.events import Event
from tests.interleavings.errands import Errand, Verdict
from tests.interleavings.plan import Plan
from tests.interleavings.post import QUEUE, Letter, Post, PostBroker, PostConsumer
from tests.interleavings.strands import Killed, Strand


__all__ = ["LEASE_S", "RETRIES", "Nature", "Process", "Refrain"]

LEASE_S = 9
RETRIES = 2
PREFIX = "u"


class Refrain(Exception):
    """What a job raises that is not to be tried again."""


ERRORS: dict[Verdict, Exception] = {"fail": RuntimeError("failed"), "throw": Refrain("not to be tried again")}


class Nature(Protocol):
    """The world as a process knows it."""

    plan: Plan
    post: Post
    server: fakeredis.FakeServer

    def call(self, process: "Process", errand: Errand, name: str, send: Callable[[], Any]) -> Any:
        """Take a call to the lock store."""

    def heard(self, process: "Process", errand: Errand | None, event: Event) -> None:
        """Hear an event."""

    def began(self, process: "Process", errand: Errand) -> None:
        """A job has begun."""

    def sent(self, process: "Process", errand: Errand) -> None:
        """A send has ended."""

    def stored(self, message_id: str) -> None:
        """A message was put into the broker."""

    def settled(self, errand: Errand, *, dead: bool) -> None:
        """A delivered message was acknowledged or rejected."""

    def listed(self, errand: Errand) -> None:
        """Letters are about to be flushed."""

    def dropped(self, errand: Errand, letters: list[Letter]) -> None:
        """Letters were flushed or withdrawn."""

    def wrong(self, text: str) -> None:
        """Something is wrong."""

    def next_id(self) -> str:
        """Make an id for a message."""


class Line(fakeredis.FakeRedis):
    """A process's client of the lock store: every call is a seam."""

    process: "Process | None" = None

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command."""
        if self.process is None:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        return self.process.call(str(args[0]), args[1:], lambda: super(Line, self).execute_command(*args, **options))  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:  # noqa: FBT002 - redis-py's
        """Make a pipeline whose execution is one seam."""
        made: Any = super().pipeline(transaction, shard_hint)
        execute, process = made.execute, self.process
        if process is not None:
            made.execute = lambda *args, **kwargs: process.call("renew all", (), lambda: execute(*args, **kwargs))
        return made


class Skipper(Middleware):
    """Another middleware, which skips what it is told to skip."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    def before_process_message(self, broker: dramatiq.Broker, message: MessageProxy) -> None:
        """Skip a message, as ``AgeLimit`` does: with ``fail`` it goes to the dead letters."""
        errand = self._process.errand
        if errand.skip == "fail":
            message.fail()
        if errand.skip is not None:
            errand.skipped = True
            raise SkipMessage("skipped")


class Consuming(ConsumerThread):
    """Notes when Dramatiq is done with the actor and its hooks."""

    process: "Process"

    def post_process_message(self, message: MessageProxy) -> None:
        """Acknowledge or reject."""
        self.process.errand.settling = True
        super().post_process_message(message)


class Logbook:
    """Stands in for Dramatiq's loggers: what is critical there, is wrong here."""

    def __init__(self, wrong: Callable[[str], object]) -> None:
        self._wrong = wrong

    def critical(self, text: str, *args: object, **options: object) -> None:
        """Dramatiq swallowed something."""
        self._wrong(text % args)

    exception = critical

    def debug(self, text: str, *args: object, **options: object) -> None:
        """Nothing unusual."""

    info = warning = error = debug


class Process:
    """A process that sends, and one that works if it is to.

    Args:
        world: The world that it is in.
        name: Its name.
        works: Whether it is a worker.
    """

    def __init__(self, world: Nature, name: str, *, works: bool) -> None:
        self.world = world
        self.name = name
        self.works = works
        self.alive = True
        self.behind = False  # Whether its keeper has missed a round.
        self.strands: dict[str, Strand] = {}
        self.errands: dict[Strand, Errand] = {}
        self.owed: set[str] = set()
        self.to_forget: set[str] = set()
        self.unheard: set[str] = set()
        self.tokens: set[str] = set()
        plan = world.plan
        self.client = Line(server=world.server)
        self.client.process = self
        self.unique = UniqueMiddleware(self.client, prefix=PREFIX, lease=LEASE_S, on_store_error=plan.on_store_error)
        self.unique.subscribe(self._heard)
        around: list[Middleware] = [Skipper(self), Retries(max_retries=RETRIES, min_backoff=1000, max_backoff=4000)]
        logbook: Any = Logbook(world.wrong)
        around[1].logger = logbook  # type: ignore[attr-defined]
        around.append(CurrentMessage())
        self.broker = PostBroker(world.post, self, [self.unique, *around] if plan.first else [*around, self.unique])
        self.broker.logger = logbook
        self.actor: Any = dramatiq.actor(  # type: ignore[call-overload]
            self._work,
            broker=self.broker,
            actor_name="work",
            lock=plan.lock,
            on_conflict={"client": plan.client, "server": plan.server},
            lock_limit=plan.limit,
            lock_ttl=plan.ttl_s,
            reschedule_delay=1,
            reschedule_limit=plan.reschedule_limit,
            throws=Refrain,
        )
        self.actor.logger = logbook
        holding = self.unique._on(self.broker).parts.holding
        self.keeper, self.backlog = holding._keeper, holding._backlog
        self._scripts = {s.sha: name for name, s in self.unique._on(self.broker).parts.store._scripts.items()}
        self.worker = Worker(self.broker, worker_threads=1)
        self.consumers: dict[str, ConsumerThread] = {}
        for queue_name in (QUEUE, dq_name(QUEUE)):
            consumer = Consuming(
                broker=self.broker,
                queue_name=queue_name,
                prefetch=1,
                work_queue=self.worker.work_queue,
                worker_timeout=1,
            )
            consumer.process = self
            consumer.consumer, consumer.logger = PostConsumer(self.broker), logbook
            self.consumers[queue_name] = consumer
        self.worker_thread = WorkerThread(
            broker=self.broker, consumers=self.consumers, work_queue=self.worker.work_queue, worker_timeout=1
        )
        self.worker_thread.logger = logbook
        if works:
            self.broker.emit_before("worker_boot", self.worker)

    # Threads

    def strand(self, name: str) -> Strand:
        """Find a thread of this process by name, and start it if it was not."""
        strand = self.strands.get(name)
        if strand is None:
            strand = self.strands[name] = Strand(f"{self.name}/{name}")
            if name.startswith("worker"):
                strand.begin(lambda: self.broker.emit_after("worker_thread_boot", self.worker_thread), None)
            elif name == "mover":
                consumer = self.consumers[dq_name(QUEUE)]
                strand.begin(lambda: self.broker.emit_after("consumer_thread_boot", consumer), None)
        return strand

    def free(self, name: str) -> bool:
        """Tell whether a thread has nothing to do."""
        return name not in self.strands or self.strands[name].idle

    @property
    def errand(self) -> Errand:
        """What the thread that asks is doing."""
        strand = Strand.current()
        assert strand is not None
        return self.errands[strand]

    def doing(self) -> Iterator[Errand]:
        """Give everything that is under way."""
        for errand in self.errands.values():
            yield errand
            if errand.outer is not None:
                yield errand.outer

    @property
    def busy(self) -> bool:
        """Whether the threads of this process that keep, and make good, have something to do."""
        return bool(self.keeper._leases or self.backlog._pending)

    def kept(self) -> set[str]:
        """Name the messages whose locks the keeper keeps."""
        return {lease.message_id for lease in self.keeper._leases}

    # What threads do

    def message(self, message_id: str, key: int) -> Message[Any]:
        """Make a message."""
        message: Message[Any] = self.actor.message_with_options(args=(key,))
        return message.copy(message_id=message_id)

    def send(self, errand: Errand, message: Message[Any], delay_ms: int | None) -> None:
        """Send a message."""
        errand.message = message
        try:
            errand.result = self.broker.enqueue(message, delay=delay_ms)
        except Exception as exc:  # noqa: BLE001 - the errand is looked at when it has ended
            errand.error = exc

    def move(self, letter: Letter) -> None:
        """Handle a delayed message whose time has come, on the consumer thread of the delay queue."""
        consumer = self.consumers[letter.queue_name]
        consumer.handle_message(MessageProxy(letter.message))
        consumer.handle_delayed_messages()

    def run(self, letter: Letter) -> None:
        """Handle a delivered message on a worker thread."""
        self.consumers[letter.queue_name].handle_message(MessageProxy(letter.message))
        self.worker_thread.process_message(self.worker.work_queue.get_nowait().message)

    def keep(self) -> None:
        """Do one round of the keeper and of the backlog."""
        self.keeper._work()
        self.backlog._work()

    def flush(self) -> None:
        """Flush the queue."""
        self.broker.flush(QUEUE)

    def _work(self, key: int) -> None:
        errand, strand = self.errand, Strand.current()
        assert strand is not None
        self.world.began(self, errand)
        errand.in_body = True
        try:
            self._check_alive()
            strand.seam("body", wait=True)
            self._check_alive()
            if errand.verdict == "again":
                self.broker.enqueue(CurrentMessage.get_current_message())  # type: ignore[arg-type]
            elif errand.verdict == "send":
                self._send_from_body(strand, errand, key)
            if errand.verdict in ERRORS:
                raise ERRORS[errand.verdict]  # noqa: TRY301 - a job raises where it stands
        except Refrain:
            errand.ran = "thrown"
            raise
        except BaseException:
            errand.ran = "raised"
            raise
        else:
            errand.ran = "returned"
        finally:
            errand.in_body = False

    def _send_from_body(self, strand: Strand, errand: Errand, key: int) -> None:
        inner = self.errands[strand] = Errand("send", errand.thread, self.world.next_id(), outer=errand)
        inner.met = errand.met
        try:
            self.send(inner, self.message(inner.message_id, key), None)
        finally:
            self.errands[strand] = errand
            inner.interrupted = inner.error is None and inner.result is None
            if self.alive:
                self.world.sent(self, inner)

    # What the world is told

    def call(self, command: str, args: tuple[Any, ...], send: Callable[[], Any]) -> Any:
        """Call the lock store."""
        strand = Strand.current()
        if strand is None:
            return send()
        errand = self.errands[strand]
        name = self._scripts.get(args[0], "?") if command == "EVALSHA" else command
        if not errand.mending:
            self.seam(name)
        try:
            reply = self.world.call(self, errand, name, send)
        except NoScriptError:
            errand.mending = True
            raise
        except redis.RedisError:
            errand.mending = False
            raise
        if command != "SCRIPT LOAD":
            errand.mending = False
        return reply

    def seam(self, at: str) -> None:
        """Come to a seam on the thread that asks."""
        strand = Strand.current()
        if strand is not None:
            self._check_alive()
            strand.seam(at)
            self._check_alive()

    def _check_alive(self) -> None:
        if not self.alive:
            raise Killed

    def _heard(self, event: Event) -> None:
        if self.alive:
            strand = Strand.current()
            self.world.heard(self, self.errands.get(strand) if strand else None, event)

    def stores(self) -> bool:
        """Tell whether the broker takes the message."""
        return self.errand.stores

    def stored(self, message: Message[Any]) -> None:
        """Note that a message was stored."""
        self.errand.stored.append((message.message_id, message.queue_name))
        self.world.stored(message.message_id)

    def settled(self, message: MessageProxy, *, dead: bool) -> None:
        """Note that a message was settled."""
        self.world.settled(self.errand, dead=dead)

    def buried(self, message: Message[Any]) -> None:
        """Note a dead letter."""
        self.errand.buried.append(message.message_id)

    def listed(self, letters: list[Letter]) -> None:
        """Note what is about to be flushed."""
        self.errand.listed |= {letter.message_id for letter in letters}
        self.errand.hops |= {letter.hop for letter in letters}
        self.world.listed(self.errand)

    def dropped(self, letters: list[Letter]) -> None:
        """Note what was dropped."""
        self.world.dropped(self.errand, letters)
