"""How long locks live: by ``lock_ttl``, by the delay, by the work, by the lease."""

from dramatiq_unique import outcome
from tests.rig import Gate, Rig, Runs, eventually


def test_a_message_whose_lock_lapsed_runs_and_says_so(rig: Rig) -> None:
    """C11: no worker for longer than ``lock_ttl``; then a worker."""
    runs = Runs()

    def work() -> None:
        with runs.of():
            pass

    actor = rig.actor(work, lock="until_and_while_executing", lock_ttl=0.2)
    first = actor.send()
    eventually(lambda: rig.lock_keys() == [])
    rig.drain()
    assert len(runs.ended) == 1
    assert [event.message_id for event in rig.told("lapsed")] == [first.message_id]
    assert rig.lock_keys() == []


def test_two_whose_lock_lapsed_both_run_one_after_the_other(rig: Rig) -> None:
    """C12: neither is lost without a word, and until_executed does not let them overlap."""
    gate, runs = Gate(), Runs()

    def work(number: int) -> None:
        with runs.of(number):
            gate.arrive()

    actor = rig.actor(work, lock="until_executed", lock_ttl=0.3, lock_args=[])
    actor.send(1)
    eventually(lambda: rig.lock_keys() == [])
    assert outcome(actor.send(2)).action == "enqueued"
    gate.open(2)
    rig.drain()
    assert sorted(runs.ended) == [1, 2]
    assert runs.most_at_once == 1
    assert rig.lock_keys() == []


def test_a_lock_outlives_its_ttl_while_a_worker_runs_its_message(rig: Rig) -> None:
    """C13: ``lock_ttl`` bounds a message that waits; no second copy while the first lives."""
    gate = Gate()
    actor = rig.actor(gate.arrive, actor_name="work", lock="until_executed", lock_ttl=1)
    first = actor.send()
    rig.start()
    gate.wait_for_arrival()
    taken_ms = _record(rig)["since"]

    def refused() -> bool:
        copy = actor.send()
        assert outcome(copy).holder_id == first.message_id
        return _record(rig)["deadline"] > taken_ms + 3000

    eventually(refused)  # Renewed past three times its lock_ttl.
    gate.open()
    rig.join()
    eventually(lambda: rig.lock_keys() == [])


def test_a_run_lock_is_renewed_while_its_actor_runs(rig: Rig) -> None:
    """A lease is not a time limit: the next copy starts after the first ends, not when its lease would have ended."""
    gate, runs = Gate(), Runs()

    def work() -> None:
        with runs.of():
            gate.arrive()

    actor = rig.actor(work, lock="until_and_while_executing", lock_ttl=1)
    actor.send()
    rig.start()
    gate.wait_for_arrival()
    since_ms = _record(rig, "run")["since"]
    actor.send()
    eventually(lambda: _record(rig, "run")["deadline"] > since_ms + 3000)
    assert len(runs.started) == 1
    gate.open(2)
    rig.join()
    assert len(runs.ended) == 2
    assert runs.most_at_once == 1


def test_a_delay_is_added_to_the_life_of_a_waiting_message(rig: Rig) -> None:
    """``lock_ttl`` counts from when the message could run."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", lock_ttl=10)
    actor.send_with_options(delay=60_000)
    [key] = rig.lock_keys("queue")
    assert 69_000 < rig.client.pttl(key) <= 70_000


def test_a_delay_does_not_stretch_a_window(rig: Rig) -> None:
    """The window of ``until_expired`` is the window, delay or no delay."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_expired", lock_ttl=10)
    actor.send_with_options(delay=60_000)
    [key] = rig.lock_keys("queue")
    assert rig.client.pttl(key) <= 10_000


def test_a_retry_neither_opens_nor_stretches_a_window(rig: Rig) -> None:
    """A failing message leaves the window of ``until_expired`` as it was."""
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        raise RuntimeError("always")

    actor = rig.actor(work, lock="until_expired", lock_ttl=60, max_retries=2)
    actor.send()
    before = _record(rig)
    rig.drain()
    assert len(attempts) == 3
    assert _record(rig) == before
    assert outcome(actor.send()).action == "discarded"


def test_a_backoff_is_added_to_the_life_of_a_waiting_retry(rig: Rig) -> None:
    """A retry due later than ``lock_ttl`` keeps its lock until it has run."""
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("once")

    actor = rig.actor(work, lock="until_executed", lock_ttl=0.2, min_backoff=1500, max_backoff=1500)
    actor.send()
    rig.start()
    eventually(lambda: len(attempts) == 1 and rig.pending() == 1)
    assert outcome(actor.send()).action == "discarded"
    rig.join()
    assert len(attempts) == 2
    assert rig.told("lapsed") == []


def test_every_lock_of_a_digest_expires_with_its_longest_holder(rig: Rig) -> None:
    """With two holders of different lifetimes the key outlives the shorter one, which counts no longer."""
    actor = rig.actor(lambda: None, actor_name="work", lock="until_executed", lock_limit=2)
    actor.send_with_options(lock_ttl=1.5)
    actor.send_with_options(lock_ttl=60)
    assert outcome(actor.send()).action == "discarded"
    eventually(lambda: outcome(actor.send()).action == "enqueued")
    [key] = rig.lock_keys("queue")
    assert rig.client.ttl(key) > 50


def _record(rig: Rig, kind: str = "queue") -> dict[str, int]:
    """Read the times of the only holder of the only lock of a kind."""
    [key] = rig.lock_keys(kind)
    [raw] = [value for field, value in rig.redis.hgetall(key).items() if field.startswith(b"o:")]
    since, touched, deadline, *_ = raw.decode().split()
    since_ms = int(since)
    return {"since": since_ms, "touched": since_ms + int(touched), "deadline": since_ms + int(deadline)}
