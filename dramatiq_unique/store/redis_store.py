"""The locks in Redis: one small script for each operation, one key for each lock.

The scripts rely on effects replication (they read ``TIME`` and then write), which is what Redis 5 and later do by
default and Redis 7 always does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import redis
from redis.client import PubSub

from dramatiq_unique.errors import LockStoreUnavailable
from dramatiq_unique.store.prefixed import Prefixed, source_with, unavailable
from dramatiq_unique.store.records import Holder, Kind, Lease, Request, Storing, Terms
from dramatiq_unique.store.replies import Acquired, Begun, Finished, acquired, begun


__all__ = ["RedisStore"]

_OPERATIONS = ("acquire", "begin", "confirm", "finish", "renew", "restore")
_CONFIRMATION_S = 5.0

QueueOwner = Literal["delivery", "message", "anybody"]


class RedisStore(Prefixed):
    """The locks of one prefix in one Redis.

    Arguments:
        client: A synchronous client: :class:`redis.Redis`, a Sentinel's master, :class:`redis.RedisCluster`, or
            ``fakeredis.FakeRedis``; with or without ``decode_responses``.
        prefix: What every key begins with.
        memory_ms: How long a replaced message is remembered, in milliseconds.

    Every method raises :class:`~dramatiq_unique.LockStoreUnavailable`, from the driver's error, where Redis cannot
    be reached or refuses.
    """

    def __init__(self, client: redis.Redis, *, prefix: str, memory_ms: int) -> None:
        super().__init__(client, prefix, _OPERATIONS)
        self._memory_ms = memory_ms

    def acquire(
        self, request: Request, terms: Terms, *, orphan: Holder | None = None, storing: Storing | None = None
    ) -> Acquired:
        """Take the queue lock for a message, or keep the one it has.

        Arguments:
            request: Which lock, for whom.
            terms: On what terms.
            orphan: A holder whose message is gone: dropped first, if it stands there unchanged. Not with ``storing``.
            storing: The message, to be stored in the same step where it has its lock (:meth:`prepare_storing`).
        """
        keys = [self.key(request.digest, Kind.QUEUE), self.key(request.digest, "superseded")]
        token, taken_ms, taken_state, kept_ms, kept_state, takeover, delivery = terms
        order = (
            f"{token} {request.limit} {taken_ms} {taken_state} {kept_ms} {kept_state} {takeover:d} {delivery} "
            f"{self._memory_ms}"
        )
        args = [request.message_id, request.packed(order)]
        if storing is None:
            answer = self._call("acquire", keys, [*args, _compared(orphan)])
        else:
            answer = self._call(
                "send", [*keys, storing.bodies, *storing.keys], [*args, storing.broker_id, *storing.args]
            )
        return acquired(answer)

    def prepare_storing(self, script: str) -> None:
        """Be ready to store messages together with their locks.

        Arguments:
            script: The one by which their broker stores a message.
        """
        self._scripts["send"] = self.client.register_script(source_with(script))

    def begin(
        self,
        request: Request,
        *,
        token: str,
        queue: str,
        run: bool,
        lease_ms: int,
        hold_ms: int,
        orphan: Holder | None = None,
    ) -> Begun:
        """Settle the queue lock of a message that starts, and take its run lock, in one step.

        Arguments:
            request: Which lock, for whom.
            token: The token of this delivery.
            queue: What to do with the queue lock: ``"start"`` lets it go, ``"end"`` and ``"take"`` keep it or take it
                (``"end"`` for one more lease at least), ``"mark"`` only says that the message runs, ``""``: none.
            run: Whether a run lock is taken.
            lease_ms: How long the locks of a running message are kept at a time, in milliseconds.
            hold_ms: How long a queue lock that has to be taken now is held, in milliseconds.
            orphan: A holder of the queue lock whose message is gone: dropped first, if it stands there unchanged.
        """
        order = f"{token} {run:d} {request.limit} {lease_ms} {hold_ms} {queue}"
        answer = self._call(
            "begin",
            [self.key(request.digest, kind) for kind in (Kind.QUEUE, Kind.RUN, "superseded")],
            [request.message_id, request.packed(order), _compared(orphan)],
        )
        return begun(answer)

    def finish(
        self,
        digest: str,
        message_id: str,
        *,
        token: str,
        queue: QueueOwner | None,
        run: bool,
        sent_as: str = "",
        since_ms: int | None = None,
    ) -> Finished:
        """Let go of locks that the message owns.

        Arguments:
            digest: The digest of the locks.
            message_id: The owner of the queue lock.
            token: The delivery that owns the run lock.
            queue: Who lets the queue lock go: the ``"delivery"``, or the ``"message"``, which has ended, whichever
                delivery of it had started last; neither where it was sent again since (``since_ms``). ``"anybody"``
                lets it go even then. ``None`` keeps it.
            run: Whether to let the run lock go; those who wait for it are woken.
            sent_as: The token of the enqueue that the delivery comes from; with a space between, where it may be that
                of either of several.
            since_ms: How long ago the delivery began, in milliseconds, if nothing at the server says so. The message
                then lets its queue lock go even where it was sent again before: whoever did that may have been killed.

        Returns:
            What was this owner's, and is gone.
        """
        held_ms = self._call(
            "finish",
            [self.key(digest, Kind.QUEUE), self.key(digest, Kind.RUN)],
            [message_id, f"{queue or ''} {run:d} {'' if since_ms is None else since_ms} {token} {sent_as}"],
        )
        return Finished(*(ms if ms >= 0 else None for ms in map(int, held_ms.split())))

    def renew(self, leases: Sequence[Lease]) -> list[bool | LockStoreUnavailable]:
        """Keep the locks of everything that runs in this process, in one pipelined call.

        In a cluster it is one call for each lock: redis-py pipelines no scripts there.

        Arguments:
            leases: What runs.

        Returns:
            For each, whether it was kept, false where the lease was lost; or why Redis refused that one.
        """
        if isinstance(self.client, redis.RedisCluster):
            return [self._renewed(lease) for lease in leases]
        with self.translated("renew"):
            pipeline = self.client.pipeline(transaction=False)
            for lease in leases:
                self._scripts["renew"](
                    keys=[self.key(lease.digest, lease.kind)],
                    args=[lease.message_id, lease.token, lease.lease_ms],
                    client=pipeline,
                )
            replies = pipeline.execute(raise_on_error=False)
        return [unavailable("renew", kept) if isinstance(kept, Exception) else bool(kept) for kept in replies]

    def _renewed(self, lease: Lease) -> bool | LockStoreUnavailable:
        args: list[str | int] = [lease.message_id, lease.token, lease.lease_ms]
        try:
            return bool(self._call("renew", [self.key(lease.digest, lease.kind)], args))
        except LockStoreUnavailable as exc:
            return exc

    def keep(self, digest: str, message_id: str, hold_ms: int, *, over: str = "") -> bool:
        """Keep the queue lock of a message that still has it, and note that it was seen.

        Arguments:
            digest: The digest of the lock.
            message_id: The message.
            hold_ms: For how long from now at least, in milliseconds; 0 only notes that it was seen.
            over: The delivery that is over whose job had sent it again, so that it waits, unless it has started since.

        Returns:
            Whether it still had it.
        """
        args: list[str | int] = [message_id, "", hold_ms, over]
        return bool(self._call("renew", [self.key(digest, Kind.QUEUE)], args))

    def restore(self, digest: str, message_id: str, *, token: str, replaced_id: str = "") -> bool:
        """Undo what the enqueue of a message that was not stored did to the lock, and nothing that was done since.

        A lock that it took is given back, to the holder whose place it took if there is one. One that its message had
        before stays with the message.

        Arguments:
            digest: The digest of the lock.
            message_id: The message that was not stored.
            token: The token of the enqueue.
            replaced_id: Whose place it had taken, where that is known.

        Returns:
            False where the replaced message had come up in between, and was skipped.
        """
        keys = [self.key(digest, Kind.QUEUE), self.key(digest, "superseded")]
        return bool(self._call("restore", keys, [message_id, token, replaced_id]))

    def confirm(self, digest: str, replaced_id: str, by_id: str) -> None:
        """Note that a message which took the place of another is stored now."""
        self._call("confirm", [self.key(digest, "superseded")], [replaced_id, by_id])

    def forget(self, digest: str, message_id: str) -> None:
        """Forget that a message was superseded, once it is gone from the broker."""
        with self.translated("forget"):
            self.client.hdel(self.key(digest, "superseded"), message_id)

    @contextmanager
    def releases(self, digest: str) -> Iterator[Callable[[float], None]]:
        """Listen for releases of a run lock.

        Arguments:
            digest: The digest of the lock.

        Yields:
            A function that waits for the next release, or so many seconds.
        """
        with self.client.pubsub() as pubsub:
            with self.translated("subscribe"):
                pubsub.subscribe(self._channel(digest))
                pubsub.get_message(timeout=_CONFIRMATION_S)  # From here on no release is missed.
            yield lambda seconds: self._wait(pubsub, seconds)

    def _wait(self, pubsub: PubSub, seconds: float) -> None:
        with self.translated("wait"):
            pubsub.get_message(timeout=seconds)


def _compared(orphan: Holder | None) -> str:
    """Name a holder, and the record that it must still have."""
    return f"{orphan.message_id}\n{orphan.fields[0]}" if orphan else ""
