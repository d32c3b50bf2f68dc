"""The lock store: each operation, on a Redis in memory and on a real one, whether or not the client decodes replies.

The fixture `store` also checks, after every test, that each key that is left expires, has the prefix, and has the hash
tag that keeps the keys of one digest on one node of a cluster.
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from typing import Any

import fakeredis
import pytest
import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from dramatiq_unique import LockStoreUnavailable
from dramatiq_unique.store import (
    Acquired,
    Begun,
    Contested,
    Finished,
    Found,
    Held,
    Holder,
    Kept,
    Kind,
    Lease,
    QueueOwner,
    RedisStore,
    Replaced,
    Request,
    Running,
    Started,
    Superseded,
    Taken,
    Terms,
    in_queue_lock,
    new_token,
)
from tests.rig import eventually
from tests.servers import HOST, GivenRedis, RedisServer, free_port
from tests.unit.conftest import as_text


LONG_MS = 60_000
DIGEST = "d1935"
FIRST, SECOND = "a", "b"
"""The tokens of two deliveries."""
SENT, SENT_AGAIN, SENT_LAST = "sent", "again", "last"
"""The tokens of three enqueues."""


def request(message_id: str, *, limit: int = 1, **fields: Any) -> Request:
    """Ask for the lock on behalf of a message."""
    facts = {"digest": DIGEST, "actor_name": "export", "queue_name": "default", "broker_id": "", "args": ""}
    return Request(message_id=message_id, limit=limit, **(facts | fields))


def acquire(
    store: RedisStore,
    message_id: str,
    hold_ms: int = LONG_MS,
    *,
    token: str | None = None,
    state: str = "w",
    takeover: bool = False,
    delivery: str = "",
    orphan: Holder | None = None,
    **fields: Any,
) -> Acquired:
    """Take the queue lock for a message, in an enqueue of its own unless its token is given."""
    terms = Terms(token or new_token(), hold_ms, state or "w", hold_ms, state, takeover, delivery)
    return store.acquire(request(message_id, **fields), terms, orphan=orphan)


def begin(
    store: RedisStore,
    message_id: str,
    queue: str = "",
    *,
    token: str = FIRST,
    run: bool = False,
    lease_ms: int = LONG_MS,
    hold_ms: int = LONG_MS,
    **fields: Any,
) -> Begun:
    """Start a delivery of a message."""
    return store.begin(
        request(message_id, **fields), token=token, queue=queue, run=run, lease_ms=lease_ms, hold_ms=hold_ms
    )


def lease(message_id: str, kind: Kind = Kind.RUN, token: str = FIRST, lease_ms: int = LONG_MS) -> Lease:
    """Name a lock that is to be renewed."""
    return Lease(DIGEST, kind, message_id, token if kind is Kind.RUN else in_queue_lock(token), lease_ms)


def gone(finished: Finished) -> tuple[bool, bool]:
    """Tell whether the queue lock, and whether the run lock, was let go."""
    return finished.queue_ms is not None, finished.run_ms is not None


def holder_of(answer: Acquired | Begun) -> Holder:
    """Look at who is in the way, or was replaced."""
    assert isinstance(answer, Held | Replaced)
    return answer.holder


def expires_in_ms(store: RedisStore, kind: Kind = Kind.QUEUE) -> int:
    """Tell when a key expires; -2 where it is gone."""
    return store.client.pttl(store.key(DIGEST, kind))


def tick() -> None:
    """Let the clock move on, so that what comes next is later."""
    now_s = time.time()
    eventually(lambda: time.time() > now_s + 0.002)


class TestTokens:
    """What an enqueue, or a delivery, is known by."""

    def test_each_is_another_whatever_an_application_seeds(self) -> None:
        """Two processes that seed Python's random numbers alike have tokens of their own."""
        random.seed(1)
        first = new_token()
        random.seed(1)

        assert new_token() != first

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_a_fork_makes_others_than_its_parent(self) -> None:
        """The `dramatiq` command forks its workers."""
        program = (
            "import os\n"
            "from dramatiq_unique.store import new_token\n"
            "child = os.fork()\n"
            "if child: os.waitpid(child, 0)\n"
            "print(new_token(), flush=True)\n"
        )

        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)

        assert len(set(ran.stdout.split())) == 2


