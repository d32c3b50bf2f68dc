"""What would happen to a message, and because of whom: the answer, in fields for programs and a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dramatiq_unique.holders import LockHolder


__all__ = ["AtStart", "ExplainedAction", "Explanation", "Sentence", "span"]

ExplainedAction = Literal["enqueued", "discarded", "rejected", "replaced", "rescheduled", "raised"]
AtStart = Literal["runs", "waits", "discarded", "rejected", "rescheduled", "raised"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would happen to a message that were sent now.

    Arguments:
        actor_name: Its actor.
        queue_name: Its queue.
        digest: The digest of its locks; ``None`` where it asks for none.
        lock: The name of its lock type; ``None`` where it asks for none.
        action: What :func:`~dramatiq_unique.outcome` would say, or ``"raised"``: ``send`` raises
            :class:`~dramatiq_unique.DuplicateMessage`.
        at_start: What a worker would do with it, if it came up now: ``"runs"``; ``"waits"`` for the run lock, as long
            as ``lock_timeout`` allows; or what the server strategy says. ``None`` for a message that would not be
            enqueued now.
        holder: Who is in the way: of being enqueued, else of running at once.
        orphan: Whether that is a holder whose message is no longer in the broker, so that its lock would be taken over.
        reason: All of this in one sentence.
    """

    actor_name: str
    queue_name: str
    digest: str | None
    lock: str | None
    action: ExplainedAction
    at_start: AtStart | None
    holder: LockHolder | None
    orphan: bool
    reason: str

    def __str__(self) -> str:
        return self.reason

    def as_dict(self) -> dict[str, Any]:
        """Give it in a form for JSON."""
        return {
            "actor_name": self.actor_name,
            "queue_name": self.queue_name,
            "digest": self.digest,
            "lock": self.lock,
            "action": self.action,
            "at_start": self.at_start,
            "holder": self.holder and self.holder.as_dict(),
            "orphan": self.orphan,
            "reason": self.reason,
        }


_AT_ENQUEUE: dict[ExplainedAction, str] = {
    "discarded": "It would be refused",
    "rejected": "It would go to the dead letters",
    "rescheduled": "It would not be enqueued now, but tried again later",
    "raised": "send would raise DuplicateMessage",
}
_AT_START: dict[AtStart, str] = {
    "waits": "its worker would wait",
    "discarded": "its worker would drop it",
    "rejected": "its worker would send it to the dead letters",
    "rescheduled": "its worker would put it back for later",
    "raised": "its delivery would fail with DuplicateMessage",
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """What an explanation is put into words from.

    Arguments:
        lock: The name of the lock type.
        limit: How many holders the lock may have.
        now_ms: When the locks were looked at, by the server's clock.
    """

    lock: str
    limit: int
    now_ms: int

    def refused(self, action: ExplainedAction, holder: LockHolder) -> str:
        """Say that a message would not be enqueued now."""
        return f"{_AT_ENQUEUE[action]}: its {self.lock} lock {self._held_by(holder)}."

    def enqueued(self, taken_from: LockHolder | None, *, orphan: bool) -> str:
        """Say that a message would be enqueued, and could run at once."""
        return f"{self._enqueued(taken_from, orphan=orphan)}."

    def in_the_way(self, taken_from: LockHolder | None, *, orphan: bool, at_start: AtStart, running: LockHolder) -> str:
        """Say that a message would be enqueued, and could not run at once."""
        said = "It would be enqueued" if taken_from is None else self._enqueued(taken_from, orphan=orphan)
        return f"{said}; if it came up now, {_AT_START[at_start]}: the run lock {self._held_by(running)}."

    def _enqueued(self, taken_from: LockHolder | None, *, orphan: bool) -> str:
        if taken_from is None:
            return f"It would be enqueued: its {self.lock} lock is {'free' if self.limit == 1 else 'not full'}"
        if orphan:
            return (
                f"It would be enqueued: its {self.lock} lock is held by message {_shown(taken_from.message_id)}, "
                "which is no longer in the broker, and would be taken over"
            )
        return f"It would be enqueued in the place of {self._who(taken_from)}"

    def _held_by(self, holder: LockHolder) -> str:
        """Name a holder in the way."""
        among = "" if self.limit == 1 else f" {self.limit} holders, among them"
        return f"is held by{among} {self._who(holder)}"

    def _who(self, holder: LockHolder) -> str:
        """Name a holder, where it is, and what it does."""
        process = f"{_shown(holder.host)} (pid {holder.pid})"
        had_for = f"and has had the lock for {span(self.now_ms - holder.since_ms)}"
        match holder.state:
            case "running":
                does = f"runs on {process} {had_for}"
            case "window":
                does = f"keeps the lock for another {span(holder.until_ms - self.now_ms)}"
            case "unstored":
                does = f"is about to be enqueued by {process}"
            case _:
                does = f"{'is delayed' if holder.delayed else 'waits'} {had_for}"
        who = f"message {_shown(holder.message_id)} of actor {holder.actor_name!r}"
        return f"{who} on queue {holder.queue_name!r}, which {does}"


def _shown(text: str) -> str:
    """Show an id as it is, unless somebody wrote one that a terminal would not print."""
    return text if text.isprintable() else repr(text)


def span(ms: int) -> str:
    """Write a length of time as people do."""
    seconds = max(ms, 0) / 1000
    for unit, length_s in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
