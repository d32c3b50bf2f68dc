"""The cases from the field on RabbitMQ, where it runs: the same tests, with the middleware last in the list.

What looks into a queue while a worker has fetched from it is left out: RabbitMQ does not tell.
"""

import pytest

from tests.life.test_composition import (
    test_a_pipeline_whose_step_is_refused_says_whose_step_is_lost,
    test_a_refused_child_counts_as_done_in_its_group,
    test_a_rescheduled_message_has_no_result_before_it_has_run,
    test_the_next_step_of_a_pipeline_is_sent_by_dramatiq,
    test_the_original_of_a_refused_message_has_the_result,
)
from tests.life.test_delays import (
    test_a_delayed_message_runs_once_and_is_not_its_own_duplicate,
    test_acknowledging_the_delayed_copy_frees_nothing,
)
from tests.life.test_lifetimes import (
    test_a_lock_outlives_its_ttl_while_a_worker_runs_its_message,
    test_a_message_whose_lock_lapsed_runs_and_says_so,
    test_a_run_lock_is_renewed_while_its_actor_runs,
    test_two_whose_lock_lapsed_both_run_one_after_the_other,
)
from tests.life.test_lock_types import (
    test_until_and_while_executing_has_one_waiting_and_one_running,
    test_until_executed_refuses_a_second_copy_until_the_first_is_done,
    test_until_executing_refuses_a_second_copy_while_one_waits,
    test_until_expired_holds_its_window_after_the_run,
    test_while_executing_lets_everything_in_and_runs_one_at_a_time,
)
from tests.life.test_machinery import (
    test_a_message_that_is_too_old_lets_go,
    test_a_message_that_takes_too_long_lets_go,
    test_a_message_that_was_aborted_before_it_began_lets_go,
)
from tests.life.test_retries import (
    test_a_failure_without_retries_frees_everything,
    test_a_message_never_conflicts_with_itself,
    test_a_message_skipped_by_an_earlier_middleware_is_freed,
    test_a_replacement_takes_the_place_of_a_waiting_retry,
    test_a_retry_is_merged_into_the_newer_copy_that_waits,
    test_a_skip_frees_only_the_message_that_was_skipped,
    test_an_unknown_actor_is_the_end_of_a_message,
    test_the_end_of_a_message_frees_only_its_own_hold,
    test_until_executed_keeps_its_lock_while_a_retry_is_due,
)
from tests.life.test_sending import (
    test_a_later_middleware_that_raises_gives_the_lock_back,
    test_a_lost_script_cache_is_nobodys_problem,
    test_a_message_from_a_producer_without_the_middleware_runs,
    test_a_store_that_fails_gives_the_lock_back,
    test_an_argument_that_cannot_be_encoded_leaves_no_lock,
    test_many_senders_at_once_send_one_message,
)
from tests.life.test_strategies import (
    test_nothing_is_rescheduled_after_a_success,
    test_reject_puts_a_duplicate_into_the_dead_letters,
    test_rejecting_at_the_worker_leaves_the_holders_lock_alone,
    test_replacing_leaves_what_runs_undisturbed,
    test_rescheduling_runs_all_of_them_one_at_a_time,
)
from tests.life.test_triggers import (
    test_the_last_trigger_is_followed_by_a_run_that_started_after_it,
)


__all__ = [
    "test_a_delayed_message_runs_once_and_is_not_its_own_duplicate",
    "test_a_failure_without_retries_frees_everything",
    "test_a_later_middleware_that_raises_gives_the_lock_back",
    "test_a_lock_outlives_its_ttl_while_a_worker_runs_its_message",
    "test_a_lost_script_cache_is_nobodys_problem",
    "test_a_message_from_a_producer_without_the_middleware_runs",
    "test_a_message_never_conflicts_with_itself",
    "test_a_message_skipped_by_an_earlier_middleware_is_freed",
    "test_a_message_that_is_too_old_lets_go",
    "test_a_message_that_takes_too_long_lets_go",
    "test_a_message_that_was_aborted_before_it_began_lets_go",
    "test_a_message_whose_lock_lapsed_runs_and_says_so",
    "test_a_pipeline_whose_step_is_refused_says_whose_step_is_lost",
    "test_a_refused_child_counts_as_done_in_its_group",
    "test_a_replacement_takes_the_place_of_a_waiting_retry",
    "test_a_rescheduled_message_has_no_result_before_it_has_run",
    "test_a_retry_is_merged_into_the_newer_copy_that_waits",
    "test_a_run_lock_is_renewed_while_its_actor_runs",
    "test_a_skip_frees_only_the_message_that_was_skipped",
    "test_a_store_that_fails_gives_the_lock_back",
    "test_acknowledging_the_delayed_copy_frees_nothing",
    "test_an_argument_that_cannot_be_encoded_leaves_no_lock",
    "test_an_unknown_actor_is_the_end_of_a_message",
    "test_many_senders_at_once_send_one_message",
    "test_nothing_is_rescheduled_after_a_success",
    "test_reject_puts_a_duplicate_into_the_dead_letters",
    "test_rejecting_at_the_worker_leaves_the_holders_lock_alone",
    "test_replacing_leaves_what_runs_undisturbed",
    "test_rescheduling_runs_all_of_them_one_at_a_time",
    "test_the_end_of_a_message_frees_only_its_own_hold",
    "test_the_last_trigger_is_followed_by_a_run_that_started_after_it",
    "test_the_next_step_of_a_pipeline_is_sent_by_dramatiq",
    "test_the_original_of_a_refused_message_has_the_result",
    "test_two_whose_lock_lapsed_both_run_one_after_the_other",
    "test_until_and_while_executing_has_one_waiting_and_one_running",
    "test_until_executed_keeps_its_lock_while_a_retry_is_due",
    "test_until_executed_refuses_a_second_copy_until_the_first_is_done",
    "test_until_executing_refuses_a_second_copy_while_one_waits",
    "test_until_expired_holds_its_window_after_the_run",
    "test_while_executing_lets_everything_in_and_runs_one_at_a_time",
]


@pytest.fixture
def backend() -> str:
    """RabbitMQ, with a queue of the test's own."""
    return "rabbitmq-last"
