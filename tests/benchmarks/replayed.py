"""A connection without a server: it answers at once what the server answered to the same command before.

So the Python of a send can be timed with nothing of Redis and nothing of the network in it, while redis-py does all
that it does: it packs the command, keeps its pool, and parses the reply.
"""

from __future__ import annotations

import errno
from typing import Any

import redis


__all__ = ["replaying"]

_HEAD = 72
"""So much of a command tells which it is: the number of its arguments, its name, and the name of its script."""


class _Socket:
    """A socket that learns, and once it was told to, replays."""

    def __init__(self, real: Any, known: _Known) -> None:
        self._real = real
        self._known = known
        self._asked = b""
        self._answer = b""

    def sendall(self, data: bytes) -> None:
        self._asked = bytes(data[:_HEAD])
        if self._known.replays:
            self._answer = self._known.answers[self._asked]
        else:
            self._known.answers[self._asked] = b""
            self._real.sendall(data)

    def recv(self, size: int) -> bytes:
        if not self._known.replays:
            data: bytes = self._real.recv(size)
            self._known.answers[self._asked] += data
            return data
        answer, self._answer = self._answer, b""
        if not answer:
            raise BlockingIOError(errno.EWOULDBLOCK, "nothing to read")
        return answer

    def settimeout(self, seconds: float | None) -> None:
        if not self._known.replays:
            self._real.settimeout(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Known:
    def __init__(self) -> None:
        self.answers: dict[bytes, bytes] = {}
        self.replays = False


class Replaying(redis.Redis):
    """A client that learns what the server answers until :meth:`replay`, and asks it nothing from then on."""

    known: _Known

    def learn(self) -> None:
        """Ask the server again from now on."""
        self.known.replays = False

    def replay(self) -> None:
        """Answer from memory from now on."""
        self.known.replays = True


def replaying(host: str, port: int) -> Replaying:
    """Make such a client, for one thread."""
    known = _Known()

    class Connection(redis.Connection):
        def _connect(self) -> Any:
            return _Socket(super()._connect(), known)  # type: ignore[no-untyped-call]

    client = Replaying(connection_pool=redis.ConnectionPool(connection_class=Connection, host=host, port=port))
    client.known = known
    return client
