"""What `explain` foretells is what then happens."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dramatiq
import pytest

from dramatiq_unique import DuplicateMessage, InvalidLockOptions, LockType, UniqueError, UniqueMiddleware, outcome
from dramatiq_unique.lock_types import Until
from dramatiq_unique.locks import Explanation
from dramatiq_unique.strategies import Action, Conflict
from tests.rig import Gate, Rig, eventually


LONG_AGO_MS = 40_000

LOCKS = [
    "until_executing",
    "until_executed",
    "until_expired",
    "while_executing",
    "until_and_while_executing",
    "until_executed_alone",
]
STRATEGIES: list[Any] = [
    None,
    "log",
    "raise",
    "reject",
    "replace",
    "reschedule",
    "own_replace",
    "own_rescheduling",
    "own_failing",
    {"client": "reject", "server": "log"},
    {"client": "reschedule", "server": "raise"},
]
SITUATIONS = ["free", "waiting", "running", "running-and-waiting", "ended"]


@pytest.fixture
def backend() -> str:
    """The decisions are the same on every broker, except after orphans."""
    return "stub-last"


@pytest.fixture
def rig(rig: Rig) -> Rig:
    """Nothing is renewed while a test lasts; and there is a sixth lock type, and strategies of one's own."""
    rig.use(
        UniqueMiddleware(
            rig.client,
            lease=30,
            lock_types=[LockType("until_executed_alone", queue=Until.END, run=True)],
            strategies={
                "own_replace": lambda conflict: Action.REPLACE,
                "own_rescheduling": lambda conflict: Action.RESCHEDULE,
                "own_failing": _fail,
            },
        )
    )
    return rig


def _fail(conflict: Conflict) -> Action:
    raise ValueError(conflict)


class Working:
    """An actor that stands at a gate, and the means to bring about a situation.

    Args:
        rig: Where it works.
        options: The options of the actor.
    """

    def __init__(self, rig: Rig, **options: Any) -> None:
        self.rig = rig
        self.gate = Gate()
        self.ran: list[int] = []

        def work() -> None:
            self.ran.append(1)
            self.gate.arrive()

        self.actor = rig.actor(work, **{"lock_ttl": 600, "max_retries": 0, **options})

    @contextmanager
    def situation(self, name: str) -> Iterator[None]:
        """Bring it about, and clean it up."""
        if name != "free":
            self.actor.send()
        if name.startswith("running"):
            self.rig.start(threads=1 if name.endswith("waiting") else 4)
            self.gate.wait_for_arrival()
        if name.endswith("and-waiting"):
            with suppress(DuplicateMessage):
                self.actor.send()
        if name == "ended":
            self.gate.open()
            self.rig.drain()
        self.rig.events.clear()
        yield
        self.gate.open(10)
        self.rig.stop()  # Without what is rescheduled until a window is over.


def explained(rig: Rig, actor: Any) -> Explanation:
    """Ask, and see that nothing is changed by it."""
    before = _everything(rig)
    found: Explanation = rig.unique.locks.explain(actor)
    after = _everything(rig)
    assert {key: what for key, (what, _) in after.items()} == {key: what for key, (what, _) in before.items()}
    assert all(0 <= before[key][1] - ttl_ms < 1000 for key, (_, ttl_ms) in after.items())
    assert rig.events == []
    assert str(found) == found.reason
    assert found.reason.endswith(".")
    return found


def _everything(rig: Rig) -> dict[bytes, tuple[bytes, int]]:
    return {key: (rig.redis.dump(key), rig.redis.pttl(key)) for key in rig.redis.scan_iter("dramatiq-unique:*")}


