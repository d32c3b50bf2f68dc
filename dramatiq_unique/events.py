"""What is told, one class for each fact.

Every event is frozen and carries ids and a digest, never an argument of a job. Times have their unit in the name.
``UniqueMiddleware.subscribe(function)`` hears all of them; the same facts go to structlog as lines, under the same
names with the same fields, at the level that :data:`LEVELS` gives.

==================== =============================================================================================
event                the fact
==================== =============================================================================================
locked               a message took its queue lock, or a delivery its run lock
refused              a duplicate was not enqueued (client), or acknowledged without a run (server)
rejected             a duplicate went to the dead letters
replaced             a message took the place of one that waited
superseded           the message whose place was taken came up, and was skipped
rescheduled          a message was put back, to be tried again
merged               a retry was not enqueued, because a newer copy of it waits
released             a lock was let go by code
lapsed               a message started without the lock it had taken: its deadline had passed, as a rule
reclaimed            a lock was taken over from a message that no longer exists
lease_lost           the lock of a message that runs was no longer its own when it was to be renewed
after_unlock_failed  the ``after_unlock`` hook raised
store_error          the lock store failed, and what was done instead
==================== =============================================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


__all__ = [
    "LEVELS",
    "AfterUnlockFailed",
    "Event",
    "Lapsed",
    "LeaseLost",
    "Locked",
    "Merged",
    "Reclaimed",
    "Refused",
    "Rejected",
    "Released",
    "Replaced",
    "Rescheduled",
    "StoreError",
    "Superseded",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event has.

    Arguments:
        message_id: The message it is about.
        actor_name: Its actor.
        queue_name: Its queue (never a delay queue's name).
        digest: The digest of its locks.
        lock: The name of its lock type; ``""`` in the release of a lock by hand, since Redis does not know it.
    """

    name: ClassVar[str]

    message_id: str
    actor_name: str
    queue_name: str
    digest: str
    lock: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked(Event):
    """A lock was taken.

    Arguments:
        kind: ``"queue"`` or ``"run"``.
        hold_ms: How long it is held at most, in milliseconds, unless it is renewed.
        waited_ms: How long the worker waited for it (``lock_timeout``), in milliseconds.
    """

    name: ClassVar[str] = "locked"

    kind: str
    hold_ms: int
    waited_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Event):
    """A duplicate was let go of.

    Arguments:
        side: ``"client"`` or ``"server"``.
        strategy: The strategy that said so.
        holder_id: The message in the way.
        next_actor: The actor of the pipeline's next step, which now does not happen; ``None`` outside pipelines.
    """

    name: ClassVar[str] = "refused"

    side: str
    strategy: str
    holder_id: str
    next_actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Event):
    """A duplicate went to the dead letters; fields as in :class:`Refused`."""

    name: ClassVar[str] = "rejected"

    side: str
    strategy: str
    holder_id: str
    next_actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced(Event):
    """This message took the place of ``replaced_id``."""

    name: ClassVar[str] = "replaced"

    replaced_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded(Event):
    """This message came up and was skipped: ``by_id`` had taken its place."""

    name: ClassVar[str] = "superseded"

    by_id: str
    next_actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescheduled(Event):
    """A message was put back.

    Arguments:
        side: ``"client"`` or ``"server"``.
        strategy: The strategy that said so; ``"redelivery"`` where an earlier delivery of it may be running yet, and
            ``"replacement"`` where another message is about to take its place.
        holder_id: The message in the way.
        delay_ms: When it comes back, in milliseconds from now.
        attempt: How often it was put back for a conflict, this time included; a redelivery does not count.
    """

    name: ClassVar[str] = "rescheduled"

    side: str
    strategy: str
    holder_id: str
    delay_ms: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(Event):
    """A retry was not enqueued: ``holder_id``, a newer copy, waits and does its work."""

    name: ClassVar[str] = "merged"

    holder_id: str
    next_actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Event):
    """A lock was let go by code, or by hand (``UniqueMiddleware.locks``).

    Arguments:
        kind: ``"queue"`` or ``"run"``.
        held_ms: How long it was held, in milliseconds.
    """

    name: ClassVar[str] = "released"

    kind: str
    held_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed(Event):
    """The queue lock of a message was gone when it started; the message runs all the same.

    Its deadline had passed, or, where its first delivery crashed under a lock type that lets go at the start, that
    delivery had let it go.
    """

    name: ClassVar[str] = "lapsed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed(Event):
    """The lock of ``holder_id``, a message that no longer exists, was taken over."""

    name: ClassVar[str] = "reclaimed"

    holder_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """The lock of a message that runs is no longer its own; another copy may be running."""

    name: ClassVar[str] = "lease_lost"

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterUnlockFailed(Event):
    """The ``after_unlock`` hook raised; the job is not affected.

    Arguments:
        error: The type of what it raised. Its text may have arguments of the job in it.
        where: Where it was raised, as ``file:line in function``.
    """

    name: ClassVar[str] = "after_unlock_failed"

    error: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreError(Event):
    """The lock store failed.

    Arguments:
        operation: What it failed at: ``"enqueue"``, ``"start"``, ``"release"``, ``"renew"``.
        error: The driver's words.
        consequence: What was done: ``"refused"`` (the caller has the error), ``"failed"`` (the delivery fails with
            it), ``"unlocked"`` (it goes on without its lock), ``"later"`` (tried again in the background).
    """

    name: ClassVar[str] = "store_error"

    operation: str
    error: str
    consequence: str


LEVELS: Mapping[str, int] = {
    "locked": logging.DEBUG,
    "refused": logging.INFO,
    "rejected": logging.WARNING,
    "replaced": logging.INFO,
    "superseded": logging.INFO,
    "rescheduled": logging.INFO,
    "merged": logging.INFO,
    "released": logging.DEBUG,
    "lapsed": logging.WARNING,
    "reclaimed": logging.WARNING,
    "lease_lost": logging.ERROR,
    "after_unlock_failed": logging.ERROR,
    "store_error": logging.ERROR,
}
"""The level of each line. A refusal that nobody asked to hear of (no ``on_conflict``) has no line at all, and whatever
cuts a pipeline short is a warning."""
