"""Looking at locks and letting go of what was seen, on a Redis in memory and on a real one, decoding or not."""

import time
from typing import Any

import fakeredis
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_unique import LockStoreUnavailable, UniqueError
from dramatiq_unique.store import Kind, Lookups, RedisStore, Request, Sighting, Terms
from tests.servers import HOST, free_port


LONG_MS = 60_000
DIGEST = "d1935"
FIRST, SECOND = "a", "b"
"""The tokens of two deliveries."""


def request(message_id: str, digest: str = DIGEST, **fields: Any) -> Request:
    """Ask for a lock on behalf of a message."""
    facts: dict[str, Any] = {"actor_name": "export", "queue_name": "default", "broker_id": "", "limit": 9}
    return Request(digest=digest, message_id=message_id, **(facts | fields))


def wait_for(store: RedisStore, message_id: str, digest: str = DIGEST, hold_ms: int = LONG_MS) -> None:
    """Take the queue lock."""
    store.acquire(request(message_id, digest), Terms(message_id, hold_ms, "w", hold_ms, "w"))


def run(store: RedisStore, message_id: str, digest: str = DIGEST, token: str = FIRST) -> None:
    """Take the run lock."""
    store.begin(request(message_id, digest), token=token, queue="", run=True, lease_ms=LONG_MS, hold_ms=LONG_MS)


def ids(seen: Sighting) -> tuple[list[str], list[str]]:
    """Name who has the queue lock, and who the run lock."""
    return [holder.message_id for holder in seen.queue], [holder.message_id for holder in seen.run]


def walked(lookups: Lookups, page: int = 500) -> list[str]:
    """Name what a walk meets, sorted."""
    return sorted(seen.digest for seen in lookups.walk(page=page))


@pytest.fixture
def lookups(store: RedisStore) -> Lookups:
    """Looks where the store is."""
    return Lookups(store.client, prefix=store.prefix)


class TestLook:
    """The two locks of one digest."""

    def test_both_are_seen_with_the_oldest_holder_first(self, store: RedisStore, lookups: Lookups) -> None:
        """By when they took the lock, and by id where that is the same."""
        for message_id in "xyz":
            wait_for(store, message_id)
        run(store, "r")
        seen = lookups.look(DIGEST)
        assert sorted(seen.queue, key=lambda holder: (holder.since_ms, holder.message_id)) == list(seen.queue)
        assert (set(ids(seen)[0]), ids(seen)[1]) == ({"x", "y", "z"}, ["r"])
        assert seen.has_both

    def test_nobody_has_what_nobody_took(self, lookups: Lookups) -> None:
        """An unknown digest is no error, whatever it looks like."""
        for digest in ("unknown", "", "{}*", "ü"):
            seen = lookups.look(digest)
            assert (ids(seen), seen.has_both, seen.unreadable) == (([], []), False, None)

    def test_a_holder_past_its_deadline_has_nothing(self, store: RedisStore, lookups: Lookups) -> None:
        """By the clock of the server, while another keeps the key."""
        wait_for(store, "x")
        wait_for(store, "y")
        client: Any = store.client
        since, touched, _, state, token = _raw(client, store.key(DIGEST, Kind.QUEUE), "o:x").split(" ")
        client.hset(store.key(DIGEST, Kind.QUEUE), "o:x", f"{since} {touched} 0 {state} {token}")
        assert ids(lookups.look(DIGEST)) == (["y"], [])

    @pytest.mark.parametrize("kind", list(Kind))
    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            (["SET", "hello"], "it is no hash"),
            (["RPUSH", "hello"], "it is no hash"),
            (["HSET", "hello", "you"], "it has no holder"),
            (["HSET", "o:x", ""], "the record of its holder 'x' is malformed"),
            (["HSET", "o:x", "hello"], "the record of its holder 'x' is malformed"),
            (["HSET", "o:x", "1 2 soon w -"], "the record of its holder 'x' is malformed"),
            (["HSET", "o:x", "1 2 99999999999999 q -"], "the record of its holder 'x' is malformed"),
            (["HSET", "o:x", b"1 2 99999999999999 w \xff"], "it has bytes that are not UTF-8"),
            (["HSET", b"o:\xff", "1 2 99999999999999 w -"], "it has bytes that are not UTF-8"),
        ],
        ids=str,
    )
    def test_what_somebody_else_wrote_is_told(
        self, store: RedisStore, lookups: Lookups, kind: Kind, command: list[Any], reason: str
    ) -> None:
        """With the name of the key; the other lock is seen all the same."""
        client: Any = store.client
        key = store.key(DIGEST, kind)
        if kind is Kind.QUEUE:
            run(store, "r")
        else:
            wait_for(store, "r")
        name, *rest = command
        client.execute_command(name, key, *rest)
        client.expire(key, 60)
        seen = lookups.look(DIGEST)
        assert seen.unreadable is not None
        assert repr(key) in seen.unreadable
        assert reason in seen.unreadable
        assert ids(seen) == (([], ["r"]) if kind is Kind.QUEUE else (["r"], []))
        assert [found.unreadable for found in lookups.walk()] == [seen.unreadable]
        with pytest.raises(UniqueError, match="is no lock of ours"):
            seen.checked()

    def test_a_record_with_nothing_beside_it_is_a_holder(self, store: RedisStore, lookups: Lookups) -> None:
        """It has the lock, whoever it is."""
        client: Any = store.client
        client.hset(store.key(DIGEST, Kind.QUEUE), "o:x", "1 2 99999999999999 w -")
        client.expire(store.key(DIGEST, Kind.QUEUE), 60)
        seen = lookups.look(DIGEST)
        assert ids(seen) == (["x"], [])
        assert (seen.queue[0].actor_name, seen.queue[0].process, seen.queue[0].places) == ("", "", ())


