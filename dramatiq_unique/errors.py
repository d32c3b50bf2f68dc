"""What this package raises.

::

    dramatiq.middleware.MiddlewareError
    └── UniqueError
        ├── InvalidLockOptions      the options of an actor or a message cannot work
        ├── DuplicateMessage        the lock is full and the strategy is "raise"
        └── LockStoreUnavailable    Redis cannot be reached, or refuses to work

The root is a :class:`dramatiq.middleware.MiddlewareError` because that is the only kind of exception that
Dramatiq lets out of a ``before_*`` hook (``Broker.emit_before``); anything else is logged there and the message
goes on, without its lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dramatiq.middleware import MiddlewareError


__all__ = ["DuplicateMessage", "InvalidLockOptions", "LockStoreUnavailable", "UniqueError", "as_ours", "ours"]


class UniqueError(MiddlewareError):
    """The root of everything this package raises on purpose."""


class InvalidLockOptions(UniqueError):
    """The lock options of an actor or a message cannot work, or do not fit its arguments.

    Raised when an actor is declared, when the middleware is made, and from ``send`` where the fault is in the
    options or the arguments of that one message.
    """


class DuplicateMessage(UniqueError):
    """The lock that a message needs is full, and ``on_conflict`` says ``"raise"``.

    Arguments:
        text: What happened, for people.
        message_id: The message that was refused.
        actor_name: Its actor.
        digest: The digest of the lock.
        holder_id: The ``message_id`` in the way.
    """

    def __init__(self, text: str, *, message_id: str, actor_name: str, digest: str, holder_id: str | None) -> None:
        super().__init__(text)
        self.message_id = message_id
        self.actor_name = actor_name
        self.digest = digest
        self.holder_id = holder_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it travel between processes, as errors do from worker pools and test runners."""
        ids = (self.message_id, self.actor_name, self.digest, self.holder_id)
        return _duplicate_message, (str(self), *ids)


def _duplicate_message(
    text: str, message_id: str, actor_name: str, digest: str, holder_id: str | None
) -> DuplicateMessage:
    return DuplicateMessage(text, message_id=message_id, actor_name=actor_name, digest=digest, holder_id=holder_id)


class LockStoreUnavailable(UniqueError):
    """Redis cannot be reached, or refuses to work (read-only, out of memory, no permission).

    The driver's own error is its ``__cause__``.

    Attributes:
        refused: Whether Redis answered, with an error; else nobody knows whether it did what it was told.
    """

    refused = False


def as_ours(error: Exception, doing: str) -> UniqueError:
    """Turn an error into one that Dramatiq lets out of a hook; any other it would swallow, and go on unlocked.

    Arguments:
        error: What was raised.
        doing: What could not be done, to which message and actor.
    """
    try:
        text = f": {error}"
    except Exception:  # noqa: BLE001 - whatever its own code raises here would be swallowed in its place
        text = ""
    return UniqueError(f"{doing}: {type(error).__name__}{text}")


@contextmanager
def ours(doing: str) -> Iterator[None]:
    """Turn whatever is raised in a block into an error of ours (:func:`as_ours`), unless it is one.

    Arguments:
        doing: What could not be done, to which actor.
    """
    try:
        yield
    except UniqueError:
        raise
    except Exception as exc:
        raise as_ours(exc, doing) from exc
