"""One clock for everybody: the lock server, the broker, the workers and the package."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


__all__ = ["Clock"]

_BEGIN_MS = 1_700_000_000_000


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_ms = _BEGIN_MS

    @property
    def passed_ms(self) -> int:
        """How long the world has existed."""
        return self.now_ms - _BEGIN_MS

    def seconds(self) -> float:
        """Tell the time in seconds, as both ``time.time`` and ``time.monotonic`` do."""
        return self.now_ms / 1000

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Make it the clock of the process; what waits for locks and threads in C keeps its own."""
        with (
            patch.object(time, "time", self.seconds),
            patch.object(time, "monotonic", self.seconds),
            patch("dramatiq.common.time", self.seconds),  # It was imported by name.
        ):
            yield
