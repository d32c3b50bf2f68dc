"""Who has the locks that such a message would ask for; what :mod:`dramatiq_unique.testing` looks at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from dramatiq import Message

from dramatiq_unique.parts import Parts
from dramatiq_unique.store import Holder, Kind, Lookups


__all__ = ["Glimpse"]

_STATES = {"w": "waiting", "n": "about to be stored", "r": "running", "v": "a window", "f": "a window"}


@dataclass(frozen=True, slots=True)
class Glimpse:
    """The locks of a digest, as they stood at one moment.

    Arguments:
        digest: The digest.
        lock: The name of the lock type that the message asks for.
        at_enqueue: Whether that takes a lock at enqueue already.
        holders: For each holder a line: who it is, since when, where.
    """

    digest: str
    lock: str
    at_enqueue: bool
    holders: tuple[str, ...]

    @classmethod
    def of(cls, message: Message[Any], parts: Parts) -> Glimpse | None:
        """Look at the locks that a message would ask for; ``None`` where it would ask for none."""
        claim = parts.claims.of(message)
        if claim is None:
            return None
        digest = claim.ticket.digest
        seen = Lookups(parts.store.client, prefix=parts.store.prefix).look(digest).checked()
        holders = tuple(_described(kind, holder, holder.deadline_ms - seen.now_ms) for kind, holder in seen.holders)
        return cls(digest, claim.lock.name, claim.lock.queue is not None, holders)


def _described(kind: Kind, holder: Holder, left_ms: int) -> str:
    since = datetime.fromtimestamp(holder.since_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    return (
        f"message {holder.message_id} of {holder.actor_name!r} holds the {kind.value} lock since {since} and for "
        f"{left_ms / 1000:.3f} s more, {_STATES[holder.state]} on queue {holder.queue_name!r}, by {holder.process}"
    )
