"""A broker under test, and the means to send, run, wait and look."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import dramatiq
import redis
from dramatiq import Broker, Message
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import dq_name, xq_name

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.events import Event
from dramatiq_unique.store import RedisStore


__all__ = ["Bench", "Gate", "RabbitmqBench", "RedisBench", "Rig", "Runs", "StubBench", "eventually"]

PREFIX = "dramatiq-unique"


def eventually(predicate: Callable[[], object], within_s: float = 15) -> None:
    """Wait until something is true, by asking again and again.

    Args:
        predicate: What is asked.
        within_s: The deadline in seconds.

    Raises:
        AssertionError: It did not become true in time.
    """
    deadline_s = time.monotonic() + within_s
    while not predicate():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.005)


class Gate:
    """A door in an actor: the actor says that it is there, and waits until it is let through."""

    def __init__(self) -> None:
        self._here = threading.Semaphore(0)
        self._open = threading.Semaphore(0)

    def arrive(self) -> None:
        """Called by the actor."""
        self._here.release()
        assert self._open.acquire(timeout=30), "nobody opened the gate"

    def wait_for_arrival(self) -> None:
        """Wait until an actor stands at the gate."""
        assert self._here.acquire(timeout=15), "nobody arrived"

    def open(self, times: int = 1) -> None:
        """Let so many through, now or when they come."""
        self._open.release(times)


class Runs:
    """What ran: one entry for each run that ended, and how many ran at once at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most_at_once = 0
        self.started: list[Any] = []
        self.ended: list[Any] = []

    @contextmanager
    def of(self, what: Any = None) -> Iterator[None]:
        """Note a run of ``what``."""
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self.started.append(what)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1
                self.ended.append(what)


class Bench(Protocol):
    """How to look at one kind of broker."""

    queue: str
    """The queue that actors are on unless they say otherwise."""

    @property
    def broker(self) -> Broker:
        """The broker."""

    def join(self) -> None:
        """Wait until the queue and its delay queue are empty."""

    def pending(self) -> int:
        """Count the messages that are not acknowledged yet, those that a worker has fetched included."""

    def waiting(self) -> list[bytes]:
        """Look at the bodies in the queue and its delay queue; what a worker has fetched may be among them."""

    def dead_letters(self) -> list[bytes]:
        """Look at the dead letters of the queue, where the broker keeps them."""

    def close(self) -> None:
        """Leave nothing behind."""


class StubBench:
    """The Stub broker: queues in memory."""

    queue = "default"

    def __init__(self) -> None:
        self.broker = StubBroker(fail_fast_default=False)

    def join(self) -> None:
        """Wait for the queues' own counts."""
        self.broker.join(self.queue, timeout=30_000)

    def pending(self) -> int:
        """Count what is not done."""
        return sum(self.broker.queues[name].unfinished_tasks for name in self._names())

    def waiting(self) -> list[bytes]:
        """Look into the queues."""
        return [body for name in self._names() for body in list(self.broker.queues[name].queue)]

    def dead_letters(self) -> list[bytes]:
        """Look into the list."""
        return [letter._message.encode() for letter in self.broker.dead_letters_by_queue[self.queue]]

    def close(self) -> None:
        """It goes with the test."""
        self.broker.close()

    def _names(self) -> tuple[str, str]:
        return self.queue, dq_name(self.queue)


class OwnRedisBroker(RedisBroker):
    """A subclass, which may do anything at enqueue: on it a send takes two steps."""


