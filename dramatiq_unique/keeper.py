"""The one thread of a worker process that keeps what runs locked, and makes good what could not be released.

It renews every lease of the process in one pipelined call at a third of the shortest of them, so a lease is missed
only by a process that is dead, stopped, or cut off from Redis for two thirds of it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dramatiq_unique.errors import LockStoreUnavailable
from dramatiq_unique.store import Lease


__all__ = ["Keeper", "Pending"]

_MAKE_GOOD_EVERY_S = 1.0
_MOST_PENDING = 10_000
_STORE_IS_AWAY = 3


@dataclass(frozen=True, slots=True)
class Pending:
    """A release that could not be made.

    Arguments:
        release: Makes it; raises :class:`~dramatiq_unique.LockStoreUnavailable` where it still cannot.
        give_up_at_s: When the lock has expired and nothing is left to release, by :func:`time.monotonic`.
    """

    release: Callable[[], object]
    give_up_at_s: float


class Keeper:
    """Renews leases and makes releases good, in one daemon thread that starts when there is something to do.

    Arguments:
        renew: Renews leases in one call and tells for each whether it was kept.
        on_lost: Told of each lease that was lost; it is not renewed again.
        on_error: Told what a renewal raised, with the leases, or a release that is given up, with none.
    """

    def __init__(
        self,
        renew: Callable[[Sequence[Lease]], list[bool]],
        on_lost: Callable[[Lease], object],
        on_error: Callable[[Sequence[Lease], Exception], object],
    ) -> None:
        self._renew = renew
        self._on_lost = on_lost
        self._on_error = on_error
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._leases: dict[Lease, None] = {}
        self._pending: deque[Pending] = deque(maxlen=_MOST_PENDING)
        self._due_s = 0.0
        self._stopping = False

    def hold(self, lease: Lease) -> None:
        """Renew a lease from now on."""
        self._start()
        with self._wake:
            due_s = time.monotonic() + lease.lease_ms / 3000
            self._due_s = min(self._due_s, due_s) if self._busy else due_s
            self._leases[lease] = None
            self._wake.notify()

    def drop(self, lease: Lease) -> None:
        """Renew a lease no longer."""
        self._forget_parent()
        with self._wake:
            self._leases.pop(lease, None)

    def later(self, pending: Pending) -> None:
        """Make a release good in the background; beyond 10,000 the oldest is left to expire."""
        self._start()
        with self._wake:
            due_s = time.monotonic() + _MAKE_GOOD_EVERY_S
            self._due_s = min(self._due_s, due_s) if self._busy else due_s
            self._pending.append(pending)
            self._wake.notify()

    def stop(self) -> None:
        """End the thread; what is pending is tried once more."""
        self._forget_parent()
        with self._wake:
            self._stopping = True
            self._wake.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._make_good()

    def _forget_parent(self) -> None:
        """Begin anew in a fork: none of its parent's threads and leases, and maybe a lock that nobody lets go."""
        if self._pid != os.getpid():
            self._reset()

    @property
    def _busy(self) -> bool:
        return bool(self._leases or self._pending)

    def _start(self) -> None:
        self._forget_parent()
        with self._wake:
            if self._thread is None or not self._thread.is_alive():
                self._stopping = False
                self._thread = threading.Thread(target=self._run, name="dramatiq-unique-keeper", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._wait_until_due():
            self._renew_all()
            self._make_good()

    def _wait_until_due(self) -> bool:
        with self._wake:
            while not self._stopping:
                left_s = self._due_s - time.monotonic()
                if not self._busy:
                    self._wake.wait()
                elif left_s > 0:
                    self._wake.wait(left_s)
                else:
                    intervals_s = [lease.lease_ms / 3000 for lease in self._leases]
                    self._due_s = time.monotonic() + min(intervals_s, default=_MAKE_GOOD_EVERY_S)
                    if self._pending:
                        self._due_s = min(self._due_s, time.monotonic() + _MAKE_GOOD_EVERY_S)
                    return True
            return False

    def _renew_all(self) -> None:
        with self._wake:
            leases = list(self._leases)
        if not leases:
            return
        try:
            kept = self._renew(leases)
        except Exception as exc:  # noqa: BLE001 - the one thread that keeps every lock survives whatever one call raises
            self._on_error(leases, exc)
            return
        for lease, was_kept in zip(leases, kept, strict=True):
            if was_kept:
                continue
            with self._wake:
                still_runs = self._leases.pop(lease, lease) is None
            if still_runs:  # Let go in the meantime, it was not lost.
                self._on_lost(lease)

    def _make_good(self) -> None:
        """Try each pending release once; where several fail the store is away, and the others wait too."""
        failed: list[Pending] = []
        for _ in range(len(self._pending)):
            try:
                pending = self._pending.popleft()
            except IndexError:  # Another thread had the last one.
                break
            try:
                pending.release()
            except LockStoreUnavailable:
                if time.monotonic() < pending.give_up_at_s:
                    failed.append(pending)
                if len(failed) >= _STORE_IS_AWAY:
                    self._pending.extendleft(reversed(failed))
                    return
            except Exception as exc:  # noqa: BLE001 - trying again would raise it again; the others are made
                self._on_error((), exc)
        self._pending.extend(failed)  # Behind the others: what fails for itself holds up nobody.
