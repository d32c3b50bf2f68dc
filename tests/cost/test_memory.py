"""Bytes for each held lock, by ``MEMORY USAGE``."""

import pytest

from tests.rig import Gate, Rig


@pytest.fixture
def backend() -> str:
    """Only a real Redis can tell."""
    return "redis-last"


@pytest.mark.parametrize("lock", ["until_executing", "until_executed", "until_expired", "until_and_while_executing"])
def test_a_queue_lock(rig: Rig, lock: str) -> None:
    """At most 400 bytes, in one key."""
    actor = rig.actor(lambda product_id: None, actor_name="reindex_product", lock=lock, lock_ttl=600)
    actor.send(42)
    [key] = rig.lock_keys()
    assert rig.redis.memory_usage(key) <= 400


def test_a_run_lock(rig: Rig) -> None:
    """At most 400 bytes, in one key."""
    gate = Gate()
    actor = rig.actor(lambda _: gate.arrive(), actor_name="reindex_product", lock="while_executing")
    actor.send(42)
    rig.start()
    gate.wait_for_arrival()
    [key] = rig.lock_keys()
    assert rig.redis.memory_usage(key) <= 400
    gate.open()
    rig.join()


def test_arguments_are_kept_under_lock_info_only(rig: Rig) -> None:
    """A large argument costs the lock nothing unless somebody asked to see it there."""
    actor = rig.actor(lambda note: None, actor_name="work", lock="until_executed")
    actor.send("x" * 1000)
    [key] = rig.lock_keys()
    assert not [field for field in rig.redis.hkeys(key) if field.startswith(b"a:")]
    actor.send_with_options(args=("y" * 1000,), lock_info=True)
    [other] = [name for name in rig.lock_keys() if name != key]
    [shown] = [field for field in rig.redis.hkeys(other) if field.startswith(b"a:")]
    assert b"yyy" in rig.redis.hget(other, shown)
