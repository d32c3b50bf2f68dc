"""Threads that take turns: exactly one runs at a time, so that what happens depends on the order of turns alone.

Each simulated thread is a real one, since the package keeps what it knows of a delivery and of a caller in
thread-locals. It runs until it comes to a *seam* (a call of the lock store or of the broker, the body of a job), where
it may have to wait for its next turn. In between it touches nothing that others see.
"""

import threading
from collections.abc import Callable


__all__ = ["Killed", "Strand"]

_STUCK_S = 20
_here = threading.local()


class Killed(BaseException):
    """Ends a thread whose process was killed: whatever it still comes to, it does nothing there."""


class Strand:
    """One thread of a simulated process.

    Args:
        name: For the log.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused_at: str | None = None
        self.crash: BaseException | None = None
        self.inject: BaseException | None = None
        self._task: Callable[[], object] | None = None
        self._budget: int | None = None
        self._ended = False
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @staticmethod
    def current() -> "Strand | None":
        """Find the strand that runs this code; none does while the world is set up."""
        return getattr(_here, "strand", None)

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return self._task is None

    def begin(self, task: Callable[[], object], budget: int | None) -> None:
        """Give it something to do, and a turn.

        Args:
            task: What to do.
            budget: How many seams it passes before it has to wait; ``None`` for all of them.
        """
        self._task, self.crash = task, None
        self.resume(budget)

    def resume(self, budget: int | None) -> None:
        """Give it another turn."""
        self._budget = budget
        self._go.release()
        assert self._back.acquire(timeout=_STUCK_S), f"{self.name} is stuck"

    def seam(self, at: str, *, wait: bool = False) -> None:
        """Come to a seam, on the strand itself.

        Args:
            at: What comes next.
            wait: Whether to wait for another turn whatever the budget.

        Raises:
            BaseException: What lands in this thread here (:attr:`inject`).
        """
        if wait or self._budget == 0:
            self.paused_at = at
            self._back.release()
            self._go.acquire()
            self.paused_at = None
        elif self._budget is not None:
            self._budget -= 1
        if self.inject is not None:
            landed, self.inject = self.inject, None
            raise landed

    def end(self) -> None:
        """End the thread; it has to be idle."""
        self._ended = True
        self._go.release()
        self._thread.join(timeout=_STUCK_S)

    def _run(self) -> None:
        _here.strand = self
        while True:
            self._go.acquire()
            if self._ended or self._task is None:
                return
            try:
                self._task()
            except BaseException as exc:  # noqa: BLE001 - whoever gave the task looks at it
                self.crash = exc
            self._task = None
            self._back.release()
