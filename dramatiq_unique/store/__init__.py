"""The lock store: what is asked of it, what it answers, and its implementation in Redis.

Nothing here knows Dramatiq.
"""

from dramatiq_unique.store.connection import NO_ADDRESS, Client, connect, is_address, is_synchronous
from dramatiq_unique.store.records import NO_DELIVERY, Holder, Kind, Lease, Request
from dramatiq_unique.store.redis_store import RedisStore
from dramatiq_unique.store.replies import (
    Acquired,
    Begun,
    Contested,
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
    "NO_DELIVERY",
    "Acquired",
    "Begun",
    "Client",
    "Contested",
    "Found",
    "Held",
    "Holder",
    "Kept",
    "Kind",
    "Lease",
    "RedisStore",
    "Replaced",
    "Request",
    "Running",
    "Started",
    "Superseded",
    "Taken",
    "connect",
    "is_address",
    "is_synchronous",
]
