"""What the store answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dramatiq_unique.store.records import Holder

__all__ = ["Acquired", "Begun", "Found", "Status"]


class Status(enum.Enum):
    """How an acquire or a begin went."""

    TAKEN = "taken"
    MINE = "mine"
    REPLACED = "replaced"
    HELD = "held"
    SUPERSEDED = "superseded"
    BEGUN = "begun"
    RUNNING = "running"


class Found(enum.Enum):
    """What a delivery found in the place of its queue lock."""

    MINE = "mine"
    FREE = "free"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Acquired:
    """The answer at enqueue.

    Arguments:
        status: ``TAKEN``, ``MINE``, ``REPLACED``, ``HELD`` or ``SUPERSEDED``.
        holder: The one in the way (``HELD``), or whose place was taken (``REPLACED``).
        superseded_by: The message that took this one's place (``SUPERSEDED``).
    """

    status: Status
    holder: Holder | None = None
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer at the start.

    Arguments:
        status: ``BEGUN``, ``HELD``, ``SUPERSEDED`` or ``RUNNING``.
        found: What stood in the place of the queue lock (``BEGUN``).
        holder: The one in the way (``HELD``).
        superseded_by: The message that took this one's place (``SUPERSEDED``).
        left_ms: How long the one in the way (``HELD``), or the earlier delivery (``RUNNING``), still has the lock.
    """

    status: Status
    found: Found = Found.NONE
    holder: Holder | None = None
    superseded_by: str | None = None
    left_ms: int = 0
