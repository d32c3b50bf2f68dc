"""The keeper: one thread that renews what runs, and makes good what could not be released."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dramatiq_unique import LockStoreUnavailable, keeper
from dramatiq_unique.keeper import Keeper, Pending
from dramatiq_unique.store import Kind, Lease
from tests.rig import eventually


ROOT = Path(__file__).parents[2]
FOREVER_S = float("inf")


def lease(name: str, lease_ms: int = 30) -> Lease:
    """A run lock that is renewed every 10 ms."""
    return Lease(digest=name, kind=Kind.RUN, message_id=name, token="token", lease_ms=lease_ms)  # noqa: S106 - no secret


class Bench:
    """A keeper, a store that does as it is told, and what was heard."""

    def __init__(self) -> None:
        self.calls: list[list[Lease]] = []
        self.lapsed: set[Lease] = set()
        self.is_up = True
        self.lost: list[Lease] = []
        self.errors: list[tuple[list[Lease], Exception]] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.keeper = Keeper(
            self.renew, self.lost.append, lambda leases, error: self.errors.append((list(leases), error))
        )

    def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Renew leases, as the store does."""
        self.calls.append(list(leases))
        answer = [lease not in self.lapsed for lease in leases]
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
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A keeper that makes good every 10 ms; stopped with the test."""
    monkeypatch.setattr(keeper, "_MAKE_GOOD_EVERY_S", 0.01)
    bench = Bench()
    yield bench
    bench.is_up = True
    bench.before_answer = lambda: None
    bench.keeper.stop()


class Release:
    """A release that fails while the store is away, and notes each try."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.tries = 0
        self.made = 0

    def __call__(self) -> None:
        """Try it."""
        self.tries += 1
        if not self._bench.is_up:
            raise LockStoreUnavailable("down")
        self.made += 1


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


class TestMakingGood:
    """A release that could not be made is kept, and tried again."""

    def test_it_is_made_once_the_store_is_back(self, bench: Bench) -> None:
        """Once, and not again."""
        bench.is_up = False
        release, other = Release(bench), Release(bench)
        bench.keeper.later(Pending(release, FOREVER_S))
        eventually(lambda: release.tries >= 2)
        assert release.made == 0

        bench.is_up = True
        eventually(lambda: release.made)
        bench.keeper.later(Pending(other, FOREVER_S))
        eventually(lambda: other.made)

        assert release.made == 1

    def test_they_are_made_in_turn(self, bench: Bench) -> None:
        """What was left first is released first, after tries that failed too."""
        bench.is_up = False
        made: list[int] = []
        tried: list[int] = []

        def release(number: int) -> Callable[[], None]:
            def attempt() -> None:
                tried.append(number)
                if not bench.is_up:
                    raise LockStoreUnavailable("down")
                made.append(number)

            return attempt

        for number in range(5):
            bench.keeper.later(Pending(release(number), FOREVER_S))
        eventually(lambda: len(tried) >= 3)
        bench.is_up = True

        eventually(lambda: len(made) == 5)
        assert made == [0, 1, 2, 3, 4]

    def test_it_is_given_up_once_its_lock_has_expired(self, bench: Bench) -> None:
        """There is nothing left to release; the next one is tried all the same."""
        bench.is_up = False
        expired, waiting = Release(bench), Release(bench)
        bench.keeper.later(Pending(expired, give_up_at_s=time.monotonic()))
        bench.keeper.later(Pending(waiting, FOREVER_S))
        eventually(lambda: waiting.tries >= 2)

        bench.is_up = True
        eventually(lambda: waiting.made)

        assert (expired.tries, expired.made) == (1, 0)

    def test_it_is_called_off_where_its_message_is_sent_again(self, bench: Bench) -> None:
        """The lock that it would have given back is the message's by now."""
        made: list[str] = []
        for name in ("x", "y"):

            def release(name: str = name) -> None:
                if not bench.is_up:
                    raise LockStoreUnavailable("down")
                made.append(name)

            bench.is_up = False
            bench.keeper.later(Pending(release, FOREVER_S, unless_sent=name))
        bench.keeper.cancel("x")
        bench.is_up = True

        eventually(lambda: made)
        bench.keeper.stop()

        assert made == ["y"]

    def test_only_so_many_are_kept(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A store that is away for long costs no more memory; the oldest is left to expire."""
        monkeypatch.setattr(keeper, "_MOST_PENDING", 3)
        bounded = Keeper(bench.renew, bench.lost.append, lambda *_: None)
        releases = [Release(bench) for _ in range(5)]

        for release in releases:  # Its thread makes the first of them a second later.
            bounded.later(Pending(release, FOREVER_S))
        bounded.stop()

        assert [release.made for release in releases] == [0, 0, 1, 1, 1]

    def test_leases_are_renewed_meanwhile(self, bench: Bench) -> None:
        """One waits for the other no longer than a try takes."""
        release = Release(bench)
        bench.keeper.hold(lease("a"))
        bench.keeper.later(Pending(release, FOREVER_S))

        bench.after_more_calls()
        eventually(lambda: release.made)

    def test_a_release_that_raises_something_else_ends_no_keeping(self, bench: Bench) -> None:
        """It is dropped: what it raised would be raised again. The next one is made."""
        other = Release(bench)

        def broken() -> None:
            raise RuntimeError("a fault")

        bench.keeper.hold(lease("a"))
        bench.keeper.later(Pending(broken, FOREVER_S))
        bench.keeper.later(Pending(other, FOREVER_S))

        eventually(lambda: other.made)
        bench.after_more_calls()


class TestStopping:
    """The thread ends with the worker."""

    def test_it_ends_the_thread(self, bench: Bench) -> None:
        """Nothing is renewed any longer."""
        bench.keeper.hold(lease("a"))
        bench.after_more_calls(1)

        bench.keeper.stop()

        assert not bench.thread_is_alive()

    def test_what_is_pending_is_tried_once_more(self, bench: Bench) -> None:
        """A store that is back just now hears of it."""
        bench.is_up = False
        release = Release(bench)
        bench.keeper.later(Pending(release, FOREVER_S))
        eventually(lambda: release.tries)

        bench.is_up = True
        bench.keeper.stop()

        assert release.made == 1

    def test_where_the_store_stays_away_it_ends_all_the_same(self, bench: Bench) -> None:
        """A worker shuts down; the locks expire."""
        bench.is_up = False
        bench.keeper.later(Pending(Release(bench), FOREVER_S))

        bench.keeper.stop()

        assert not bench.thread_is_alive()

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
        assert run_forked("keeper.hold(lease('child')); wait_for_calls(1); keeper.stop()") == "child"

    @pytest.mark.parametrize("first", ["keeper.stop()", "keeper.drop(lease('parent'))"])
    def test_a_fork_is_not_held_up_by_a_lock_of_its_parent(self, first: str) -> None:
        """Another thread of the parent may have been in the keeper at the moment of the fork."""
        assert run_forked(f"{first}; keeper.hold(lease('child')); wait_for_calls(1)", lock_held=True) == "child"


FORKING = """
import os, signal, sys, threading, warnings
from dramatiq_unique.keeper import Keeper, Pending
from tests.rig import eventually
from tests.unit.test_keeper import FOREVER_S, lease

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of a fork with threads
calls = []

def renew(leases):
    calls.append(leases)
    return [True] * len(leases)

def wait_for_calls(count):
    eventually(lambda: len(calls) >= count)

keeper = Keeper(renew, print, print)
keeper.hold(lease("parent", 60_000))
keeper.later(Pending(lambda: print("made by", os.getpid() == parent and "the parent" or "the child"), FOREVER_S))
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
