"""The actors, workers and producers of the soak (:mod:`tests.soak`); what they do is in the Redis they work on.

Each run is two entries of the stream ``runs``, whose ids are the server's time: what (``started`` or ``ended``), the
lock type, the key, the message and the worker.
"""

import os
import random
import sys
import time
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage

from dramatiq_unique import UniqueMiddleware, outcome
from dramatiq_unique.events import Event, LeaseLost, Merged, Rescheduled


LOCKS = ("until_executed", "while_executing", "until_and_while_executing")
KEYS = 5
LEASE_S = 2.0
HEARTBEAT_MS = 1000
SHORTEST_S, LONGEST_S = 0.05, 0.35
STOP = "stop"
"""A key that ends the producers."""


def declare(url: str, worker: str = "") -> tuple[dict[str, Any], Any]:
    """Make a broker with the middleware on it, and declare the actors.

    Args:
        url: The Redis of everything.
        worker: The name of this worker.

    Returns:
        The actors by the name of their lock type, and a client of the Redis.
    """
    seen: Any = redis.Redis.from_url(url)
    broker = RedisBroker(url=url, heartbeat_timeout=HEARTBEAT_MS, maintenance_chance=1_000_000)
    unique = UniqueMiddleware(url=url, lease=LEASE_S)
    broker.add_middleware(unique)
    broker.add_middleware(CurrentMessage())
    dramatiq.set_broker(broker)

    def declare_one(lock: str) -> Any:
        def work(key: int, seconds: float) -> None:
            message = CurrentMessage.get_current_message()
            assert message is not None
            run = {"lock": lock, "key": key, "message": message.message_id, "worker": worker}
            seen.xadd("runs", run | {"what": "started"})
            time.sleep(seconds)  # Work that takes time.
            seen.xadd("runs", run | {"what": "ended"})

        options: dict[str, Any] = {"lock": lock, "lock_args": ["key"], "reschedule_delay": 0.1}
        return dramatiq.actor(work, actor_name=lock, **options)  # type: ignore[call-overload]

    @unique.subscribe
    def count(event: Event) -> None:
        if isinstance(event, Rescheduled):
            seen.hincrby("told", f"{event.name} ({event.strategy})")
        elif event.name not in ("locked", "released", "refused"):
            seen.hincrby("told", event.name)
        if isinstance(event, LeaseLost):
            seen.sadd("lost leases", event.message_id)
        elif isinstance(event, Merged):
            seen.hset("merged", event.message_id, event.holder_id)

    return {lock: declare_one(lock) for lock in LOCKS}, seen


def work() -> None:
    """Make the broker of a worker process: ``dramatiq tests.processes.soaked:work``."""
    declare(os.environ["TEST_REDIS_URL"], os.environ["TEST_WORKER"])


def produce(url: str, rate: float, seed: int) -> None:
    """Send, at random, so many jobs a second, until told to stop; note what was accepted and what was refused."""
    actors, seen = declare(url)
    chance = random.Random(seed)  # noqa: S311 - nothing here is a secret
    while not seen.exists(STOP):
        lock, key = chance.choice(LOCKS), chance.randrange(KEYS)
        message = actors[lock].send(key, round(chance.uniform(SHORTEST_S, LONGEST_S), 3))
        if outcome(message).action == "enqueued":
            seen.sadd(f"accepted:{lock}", message.message_id)
        else:
            seen.hincrby("refused", lock)
        time.sleep(chance.expovariate(rate))  # Its rate, not a wait for something.


if __name__ == "__main__":
    produce(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
