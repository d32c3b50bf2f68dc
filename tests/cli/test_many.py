"""Many locks: memory of the command, and how long Redis is kept by one command of it.

20,000 of them, or 100,000 with ``DRAMATIQ_UNIQUE_NIGHTLY=1``.
"""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.shell import ROOT, environment, run, terminal
from tests.cost.test_lookups import LOCKS, PAGE, fill
from tests.servers import GivenRedis, RedisServer


MEASURED = """
import resource, sys
from dramatiq_unique.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""The command, which says on standard error how much memory it had at most, in KiB (on Linux)."""


def memory_kib(url: str, *arguments: str) -> tuple[int, int]:
    """Run a command; give its peak of memory, and how many lines it printed."""
    with subprocess.Popen(
        [sys.executable, "-c", MEASURED, *arguments],
        env=environment(url),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = sum(1 for _ in process.stdout)
        peak = int(process.stderr.read().splitlines()[-1])
        assert process.wait() == 0
    return peak if sys.platform == "linux" else peak // 1024, lines


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "arguments", [("list", "--json"), ("list",), ("release", "--pattern", "*", "--dry-run"), ("watch", "--times", "1")]
)
def test_memory_does_not_grow_with_the_locks(
    server: RedisServer | GivenRedis, redis_client: Any, arguments: tuple[str, ...]
) -> None:
    """Some MiB for what Python keeps; the locks themselves would be a KiB or more each."""
    fill(redis_client, 4 * PAGE)
    few, _ = memory_kib(server.url, *arguments)
    fill(redis_client, LOCKS)
    many, lines = memory_kib(server.url, *arguments)
    assert many - few < 6 * 1024
    assert lines >= LOCKS or arguments[0] == "watch"


@pytest.mark.timeout(300)
def test_no_command_keeps_redis_for_longer_than_a_page(server: RedisServer | GivenRedis, redis_client: Any) -> None:
    """Whatever walks does so by SCAN, and asks for each key alone."""
    fill(redis_client, LOCKS)
    redis_client.config_resetstat()
    for arguments in (("list", "--json"), ("doctor", "--json"), ("release", "--pattern", "import", "--yes", "--json")):
        ended = run(server.url, *arguments)
        assert all(json.loads(line) for line in ended.out.splitlines())
        assert ended.code == 0
    stats = redis_client.info("commandstats")
    calls = {name.removeprefix("cmdstat_").split("|")[0] for name in stats}
    looking = {"scan", "hgetall", "pttl", "time", "info", "config", "dbsize", "hello", "client", "select"}
    releasing = {"evalsha", "eval", "script", "hget", "hmget", "hdel", "hlen", "del", "pexpireat", "publish", "exists"}
    assert calls <= looking | releasing | {"hkeys", "hset", "pexpire"}
    assert stats["cmdstat_scan"]["usec_per_call"] < 20_000
    assert max(stat["usec_per_call"] for stat in stats.values()) < 20_000
    assert redis_client.dbsize() == LOCKS + LOCKS // 1000 - LOCKS // 100 - LOCKS // 1000


def test_a_bar_shows_how_far_a_walk_is(server: RedisServer | GivenRedis, redis_client: Any) -> None:
    """On a terminal, where there are many; a complaint stands above it, on lines of its own."""
    fill(redis_client, 10 * PAGE)
    with terminal(server.url, "list", "nobody*", columns=100) as shown:
        assert shown.end() == 1
    assert "Looking at the locks" in shown.shown
    assert "%" in shown.shown
    redis_client.set("dramatiq-unique:{spoilt}:run", "hello", ex=60)
    with terminal(server.url, "list", columns=100) as shown:
        assert shown.end() == 4
    assert "%" in shown.shown
    assert re.search(r"(^|[\n\x1b][^\r\n%━]*)dramatiq-unique: what stands in key", shown.shown)
    with terminal(server.url, "list", "nobody*", "--json", columns=100) as shown:
        assert shown.end() == 1
    assert "%" not in shown.shown
    redis_client.flushdb()
    fill(redis_client, PAGE)
    with terminal(server.url, "list", columns=100) as shown:
        assert shown.end() == 0
    assert "%" not in shown.shown
