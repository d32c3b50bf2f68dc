"""The actors that the worker processes of these tests run; what they did is in Redis, where the test reads it."""

import os
import time
from typing import Any

import dramatiq
import redis
from dramatiq import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

from dramatiq_unique import UniqueMiddleware


URL = os.environ["TEST_REDIS_URL"]
QUEUE = os.environ.get("TEST_QUEUE", "default")
LEASE_S = float(os.environ.get("TEST_LEASE_S", "30"))
broker: Broker
if os.environ.get("TEST_BROKER") == "rabbitmq":
    broker = RabbitmqBroker(host="127.0.0.1", port=5672)
    broker.add_middleware(UniqueMiddleware(url=URL, lease=LEASE_S))
else:
    broker = RedisBroker(url=URL)
    broker.add_middleware(UniqueMiddleware(lease=LEASE_S))
dramatiq.set_broker(broker)
seen: Any = redis.Redis.from_url(URL)


@dramatiq.actor(queue_name=QUEUE, lock="until_executed")
def once(key: str) -> None:
    """Note that it ran."""
    seen.rpush(f"ran:{key}", os.getpid())
    time.sleep(0.05)  # Work that takes time, not a wait for something.


@dramatiq.actor(queue_name=QUEUE, lock="while_executing", reschedule_delay=0.05, lock_args=["key"])
def alone(key: str, number: int) -> None:
    """Note how many run at once."""
    together = seen.incr(f"now:{key}")
    seen.rpush(f"together:{key}", together)
    time.sleep(0.02)  # Work that takes time.
    seen.decr(f"now:{key}")
    seen.rpush(f"ran:{key}", number)
