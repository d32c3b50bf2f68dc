"""Looking at the locks: those of one digest, or all of them page by page; and letting go of what was seen.

Looking changes nothing. Replies are read as bytes whatever the client decodes, since somebody else may have written
into our keys: what cannot be read is told, and nothing is raised for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import redis
from redis.client import NEVER_DECODE

from dramatiq_unique.store.prefixed import Prefixed
from dramatiq_unique.store.records import Holder, Kind
from dramatiq_unique.store.sighting import Sighting


__all__ = ["PAGE", "RAW", "Lookups"]

_KINDS = (Kind.QUEUE, Kind.RUN)
_STATES = ("w", "n", "r", "v", "f")
RAW: dict[str, Any] = {NEVER_DECODE: True}
"""Said to a command whose reply is wanted as bytes, whatever the client decodes."""
PAGE = 500
"""How many keys Redis walks at a time."""
_REMEMBERED = 10_000
"""How many digests a walk keeps in mind that it met once and will meet again, which is what keeps its memory constant.
Only those are that have both a queue lock and a run lock: as many as the workers run, as a rule."""

Fields = dict[bytes, bytes] | Exception
"""What stands in a key: nothing where there is none, and an error where it is no hash."""


class Lookups(Prefixed):
    """The locks of one prefix in one Redis, for looking at.

    Arguments:
        client: As for :class:`~dramatiq_unique.store.RedisStore`.
        prefix: What every key begins with.

    Every method raises :class:`~dramatiq_unique.LockStoreUnavailable`, from the driver's error, where Redis cannot
    be reached or refuses.
    """

    def __init__(self, client: redis.Redis, *, prefix: str) -> None:
        super().__init__(client, prefix, ["release"])

    def look(self, digest: str) -> Sighting:
        """Look at the two locks of a digest.

        Arguments:
            digest: The digest; one that nobody knows has no holders.
        """
        with self.translated("look"):
            client: Any = self.client
            node = client.get_node_from_key(self.key(digest, Kind.QUEUE)) if _is_cluster(client) else None
            now_ms = _now_ms(client if node is None else client.get_redis_connection(node))
            [sighting] = self._read([digest], now_ms)
        return sighting

    def walk(self, *, page: int = PAGE, on_page: Callable[[int], object] | None = None) -> Iterator[Sighting]:
        """Look at every digest that has a lock, in no order.

        Each comes once, as far as ``SCAN`` allows: what is there from beginning to end comes; what comes or goes
        meanwhile may; a digest comes twice where Redis resizes its table meanwhile, or more than 10,000 digests have
        both locks.

        Arguments:
            page: How many keys Redis walks at a time.
            on_page: Told after each page how many keys of the database that were, about.
        """
        again: dict[str, bool] = {}
        for node in self._nodes():
            cursor = None
            while cursor != 0:
                with self.translated("scan"):
                    cursor, names = node.execute_command(
                        "SCAN", cursor or 0, "MATCH", self.every_lock, "COUNT", page, **RAW
                    )
                    kinds = self._kinds_by_digest(names)
                    new = [digest for digest in kinds if not again.pop(digest, False)]
                    sightings = self._read(new, _now_ms(node)) if new else []
                again |= {seen.digest: True for seen in sightings if seen.has_both and len(kinds[seen.digest]) == 1}
                while len(again) > _REMEMBERED:
                    del again[next(iter(again))]
                if on_page is not None:
                    on_page(page)
                yield from sightings

    def release(self, digest: str, kind: Kind, message_id: str, *, since_ms: int, token: str) -> int | None:
        """Let go of a lock on behalf of its holder, if that still stands there as it was seen.

        Arguments:
            digest: The digest of the lock.
            kind: Which of its two locks; those who wait for a run lock are woken.
            message_id: The holder.
            since_ms: Since when it was seen to have the lock.
            token: The delivery that it was seen with.

        Returns:
            How long it was held, in milliseconds; ``None`` where it has gone, or is another by now.
        """
        channel = self._channel(digest) if kind is Kind.RUN else ""
        held_ms = int(self._call("release", [self.key(digest, kind)], [message_id, since_ms, token, channel]))
        return held_ms if held_ms >= 0 else None

    def _nodes(self) -> Sequence[Any]:
        """List the clients that between them reach every key."""
        client: Any = self.client
        if not _is_cluster(client):
            return [client]
        with self.translated("scan"):
            return [client.get_redis_connection(node) for node in client.get_primaries()]

    def _kinds_by_digest(self, names: Iterable[bytes]) -> dict[str, set[str]]:
        """Sort a page of keys by digest."""
        kinds: dict[str, set[str]] = {}
        for name in names:
            # One that is not UTF-8 has a digest that nobody computes: whatever it is, it locks nothing.
            digest, _, kind = name.decode(errors="replace").removeprefix(f"{self.prefix}:{{").rpartition("}:")
            if kind in (Kind.QUEUE.value, Kind.RUN.value):
                kinds.setdefault(digest, set()).add(kind)
        return kinds

    def _read(self, digests: Sequence[str], now_ms: int) -> list[Sighting]:
        """Read the keys of some digests in one pipelined call."""
        pipeline: Any = self.client.pipeline(transaction=False)
        for digest in digests:
            for kind in _KINDS:
                pipeline.execute_command("HGETALL", self.key(digest, kind), **RAW)
        replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception) and not str(reply).startswith("WRONGTYPE"):
                raise reply  # It says nothing of the key.
        queue_locks, run_locks = replies[::2], replies[1::2]
        return [
            self._sighting(digest, queue, run, now_ms)
            for digest, queue, run in zip(digests, queue_locks, run_locks, strict=True)
        ]

    def _sighting(self, digest: str, queue: Fields, run: Fields, now_ms: int) -> Sighting:
        found: list[tuple[Holder, ...]] = []
        unreadable = None
        for kind, fields in zip(_KINDS, (queue, run), strict=True):
            try:
                found.append(tuple(holder for holder in _holders(fields) if holder.deadline_ms > now_ms))
            except ValueError as exc:
                found.append(())
                reason = "it has bytes that are not UTF-8" if isinstance(exc, UnicodeError) else str(exc)
                unreadable = (
                    f"what stands in key {self.key(digest, kind)!r} is no lock of ours: {reason}; look at it, and "
                    "delete it"
                )
        waiting, running = found
        return Sighting(digest, now_ms, waiting, running, has_both=bool(queue and run), unreadable=unreadable)


def _is_cluster(client: Any) -> bool:
    # Not by class: a cluster's client of valkey-py is one of its own.
    return hasattr(client, "get_primaries")


def _now_ms(node: Any) -> int:
    seconds, microseconds = node.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def _holders(fields: Fields) -> list[Holder]:
    """Read the holders of a lock, the oldest first.

    Raises:
        ValueError: It is no lock of ours; the text says why, except where it is not UTF-8.
    """
    if not fields:
        return []
    if isinstance(fields, Exception):
        raise ValueError("it is no hash")  # noqa: TRY004 - as for everything else that it may be
    texts = {field.decode(): value.decode() for field, value in fields.items()}
    ids = [field.removeprefix("o:") for field in texts if field.startswith("o:")]
    if not ids:
        raise ValueError("it has no holder")
    holders = []
    for message_id in ids:
        try:
            holder = Holder.parse(message_id, *(texts.get(f"{part}:{message_id}", "") for part in "opqia"))
        except ValueError:
            holder = None
        if holder is None or holder.state not in _STATES:
            raise ValueError(f"the record of its holder {message_id!r} is malformed")
        holders.append(holder)
    return sorted(holders, key=lambda holder: (holder.since_ms, holder.message_id))
