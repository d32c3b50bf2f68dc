"""The one thread of a process that makes good what could not be done while Redis was away.

What is pending is lost with the process; then the lock ends as a lock does whose holder died.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dramatiq_unique.background import Background
from dramatiq_unique.errors import LockStoreUnavailable


__all__ = ["Backlog", "Pending"]

_EVERY_S = 1.0
_MOST = 10_000
_STORE_IS_AWAY = 3


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Something that could not be done.

    Arguments:
        message_id: The message whose lock it is about; what is pending for one message is done in order.
        make_good: Does it; raises :class:`~dramatiq_unique.LockStoreUnavailable` where it still cannot.
        give_up_at_s: When the lock has expired and nothing is left to do, by :func:`time.monotonic`.
    """

    message_id: str
    make_good: Callable[[], object]
    give_up_at_s: float


class Backlog(Background):
    """Makes good, in the background.

    Arguments:
        on_error: Told what was raised where something is given up.
    """

    def __init__(self, on_error: Callable[[Exception], object]) -> None:
        self._on_error = on_error
        super().__init__("backlog")

    def _reset(self) -> None:
        super()._reset()
        self._pending: deque[Pending] = deque(maxlen=_MOST)

    def later(self, pending: Pending) -> None:
        """Make something good from now on; beyond 10,000 the oldest is left to expire."""
        self.start()
        self._pending.append(pending)
        self._ring()

    def _every_s(self) -> float | None:
        return _EVERY_S if self._pending else None

    def _work(self) -> None:
        """Try each once; where several fail the store is away, and the others wait too."""
        failed: list[Pending] = []
        for _ in range(len(self._pending)):
            try:
                pending = self._pending.popleft()
            except IndexError:  # A full backlog dropped the last one.
                break
            if any(earlier.message_id == pending.message_id for earlier in failed):
                failed.append(pending)
                continue
            try:
                pending.make_good()
            except LockStoreUnavailable:
                if time.monotonic() < pending.give_up_at_s:
                    failed.append(pending)
                if len(failed) >= _STORE_IS_AWAY:
                    self._pending.extendleft(reversed(failed))
                    return
            except Exception as exc:  # noqa: BLE001 - trying again would raise it again; the others are done
                self._on_error(exc)
        self._pending.extend(failed)  # Behind the others: what fails for itself holds up nobody.
