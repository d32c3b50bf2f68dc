"""Locks and their holders, for people and programs that look."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dramatiq.common import q_name

from dramatiq_unique.store import Holder, Kind, Sighting


__all__ = ["Lock", "LockHolder"]

HolderKind = Literal["queue", "run"]
HolderState = Literal["waiting", "running", "unstored", "window"]

_STATES: dict[str, HolderState] = {
    "w": "waiting",
    "n": "unstored",
    "r": "running",
    "v": "window",
    "f": "window",
}


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who has a lock. All times are milliseconds since 1970 by the clock of the Redis server.

    Arguments:
        kind: ``"queue"``: a message, from enqueue on; ``"run"``: a delivery, while the actor runs.
        message_id: The message.
        actor_name: Its actor.
        queue_name: Its queue, never a delay queue's name.
        state: ``"waiting"``, ``"running"``, ``"unstored"`` (about to be in the broker), or ``"window"``
            (``until_expired``: the lock stands until ``until_ms``, whatever becomes of the message).
        since_ms: When it took the lock.
        seen_ms: When it was last heard of.
        until_ms: Until when it has the lock, unless it is kept for longer.
        host: The host of the process that took or last kept the lock.
        pid: That process.
        args: The message's arguments as JSON, where ``lock_info`` keeps them.
        delayed: Whether the message is in the delay queue: it was sent with a delay, or a retry is due.
        token: What tells one delivery of the message from another; compared when the lock is released.
    """

    kind: HolderKind
    message_id: str
    actor_name: str
    queue_name: str
    state: HolderState
    since_ms: int
    seen_ms: int
    until_ms: int
    host: str
    pid: int
    args: str | None = None
    delayed: bool = False
    token: str = field(default="", repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Give it in a form for JSON, without the token."""
        return {name: value for name, value in asdict(self).items() if name != "token"}

    @classmethod
    def of(cls, kind: Kind, holder: Holder) -> LockHolder:
        """Present a holder as it stands in the store."""
        host, _, pid = holder.process.rpartition(":")
        queue_name = q_name(holder.queue_name)
        return cls(
            kind=kind.value,
            message_id=holder.message_id,
            actor_name=holder.actor_name,
            queue_name=queue_name,
            state=_STATES[holder.state],
            since_ms=holder.since_ms,
            seen_ms=holder.touched_ms,
            until_ms=holder.deadline_ms,
            host=host,
            pid=int(pid) if pid.isdecimal() else 0,
            args=holder.fields[4] or None,
            delayed=queue_name != holder.queue_name,
            token=holder.token,
        )


@dataclass(frozen=True, slots=True)
class Lock:
    """The locks of one digest, as they stood at one moment.

    Arguments:
        digest: The digest.
        holders: Who has them: those of the queue lock before those of the run lock, the oldest first.
        read_ms: When that was, in milliseconds since 1970 by the clock of the Redis server.
        unreadable: What is wrong, where somebody else wrote into a key of this digest; ``None`` where all is well.
    """

    digest: str
    holders: tuple[LockHolder, ...]
    read_ms: int
    unreadable: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give it in a form for JSON."""
        return {
            "digest": self.digest,
            "holders": [holder.as_dict() for holder in self.holders],
            "read_ms": self.read_ms,
            "unreadable": self.unreadable,
        }

    @classmethod
    def of(cls, seen: Sighting) -> Lock:
        """Present what the store saw."""
        holders = tuple(LockHolder.of(kind, holder) for kind, holder in seen.holders)
        return cls(seen.digest, holders, seen.now_ms, seen.unreadable)
