"""A thread of this process that works when there is something to do."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from queue import Empty, SimpleQueue


__all__ = ["Background"]

_STOPS_WITHIN_S = 5.0


class Background(ABC):
    """One daemon thread, started by the first that has something for it, and anew in a fork.

    Arguments:
        name: What the thread is called, after ``dramatiq-unique-``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        # A queue written in C: worker threads ring with it, and an Interrupt that lands there leaves no lock taken.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the thread, if it does not run: at worker boot, so that no worker thread has to."""
        self._forget_parent()
        if self._runs:
            return
        with self._starting:
            if not self._runs:
                self._stop = threading.Event()
                name = f"dramatiq-unique-{self._name}"
                self._thread = threading.Thread(target=self._run, args=(self._stop,), name=name, daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread once it has worked one last time; one that hangs in Redis is left behind after 5 s."""
        self._forget_parent()
        thread = self._thread
        self._stop.set()
        self._bell.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(_STOPS_WITHIN_S)

    @abstractmethod
    def _every_s(self) -> float | None:
        """Say how often there is something to do now, in seconds; ``None``: there is nothing."""

    @abstractmethod
    def _work(self) -> None:
        """Do it. Whatever this raises would end the thread."""

    def _ring(self) -> None:
        """Have the thread see what is new."""
        self.start()
        self._bell.put(None)

    @property
    def _runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def _forget_parent(self) -> None:
        """Begin anew in a fork: none of its parent's threads and work, and maybe a lock that nobody lets go."""
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
                self._work()
        self._work()

    def _next_due_s(self, due_s: float | None) -> float | None:
        """Say when there is something to do, no later than said before."""
        every_s = self._every_s()
        if every_s is None:
            return None
        next_s = time.monotonic() + every_s
        return next_s if due_s is None else min(due_s, next_s)