class TestWalk:
    """All digests."""

    def test_each_digest_comes_once(self, store: RedisStore, lookups: Lookups) -> None:
        """Whichever of its locks it has, however small the pages are."""
        for number in range(30):
            if number % 3 != 1:
                wait_for(store, "x", f"d{number}")
            if number % 3 != 2:
                run(store, "y", f"d{number}")
        expected = sorted(f"d{number}" for number in range(30))
        for page in (1, 7, 500):
            assert walked(lookups, page) == expected

    def test_more_than_it_keeps_in_mind_come_twice_rather_than_not(
        self, store: RedisStore, lookups: Lookups, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its memory has a bound."""
        monkeypatch.setattr("dramatiq_unique.store.lookups._REMEMBERED", 2)
        for number in range(20):
            wait_for(store, "x", f"d{number}")
            run(store, "y", f"d{number}")
        found = walked(lookups, 1)
        assert set(found) == {f"d{number}" for number in range(20)}
        assert 20 <= len(found) <= 40

    def test_both_locks_of_a_digest_come_together(self, store: RedisStore, lookups: Lookups) -> None:
        """Whichever key was met first."""
        wait_for(store, "x")
        run(store, "y")
        assert [ids(seen) for seen in lookups.walk(page=1)] == [(["x"], ["y"])]

    def test_the_keys_of_others_are_passed_over(self, store: RedisStore, lookups: Lookups) -> None:
        """Another prefix, the memory of those superseded, and names that are nearly ours."""
        wait_for(store, "x")
        client: Any = store.client
        for name in ("test:{d}:superseded", "test:{d}:queue:more", "test:{d}:other", "test:{}queue"):
            client.set(name, 1, ex=60)
        for prefix in ("tes", "test2", "other"):
            client.set(f"{prefix}:{{d}}:queue", 1)
        client.set(b"test:{\xff}:queue", 1, ex=60)
        found = [(seen.digest, seen.unreadable) for seen in lookups.walk() if ids(seen) != ([], [])]
        client.delete(b"test:{\xff}:queue")
        for name in client.scan_iter("*:{*", _type="string"):
            client.delete(name)
        assert found == [(DIGEST, None)]

    @pytest.mark.parametrize("prefix", ["a*", "a?c", "[ab]", "a\\b", "[^a]", "a-b", "ünïque", "a b"])
    def test_a_prefix_is_no_pattern(self, client: "redis.Redis", prefix: str) -> None:
        """Its glob characters are themselves."""
        other = RedisStore(client, prefix="abc", memory_ms=LONG_MS)
        wait_for(other, "x", "theirs")
        wait_for(RedisStore(client, prefix="a", memory_ms=LONG_MS), "x", "theirs")
        wait_for(RedisStore(client, prefix=prefix, memory_ms=LONG_MS), "x", "ours")
        assert walked(Lookups(client, prefix=prefix)) == ["ours"]

    def test_each_page_is_told(self, store: RedisStore, lookups: Lookups) -> None:
        """With how many keys it had at most; those that are not ours count, too."""
        for number in range(40):
            store.client.set(f"test:{{{number}}}:other", 1, ex=60)
        told: list[int] = []
        assert list(lookups.walk(page=10, on_page=told.append)) == []
        assert set(told) == {10}
        assert len(told) >= 4

    def test_nothing_is_walked_where_there_is_nothing(self, lookups: Lookups) -> None:
        """No lock, no page."""
        assert walked(lookups) == []


class TestRelease:
    """A holder is let go if it still stands as it was seen."""

    @pytest.mark.parametrize("kind", list(Kind))
    def test_it_is_let_go(self, store: RedisStore, lookups: Lookups, kind: Kind) -> None:
        """Its fields with it, and the other lock is left alone."""
        wait_for(store, "x")
        run(store, "x")
        held_ms = lookups.release(DIGEST, kind, "x", **_as_seen(lookups, kind))
        assert held_ms is not None
        assert 0 <= held_ms < LONG_MS
        client: Any = store.client
        assert not client.exists(store.key(DIGEST, kind))
        assert ids(lookups.look(DIGEST)) == (([], ["x"]) if kind is Kind.QUEUE else (["x"], []))

    def test_it_may_have_been_kept_meanwhile(self, store: RedisStore, lookups: Lookups) -> None:
        """A renewal does not make it another."""
        wait_for(store, "x")
        seen = _as_seen(lookups, Kind.QUEUE)
        store.keep(DIGEST, "x", 2 * LONG_MS)
        assert lookups.release(DIGEST, Kind.QUEUE, "x", **seen) is not None

    def test_one_that_began_to_run_meanwhile_is_left_alone(self, store: RedisStore, lookups: Lookups) -> None:
        """Whoever freed a waiting message did not mean the running one."""
        wait_for(store, "x")
        seen = _as_seen(lookups, Kind.QUEUE)
        store.begin(request("x"), token=FIRST, queue="end", run=False, lease_ms=LONG_MS, hold_ms=LONG_MS)
        assert lookups.release(DIGEST, Kind.QUEUE, "x", **seen) is None
        assert ids(lookups.look(DIGEST)) == (["x"], [])

    def test_another_delivery_is_left_alone(self, store: RedisStore, lookups: Lookups) -> None:
        """The same message, and another run."""
        run(store, "x", token=FIRST)
        seen = _as_seen(lookups, Kind.RUN)
        store.finish(DIGEST, "x", token=FIRST, queue=None, run=True)
        run(store, "x", token=SECOND)
        assert lookups.release(DIGEST, Kind.RUN, "x", **seen) is None

    @pytest.mark.parametrize("change", [{"since_ms": 1}, {"token": SECOND}])
    def test_who_is_not_as_it_was_seen_is_left_alone(
        self, store: RedisStore, lookups: Lookups, change: dict[str, Any]
    ) -> None:
        """The time it took the lock, and its token."""
        wait_for(store, "x")
        assert lookups.release(DIGEST, Kind.QUEUE, "x", **(_as_seen(lookups, Kind.QUEUE) | change)) is None
        assert ids(lookups.look(DIGEST)) == (["x"], [])

    def test_nobody_is_let_go_where_nobody_is(self, store: RedisStore, lookups: Lookups) -> None:
        """Twice is nothing, and so is an unknown digest, and a record that somebody spoilt."""
        wait_for(store, "x")
        seen = _as_seen(lookups, Kind.QUEUE)
        client: Any = store.client
        client.hset(store.key(DIGEST, Kind.QUEUE), "o:bad", "hello")
        assert lookups.release(DIGEST, Kind.QUEUE, "bad", **seen) is None
        assert lookups.release(DIGEST, Kind.QUEUE, "x", **seen) is not None
        assert lookups.release(DIGEST, Kind.QUEUE, "x", **seen) is None
        assert lookups.release("unknown", Kind.RUN, "x", **seen) is None

    def test_one_past_its_deadline_has_nothing_to_let_go(self, store: RedisStore, lookups: Lookups) -> None:
        """It was seen while it had; another keeps the key."""
        wait_for(store, "x")
        seen = _as_seen(lookups, Kind.QUEUE)
        wait_for(store, "y")
        client: Any = store.client
        key = store.key(DIGEST, Kind.QUEUE)
        since, touched, _, state, token = _raw(client, key, "o:x").split(" ")
        client.hset(key, "o:x", f"{since} {touched} 0 {state} {token}")
        assert lookups.release(DIGEST, Kind.QUEUE, "x", **seen) is None

    def test_whoever_waits_for_a_run_lock_is_woken(self, store: RedisStore, lookups: Lookups) -> None:
        """As by its owner."""
        run(store, "x")
        began_s = time.monotonic()
        with store.releases(DIGEST) as wait:
            assert lookups.release(DIGEST, Kind.RUN, "x", **_as_seen(lookups, Kind.RUN)) is not None
            wait(30)
        assert time.monotonic() - began_s < 15


class TestFailures:
    """The driver's errors are translated in one place."""

    def test_a_redis_that_is_away_is_unavailable(self) -> None:
        """For each operation."""
        client = redis.Redis(host=HOST, port=free_port(), retry=Retry(NoBackoff(), 0))
        lookups = Lookups(client, prefix="test")
        with pytest.raises(LockStoreUnavailable, match="look"):
            lookups.look(DIGEST)
        with pytest.raises(LockStoreUnavailable, match="scan"):
            list(lookups.walk())
        with pytest.raises(LockStoreUnavailable, match="release"):
            lookups.release(DIGEST, Kind.RUN, "x", since_ms=1, token=FIRST)

    def test_a_redis_that_refuses_a_command_is_unavailable(self) -> None:
        """Only a wrong type says something of the key."""
        client: Any = fakeredis.FakeRedis(server=fakeredis.FakeServer())
        lookups = Lookups(client, prefix="test")
        refusal = redis.ResponseError("NOPERM this user has no permissions to run the 'hgetall' command")

        class Refusing:
            def execute_command(self, *args: Any, **options: Any) -> None:
                """Take it."""

            def execute(self, *, raise_on_error: bool) -> list[Exception]:
                """Refuse it."""
                return [refusal, refusal]

        client.pipeline = lambda **_: Refusing()
        with pytest.raises(LockStoreUnavailable, match="no permissions"):
            lookups.look(DIGEST)


def _as_seen(lookups: Lookups, kind: Kind) -> dict[str, Any]:
    seen = lookups.look(DIGEST)
    [holder] = seen.queue if kind is Kind.QUEUE else seen.run
    return {"since_ms": holder.since_ms, "token": holder.token}


def _raw(client: Any, key: str, field: str) -> str:
    value = client.hget(key, field)
    return value.decode() if isinstance(value, bytes) else str(value)
