"""Looking at many locks: memory by `tracemalloc`, and what Redis was asked by ``INFO commandstats``.

20,000 of them, or 100,000 with ``DRAMATIQ_UNIQUE_NIGHTLY=1``.
"""

import os
import sys
import time
import tracemalloc
from typing import Any

import pytest

from dramatiq_unique.locks import Locks


LOCKS = 100_000 if os.environ.get("DRAMATIQ_UNIQUE_NIGHTLY") == "1" else 20_000
PAGE = 500


FILL = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) - 1 do
  local id = 'm' .. number
  for kind, record in pairs({queue = 'w -', run = number % 1000 == 0 and 'r ab12' or nil}) do
    local key = string.format('dramatiq-unique:{%040x}:%s', number, kind)
    redis.call('HSET', key, 'o:' .. id, ARGV[3] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. record, 'p:' .. id,
      ' default', 'i:' .. id, 'host:123 ' .. (number % 100 == 0 and 'import' or 'export'), 'a:' .. id,
      '{"args": ["' .. string.rep('x', 100) .. '"], "kwargs": {}}')
    redis.call('PEXPIREAT', key, ARGV[4])
  end
end
"""
"""Locks as `_holders.lua` writes them, under lock_info; every hundredth is of another actor, every thousandth runs."""


def fill(client: Any, locks: int) -> None:
    """Make so many locks."""
    now_ms = int(time.time() * 1000)
    for first in range(0, locks, PAGE):
        client.eval(FILL, 0, first, min(first + PAGE, locks), now_ms, now_ms + 600_000)


@pytest.mark.timeout(300)
def test_they_are_walked_in_constant_memory_and_page_by_page(redis_client: Any) -> None:
    """Each comes once; no KEYS, and no command that is longer than a page."""
    fill(redis_client, LOCKS)
    keys = redis_client.dbsize()
    redis_client.config_resetstat()
    walk = Locks(redis_client).iter()

    # Memory is traced for two pages, which is slow; from then on its blocks are counted, which must not grow.
    tracemalloc.start()
    holders = sum(len(next(walk).holders) for _ in range(2 * PAGE))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    count, most, blocks = 2 * PAGE, 0, sys.getallocatedblocks()
    for lock in walk:
        count += 1
        holders += len(lock.holders)
        if count % PAGE == 0:
            most = max(most, sys.getallocatedblocks() - blocks)

    assert (count, holders) == (LOCKS, keys) == (LOCKS, LOCKS + LOCKS // 1000)
    assert peak < 8 * 1024 * 1024  # A page has about 1 MiB.
    assert most < 50 * PAGE  # All of the locks would be some fifteen blocks each, two million.
    calls = {name.removeprefix("cmdstat_").split("|")[0]: stat["calls"] for name, stat in _stats(redis_client).items()}
    assert calls.keys() - {"info", "config", "hello", "client"} == {"scan", "hgetall", "time"}
    # Redis walks at least a page of its table at a time, and the table is at most some times as large as what is in it.
    assert LOCKS / PAGE / 4 < calls["scan"] < 8 * LOCKS / PAGE
    assert calls["time"] <= calls["scan"]
    assert calls["hgetall"] <= 2 * keys
    assert _stats(redis_client)["cmdstat_scan"]["usec_per_call"] < 20_000


def test_a_pattern_lets_go_of_what_it_matches(redis_client: Any) -> None:
    """One in a hundred, and every thousandth has its run lock, too; the others stay."""
    fill(redis_client, 10_000)
    assert Locks(redis_client).release_matching("import") == 110
    assert redis_client.dbsize() == 9_900


def _stats(client: Any) -> dict[str, dict[str, float]]:
    stats: dict[str, dict[str, float]] = client.info("commandstats")
    return stats