class TestAcquire:
    """A message takes its queue lock at enqueue."""

    def test_a_free_lock_is_taken(self, store: RedisStore) -> None:
        """It expires from that moment."""
        assert acquire(store, "x", 10_000) == Taken()

        assert 0 < expires_in_ms(store) <= 10_000

    def test_a_message_never_conflicts_with_itself(self, store: RedisStore) -> None:
        """It keeps the lock it has, for longer if it asks for longer."""
        acquire(store, "x", 10_000)

        assert acquire(store, "x", 50_000) == Kept()

        assert 10_000 < expires_in_ms(store) <= 50_000

    def test_what_is_kept_is_not_kept_for_shorter(self, store: RedisStore) -> None:
        """A deadline only moves away."""
        acquire(store, "x", 50_000)
        acquire(store, "x", 10_000)

        assert expires_in_ms(store) > 10_000

    def test_a_window_is_not_stretched(self, store: RedisStore) -> None:
        """Whoever asks again, a copy of the message that was delivered twice for one, finds it as it was opened."""
        acquire(store, "x", state="f", hold_ms=1000)

        acquire(store, "x", state="f", hold_ms=LONG_MS)

        assert expires_in_ms(store) <= 1000

    def test_a_full_lock_names_its_holder(self, store: RedisStore) -> None:
        """Who, since when, until when, and where its message is."""
        acquire(store, "x", 10_000, actor_name="import it", queue_name="slow.DQ", broker_id="b-1")

        answer = acquire(store, "y")

        assert isinstance(answer, Held)
        assert 0 < answer.left_ms <= 10_000
        holder = answer.holder
        assert (holder.message_id, holder.actor_name, holder.queue_name, holder.broker_id) == (
            "x",
            "import it",
            "slow.DQ",
            "b-1",
        )
        assert holder.state == "w"
        assert holder.deadline_ms - holder.since_ms == 10_000
        assert abs(holder.since_ms - time.time() * 1000) < 5_000
        host, _, pid = holder.process.rpartition(":")
        assert host
        assert pid.isdigit()

    def test_a_conflict_leaves_the_holder_as_it_is(self, store: RedisStore) -> None:
        """Asking for a full lock changes nothing in it."""
        acquire(store, "x", 10_000)
        before = holder_of(acquire(store, "y"))

        for _ in range(3):
            acquire(store, "y", 50_000)

        assert holder_of(acquire(store, "y")) == before
        assert expires_in_ms(store) <= 10_000

    def test_a_lapsed_lock_is_free(self, store: RedisStore) -> None:
        """Its deadline is all that it takes, by the clock of the server."""
        acquire(store, "x", 20)

        eventually(lambda: isinstance(acquire(store, "y"), Taken))

        assert holder_of(acquire(store, "x")).message_id == "y"

    def test_another_digest_is_another_lock(self, store: RedisStore) -> None:
        """Locks don't touch each other."""
        acquire(store, "x")

        assert acquire(store, "y", digest="another") == Taken()

    @pytest.mark.parametrize("state", ["w", "v", "f"])
    def test_the_state_is_written_down(self, store: RedisStore, state: str) -> None:
        """A message that waits, a window whose message waits, a window whose place nobody may take."""
        acquire(store, "x", state=state)

        assert holder_of(acquire(store, "y")).state == state

    def test_an_empty_state_keeps_the_one_that_is_there(self, store: RedisStore) -> None:
        """A job that enqueues its own message runs on; a lock that is free is taken as a waiting one."""
        acquire(store, "x", state="")
        assert holder_of(acquire(store, "y")).state == "w"
        begin(store, "x", "end")

        acquire(store, "x", state="")

        assert holder_of(acquire(store, "y")).state == "r"

    def test_a_message_that_waits_again_is_told_so(self, store: RedisStore) -> None:
        """A retry that is enqueued waits, and is where it is now."""
        acquire(store, "x", broker_id="b-1")
        begin(store, "x", "end")

        acquire(store, "x", queue_name="default.DQ", broker_id="b-2", delivery=FIRST)

        holder = holder_of(acquire(store, "y"))
        assert (holder.state, holder.queue_name, holder.broker_id) == ("w", "default.DQ", "b-2")

    @pytest.mark.parametrize("delivery", [FIRST, ""], ids=["its first delivery", "a program"])
    def test_what_runs_waits_once_its_delivery_is_over(self, store: RedisStore, delivery: str) -> None:
        """It was enqueued meanwhile by somebody else than the delivery that runs: nobody takes its place before."""
        acquire(store, "x")
        begin(store, "x", "end", token=FIRST)
        begin(store, "x", "end", token=SECOND)
        acquire(store, "x", delivery=delivery)
        acquire(store, "x")

        assert isinstance(acquire(store, "y", takeover=True), Held)
        assert gone(store.finish(DIGEST, "x", token=SECOND, queue="delivery", run=False)) == (False, False)
        assert isinstance(acquire(store, "y", takeover=True), Replaced)

    def test_what_an_earlier_delivery_says_of_its_end_is_not_of_what_runs(self, store: RedisStore) -> None:
        """Its job had sent its own message again, which runs by now."""
        acquire(store, "x")
        begin(store, "x", "end", token=FIRST)
        begin(store, "x", "end", token=SECOND)
        acquire(store, "x")

        store.keep(DIGEST, "x", 0, over=FIRST)

        assert isinstance(acquire(store, "y", takeover=True), Held)
        store.keep(DIGEST, "x", 0, over=SECOND)
        assert isinstance(acquire(store, "y", takeover=True), Replaced)

    def test_arguments_are_kept_only_where_they_are_given(self, store: RedisStore) -> None:
        """Under `lock_info`, for people who look at the lock."""
        acquire(store, "x")
        acquire(store, "y", digest="another", args='{"args": ["ü"]}')

        assert holder_of(acquire(store, "z")).fields[-1] == ""
        assert holder_of(acquire(store, "z", digest="another")).fields[-1] == '{"args": ["ü"]}'

    @pytest.mark.parametrize("name", ["an actor", "größer", "a:b {c} %d", "-"])
    def test_names_come_back_as_they_were(self, store: RedisStore, name: str) -> None:
        """Whatever is in an actor's name or a message's id."""
        acquire(store, name, actor_name=name)

        holder = holder_of(acquire(store, "y"))
        assert (holder.message_id, holder.actor_name) == (name, name)


