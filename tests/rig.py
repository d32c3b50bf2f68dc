"""A broker under test, and the means to send, run, wait and look."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import redis
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import dq_name, q_name, xq_name

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.events import Event


__all__ = ["Gate", "Rig", "Runs", "eventually"]

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


class Rig:
    """A broker with the middleware on it.

    Args:
        broker: The broker.
        unique: The middleware.
        client: The Redis that holds its locks.
    """

    def __init__(self, broker: StubBroker | RedisBroker, unique: UniqueMiddleware, client: "redis.Redis") -> None:
        self.broker = broker
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
        options = {"min_backoff": 20, "max_backoff": 40, "reschedule_delay": 0.05, **options}
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

    def drain(self, threads: int = 4, queue: str = "default") -> None:
        """Work until the queue and its delay queue are empty."""
        if not self.workers:
            self.start(threads)
        self.join(queue)
        self.stop()

    def join(self, queue: str = "default") -> None:
        """Wait until the queue and its delay queue are empty."""
        if isinstance(self.broker, RedisBroker):
            self.broker.join(queue, interval=10, timeout=30_000)
        else:
            self.broker.join(queue, timeout=30_000)

    def lock_keys(self, kind: str = "*") -> list[str]:
        """Name the keys in the lock store."""
        return [key.decode() for key in self.redis.scan_iter(f"{PREFIX}:*:{kind}")]

    def holders(self, kind: str = "queue") -> set[str]:
        """Name the messages that hold a lock."""
        return {
            field.decode()[2:] for key in self.lock_keys(kind) for field in self.redis.hkeys(key) if field.startswith(b"o:")
        }

    def told(self, name: str) -> list[Any]:
        """List the events of one name."""
        return [event for event in list(self.events) if event.name == name]

    def pending(self, queue: str = "default") -> int:
        """Count the messages that are not acknowledged yet, those that a worker has fetched included."""
        names = (q_name(queue), dq_name(q_name(queue)))
        if isinstance(self.broker, RedisBroker):
            client: Any = self.broker.client
            return sum(client.hlen(f"{self.broker.namespace}:{name}.msgs") for name in names)
        return sum(self.broker.queues[name].unfinished_tasks for name in names)

    def waiting(self, queue: str = "default") -> list[Message[Any]]:
        """List the messages in a queue and its delay queue, without taking them.

        What a worker has fetched is still listed on the Redis broker, and no longer on the Stub broker.
        """
        names = (q_name(queue), dq_name(q_name(queue)))
        if isinstance(self.broker, RedisBroker):
            namespace = self.broker.namespace
            client: Any = self.broker.client
            bodies = [body for name in names for body in client.hvals(f"{namespace}:{name}.msgs")]
        else:
            bodies = [body for name in names for body in list(self.broker.queues[name].queue)]
        return [Message.decode(body) for body in bodies]

    def dead_letters(self, queue: str = "default") -> list[Message[Any]]:
        """List the dead letters of a queue, as the broker keeps them."""
        if isinstance(self.broker, RedisBroker):
            letters = f"{self.broker.namespace}:{xq_name(q_name(queue))}"
            client: Any = self.broker.client
            ids = client.zrange(letters, 0, -1)
            return [Message.decode(body) for body in client.hmget(f"{letters}.msgs", ids)] if ids else []
        return [letter._message for letter in self.broker.dead_letters_by_queue[queue]]
