"""One lock and its release, beside those of others, each driven by its locking part alone."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import redis
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend

from tests.benchmarks.counting import counted
from tests.benchmarks.driving import Driver
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.place import Place
from tests.benchmarks.rounds import alternate, timed
from tests.benchmarks.scale import Scale


__all__ = ["OTHERS", "OURS", "PLAIN", "Other", "locked"]

OURS = "dramatiq-unique"
PLAIN = "`SET NX PX`, compare-and-delete"
TTL_S = 30
COUNTED = 20
COMPARE_AND_DELETE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

Operation = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Other:
    """One row of the table: something that takes a lock and lets it go.

    Args:
        name: Its name.
        module: What has to be importable for it.
        driven: What of it is called.
        owner: Whether it compares the owner before it lets go, and so cannot let go of another's lock.
        make: Makes what is timed: a function of the number of a first lock and of how many, in seconds for one.
    """

    name: str
    module: str
    driven: str
    owner: bool
    make: Callable[[str], Callable[[int, int], float]]


def locked(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure taking one lock and letting it go."""
    server = place.server()
    runs = {other.name: other.make(server.url) for other in OTHERS if importlib.util.find_spec(other.module)}
    firsts = iter(range(0, 1_000_000_000, scale.batch))
    arms = {name: lambda run=run: run(next(firsts), scale.batch) for name, run in runs.items()}
    client = place.client(server)
    for name, ratios in beside(alternate(arms, scale.rounds), PLAIN):
        run = runs[name]
        counts = counted(client, lambda number, run=run: run(-number, 1), COUNTED)  # type: ignore[misc]
        yield Figure("lock", name, 0, ratios, counts)


def _each(operation: Operation) -> Callable[[int, int], float]:
    return lambda first, times: timed(lambda number: operation(first + number), times)


def _ours(url: str) -> Callable[[int, int], float]:
    driver = Driver(redis.Redis.from_url(url))

    def operation(number: int) -> None:
        driver.take(f"{number:040}", f"owner-{number}")
        driver.let_go(f"{number:040}", f"owner-{number}")

    return _each(operation)


def _plain(url: str) -> Callable[[int, int], float]:
    client = redis.Redis.from_url(url)
    release = client.register_script(COMPARE_AND_DELETE)

    def operation(number: int) -> None:
        client.set(f"plain:{number}", f"owner-{number}", px=TTL_S * 1000, nx=True)
        release(keys=[f"plain:{number}"], args=[f"owner-{number}"])

    return _each(operation)


def _redis_py(url: str) -> Callable[[int, int], float]:
    client = redis.Redis.from_url(url)

    def operation(number: int) -> None:
        lock = client.lock(f"lock:{number}", timeout=TTL_S, blocking=False)
        lock.acquire()
        lock.release()

    return _each(operation)


def _rate_limiter(url: str) -> Callable[[int, int], float]:
    backend = RedisBackend(url=url)

    def operation(number: int) -> None:
        with ConcurrentRateLimiter(backend, f"limiter:{number}", limit=1, ttl=TTL_S * 1000).acquire():
            pass

    return _each(operation)


def _celery_singleton(url: str) -> Callable[[int, int], float]:
    backend: Any = importlib.import_module("celery_singleton.backends").RedisBackend(url)

    def operation(number: int) -> None:
        backend.lock(f"singleton:{number}", f"owner-{number}", expiry=TTL_S)
        backend.unlock(f"singleton:{number}")

    return _each(operation)


def _celery_once(url: str) -> Callable[[int, int], float]:
    backend: Any = importlib.import_module("celery_once.backends.redis").Redis({"url": url})

    def operation(number: int) -> None:
        backend.raise_or_lock(f"once:{number}", TTL_S)
        backend.clear_lock(f"once:{number}")

    return _each(operation)


def _taskiq_deduplication(url: str) -> Callable[[int, int], float]:
    package: Any = importlib.import_module("taskiq_deduplication")
    taskiq: Any = importlib.import_module("taskiq")
    middleware = package.RedisDeduplicationMiddleware(url, default_ttl=TTL_S, heartbeat=False)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(middleware.startup())
    result = taskiq.TaskiqResult(is_err=False, return_value=None, execution_time=0)

    def message(number: int) -> Any:
        # With a key that is given it hashes no arguments, which would not be its locking part.
        labels = {"deduplication_key": f"{number}"}
        return taskiq.TaskiqMessage(task_id=f"owner-{number}", task_name="work", labels=labels, args=[], kwargs={})

    async def run(first: int, times: int) -> float:
        messages = [message(number) for number in range(first, first + times)]
        began = time.perf_counter()
        for sent in messages:
            await middleware.pre_send(sent)
            await middleware.post_execute(sent, result)
        return (time.perf_counter() - began) / times

    return lambda first, times: loop.run_until_complete(run(first, times))


OTHERS = (
    Other(
        PLAIN, "redis", "`set(nx=True, px=…)`, and a script that deletes the key of its owner", owner=True, make=_plain
    ),
    Other(OURS, "dramatiq_unique", "the scripts `acquire` and `finish`", owner=True, make=_ours),
    Other("redis-py's `Lock`", "redis", "`acquire` and `release`, not blocking", owner=True, make=_redis_py),
    Other("Dramatiq's `ConcurrentRateLimiter`", "dramatiq", "`acquire`, limit 1", owner=False, make=_rate_limiter),
    Other(
        "celery-singleton",
        "celery_singleton",
        "its `RedisBackend`: `lock` and `unlock`",
        owner=False,
        make=_celery_singleton,
    ),
    Other(
        "celery-once",
        "celery_once",
        "its `Redis` backend: `raise_or_lock` and `clear_lock`",
        owner=False,
        make=_celery_once,
    ),
    Other(
        "taskiq-deduplication",
        "taskiq_deduplication",
        "its hooks `pre_send` and `post_execute`, with a given key, on asyncio; what it does after a send is left out",
        owner=True,
        make=_taskiq_deduplication,
    ),
)
"""The first is what all are compared with."""
