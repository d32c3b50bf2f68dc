"""C26 between processes: many producers, several workers, one Redis for the locks."""

import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis

from tests.processes.workers import ROOT, dramatiq_worker, environment
from tests.rig import Bench, RabbitmqBench, RedisBench, eventually
from tests.servers import GivenRedis, RedisServer, rabbitmq_answers


PRODUCER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from dramatiq_unique import outcome
from tests.processes.jobs import once, seen

with ThreadPoolExecutor(8) as pool:
    sent = list(pool.map(lambda _: once.send("k"), range(50)))
for message in sent:
    seen.rpush("outcomes", outcome(message).action)
"""


@pytest.fixture(params=["redis", "rabbitmq"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of broker."""
    name: str = request.param
    return name


@pytest.fixture
def bench(kind: str, redis_client: "redis.Redis") -> Iterator[Bench]:
    """The broker of these processes, with nothing in it."""
    if kind == "rabbitmq" and not rabbitmq_answers():
        pytest.skip("RabbitMQ is taken where it runs, and it does not run here")
    made = RabbitmqBench(f"dramatiq-unique-test-{uuid4()}") if kind == "rabbitmq" else RedisBench(redis_client)
    yield made
    made.close()


def test_fifty_sends_from_eight_threads_of_four_processes_are_one_message(
    kind: str, bench: Bench, server: RedisServer | GivenRedis, redis_client: "redis.Redis"
) -> None:
    """200 sends of one key at once, 50 in each process: exactly one message, exactly one run."""
    bench.broker.declare_queue(bench.queue)
    env = environment(server.url, TEST_BROKER=kind, TEST_QUEUE=bench.queue)
    producers = [subprocess.Popen([sys.executable, "-c", PRODUCER], env=env, cwd=ROOT) for _ in range(4)]
    assert [producer.wait(60) for producer in producers] == [0] * 4

    outcomes = redis_client.lrange("outcomes", 0, -1)
    assert len(outcomes) == 200
    assert outcomes.count(b"enqueued") == 1
    assert len(bench.waiting()) == 1
    with dramatiq_worker(server.url, processes=2, TEST_BROKER=kind, TEST_QUEUE=bench.queue):
        eventually(lambda: redis_client.llen("ran:k"), 40)
        eventually(lambda: list(redis_client.scan_iter("dramatiq-unique:*")) == [])
        bench.join()
    assert redis_client.llen("ran:k") == 1


def test_one_at_a_time_holds_between_processes(
    kind: str, bench: Bench, server: RedisServer | GivenRedis, redis_client: "redis.Redis"
) -> None:
    """30 of one key over two worker processes: all run, and never two at once."""
    with dramatiq_worker(server.url, processes=2, TEST_BROKER=kind, TEST_QUEUE=bench.queue):
        code = "from tests.processes.jobs import alone\nfor number in range(30): alone.send('k', number)"
        env = environment(server.url, TEST_BROKER=kind, TEST_QUEUE=bench.queue)
        subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, check=True, timeout=60)
        eventually(lambda: redis_client.llen("ran:k") == 30, 50)
    assert set(redis_client.lrange("together:k", 0, -1)) == {b"1"}
    assert sorted(map(int, redis_client.lrange("ran:k", 0, -1))) == list(range(30))
