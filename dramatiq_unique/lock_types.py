"""The five lock types: which locks a message needs, and when each one is let go.

A lock type is a row. What happens to a message, at enqueue and at the worker, is settled by the columns of its row and
never by its name, so a sixth row works as well as the first five::

    UniqueMiddleware(lock_types=[LockType("until_executed_alone", queue=Until.END, run=True)])
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


__all__ = ["LOCK_TYPES", "LockType", "Until"]


class Until(enum.Enum):
    """When the queue lock of a message is let go."""

    START = "start"
    """Just before the actor runs."""

    END = "end"
    """After the actor succeeds, or once the message has ended for good."""

    EXPIRY = "expiry"
    """Never by code, but ``lock_ttl`` after it was taken."""


@dataclass(frozen=True, slots=True)
class LockType:
    """One row of the table.

    Arguments:
        name: What stands in ``lock=``.
        queue: When the queue lock, which the *message* takes at enqueue, is let go. ``None``: there is none, and
            enqueueing is free.
        run: Whether a *delivery* takes a run lock before the actor runs, let go after it however it ended.
    """

    name: str
    queue: Until | None = None
    run: bool = False

    def __post_init__(self) -> None:
        """Refuse a row that locks nothing, or cannot be read.

        Raises:
            ValueError: Neither lock is taken, or a column is no name, no moment, or no answer.
        """
        name: object = self.name
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a lock type must be a string, not empty; not {name!r}")
        if self.queue is not None and not isinstance(self.queue, Until):
            raise ValueError(
                f"lock type {self.name!r}: queue must be Until.START, Until.END, Until.EXPIRY or None, "
                f"not {self.queue!r}"
            )
        if not isinstance(self.run, bool):
            raise ValueError(f"lock type {self.name!r}: run must be True or False, not {self.run!r}")  # noqa: TRY004 - one kind of error
        if self.queue is None and not self.run:
            raise ValueError(
                f"lock type {self.name!r} takes neither a queue lock nor a run lock: give it queue=Until... or run=True"
            )


LOCK_TYPES: tuple[LockType, ...] = (
    LockType("until_executing", queue=Until.START),
    LockType("until_executed", queue=Until.END),
    LockType("until_expired", queue=Until.EXPIRY),
    LockType("while_executing", run=True),
    LockType("until_and_while_executing", queue=Until.START, run=True),
)
