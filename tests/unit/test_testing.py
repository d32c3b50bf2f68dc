"""The helpers for tests of users: what they assert, and what they say where it is not so."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dramatiq
import fakeredis
import pytest
import redis
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import InvalidLockOptions, LockStoreUnavailable, UniqueError, UniqueMiddleware, outcome
from dramatiq_unique.testing import (
    assert_enqueued,
    assert_locked,
    assert_not_locked,
    assert_refused,
    disabled,
    enabled,
    free_everything,
)
from tests.rig import Gate


ROOT = Path(__file__).parents[2]
Declare = Callable[..., Any]


@pytest.fixture
def declare(broker: StubBroker) -> Declare:
    """Declares ``export(tenant)``, with lock options."""

    def export(tenant: str) -> None: ...

    def declare(fn: Callable[..., Any] = export, **options: Any) -> Any:
        return dramatiq.actor(fn, broker=broker, **{"actor_name": "export", "max_retries": 0, **options})  # type: ignore[call-overload]

    return declare


def work(broker: StubBroker) -> None:
    """Do everything that was sent."""
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    broker.join("default", timeout=20_000)
    worker.stop()


class TestDisabled:
    """Uniqueness, off and on in a block."""

    def test_nothing_is_locked_in_the_block(self, unique: UniqueMiddleware, declare: Declare) -> None:
        """Two of a kind are enqueued, and neither has a lock."""
        export = declare(lock="until_executed")

        with disabled(unique):
            assert_enqueued(export.send("acme"))
            assert_enqueued(export.send("acme"))
            assert_not_locked(export, "acme")

        assert_enqueued(export.send("acme"))
        assert_locked(export, "acme")

    def test_blocks_nest(self, unique: UniqueMiddleware) -> None:
        """Each puts back what it found, and not what is usual."""
        with disabled(unique):
            with enabled(unique):
                assert unique.enabled
                with disabled(unique):
                    assert not unique.enabled
                assert unique.enabled
            assert not unique.enabled
            with disabled(unique):
                assert not unique.enabled
            assert not unique.enabled
        assert unique.enabled

    def test_a_block_that_raises_puts_back_too(self, unique: UniqueMiddleware) -> None:
        """What it raises goes on."""
        with pytest.raises(ZeroDivisionError), disabled(unique):
            raise ZeroDivisionError
        assert unique.enabled

        with pytest.raises(ZeroDivisionError), disabled(unique), enabled(unique):
            raise ZeroDivisionError
        assert unique.enabled

    def test_a_middleware_that_is_off_can_be_on_for_a_block(self, memory: "redis.Redis") -> None:
        """A suite about something else has it off, and one test of it is about the locks."""
        unique, broker = UniqueMiddleware(memory, enabled=False), StubBroker()
        broker.add_middleware(unique)
        export = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None)

        with enabled(unique):
            export.send()
            assert_refused(export.send())

        assert not unique.enabled
        assert_enqueued(export.send())

    def test_a_function_can_be_the_block(self, unique: UniqueMiddleware) -> None:
        """A whole test, with one line above it."""

        @disabled(unique)
        def test() -> bool:
            return unique.enabled

        assert test() is False
        assert unique.enabled

    def test_a_function_that_runs_later_cannot_be_the_block(self, unique: UniqueMiddleware) -> None:
        """The block would be over before it begins."""

        async def later() -> None:
            pass

        with pytest.raises(UniqueError, match="runs later: use the block inside of it"):
            disabled(unique)(later)

    @pytest.mark.parametrize("ask", [disabled, enabled, free_everything])
    def test_anything_else_than_the_middleware_is_refused(self, ask: Callable[[Any], object]) -> None:
        """The broker, say."""
        with pytest.raises(UniqueError, match=r"^pass the UniqueMiddleware, not 'broker'$"):
            ask("broker")

    def test_anything_else_than_an_actor_is_refused(self) -> None:
        """Its name, say."""
        for check in (assert_locked, assert_not_locked):
            with pytest.raises(UniqueError, match=r"^pass an actor, not 'welcome'$"):
                check("welcome")  # type: ignore[arg-type]

    @pytest.mark.parametrize("check", [assert_enqueued, assert_refused])
    def test_anything_else_than_a_message_is_refused(self, check: Callable[[Any], None]) -> None:
        """Its digest, say."""
        with pytest.raises(UniqueError, match=r"^pass a message, as send returns it, not 'd9c0'$"):
            check("d9c0")

    def test_what_was_locked_before_is_let_go_in_the_block(
        self, unique: UniqueMiddleware, broker: StubBroker, declare: Declare
    ) -> None:
        """A message takes its lock with it."""
        export = declare(lock="until_executed")
        export.send("acme")

        with disabled(unique):
            assert_locked(export, "acme")
            work(broker)

        assert_not_locked(export, "acme")


class TestAssertLocked:
    """Somebody has a lock that such a message would ask for."""

    def test_a_message_that_waits_has_its_lock(self, declare: Declare) -> None:
        """However its arguments are written; and another one is not meant."""
        export = declare(lock="until_executed")

        export.send("acme")

        assert_locked(export, "acme")
        assert_locked(export, tenant="acme")
        assert_not_locked(export, "globex")

    def test_a_message_that_ran_has_none(self, broker: StubBroker, declare: Declare) -> None:
        """The lock went with the run."""
        export = declare(lock="until_executed")

        export.send("acme")
        work(broker)

        assert_not_locked(export, "acme")

    def test_a_run_lock_is_seen_while_the_actor_runs(self, broker: StubBroker, declare: Declare) -> None:
        """And where it is not expected, it is told as one."""
        gate = Gate()
        export = declare(lambda tenant: gate.arrive(), lock="while_executing")
        sent = export.send("acme")
        assert_not_locked(export, "acme")
        worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
        worker.start()
        gate.wait_for_arrival()

        assert_locked(export, "acme")
        with pytest.raises(AssertionError) as raised:
            assert_not_locked(export, "acme")

        gate.open()
        broker.join("default", timeout=20_000)
        worker.stop()
        holder = rf"  message {sent.message_id} of 'export' holds the run lock since .*, running on queue 'default', by"
        assert re.search(holder, str(raised.value))

    def test_a_client_that_decodes_is_read_too(self) -> None:
        """As applications have it."""
        unique, broker = UniqueMiddleware(fakeredis.FakeRedis(decode_responses=True)), StubBroker()
        broker.add_middleware(unique)
        export = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None)

        export.send()

        assert_locked(export)
        assert free_everything(unique) == 1
        assert_not_locked(export)

    def test_where_nobody_has_it_the_digest_is_named(self, declare: Declare) -> None:
        """Beside the message, as it would have been sent."""
        export = declare(lock="until_executed")
        digest = outcome(export.send("acme")).digest

        with pytest.raises(AssertionError) as raised:
            assert_locked(export, "globex")

        told = re.fullmatch(
            r"export\('globex'\) is not locked: nobody holds until_executed lock (\w{40})", str(raised.value)
        )
        assert told is not None
        assert told[1] != digest

    def test_where_the_middleware_is_off_that_is_said(self, unique: UniqueMiddleware, declare: Declare) -> None:
        """It is why."""
        export = declare(lock="until_executed")

        with disabled(unique):
            export.send("acme")
            with pytest.raises(AssertionError, match=r"; the middleware is switched off$"):
                assert_locked(export, "acme")

    def test_where_enqueueing_locks_nothing_that_is_said(self, declare: Declare) -> None:
        """A usual mistake about this lock type."""
        export = declare(lock="while_executing")
        export.send("acme")

        with pytest.raises(AssertionError, match=r"; while_executing takes its lock when the actor begins to run"):
            assert_locked(export, "acme")

    def test_an_actor_without_a_lock_fails_both(self, declare: Declare) -> None:
        """Otherwise a test would pass for ever after somebody took the option away."""
        export = declare()

        for check in (assert_locked, assert_not_locked):
            with pytest.raises(
                AssertionError, match=r"^export\('acme'\) asks for no lock: actor 'export' has no lock=$"
            ):
                check(export, "acme")

    def test_a_broker_without_the_middleware_is_a_mistake_in_the_test(self) -> None:
        """It is not about the locks any more, so it is no assertion that fails."""
        export = dramatiq.actor(broker=StubBroker(), actor_name="export")(lambda: None)

        for check in (assert_locked, assert_not_locked):
            with pytest.raises(UniqueError, match="actor 'export': there is no UniqueMiddleware on its broker"):
                check(export)

    def test_arguments_that_cannot_be_locked_by_are_told(self, declare: Declare) -> None:
        """As `send` would."""
        export = declare(lock="until_executed")

        with pytest.raises(InvalidLockOptions, match="no canonical form"):
            assert_locked(export, object())


class TestAssertNotLocked:
    """Nobody has."""

    def test_where_somebody_has_it_says_who_since_when_and_where(self, declare: Declare) -> None:
        """One line for each holder."""
        export = declare(lock="until_executed", lock_limit=2)
        sent = [export.send("acme") for _ in range(2)]

        with pytest.raises(AssertionError) as raised:
            assert_not_locked(export, "acme")

        first, *holders = str(raised.value).splitlines()
        assert first == f"export('acme') is locked by until_executed lock {outcome(sent[0]).digest}:"
        assert len(holders) == 2
        told = re.compile(
            r"  message (\S+) of 'export' holds the queue lock since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00) "
            r"and for (\d+\.\d{3}) s more, (waiting|about to be stored) on queue 'default', by \S+:\d+"
        )
        found = [told.fullmatch(holder) for holder in holders]
        assert {match and match[1] for match in found} == {message.message_id for message in sent}

    def test_a_holder_past_its_deadline_holds_nothing(self, memory: Any, declare: Declare) -> None:
        """Its record stays where another one has the lock for longer."""
        export = declare(lock="until_executed")
        digest = outcome(export.send("acme")).digest
        key = f"dramatiq-unique:{{{digest}}}:queue"
        [field] = [field for field in memory.hkeys(key) if field.startswith(b"o:")]
        since, touched, _, rest = memory.hget(key, field).split(b" ", 3)
        memory.hset(key, field, b" ".join([since, touched, b"0", rest]))

        assert_not_locked(export, "acme")


class TestAssertRefused:
    """A message was not let in."""

    @pytest.mark.parametrize(
        ("strategy", "action"), [(None, "discarded"), ("reject", "rejected"), ("reschedule", "rescheduled")]
    )
    def test_each_action_is_its_own(self, strategy: str | None, action: Any, declare: Declare) -> None:
        """The one that is named passes, each other one fails, and says which it was and because of whom."""
        export = declare(lock="until_executed", on_conflict=strategy)
        first, second = export.send("acme"), export.send("acme")

        assert_refused(second, action)
        assert_refused(second, action, by=first)

        others: list[Any] = ["discarded", "rejected", "rescheduled"]
        others.remove(action)
        for other in others:
            with pytest.raises(AssertionError) as raised:
                assert_refused(second, other)
            text = str(raised.value)
            assert text.startswith(f"message {second.message_id} (export('acme')) was not {other} but {action}")
            assert text.endswith(f": message {first.message_id} held lock {outcome(second).digest}")

    def test_discarded_is_what_is_meant_if_nothing_is_said(self, declare: Declare) -> None:
        """As an event and a line call it: refused."""
        export = declare(lock="until_executed", on_conflict="reject")
        export.send("acme")

        with pytest.raises(AssertionError, match=r"was not discarded but rejected \(dead-lettered\)"):
            assert_refused(export.send("acme"))

    def test_who_was_in_the_way_can_be_asked(self, declare: Declare) -> None:
        """Another one fails, and both are named."""
        export = declare(lock="until_executed")
        first, second, other = export.send("acme"), export.send("acme"), export.send("globex")

        with pytest.raises(AssertionError) as raised:
            assert_refused(second, by=other)

        assert f"discarded: message {first.message_id} held lock" in str(raised.value)
        assert str(raised.value).endswith(f", and not by message {other.message_id} (export('globex'))")

    def test_a_message_that_was_enqueued_fails(self, declare: Declare) -> None:
        """With its lock, in the place of another, or without one: it says which."""
        export = declare(lock="until_executed", on_conflict="replace")
        first = export.send("acme")
        second, unlocked = export.send("acme"), export.send_with_options(args=("acme",), lock=None)

        self._fails(first, f"was not discarded but enqueued with lock {outcome(first).digest}")
        digest = outcome(second).digest
        in_place = f"was not discarded but enqueued with lock {digest} in the place of message {first.message_id}"
        self._fails(second, in_place)
        self._fails(unlocked, "was not discarded but enqueued without asking for a lock")

    @staticmethod
    def _fails(message: Message[Any], why: str) -> None:
        with pytest.raises(AssertionError) as raised:
            assert_refused(message)
        assert str(raised.value) == f"message {message.message_id} (export('acme')) {why}"


class TestAssertEnqueued:
    """A message was let in."""

    @pytest.mark.parametrize("strategy", [None, "reject", "reschedule"])
    def test_one_that_was_not_fails(self, strategy: str | None, declare: Declare) -> None:
        """And it says what became of it, and because of whom."""
        export = declare(lock="until_executed", on_conflict=strategy)
        first, second = export.send("acme"), export.send("acme")

        assert_enqueued(first)
        with pytest.raises(AssertionError) as raised:
            assert_enqueued(second)

        found = outcome(second)
        text = str(raised.value)
        assert text.startswith(f"message {second.message_id} (export('acme')) was not enqueued but {found.action}")
        assert text.endswith(f": message {first.message_id} held lock {found.digest}")

    def test_one_without_a_lock_passes(self, declare: Declare) -> None:
        """Nothing was in its way."""
        assert_enqueued(declare().send("acme"))

    @pytest.mark.parametrize("check", [assert_enqueued, assert_refused])
    def test_one_that_does_not_know_fails(
        self, broker: StubBroker, declare: Declare, monkeypatch: pytest.MonkeyPatch, check: Callable[[Any], None]
    ) -> None:
        """The messages of a group, one that was never sent: otherwise the assertion could not fail."""
        monkeypatch.setattr(dramatiq.broker, "global_broker", broker)
        export = declare(lock="until_executed")
        own = export.message("acme")
        never = export.message("globex")
        members = dramatiq.group([export.message("acme"), export.message("acme")], broker=broker)
        broker.enqueue(own)
        for member in members.run().children:
            with pytest.raises(AssertionError, match=r"^message .* does not know what became of it: pass what send or"):
                check(member)
        for message in (own, never):
            with pytest.raises(AssertionError, match=r"^message .* does not know what became of it: pass what send or"):
                check(message)

    @pytest.mark.parametrize("lock", ["while_executing", "until_expired", "until_and_while_executing"])
    def test_one_that_was_sent_knows(
        self, broker: StubBroker, declare: Declare, monkeypatch: pytest.MonkeyPatch, lock: str
    ) -> None:
        """Whenever its lock is taken, and though it wants none."""
        monkeypatch.setattr(dramatiq.broker, "global_broker", broker)
        export = declare(lock=lock, lock_ttl=60)

        assert_enqueued(export.send("acme"))
        assert_enqueued(export.send_with_options(args=("acme",), lock=None))
        assert_enqueued(declare(actor_name="import").send("acme"))

    def test_one_that_was_sent_with_the_locks_disabled_passes_where_they_are(
        self, unique: UniqueMiddleware, broker: StubBroker, declare: Declare, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing was in its way; later, nobody can tell it from one that does not know."""
        monkeypatch.setattr(dramatiq.broker, "global_broker", broker)
        export = declare(lock="until_executed")

        with disabled(unique):
            assert_enqueued(sent := export.send("acme"))

        with pytest.raises(AssertionError, match=r"with the locks disabled knows only while they are$"):
            assert_enqueued(sent)

    def test_one_that_took_a_place_passes(self, declare: Declare) -> None:
        """It is in the queue; whose place it took can be asked."""
        export = declare(lock="until_executed", on_conflict="replace")
        first, second = export.send("acme"), export.send("acme")

        assert_enqueued(second)
        assert_enqueued(second, in_place_of=first)

    def test_another_place_or_none_fails(self, declare: Declare) -> None:
        """It says which it was."""
        export = declare(lock="until_executed", on_conflict="replace")
        first, second, other = export.send("acme"), export.send("acme"), export.send("globex")

        with pytest.raises(AssertionError) as raised:
            assert_enqueued(second, in_place_of=other)
        assert f"in the place of message {first.message_id}, and not in the place of" in str(raised.value)
        with pytest.raises(AssertionError, match=r"was enqueued with lock \w{40}, and not in the place of message"):
            assert_enqueued(other, in_place_of=first)


