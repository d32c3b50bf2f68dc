"""The lock store: what is asked of it, what it answers, and its implementation in Redis.

Nothing here knows Dramatiq.
"""

from dramatiq_unique.store.connection import NO_ADDRESS, Client, connect, is_address, is_synchronous
from dramatiq_unique.store.records import Holder, Kind, Lease, Request, in_queue_lock
from dramatiq_unique.store.redis_store import QueueOwner, RedisStore
from dramatiq_unique.store.replies import (
    Acquired,
    Begun,
    Contested,
    Finished,
    Found,
    Held,
    Kept,
    Replaced,
    Running,
    Started,
    Superseded,
    Taken,
)


__all__ = [
    "NO_ADDRESS",
    "Acquired",
    "Begun",
    "Client",
    "Contested",
    "Finished",
    "Found",
    "Held",
    "Holder",
    "Kept",
    "Kind",
    "Lease",
    "QueueOwner",
    "RedisStore",
    "Replaced",
    "Request",
    "Running",
    "Started",
    "Superseded",
    "Taken",
    "connect",
    "in_queue_lock",
    "is_address",
    "is_synchronous",
]
