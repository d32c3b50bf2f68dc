"""What travels with a message: the lock it asked for, settled once at enqueue.

The ticket is one entry in ``message.options``, so a deploy that changes the rule, the queue or the lock type cannot
make a worker release the wrong lock. A message from a producer without this middleware has none; the worker then
settles it at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


__all__ = ["OPTION", "Ticket"]

OPTION = "dramatiq_unique"
"""The name of the entry in ``message.options``."""


class Ticket(NamedTuple):
    """The lock of one message.

    Arguments:
        message_id: Whose ticket it is: a copy of the message with another id starts afresh.
        digest: The digest of its locks.
        lock: The name of its lock type.
        ttl_ms: Its ``lock_ttl`` in milliseconds, if any.
        held: Whether the message took its queue lock.
        token: The token of the enqueue that took or kept it last; more, with a space between, where the answer to
            the last was lost.
        waits: Whether it has yet to be let in: it was rescheduled at enqueue, and its strategy applies again when it
            comes back. Any other message that carries a ticket was accepted, and is not refused any more.
        marked: Whether the start of the message is marked in its lock, which is what lets another replace it
            before, under a lock type that would otherwise cost no round trip at the start.
        rescheduled: How often it was put back.
        redelivered: Whether it was put back because an earlier delivery of it may be running yet: it then goes into
            the queue past every lock, and the start decides.
        outcome: What became of the send (:class:`~dramatiq_unique.Outcome`), where it was not simply enqueued.
    """

    message_id: str
    digest: str
    lock: str
    ttl_ms: int | None = None
    held: bool = False
    token: str = ""
    waits: bool = False
    marked: bool = False
    rescheduled: int = 0
    redelivered: bool = False
    outcome: Mapping[str, str] | None = None

    @classmethod
    def on(cls, message_id: str, options: Mapping[str, Any]) -> Ticket | None:
        """Read the ticket of a message.

        Arguments:
            message_id: The message.
            options: Its options.

        Returns:
            Its ticket; ``None`` where it has none, another message's, or one that cannot be read.
        """
        entry = options.get(OPTION)
        if not isinstance(entry, dict) or entry.get("message_id") != message_id:
            return None
        try:
            return cls(**entry)
        except TypeError:
            return None  # Written by another version, with other fields: settled again.

    def entry(self) -> dict[str, Any]:
        """Write the ticket down for JSON, without what is at its default."""
        entry: dict[str, Any] = {"message_id": self.message_id, "digest": self.digest, "lock": self.lock}
        for name in ("ttl_ms", "held", "token", "waits", "marked", "rescheduled", "redelivered", "outcome"):
            value = getattr(self, name)
            if value:
                entry[name] = value
        return entry

    def with_outcome(self, action: str, **holder: str) -> Ticket:
        """Note what became of the send."""
        return self._replace(outcome={"action": action, **holder})

    def refused(self, action: str, **holder: str) -> Ticket:
        """Note that the message was not let in: sent again, it is a send like any other."""
        return self._replace(held=False, token="", waits=True, outcome={"action": action, **holder})

    def put_back(self, *, waits: bool = False, redelivered: bool = False) -> Ticket:
        """Put the message back; a redelivery is nobody's conflict, and does not count against ``reschedule_limit``.

        Arguments:
            waits: Whether it is put back before it was let in, without a lock.
            redelivered: Whether it is put back for an earlier delivery of its own.
        """
        return self._replace(
            rescheduled=self.rescheduled + (not redelivered),
            held=self.held and not waits,
            token="" if waits else self.token,
            waits=waits,
            redelivered=redelivered,
            outcome=None,
        )

    def maybe_taken(self, token: str) -> Ticket:
        """Note that the enqueue with this token may have taken its queue lock: the answer was lost."""
        return self._replace(token=f"{self.token} {token}".strip())

    def taken(self, token: str) -> Ticket:
        """Note that the message has its queue lock, by the enqueue with this token."""
        return self._replace(held=True, token=token, waits=False)
