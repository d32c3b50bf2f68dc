"""One scrape of a real endpoint shows the locks of every worker process, beside Dramatiq's own metrics."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from prometheus_client import parser

from tests.processes.workers import ROOT, DramatiqWorker, environment
from tests.rig import eventually
from tests.servers import HOST, GivenRedis, RedisServer, free_port


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

QUEUE_AND_ACTOR = {"queue_name": "default", "actor_name": "meet"}
OURS = QUEUE_AND_ACTOR | {"lock": "until_and_while_executing"}


class Watched:
    """A worker of two processes with one thread each, and the endpoint that it serves.

    Args:
        url: The Redis of broker and locks.
        directory: The multi-process directory.
        arguments: More arguments of the worker.
    """

    def __init__(self, url: str, directory: Path, *arguments: str) -> None:
        port = free_port()
        self.environment = environment(
            url,
            dramatiq_prom_db=str(directory),
            dramatiq_prom_host=HOST,
            dramatiq_prom_port=str(port),
            dramatiq_queue_prefetch="1",  # So that the second job goes to the process that has none.
            dramatiq_delay_queue_prefetch="1",
        )
        self._endpoint = f"http://{HOST}:{port}/metrics"
        self._worker = DramatiqWorker(
            "tests.processes.measured", self.environment, processes=2, threads=1, arguments=arguments
        )
        self.kill = self._worker.kill

    def scrape(self) -> Series:
        """Fetch what the endpoint shows."""
        try:
            with urllib.request.urlopen(self._endpoint, timeout=5) as response:  # noqa: S310 - our own endpoint
                text = response.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return {}  # The endpoint comes up after the workers.
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, labels: dict[str, str]) -> float | None:
        """Fetch one series; ``None`` where there is none."""
        return self.scrape().get((name, frozenset(labels.items())))


@contextmanager
def watched(url: str, directory: Path, *arguments: str) -> Iterator[Watched]:
    """Work until the block ends."""
    worker = Watched(url, directory, *arguments)
    try:
        yield worker
    finally:
        worker.kill()


def send(code: str, environment: dict[str, str]) -> None:
    """Send from a process of its own."""
    code = f"from tests.processes.measured import meet\n{code}"
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize("arguments", [[], ["--use-spawn"]], ids=["default", "spawn"])
def test_one_scrape_shows_both_processes(
    arguments: list[str], server: RedisServer | GivenRedis, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """Two jobs that run at once, in two processes, are two in one series; Dramatiq's own says the same."""
    with watched(server.url, tmp_path, *arguments) as worker:
        send("meet.send('a', 1)", worker.environment)
        eventually(lambda: redis_client.get("met") == b"1", 40)
        send("meet.send('b', 1)", worker.environment)
        eventually(lambda: worker.value("dramatiq_messages_total", QUEUE_AND_ACTOR) == 2, 20)
        series = worker.scrape()

    assert redis_client.scard("processes") == 2
    for kind, name in (("queue", "released"), ("run", "taken"), ("run", "released")):
        labels = frozenset((OURS | {"kind": kind}).items())
        assert series[f"dramatiq_unique_locks_{name}_total", labels] == 2, (kind, name)
    held = frozenset((OURS | {"kind": "run"}).items())
    assert series["dramatiq_unique_lock_hold_duration_milliseconds_count", held] == 2
    assert series["dramatiq_unique_lock_hold_duration_milliseconds_sum", held] > 0
    waited = frozenset(OURS.items())
    assert series["dramatiq_unique_lock_wait_duration_milliseconds_count", waited] == 2
    assert {path.name.partition("_")[0] for path in tmp_path.iterdir()} >= {"counter", "histogram"}


def test_a_producer_shows_there_too_where_it_is_told_the_directory(
    server: RedisServer | GivenRedis, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """Refusals at enqueue happen in the producer: without the directory they stay in it, with it they are seen."""
    refused = OURS | {"side": "client", "strategy": "none"}
    with watched(server.url, tmp_path) as worker:
        send("meet.send('a', 9)\nmeet.send('b', 9)", worker.environment)
        eventually(lambda: redis_client.scard("processes") == 2, 40)  # From here on, what is sent waits.
        send("meet.send('c', 9)\nmeet.send('c', 9)", worker.environment)
        send("meet.send('c', 9)", worker.environment | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)})
        eventually(worker.scrape, 20)

        assert worker.value("dramatiq_unique_messages_refused_total", refused) == 1
