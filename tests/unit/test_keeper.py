"""The keeper: one thread that renews what runs."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dramatiq_unique import LockStoreUnavailable, background
from dramatiq_unique.keeper import Keeper
from dramatiq_unique.store import Kind, Lease
from tests.rig import eventually


ROOT = Path(__file__).parents[2]


def lease(name: str, lease_ms: int = 30) -> Lease:
    """A run lock that is renewed every 10 ms."""
    return Lease(digest=name, kind=Kind.RUN, message_id=name, token="token", lease_ms=lease_ms)  # noqa: S106 - no secret


LONG_MS = 1500
"""Renewed every half second."""


class Bench:
    """A keeper, a store that does as it is told, and what was heard."""

    def __init__(self) -> None:
        self.calls: list[list[Lease]] = []
        self.lapsed: set[Lease] = set()
        self.refused: set[Lease] = set()
        self.is_up = True
        self.lost: list[Lease] = []
        self.errors: list[tuple[list[Lease], Exception]] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.keeper = Keeper(
            self.renew, self.lost.append, lambda leases, error: self.errors.append((list(leases), error))
        )

    def renew(self, leases: Sequence[Lease]) -> Sequence[bool | Exception]:
        """Renew leases, as the store does."""
        self.calls.append(list(leases))
        refusal = LockStoreUnavailable("refused")
        answer = [refusal if lease in self.refused else lease not in self.lapsed for lease in leases]
        self.before_answer()
        if not self.is_up:
            raise LockStoreUnavailable("down")
        return answer

    def after_more_calls(self, count: int = 2) -> list[list[Lease]]:
        """Wait for so many calls that begin from now on."""
        begin = len(self.calls)
        eventually(lambda: len(self.calls) >= begin + count)
        return self.calls[begin:]

    def thread_is_alive(self) -> bool:
        """Whether the keeper's thread runs."""
        thread = self.keeper._thread
        return thread is not None and thread.is_alive()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A keeper; stopped with the test."""
    bench = Bench()
    yield bench
    bench.is_up = True
    bench.before_answer = lambda: None
    bench.keeper.stop()


class TestRenewing:
    """Leases are kept while their messages run."""

    def test_all_leases_are_renewed_in_one_call(self, bench: Bench) -> None:
        """One round trip, however much runs."""
        leases = [lease("a"), lease("b"), lease("c", lease_ms=60_000)]
        for each in leases:
            bench.keeper.hold(each)

        assert bench.after_more_calls()[-1] == leases
        assert bench.lost == []

    def test_a_shorter_lease_that_comes_later_is_renewed_in_its_own_time(self, bench: Bench) -> None:
        """The thread doesn't sleep on for a third of the longest."""
        bench.keeper.hold(lease("long", lease_ms=3_600_000))
        bench.keeper.hold(lease("short"))

        bench.after_more_calls()

    def test_it_keeps_on_after_it_had_nothing_to_do(self, bench: Bench) -> None:
        """The next lease is renewed like the first."""
        bench.keeper.hold(lease("first"))
        bench.after_more_calls(1)
        bench.keeper.drop(lease("first"))
        bench.keeper.hold(lease("second"))

        assert bench.after_more_calls()[-1] == [lease("second")]

    def test_it_is_not_woken_for_a_job_that_it_looks_after_in_time_anyway(self, bench: Bench) -> None:
        """One job after the other, under one lease: the first wakes it, and none after."""
        rings: list[str] = []
        bench.keeper._ring = lambda: rings.append("ring")  # type: ignore[method-assign]
        for name in ("first", "second", "third"):
            bench.keeper.hold(lease(name, lease_ms=3_600_000))
            bench.keeper.drop(lease(name, lease_ms=3_600_000))
        assert rings == ["ring"]

        bench.keeper.hold(lease("shorter", lease_ms=1_800_000))
        assert rings == ["ring", "ring"]

    def test_it_sleeps_once_nothing_has_run_for_a_while(self, bench: Bench) -> None:
        """It looks once more after the last job, and the next one wakes it again."""
        bench.keeper.hold(lease("first"))
        bench.keeper.drop(lease("first"))

        eventually(lambda: bench.keeper._every_s() is None)

        bench.keeper.hold(lease("second"))
        assert bench.after_more_calls()[-1] == [lease("second")]

    def test_a_lost_lease_is_told_once_and_renewed_no_longer(self, bench: Bench) -> None:
        """The others are kept."""
        bench.lapsed = {lease("lost")}
        bench.keeper.hold(lease("lost"))
        bench.keeper.hold(lease("kept"))

        eventually(lambda: bench.lost)

        assert all(call == [lease("kept")] for call in bench.after_more_calls(3))
        assert bench.lost == [lease("lost")]

    def test_a_lease_that_is_dropped_is_renewed_no_longer(self, bench: Bench) -> None:
        """Dropping what isn't held is nothing."""
        bench.keeper.hold(lease("dropped"))
        bench.keeper.hold(lease("kept"))
        bench.after_more_calls(1)

        bench.keeper.drop(lease("dropped"))
        bench.keeper.drop(lease("dropped"))

        assert bench.after_more_calls(3)[-1] == [lease("kept")]
        assert bench.lost == []

    def test_a_lease_that_is_dropped_while_it_is_renewed_is_not_told_lost(self, bench: Bench) -> None:
        """Its lock was let go in between: that it is gone is no surprise."""
        asked, answer = threading.Event(), threading.Event()

        def hold_back() -> None:
            asked.set()
            assert answer.wait(15)

        bench.before_answer = hold_back
        bench.lapsed = {lease("ended")}
        bench.keeper.hold(lease("ended"))
        assert asked.wait(15)

        bench.keeper.drop(lease("ended"))
        bench.before_answer = lambda: None
        answer.set()
        bench.keeper.hold(lease("kept"))

        bench.after_more_calls()
        assert bench.lost == []

    def test_where_the_store_is_away_it_is_told_and_tried_again(self, bench: Bench) -> None:
        """An error is no answer: nothing is lost by it."""
        bench.is_up = False
        bench.keeper.hold(lease("a"))
        bench.keeper.hold(lease("b"))
        eventually(lambda: len(bench.errors) >= 2)

        bench.is_up = True
        told = len(bench.errors) + 1
        assert bench.after_more_calls(3)[-1] == [lease("a"), lease("b")]

        assert bench.errors[-1][0] == [lease("a"), lease("b")]
        assert str(bench.errors[-1][1]) == "down"
        assert len(bench.errors) <= told
        assert bench.lost == []

    def test_a_connection_that_had_died_is_tried_once_more_at_once(self, bench: Bench) -> None:
        """Nothing is told, and nothing waits for the next pace: a short lease would be over by then."""

        def die_once() -> None:
            bench.before_answer = lambda: None
            raise LockStoreUnavailable("timed out")

        bench.before_answer = die_once
        bench.keeper.hold(lease("x", lease_ms=LONG_MS))

        eventually(lambda: len(bench.calls) == 2)
        assert bench.errors == []
        assert bench.lost == []

    def test_a_fault_that_is_no_error_of_the_store_ends_no_keeping(self, bench: Bench) -> None:
        """The one thread that keeps every lock of the process has to survive whatever one renewal raises."""
        faults = iter([RuntimeError("a fault"), OSError("another")])

        def fail() -> None:
            for fault in faults:
                raise fault

        bench.before_answer = fail
        bench.keeper.hold(lease("a"))

        bench.after_more_calls(4)
        assert bench.thread_is_alive()

    def test_one_that_is_refused_hides_no_lost_one(self, bench: Bench) -> None:
        """It is told, and tried again; the others have their own answers."""
        bench.refused, bench.lapsed = {lease("refused")}, {lease("lost")}
        for name in ("refused", "lost", "kept"):
            bench.keeper.hold(lease(name))

        eventually(lambda: bench.lost)

        assert bench.after_more_calls(3)[-1] == [lease("refused"), lease("kept")]
        assert bench.lost == [lease("lost")]
        assert bench.errors[0][0] == [lease("refused")]


