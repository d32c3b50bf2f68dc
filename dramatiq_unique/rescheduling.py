"""A message is put back, to be tried again later: the same message, its retries untouched."""

from __future__ import annotations

from typing import Any

from dramatiq import Broker, Message
from dramatiq.broker import MessageProxy
from dramatiq.common import compute_backoff, current_millis, q_name

from dramatiq_unique import events
from dramatiq_unique.claim import Claim
from dramatiq_unique.claims import stamp
from dramatiq_unique.guard import Guard
from dramatiq_unique.journal import Journal
from dramatiq_unique.strategies import Side
from dramatiq_unique.ticket import Ticket


__all__ = ["Rescheduling", "waiting"]

_LONGEST_BACKOFF = 12
"""A message that is rescheduled again and again comes back at least every 12 ``reschedule_delay``, a minute by
default."""


class Rescheduling:
    """Puts messages back on one broker.

    Arguments:
        broker: The broker.
        guard: Its enqueue, past the locks.
        journal: Where facts are told.
    """

    def __init__(self, broker: Broker, guard: Guard, journal: Journal) -> None:
        self._broker = broker
        self._guard = guard
        self._journal = journal

    def put_back(
        self, side: Side, claim: Claim, message: Message[Any] | MessageProxy, *, strategy: str, holder_id: str
    ) -> None:
        """Send the same message again after ``reschedule_delay``, growing with jitter, its retries untouched.

        Arguments:
            side: Where it is; a delivered message keeps its queue lock, one that is sent does not have it yet.
            claim: What it asks for.
            message: The message.
            strategy: Which strategy says so.
            holder_id: Who is in the way.
        """
        base = claim.options.reschedule_delay
        _, delay_ms = compute_backoff(claim.ticket.rescheduled, factor=base, max_backoff=base * _LONGEST_BACKOFF)
        again = waiting(message)
        stamp(again, claim.ticket.put_back(waits=side == "client"))
        if side == "server" and not self._enqueue_instead(again, message, delay_ms):
            return
        if side == "client":
            # Not before it would have been due anyway: its sender's delay, or a retry's backoff.
            delay_ms = max(delay_ms, int(message.options.get("eta") or 0) - current_millis())
            self._guard.enqueue_passively(again, delay=delay_ms)
        self._tell(claim, side, strategy, holder_id, delay_ms)

    def put_back_for_now(self, claim: Claim, message: MessageProxy, holder_id: str, reason: str, delay_ms: int) -> None:
        """Send a delivered message again that cannot be settled yet, past every lock and whatever its strategy.

        Arguments:
            claim: What it asks for.
            message: The delivered message.
            holder_id: Who is in the way: itself, where an earlier delivery of it may be running yet.
            reason: What is told in the place of a strategy.
            delay_ms: When it is tried again, in milliseconds.
        """
        again = waiting(message)
        stamp(again, claim.ticket.put_back(redelivered=True))
        if self._enqueue_instead(again, message, delay_ms):
            self._tell(claim, "server", reason, holder_id, delay_ms, counts=False)

    def _enqueue_instead(self, again: Message[Any], delivered: Message[Any] | MessageProxy, delay_ms: int) -> bool:
        """Send a delivered message again in its own place; false where something else became of it, and was told."""
        sent = self._broker.enqueue(again, delay=delay_ms)
        ticket = Ticket.on(sent.message_id, sent.options)
        if ticket is not None and ticket.waits:
            return False
        # The result comes with the run: without this, Results stores None for the skip.
        delivered.options["store_results"] = False
        return True

    def _tell(
        self, claim: Claim, side: Side, strategy: str, holder_id: str, delay_ms: int, *, counts: bool = True
    ) -> None:
        self._journal.tell(
            events.Rescheduled(
                **claim.facts(),
                side=side,
                strategy=strategy,
                holder_id=holder_id,
                delay_ms=delay_ms,
                attempt=claim.ticket.rescheduled + counts,
            )
        )


def waiting(message: Message[Any] | MessageProxy) -> Message[Any]:
    """Copy a message as it was before it was delayed: on its own queue, without ``eta``."""
    copy: Message[Any] = message.copy(queue_name=q_name(message.queue_name))
    copy.options.pop("eta", None)
    return copy
