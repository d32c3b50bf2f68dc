"""What happens to a message whose lock is full.

A strategy is a row too: its name, and for each side the :class:`Action` that follows. A strategy of one's own is a
function from a :class:`Conflict` to an action, registered by name::

    def patient(conflict):
        return Action.RESCHEDULE if conflict.side == "server" else Action.DISCARD

    UniqueMiddleware(strategies={"patient": patient})
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


__all__ = ["SILENCE", "Action", "BuiltIn", "Conflict", "Side", "Strategy", "decide", "strategy_table"]

Side = Literal["client", "server"]


class Action(enum.Enum):
    """What is done with the message that cannot have its lock."""

    DISCARD = "discard"
    """It is not enqueued, or at the worker acknowledged without a run."""

    RAISE = "raise"
    """:class:`~dramatiq_unique.DuplicateMessage` reaches the caller of ``send``, or fails the delivery."""

    REJECT = "reject"
    """It goes to the broker's dead letters."""

    REPLACE = "replace"
    """It takes the place of the message that waits (client only)."""

    RESCHEDULE = "reschedule"
    """It comes back after a delay."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """What a strategy of one's own is told.

    Arguments:
        side: ``"client"`` at enqueue, ``"server"`` at the worker.
        message_id: The message that cannot have its lock.
        actor_name: Its actor.
        queue_name: Its queue.
        digest: The digest of the lock.
        holder_id: The ``message_id`` in the way.
        rescheduled: How often this message was rescheduled before.
    """

    side: Side
    message_id: str
    actor_name: str
    queue_name: str
    digest: str
    holder_id: str
    rescheduled: int


class Strategy(Protocol):
    """A strategy of one's own: any callable of this shape."""

    def __call__(self, conflict: Conflict, /) -> Action:
        """Say what is done with the message.

        Arguments:
            conflict: Which message, which side, and who is in the way.

        Returns:
            The action. ``REPLACE`` on the server side counts as ``RESCHEDULE``.
        """
        ...  # A protocol has no body.


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A strategy of the package: one action for each side, ``None`` where it is not possible."""

    name: str
    client: Action
    server: Action | None
    says_so: bool = False  # Whether discarding is worth a line in the log.

    def __call__(self, conflict: Conflict, /) -> Action:
        """Look the action up."""
        if conflict.side == "client":
            return self.client
        return self.server or Action.RESCHEDULE


SILENCE = BuiltIn("none", client=Action.DISCARD, server=None)
"""What stands where ``on_conflict`` says nothing: refused at enqueue, rescheduled at the worker."""

BUILT_IN: tuple[BuiltIn, ...] = (
    BuiltIn("log", client=Action.DISCARD, server=Action.DISCARD, says_so=True),
    BuiltIn("raise", client=Action.RAISE, server=Action.RAISE),
    BuiltIn("reject", client=Action.REJECT, server=Action.REJECT),
    BuiltIn("replace", client=Action.REPLACE, server=None),
    BuiltIn("reschedule", client=Action.RESCHEDULE, server=Action.RESCHEDULE),
)


def strategy_table(own: Mapping[str, Strategy] | None = None) -> dict[str, Strategy]:
    """Put the built-in strategies and one's own together, by name.

    Arguments:
        own: Strategies to register; a built-in name is replaced by one's own.

    Returns:
        Every strategy that ``on_conflict`` may name.
    """
    return {row.name: row for row in BUILT_IN} | dict(own or {})


def decide(strategy: Strategy, conflict: Conflict) -> Action:
    """Ask a strategy.

    Arguments:
        strategy: Built in, or the user's own.
        conflict: What it is told.

    Returns:
        The action; ``RESCHEDULE`` for ``REPLACE`` at the worker, where nobody's place can be taken.

    Raises:
        TypeError: It returned something else.
        Exception: Whatever a strategy of the user's own raises.
    """
    action = strategy(conflict)
    if not isinstance(action, Action):
        raise TypeError(f"a strategy returns an Action, not {action!r}")
    if conflict.side == "server" and action is Action.REPLACE:
        return Action.RESCHEDULE
    return action