class TestStopping:
    """The thread ends with the worker."""

    def test_it_ends_the_thread(self, bench: Bench) -> None:
        """Nothing is renewed any longer."""
        bench.keeper.hold(lease("a"))
        bench.after_more_calls(1)

        bench.keeper.stop()

        assert not bench.thread_is_alive()

    def test_one_that_hangs_in_redis_holds_up_no_shutdown(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A connection without a timeout never answers; the thread is a daemon, and is left behind."""
        monkeypatch.setattr(background, "_STOPS_WITHIN_S", 0.01)
        asked, answer = threading.Event(), threading.Event()

        def hang() -> None:
            asked.set()
            assert answer.wait(15)

        bench.before_answer = hang
        bench.keeper.hold(lease("a"))
        assert asked.wait(15)

        bench.keeper.stop()

        assert bench.thread_is_alive()
        answer.set()

    def test_it_is_nothing_before_there_was_anything_to_keep(self, bench: Bench) -> None:
        """No thread is made to be stopped; and twice is nothing."""
        bench.keeper.stop()
        bench.keeper.stop()

        assert bench.keeper._thread is None

    def test_it_may_be_used_again(self, bench: Bench) -> None:
        """A second worker in one process, as in tests, has its leases kept."""
        bench.keeper.hold(lease("first"))
        bench.keeper.stop()
        bench.keeper.drop(lease("first"))

        bench.keeper.hold(lease("second"))

        assert bench.after_more_calls()[-1] == [lease("second")]

    def test_a_process_that_ends_does_not_wait_for_it(self) -> None:
        """The thread is a daemon: a program that never stops it exits."""
        program = (
            "from dramatiq_unique.keeper import Keeper\n"
            "from tests.unit.test_keeper import lease\n"
            "Keeper(lambda leases: [True], print, print).hold(lease('a', 60_000))\n"
        )

        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestForking:
    """A fork has none of its parent's threads, nor its leases; the `dramatiq` command forks its workers."""

    def test_a_fork_keeps_its_own_leases_and_not_its_parents(self) -> None:
        """Two processes that renewed one lease would hide the death of either."""
        assert run_forked("keeper.hold(lease('child')); wait_for_calls(2)") == "child child"

    def test_a_fork_does_not_make_its_parents_releases(self) -> None:
        """The parent makes them itself."""
        assert run_forked("keeper.hold(lease('child')); wait_for_calls(1); backlog.stop()") == "child"

    @pytest.mark.parametrize("first", ["keeper.stop()", "keeper.drop(lease('parent'))"])
    def test_a_fork_is_not_held_up_by_a_lock_of_its_parent(self, first: str) -> None:
        """Another thread of the parent may have been in the keeper at the moment of the fork."""
        assert run_forked(f"{first}; keeper.hold(lease('child')); wait_for_calls(1)", lock_held=True) == "child"


FORKING = """
import os, signal, sys, threading, warnings
from dramatiq_unique.backlog import Backlog, Pending
from dramatiq_unique.keeper import Keeper
from tests.rig import eventually
from tests.unit.test_keeper import lease

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of a fork with threads
calls = []

def renew(leases):
    calls.append(leases)
    return [True] * len(leases)

def wait_for_calls(count):
    eventually(lambda: len(calls) >= count)

keeper = Keeper(renew, print, print)
keeper.hold(lease("parent", 60_000))
backlog = Backlog(print)
made_by = lambda: print("made by", os.getpid() == parent and "the parent" or "the child")
backlog.later(Pending("parent", made_by, float("inf")))
parent = os.getpid()
if {lock_held}:
    taken = threading.Event()
    threading.Thread(target=lambda: (keeper._starting.acquire(), taken.set()), daemon=True).start()
    taken.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(15)
    {in_child}
    print(*[each.message_id for call in calls for each in call][:2], flush=True)
    os._exit(0)
_, status = os.waitpid(pid, 0)
os._exit(os.waitstatus_to_exitcode(status) and 1)
"""


def run_forked(in_child: str, *, lock_held: bool = False) -> str:
    """Run code in the fork of a process that keeps a lease and has a release pending; give back what was printed."""
    program = FORKING.format(in_child=in_child, lock_held=lock_held)
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )
    assert ran.returncode == 0, f"the child failed, or hung until {signal.Signals.SIGALRM.name}: {ran.stderr}"
    return ran.stdout.strip()
