"""A worker that Prometheus watches: Dramatiq's own middleware, and beside it the metrics of the locks.

Jobs meet in Redis: what they have done is there, and each waits there for as many others as it is told.
"""

import os
import time
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware.prometheus import Prometheus

from dramatiq_unique import UniqueMiddleware
from dramatiq_unique.prometheus import Metrics


URL = os.environ["TEST_REDIS_URL"]
broker = RedisBroker(url=URL)
broker.add_middleware(Prometheus())
unique = UniqueMiddleware()
broker.add_middleware(unique)
unique.subscribe(Metrics())
dramatiq.set_broker(broker)
seen: Any = redis.Redis.from_url(URL)


@dramatiq.actor(lock="until_and_while_executing")
def meet(key: str, others: int) -> None:
    """Note where it runs, and wait until so many others run too."""
    seen.sadd("processes", os.getpid())
    seen.incr("met")
    while int(seen.get("met")) <= others:
        time.sleep(0.01)
