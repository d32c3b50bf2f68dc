"""What the store answers, and how that is read."""

import enum
from dataclasses import dataclass, field

from dramatiq_unique.store.records import Holder


__all__ = [
    "Acquired",
    "Begun",
    "Contested",
    "Finished",
    "Found",
    "Held",
    "Kept",
    "Replaced",
    "Running",
    "Started",
    "Superseded",
    "Taken",
    "acquired",
    "begun",
]


@dataclass(frozen=True, slots=True)
class Taken:
    """The message has its queue lock now, and had not before."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The message has its queue lock still, as it has had for ``held_ms`` milliseconds."""

    held_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Replaced:
    """The message has the queue lock now, in the place of ``holder``."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class Held:
    """The lock is full.

    Arguments:
        holder: Who is in the way.
        left_ms: How long it still has the lock if nothing renews it.
        unseen_ms: How long ago it was last seen.
    """

    holder: Holder
    left_ms: int
    unseen_ms: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """The message ``by_id`` had taken the place of this one."""

    by_id: str


@dataclass(frozen=True, slots=True)
class Contested:
    """The message ``by_id`` has taken the place of this one, and is not known to be stored yet."""

    by_id: str


class Found(enum.Enum):
    """What a delivery found in the place of its queue lock."""

    MINE = "mine"
    FREE = "free"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Started:
    """The delivery has every lock that it needs.

    Arguments:
        found: How it found its queue lock.
        held_ms: How long its message had held that, in milliseconds.
    """

    found: Found
    held_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Running:
    """An earlier delivery of this very message has a lease that lives for ``left_ms`` yet."""

    left_ms: int


@dataclass(frozen=True, slots=True)
class Finished:
    """What was let go: how long each lock was held, in milliseconds; ``None`` where nothing was."""

    queue_ms: int | None = None
    run_ms: int | None = None


Acquired = Taken | Kept | Replaced | Held | Superseded | Contested
"""The answers at enqueue."""

Begun = Started | Held | Superseded | Contested | Running
"""The answers at the start."""

_TAKEN = Taken()


def acquired(answer: str | None) -> Acquired:
    """Read what ``acquire.lua`` gives."""
    if answer is None:
        return _TAKEN
    status, words, lines = _taken_apart(answer)
    match status:
        case "mine":
            return Kept(int(words[0]))
        case "replaced":
            return Replaced(_held(words, lines).holder)
        case _:
            return _in_the_way(status, words, lines)


def begun(answer: str) -> Begun:
    """Read what ``begin.lua`` gives."""
    status, words, lines = _taken_apart(answer)
    match status:
        case "begun":
            return Started(Found(words[0]), held_ms=int(words[1]))
        case "running":
            return Running(int(words[0]))
        case _:
            return _in_the_way(status, words, lines)


def _taken_apart(answer: str) -> tuple[str, list[str], str]:
    """Give the status, the words on its line, and the lines after it."""
    line, _, lines = answer.partition("\n")
    status, *words = line.split()
    return status, words, lines


def _in_the_way(status: str, words: list[str], lines: str) -> Superseded | Contested | Held:
    match status:
        case "superseded":
            return Superseded(lines)
        case "contested":
            return Contested(lines)
        case _:
            return _held(words, lines)


def _held(words: list[str], lines: str) -> Held:
    record, place, before, args, rest = lines.split("\n", 4)
    info, _, message_id = rest.rpartition("\n")
    return Held(Holder.parse(message_id, record, place, before, info, args), int(words[0]), int(words[1]))