class RedisBench:
    """The Redis broker: lists, hashes and a sorted set."""

    queue = "default"

    def __init__(self, client: "redis.Redis", kind: type[RedisBroker] = RedisBroker) -> None:
        self.broker: RedisBroker = kind(client=client)
        self._client: Any = client

    def join(self) -> None:
        """Poll the sizes."""
        self.broker.join(self.queue, interval=10, timeout=30_000)

    def pending(self) -> int:
        """Count the bodies."""
        return sum(self._client.hlen(f"dramatiq:{name}.msgs") for name in (self.queue, dq_name(self.queue)))

    def waiting(self) -> list[bytes]:
        """Look at the bodies."""
        names = (self.queue, dq_name(self.queue))
        return [body for name in names for body in self._client.hvals(f"dramatiq:{name}.msgs")]

    def dead_letters(self) -> list[bytes]:
        """Look up the ids of the sorted set in the hash."""
        letters = f"dramatiq:{xq_name(self.queue)}"
        ids = self._client.zrange(letters, 0, -1)
        return self._client.hmget(f"{letters}.msgs", ids) if ids else []

    def close(self) -> None:
        """The database is emptied by the next test."""
        self.broker.close()


class RabbitmqBench:
    """The RabbitMQ broker: a queue of the test's own, deleted in the end."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.broker = RabbitmqBroker(host="127.0.0.1", port=5672)

    def join(self) -> None:
        """Ask for the counts until they have been 0 for a while, since what is fetched is not counted."""
        self.broker.join(self.queue, min_successes=15, idle_time=20, timeout=30_000)

    def pending(self) -> int:
        """Count what waits; RabbitMQ tells nobody else what a consumer has fetched."""
        return len(self.waiting())

    def waiting(self) -> list[bytes]:
        """Take everything, and give it back."""
        return self._look(self.queue) + self._look(dq_name(self.queue))

    def dead_letters(self) -> list[bytes]:
        """Take everything from the dead-letter queue, and give it back."""
        return self._look(xq_name(self.queue))

    def close(self) -> None:
        """Delete the queues."""
        for name in (self.queue, dq_name(self.queue), xq_name(self.queue)):
            self.broker.channel.queue_delete(name)
        self.broker.close()

    def _look(self, name: str) -> list[bytes]:
        self.broker.declare_queue(self.queue, ensure=True)
        channel = self.broker.connection.channel()
        bodies = []
        while (got := channel.basic_get(name))[0] is not None:
            bodies.append(got[2])
        channel.close()  # What was not acknowledged goes back.
        return bodies


class Rig:
    """A broker with the middleware on it.

    Args:
        bench: The broker, and how to look at it.
        unique: The middleware.
        client: The Redis that holds its locks.
    """

    def __init__(self, bench: Bench, unique: UniqueMiddleware, client: "redis.Redis") -> None:
        self.bench = bench
        self.broker = bench.broker
        self.queue = bench.queue
        self.unique = unique
        self.client = client
        self.redis: Any = client  # Its replies are typed for either kind of client; here they are what they are.
        self.events: list[Event] = []
        self.workers: list[dramatiq.Worker] = []
        unique.subscribe(self.events.append)

    def use(self, unique: UniqueMiddleware) -> None:
        """Put another middleware in the place of the one on the broker."""
        self.broker.middleware = [m for m in self.broker.middleware if m is not self.unique]
        self.broker.add_middleware(unique)
        unique.subscribe(self.events.append)
        self.unique = unique

    def actor(self, fn: Callable[..., Any], **options: Any) -> Any:
        """Declare an actor on this broker, with retries that come back at once."""
        options = {
            "queue_name": self.queue,
            "min_backoff": 20,
            "max_backoff": 40,
            "reschedule_delay": 0.05,
            **options,
        }
        return dramatiq.actor(fn, broker=self.broker, **options)  # type: ignore[call-overload]

    def start(self, threads: int = 4) -> dramatiq.Worker:
        """Start a worker; it is stopped with the rig."""
        worker = dramatiq.Worker(self.broker, worker_timeout=20, worker_threads=threads)
        worker.start()
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        """Stop the workers."""
        while self.workers:
            self.workers.pop().stop()

    def drain(self, threads: int = 4) -> None:
        """Work until the queue and its delay queue are empty."""
        if not self.workers:
            self.start(threads)
        self.join()
        self.stop()

    def join(self) -> None:
        """Wait until the queue and its delay queue are empty, and what was fetched is done."""
        busy = True
        while busy:
            self.bench.join()
            # What RabbitMQ did not count, since it was fetched, may have gone back into a queue when it is done.
            busy = any(_has_work(worker) for worker in self.workers)
            for worker in self.workers:
                worker.join()

    @property
    def store(self) -> RedisStore:
        """The lock store of the middleware."""
        return self.unique._on(self.broker).parts.store

    def deliver_again(self, message: Message[Any]) -> None:
        """Put the very same body on the queue once more, as a broker does that heard nothing of its consumer."""
        self.put(message.encode(), message.options.get("redis_message_id", ""))

    def put(self, body: bytes, redis_message_id: str = "anything") -> None:
        """Put a body on the queue, past everything."""
        if isinstance(self.broker, RedisBroker):
            self.redis.hset(f"dramatiq:{self.queue}.msgs", redis_message_id, body)
            self.redis.rpush(f"dramatiq:{self.queue}", redis_message_id)
        elif isinstance(self.broker, RabbitmqBroker):
            self.broker.channel.basic_publish("", self.queue, body)
        elif isinstance(self.broker, StubBroker):
            self.broker.queues[self.queue].put(body)

    def lose_messages(self) -> None:
        """Have the broker forget what waits in the queue, without a word to anybody."""
        if isinstance(self.broker, RedisBroker):
            self.redis.delete(f"dramatiq:{self.queue}", f"dramatiq:{self.queue}.msgs")
        elif isinstance(self.broker, RabbitmqBroker):
            self.broker.channel.queue_purge(self.queue)
        elif isinstance(self.broker, StubBroker):
            self.broker.queues[self.queue].queue.clear()

    def not_seen_for(self, ms: int) -> None:
        """Have each holder of a queue lock be last seen so many milliseconds ago, by the server's clock."""
        for key in self.lock_keys("queue"):
            for field, value in self.redis.hgetall(key).items():
                if field.startswith(b"o:"):
                    since, _touched, deadline, rest = value.decode().split(" ", 3)
                    seen_ms = self.now_ms() - ms  # A holder is never seen before it took the lock.
                    until_ms = int(since) + int(deadline)
                    since_ms = min(int(since), seen_ms)
                    record = f"{since_ms} {seen_ms - since_ms} {until_ms - since_ms} {rest}"
                    self.redis.hset(key, field, record)

    def now_ms(self) -> int:
        """Tell the time by the clock of the lock server."""
        seconds, microseconds = self.redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def pending(self) -> int:
        """Count the messages that are not acknowledged yet, as far as the broker tells."""
        return self.bench.pending()

    def waiting(self) -> list[Message[Any]]:
        """List the messages in the queue and its delay queue, without taking them."""
        return [Message.decode(body) for body in self.bench.waiting()]

    def dead_letters(self) -> list[Message[Any]]:
        """List the dead letters of the queue, where the broker keeps them."""
        return [Message.decode(body) for body in self.bench.dead_letters()]

    def lock_keys(self, kind: str = "*") -> list[str]:
        """Name the keys in the lock store."""
        return [key.decode() for key in self.redis.scan_iter(f"{PREFIX}:*:{kind}")]

    def holders(self, kind: str = "queue") -> set[str]:
        """Name the messages that hold a lock."""
        return {
            field.decode()[2:]
            for key in self.lock_keys(kind)
            for field in self.redis.hkeys(key)
            if field.startswith(b"o:")
        }

    def told(self, name: str) -> list[Any]:
        """List the events of one name."""
        return [event for event in list(self.events) if event.name == name]


def _has_work(worker: dramatiq.Worker) -> bool:
    """Whether a worker has fetched what it has not done yet."""
    queues = [worker.work_queue, *(consumer.delay_queue for consumer in worker.consumers.values())]
    return any(queue.unfinished_tasks for queue in queues)
