"""The machine: a Hypothesis state machine whose rules are the steps of a :class:`~tests.interleavings.world.World`.

A sequence that fails is printed as a program. It replays as it stands, without Hypothesis, below this line::

    from tests.interleavings.machine import Interleavings, Plan
"""

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.interleavings.plan import Plan
from tests.interleavings.post import QUEUE
from tests.interleavings.process import Process
from tests.interleavings.strands import Strand
from tests.interleavings.world import World


__all__ = ["Interleavings", "Plan", "run_sequences"]

MESSAGES = 6
STEPS = 40

some = st.integers(0, 5)
turns = st.sampled_from([None, 0, 1, 2, 3])


def plans(lock: str) -> st.SearchStrategy[Plan]:
    """Every plan for one lock type."""
    return st.builds(
        Plan,
        lock=st.just(lock),
        client=st.sampled_from([None, "replace", "log", "raise", "reject", "reschedule"]),
        server=st.sampled_from([None, "log", "raise", "reject", "reschedule"]),
        limit=st.sampled_from([1, 1, 2]),
        ttl_s=st.just(20) if lock == "until_expired" else st.sampled_from([None, None, 20]),
        broker=st.sampled_from(["silent", "telling", "unknown"]),
        first=st.booleans(),
        reschedule_limit=st.sampled_from([None, 2]),
        on_store_error=st.sampled_from(["raise", "raise", "ignore"]),
    )


class Interleavings(RuleBasedStateMachine):
    """One sequence of steps in one world.

    Each step checks what it has come to, so that a printed sequence fails where it failed when it was found.
    """

    sequences = 0  # How many there were so far, counted for each machine.
    world: World | None = None

    @property
    def here(self) -> World:
        """The world."""
        assert self.world is not None
        return self.world

    def begin(self, plan: Plan) -> None:
        """Make a world."""
        type(self).sequences += 1
        self.world = World(plan)

    def _process(self, n: int) -> Process:
        return self.here.processes[n % len(self.here.processes)]

    def _free(self, n: int, *names: str) -> tuple[Process, str] | None:
        """Choose a free thread."""
        free = [
            (process, name)
            for process in self.here.processes
            for name in names
            if process.free(name) and (process.works or name in ("sender0", "sender1", "flusher", "keeper"))
        ]
        return free[n % len(free)] if free else None

    @precondition(lambda self: self.here.sent_so_far < MESSAGES)
    @rule(
        who=some,
        key=st.sampled_from([0, 0, 0, 1]),
        delay_ms=st.sampled_from([None, None, 0, 1500, 15_000]),
        stores=st.sampled_from([True, True, True, False]),
        turn=turns,
    )
    def send(self, who: int, key: int, delay_ms: int | None, stores: bool, turn: int | None) -> None:
        """Send a message."""
        if chosen := self._free(who, "sender0", "sender1"):
            self.here.send(*chosen, key, delay_ms=delay_ms, stores=stores, budget=turn)
        self.here.check()

    @precondition(lambda self: self.here.again())
    @rule(who=some, which=some, turn=turns)
    def send_again(self, who: int, which: int, turn: int | None) -> None:
        """Send a message again that could not be stored, or that is a dead letter."""
        messages = self.here.again()
        if chosen := self._free(who, "sender0", "sender1"):
            self.here.send_again(*chosen, messages[which % len(messages)], turn)
        self.here.check()

    @precondition(lambda self: self.here.post.waiting[QUEUE] or self.here.due())
    @rule(who=some, which=some, skip=st.sampled_from([None] * 9 + ["skip", "fail"]), turn=turns)
    def deliver(self, who: int, which: int, skip: str | None, turn: int | None) -> None:
        """Deliver a message to a worker, or let a delayed one come due."""
        letters = [*self.here.post.waiting[QUEUE], *self.here.due()]
        letter = letters[which % len(letters)]
        if letter.queue_name == QUEUE:
            if chosen := self._free(who, "worker0", "worker1"):
                self.here.run(*chosen, letter, skip=skip, budget=turn)
        elif chosen := self._free(who, "mover"):
            self.here.move(chosen[0], letter, turn)
        self.here.check()

    def _paused(self, which: int) -> tuple[Process, Strand]:
        paused = self.here.paused()
        return paused[which % len(paused)]

    @precondition(lambda self: self.here.paused())
    @rule(which=some, verdict=st.sampled_from(["return", "fail", "throw", "again", "send"]), turn=turns)
    def go_on(self, which: int, verdict: str, turn: int | None) -> None:
        """Give a waiting thread a turn."""
        self.here.go_on(*self._paused(which), verdict, turn)
        self.here.check()

    @rule(ms=st.sampled_from([100, 1000, 2500, 5500, 10_000, 25_000, 70_000]), stalled=st.sampled_from([None, 0, 1, 2]))
    def advance(self, ms: int, stalled: int | None) -> None:
        """Let time pass."""
        self.here.advance(ms, None if stalled is None else self._process(stalled))
        self.here.check()

    @rule(
        what=st.sampled_from(
            ["redeliver", "kill", "keep", "interrupt", "down", "deaf", "stutter", "works", "forget", "flush"]
        ),
        which=some,
        turn=turns,
    )
    def trouble(self, what: str, which: int, turn: int | None) -> None:
        """Let something happen that is nobody's wish."""
        here = self.here
        if what == "redeliver" and (readers := here.lost_readers()):
            here.redeliver(readers[which % len(readers)])
        elif what == "kill" and here.paused():
            here.kill(self._paused(which)[0])
        elif what == "keep" and (chosen := self._free(which, "keeper")):
            here.keep(chosen[0], turn)
        elif what == "interrupt" and here.paused():
            process, strand = self._paused(which)
            errand = process.errands[strand]
            if (errand.outer or errand).kind == "run" and not errand.settling:
                here.go_on(process, strand, "return", turn, interrupt=True)
        elif what in ("down", "deaf", "stutter"):
            here.break_store(what)
        elif what == "works" and here.outage:
            here.break_store(None)
        elif what == "forget":
            here.forget_scripts()
        elif what == "flush" and here.plan.broker != "unknown" and (chosen := self._free(which, "flusher")):
            here.flush(chosen[0], turn)
        here.check()

    def teardown(self) -> None:
        """Let everything come to its end."""
        if self.world is None:
            return
        try:
            if not self.world.failed:
                self.world.settle()
        finally:
            self.world.close()


def machine(lock: str) -> type[Interleavings]:
    """Make the machine of a lock type; what it prints names the class that can be imported."""
    begin = initialize(plan=plans(lock))(Interleavings.begin)
    return type("Interleavings", (Interleavings,), {"begin": begin})


def run_sequences(lock: str, number: int, seed_: int, *, shrink: bool = True) -> int:
    """Run sequences of one lock type.

    Args:
        lock: The lock type.
        number: How many.
        seed_: The same seed gives the same sequences, with the same Hypothesis.
        shrink: Whether to look for a short sequence where one fails; that takes minutes.

    Returns:
        How many were run.

    Raises:
        Violation: Something did not hold.
    """
    how = settings(
        max_examples=number,
        stateful_step_count=STEPS,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,  # The printed program does the same, and can be read.
        suppress_health_check=list(HealthCheck),
    )
    made = seed(seed_)(machine(lock))
    run_state_machine_as_test(made, settings=how)
    return made.sequences