class TestTakeover:
    """A newer message takes the place of one that waits."""

    def test_the_waiting_holder_is_replaced(self, store: RedisStore) -> None:
        """The lock is the newer one's, and the older is told when it comes up: at enqueue, and at the start."""
        acquire(store, "x", broker_id="b-1")

        assert holder_of(acquire(store, "y", takeover=True)).broker_id == "b-1"

        assert holder_of(acquire(store, "z")).message_id == "y"
        assert acquire(store, "x") == Contested("y")
        assert begin(store, "x", "start") == Contested("y")
        store.confirm(DIGEST, "x", "y")
        assert acquire(store, "x") == Superseded("y")
        assert begin(store, "x", "start") == Superseded("y")

    def test_only_the_one_that_took_the_place_confirms_it(self, store: RedisStore) -> None:
        """Another may have taken it meanwhile, or the old one counts again."""
        acquire(store, "x")
        acquire(store, "y", token=SENT, takeover=True)
        store.confirm(DIGEST, "x", "z")
        assert acquire(store, "x") == Contested("y")
        store.restore(DIGEST, "y", token=SENT)
        store.forget(DIGEST, "x")
        store.confirm(DIGEST, "x", "y")
        assert acquire(store, "x") == Kept()

    def test_the_superseded_are_remembered_for_so_long(self, store: RedisStore) -> None:
        """The memory expires, from the moment it exists."""
        acquire(store, "x")
        acquire(store, "y", takeover=True)

        assert 0 < store.client.pttl(store.key(DIGEST, "superseded")) <= 60_000

    def test_a_window_whose_message_waits_is_replaced_too(self, store: RedisStore) -> None:
        """The window begins anew, with the newer message."""
        acquire(store, "x", state="v")

        answer = acquire(store, "y", state="v", takeover=True)

        assert isinstance(answer, Replaced)
        assert (answer.holder.message_id, answer.holder.state) == ("x", "v")

    @pytest.mark.parametrize("takeover", [True, False])
    def test_nobody_takes_the_place_of_who_runs_or_is_fixed(self, store: RedisStore, takeover: bool) -> None:
        """There, the newcomer is refused."""
        acquire(store, "x")
        begin(store, "x", "end")
        acquire(store, "x", state="f", digest="another")

        for digest in (DIGEST, "another"):
            assert isinstance(acquire(store, "y", takeover=takeover, digest=digest), Held)

    def test_nobody_takes_a_place_without_asking_for_it(self, store: RedisStore) -> None:
        """Without `takeover`, a waiting holder is in the way."""
        acquire(store, "x")

        assert isinstance(acquire(store, "y"), Held)

    def test_a_free_lock_is_only_taken(self, store: RedisStore) -> None:
        """There is nobody to replace."""
        assert acquire(store, "x", takeover=True) == Taken()
        assert acquire(store, "x", takeover=True) == Kept()

    def test_of_several_the_oldest_that_waits_goes(self, store: RedisStore) -> None:
        """With a limit above 1, whoever runs stays."""
        for name in ("runs", "old", "new"):
            acquire(store, name, limit=3)
            tick()
        begin(store, "runs", "end", limit=3)

        assert holder_of(acquire(store, "newest", limit=3, takeover=True)).message_id == "old"
        assert holder_of(acquire(store, "newest still", limit=3, takeover=True)).message_id == "new"

    def test_who_replaces_at_once_leaves_one(self, store: RedisStore) -> None:
        """Each but the last is superseded by another."""
        names = [f"m{number}" for number in range(12)]
        threads = [threading.Thread(target=acquire, args=(store, name), kwargs={"takeover": True}) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        answers = [acquire(store, name) for name in names]
        assert answers.count(Kept()) == 1
        assert sum(isinstance(answer, Contested) for answer in answers) == 11

    def test_what_was_superseded_can_be_forgotten(self, store: RedisStore) -> None:
        """Once its message is gone; twice is nothing."""
        acquire(store, "x")
        acquire(store, "y", takeover=True)

        store.forget(DIGEST, "x")
        store.forget(DIGEST, "x")

        assert isinstance(acquire(store, "x"), Held)
        assert not store.client.exists(store.key(DIGEST, "superseded"))


class TestBegin:
    """A delivery starts."""

    def test_start_lets_the_queue_lock_go(self, store: RedisStore) -> None:
        """It was mine."""
        acquire(store, "x")

        assert begin(store, "x", "start") == Started(Found.MINE)

        assert acquire(store, "y") == Taken()

    def test_start_without_a_lock_runs_all_the_same(self, store: RedisStore) -> None:
        """It was free, or is another's by now, who keeps it."""
        assert begin(store, "x", "start") == Started(Found.FREE)
        acquire(store, "y")

        assert begin(store, "x", "start") == Started(Found.OTHER)

        assert holder_of(acquire(store, "z")).message_id == "y"

    def test_end_keeps_the_queue_lock_for_one_lease_at_least(self, store: RedisStore) -> None:
        """A deadline that is near moves away, one that is far stays."""
        acquire(store, "x", 10_000)
        acquire(store, "x", 50_000, digest="far")

        assert begin(store, "x", "end", lease_ms=30_000) == Started(Found.MINE)
        assert begin(store, "x", "end", lease_ms=30_000, digest="far") == Started(Found.MINE)

        assert 10_000 < expires_in_ms(store) <= 30_000
        assert store.client.pttl(store.key("far", Kind.QUEUE)) > 30_000
        assert holder_of(acquire(store, "y")).state == "r"

    @pytest.mark.parametrize(("queue", "state"), [("end", "r"), ("take", "f")])
    def test_end_and_take_take_a_free_lock(self, store: RedisStore, queue: str, state: str) -> None:
        """It lapsed, or nobody took it; the message runs with it, or in a window that it opens."""
        assert begin(store, "x", queue, hold_ms=50_000, lease_ms=1_000) == Started(Found.FREE)

        assert 1_000 < expires_in_ms(store) <= 50_000
        holder = holder_of(acquire(store, "y"))
        assert (holder.message_id, holder.state) == ("x", state)

    def test_end_takes_a_free_lock_for_one_lease_at_least(self, store: RedisStore) -> None:
        """A shorter hold would lapse before it is renewed."""
        begin(store, "x", "end", hold_ms=1_000, lease_ms=30_000)

        assert expires_in_ms(store) > 1_000

    @pytest.mark.parametrize("queue", ["end", "take"])
    def test_end_and_take_are_held_up_by_another(self, store: RedisStore, queue: str) -> None:
        """Who is in the way, and for how long."""
        acquire(store, "x", 10_000)

        answer = begin(store, "y", queue)

        assert isinstance(answer, Held)
        assert answer.holder.message_id == "x"
        assert 0 < answer.left_ms <= 10_000

    def test_mark_only_says_that_the_message_of_a_window_runs(self, store: RedisStore) -> None:
        """Its place is nobody's to take any longer; the window is neither stretched nor taken again."""
        acquire(store, "x", 10_000, state="v")

        assert begin(store, "x", "mark") == Started(Found.MINE)
        assert holder_of(acquire(store, "y", takeover=True)).state == "f"
        assert expires_in_ms(store) <= 10_000

        assert begin(store, "y", "mark") == Started(Found.OTHER)
        assert begin(store, "y", "mark", digest="another") == Started(Found.FREE)
        assert acquire(store, "z", digest="another") == Taken()

    def test_nothing_is_asked_of_a_queue_lock_that_there_is_not(self, store: RedisStore) -> None:
        """`while_executing` has a run lock only."""
        assert begin(store, "x", "", run=True) == Started(Found.NONE)

        assert expires_in_ms(store) == -2

    def test_the_run_lock_is_a_lease(self, store: RedisStore) -> None:
        """It expires from the moment it exists."""
        begin(store, "x", run=True, lease_ms=10_000)

        assert 0 < expires_in_ms(store, Kind.RUN) <= 10_000

    def test_a_run_lock_is_held_by_one_delivery(self, store: RedisStore) -> None:
        """Another message waits for it."""
        begin(store, "x", run=True, lease_ms=10_000, actor_name="import")

        answer = begin(store, "y", run=True)

        assert isinstance(answer, Held)
        assert 0 < answer.left_ms <= 10_000
        assert (answer.holder.message_id, answer.holder.actor_name, answer.holder.state) == ("x", "import", "r")

    def test_a_message_whose_earlier_delivery_may_be_running_is_told(self, store: RedisStore) -> None:
        """The same message twice is not the same delivery."""
        begin(store, "x", run=True, token=FIRST, lease_ms=10_000)

        answer = begin(store, "x", run=True, token=SECOND)

        assert isinstance(answer, Running)
        assert 0 < answer.left_ms <= 10_000

    def test_a_delivery_is_never_in_its_own_way(self, store: RedisStore) -> None:
        """The driver asks again where an answer is lost: it has what it took."""
        acquire(store, "x")
        begin(store, "x", "start", run=True, token=FIRST)

        assert begin(store, "x", "start", run=True, token=FIRST) == Started(Found.MINE)

    def test_a_lapsed_lease_is_free(self, store: RedisStore) -> None:
        """The worker is dead, or stopped."""
        begin(store, "x", run=True, lease_ms=20)

        eventually(lambda: begin(store, "y", run=True) == Started(Found.NONE))

    def test_both_locks_or_neither(self, store: RedisStore) -> None:
        """Where one is another's, the other is left as it was."""
        acquire(store, "mine")
        begin(store, "runs", run=True)
        begin(store, "mine", "start", run=True)
        assert holder_of(acquire(store, "y")).message_id == "mine"

        acquire(store, "other", digest="another")
        assert isinstance(begin(store, "x", "end", run=True, digest="another"), Held)
        assert begin(store, "y", run=True, digest="another") == Started(Found.NONE)

    def test_the_queue_lock_goes_in_the_step_that_takes_the_run_lock(self, store: RedisStore) -> None:
        """`until_and_while_executing`: one runs, and one may wait."""
        acquire(store, "x")

        assert begin(store, "x", "start", run=True) == Started(Found.MINE)

        assert acquire(store, "y") == Taken()
        assert isinstance(begin(store, "y", "start", run=True), Held)
        assert isinstance(acquire(store, "z"), Held)


class TestAskedAgain:
    """An enqueue whose answer was lost, and whose message may have been delivered since."""

    def test_what_runs_stays_as_it_is(self, store: RedisStore) -> None:
        """Nobody may take its place: it was this very enqueue that sent what runs."""
        acquire(store, "x", token=SENT)
        begin(store, "x", "end")
        before = holder_of(acquire(store, "y"))

        assert isinstance(acquire(store, "x", token=SENT), Kept)
        after = holder_of(acquire(store, "y", takeover=True))
        assert (after.state, after.token, after.deadline_ms) == (before.state, before.token, before.deadline_ms)
        assert gone(store.finish(DIGEST, "x", token=FIRST, queue="delivery", run=False)) == (True, False)

    def test_another_enqueue_of_what_runs_is_one_of_its_own(self, store: RedisStore) -> None:
        """A retry: the lock is left to it, and no longer to the delivery."""
        acquire(store, "x", token=SENT)
        begin(store, "x", "end")

        assert isinstance(acquire(store, "x", token=SENT_AGAIN), Kept)
        assert gone(store.finish(DIGEST, "x", token=FIRST, queue="delivery", run=False)) == (False, False)


class TestFinish:
    """The owner lets go of its locks; whoever is not the owner lets go of nothing."""

    def test_the_owner_frees_what_it_says(self, store: RedisStore) -> None:
        """The queue lock, the run lock, or both, and it is told which."""
        acquire(store, "x")
        begin(store, "x", "end", run=True, token=FIRST)

        assert gone(store.finish(DIGEST, "x", token=FIRST, queue=None, run=False)) == (False, False)
        assert gone(store.finish(DIGEST, "x", token=FIRST, queue=None, run=True)) == (False, True)
        assert isinstance(acquire(store, "y"), Held)
        assert gone(store.finish(DIGEST, "x", token=FIRST, queue="message", run=True, sent_as=SENT)) == (True, False)
        assert acquire(store, "y") == Taken()

    def test_nothing_is_left_of_it(self, store: RedisStore) -> None:
        """No key outlives its last holder."""
        acquire(store, "x", args="{}")
        begin(store, "x", "end", run=True, args="{}")

        store.finish(DIGEST, "x", token=FIRST, queue="message", run=True)

        assert list(store.client.scan_iter()) == []

    def test_releasing_twice_is_nothing(self, store: RedisStore) -> None:
        """The second time, another may have the lock."""
        acquire(store, "x")
        store.finish(DIGEST, "x", token="", queue="message", run=False, sent_as=SENT)
        acquire(store, "y")

        assert gone(store.finish(DIGEST, "x", token="", queue="message", run=False, sent_as=SENT)) == (False, False)

        assert isinstance(acquire(store, "z"), Held)

    def test_another_message_frees_nothing(self, store: RedisStore) -> None:
        """Not even with the owner's token."""
        acquire(store, "x")
        begin(store, "x", "end", run=True, token=FIRST)

        assert gone(store.finish(DIGEST, "y", token=FIRST, queue="message", run=True)) == (False, False)

        assert isinstance(acquire(store, "z"), Held)
        assert isinstance(begin(store, "z", run=True), Held)

    @pytest.mark.parametrize("token", ["b", "", "-", "A", "aa"])
    def test_a_wrong_token_frees_no_run_lock(self, store: RedisStore, token: str) -> None:
        """A delivery that stalled, and ends late, frees nothing of the one that was started elsewhere."""
        begin(store, "x", run=True, token=FIRST)

        assert gone(store.finish(DIGEST, "x", token=token, queue=None, run=True)) == (False, False)

        assert isinstance(begin(store, "y", run=True), Held)

    @pytest.mark.parametrize("queue", ["message", "delivery"])
    def test_a_message_that_was_never_started_is_let_go_by_the_enqueue_that_it_comes_from(
        self, store: RedisStore, queue: QueueOwner
    ) -> None:
        """Its lock is left to that one until a delivery starts."""
        acquire(store, "x", token=SENT)

        assert gone(store.finish(DIGEST, "x", token="", queue=queue, run=False)) == (False, False)
        assert gone(store.finish(DIGEST, "x", token="", queue=queue, run=False, sent_as=SENT)) == (True, False)

    def test_a_delivery_keeps_the_queue_lock_for_the_one_that_started_after_it(self, store: RedisStore) -> None:
        """It stalled and ends late (C33); the message itself, once it has ended, lets go all the same."""
        acquire(store, "x")
        begin(store, "x", "end", token=FIRST)
        begin(store, "x", "end", token=SECOND)

        assert gone(store.finish(DIGEST, "x", token=FIRST, queue="delivery", run=False)) == (False, False)
        assert isinstance(acquire(store, "y"), Held)
        assert gone(store.finish(DIGEST, "x", token=FIRST, queue="message", run=False)) == (True, False)

    @pytest.mark.parametrize("queue", ["message", "delivery"])
    def test_a_message_that_was_enqueued_again_is_no_deliverys(self, store: RedisStore, queue: QueueOwner) -> None:
        """What ends late, or is made good late, leaves its lock to the one that waits now."""
        acquire(store, "x", token=SENT)
        begin(store, "x", "end", token=FIRST)
        acquire(store, "x", token=SENT_AGAIN)

        assert gone(store.finish(DIGEST, "x", token=FIRST, queue=queue, run=False, sent_as=SENT)) == (False, False)
        assert isinstance(acquire(store, "y"), Held)
        assert gone(store.finish(DIGEST, "x", token="", queue=queue, run=False, sent_as=SENT_AGAIN)) == (True, False)

    def test_a_message_that_ended_lets_go_for_an_enqueue_before_it_was_delivered(self, store: RedisStore) -> None:
        """Whoever enqueued it again was killed, as far as anybody knows; the start, if asked, had taken it over."""
        acquire(store, "x", token=SENT)
        acquire(store, "x", token=SENT_AGAIN)
        tick()

        ended = partial(store.finish, DIGEST, "x", token=FIRST, run=False, sent_as=SENT)
        assert gone(ended(queue="delivery", since_ms=0)) == (False, False)
        assert gone(ended(queue="message", since_ms=LONG_MS)) == (False, False)
        assert isinstance(acquire(store, "y"), Held)
        assert gone(ended(queue="message", since_ms=0)) == (True, False)

    def test_how_long_it_was_held_is_told(self, store: RedisStore) -> None:
        """Each lock from when it was taken, at the start of a message too."""
        acquire(store, "x")
        acquire(store, "s", digest="other")
        tick()
        begin(store, "x", "end", run=True, token=FIRST)
        tick()

        finished = store.finish(DIGEST, "x", token=FIRST, queue="delivery", run=True)
        started = begin(store, "s", "start", digest="other")

        assert isinstance(started, Started)
        assert finished.queue_ms is not None
        assert finished.run_ms is not None
        assert 0 < finished.run_ms < finished.queue_ms
        assert 0 < started.held_ms < LONG_MS


class TestRenew:
    """What runs is kept."""

    def test_a_lease_is_moved_ahead(self, store: RedisStore) -> None:
        """Both kinds; never back."""
        acquire(store, "x", 10_000)
        begin(store, "x", "end", run=True, lease_ms=10_000)

        kept = store.renew([lease("x", lease_ms=50_000), lease("x", Kind.QUEUE, lease_ms=50_000)])

        assert kept == [True, True]
        for kind in Kind:
            assert 10_000 < expires_in_ms(store, kind) <= 50_000
        assert store.renew([lease("x", lease_ms=10_000)]) == [True]
        assert expires_in_ms(store, Kind.RUN) > 10_000

    def test_each_lease_has_an_answer_of_its_own(self, store: RedisStore) -> None:
        """In the order in which they were asked for; a lost one is lost alone."""
        begin(store, "x", run=True)

        assert store.renew([lease("y"), lease("x"), lease("x", token=SECOND), lease("x", Kind.QUEUE)]) == [
            False,
            True,
            False,
            False,
        ]

    def test_one_that_redis_refuses_hides_none_of_the_others(self, store: RedisStore) -> None:
        """Somebody wrote rubbish into one key: that one is not known to be kept, and not to be lost."""
        store.client.set(store.key("rubbish", Kind.RUN), "no hash", ex=60)
        begin(store, "x", run=True)
        rubbish = Lease("rubbish", Kind.RUN, "x", FIRST, LONG_MS)

        refused, kept, lost = store.renew([rubbish, lease("x"), lease("y")])

        assert isinstance(refused, LockStoreUnavailable)
        assert "WRONGTYPE" in str(refused)
        assert (kept, lost) == (True, False)

    def test_a_lapsed_lease_is_lost_and_stays_so(self, store: RedisStore) -> None:
        """Renewing doesn't raise the dead: another may have started."""
        begin(store, "x", run=True, lease_ms=20)
        eventually(lambda: store.renew([lease("x", lease_ms=1)]) == [False])

        assert store.renew([lease("x")]) == [False]
        assert begin(store, "y", run=True) == Started(Found.NONE)

    def test_nothing_is_nothing(self, store: RedisStore) -> None:
        """No lease, no answer."""
        assert store.renew([]) == []


class TestKeep:
    """A message that exists is noted in its queue lock."""

    def test_it_is_noted_when_it_was_seen(self, store: RedisStore) -> None:
        """Its deadline stays where it is."""
        acquire(store, "x", 10_000)
        before = acquire(store, "y")
        tick()

        assert store.keep(DIGEST, "x", 0)

        after = acquire(store, "y")
        assert isinstance(before, Held)
        assert isinstance(after, Held)
        assert after.holder.touched_ms > before.holder.touched_ms
        assert after.holder.deadline_ms == before.holder.deadline_ms

    def test_it_is_kept_for_longer_where_that_is_asked(self, store: RedisStore) -> None:
        """The key lives on with it."""
        acquire(store, "x", 10_000)

        assert store.keep(DIGEST, "x", 50_000)

        assert 10_000 < expires_in_ms(store) <= 50_000

    def test_what_is_gone_stays_so(self, store: RedisStore) -> None:
        """Another may have it by now."""
        acquire(store, "y")

        assert not store.keep(DIGEST, "x", 50_000)

        assert isinstance(acquire(store, "x"), Held)

    def test_how_long_a_holder_was_not_seen_is_told(self, store: RedisStore) -> None:
        """By the clock of the server."""
        acquire(store, "x")
        tick()

        answer = acquire(store, "y")

        assert isinstance(answer, Held)
        assert 1 <= answer.unseen_ms < 30_000


class TestOrphans:
    """A holder whose message is gone is dropped by the next contender."""

    def test_a_contender_takes_its_place_at_enqueue(self, store: RedisStore) -> None:
        """It is no longer in the way."""
        acquire(store, "x")
        orphan = holder_of(acquire(store, "y"))

        assert acquire(store, "y", orphan=orphan) == Taken()

        assert holder_of(acquire(store, "z")).message_id == "y"

    def test_a_contender_takes_its_place_at_the_start(self, store: RedisStore) -> None:
        """And runs."""
        acquire(store, "x")
        orphan = holder_of(acquire(store, "y"))

        answer = store.begin(
            request("y"), token=FIRST, queue="end", run=False, lease_ms=LONG_MS, hold_ms=LONG_MS, orphan=orphan
        )

        assert answer == Started(Found.FREE)

    @pytest.mark.parametrize("change", ["seen", "let go and taken again", "another took it"])
    def test_one_that_was_heard_of_meanwhile_is_none(self, store: RedisStore, change: str) -> None:
        """It is compared in the step that drops it."""
        acquire(store, "x", token=SENT)
        orphan = holder_of(acquire(store, "y"))
        tick()
        if change == "seen":
            store.keep(DIGEST, "x", 0)
        else:
            store.finish(DIGEST, "x", token="", queue="message", run=False, sent_as=SENT)
            acquire(store, "x" if change == "let go and taken again" else "z")

        assert isinstance(acquire(store, "y", orphan=orphan), Held)
        assert isinstance(
            store.begin(request("y"), token=FIRST, queue="end", run=False, lease_ms=1, hold_ms=1, orphan=orphan), Held
        )

    def test_of_several_only_it_goes(self, store: RedisStore) -> None:
        """The others keep their locks."""
        for name in "ab":
            acquire(store, name, limit=2)
            tick()
        orphan = holder_of(acquire(store, "c", limit=2))

        assert acquire(store, "c", limit=2, orphan=orphan) == Taken()

        assert acquire(store, "b", limit=2) == Kept()
        assert isinstance(acquire(store, "a", limit=2), Held)

    @pytest.mark.parametrize(
        ("state", "queue", "vouched_for"),
        [("w", None, True), ("w", "end", True), ("v", None, False), ("f", None, False)],
    )
    def test_a_window_outlives_its_message(
        self, store: RedisStore, state: str, queue: str | None, vouched_for: bool
    ) -> None:
        """Any other queue lock is held only as long as its message exists."""
        acquire(store, "x", state=state)
        if queue:
            begin(store, "x", queue)

        holder = holder_of(acquire(store, "y"))

        assert holder.in_queue_lock
        assert holder.vouched_for_by_its_message is vouched_for

    def test_a_run_lock_is_a_lease_whatever_becomes_of_the_message(self, store: RedisStore) -> None:
        """It has its own end."""
        begin(store, "x", run=True)

        holder = holder_of(begin(store, "y", run=True))

        assert (holder.token, holder.in_queue_lock, holder.vouched_for_by_its_message) == (FIRST, False, False)


class TestAgain:
    """An answer was lost, and the driver asks again: the same enqueue is answered the same."""

    def test_a_lock_that_was_taken_is_taken(self, store: RedisStore) -> None:
        """Not found to be the message's already."""
        assert [acquire(store, "x", token=SENT) for _ in range(3)] == [Taken()] * 3

    def test_a_lock_that_was_kept_is_kept(self, store: RedisStore) -> None:
        """And stays the other's to give back."""
        acquire(store, "x", token=SENT)

        assert [acquire(store, "x", token=SENT_AGAIN) for _ in range(3)] == [Kept()] * 3

        assert store.restore(DIGEST, "x", token=SENT_AGAIN)
        assert isinstance(acquire(store, "y"), Held)

    def test_a_place_that_was_taken_is_told_again(self, store: RedisStore) -> None:
        """Else nobody would know whom to take out of the broker (and both would run)."""
        acquire(store, "x", broker_id="b-1", args='{"a": "1 2\\n"}')
        first = acquire(store, "y", token=SENT, takeover=True)

        again = acquire(store, "y", token=SENT, takeover=True)

        assert isinstance(again, Replaced)
        assert again == first
        assert acquire(store, "x") == Contested("y")

    def test_a_delivery_that_has_begun_has_begun(self, store: RedisStore) -> None:
        """It isn't put back for itself."""
        assert [begin(store, "x", "end", run=True, token=FIRST) for _ in range(2)][1] == Started(Found.MINE)


class TestRestore:
    """A message was not stored: what its enqueue did is undone, and nothing that was done since."""

    def test_a_lock_that_was_taken_is_free(self, store: RedisStore) -> None:
        """Nobody had it before."""
        acquire(store, "x", token=SENT)

        assert store.restore(DIGEST, "x", token=SENT)

        assert acquire(store, "y") == Taken()

    @pytest.mark.parametrize("message_id", ["x", "y"])
    def test_a_lock_of_another_is_left_alone(self, store: RedisStore, message_id: str) -> None:
        """Another message's, or that of another enqueue of the same message."""
        acquire(store, "x", token=SENT)

        store.restore(DIGEST, message_id, token=SENT_AGAIN)

        assert isinstance(acquire(store, "z"), Held)

    def test_a_message_that_was_sent_again_keeps_its_lock(self, store: RedisStore) -> None:
        """The first enqueue is undone late, after the second stored the message."""
        acquire(store, "x", token=SENT)
        assert acquire(store, "x", token=SENT_AGAIN) == Kept()

        store.restore(DIGEST, "x", token=SENT)

        assert isinstance(acquire(store, "y"), Held)
        assert gone(store.finish(DIGEST, "x", token="", queue="message", run=False, sent_as=SENT_AGAIN))[0]

    def test_a_lock_that_the_message_had_before_stays_as_it_was(self, store: RedisStore) -> None:
        """A second enqueue of it failed; the first is in the broker, and lets go in the end."""
        acquire(store, "x", token=SENT)
        before = holder_of(acquire(store, "y"))
        acquire(store, "x", token=SENT_AGAIN, state="n")

        assert store.restore(DIGEST, "x", token=SENT_AGAIN)

        after = holder_of(acquire(store, "y"))
        assert (after.state, after.token) == (before.state, before.token)
        assert gone(store.finish(DIGEST, "x", token="", queue="message", run=False, sent_as=SENT))[0]

    def test_what_a_delivery_of_the_message_has_stays_that_deliverys(self, store: RedisStore) -> None:
        """Its retry could not be stored, so the delivery is its end."""
        begin(store, "x", "end", token=FIRST)
        acquire(store, "x", token=SENT_AGAIN)

        store.restore(DIGEST, "x", token=SENT_AGAIN)

        assert holder_of(acquire(store, "y")).state == "r"
        assert gone(store.finish(DIGEST, "x", token=FIRST, queue="delivery", run=False))[0]

    @pytest.mark.parametrize("undone", list(permutations([SENT, SENT_AGAIN, SENT_LAST])), ids=" ".join)
    def test_where_no_enqueue_stored_the_message_its_lock_is_free(
        self, store: RedisStore, undone: tuple[str, ...]
    ) -> None:
        """Each had lost its answer, in processes of their own: they are undone in any order."""
        for token in (SENT, SENT_AGAIN, SENT_LAST):
            acquire(store, "x", token=token)

        for token in undone:
            assert store.restore(DIGEST, "x", token=token)

        assert acquire(store, "y") == Taken()

    @pytest.mark.parametrize("undone", list(permutations([SENT, SENT_AGAIN])), ids=" ".join)
    def test_where_no_enqueue_stored_the_message_the_place_it_took_goes_back(
        self, store: RedisStore, undone: tuple[str, ...]
    ) -> None:
        """The second had kept what the first took."""
        acquire(store, "old")
        acquire(store, "x", token=SENT, takeover=True)
        acquire(store, "x", token=SENT_AGAIN, takeover=True)

        for token in undone:
            assert store.restore(DIGEST, "x", token=token, replaced_id="old" if token == SENT else "")

        assert begin(store, "old", "start") == Started(Found.MINE)

    @pytest.mark.parametrize("undone", list(permutations([SENT, SENT_AGAIN, SENT_LAST])), ids=" ".join)
    def test_neither_is_a_place_that_was_taken_in_between(self, store: RedisStore, undone: tuple[str, ...]) -> None:
        """The third enqueue is another message's, which took the place of the first's and was not stored either."""
        acquire(store, "x", token=SENT)
        acquire(store, "x", token=SENT_AGAIN)
        acquire(store, "y", token=SENT_LAST, takeover=True)

        for token in undone:
            store.restore(DIGEST, "y" if token == SENT_LAST else "x", token=token)

        assert acquire(store, "z") == Taken()

    def test_what_a_delivery_has_stays_its_own_however_many_enqueues_are_undone(self, store: RedisStore) -> None:
        """And it is known which enqueue it came from."""
        acquire(store, "x", token=SENT)
        begin(store, "x", "end", token=FIRST)
        before = holder_of(acquire(store, "y"))
        for token in (SENT_AGAIN, SENT_LAST):
            acquire(store, "x", token=token, state="w")

        for token in (SENT_AGAIN, SENT_LAST):
            store.restore(DIGEST, "x", token=token)

        after = holder_of(acquire(store, "y"))
        assert (after.state, after.token) == (before.state, before.token) == ("r", f"-{FIRST} {SENT}")

    def test_the_records_of_many_enqueues_do_not_grow_without_end(self, store: RedisStore) -> None:
        """A message may be tried again for days; only the last enqueues of it can still be undone."""
        for number in range(99):
            acquire(store, "x", token=f"{number:08x}")

        assert len(holder_of(acquire(store, "y")).token) < 100

    def test_a_place_that_was_taken_goes_back(self, store: RedisStore) -> None:
        """The message that waited has its lock as it was, and counts again; also where the answer was lost."""
        acquire(store, "x", 10_000, broker_id="b-1", args="{}")
        before = holder_of(acquire(store, "z"))
        acquire(store, "y", token=SENT, takeover=True)

        assert store.restore(DIGEST, "y", token=SENT)

        after = holder_of(acquire(store, "z"))
        assert (after.message_id, after.since_ms, after.deadline_ms, after.broker_id) == (
            before.message_id,
            before.since_ms,
            before.deadline_ms,
            before.broker_id,
        )
        assert after.fields[1:] == before.fields[1:]
        assert acquire(store, "x") == Kept()
        assert begin(store, "x", "start") == Started(Found.MINE)

    def test_a_place_that_goes_back_has_its_earlier_place_too(self, store: RedisStore) -> None:
        """Where the message may be yet: between two queues."""
        acquire(store, "x", broker_id="b-1")
        acquire(store, "x", broker_id="b-2")
        acquire(store, "y", token=SENT, takeover=True)

        store.restore(DIGEST, "y", token=SENT)

        assert [known_as for _, known_as in holder_of(acquire(store, "z")).places] == ["b-2", "b-1"]

    def test_a_lock_is_kept_once_its_message_runs(self, store: RedisStore) -> None:
        """It was stored after all."""
        acquire(store, "x", token=SENT)
        begin(store, "x", "end")

        store.restore(DIGEST, "x", token=SENT)

        assert isinstance(acquire(store, "y"), Held)

    def test_who_came_up_in_between_was_skipped(self, store: RedisStore) -> None:
        """That is told, and the lock is free."""
        acquire(store, "x")
        acquire(store, "y", token=SENT, takeover=True)
        store.forget(DIGEST, "x")

        assert not store.restore(DIGEST, "y", token=SENT, replaced_id="x")

        assert acquire(store, "z") == Taken()

    def test_a_place_that_has_lapsed_is_free(self, store: RedisStore) -> None:
        """The message counts again; its lock would have lapsed by now."""
        acquire(store, "x", 20)
        replaced = holder_of(acquire(store, "y", token=SENT, takeover=True))
        eventually(lambda: time.time() * 1000 > replaced.deadline_ms + 50)

        assert store.restore(DIGEST, "y", token=SENT)

        assert acquire(store, "z") == Taken()
        assert isinstance(acquire(store, "x"), Held)

    def test_where_it_lapsed_itself_the_replaced_one_counts_again(self, store: RedisStore) -> None:
        """Storing took longer than an unstored message has its lock for."""
        acquire(store, "x")
        acquire(store, "y", 20, token=SENT, takeover=True)
        time.sleep(0.1)

        assert store.restore(DIGEST, "y", token=SENT, replaced_id="x")

        assert acquire(store, "x") in (Taken(), Kept())

    def test_where_a_third_took_the_place_meanwhile_one_message_is_left(self, store: RedisStore) -> None:
        """Two replace at once, and the first isn't stored: the newest runs, and not the oldest beside it."""
        acquire(store, "oldest")
        acquire(store, "not stored", token=SENT, takeover=True)
        acquire(store, "newest", takeover=True)
        store.confirm(DIGEST, "not stored", "newest")

        store.restore(DIGEST, "not stored", token=SENT, replaced_id="oldest")

        assert isinstance(begin(store, "oldest", "start"), Superseded)
        assert begin(store, "newest", "start") == Started(Found.MINE)


class TestLimits:
    """With a limit above 1, so many hold the lock at once, each with a deadline of its own."""

    def test_so_many_have_the_queue_lock(self, store: RedisStore) -> None:
        """One more is refused, until one lets go."""
        assert [acquire(store, name, limit=3, token=SENT) for name in "abc"] == [Taken(), Taken(), Taken()]
        assert isinstance(acquire(store, "d", limit=3), Held)

        store.finish(DIGEST, "b", token="", queue="message", run=False, sent_as=SENT)

        assert acquire(store, "d", limit=3) == Taken()
        assert isinstance(acquire(store, "b", limit=3), Held)

    def test_so_many_have_the_run_lock(self, store: RedisStore) -> None:
        """The same for what runs."""
        assert [begin(store, name, run=True, token=name, limit=2) for name in "ab"] == [Started(Found.NONE)] * 2
        assert isinstance(begin(store, "c", run=True, limit=2), Held)

        store.finish(DIGEST, "a", token=FIRST, queue=None, run=True)

        assert begin(store, "c", run=True, limit=2) == Started(Found.NONE)

    def test_the_one_that_was_not_seen_for_longest_is_named(self, store: RedisStore) -> None:
        """So each is asked after in turn, whether its message still exists."""
        for name in "ba":
            acquire(store, name, limit=2)
            tick()
        assert holder_of(acquire(store, "c", limit=2)).message_id == "b"

        assert store.keep(DIGEST, "b", 0)

        assert holder_of(acquire(store, "c", limit=2)).message_id == "a"

    def test_each_has_a_deadline_of_its_own(self, store: RedisStore) -> None:
        """One lapses, the other keeps its lock."""
        acquire(store, "short", 20, limit=2)
        acquire(store, "long", limit=2)

        eventually(lambda: isinstance(acquire(store, "next", limit=2), Taken))

        assert acquire(store, "long", limit=2) == Kept()
        assert isinstance(acquire(store, "short", limit=2), Held)

    def test_the_key_lives_as_long_as_the_last_of_them(self, store: RedisStore) -> None:
        """Whoever comes later, for a shorter time, ends nobody's lock."""
        acquire(store, "long", 50_000, limit=2)
        acquire(store, "short", 10_000, limit=2)

        assert expires_in_ms(store) > 10_000

    def test_the_limit_is_the_askers(self, store: RedisStore) -> None:
        """After a deploy that lowers it, nobody new comes in before enough have gone."""
        for name in "abc":
            acquire(store, name, limit=3, token=SENT)

        for name in "ab":
            assert isinstance(acquire(store, "d", limit=1), Held)
            store.finish(DIGEST, name, token="", queue="message", run=False, sent_as=SENT)
        assert isinstance(acquire(store, "d", limit=1), Held)
        store.finish(DIGEST, "c", token="", queue="message", run=False, sent_as=SENT)
        assert acquire(store, "d", limit=1) == Taken()

    def test_no_more_come_in_at_once(self, store: RedisStore) -> None:
        """Whoever sends from many threads."""
        answers: list[Acquired] = []
        threads = [
            threading.Thread(target=lambda name=name: answers.append(acquire(store, f"m{name}", limit=3)))
            for name in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert answers.count(Taken()) == 3


class TestReleases:
    """Who waits for a run lock is woken by its release."""

    def test_a_release_wakes_who_waits(self, store: RedisStore) -> None:
        """Long before the time is up; no release is missed once it listens."""
        begin(store, "x", run=True)

        with store.releases(DIGEST) as wait:
            store.finish(DIGEST, "x", token=FIRST, queue=None, run=True)
            began_s = time.monotonic()
            wait(10)

        assert time.monotonic() - began_s < 8

    def test_a_release_by_another_thread_wakes_who_waits(self, store: RedisStore) -> None:
        """While it waits."""
        begin(store, "x", run=True)

        with store.releases(DIGEST) as wait:
            timer = threading.Timer(0.05, store.finish, (DIGEST, "x"), {"token": FIRST, "queue": False, "run": True})
            timer.start()
            began_s = time.monotonic()
            wait(10)
            timer.join()

        assert time.monotonic() - began_s < 8
        assert begin(store, "y", run=True) == Started(Found.NONE)

    def test_nobody_is_woken_for_nothing(self, store: RedisStore) -> None:
        """Neither by another digest, nor by a queue lock, nor by who isn't the owner."""
        begin(store, "x", run=True)
        begin(store, "x", run=True, digest="another")
        acquire(store, "x")

        with store.releases(DIGEST) as wait:
            store.finish("another", "x", token=FIRST, queue="message", run=True)
            store.finish(DIGEST, "x", token=SECOND, queue="message", run=True)
            began_s = time.monotonic()
            wait(0.2)

        assert time.monotonic() - began_s >= 0.15


class TestKeys:
    """The keys of one digest are on one node of a cluster."""

    @pytest.mark.parametrize("prefix", ["dramatiq-unique", "a:b", "app{1}", ""])
    def test_they_share_one_hash_tag(self, memory: "redis.Redis", prefix: str) -> None:
        """So a script may touch all of them, and the channel is beside them."""
        store = RedisStore(memory, prefix=prefix, memory_ms=1)

        keys = [store.key(DIGEST, kind) for kind in (*Kind, "superseded")]

        assert len({key_slot(key.encode()) for key in (*keys, store._channel(DIGEST))}) == 1
        assert len(set(keys)) == 3

    def test_locks_are_spread_over_a_cluster(self, memory: "redis.Redis") -> None:
        """The tag is the digest, not the prefix."""
        store = RedisStore(memory, prefix="dramatiq-unique", memory_ms=1)

        assert len({key_slot(store.key(f"{number}", Kind.QUEUE).encode()) for number in range(100)}) > 50

    def test_two_prefixes_are_two_sets_of_locks(self, client: "redis.Redis") -> None:
        """Two applications may share a Redis."""
        one, other = (RedisStore(client, prefix=prefix, memory_ms=1) for prefix in ("one", "other"))

        assert (acquire(one, "x"), acquire(other, "y")) == (Taken(), Taken())
        assert {as_text(key).partition(":")[0] for key in client.scan_iter()} == {"one", "other"}


def test_a_lost_script_cache_is_nobodys_problem(store: RedisStore) -> None:
    """C22: a restart, a failover or `SCRIPT FLUSH` between any two calls (sidekiq-unique-jobs 168, 914)."""
    flush = store.client.script_flush

    flush()
    acquire(store, "x")
    flush()
    acquire(store, "y", token=SENT, takeover=True)
    flush()
    assert store.restore(DIGEST, "y", token=SENT)
    flush()
    assert store.keep(DIGEST, "x", 0)
    flush()
    assert begin(store, "x", "end", run=True) == Started(Found.MINE)
    flush()
    assert store.renew([lease("x"), lease("x", Kind.QUEUE)]) == [True, True]
    flush()
    assert gone(store.finish(DIGEST, "x", token=FIRST, queue="message", run=True)) == (True, True)
    flush()
    assert acquire(store, "z") == Taken()


def keep(store: RedisStore) -> None:
    """Note a message."""
    store.keep(DIGEST, "x", 0)


def restore(store: RedisStore) -> None:
    """Give a lock back."""
    store.restore(DIGEST, "x", token=SENT)


def finish(store: RedisStore) -> None:
    """Let locks go."""
    store.finish(DIGEST, "x", token=FIRST, queue="message", run=True)


def renew(store: RedisStore) -> None:
    """Keep a lease."""
    store.renew([lease("x")])


def forget(store: RedisStore) -> None:
    """Forget a superseded message."""
    store.forget(DIGEST, "x")


def listen(store: RedisStore) -> None:
    """Wait for a release."""
    with store.releases(DIGEST) as wait:
        wait(0.01)


OPERATIONS: dict[str, Callable[[RedisStore], object]] = {
    "acquire": lambda store: acquire(store, "x"),
    "begin": lambda store: begin(store, "x", "end", run=True),
    "finish": finish,
    "renew": renew,
    "keep": keep,
    "restore": restore,
    "forget": forget,
    "releases": listen,
}


class TestErrors:
    """Where Redis cannot be reached or refuses, there is one error, from the driver's."""

    @pytest.fixture
    def hasty(self) -> dict[str, Any]:
        """Arguments of a client that tries once."""
        return {"retry": Retry(NoBackoff(), 0), "socket_timeout": 5}

    @pytest.fixture
    def real(self, server: RedisServer | GivenRedis, hasty: dict[str, Any]) -> Iterator["redis.Redis"]:
        """A client of the private Redis, emptied."""
        with redis.Redis.from_url(server.url, **hasty) as client:
            client.flushdb()
            yield client

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_redis_that_is_away_is_told(self, hasty: dict[str, Any], operation: str) -> None:
        """The driver's error is the cause, and the password is in neither."""
        port = free_port()
        with redis.Redis.from_url(f"redis://someone:hunter2@{HOST}:{port}/0", **hasty) as client:
            store = RedisStore(client, prefix="test", memory_ms=1)

            with pytest.raises(
                LockStoreUnavailable, match=f"the lock store failed at '.*: ConnectionError: .*{port}"
            ) as e:
                OPERATIONS[operation](store)

        assert isinstance(e.value.__cause__, redis.ConnectionError)
        assert "hunter2" not in f"{e.value!r} {e.value} {e.value.__cause__!r}"

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_redis_that_goes_away_is_told(self, operation: str) -> None:
        """In memory too, so that users can test for it."""
        server = fakeredis.FakeServer()
        with fakeredis.FakeRedis(server=server) as client:
            store = RedisStore(client, prefix="test", memory_ms=1)
            acquire(store, "x")
            server.connected = False

            with pytest.raises(LockStoreUnavailable):
                OPERATIONS[operation](store)

    @pytest.mark.parametrize("operation", ["acquire", "begin", "finish", "keep", "restore", "forget"])
    def test_a_key_that_is_something_else_is_told(self, real: "redis.Redis", operation: str) -> None:
        """Whoever writes under our prefix."""
        store = RedisStore(real, prefix="test", memory_ms=1)
        for kind in (*Kind, "superseded"):
            real.set(store.key(DIGEST, kind), "no hash", ex=60)

        with pytest.raises(LockStoreUnavailable, match="WRONGTYPE") as raised:
            OPERATIONS[operation](store)

        assert isinstance(raised.value.__cause__, redis.ResponseError)

    @pytest.mark.parametrize("operation", ["acquire", "begin"])
    def test_a_redis_that_is_full_is_told(
        self, server: RedisServer | GivenRedis, real: "redis.Redis", operation: str
    ) -> None:
        """Out of memory: nothing is locked, and that is said."""
        assert server.pid  # a given Redis is not ours to configure
        store = RedisStore(real, prefix="test", memory_ms=1)
        real.config_set("maxmemory", 1)
        try:
            with pytest.raises(LockStoreUnavailable, match="the lock store failed at"):
                OPERATIONS[operation](store)
        finally:
            real.config_set("maxmemory", 0)

    def test_a_wrong_password_is_told_without_it(self, server: RedisServer | GivenRedis, hasty: dict[str, Any]) -> None:
        """Neither the wrong one nor the right one."""
        assert server.pid  # a given Redis is not ours to configure
        with redis.Redis(host=HOST, port=server.port, username="someone", password="hunter2", **hasty) as client:  # noqa: S106 - no secret
            store = RedisStore(client, prefix="test", memory_ms=1)

            with pytest.raises(LockStoreUnavailable, match="AuthenticationError") as raised:
                acquire(store, "x")

        assert "hunter2" not in f"{raised.value!r} {raised.value.__cause__!r}"

    def test_making_a_store_asks_nothing_of_redis(self, hasty: dict[str, Any]) -> None:
        """A program can be imported where Redis is away."""
        with redis.Redis(host=HOST, port=free_port(), **hasty) as client:
            RedisStore(client, prefix="test", memory_ms=1)
