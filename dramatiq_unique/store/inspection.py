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
            with self.translated("time"):
                before_s = time.time()
                seconds, microseconds = node.time()
                after_s = time.time()
            info: dict[str, Any] = {}
            for section in _SECTIONS:
                info |= self._asked("info", node.info, section) or {}
            middle_s = (before_s + after_s) / 2
            yield Server(
                info=info,
                saves=next(iter((self._asked("config", node.config_get, "save") or {}).values()), None),
                answer_ms=(after_s - before_s) * 1000,
                ahead_ms=(int(seconds) + int(microseconds) / 1_000_000 - middle_s) * 1000,
            )

    def is_one_of_several(self) -> bool:
        """Tell whether the one server that the client knows is a node of a cluster, whose others would be missed."""
        told = self._asked("info", self.client.info, "cluster") or {}
        return bool(int(told.get("cluster_enabled", 0)))

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

    def _asked(self, operation: str, ask: Callable[[str], Any], what: str) -> dict[str, Any] | None:
        """Ask the server about itself, which it need not tell everybody."""
        with self.translated(operation):
            try:
                told: dict[str, Any] = ask(what)
            except self._errors as exc:
                if not _is_refusal(exc):
                    raise
                return None
            return told


def _is_refusal(error: Exception) -> bool:
    """Tell a command that this server or user does not have from a server that does not work."""
    return "NoPermissionError" in {cls.__name__ for cls in type(error).__mro__} or "unknown command" in str(error)
