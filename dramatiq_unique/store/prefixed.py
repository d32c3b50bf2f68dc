"""One prefix in one Redis: its keys, its scripts, and what the driver raises there.

The keys of a digest share a hash tag, so that a script finds them on one node of a cluster::

    <prefix>:{<digest>}:queue        the queue lock
    <prefix>:{<digest>}:run          the run lock
    <prefix>:{<digest>}:superseded   the messages whose place another took, until they come up
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import redis

from dramatiq_unique.errors import LockStoreUnavailable
from dramatiq_unique.store.connection import errors_of
from dramatiq_unique.store.records import Kind


__all__ = ["Prefixed", "as_text", "source_with", "unavailable"]


_SCRIPTS = Path(__file__).parent / "scripts"
_COMMON = ("_record", "_holders", "_superseded")
"""What each script begins with."""


class Prefixed:
    """The keys of one prefix in one Redis.

    Arguments:
        client: A synchronous client: :class:`redis.Redis`, a Sentinel's master, :class:`redis.RedisCluster`, or
            ``fakeredis.FakeRedis``; with or without ``decode_responses``.
        prefix: What every key begins with.
        operations: The scripts that are called.
    """

    def __init__(self, client: redis.Redis, prefix: str, operations: Iterable[str]) -> None:
        self.client = client
        self.prefix = prefix
        self._errors = errors_of(client)
        self._scripts = {name: client.register_script(_source(name)) for name in operations}

    def key(self, digest: str, kind: Kind | Literal["superseded"]) -> str:
        """Name the key of a digest's queue lock, run lock, or memory of superseded messages."""
        return f"{self.prefix}:{{{digest}}}:{kind if kind == 'superseded' else kind.value}"

    @property
    def every_lock(self) -> str:
        """The pattern of all keys, for ``SCAN``: no character of the prefix means another one there."""
        return re.sub(r"([*?\[\]^\\-])", r"\\\1", self.prefix) + ":{*}:*"

    def _channel(self, digest: str) -> str:
        return f"{self.prefix}:{{{digest}}}:released"

    @contextmanager
    def translated(self, operation: str) -> Iterator[None]:
        """Turn the driver's errors into ours; their text names host and port, never a password."""
        try:
            yield
        except self._errors as exc:
            raise unavailable(operation, exc) from exc

    def _call(self, operation: str, keys: list[str], args: list[str | int]) -> Any:
        try:  # What `translated` does; every message comes through here, and it would cost each one a generator.
            return as_text(self._scripts[operation](keys=keys, args=args))
        except self._errors as exc:
            raise unavailable(operation, exc) from exc


def unavailable(operation: str, error: Exception) -> LockStoreUnavailable:
    """Say of an error of the driver's what was asked for."""
    made = LockStoreUnavailable(f"the lock store failed at {operation!r}: {type(error).__name__}: {error}")
    # By name, since valkey-py has one of its own.
    made.refused = any(cls.__name__ == "ResponseError" for cls in type(error).__mro__)
    return made


@cache
def _source(operation: str) -> str:
    return "\n".join((_SCRIPTS / f"{part}.lua").read_text(encoding="utf-8") for part in (*_COMMON, operation))


def source_with(script: str) -> str:
    """Write the script ``send``: ``acquire``, with another script inside that stores the message."""
    acquire = (_SCRIPTS / "acquire.lua").read_text(encoding="utf-8")
    return _source("send").replace("--[[acquire]]", acquire).replace("--[[store]]", script)


def as_text(reply: Any) -> Any:
    """Decode a reply, whether or not the client did it already."""
    if isinstance(reply, bytes):
        return reply.decode()
    return [as_text(item) for item in reply] if isinstance(reply, list) else reply
