"""The lock store: what is asked of it, what it answers, and its implementation in Redis.

Nothing here knows Dramatiq.
"""

from dramatiq_unique.store.connection import (
    NO_ADDRESS,
    NO_PREFIX,
    URL_VARIABLE,
    Client,
    are_one,
    connect,
    dial,
    is_address,
    is_prefix,
    is_synchronous,
    kind_of,
)
from dramatiq_unique.store.inspection import Inspection, Server
from dramatiq_unique.store.lookups import Lookups
from dramatiq_unique.store.records import Holder, Kind, Lease, Request, Storing, Terms, in_queue_lock, new_token
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
from dramatiq_unique.store.sighting import Sighting, first_waiting, longest_unseen


__all__ = [
    "NO_ADDRESS",
    "NO_PREFIX",
    "URL_VARIABLE",
    "Acquired",
    "Begun",
    "Client",
    "Contested",
    "Finished",
    "Found",
    "Held",
    "Holder",
    "Inspection",
    "Kept",
    "Kind",
    "Lease",
    "Lookups",
    "QueueOwner",
    "RedisStore",
    "Replaced",
    "Request",
    "Running",
    "Server",
    "Sighting",
    "Started",
    "Storing",
    "Superseded",
    "Taken",
    "Terms",
    "are_one",
    "connect",
    "dial",
    "first_waiting",
    "in_queue_lock",
    "is_address",
    "is_prefix",
    "is_synchronous",
    "kind_of",
    "longest_unseen",
    "new_token",
]
