"""What one message asks of the locks."""

from typing import Any, NamedTuple

from dramatiq import Message
from dramatiq.broker import MessageProxy

from dramatiq_unique.durations import LONGEST_MS
from dramatiq_unique.lock_types import LockType, Until
from dramatiq_unique.options import LockOptions
from dramatiq_unique.store import Request
from dramatiq_unique.ticket import Ticket


__all__ = ["SAFETY_MS", "SHORTEST_LEASE_MS", "Claim"]

SAFETY_MS = 30 * 24 * 3600 * 1000
"""How long a lock without ``lock_ttl`` stands when nothing else is heard of its message: 30 days. Retries and delays
reach 7 days (``dramatiq.middleware.retries``), and each one counts anew."""

SHORTEST_LEASE_MS = 1000
"""A shorter lease could not be renewed reliably: a third of it is less than a pause of the interpreter."""


class Claim(NamedTuple):
    """What one message asks of the locks.

    Arguments:
        ticket: What travels with the message.
        first: Whether the ticket was settled just now: the message did not carry one.
        lock: The row of its lock type.
        options: Its options, resolved.
        actor_name: Its actor.
        queue_name: Its queue, never a delay queue's name.
        args: Its arguments as JSON where the lock is to keep them, or ``""``.
    """

    ticket: Ticket
    first: bool
    lock: LockType
    options: LockOptions
    actor_name: str
    queue_name: str
    args: str = ""

    def request(self, message: Message[Any] | MessageProxy, broker_id: str) -> Request:
        """Address the store on behalf of the message, where it stands now.

        Arguments:
            message: The message, on whatever queue it is.
            broker_id: The broker's own id of this hop.
        """
        return Request(
            digest=self.ticket.digest,
            message_id=self.ticket.message_id,
            actor_name=self.actor_name,
            queue_name=message.queue_name,
            broker_id=broker_id,
            limit=self.options.lock_limit,
            args=self.args,
        )

    def hold_ms(self, delay_ms: float = 0) -> int:
        """Say how long a queue lock taken now is held.

        Arguments:
            delay_ms: How long the message is delayed; it is added, but never to a window.
        """
        if self.lock.queue is Until.EXPIRY:
            return self.ticket.ttl_ms or SAFETY_MS
        return int(min((self.ticket.ttl_ms or SAFETY_MS) + max(delay_ms, 0), LONGEST_MS))

    def lease_ms(self, lease_ms: int) -> int:
        """Say how long a lease is: the middleware's, or ``lock_ttl`` where that is shorter, but a second at least."""
        return max(min(lease_ms, self.ticket.ttl_ms or lease_ms), SHORTEST_LEASE_MS)

    def ids(self) -> dict[str, str]:
        """Name the message, its actor and its digest, as every line does."""
        return {
            "message_id": self.ticket.message_id,
            "actor_name": self.actor_name,
            "digest": self.ticket.digest,
        }

    def facts(self) -> dict[str, str]:
        """Give the fields that every event has."""
        return self.ids() | {"queue_name": self.queue_name, "lock": self.lock.name}

    @property
    def again(self) -> bool:
        """Whether the message was accepted before: a retry, a delayed one that comes due, one that was put back."""
        return not self.first and not self.ticket.waits

    @property
    def lets_queue_lock_go(self) -> bool:
        """Whether code ever lets its queue lock go."""
        return self.lock.queue in (Until.START, Until.END)