class TestFreeEverything:
    """No lock is left."""

    def test_it_counts_what_it_drops(self, unique: UniqueMiddleware, declare: Declare) -> None:
        """More than one page, and then nothing is left to drop."""
        export = declare(lock="until_expired", lock_ttl=60)
        for number in range(1200):
            export.send(str(number))

        assert free_everything(unique) == 1200

        assert free_everything(unique) == 0
        assert_not_locked(export, "7")

    def test_what_is_not_ours_stays(self, client: "redis.Redis") -> None:
        """Other prefixes, with characters in them that mean something in a pattern; other keys of the same prefix."""
        unique, broker = UniqueMiddleware(client, prefix="a[b]*?"), StubBroker()
        broker.add_middleware(unique)
        export = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None)
        export.send()
        foreign = ["ab*?:{d}:queue", "a[b]*?!:{d}:queue", "a[b]xx:{d}:queue", "a[b]*?:cache", "cache"]
        for key in foreign:
            client.set(key, "1")

        assert free_everything(unique) == 1

        assert client.exists(*foreign) == len(foreign)
        assert client.dbsize() == len(foreign)

    def test_the_memory_of_replaced_messages_goes_too(
        self, unique: UniqueMiddleware, memory: "redis.Redis", declare: Declare
    ) -> None:
        """It is no lock, and is not counted."""
        export = declare(lock="until_executed", on_conflict="replace")
        export.send("acme")
        export.send("acme")
        assert memory.dbsize() == 2

        assert free_everything(unique) == 1

        assert memory.dbsize() == 0

    def test_no_command_is_long(self, redis_client: Any) -> None:
        """Pages of SCAN, and what is on them by name; never KEYS, never FLUSHDB."""
        unique, broker = UniqueMiddleware(redis_client), StubBroker()
        broker.add_middleware(unique)
        export = dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda number: None)
        for number in range(600):
            export.send(number)
        redis_client.config_resetstat()

        assert free_everything(unique) == 600

        commands = {name.removeprefix("cmdstat_") for name in redis_client.info("commandstats")}
        assert {"scan", "del"} <= commands <= {"scan", "del", "info", "config|resetstat", "config"}

    def test_a_store_that_is_away_is_told_as_ever(self, unique: UniqueMiddleware, declare: Declare) -> None:
        """With the package's own error."""
        declare(lock="until_executed")
        server = fakeredis.FakeServer()
        away, broker = UniqueMiddleware(fakeredis.FakeRedis(server=server)), StubBroker()
        broker.add_middleware(away)
        dramatiq.actor(broker=broker, actor_name="export", lock="until_executed")(lambda: None)
        server.connected = False

        with pytest.raises(LockStoreUnavailable, match="failed at 'clear': ConnectionError"):
            free_everything(away)

    def test_a_middleware_that_has_met_no_broker_is_a_mistake(self, unique: UniqueMiddleware) -> None:
        """It does not know its Redis yet."""
        with pytest.raises(UniqueError, match="add the middleware to a broker first"):
            free_everything(unique)


def test_importing_the_helpers_does_nothing() -> None:
    """No test runner, no fake, no metrics come with them; and the package itself comes without them."""
    code = """
import sys
import dramatiq_unique
assert not {"dramatiq_unique.testing", "dramatiq_unique.prometheus"} & sys.modules.keys()
import dramatiq_unique.testing
sys.exit(str({"pytest", "_pytest", "fakeredis", "prometheus_client"} & sys.modules.keys() or "") or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
