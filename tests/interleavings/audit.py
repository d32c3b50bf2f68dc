"""What must hold, checked while it happens: at each call of the lock store, each event, each ack, each end.

The audit knows which thread acts on behalf of which message, and looks at the locks in Redis past the package before
and after each call. So it needs no model of the scripts: a lock that goes must have been let go by its owner, or have
been taken from a message that waits (``replace``) or is gone (an orphan), and nothing else.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from dramatiq_unique import DuplicateMessage, LockStoreUnavailable, outcome
from dramatiq_unique.events import Event
from dramatiq_unique.ticket import Ticket
from tests.interleavings.clock import Clock
from tests.interleavings.errands import Errand
from tests.interleavings.locks import Locks, Record
from tests.interleavings.plan import Plan
from tests.interleavings.post import Letter, Post
from tests.interleavings.process import LEASE_S, Process


__all__ = ["AT_START", "Audit"]

AT_START = ("until_executing", "until_and_while_executing")
"""The lock types whose queue lock goes at the start."""

RUNS = ("while_executing", "until_and_while_executing")
"""Those that have a run lock."""

_BELIEVED_MS = 5000
_LONG_MS = 24 * 3600 * 1000


class Audit:
    """Finds what is wrong.

    Args:
        plan: What the world is made of.
        clock: Its clock.
        post: Its broker.
        doing: Gives everything that is under way.
    """

    def __init__(self, plan: Plan, clock: Clock, post: Post, doing: Callable[[], Iterable[Errand]]) -> None:
        self.plan = plan
        self.clock = clock
        self.post = post
        self.doing = doing
        self.faults: list[str] = []
        self.running: list[Errand] = []
        """The deliveries that have taken a run lock."""
        self.working: list[Errand] = []
        """The deliveries whose job runs."""
        self.owed: set[str] = set()
        """Messages whose lock a process owed to let go of when it was killed."""
        self.traced: set[str] = set()
        """Messages that a process would have forgotten, had it not been killed."""
        self.misplaced: set[str] = set()
        """Messages that were about to be put elsewhere when the process was killed: their lock says that they were."""
        self.in_flight: dict[str, Errand] = {}
        """Messages whose lock says that they were put elsewhere, and who is about to do that."""
        self.lost_sends: set[str] = set()
        """Messages whose sender was killed, or heard of an error although Redis had done its part."""
        self.unlocked: set[str] = set()
        """Messages that went on without a lock, as far as anybody knows."""
        self.ever_stored: set[str] = set()
        self.ends: defaultdict[str, list[str]] = defaultdict(list)
        """What became of each message in the end, as often as it did."""
        self.redelivered: set[str] = set()
        """Messages that the broker delivered again, perhaps beside the delivery that it believed lost."""
        self.listed: set[str] = set()
        """Messages that a flush was about to drop."""
        self.repeated: set[str] = set()
        """Messages that the broker delivered again, or that an ``Interrupt`` met: they may end more than once."""

    def wrong(self, text: str) -> None:
        """Note a fault."""
        self.faults.append(text)

    # At each call of the lock store

    def called(self, process: Process, errand: Errand, name: str, before: Locks, after: Locks) -> None:
        """Check what one call has changed."""
        if name == "acquire":
            self.in_flight[errand.message_id] = errand
        errand.call = name
        errand.met.update(_ids(before), _ids(after))
        for key in after.lasting:
            self.wrong(f"{key} has no expiry")
        for old, new, change in ((before.queue, after.queue, self._queue), (before.run, after.run, self._run)):
            for digest in old.keys() | new.keys():
                was, now = self._alive(old.get(digest, {})), self._alive(new.get(digest, {}))
                if len(now) > self.plan.limit:
                    self.wrong(f"{len(now)} holders of one lock: {sorted(now)}")
                if was != now:
                    change(process, errand, was, now)

    def _alive(self, holders: Mapping[str, Record]) -> dict[str, Record]:
        return {id_: record for id_, record in holders.items() if record.deadline_ms > self.clock.now_ms}

    def _queue(self, process: Process, errand: Errand, was: dict[str, Record], now: dict[str, Record]) -> None:
        mine = errand.message_id
        for id_ in was.keys() - now.keys():
            if not self._may_go(process, errand, id_, was[id_], now):
                self.wrong(f"{errand.thread} let go of the queue lock of {id_} in the {errand.kind} of {mine}")
            # One that runs unlocked, since its owner said so, has not heard of the other.
            shared = self.plan.lock not in AT_START  # There a delivery that runs has none; what goes is what it sent.
            if shared and errand in self.working and not errand.unlocked and self._runs(id_, since=errand):
                self.wrong(f"{errand.thread} let go of the queue lock of {id_}, of which a later delivery runs")
            for other in self.working:
                if other.message_id == id_:  # Another delivery of the message has ended; the lock is the message's.
                    other.keeps.discard("queue")
        for id_ in now.keys() - was.keys():
            restored = errand.call == "restore" and id_ in errand.replaced and mine not in now
            if id_ != mine and not restored and not (errand.kind == "keep" and process.owed | process.unheard):
                self.wrong(f"{errand.thread} took a queue lock for {id_} in the {errand.kind} of {mine}")
        for id_ in was.keys() & now.keys():
            self._stays(process, errand, id_, was[id_], now[id_])

    def _may_go(self, process: Process, errand: Errand, id_: str, record: Record, now: Mapping[str, Record]) -> bool:
        if errand.kind == "keep":
            waits = any(_is_for(record, letter) for letters in self.post.waiting.values() for letter in letters)
            if waits and id_ not in self.redelivered | self.listed | self.unlocked:
                self.wrong(f"{errand.thread} let go later of the queue lock of {id_}, which waits")
            return id_ in process.owed | process.unheard
        if errand.kind == "flush":
            return id_ in errand.listed
        if id_ == errand.message_id:
            return self._may_let_go(errand)
        if errand.message_id in now and self.plan.client == "replace" and record.state in "wnv":
            errand.replaced.add(id_)
            if self.plan.lock not in AT_START and self._runs(id_):
                self.wrong(f"{errand.message_id} took the place of {id_}, which runs")
            if not self._is_stored(id_):
                self.traced.add(id_)  # A window whose message was skipped or rejected by others: it never comes up.
            return True
        return self._may_be_reclaimed(id_, record)

    def _may_be_reclaimed(self, id_: str, record: Record) -> bool:
        if self.plan.broker != "telling" or record.state not in "wnr":
            return False
        believed_ms = max(_BELIEVED_MS, LEASE_S * 1000) if record.state == "r" else _BELIEVED_MS
        if self.clock.now_ms - record.touched_ms < believed_ms:
            return False
        elsewhere = id_ in self.misplaced or id_ in self.in_flight or id_ in self.unlocked
        return elsewhere or not self._is_stored(id_)

    def _runs(self, message_id: str, *, since: Errand | None = None) -> bool:
        """Tell whether a job of a message runs under its queue lock, one that began since another or any."""
        later = self.working[self.working.index(since) + 1 :] if since is not None else self.working
        held = [other for other in later if other.in_body and not other.unlocked and not other.overtaken]
        return message_id in {other.message_id for other in held}

    def _is_stored(self, message_id: str) -> bool:
        return any(letter.message_id == message_id for letter in self.post.letters())

    def _may_let_go(self, errand: Errand) -> bool:
        """Tell whether the time has come that a message lets its own queue lock go."""
        if errand.kind == "send":
            return errand.error is None and errand.result is None  # It gives back what it took.
        if errand.kind == "move" or self.plan.lock == "until_expired":
            return False
        if errand.call == "restore":  # It was not stored after all.
            return not errand.went_on
        if self.plan.lock in AT_START and errand.call == "begin":
            return True
        return not errand.went_on and (errand.ran == "returned" or errand.skipped or errand.settling)

    def _stays(self, process: Process, errand: Errand, id_: str, was: Record, now: Record) -> None:
        if was == now:
            return
        if errand.call == "begin":  # The lock is that of the delivery that started last.
            for other in self.working:
                other.overtaken |= other is not errand and other.message_id == id_
        if self.plan.lock == "until_expired" and self.plan.ttl_s and now.deadline_ms > was.deadline_ms:
            grown_ms = now.deadline_ms - now.since_ms - self.plan.ttl_s * 1000
            if grown_ms > self.clock.now_ms - errand.began_ms:  # What passed on the way cannot be known.
                self.wrong(f"the window of {id_} was stretched by {grown_ms} ms")
        if now.deadline_ms < was.deadline_ms:
            self.wrong(f"the lock of {id_} was cut short")
        asked_after = (was.deadline_ms, was.state) == (now.deadline_ms, now.state) and self.plan.broker == "telling"
        kept = errand.kind == "keep" and id_ in process.owed | process.unheard | errand.listed
        if id_ != errand.message_id and not asked_after and not kept:
            self.wrong(f"{errand.thread} changed the queue lock of {id_} in the {errand.kind} of {errand.message_id}")

    def _run(self, process: Process, errand: Errand, was: dict[str, Record], now: dict[str, Record]) -> None:
        for id_ in was.keys() | now.keys():
            old, new = was.get(id_), now.get(id_)
            if old == new:
                continue
            if old is not None and (new is None or new.token != old.token):
                owed = errand.kind == "keep" and old.token in process.tokens and id_ in process.owed
                if not owed and old.token not in errand.tokens:
                    self.wrong(f"{errand.thread} let go of the run lock of another delivery, of {id_}")
            if new is not None and (old is None or new.token != old.token):
                if errand.kind != "run" or id_ != errand.message_id:
                    self.wrong(f"{errand.thread} took a run lock for {id_} in the {errand.kind} of {errand.message_id}")
                errand.tokens.add(new.token)
                process.tokens.add(new.token)
            elif new is not None and old is not None:
                for other in self.running:
                    if new.token in other.tokens:
                        other.lease_until_ms = max(other.lease_until_ms, new.deadline_ms)

    # At each event

    def heard(self, process: Process, errand: Errand | None, event: Event, locks: Locks) -> None:
        """Check what is told against what stands in Redis."""
        if errand is None:
            self.wrong(f"{event.name} told by nobody")
            return
        errand.told.append(event)
        errand.digest = event.digest
        check = getattr(self, f"_{event.name}", None)
        if check is not None:
            check(process, errand, event, locks)
        holder_id = getattr(event, "holder_id", None)
        strategy = getattr(event, "strategy", "")
        if holder_id is not None and event.name != "reclaimed" and strategy != "replacement":
            again = strategy == "redelivery"
            record = locks.alive("run", event.message_id, self.clock.now_ms)
            if (holder_id == event.message_id) != again or (again and record and record.token in errand.tokens):
                self.wrong(f"{event.name}: {event.message_id} is in its own way")
            if holder_id not in errand.met:
                self.wrong(f"{event.name}: {event.message_id} says that {holder_id} is in its way, who was not there")

    def _locked(self, process: Process, errand: Errand, event: Event, locks: Locks) -> None:
        kind = getattr(event, "kind", "")
        record = locks.alive(kind, event.message_id, self.clock.now_ms)
        if record is None:
            self.wrong(f"locked: {event.message_id} has no {kind} lock")
        elif kind == "run":
            others = {
                other.message_id
                for other in self.running
                if other is not errand
                and other.ran is None
                and not (other.skipped or other.settling)
                and other.digest == event.digest
                and other.lease_until_ms > self.clock.now_ms
            }
            if len(others) >= self.plan.limit:
                self.wrong(f"{event.message_id} runs while {sorted(others)} run, whose leases live")
            errand.lease_until_ms = record.deadline_ms
            self.running.append(errand)

    def _released(self, process: Process, errand: Errand, event: Event, locks: Locks) -> None:
        kind = getattr(event, "kind", "")
        record = locks.alive(kind, event.message_id, self.clock.now_ms)
        if record is not None and (kind == "queue" or record.token in errand.tokens):
            self.wrong(f"released: {event.message_id} still has its {kind} lock")

    def _reclaimed(self, process: Process, errand: Errand, event: Event, locks: Locks) -> None:
        errand.replaced.discard(getattr(event, "holder_id", ""))  # It went as an orphan.

    def _superseded(self, process: Process, errand: Errand, event: Event, locks: Locks) -> None:
        by_id = getattr(event, "by_id", "")
        if by_id not in self.ever_stored:
            self.wrong(f"superseded: {event.message_id} gives way to {by_id}, which was never stored")

    def _store_error(self, process: Process, errand: Errand, event: Event, locks: Locks) -> None:
        if not errand.outages:
            self.wrong(f"store_error without an outage: {event}")
        if getattr(event, "operation", "") == "release":
            process.owed.add(event.message_id)
            process.to_forget |= {event.message_id, *errand.withdrawn}
        if getattr(event, "consequence", "") == "unlocked":
            # It goes on, and nobody knows whether it was replaced, or has its lock although the reply was lost.
            self.traced.add(event.message_id)
            self.unlocked.add(event.message_id)
        elif getattr(event, "operation", "") == "enqueue":
            process.unheard.add(event.message_id)  # Redis may have done its part, and the keeper will give it back.

    # While a job runs

    def began(self, errand: Errand, locks: Locks) -> None:
        """Check what a job that begins to run holds."""
        self.working.append(errand)
        unlocked = errand.unlocked
        for kind, needed in (("run", self.plan.lock in RUNS), ("queue", self.plan.lock == "until_executed")):
            if needed and not unlocked:
                errand.keeps.add(kind)
        if self.plan.lock in AT_START and locks.alive("queue", errand.message_id, self.clock.now_ms) and not unlocked:
            self.wrong(f"{errand.message_id} runs and has its queue lock still")
        for trace in locks.superseded.values():
            if trace.get(errand.message_id, "").startswith("0 ") and not unlocked:
                self.wrong(f"{errand.message_id} runs, whose place was taken: {trace[errand.message_id]}")
        self.kept(errand, locks, excused=False)

    def kept(self, errand: Errand, locks: Locks, *, excused: bool) -> None:
        """Check that a job that runs still has its locks.

        Args:
            errand: The delivery.
            locks: The locks now.
            excused: Whether nobody could keep them: then it need not have them from now on.
        """
        for kind in sorted(errand.keeps):
            if locks.alive(kind, errand.message_id, self.clock.now_ms) is None:
                errand.keeps.discard(kind)
                if not excused:
                    self.wrong(f"{errand.message_id} runs without its {kind} lock")

    # At each ack, and at each end

    def settled(self, errand: Errand, *, dead: bool) -> None:
        """Check that a message which is gone from a queue has an outcome, and one only."""
        errand.settled.append("nack" if dead else "ack")
        told = [e for e in errand.heard("superseded", "merged", "refused", "rejected") if not self._goes_on(e)]
        outcomes = {
            "ran": errand.ran == "returned",
            "enqueued again": errand.went_on and not errand.heard("rejected"),
            "skipped by another": errand.skipped,
        } | {f"{e.name}": True for e in told}
        failed = errand.ran in ("raised", "thrown") or errand.skipped or errand.marked or self._failed_at_start(errand)
        named = {name for name, so in outcomes.items() if so}
        if errand.verdict == "again" and len(named) > 1:
            named.discard("ran")  # What became of its own message, that it has sent again, is the outcome.
        if errand.skipped or dead:  # Its place was taken after it was last asked, or nobody asked.
            self.traced.add(errand.message_id)
        if not errand.went_on:
            self.ends[errand.message_id] += ["dead-lettered"] if dead else sorted(named)
        if errand.interrupted:  # Dramatiq then tells twice how it ended, or not at all.
            self.repeated.add(errand.message_id)
            self.ends[errand.message_id] += ["interrupted"]
            return
        if dead:
            if not failed and "rejected" not in named:
                self.wrong(f"{errand.message_id} is dead-lettered without a reason ({sorted(named)})")
            return
        if len(named) != 1:
            self.wrong(f"{errand.message_id} is acknowledged in a {errand.kind} with the outcomes {sorted(named)}")
        if "rejected" in named and errand.message_id not in errand.buried and not errand.went_on:
            self.wrong(f"{errand.message_id} is rejected, and not among the dead letters")

    @staticmethod
    def _goes_on(event: Event) -> bool:
        """Tell whether an event is not the end: an error is raised, in a delivery or in the job that sent itself."""
        return event.name == "refused" and getattr(event, "strategy", "") == "raise"

    def _failed_at_start(self, errand: Errand) -> bool:
        return any(map(self._goes_on, errand.heard("refused"))) or any(
            event.operation == "start" and event.consequence == "failed" for event in errand.heard("store_error")
        )

    def stored(self, message_id: str) -> None:
        """Note that a message is in the broker."""
        self.ever_stored.add(message_id)
        errand = self.in_flight.pop(message_id, None)
        if errand is not None and self.clock.now_ms - errand.began_ms >= _BELIEVED_MS:
            self.misplaced.add(message_id)  # Somebody may have found its lock an orphan's before.

    def over(self, errand: Errand) -> None:
        """Note that a thread is done with something."""
        self.in_flight = {id_: other for id_, other in self.in_flight.items() if other is not errand}
        errand.in_body = False
        self.running = [other for other in self.running if other is not errand]
        self.working = [other for other in self.working if other is not errand]

    def killed(self, errand: Errand) -> None:
        """Note what cannot be done any more, since a process is killed."""
        self.over(errand)
        if errand.kind == "send":
            self.lost_sends.add(errand.message_id)
            self.traced |= errand.replaced
        else:
            self.misplaced.add(errand.message_id)
            if not self._is_stored(errand.message_id):  # An earlier delivery has acknowledged it: nobody comes again.
                self.owed.add(errand.message_id)
        if errand.settled:
            self.traced.add(errand.message_id)

    def flushed(self, errand: Errand, dropped: list[Letter]) -> None:
        """Note what a flush has dropped; the lock of what came in between is an orphan's."""
        for letter in dropped:
            self.traced.add(letter.message_id)  # It never comes up, and what remembers it expires by itself.
            if letter.hop not in errand.hops or letter.message_id in self.unlocked:
                self.owed.add(letter.message_id)

    def over_for_all(self) -> None:
        """Check that each message that was accepted has ended, and once."""
        for id_ in sorted(self.ever_stored):
            ends = self.ends[id_]
            if not ends or (len(ends) > 1 and id_ not in self.repeated):
                self.wrong(f"{id_} was accepted and ended {len(ends)} times: {ends}")

    def sent(self, process: Process, errand: Errand, locks: Locks) -> None:
        """Check that what the sender learns is what happened."""
        id_, stored = errand.message_id, errand.stored
        if errand.interrupted:  # It has no answer either; what it took is given back, now or in the background.
            process.unheard.add(id_)
            self.traced |= errand.replaced
            return
        if errand.error is not None:
            self._failed_to_send(process, errand, locks)
            return
        assert errand.result is not None
        action = outcome(errand.result).action
        expected = {
            "enqueued": (1, ()),
            "replaced": (1, ("replaced",)),
            "rescheduled": (1, ("rescheduled",)),
            "discarded": (0, ("refused",)),
            "rejected": (int(self.plan.broker == "unknown"), ("rejected",)),
        }
        times, names = expected[action]
        told = tuple(e.name for e in errand.heard("replaced", "rescheduled", "refused", "rejected"))
        if action == "discarded" and errand.heard("superseded", "merged"):  # Sent again, and another is there now.
            self.traced.add(id_)
            told = ("refused", *told)
        if len(stored) != times or told != names:
            self.wrong(f"{id_} is {action}, was stored {len(stored)} times, and told as {told}")
        if action == "rejected" and self.plan.broker != "unknown" and errand.buried != [id_]:
            self.wrong(f"{id_} is rejected, and not among the dead letters")
        if errand.replaced != {e.replaced_id for e in errand.heard("replaced")} and not errand.outages:
            self.wrong(f"{id_} took the place of {sorted(errand.replaced)} and told of {told}")
        untold = errand.withdrawn - {e.message_id for e in errand.told if e.name == "superseded"}
        if untold:
            self.wrong(f"{sorted(untold)} was withdrawn without a word")
        self.lasts(process, errand, locks)

    def lasts(self, process: Process, errand: Errand, locks: Locks) -> None:
        """Check that the lock of a message that is in the broker now is kept as long as it waits there."""
        id_ = errand.message_id
        record = locks.alive("queue", id_, self.clock.now_ms)
        if any(other.message_id == id_ and other is not errand for other in self.doing()):
            return  # Somebody has taken it on already, and the lock is kept in full once it is stored there.
        unknown = process.owed | process.unheard | self.unlocked
        excused = self.plan.ttl_s or errand.cut_off or errand.interrupted or id_ in unknown
        if record and not excused and record.deadline_ms - self.clock.now_ms < _LONG_MS:
            self.wrong(f"the lock of {id_} is not kept as long as its message")

    def _failed_to_send(self, process: Process, errand: Errand, locks: Locks) -> None:
        id_, error = errand.message_id, errand.error
        if errand.outages:
            process.unheard.add(id_)
        if not errand.stores:
            pass
        elif isinstance(error, DuplicateMessage):
            if self.plan.client != "raise" or not errand.heard("refused"):
                self.wrong(f"{id_} is refused with an error under on_conflict={self.plan.client}")
        elif not isinstance(error, LockStoreUnavailable) or not errand.outages:
            self.wrong(f"{id_} could not be sent: {error!r}")
        elif self.plan.on_store_error == "ignore":
            self.wrong(f"{id_} could not be sent although store errors are ignored: {error!r}")
        if errand.stored:
            self.wrong(f"{id_} was stored, and its sender has the error {error!r}")
        if not errand.outages and locks.alive("queue", id_, self.clock.now_ms):
            self.wrong(f"{id_} was not stored, and its lock not given back")


def _is_for(record: Record, letter: Letter) -> bool:
    """Tell whether a queue lock was left to the enqueue that put a letter there."""
    ticket = Ticket.on(letter.message_id, letter.message.options)
    return ticket is not None and record.enqueued_as in ticket.token.split()


def _ids(locks: Locks) -> Iterator[str]:
    for kind in (locks.queue, locks.run):
        for holders in kind.values():
            yield from holders
