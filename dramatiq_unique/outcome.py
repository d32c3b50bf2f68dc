"""What the sender learns: ``send`` always returns a message, and these say what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from dramatiq import Message

from dramatiq_unique.ticket import Ticket


__all__ = ["Outcome", "original", "outcome"]

OutcomeAction = Literal["enqueued", "discarded", "rejected", "replaced", "rescheduled"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a message that was sent.

    Arguments:
        action: ``"enqueued"``; ``"discarded"``: refused, not enqueued; ``"rejected"``: in the dead letters;
            ``"replaced"``: enqueued in the place of the message that waited; ``"rescheduled"``: comes back later.
        digest: The digest of its lock; ``None`` for a message without a lock.
        holder_id: The ``message_id`` that was in the way, if one was.
    """

    action: OutcomeAction
    digest: str | None = None
    holder_id: str | None = None


def outcome(message: Message[Any]) -> Outcome:
    """Say what became of a message.

    Arguments:
        message: What ``send``, ``send_with_options`` or ``broker.enqueue`` returned. What was passed to
            ``broker.enqueue`` is not changed and says nothing.

    Returns:
        The outcome; ``"enqueued"`` without a digest for a message that asked for no lock.
    """
    ticket = Ticket.on(message.message_id, message.options)
    if ticket is None:
        return Outcome("enqueued")
    noted = ticket.outcome or {}
    return Outcome(cast("OutcomeAction", noted.get("action", "enqueued")), ticket.digest, noted.get("holder_id"))


def original(message: Message[Any]) -> Message[Any]:
    """Find the message that does the work of this one.

    Arguments:
        message: What ``send`` returned.

    Returns:
        A handle to the holder's message, where this one was refused or rejected because of it. It is good for
        ``get_result(block=True)``, not for sending (the holder's arguments are not known here). Otherwise the
        message itself: one that was rescheduled does its work later.
    """
    ticket = Ticket.on(message.message_id, message.options)
    noted = (ticket and ticket.outcome) or {}
    if "holder_id" not in noted or noted["action"] in ("replaced", "rescheduled"):
        return message
    return Message(
        queue_name=noted.get("holder_queue", message.queue_name),
        actor_name=noted.get("holder_actor", message.actor_name),
        args=(),
        kwargs={},
        options={},
        message_id=noted["holder_id"],
    )
