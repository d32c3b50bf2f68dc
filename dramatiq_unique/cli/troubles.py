"""What Redis refused, in a line for people: what happened, and what to do."""

from __future__ import annotations

from dramatiq_unique import LockStoreUnavailable


__all__ = ["in_words"]

_BY_SIGN = {
    "ReadOnlyError": "is a replica, which nobody may write to; give the address of its master",
    "READONLY": "is a replica, which nobody may write to; give the address of its master",
    "NOAUTH": "needs a password; put it into the address, redis://:PASSWORD@host:port/0",
    "WRONGPASS": "refuses the password or the user; look at the address",
    "AuthenticationError": "needs another password or user; put it into the address, redis://USER:PASSWORD@host:port/0",
    "NOPERM": "does not allow that to this user; give it the permission, or the address another user",
    "NoPermissionError": "does not allow that to this user; give it the permission, or the address another user",
    "BusyLoadingError": "is still loading its data; try again in a while",
    "MASTERDOWN": "is a replica whose master is down; give the address of the master",
    "OutOfMemoryError": "is out of memory; free some, or raise its maxmemory",
    "OOM": "is out of memory; free some, or raise its maxmemory",
    "MISCONF": "cannot write itself to disk, and takes no writes; look at its log",
    "TimeoutError": "does not answer; is it running, and is the address right?",
    "ConnectionError": "cannot be reached; is it running, and is the address right?",
    "MovedError": "is one node of a cluster; use --broker with a RedisCluster",
    "MOVED": "is one node of a cluster; use --broker with a RedisCluster",
}
"""By what stands in the text of the driver's error or is its type, the particular before the general."""


def in_words(error: LockStoreUnavailable, name: str) -> str:
    """Say what Redis refused.

    Arguments:
        error: What was raised; the driver's own error is its cause.
        name: The name of the Redis.
    """
    cause = error.__cause__
    types = {cls.__name__ for cls in type(cause).__mro__}
    text = str(cause)
    for sign, words in _BY_SIGN.items():
        if sign in types or (sign.isupper() and sign in text):
            return f"Redis {name} {words}"
    return f"Redis {name} failed: {error}"
