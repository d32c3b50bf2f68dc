"""Unique jobs for Dramatiq: the same job is not queued or run twice, with locks in Redis.

::

    broker.add_middleware(UniqueMiddleware())

    @dramatiq.actor(lock="until_executing")
    def reindex_product(product_id): ...
"""

from dramatiq_unique.errors import DuplicateMessage, InvalidLockOptions, LockStoreUnavailable, UniqueError
from dramatiq_unique.lock_types import LockType
from dramatiq_unique.middleware import UniqueMiddleware
from dramatiq_unique.outcome import Outcome, original, outcome


__all__ = [
    "DuplicateMessage",
    "InvalidLockOptions",
    "LockStoreUnavailable",
    "LockType",
    "Outcome",
    "UniqueError",
    "UniqueMiddleware",
    "original",
    "outcome",
]
