"""A world: processes, a broker, a lock store and a clock, and everything that may happen to them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any
from unittest.mock import patch

import fakeredis
import redis
from dramatiq import Message
from dramatiq.common import dq_name
from dramatiq.middleware import TimeLimitExceeded

from dramatiq_unique.background import Background
from dramatiq_unique.brokers import REJECTED
from dramatiq_unique.events import Event
from dramatiq_unique.journal import Journal
from tests.interleavings.audit import Audit
from tests.interleavings.clock import Clock
from tests.interleavings.errands import Errand, Verdict
from tests.interleavings.locks import Locks, look, wipe
from tests.interleavings.plan import Plan
from tests.interleavings.post import QUEUE, Letter, Post, adapter
from tests.interleavings.process import LEASE_S, Process
from tests.interleavings.strands import Strand


__all__ = ["Violation", "World"]


BINDS = "dramatiq_unique.binding.adapter_for"
DELAYED = dq_name(QUEUE)
_SERVER = fakeredis.FakeServer()
_QUIET_AFTER = 60
_ROUNDS_MS = 20_000
_UNSTORED_MS = 61_000


class Violation(AssertionError):
    """Something does not hold."""


class World:
    """Everything that a sequence of steps acts on.

    Args:
        plan: What it is made of.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = Clock()
        self.post = Post()
        self.server = _SERVER
        self.outage: str | None = None
        self.audit = Audit(plan, self.clock, self.post, self.doing)
        self.log: list[str] = [repr(plan)]
        self.failed = False  # Whether it was said that something does not hold.
        self.sent_so_far = 0
        self.unsent: list[Message[Any]] = []  # What could not be stored.
        self.processes: list[Process] = []
        self._stack = ExitStack()
        self._stack.enter_context(self.clock.everywhere())
        self._stack.enter_context(patch.object(Background, "start", lambda thread: None))  # Its rounds are steps here.
        self._stack.enter_context(patch.object(Journal, "complain", self._complained))
        self._stack.enter_context(patch(BINDS, adapter(plan.broker)))
        self._stack.enter_context(patch("dramatiq.common.uniform", Random(0).uniform))  # noqa: S311 - a backoff that replays
        logger = logging.getLogger("dramatiq_unique")
        self._stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL + 1)
        wipe(self.server)
        for name in ("web", "worker1", "worker2"):
            self.spawn(name)

    def spawn(self, name: str) -> None:
        """Start a process."""
        self.processes.append(Process(self, name, works=name != "web"))

    def note(self, text: str) -> None:
        """Write a line into the log, which a violation shows."""
        self.log.append(f"{self.clock.passed_ms:>9} ms  {text}")

    def check(self) -> None:
        """Raise what was found to be wrong.

        Raises:
            Violation: Something was.
        """
        if self.audit.faults:
            self.failed = True
            log = "\n".join(self.log)
            raise Violation("\n".join(self.audit.faults) + f"\n\nThe log:\n{log}")

    def locks(self) -> Locks:
        """Look at the locks."""
        return look(self.server)

    def doing(self) -> Iterator[Errand]:
        """Give everything that is under way."""
        for process in self.processes:
            yield from process.doing()

    # What may happen

    def send(
        self, process: Process, thread: str, key: int, *, delay_ms: int | None, stores: bool, budget: int | None
    ) -> None:
        """Send a message."""
        errand = Errand("send", f"{process.name}/{thread}", self.next_id(), stores=stores)
        self.note(f"{errand.thread} sends {errand.message_id}: key={key} delay_ms={delay_ms} stores={stores}")
        message = process.message(errand.message_id, key)
        self._begin(process, thread, errand, lambda: process.send(errand, message, delay_ms), budget)

    def again(self) -> list[Message[Any]]:
        """List what a program may send again: what could not be stored, and the dead letters."""
        return [*self.unsent, *(letter.message for letter in self.post.dead)]

    def send_again(self, process: Process, thread: str, message: Message[Any], budget: int | None) -> None:
        """Send a message again."""
        self.unsent = [other for other in self.unsent if other is not message]
        dead = [letter for letter in self.post.dead if letter.message_id == message.message_id]
        self.post.dead = [letter for letter in self.post.dead if letter not in dead]
        if dead:
            self.audit.repeated.add(message.message_id)
        errand = Errand("send", f"{process.name}/{thread}", message.message_id)
        self.note(f"{errand.thread} sends {errand.message_id} again")
        self._begin(process, thread, errand, lambda: process.send(errand, message, None), budget)

    def due(self) -> list[Letter]:
        """List the delayed letters whose time has come."""
        return [letter for letter in self.post.waiting[DELAYED] if letter.message.options["eta"] <= self.clock.now_ms]

    def move(self, process: Process, letter: Letter, budget: int | None) -> None:
        """Let a delayed message come due in a process."""
        self._deliver(process, "mover", letter, Errand("move", f"{process.name}/mover", letter.message_id), budget)

    def run(self, process: Process, thread: str, letter: Letter, *, skip: str | None, budget: int | None) -> None:
        """Deliver a message to a worker."""
        errand = Errand("run", f"{process.name}/{thread}", letter.message_id, skip=skip)
        errand.marked = REJECTED in letter.message.options
        self._deliver(process, thread, letter, errand, budget)

    def _deliver(self, process: Process, thread: str, letter: Letter, errand: Errand, budget: int | None) -> None:
        self.note(
            f"{errand.thread} gets {letter.message_id} from {letter.queue_name} ({letter.hop}) skip={errand.skip}"
        )
        self.post.fetch(letter, process.name)
        act = process.move if errand.kind == "move" else process.run
        self._begin(process, thread, errand, lambda: act(letter), budget)

    def flush(self, process: Process, budget: int | None) -> None:
        """Flush the queue."""
        self.note(f"{process.name} flushes")
        errand = Errand("flush", f"{process.name}/flusher")
        self._begin(process, "flusher", errand, process.flush, budget)

    def keep(self, process: Process, budget: int | None) -> None:
        """Let a keeper do a round."""
        errand = Errand("keep", f"{process.name}/keeper", listed=process.kept())
        self._begin(process, "keeper", errand, process.keep, budget)

    def paused(self) -> list[tuple[Process, Strand]]:
        """List the threads that wait for a turn."""
        return [
            (process, strand) for process in self.processes for strand in process.strands.values() if not strand.idle
        ]

    def go_on(
        self, process: Process, strand: Strand, verdict: Verdict, budget: int | None, *, interrupt: bool = False
    ) -> None:
        """Give a thread a turn."""
        errand = process.errands[strand]
        if strand.paused_at == "body":
            errand.verdict = verdict
            self.note(f"{strand.name}: the job of {errand.message_id} ends: {verdict}")
        if interrupt:
            self.note(f"{strand.name}: an interrupt lands before {strand.paused_at}")
            errand.interrupted = True
            if errand.outer is not None:
                errand.outer.interrupted = True
            strand.inject = TimeLimitExceeded()
        strand.resume(budget)
        self._after_turn(process, strand)

    def kill(self, process: Process) -> None:
        """Kill a process, and start another one in its place."""
        self.note(f"{process.name} is killed")
        process.alive = False
        for errand in process.doing():
            self.audit.killed(errand)
        for strand in process.strands.values():
            if not strand.idle:
                strand.resume(None)
            strand.end()
        self.audit.owed |= process.owed
        self.audit.traced |= process.to_forget
        self.audit.lost_sends |= process.unheard
        self.processes.remove(process)
        name, _, life = process.name.partition("#")
        self.spawn(f"{name}#{int(life or 1) + 1}")

    def lost_readers(self) -> list[str]:
        """List who has fetched something, the dead included."""
        return [reader for reader, letters in self.post.fetched.items() if letters]

    def redeliver(self, reader: str) -> None:
        """Deliver again what somebody has fetched: it was killed, or has lost its connection or its heartbeat."""
        self.note(f"what {reader} has is delivered again")
        self.audit.redelivered |= {letter.message_id for letter in self.post.fetched[reader]}
        self.audit.repeated |= self.audit.redelivered
        self.post.bring_back(reader)

    def advance(self, ms: int, stalled: Process | None = None) -> None:
        """Let time pass, in which keepers do their rounds, except that of a process that is stopped."""
        self.note(f"{ms} ms pass" + (f", {stalled.name} is stopped" if stalled else ""))
        every_ms = min(LEASE_S, self.plan.ttl_s or LEASE_S) * 1000 // 3
        self._keep_all([process for process in self.processes if process.behind], stalled)
        while ms > 0:
            busy = [process for process in self.processes if process.busy]
            step_ms = min(ms, every_ms) if busy else ms
            self.clock.now_ms += step_ms
            ms -= step_ms
            self._keep_all(busy, stalled)

    def _keep_all(self, busy: list[Process], stalled: Process | None) -> None:
        """Let each keeper that can do its round, and check that nothing was lost where one could do them all."""
        for process in busy:
            was_behind = process.behind
            process.behind = process is stalled or not process.free("keeper") or self.outage is not None
            if process is not stalled and process.free("keeper"):
                self.keep(process, None)
            locks = self.locks()
            for errand in process.doing():
                if errand.in_body:
                    self.audit.kept(errand, locks, excused=was_behind or process.behind)

    def break_store(self, how: str | None) -> None:
        """Let the lock store fail, or recover.

        Args:
            how: ``"down"``: it does nothing; ``"deaf"``: it does what it is told, and its reply is lost;
                ``"stutter"``: it does everything twice, since the driver tries again when a reply was lost; ``None``:
                it works.
        """
        self.note(f"the lock store: {how or 'works'}")
        self.outage = how

    def forget_scripts(self) -> None:
        """Lose the script cache."""
        self.note("the scripts are lost")
        fakeredis.FakeRedis(server=self.server).script_flush()

    # The end

    def settle(self) -> None:
        """Let everything come to its end, and check that nothing is left."""
        self.note("everything comes to its end")
        self.break_store(None)
        for _ in range(_QUIET_AFTER):
            self._finish_all()
            for reader in self.lost_readers():
                self.redeliver(reader)
            for letter in self.due():
                self.move(self.processes[1], letter, None)
                self.check()
            for letter in list(self.post.waiting[QUEUE]):
                self.run(self.processes[1], "worker0", letter, skip=None, budget=None)
                self._finish_all()
                self.check()
            if not any(self.post.letters()) and not any(process.busy for process in self.processes):
                break
            self.advance(_ROUNDS_MS)
            self.check()
        else:
            left = sorted({letter.message_id for letter in self.post.letters()})
            owing = [process.name for process in self.processes if process.busy]
            # A lock that outlives its message is in the way of what is rescheduled, as long as it lives.
            if owing or not self.audit.owed or "reschedule" not in (self.plan.client, self.plan.server or "reschedule"):
                self.audit.wrong(f"it does not come to rest: {left} are in the broker, {owing} keep or owe something")
            self.check()
            return
        self.check()
        self.advance(_UNSTORED_MS)
        self._check_left()
        self.audit.over_for_all()
        self.check()

    def _finish_all(self) -> None:
        while paused := self.paused():
            for process, strand in paused:
                self.go_on(process, strand, "return", None)
            self.check()

    def _check_left(self) -> None:
        locks = self.locks()
        left = {
            (kind, id_)
            for kind, found in (("queue", locks.queue), ("run", locks.run))
            for holders in found.values()
            for id_, record in holders.items()
            if record.deadline_ms > self.clock.now_ms and id_ not in self.audit.owed
        }
        if self.plan.broker == "telling":  # Who comes next takes over.
            unheard = self.audit.lost_sends | self.audit.misplaced
            unheard = unheard.union(*(process.unheard for process in self.processes))
            left = {(kind, id_) for kind, id_ in left if id_ not in unheard}
        if left:
            self.audit.wrong(f"locks are left over: {sorted(left)}")
        traces = {id_ for trace in locks.superseded.values() for id_ in trace} & self.audit.ever_stored
        traces -= self.audit.traced
        if traces:
            self.audit.wrong(f"traces of superseded messages are left over: {sorted(traces)}")
        for process in self.processes:
            on = process.unique._on(process.broker)
            if on.parts.deliveries._open or on.parts.holding._claims:
                self.audit.wrong(
                    f"{process.name} still knows of {on.parts.deliveries._open} and {on.parts.holding._claims}"
                )

    def close(self) -> None:
        """End every thread, and give the clock back."""
        try:
            for process in self.processes:
                process.alive = False
                for strand in process.strands.values():
                    if not strand.idle:
                        strand.resume(None)
                    strand.end()
        finally:
            self._stack.close()

    # Turns

    def _begin(
        self, process: Process, thread: str, errand: Errand, task: Callable[[], object], budget: int | None
    ) -> None:
        strand = process.strand(thread)
        process.errands[strand] = errand
        errand.began_ms = self.clock.now_ms
        strand.begin(task, budget)
        self._after_turn(process, strand)

    def _after_turn(self, process: Process, strand: Strand) -> None:
        self.clock.now_ms += 1
        errand = process.errands[strand]
        if not strand.idle:
            return
        self.audit.over(errand)
        del process.errands[strand]
        if strand.crash is not None:
            if not errand.interrupted:
                self.audit.wrong(f"{strand.name} crashed in a {errand.kind}: {strand.crash!r}")
            strand.end()  # As Dramatiq's thread does.
            process.strands = {name: other for name, other in process.strands.items() if other is not strand}
        if errand.kind == "send":
            self.sent(process, errand)
            if errand.message is not None and errand.error is not None and not errand.stored:
                self.unsent.append(errand.message)
        elif errand.kind in ("run", "move") and not errand.settled:
            self.audit.wrong(f"{errand.message_id} was neither acknowledged nor rejected")
        elif errand.kind == "move" and errand.went_on:
            self.audit.lasts(process, errand, self.locks())

    # What processes tell

    def next_id(self) -> str:
        """Make an id for a message."""
        self.sent_so_far += 1
        return f"m{self.sent_so_far}"

    def call(self, process: Process, errand: Errand, name: str, send: Callable[[], Any]) -> Any:
        """Take a call to the lock store."""
        if name == "SCRIPT LOAD":
            return send()  # A part of the call that finds the script missing.
        if self.outage:
            errand.outages.add(self.outage)
        if self.outage == "down":
            self.note(f"{errand.thread}: {name} fails")
            raise redis.ConnectionError("the lock store is not there")
        before = self.locks()
        try:
            if self.outage == "stutter" and name != "renew all":
                send()
            reply = send()
        finally:
            self.audit.called(process, errand, name, before, self.locks())
        self.note(f"{errand.thread}: {name} for {errand.message_id} gives {reply}")
        if self.outage == "deaf":
            raise redis.ConnectionError("the reply was lost")
        return reply

    def heard(self, process: Process, errand: Errand | None, event: Event) -> None:
        """Hear an event."""
        self.note(f"{process.name}: {event}")
        self.audit.heard(process, errand, event, self.locks())

    def began(self, process: Process, errand: Errand) -> None:
        """Note that a job begins."""
        self.note(f"{errand.thread}: the job of {errand.message_id} begins")
        self.audit.began(errand, self.locks())

    def sent(self, process: Process, errand: Errand) -> None:
        """Note that a send has ended."""
        self.note(f"{errand.thread}: {errand.message_id} is sent: {errand.error or errand.result}")
        self.audit.sent(process, errand, self.locks())

    def stored(self, message_id: str) -> None:
        """Note that a message is in the broker."""
        self.audit.stored(message_id)

    def settled(self, errand: Errand, *, dead: bool) -> None:
        """Note that a message is acknowledged or rejected."""
        self.note(f"{errand.thread}: {errand.message_id} is {'rejected' if dead else 'acknowledged'}")
        self.audit.settled(errand, dead=dead)

    def listed(self, errand: Errand) -> None:
        """Note what is about to be flushed."""
        self.audit.listed |= errand.listed

    def dropped(self, errand: Errand, letters: list[Letter]) -> None:
        """Note what was flushed or withdrawn."""
        if errand.kind == "flush":
            self.audit.flushed(errand, letters)
        else:
            errand.withdrawn |= {letter.message_id for letter in letters}
        for letter in letters:
            self.audit.ends[letter.message_id].append("flushed" if errand.kind == "flush" else "withdrawn")
        self.note(f"{errand.thread}: {[letter.message_id for letter in letters]} dropped")

    def wrong(self, text: str) -> None:
        """Note a fault that somebody else found."""
        self.audit.wrong(text)

    def _complained(self, name: str, error: BaseException | None, **fields: str) -> None:
        self.note(f"complaint: {name} {error!r} {fields}")
        if name != "replaced_message_was_skipped":
            self.audit.wrong(f"{name}: {error!r} {fields}")