def sent(actor: Any) -> tuple[str, str | None, str | None]:
    """Send, and say what happened: the action, the digest, and who was in the way."""
    try:
        known = outcome(actor.send())
    except DuplicateMessage as error:
        return "raised", error.digest, error.holder_id
    return known.action, known.digest, known.holder_id


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("lock", LOCKS)
def test_it_foretells_what_send_does(rig: Rig, lock: str, strategy: Any, situation: str) -> None:
    """Each lock type, each strategy, and whoever may hold the lock."""
    working = Working(rig, lock=lock, on_conflict=strategy)
    with working.situation(situation):
        foretold = explained(rig, working.actor)
        action, digest, holder_id = sent(working.actor)
        assert (foretold.action, foretold.digest, foretold.orphan) == (action, digest, False)
        assert (foretold.lock, foretold.actor_name, foretold.queue_name) == (lock, "work", "default")
        if action != "enqueued":
            assert foretold.holder is not None
            assert foretold.holder.message_id == holder_id
            assert holder_id in foretold.reason
        elif foretold.at_start == "runs":
            assert foretold.holder is None
        assert (foretold.at_start is None) == (action not in ("enqueued", "replaced"))


@pytest.mark.parametrize("lock", ["while_executing", "until_and_while_executing", "until_executing", "until_expired"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_it_foretells_what_a_worker_does(rig: Rig, lock: str, strategy: Any) -> None:
    """The message comes up while another runs."""
    working = Working(rig, lock=lock, on_conflict=strategy)
    with working.situation("running"):
        foretold = explained(rig, working.actor)
        action, _, _ = sent(working.actor)
        if action == "enqueued":
            eventually(lambda: _at_start(working))
            assert foretold.at_start == _at_start(working)
            if foretold.at_start != "runs":
                assert foretold.holder is not None
                assert foretold.holder.kind == "run"
                assert foretold.holder.state == "running"


def _at_start(working: Working) -> str | None:
    """Say what a worker did with the second message, once it did something."""
    if len(working.ran) > 1:
        return "runs"
    for event in list(working.rig.events):
        if getattr(event, "side", None) == "server":
            if event.name == "refused":
                return "raised" if getattr(event, "strategy", "") == "raise" else "discarded"
            return event.name
    return None


def test_a_worker_waits_as_long_as_lock_timeout_allows(rig: Rig) -> None:
    """It neither runs nor is put back, until the other is done."""
    working = Working(rig, lock="while_executing", lock_timeout=30)
    with working.situation("running"):
        foretold = explained(rig, working.actor)
        assert foretold.at_start == "waits"
        assert sent(working.actor)[0] == "enqueued"
        eventually(lambda: rig.redis.pubsub_channels("dramatiq-unique:*"))
        working.gate.open()
        eventually(lambda: len(working.ran) == 2)
    assert rig.told("rescheduled") == []


@pytest.mark.parametrize("strategy", [None, "replace"])
@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_expired"])
def test_a_lock_with_a_limit_is_full_with_its_last_holder(rig: Rig, lock: str, strategy: str | None) -> None:
    """Three sends, two places."""
    working = Working(rig, lock=lock, lock_limit=2, on_conflict=strategy)
    for _ in range(4):
        foretold = explained(rig, working.actor)
        action, _, holder_id = sent(working.actor)
        assert foretold.action == action
        assert (foretold.holder and foretold.holder.message_id) == holder_id
        rig.events.clear()
    assert "2 holders" in explained(rig, working.actor).reason or strategy == "replace"
    working.gate.open(4)
    rig.drain()


def test_a_limit_on_rescheduling_counts(rig: Rig) -> None:
    """After none at all it is rejected at once."""
    working = Working(rig, lock="until_executed", on_conflict="reschedule", reschedule_limit=0)
    with working.situation("waiting"):
        assert explained(rig, working.actor).action == sent(working.actor)[0] == "rejected"


def test_whose_place_was_taken_is_in_nobodys_way(rig: Rig) -> None:
    """The message that was replaced is remembered, and holds nothing."""
    working = Working(rig, lock="until_executed", on_conflict="replace")
    with working.situation("waiting"):
        newer = working.actor.send()
        rig.events.clear()
        foretold = explained(rig, working.actor)
        assert foretold.action == "replaced"
        assert foretold.holder is not None
        assert foretold.holder.message_id == newer.message_id


def test_an_actor_without_a_lock_is_enqueued(rig: Rig) -> None:
    """There is no digest."""
    actor = rig.actor(lambda: None, actor_name="free")
    foretold = explained(rig, actor)
    assert (foretold.action, foretold.at_start, foretold.digest, foretold.lock) == ("enqueued", "runs", None, None)
    assert "'free' has no lock" in str(foretold)
    assert rig.unique.locks.find(actor) is None


def test_nothing_is_locked_where_it_is_switched_off(rig: Rig) -> None:
    """Whoever holds what, `send` doesn't ask."""
    working = Working(rig, lock="until_executed")
    with working.situation("waiting"):
        rig.unique.enabled = False
        foretold = explained(rig, working.actor)
        assert (foretold.action, foretold.digest) == sent(working.actor)[:2] == ("enqueued", None)
        assert "enabled=False" in str(foretold)
        rig.unique.enabled = True


def test_a_key_that_cannot_be_computed_is_an_error_as_it_is_for_send(rig: Rig) -> None:
    """By `find` too; the argument is not repeated."""

    def by_length(order: Any) -> int:
        return len(order)

    actor = rig.actor(lambda order: None, actor_name="ship", lock="until_executed", lock_args_method=by_length)
    for ask in (rig.unique.locks.explain, rig.unique.locks.find, lambda actor, order: actor.send(order)):
        with pytest.raises(InvalidLockOptions, match=r"actor 'ship': lock_args_method 'by_length' raised TypeError"):
            ask(actor, 4711)


@pytest.mark.parametrize(("args", "fit"), [((1,), True), ((), False), ((1, 2), False)])
@pytest.mark.parametrize("lock", ["until_executed", None])
def test_arguments_that_do_not_fit_are_told(rig: Rig, args: tuple[int, ...], lock: str | None, *, fit: bool) -> None:
    """The lock, where there is one, takes them as they are; the actor would complain."""
    actor = rig.actor(lambda _: None, actor_name="work", lock=lock)
    explained = rig.unique.locks.explain(actor, *args)
    assert explained.action == "enqueued"
    assert ("Its arguments do not fit the actor" in explained.reason) is not fit


def test_what_is_nearly_an_argument_goes_to_the_message(rig: Rig) -> None:
    """A parameter of the actor may be called as one of ours."""
    actor = rig.actor(lambda actor, digest: None, actor_name="play", lock="until_executed")
    message = actor.send(actor="Bob", digest=1)
    found = rig.unique.locks.find(actor, actor="Bob", digest=1)
    assert found is not None
    assert found.digest == outcome(message).digest == rig.unique.locks.explain(actor, actor="Bob", digest=1).digest
    rig.broker.flush_all()


def test_a_key_that_somebody_else_wrote_into_is_named(rig: Rig) -> None:
    """Instead of a guess."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
    digest = rig.unique.locks.explain(actor).digest
    rig.redis.set(f"dramatiq-unique:{{{digest}}}:queue", "hello", ex=60)
    for ask in (rig.unique.locks.explain, rig.unique.locks.find):
        with pytest.raises(UniqueError, match=rf"key 'dramatiq-unique:{{{digest}}}:queue'.* no hash"):
            ask(actor)
    rig.redis.delete(f"dramatiq-unique:{{{digest}}}:queue")


class TestOrphans:
    """The Redis broker is asked whether the message of a holder exists."""

    @pytest.fixture
    def backend(self) -> str:
        """No other broker can say."""
        return "redis-last"

    @pytest.mark.parametrize("age_ms", [0, LONG_AGO_MS], ids=["seen-lately", "long-unseen"])
    @pytest.mark.parametrize("lost", [True, False], ids=["lost", "there"])
    @pytest.mark.parametrize("strategy", [None, "reject", "replace", "own_replace"])
    @pytest.mark.parametrize("lock", ["until_executed", "until_expired", "until_executing"])
    def test_one_is_foretold(self, rig: Rig, *, lock: str, strategy: str | None, lost: bool, age_ms: int) -> None:
        """One that was seen a moment ago is believed; a window is no orphan."""
        working = Working(rig, lock=lock, on_conflict=strategy)
        first = working.actor.send()
        if lost:
            rig.redis.delete("dramatiq:default", "dramatiq:default.msgs")
        rig.not_seen_for(age_ms)
        rig.events.clear()

        foretold = explained(rig, working.actor)

        action = sent(working.actor)[0]
        reclaimed = [event.holder_id for event in rig.told("reclaimed")]
        assert (foretold.action, foretold.orphan) == (action, bool(reclaimed))
        assert foretold.holder is not None
        assert foretold.holder.message_id == first.message_id
        if foretold.orphan:
            assert "no longer in the broker" in str(foretold)
        working.gate.open(2)
        rig.drain()

    def test_a_lock_with_a_lower_limit_than_holders_stays_full(self, rig: Rig) -> None:
        """One orphan less is not enough where the limit was lowered."""
        wide = Working(rig, lock="until_executed", lock_limit=3)
        for _ in range(3):
            wide.actor.send()
        rig.redis.delete("dramatiq:default", "dramatiq:default.msgs")
        rig.not_seen_for(LONG_AGO_MS)
        rig.broker.actors.clear()
        rig.events.clear()
        narrow = Working(rig, lock="until_executed", lock_limit=2)
        foretold = explained(rig, narrow.actor)
        action, _, holder_id = sent(narrow.actor)
        assert (foretold.action, foretold.orphan) == (action, False)
        assert foretold.holder is not None
        assert foretold.holder.message_id == holder_id

    def test_looking_writes_nothing(self, rig: Rig) -> None:
        """By the server's own count of commands, for each kind of look."""
        working = Working(rig, lock="until_executed")
        working.actor.send()
        rig.not_seen_for(LONG_AGO_MS)
        locks = rig.unique.locks
        [seen] = locks.iter()
        rig.redis.config_resetstat()
        locks.explain(working.actor)
        locks.find(working.actor)
        locks.get(seen.digest)
        list(locks.iter("work"))
        stats = {name.removeprefix("cmdstat_").split("|")[0] for name in rig.redis.info("commandstats")}
        assert stats - {"info", "config", "hello", "client"} == {"hgetall", "time", "hexists", "scan"}
        working.gate.open()
        rig.drain()


class TestBrokers:
    """A middleware may be on several brokers."""

    def test_an_actor_is_explained_on_its_own_broker(self, rig: Rig) -> None:
        """Whichever broker was met last."""
        actor = rig.actor(lambda: None, actor_name="work", lock="until_executed")
        first = actor.send()
        other = dramatiq.brokers.stub.StubBroker(middleware=[])
        other.add_middleware(rig.unique)
        dramatiq.actor(lambda: None, actor_name="elsewhere", broker=other)  # type: ignore[call-overload]
        foretold = rig.unique.locks.explain(actor)
        assert foretold.holder is not None
        assert foretold.holder.message_id == first.message_id
        rig.broker.flush_all()

    def test_an_actor_of_another_broker_is_not_guessed_at(self, rig: Rig) -> None:
        """The middleware is not there, so nothing is locked there."""
        rig.actor(lambda: None, actor_name="work", lock="until_executed")
        other = dramatiq.brokers.stub.StubBroker(middleware=[])
        actor = dramatiq.actor(lambda: None, actor_name="elsewhere", broker=other)  # type: ignore[call-overload]
        with pytest.raises(UniqueError, match="actor 'elsewhere' is on another broker"):
            rig.unique.locks.explain(actor)

    def test_there_is_nothing_to_look_at_before_it_is_on_a_broker(self) -> None:
        """Its locks may be wherever the broker is."""
        with pytest.raises(UniqueError, match="add it to a broker first"):
            _ = UniqueMiddleware().locks

    def test_a_function_is_no_actor(self, rig: Rig) -> None:
        """The plain one is not known to any broker."""
        rig.actor(lambda: None, actor_name="work", lock="until_executed")
        for ask in (rig.unique.locks.explain, rig.unique.locks.find):
            with pytest.raises(UniqueError, match="takes an actor and then its arguments, not function"):
                ask(_fail)  # type: ignore[arg-type]
