"""What the store is asked for, and what stands in it."""

from __future__ import annotations

import enum
import os
import random
import socket
from functools import lru_cache
from typing import Any, NamedTuple


__all__ = ["Holder", "Kind", "Lease", "Request", "Storing", "Terms", "in_queue_lock", "new_token"]


_DELIVERY, _TOOK, _KEPT = "-", "+", "="


# Seeded by the operating system, whatever an application makes of Python's own: asking the system anew for each token
# takes several times as long, and a token is no secret.
_chance = random.Random()  # noqa: S311
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def new_token() -> str:
    """Make what an enqueue or a delivery is known by in the locks; unique among those of one message."""
    return f"{_chance.getrandbits(32):08x}"


def in_queue_lock(token: str) -> str:
    """Write the token of a delivery as it stands in the queue lock of its message."""
    return _DELIVERY + token


class Kind(enum.Enum):
    """The two locks of a digest."""

    QUEUE = "queue"
    """Held by a message, from enqueue on."""

    RUN = "run"
    """Held by a delivery, while the actor runs."""


class Request(NamedTuple):
    """Which lock is asked for, by whom.

    Arguments:
        digest: The digest of the lock.
        message_id: The message that asks.
        actor_name: Its actor.
        queue_name: The queue it is on; a delay queue's name while it is delayed.
        broker_id: The broker's own id of this hop (``redis_message_id``), or ``""``.
        limit: How many holders the lock may have.
        args: Its arguments as JSON to keep in the lock, or ``""``.
    """

    digest: str
    message_id: str
    actor_name: str
    queue_name: str
    broker_id: str
    limit: int
    args: str = ""

    def packed(self, order: str) -> str:
        """Write down an order, where the message is, its arguments, and who asks, as ``_holders.lua`` reads them."""
        return f"{order}\n{self.broker_id} {self.queue_name}\n{self.args}\n{_process(os.getpid())} {self.actor_name}"


class Terms(NamedTuple):
    """On what terms a queue lock is asked for.

    Arguments:
        token: The token of this enqueue, by which it is known where the lock has to be given back, and where it is
            asked a second time since the answer was lost: then it is answered as the first time.
        taken_ms: How long it is held from now, in milliseconds, where the message takes it now.
        taken_state: The state of the holder then (:class:`Holder`).
        kept_ms: How long at least from now where the message has it already; a window is never stretched.
        kept_state: The state then; ``""`` leaves it as it is. What runs is left so too, unless ``delivery`` runs it.
        takeover: Whether the place of a waiting holder may be taken.
        delivery: The token of the delivery that enqueues its own message, if one does.
    """

    token: str
    taken_ms: int
    taken_state: str
    kept_ms: int
    kept_state: str
    takeover: bool = False
    delivery: str = ""


class Storing(NamedTuple):
    """A message that is about to be stored, as the call of the script by which its broker does that.

    Arguments:
        bodies: The hash in which the message is once it is stored.
        broker_id: Its field there.
        keys: The keys of the call.
        args: The arguments of the call.
    """

    bodies: str
    broker_id: str
    keys: list[Any]
    args: list[Any]


@lru_cache(maxsize=1)
def _process(pid: int) -> str:
    """Name this process; asked with its pid so that a fork does not go by its parent's name."""
    return f"{socket.gethostname()}:{pid}"


class Lease(NamedTuple):
    """A lock that is kept while its message runs.

    Arguments:
        digest: The digest of the lock.
        kind: Which of its two locks.
        message_id: Its holder.
        token: The delivery's token; in a queue lock with a sign before it (:func:`in_queue_lock`).
        lease_ms: How far ahead each renewal moves its deadline.
    """

    digest: str
    kind: Kind
    message_id: str
    token: str
    lease_ms: int


class Holder(NamedTuple):
    """Who has a lock, as it stands in Redis.

    Arguments:
        message_id: The message that holds it.
        actor_name: Its actor.
        queue_name: The queue it is on; a delay queue's name while it is delayed.
        broker_id: The broker's own id of this hop, or ``""``.
        places: Where its message may be, as queue and broker's id: here, or where it was before.
        state: ``"w"`` its message waits, ``"n"`` it is not known to be stored yet, ``"r"`` it runs, ``"v"`` a window
            whose message waits, ``"f"`` a window whose place nobody may take.
        token: The delivery that runs. In a queue lock ``"-"`` before it; until a delivery starts, ``"+"`` and the
            enqueue that took the lock, or ``"="`` and one whose message had it, with what stood there before.
        since_ms: When it took the lock, in milliseconds of the server's clock.
        touched_ms: When it was last seen.
        deadline_ms: Until when it has it.
        process: ``host:pid`` of whoever took it.
        fields: Its fields as they stand, for putting the holder back.
    """

    message_id: str
    actor_name: str
    queue_name: str
    broker_id: str
    places: tuple[tuple[str, str], ...]
    state: str
    token: str
    since_ms: int
    touched_ms: int
    deadline_ms: int
    process: str
    fields: tuple[str, str, str, str, str]

    @property
    def in_queue_lock(self) -> bool:
        """Whether this is a message that holds its queue lock, not a delivery that runs."""
        return self.token.startswith((_DELIVERY, _TOOK, _KEPT))

    @property
    def vouched_for_by_its_message(self) -> bool:
        """Whether this holder should have the lock only as long as its message exists."""
        return self.in_queue_lock and self.state in ("w", "n", "r")

    @classmethod
    def parse(cls, message_id: str, *fields: str) -> Holder:
        """Read the fields that ``_holders.lua`` writes."""
        record, place, before, info, args = fields
        since, touched, deadline, state, token = record.split(" ", 4)
        since_ms = int(since)
        broker_id, _, queue_name = place.partition(" ")
        places = [known.partition(" ") for known in (place, before) if known]
        process, _, actor_name = info.partition(" ")
        return cls(
            message_id=message_id,
            actor_name=actor_name,
            queue_name=queue_name,
            broker_id=broker_id,
            places=tuple((queue, known_as) for known_as, _, queue in places),
            state=state,
            token=token,
            since_ms=since_ms,
            touched_ms=since_ms + int(touched),
            deadline_ms=since_ms + int(deadline),
            process=process,
            fields=(record, place, before, info, args),
        )
