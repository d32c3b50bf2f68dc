"""Actors that wait at a gate until the test lets them through, for workers that are killed, stopped and shut down.

What they do is in Redis, in the order in which it happened and with the server's time, one entry of the stream
``steps`` for each: what, the name of the job, which run of it this is, and in which worker. What the locks say of it is
in the list ``told``.
"""

import dataclasses
import json
import os
import time
from typing import Any

import dramatiq
import redis
from dramatiq import Broker, Message, Worker
from dramatiq.broker import MessageProxy
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Interrupt, Middleware

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.events import Event


__all__ = ["LOCKS", "declare", "from_environment", "make_broker"]

LOCKS = ("until_executed", "while_executing", "until_and_while_executing")
"""For each of these there is an actor of that name; ``key`` is what counts."""

HEARTBEAT_MS = 1500
"""After so long without a word from a worker, the Redis broker gives its messages to another."""


def make_broker(kind: str, url: str, lease_s: float) -> tuple[Broker, UniqueMiddleware]:
    """Make a broker with the middleware on it, its locks at ``url``."""
    broker: Broker
    if kind == "rabbitmq":
        broker = RabbitmqBroker(host="127.0.0.1", port=5672, heartbeat=int(os.environ.get("TEST_HEARTBEAT_S", "60")))
    else:
        broker = RedisBroker(url=url, heartbeat_timeout=HEARTBEAT_MS, maintenance_chance=1_000_000)
    unique = UniqueMiddleware(url=url, lease=lease_s)
    broker.add_middleware(unique)
    return broker, unique


def declare(broker: Broker, queue: str, url: str, worker: str = "") -> dict[str, Any]:
    """Declare the actors.

    Args:
        broker: The broker.
        queue: Their queue.
        url: The Redis where they note what they do.
        worker: The name of this worker.

    Returns:
        The actors by the name of their lock type.
    """
    seen: Any = redis.Redis.from_url(url)

    def note(what: str, name: str, run: int) -> None:
        seen.xadd("steps", {"what": what, "name": name, "run": run, "worker": worker})

    def at_gate(key: str, name: str) -> None:
        run = seen.incr(f"runs:{name}")
        note("started", name, run)
        try:
            while not seen.exists(f"open:{name}:{run}"):
                time.sleep(0.01)
        except Interrupt as exc:
            note(type(exc).__name__, name, run)
            raise
        note("ended", name, run)

    return {
        lock: dramatiq.actor(  # type: ignore[call-overload]
            at_gate,
            broker=broker,
            actor_name=lock,
            queue_name=queue,
            lock=lock,
            lock_args=["key"],
            reschedule_delay=0.05,
            min_backoff=100,
            max_backoff=200,
            notify_shutdown=True,
        )
        for lock in LOCKS
    }


class Notes(Middleware):
    """Notes when a worker is ready, and what it has acknowledged."""

    def __init__(self, url: str, worker: str) -> None:
        self._seen: Any = redis.Redis.from_url(url)
        self._worker = worker

    def after_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """It is ready."""
        self._seen.sadd("ready", self._worker)

    def after_ack(self, broker: Broker, message: MessageProxy | Message[Any]) -> None:
        """A message was acknowledged."""
        if not message.queue_name.endswith(".DQ"):
            self._seen.sadd(f"acked:{self._worker}", message.message_id)


def from_environment() -> None:
    """Make the broker of a worker process: ``dramatiq tests.processes.gated:from_environment``."""
    url, worker = os.environ["TEST_REDIS_URL"], os.environ["TEST_WORKER"]
    broker, unique = make_broker(os.environ["TEST_BROKER"], url, float(os.environ["TEST_LEASE_S"]))
    broker.add_middleware(Notes(url, worker))
    declare(broker, os.environ["TEST_QUEUE"], url, worker)
    seen: Any = redis.Redis.from_url(url)

    @unique.subscribe
    def tell(event: Event) -> None:
        seen.rpush("told", json.dumps({**dataclasses.asdict(event), "name": event.name, "worker": worker}))

    dramatiq.set_broker(broker)
