"""How long a lock stays behind at most: whatever became of its message, and whoever was to let it go.

Each bound stands in ``docs/guarantees.md``, with the test that holds it. What takes a real crash is in
``tests/processes``.
"""

import time
from typing import Any

import pytest
from dramatiq import Broker, Message, Middleware

from dramatiq_unique import LockStoreUnavailable, UniqueMiddleware, outcome
from dramatiq_unique.store import Request, Terms
from dramatiq_unique.ticket import Ticket
from tests.rig import Gate, Rig, eventually


LOCKED = ["until_executing", "until_executed", "until_and_while_executing"]
MINUTE_MS = 60_000
DAY_MS = 24 * 3600 * 1000
SAFETY_MS = 30 * DAY_MS
SLACK_MS = 60_000
"""What a busy machine may need between a send and a look at its lock, which is little beside a bound."""

cannot_be_asked = pytest.mark.parametrize("backend", ["stub-last", "rabbitmq-last"])
on_every_broker = pytest.mark.parametrize("backend", ["stub-last", "redis-last", "rabbitmq-last"])
in_memory = pytest.mark.parametrize("backend", ["stub-last"])


class Ahead:
    """The clock of a Redis in memory, which is that of this process, moved ahead.

    Args:
        monkeypatch: Undoes it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._by_s = 0.0
        now_s = time.time
        monkeypatch.setattr(time, "time", lambda: now_s() + self._by_s)

    def move(self, by_ms: float) -> None:
        """Move it on by so many milliseconds."""
        self._by_s += by_ms / 1000


@pytest.fixture
def clock(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """The clock of the locks, under a test's control."""
    return Ahead(monkeypatch)


class Looks(Middleware):
    """Notes how long a lock lives when its message is about to be stored.

    Args:
        rig: Whose locks.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.seen_ms: list[int] = []

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: float | None) -> None:
        """Look."""
        self.seen_ms += _lives_ms(self._rig)


def _lives_ms(rig: Rig) -> list[int]:
    return [rig.redis.pttl(key) for key in rig.lock_keys("queue")]


@cannot_be_asked
def test_a_dead_letter_that_is_sent_again_is_held_for_a_minute_until_it_is_stored(rig: Rig) -> None:
    """It was let in before, but it is in no queue now: if its sender dies, nobody is blocked for longer."""
    actor = rig.actor(lambda: 1 // 0, actor_name="work", lock="until_executed", max_retries=0)
    actor.send()
    rig.drain()
    [dead] = rig.dead_letters()
    looks = Looks(rig)
    rig.broker.add_middleware(looks)

    rig.broker.enqueue(dead)

    assert [ms <= MINUTE_MS for ms in looks.seen_ms] == [True]
    assert [ms > DAY_MS for ms in _lives_ms(rig)] == [True]


def _enqueue_that_dies(rig: Rig, message: Message[Any]) -> None:
    """Take the lock of a message as the process does that is about to enqueue it again, a retry say, and is killed."""
    ticket = Ticket.on(message.message_id, message.options)
    assert ticket is not None
    request = Request(ticket.digest, message.message_id, message.actor_name, message.queue_name, "", 1)
    rig.store.acquire(request, Terms("00000002", MINUTE_MS, "n", SAFETY_MS, "w"))
    time.sleep(0.05)  # The broker has to notice, and delivers it again after this.


@on_every_broker
@pytest.mark.parametrize("lock", LOCKED)
def test_a_message_lets_go_for_its_killed_retry_where_its_start_was_not_asked(rig: Rig, lock: str) -> None:
    """It is delivered again, and an earlier middleware finds it too old: it ends, whoever had enqueued it last."""
    actor = rig.actor(lambda: None, actor_name="work", lock=lock, max_age=10)
    _enqueue_that_dies(rig, actor.send())

    rig.drain()

    assert len(rig.dead_letters()) == 1
    assert rig.lock_keys() == []


@on_every_broker
@pytest.mark.parametrize("lock", LOCKED)
def test_a_message_lets_go_for_its_killed_retry_where_its_start_was_not_answered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    """It is delivered again while the store is away, and runs without a lock: that has to end all the same."""
    ran: list[int] = []
    rig.use(UniqueMiddleware(rig.client, on_store_error="ignore"))
    _enqueue_that_dies(rig, rig.actor(ran.append, actor_name="work", lock=lock).send(1))

    def away(*_: object, **__: object) -> None:
        raise LockStoreUnavailable("away")

    monkeypatch.setattr(rig.store, "begin", away)
    rig.drain()

    assert ran == [1]
    assert rig.lock_keys() == []


@pytest.mark.parametrize("backend", ["redis-last"])
def test_a_job_that_runs_is_believed_for_a_lease_after_it_was_last_seen(rig: Rig) -> None:
    """Its message was lost and nobody renews its lock: it is nobody's once a lease has passed, and not before."""
    rig.use(UniqueMiddleware(rig.client, lease=60))
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
    first = actor.send()
    rig.start()
    gate.wait_for_arrival()
    rig.lose_messages()

    rig.not_seen_for(50_000)
    assert outcome(actor.send()).holder_id == first.message_id
    rig.not_seen_for(61_000)
    assert outcome(actor.send()).action == "enqueued"
    assert [event.holder_id for event in rig.told("reclaimed")] == [first.message_id]
    gate.open(2)
    rig.join()


