"""The backlog: one thread that makes good what could not be done while Redis was away."""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from dramatiq_unique import LockStoreUnavailable, backlog
from dramatiq_unique.backlog import Backlog, Pending
from tests.rig import eventually


FOREVER_S = float("inf")


class Bench:
    """A backlog, whether the store is up, and what was heard."""

    def __init__(self) -> None:
        self.is_up = True
        self.errors: list[Exception] = []
        self.backlog = Backlog(self.errors.append)
        self._names = itertools.count()

    def later(
        self, make_good: Callable[[], object], *, message_id: str | None = None, give_up_at_s: float = FOREVER_S
    ) -> None:
        """Leave something to the backlog, of a message of its own unless one is named."""
        self.backlog.later(Pending(message_id or f"message {next(self._names)}", make_good, give_up_at_s))

    def thread_is_alive(self) -> bool:
        """Whether its thread runs."""
        thread = self.backlog._thread
        return thread is not None and thread.is_alive()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A backlog that tries every 10 ms; stopped with the test."""
    monkeypatch.setattr(backlog, "_EVERY_S", 0.01)
    bench = Bench()
    yield bench
    bench.is_up = True
    bench.backlog.stop()


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


class TestMakingGood:
    """What could not be done is kept, and tried again."""

    def test_it_is_made_once_the_store_is_back(self, bench: Bench) -> None:
        """Once, and not again."""
        bench.is_up = False
        release, other = Release(bench), Release(bench)
        bench.later(release)
        eventually(lambda: release.tries >= 2)
        assert release.made == 0

        bench.is_up = True
        eventually(lambda: release.made)
        bench.later(other)
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
            bench.later(release(number))
        eventually(lambda: len(tried) >= 3)
        bench.is_up = True

        eventually(lambda: len(made) == 5)
        assert made == [0, 1, 2, 3, 4]

    def test_it_is_given_up_once_its_lock_has_expired(self, bench: Bench) -> None:
        """There is nothing left to release; the next one is tried all the same."""
        bench.is_up = False
        expired, waiting = Release(bench), Release(bench)
        bench.later(expired, give_up_at_s=time.monotonic())
        bench.later(waiting)
        eventually(lambda: waiting.tries >= 2)

        bench.is_up = True
        eventually(lambda: waiting.made)

        assert (expired.tries, expired.made) == (1, 0)

    def test_only_so_many_are_kept(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A store that is away for long costs no more memory; the oldest is left to expire."""
        monkeypatch.setattr(backlog, "_MOST", 3)
        bounded = Backlog(bench.errors.append)
        releases = [Release(bench) for _ in range(5)]

        bench.is_up = False
        for release in releases:
            bounded.later(Pending("m", release, FOREVER_S))
        bench.is_up = True
        bounded.stop()

        assert [release.made for release in releases] == [0, 0, 1, 1, 1]

    def test_a_release_that_raises_something_else_holds_up_nobody(self, bench: Bench) -> None:
        """It is dropped: what it raised would be raised again. The next one is made."""
        other = Release(bench)

        def broken() -> None:
            raise RuntimeError("a fault")

        bench.later(broken)
        bench.later(other)

        eventually(lambda: other.made)
        assert [str(error) for error in bench.errors] == ["a fault"]

    def test_what_is_about_one_message_is_done_in_order(self, bench: Bench) -> None:
        """What was done to its lock last is undone first, and the other way round it would be held for good."""
        done: list[str] = []
        tries = itertools.count()

        def first() -> None:
            if next(tries) < 3:
                raise LockStoreUnavailable("this one alone")
            done.append("first")

        bench.later(first, message_id="x")
        bench.later(lambda: done.append("second"), message_id="x")
        bench.later(lambda: done.append("other"), message_id="y")

        eventually(lambda: len(done) == 3)

        assert done == ["other", "first", "second"]


class TestStopping:
    """The thread ends with the worker."""

    def test_what_is_pending_is_tried_once_more(self, bench: Bench) -> None:
        """A store that is back just now hears of it."""
        bench.is_up = False
        release = Release(bench)
        bench.later(release)
        eventually(lambda: release.tries)

        bench.is_up = True
        bench.backlog.stop()

        assert release.made == 1

    def test_where_the_store_stays_away_it_ends_all_the_same(self, bench: Bench) -> None:
        """A worker shuts down; the locks expire."""
        bench.is_up = False
        bench.later(Release(bench))

        bench.backlog.stop()

        assert not bench.thread_is_alive()
