"""What the worker processes of the benchmark work on: ``dramatiq tests.benchmarks.worked:work``."""

import os

import dramatiq
import redis

from tests.benchmarks.sides import Side


__all__ = ["work"]


def work() -> None:
    """Make the broker of one side."""
    side = Side(os.environ["TEST_SIDE"], redis.Redis.from_url(os.environ["TEST_REDIS_URL"]))
    dramatiq.set_broker(side.broker)
