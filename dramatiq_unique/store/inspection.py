"""Looking at the server that holds the locks: what it says of itself, and keys of ours that would stay for ever.

Looking changes nothing, and no command takes longer than a page of a scan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dramatiq_unique.store.lookups import PAGE, RAW, Lookups


__all__ = ["Inspection", "Server"]

_SECTIONS = ("server", "memory", "persistence", "replication")


@dataclass(frozen=True, slots=True)
class Server:
    """One server, as it stood.

    Arguments:
        info: What ``INFO`` says of it: ``server``, ``memory``, ``persistence``, ``replication``.
        saves: When it writes itself to disk (``save`` in its configuration); ``None`` where it does not tell.
        answer_ms: How long it took to answer, in milliseconds.
        ahead_ms: How far its clock is ahead of this host's, in milliseconds; half of ``answer_ms`` is uncertain.
    """

    info: dict[str, Any]
    saves: str | None
    answer_ms: float
    ahead_ms: float


class Inspection(Lookups):
    """The Redis of the locks, for whoever asks whether it is fit for them."""

    def servers(self) -> Iterator[Server]:
        """Ask each server: the one there is, or every master of a cluster."""
        for node in self._nodes():
            with self.translated("info"):
                before_s = time.time()
                seconds, microseconds = node.time()
                after_s = time.time()
                info: dict[str, Any] = {}
                for section in _SECTIONS:
                    info |= node.info(section)
            middle_s = (before_s + after_s) / 2
            yield Server(
                info=info,
                saves=self._saves(node),
                answer_ms=(after_s - before_s) * 1000,
                ahead_ms=(int(seconds) + int(microseconds) / 1_000_000 - middle_s) * 1000,
            )

    def count(self) -> int:
        """Count the keys of the database, those of others too."""
        with self.translated("dbsize"):
            return sum(int(node.dbsize()) for node in self._nodes())

    def unexpiring(self, *, on_page: Callable[[int], object] | None = None) -> Iterator[str]:
        """Walk all keys of the prefix, page by page, for those that have no expiry: each of ours has one.

        Arguments:
            on_page: Told after each page how many keys of the database that were, about.

        Yields:
            Its name, with bytes replaced that are not UTF-8.
        """
        for node in self._nodes():
            cursor = None
            while cursor != 0:
                with self.translated("scan"):
                    cursor, names = node.execute_command(
                        "SCAN", cursor or 0, "MATCH", self.every_lock, "COUNT", PAGE, **RAW
                    )
                    pipeline = node.pipeline(transaction=False)
                    for name in names:
                        pipeline.pttl(name)
                    lives = pipeline.execute()
                if on_page is not None:
                    on_page(PAGE)
                for name, ttl_ms in zip(names, lives, strict=True):
                    if int(ttl_ms) == -1:
                        yield name.decode(errors="replace")

    def _saves(self, node: Any) -> str | None:
        """Ask for the configuration, which a server that is somebody else's need not tell."""
        try:
            found = node.config_get("save")
        except self._errors:
            return None
        return next((str(value) for value in found.values()), None)
