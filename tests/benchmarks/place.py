"""Where a run takes place: private Redis servers, each with nothing else in it."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Any

import redis

from tests.servers import HOST, RedisServer


__all__ = ["Place"]


class Place(ExitStack):
    """Starts what a bench asks for, and stops it with the ``with`` block."""

    def server(self) -> RedisServer:
        """Start a Redis."""
        return self.enter_context(RedisServer())

    def client(self, server: RedisServer) -> Any:
        """Connect to one."""
        return self.enter_context(redis.Redis(host=HOST, port=server.port))

    def log(self) -> IO[bytes]:
        """Open a file for what nobody reads unless something fails."""
        return self.enter_context(TemporaryFile())
