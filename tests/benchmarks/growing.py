"""Growth: the same operations beside few and beside many held locks, and queued messages.

Each size has a server of its own, which fills itself from one lock and one message that were really sent. So all sizes
are there at once, and alternate.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from dramatiq import Message

from dramatiq_unique import UniqueMiddleware, outcome
from tests.benchmarks.counting import counted
from tests.benchmarks.driving import Driver
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.filling import copy_lock, copy_message
from tests.benchmarks.place import Place
from tests.benchmarks.rounds import alternate
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import broker_of, declare, locked_by


__all__ = ["OPERATIONS", "grown_locks", "grown_messages"]

OPERATIONS = ("send", "refuse", "replace", "heal", "release")
COUNTED = 5
BELIEVED_S = 5.2
"""A holder that was seen less than 5 seconds ago is believed to have its message (`dramatiq_unique/orphans.py`)."""


def grown_locks(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure beside so many held locks."""
    yield from _grown("growth-locks", [Field(place, scale, locks=size) for size in scale.locks], scale)


def grown_messages(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure beside so many queued messages."""
    yield from _grown("growth-messages", [Field(place, scale, messages=size) for size in scale.messages], scale)


def _grown(bench: str, fields: list[Field], scale: Scale) -> Iterator[Figure]:
    time.sleep(BELIEVED_S)  # Until those who are to be healed are not believed any more.
    turns = {field.size: field.turn for field in fields}
    times: dict[tuple[int, str], list[float]] = {}

    def noted(size: int) -> Callable[[], float]:
        def turn() -> float:
            took = turns[size](scale.growth_batch)
            for operation, seconds in took.items():
                times.setdefault((size, operation), []).append(seconds)
            return sum(took.values())

        return turn

    alternate({str(size): noted(size) for size in turns}, scale.growth_rounds)
    for operation in OPERATIONS:
        # The first turn of each does not count.
        arms = {str(field.size): times[field.size, operation][1:] for field in fields}
        for field, (_, ratios) in zip(fields, beside(arms, str(fields[0].size)), strict=True):
            yield Figure(bench, operation, field.size, ratios, field.counts(operation))


class Field:
    """A server with so much in it, and the operations there.

    Args:
        place: Where the server is started.
        scale: How much is to be done there.
        locks: How many locks are held.
        messages: How many messages are queued.
    """

    def __init__(self, place: Place, scale: Scale, *, locks: int = 0, messages: int = 0) -> None:
        server = place.server()
        self.size = locks or messages
        self._client: Any = place.client(server)
        self._broker = broker_of(self._client)
        self._broker.add_middleware(UniqueMiddleware())
        same = {"lock": "until_executing", "lock_args": ["number"], "unique_across_actors": True}
        self._actor = declare(self._broker, same)
        self._replacing = declare(self._broker, same | {"on_conflict": "replace"}, "replacing")
        self._driver = Driver(self._client)
        self._numbers = itertools.count()
        self._sent: list[Message[Any]] = []
        # Those who are healed are locked already and their messages are gone: again and again the same job is sent.
        orphans = (scale.growth_rounds + 1) * scale.growth_batch + COUNTED + 1
        self._orphans = iter([self._actor.send(-number).args[0] for number in range(1, orphans + 1)])
        first = self._actor.send(next(self._numbers))
        held = orphans + 1
        copy_lock(self._client, locked_by(first), max(0, locks - held))
        copy_message(self._client, self._broker, first, messages)
        self._queued = messages
        self._clear()

    def turn(self, times: int) -> dict[str, float]:
        """Do each operation so many times, and say how long one took, in seconds."""
        took = {operation: self._timed(operation, times) for operation in OPERATIONS}
        self._clear()
        return took

    def counts(self, operation: str) -> dict[str, float]:
        """Count what one operation asks of Redis."""
        jobs: list[int] = []
        if operation != "heal":
            jobs = [next(self._numbers) for _ in range(COUNTED + 1)]
        if operation in ("refuse", "replace", "release"):
            self._sent = [self._actor.send(job) for job in jobs]
        carry_out = self._operation(operation, jobs)
        counts = counted(self._client, carry_out, COUNTED)
        for message in self._sent if operation in ("send", "refuse", "replace") else ():
            self._driver.let_go(locked_by(message), message.message_id)
        self._clear()
        return counts

    def _timed(self, operation: str, times: int) -> float:
        if operation == "send":
            self._jobs = [next(self._numbers) for _ in range(times)]
        carry_out = self._operation(operation, self._jobs)
        began = time.perf_counter()
        for number in range(times):
            carry_out(number)
        return (time.perf_counter() - began) / times

    def _operation(self, operation: str, jobs: list[int]) -> Callable[[int], None]:
        """Prepare an operation on jobs by their place; what was sent is kept, to be replaced and let go after it."""
        if operation in ("send", "replace"):
            actor, self._sent = self._actor if operation == "send" else self._replacing, []
            return lambda place: self._sent.append(actor.send(jobs[place]))
        if operation == "refuse":
            return lambda place: _expect("discarded", self._actor.send(jobs[place]))
        if operation == "heal":
            return lambda _: _expect("enqueued", self._actor.send(next(self._orphans)))
        owned = [(locked_by(message), message.message_id) for message in self._sent]
        return lambda place: self._driver.let_go(*owned[place])

    def _clear(self) -> None:
        """Take what was queued here out of the queue again: it is at its end."""
        queue = f"{self._broker.namespace}:default"
        more = self._client.llen(queue) - self._queued
        if more > 0:
            self._client.hdel(f"{queue}.msgs", *self._client.rpop(queue, more))


def _expect(action: str, message: Message[Any]) -> None:
    if outcome(message).action != action:
        raise AssertionError(f"{outcome(message).action}, not {action}")