@pytest.mark.parametrize("backend", ["redis-last"])
def test_a_job_whose_message_was_lost_keeps_its_lock_while_its_worker_lives(rig: Rig) -> None:
    """It is seen at each renewal, so a broker that has forgotten it is not asked."""
    rig.use(UniqueMiddleware(rig.client, lease=1))
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
    first = actor.send()
    rig.start()
    gate.wait_for_arrival()
    rig.lose_messages()
    rig.not_seen_for(10_000)
    long_ago_ms = _times(rig)["touched"]

    eventually(lambda: _times(rig)["touched"] > long_ago_ms)
    assert outcome(actor.send()).holder_id == first.message_id
    gate.open()
    eventually(lambda: rig.lock_keys() == [])


@cannot_be_asked
@pytest.mark.parametrize("lock", LOCKED)
def test_a_lost_message_blocks_its_key_for_its_lock_ttl_where_the_broker_cannot_be_asked(rig: Rig, lock: str) -> None:
    """Nobody can tell that it is gone, so time alone lets go."""
    actor = rig.actor(lambda: None, actor_name="work", lock=lock, lock_ttl=2)
    first = actor.send()
    times = _times(rig)
    assert times["deadline"] - times["since"] < 2000 + SLACK_MS
    rig.lose_messages()
    assert rig.waiting() == []

    assert outcome(actor.send()).holder_id == first.message_id
    eventually(lambda: outcome(actor.send()).action == "enqueued")
    assert _times(rig)["since"] >= times["deadline"]
    assert rig.told("reclaimed") == []


@on_every_broker
@pytest.mark.parametrize("lock", LOCKED)
def test_a_lock_without_a_ttl_expires_thirty_days_after_the_last_news(rig: Rig, lock: str) -> None:
    """Neither sooner nor later, for its record and its key alike; a delay is added."""
    actor = rig.actor(lambda _: None, actor_name="work", lock=lock)
    for number, delay_ms in ((1, None), (2, DAY_MS)):
        message = actor.send_with_options(args=(number,), delay=delay_ms)
        bound_ms = SAFETY_MS + (delay_ms or 0)
        [key] = [key for key in rig.lock_keys("queue") if rig.redis.hexists(key, f"o:{message.message_id}")]
        times = _times_of(rig, key)
        assert bound_ms - SLACK_MS < times["deadline"] - times["since"] <= bound_ms + SLACK_MS
        assert bound_ms - SLACK_MS < rig.redis.pttl(key) <= bound_ms


@in_memory
@pytest.mark.parametrize("lock", LOCKED)
def test_a_lock_that_nobody_lets_go_is_free_after_thirty_days(rig: Rig, clock: Ahead, lock: str) -> None:
    """Its message is lost, and nobody can tell: refused on the last day, accepted on the next."""
    actor = rig.actor(lambda: None, actor_name="work", lock=lock)
    first = actor.send()
    rig.lose_messages()

    clock.move(SAFETY_MS - SLACK_MS)
    assert outcome(actor.send()).holder_id == first.message_id
    clock.move(SLACK_MS)
    assert rig.lock_keys() == []
    assert outcome(actor.send()).action == "enqueued"


@in_memory
def test_the_thirty_days_count_anew_from_a_retry(rig: Rig, clock: Ahead) -> None:
    """A job that is retried for longer keeps its lock: each enqueue is news of it."""
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        raise RuntimeError("once more")

    actor = rig.actor(work, lock="until_executed", min_backoff=60_000, max_backoff=60_000)
    first = actor.send()
    clock.move(SAFETY_MS - DAY_MS)
    rig.start()
    eventually(lambda: attempts and _deadline_is_ahead_by(rig) > SAFETY_MS - SLACK_MS)

    clock.move(SAFETY_MS - DAY_MS)
    assert outcome(actor.send()).holder_id == first.message_id
    assert _deadline_is_ahead_by(rig) <= DAY_MS + 2 * SLACK_MS  # That a copy was refused is no news of it.


@in_memory
def test_the_thirty_days_count_anew_where_a_message_takes_its_lock_again(rig: Rig, clock: Ahead) -> None:
    """It lay in its queue for longer, and its lock had lapsed: it runs under a new one."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed")
    first = actor.send()
    clock.move(SAFETY_MS + DAY_MS)
    assert rig.lock_keys() == []
    rig.start()
    gate.wait_for_arrival()
    assert [event.message_id for event in rig.told("lapsed")] == [first.message_id]
    assert outcome(actor.send()).holder_id == first.message_id
    assert SAFETY_MS - SLACK_MS < _deadline_is_ahead_by(rig) <= SAFETY_MS
    gate.open()
    rig.join()


def _times(rig: Rig) -> dict[str, int]:
    """Read the times of the only holder of the only queue lock."""
    [key] = rig.lock_keys("queue")
    return _times_of(rig, key)


def _times_of(rig: Rig, key: str) -> dict[str, int]:
    fields: dict[bytes, Any] = rig.redis.hgetall(key)
    [raw] = [value for field, value in fields.items() if field.startswith(b"o:")]
    since, touched, deadline, _state, _token = raw.decode().split(" ", 4)
    since_ms = int(since)
    return {"since": since_ms, "touched": since_ms + int(touched), "deadline": since_ms + int(deadline)}


def _deadline_is_ahead_by(rig: Rig) -> int:
    """Tell how long from now, in milliseconds, the only queue lock still stands."""
    return _times(rig)["deadline"] - rig.now_ms()
