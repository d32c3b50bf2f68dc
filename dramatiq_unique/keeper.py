"""The one thread of a worker process that keeps what runs locked, and makes good what could not be released.

It renews every lease of the process in one pipelined call at a third of the shortest of them, so a lease is missed
only by a process that is dead, stopped, or cut off from Redis for two thirds of it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

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
        unless_sent: A message whose being sent again calls it off; ``""``: nothing does.
    """

    release: Callable[[], object]
    give_up_at_s: float
    unless_sent: str = ""


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
        # A queue written in C: worker threads ring with it, and an Interrupt that lands there leaves no lock taken.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._leases: dict[Lease, None] = {}
        self._pending: deque[Pending] = deque(maxlen=_MOST_PENDING)
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the thread, if it does not run: at worker boot, so that no worker thread has to."""
        self._forget_parent()
        if self._runs:
            return
        with self._starting:
            if not self._runs:
                self._stop = threading.Event()
                name = "dramatiq-unique-keeper"
                self._thread = threading.Thread(target=self._run, args=(self._stop,), name=name, daemon=True)
                self._thread.start()

    @property
    def _runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def hold(self, lease: Lease) -> None:
        """Renew a lease from now on."""
        self.start()
        self._leases[lease] = None
        self._bell.put(None)

    def drop(self, lease: Lease) -> None:
        """Renew a lease no longer."""
        self._forget_parent()
        self._leases.pop(lease, None)

    def later(self, pending: Pending) -> None:
        """Make a release good in the background; beyond 10,000 the oldest is left to expire."""
        self.start()
        self._pending.append(pending)
        self._bell.put(None)

    def cancel(self, message_id: str) -> None:
        """Call off what is pending unless this message is sent again."""
        for pending in tuple(self._pending):
            if pending.unless_sent == message_id:
                with contextlib.suppress(ValueError):  # It is being made right now.
                    self._pending.remove(pending)

    def stop(self) -> None:
        """End the thread; what is pending is tried once more."""
        self._forget_parent()
        thread = self._thread
        self._stop.set()
        self._bell.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._make_good()

    def _forget_parent(self) -> None:
        """Begin anew in a fork: none of its parent's threads and leases, and maybe a lock that nobody lets go."""
        if self._pid != os.getpid():
            self._reset()

    def _run(self, stop: threading.Event) -> None:
        due_s: float | None = None
        while not stop.is_set():
            due_s = self._next_due_s(due_s)
            left_s = None if due_s is None else due_s - time.monotonic()
            if left_s is None or left_s > 0:
                try:
                    self._bell.get(timeout=left_s)
                except Empty:
                    pass
                else:
                    continue  # Something new: it may be due earlier.
            if not stop.is_set():
                due_s = None
                self._renew_all()
                self._make_good()

    def _next_due_s(self, due_s: float | None) -> float | None:
        """Say when there is something to do, no later than said before; ``None``: nothing to do."""
        intervals_s = [lease.lease_ms / 3000 for lease in list(self._leases)]
        if self._pending:
            intervals_s.append(_MAKE_GOOD_EVERY_S)
        if not intervals_s:
            return None
        next_s = time.monotonic() + min(intervals_s)
        return next_s if due_s is None else min(due_s, next_s)

    def _renew_all(self) -> None:
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
            if self._leases.pop(lease, lease) is None:  # Else it was let go in the meantime, and not lost.
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
