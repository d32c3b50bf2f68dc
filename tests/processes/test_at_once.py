"""C26 between processes: many producers, several workers, one Redis."""

import subprocess
import sys

import redis

from tests.processes.workers import ROOT, dramatiq_worker, environment
from tests.rig import eventually
from tests.servers import GivenRedis, RedisServer


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


def test_fifty_sends_from_eight_threads_of_four_processes_are_one_message(
    server: RedisServer | GivenRedis, redis_client: "redis.Redis"
) -> None:
    """200 sends of one key at once, 50 in each process: exactly one message, exactly one run."""
    producers = [
        subprocess.Popen([sys.executable, "-c", PRODUCER], env=environment(server.url), cwd=ROOT) for _ in range(4)
    ]
    assert [producer.wait(60) for producer in producers] == [0] * 4

    outcomes = redis_client.lrange("outcomes", 0, -1)
    assert len(outcomes) == 200
    assert outcomes.count(b"enqueued") == 1
    assert redis_client.llen("dramatiq:default") == 1
    with dramatiq_worker(server.url, processes=2):
        eventually(lambda: redis_client.llen("ran:k") and not redis_client.exists("dramatiq:default.msgs"), 40)
    assert redis_client.llen("ran:k") == 1
    assert list(redis_client.scan_iter("dramatiq-unique:*")) == []


def test_one_at_a_time_holds_between_processes(server: RedisServer | GivenRedis, redis_client: "redis.Redis") -> None:
    """30 of one key over two worker processes: all run, and never two at once."""
    with dramatiq_worker(server.url, processes=2):
        code = "from tests.processes.jobs import alone\nfor number in range(30): alone.send('k', number)"
        subprocess.run([sys.executable, "-c", code], env=environment(server.url), cwd=ROOT, check=True, timeout=60)
        eventually(lambda: redis_client.llen("ran:k") == 30, 50)
    assert set(redis_client.lrange("together:k", 0, -1)) == {b"1"}
    assert sorted(map(int, redis_client.lrange("ran:k", 0, -1))) == list(range(30))
