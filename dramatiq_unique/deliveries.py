"""What runs in this process, and who is sending.

The hooks of one delivery come one after the other on one thread (``worker.WorkerThread.process_message``), so what
is known of it is kept there. Two questions need it later. At an ack: did somebody enqueue this very message again
during its delivery (a retry, a reschedule, the job itself)? Then the message goes on, and the ack is not its end. At
an enqueue: is the caller a program that an exception can reach, or Dramatiq itself, which would lose the message?
"""

from __future__ import annotations

import enum
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dramatiq_unique.claim import Claim
from dramatiq_unique.store import Lease, new_token


__all__ = ["Deliveries", "Delivery"]


@dataclass(slots=True, eq=False)
class Delivery:
    """One delivery of one message.

    Arguments:
        message_id: The message.
        began_s: When it began, by :func:`time.monotonic`.
        claim: The locks it asks for, once they are known.
        token: What makes this delivery the owner of its run lock.
        enqueued_as: The tokens of the enqueues of its own message that it made; where none of them stored it, the lock
            that they may have taken goes with the delivery.
        leases: What is renewed while it runs.
        settled: Whether its locks were settled at the start.
        run_held: Whether it has its run lock.
        queue_held: Whether its message has a queue lock that this delivery has to let go.
        requeued: How often its message was enqueued again meanwhile.
        in_body: Whether the actor is running.
        waited_ms: How long it has waited for its run lock, in milliseconds.
    """

    message_id: str
    began_s: float
    claim: Claim | None = None
    token: str = field(default_factory=new_token)
    enqueued_as: list[str] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    settled: bool = False
    run_held: bool = False
    queue_held: bool = False
    requeued: int = 0
    in_body: bool = False
    waited_ms: int = 0


class Caller(enum.Enum):
    """Whose thread this is."""

    PROGRAM = "program"
    DRAMATIQ = "dramatiq"


class _Thread(threading.local):
    caller = Caller.PROGRAM
    acknowledges = False
    delivery: Delivery | None = None
    superseded_id: str | None = None

    def __init__(self) -> None:
        self.requeued: Counter[str] = Counter()


class Deliveries:
    """The deliveries of one process."""

    def __init__(self) -> None:
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._open: dict[str, list[Delivery]] = {}

    def enter_thread(self) -> None:
        """Note that this is a thread of Dramatiq's, a worker's or a consumer's."""
        self._thread.caller, self._thread.acknowledges = Caller.DRAMATIQ, True

    @property
    def sent_by_dramatiq(self) -> bool:
        """Whether an enqueue on this thread now is Dramatiq's own: outside an actor's body, on its threads."""
        delivery = self._thread.delivery
        return self._thread.caller is Caller.DRAMATIQ and not (delivery is not None and delivery.in_body)

    @contextmanager
    def as_dramatiq(self) -> Iterator[None]:
        """Send on behalf of Dramatiq for a while: nobody is there to catch what is raised."""
        before, self._thread.caller = self._thread.caller, Caller.DRAMATIQ
        delivery, self._thread.delivery = self._thread.delivery, None
        try:
            yield
        finally:
            self._thread.caller, self._thread.delivery = before, delivery

    def open(self, message_id: str) -> Delivery:
        """Begin a delivery on this thread; one that was never acknowledged is over."""
        if self._thread.delivery is not None:
            self.close(self._thread.delivery.message_id)
        delivery = Delivery(message_id, time.monotonic())
        self._thread.delivery = delivery
        with self._lock:
            self._open.setdefault(message_id, []).append(delivery)
        return delivery

    def here(self, message_id: str) -> Delivery | None:
        """Find the delivery of a message on this thread."""
        delivery = self._thread.delivery
        return delivery if delivery is not None and delivery.message_id == message_id else None

    def in_body(self, message_id: str) -> bool:
        """Tell whether the actor of a message is running somewhere in this process."""
        with self._lock:
            return any(delivery.in_body for delivery in self._open.get(message_id, ()))

    def body_ended(self) -> None:
        """Note that the actor on this thread is done."""
        if self._thread.delivery is not None:
            self._thread.delivery.in_body = False

    def note_requeued(self, message_id: str) -> None:
        """Note that a message is about to be enqueued again, so that the ack of its delivery is not its end.

        It is noted before the message is stored: afterwards there may be a delivery of it that comes of this very
        enqueue. On another thread than the delivery's (the event loop of an async actor) every delivery is noted.

        Arguments:
            message_id: The message.
        """
        self._count_requeued(message_id, 1)

    def note_not_requeued(self, message_id: str) -> None:
        """Take one such note back: the message was not stored."""
        self._count_requeued(message_id, -1)

    def _count_requeued(self, message_id: str, by: int) -> None:
        here = self.here(message_id)
        if here is not None:
            here.requeued = max(here.requeued + by, 0)
            return
        if self._thread.acknowledges:
            self._thread.requeued[message_id] += by
        if message_id in self._open:
            with self._lock:
                for delivery in self._open.get(message_id, ()):
                    delivery.requeued = max(delivery.requeued + by, 0)

    def note_superseded(self, message_id: str) -> None:
        """Note that a message was found superseded on this thread, and is about to be acknowledged."""
        self._thread.superseded_id = message_id

    def take_superseded(self, message_id: str) -> bool:
        """Tell once whether a message was found superseded on this thread."""
        found = self._thread.superseded_id == message_id
        if found:
            self._thread.superseded_id = None
        return found

    def was_requeued(self, message_id: str) -> bool:
        """Tell whether a message that is about to be acknowledged on this thread was enqueued again."""
        here = self.here(message_id)
        return self._thread.requeued[message_id] > 0 or (here is not None and bool(here.requeued))

    def close(self, message_id: str) -> None:
        """End the delivery of a message on this thread."""
        self._thread.requeued.clear()
        here = self.here(message_id)
        if here is None:
            return
        self._thread.delivery = None
        with self._lock:
            left = [delivery for delivery in self._open[message_id] if delivery is not here]
            if left:
                self._open[message_id] = left
            else:
                del self._open[message_id]
