"""What Redis refused, in a line for people: what happened, and what to do."""

from __future__ import annotations

from dramatiq_unique import LockStoreUnavailable


__all__ = ["in_words"]

_REPLICA = "is a replica, which nobody may write to; give the address of its master"
_FULL = "is out of memory; free some, or raise its maxmemory"
_ONE_NODE = "is one node of a cluster; use --broker with a RedisCluster"

_LOCKED = "needs a password; write it into the address, before the host"

_BY_TEXT = {
    "Authentication required": _LOCKED,
    "HELLO must be called with the client already authenticated": _LOCKED,  # What is said first under RESP3.
    "READONLY": _REPLICA,  # What Redis 6.2 says where a script would write.
    "MASTERDOWN": "is a replica whose master is down; give the address of the master",
    "MISCONF": "cannot write itself to disk, and takes no writes; look at its log",
    "OOM ": _FULL,
    "MOVED ": _ONE_NODE,
}
_BY_TYPE = {
    "ReadOnlyError": _REPLICA,
    "OutOfMemoryError": _FULL,
    "MovedError": _ONE_NODE,
    "AuthenticationError": "refuses the user or the password; look at the address",
    "NoPermissionError": "does not allow that to this user; give it the permission, or the address another user",
    "BusyLoadingError": "is still loading its data; try again in a while",
    "TimeoutError": "does not answer; is it running, and is the address right?",
    "ConnectionError": "cannot be reached; is it running, and is the address right?",
}
"""By the name of the driver's error, whichever driver it is; the particular before the general."""


def in_words(error: LockStoreUnavailable, name: str) -> str:
    """Say what Redis refused.

    Arguments:
        error: What was raised; the driver's own error is its cause.
        name: The name of the Redis.
    """
    text = str(error.__cause__)
    types = {cls.__name__ for cls in type(error.__cause__).__mro__}
    words = next((words for sign, words in _BY_TEXT.items() if sign in text), None)
    words = words or next((words for sign, words in _BY_TYPE.items() if sign in types), f"failed: {error}")
    return f"Redis {name} {words}"
