"""Who holds which lock, what would happen to a message, and letting go of a lock by hand.

::

    unique.locks.find(reindex_product, 42)        # who has the lock of such a message
    unique.locks.explain(reindex_product, 42)     # what would happen to one that is sent now
    unique.locks.release_matching("reindex_*")    # free them all

Looking changes nothing. All of it is also there for a program that has no broker, with a client and a prefix, except
what goes by actor::

    Locks(redis.Redis.from_url(url))
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from dramatiq import Actor, Message

from dramatiq_unique.errors import InvalidLockOptions, UniqueError
from dramatiq_unique.events import Released
from dramatiq_unique.explaining import Explaining
from dramatiq_unique.explanation import Explanation
from dramatiq_unique.holders import Lock, LockHolder
from dramatiq_unique.journal import Journal
from dramatiq_unique.store import NO_PREFIX, Client, Kind, Lookups, Sighting, is_prefix, is_synchronous, kind_of


__all__ = ["Explanation", "Lock", "LockHolder", "Locks"]


class Locks:
    """The locks of one prefix in one Redis, to look at and to let go.

    Every method raises :class:`~dramatiq_unique.LockStoreUnavailable` where Redis cannot be reached or refuses.

    Arguments:
        client: The Redis that holds the locks, as for :class:`~dramatiq_unique.UniqueMiddleware`.
        prefix: What every key begins with.
        on: Finds what explains the messages of an actor's broker; given by the middleware.
        journal: Where releases are told; given by the middleware.
        one_step: Whether sends take one step; given by the middleware.

    Raises:
        InvalidLockOptions: The client or the prefix is none.
    """

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = "dramatiq-unique",
        on: Callable[[Actor[Any, Any]], Explaining] | None = None,
        journal: Journal | None = None,
        one_step: bool = False,
    ) -> None:
        if not is_synchronous(client):
            raise InvalidLockOptions(
                f"Locks: client must be a synchronous client such as redis.Redis, not {kind_of(client)}"
            )
        if not is_prefix(prefix):
            raise InvalidLockOptions(f"Locks: prefix {NO_PREFIX}; not {prefix!r}")
        self._lookups = Lookups(client, prefix=prefix)
        self._on = on
        self._journal = journal or Journal()
        self._one_step = one_step

    @property
    def one_step(self) -> bool:
        """Whether a send takes its lock and stores its message in one step, which costs no round trip more.

        So it is on Dramatiq's own Redis broker whose messages are in the Redis that holds the locks. Elsewhere, and
        where these locks were made without a broker, it is false: a send takes two steps.
        """
        return self._one_step

    def get(self, digest: str) -> Lock | None:
        """Look at the locks of a digest.

        Arguments:
            digest: The digest, as :func:`~dramatiq_unique.outcome`, events and lines name it.

        Returns:
            Its locks and who has them now, by the clock of the Redis server; ``None`` where nobody has.

        Raises:
            UniqueError: Somebody else wrote into one of its keys; the text names the key. Or it is no digest.
        """
        return _held(self._lookups.look(_text(digest, "a lock goes by its digest, as outcome(message).digest")))

    def find(self, actor: Actor[Any, Any], /, *args: Any, **kwargs: Any) -> Lock | None:
        """Look at the locks that such a message would ask for.

        Arguments:
            actor: The actor.
            args: Positional arguments of the message.
            kwargs: Its keyword arguments.

        Returns:
            As :meth:`get`; ``None`` also where the actor has no lock.

        Raises:
            InvalidLockOptions: The actor's options do not fit the arguments (``lock_args_method`` raises).
            UniqueError: As :meth:`get`; or this was made without a broker, or the actor is on another one.
        """
        explaining, message = self._message("find", actor, args, kwargs)
        seen = explaining.look(message)
        return None if seen is None else _held(seen)

    def iter(
        self, pattern: str = "*", *, queue: str | None = None, on_page: Callable[[int], object] | None = None
    ) -> Iterator[Lock]:
        """Walk all locks, page by page in constant memory, in no order.

        Each digest comes once, as far as ``SCAN`` allows: a lock that is taken or let go meanwhile may come or not,
        and one may come twice where Redis resizes its table meanwhile.

        Arguments:
            pattern: A glob (``*``, ``?``, ``[...]``), compared with the name of the actor and with the digest; upper
                and lower case differ.
            queue: Only holders on this queue.
            on_page: Told after each page how many keys of the database were looked at, about; for a progress bar.

        Yields:
            Each lock with those of its holders that match. Where somebody else wrote into one of its keys,
            ``unreadable`` says so (unless ``queue`` is given), and there may be no holder.
        """
        _text(pattern, "a pattern is a string, as 'reindex_*'")
        for seen in self._lookups.walk(on_page=on_page):
            lock = Lock.of(seen)
            named = fnmatchcase(lock.digest, pattern)
            holders = tuple(
                holder
                for holder in lock.holders
                if (named or fnmatchcase(holder.actor_name, pattern)) and queue in (None, holder.queue_name)
            )
            if holders or (lock.unreadable is not None and named and queue is None):
                yield lock if holders == lock.holders else replace(lock, holders=holders)

    def release(self, lock: Lock | str, *, message_id: str | None = None) -> int:
        """Let go of a lock by hand, and tell ``released`` for each holder.

        A message that waits is not removed by this: it runs when it comes up, and tells ``lapsed``; another copy may
        be enqueued meanwhile. Beside a message that runs, another copy may run from now on; its worker tells
        ``lease_lost``. No ``after_unlock`` is called by this.

        Arguments:
            lock: What was looked at: a holder is let go only if it still stands as it was seen. Or a digest, which is
                looked at now.
            message_id: Only this holder.

        Returns:
            How many holders were let go; one that has the queue lock and the run lock counts twice.

        Raises:
            UniqueError: As :meth:`get`, where a digest is given.
        """
        if not isinstance(lock, Lock):
            found = self.get(lock)
            if found is None:
                return 0
            lock = found
        return sum(
            self._release(lock.digest, holder) for holder in lock.holders if message_id in (None, holder.message_id)
        )

    def release_matching(self, pattern: str, *, queue: str | None = None) -> int:
        """Let go of every holder that :meth:`iter` finds, as :meth:`release` does.

        Arguments:
            pattern: As for :meth:`iter`.
            queue: Only holders on this queue.

        Returns:
            How many holders were let go. A key that cannot be read is left alone.
        """
        return sum(self.release(lock) for lock in self.iter(pattern, queue=queue))

    def explain(self, actor: Actor[Any, Any], /, *args: Any, **kwargs: Any) -> Explanation:
        """Say what would happen to such a message if a program sent it now, and because of whom, changing nothing.

        A strategy of your own is called, as if the message were sent; the Redis broker is asked whether the message of
        a holder exists. What other middleware would do with the message is not foretold.

        Arguments:
            actor: The actor.
            args: Positional arguments of the message.
            kwargs: Its keyword arguments.

        Returns:
            The explanation; as a string, a sentence.

        Raises:
            InvalidLockOptions: The actor's options do not fit the arguments; ``send`` would raise this.
            UniqueError: As :meth:`find`.
        """
        explaining, message = self._message("explain", actor, args, kwargs)
        return explaining.explain(message)

    def _message(
        self, asked: str, actor: Actor[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Explaining, Message[Any]]:
        """Make a message that is not sent."""
        if self._on is None:
            raise UniqueError(
                f"{asked} goes by an actor, and these locks were made without a broker: use UniqueMiddleware.locks, or "
                "look by digest or pattern"
            )
        if not hasattr(actor, "message") or not hasattr(actor, "broker"):
            raise UniqueError(f"{asked} takes an actor and then its arguments, not {type(actor).__qualname__}")
        return self._on(actor), actor.message(*args, **kwargs)

    def _release(self, digest: str, holder: LockHolder) -> bool:
        held_ms = self._lookups.release(
            digest, Kind(holder.kind), holder.message_id, since_ms=holder.since_ms, token=holder.token
        )
        if held_ms is None:
            return False
        event = Released(
            message_id=holder.message_id,
            actor_name=holder.actor_name,
            queue_name=holder.queue_name,
            digest=digest,
            lock="",  # Redis does not know it.
            kind=holder.kind,
            held_ms=held_ms,
        )
        self._journal.tell(event, level=logging.INFO)
        return True


def _text(given: object, right: str) -> str:
    if not isinstance(given, str):
        raise UniqueError(f"{right}, not {type(given).__qualname__}")
    return given


def _held(seen: Sighting) -> Lock | None:
    """Present what the store saw, if anybody holds it."""
    lock = Lock.of(seen.checked())
    return lock if lock.holders else None
