"""One thing that one thread of a simulated process does, from its beginning to its end."""

from dataclasses import dataclass, field
from typing import Any

from dramatiq import Message

from dramatiq_unique.events import Event


__all__ = ["Errand", "Verdict"]

Verdict = str
"""How a job ends: ``"return"``, ``"fail"``, ``"throw"`` (an error that is not retried), ``"again"`` (it enqueues its
own message, and returns) or ``"send"`` (it sends another message of its digest, and returns)."""


@dataclass(eq=False, slots=True)
class Errand:
    """What a thread does, and what it has come to so far.

    Args:
        kind: ``"send"``, ``"move"`` (a delayed message comes due), ``"run"`` (a delivery to a worker), ``"keep"`` (one
            round of the keeper) or ``"flush"``.
        thread: The process and thread that does it.
        message_id: The message it is about.
        outer: The delivery whose job does it, where one does.
        began_ms: When it began.
        digest: The digest of its message, once something was told of it.
        skip: Whether another middleware is to skip the delivery: ``"skip"``, or ``"fail"`` to dead-letter it.
        skipped: Whether it was.
        marked: Whether its message was rejected at enqueue, and is delivered to be dead-lettered.
        stores: Whether the broker takes what is enqueued.
        call: The call of the lock store that it made last.
        told: The events.
        stored: The id and the queue of each message that was put into the broker.
        buried: The messages that went to the dead letters without a queue.
        settled: ``"ack"`` or ``"nack"``, for each time the delivered message was settled.
        tokens: The run locks that were taken.
        met: The holders that were there when the store was called.
        listed: The messages whose locks a flush has to free, or a keeper to keep.
        hops: The hops of the messages that a flush has found.
        ran: How the job ended, once it has.
        verdict: How the job is to end.
        in_body: Whether the job runs.
        overtaken: Whether a later delivery of its message has started, so that it has no lease any more.
        settling: Whether it has come to the ack or nack, where no ``Interrupt`` lands any more.
        lease_until_ms: Until when the run lock is known to be the delivery's.
        keeps: The locks that must be kept while the job runs: ``"queue"``, ``"run"``.
        outages: The outages of the store that it met.
        interrupted: Whether an ``Interrupt`` landed in it.
        replaced: Whose place was taken.
        withdrawn: Whom it took out of the broker.
        mending: Whether a lost script is being loaded: all part of one call.
        message: What a send sends.
        result: What a send returned.
        error: What a send raised.
    """

    kind: str
    thread: str
    message_id: str = ""
    outer: "Errand | None" = None
    began_ms: int = 0
    digest: str = ""
    skip: str | None = None
    skipped: bool = False
    marked: bool = False
    stores: bool = True
    call: str = ""
    told: list[Event] = field(default_factory=list)
    stored: list[tuple[str, str]] = field(default_factory=list)
    buried: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    hops: set[str] = field(default_factory=set)
    ran: str | None = None
    verdict: Verdict = "return"
    in_body: bool = False
    overtaken: bool = False
    settling: bool = False
    lease_until_ms: int = 0
    keeps: set[str] = field(default_factory=set)
    outages: set[str] = field(default_factory=set)
    interrupted: bool = False
    replaced: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    mending: bool = False
    message: Message[Any] | None = None
    result: Message[Any] | None = None
    error: BaseException | None = None

    def heard(self, *names: str) -> list[Any]:
        """List the events of these names that are about its message."""
        return [event for event in self.told if event.name in names and event.message_id == self.message_id]

    @property
    def cut_off(self) -> bool:
        """Whether the lock store has failed it."""
        return not self.outages.isdisjoint({"down", "deaf"})

    @property
    def unlocked(self) -> bool:
        """Whether it went on without its lock, since the store could not be reached."""
        return any(event.consequence == "unlocked" for event in self.heard("store_error"))

    @property
    def went_on(self) -> bool:
        """Whether its message was put into the broker again."""
        return any(message_id == self.message_id for message_id, _ in self.stored)
