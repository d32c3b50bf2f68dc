"""The two locks of a digest as they stood at one moment, and who of their holders would be in the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dramatiq_unique.errors import UniqueError
from dramatiq_unique.store.records import Holder, Kind


__all__ = ["Sighting", "first_waiting", "longest_unseen"]

_WAITING = ("w", "n", "v")


@dataclass(frozen=True, slots=True)
class Sighting:
    """The two locks of a digest, as they stood.

    Arguments:
        digest: The digest.
        now_ms: When that was, in milliseconds of the server's clock.
        queue: Who had its queue lock, the oldest first; nobody whose deadline had passed.
        run: Who had its run lock, likewise.
        has_both: Whether both keys were there.
        unreadable: Why a key could not be read; ``None`` where both could.
    """

    digest: str
    now_ms: int
    queue: tuple[Holder, ...]
    run: tuple[Holder, ...]
    has_both: bool = False
    unreadable: str | None = None

    @property
    def holders(self) -> list[tuple[Kind, Holder]]:
        """Who had which lock: those of the queue lock before those of the run lock."""
        return [(kind, holder) for kind, those in ((Kind.QUEUE, self.queue), (Kind.RUN, self.run)) for holder in those]

    def checked(self) -> Sighting:
        """Give it as it is.

        Raises:
            UniqueError: A key could not be read.
        """
        if self.unreadable is not None:
            raise UniqueError(self.unreadable)
        return self

    def unseen_ms(self, holder: Holder) -> int:
        """Say how long ago a holder was last seen."""
        return self.now_ms - holder.touched_ms


# The choices that ``_holders.lua`` makes, for saying beforehand what it would.


def first_waiting(holders: Iterable[Holder]) -> Holder | None:
    """Choose whose place would be taken: the oldest holder whose message waits."""
    return next((holder for holder in holders if holder.state in _WAITING), None)


def longest_unseen(holders: Iterable[Holder]) -> Holder:
    """Choose who would be named as in the way: the one that was not seen for longest, of equals the oldest."""
    return min(holders, key=lambda holder: holder.touched_ms)
