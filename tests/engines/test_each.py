"""The life of messages on each server at hand: Redis 6.2, 7 and 8, Valkey 8 and 9, as far as they are installed.

The same tests as elsewhere, on the Redis broker; with `DRAMATIQ_UNIQUE_TEST_REDIS_URL` all of them run on one engine.
"""

from collections.abc import Iterator

import pytest

from tests.cost.test_lookups import test_a_pattern_lets_go_of_what_it_matches
from tests.cost.test_memory import test_a_queue_lock, test_a_run_lock
from tests.life.test_delays import test_a_delayed_message_runs_once_and_is_not_its_own_duplicate
from tests.life.test_lifetimes import test_a_lock_outlives_its_ttl_while_a_worker_runs_its_message
from tests.life.test_lock_types import (
    test_a_limit_lets_so_many_run_at_once,
    test_until_and_while_executing_has_one_waiting_and_one_running,
    test_until_executed_refuses_a_second_copy_until_the_first_is_done,
    test_until_executing_refuses_a_second_copy_while_one_waits,
    test_until_expired_holds_its_window_after_the_run,
    test_while_executing_lets_everything_in_and_runs_one_at_a_time,
)
from tests.life.test_orphans import test_a_lock_whose_message_is_gone_is_taken_over_by_the_next_send
from tests.life.test_retries import test_until_executed_keeps_its_lock_while_a_retry_is_due
from tests.life.test_sending import (
    test_a_lost_script_cache_is_nobodys_problem,
    test_many_senders_at_once_send_one_message,
)
from tests.life.test_strategies import test_replace_takes_the_place_of_a_message_that_waits
from tests.life.test_unlocking import test_a_worker_that_waits_for_a_run_lock_is_woken_by_its_release
from tests.servers import RedisServer, executables, skip_or_fail


__all__ = [
    "test_a_delayed_message_runs_once_and_is_not_its_own_duplicate",
    "test_a_limit_lets_so_many_run_at_once",
    "test_a_lock_outlives_its_ttl_while_a_worker_runs_its_message",
    "test_a_lock_whose_message_is_gone_is_taken_over_by_the_next_send",
    "test_a_lost_script_cache_is_nobodys_problem",
    "test_a_pattern_lets_go_of_what_it_matches",
    "test_a_queue_lock",
    "test_a_run_lock",
    "test_a_worker_that_waits_for_a_run_lock_is_woken_by_its_release",
    "test_many_senders_at_once_send_one_message",
    "test_replace_takes_the_place_of_a_message_that_waits",
    "test_until_and_while_executing_has_one_waiting_and_one_running",
    "test_until_executed_keeps_its_lock_while_a_retry_is_due",
    "test_until_executed_refuses_a_second_copy_until_the_first_is_done",
    "test_until_executing_refuses_a_second_copy_while_one_waits",
    "test_until_expired_holds_its_window_after_the_run",
    "test_while_executing_lets_everything_in_and_runs_one_at_a_time",
]

ENGINES = executables()


@pytest.fixture(scope="module", params=sorted(ENGINES) or ["none"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A private server of one kind."""
    if request.param not in ENGINES:
        skip_or_fail("no redis-server: neither on PATH nor as a wheel (dependency group `server`)")
    with RedisServer(ENGINES[request.param]) as running:
        yield running


@pytest.fixture(autouse=True)
def _on_it(server: RedisServer) -> None:
    """Every test of this module, on each of them."""


@pytest.fixture
def backend() -> str:
    """The Redis broker on that server."""
    return "redis-last"
