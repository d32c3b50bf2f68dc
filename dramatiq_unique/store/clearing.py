"""Dropping every lock of a prefix, for tests."""

from __future__ import annotations

from itertools import islice
from typing import Any

import redis

from dramatiq_unique.store.records import Kind
from dramatiq_unique.store.redis_store import RedisStore


__all__ = ["clear"]

_PAGE = 500


def clear(store: RedisStore) -> int:
    """Drop every key of a store: locks, and the memory of replaced messages.

    It walks by ``SCAN``, a page at a time, and deletes page by page: no command is long, and no key of others is
    touched.

    Arguments:
        store: The store.

    Returns:
        How many locks there were.

    Raises:
        LockStoreUnavailable: Redis cannot be reached, or refuses.
    """
    client: Any = store.client
    locks = 0
    with store.translated("clear"):
        keys = client.scan_iter(match=store.every_lock, count=_PAGE)
        while page := list(islice(keys, _PAGE)):
            names = [key.decode() if isinstance(key, bytes) else key for key in page]
            locks += sum(name.endswith(tuple(f":{kind.value}" for kind in Kind)) for name in names)
            # In a cluster, one command takes the keys of one slot.
            for together in [[name] for name in names] if isinstance(client, redis.RedisCluster) else [names]:
                client.delete(*together)
    return locks
