"""Servers that belong together: a cluster of three masters, and a master with a replica and a Sentinel."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis
from redis.cluster import ClusterNode
from redis.sentinel import Sentinel

from tests.rig import eventually
from tests.servers import HOST, RedisServer, executables, free_port, skip_or_fail


SLOTS = 16_384


@contextmanager
def cluster() -> Iterator["redis.RedisCluster"]:
    """Three masters with all slots, and a client of them."""
    with ExitStack() as stack:
        servers = [stack.enter_context(RedisServer(cluster_enabled="yes")) for _ in range(3)]
        clients: list[Any] = [stack.enter_context(redis.Redis(host=HOST, port=server.port)) for server in servers]
        share = SLOTS // len(clients) + 1
        for number, client in enumerate(clients):
            client.cluster("ADDSLOTS", *range(number * share, min((number + 1) * share, SLOTS)))
            client.cluster("SET-CONFIG-EPOCH", number + 1)
        for server in servers[1:]:
            clients[0].cluster("MEET", HOST, server.port)
        eventually(lambda: all(_is_whole(client) for client in clients), 30)
        connected: Any = redis.RedisCluster(startup_nodes=[ClusterNode(HOST, server.port) for server in servers])
        yield stack.enter_context(connected)


def _is_whole(client: Any) -> bool:
    info = client.cluster("INFO")
    return bool(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3")


class Pair:
    """A master with one replica, watched by a Sentinel.

    Args:
        master: The master at first.
        sentinel: A client of the Sentinel.
    """

    name = "locks"

    def __init__(self, master: RedisServer, sentinel: Sentinel) -> None:
        self.master = master
        self.sentinel = sentinel

    def fail_over(self) -> None:
        """Kill the master, and wait until the replica was made one."""
        before = self.sentinel.discover_master(self.name)
        self.master.stop()
        eventually(lambda: self._elected() not in (None, before), 40)

    def _elected(self) -> tuple[str, int] | None:
        try:
            elected: tuple[str, int] = self.sentinel.discover_master(self.name)
        except redis.RedisError:
            return None
        return elected


@contextmanager
def pair() -> Iterator[Pair]:
    """A master, a replica and one Sentinel that decides alone."""
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer())
        replica = stack.enter_context(RedisServer())
        with redis.Redis(host=HOST, port=replica.port) as client:
            client.replicaof(HOST, master.port)
            eventually(lambda: client.info("replication")["master_link_status"] == "up", 20)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dramatiq-unique-")))
        port = free_port()
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {port}\nbind {HOST}\ndir {folder}\n"
            f"sentinel monitor {Pair.name} {HOST} {master.port} 1\n"
            f"sentinel down-after-milliseconds {Pair.name} 500\n"
            f"sentinel failover-timeout {Pair.name} 5000\n",
            encoding="utf-8",
        )
        executable = next(iter(executables().values()), None)
        if executable is None:
            skip_or_fail("no redis-server to run as a Sentinel")
        process = subprocess.Popen(
            [executable, config, "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        sentinel = Sentinel([(HOST, port)], socket_timeout=1)
        eventually(lambda: _knows_replica(sentinel), 30)
        yield Pair(master, sentinel)


def _knows_replica(sentinel: Sentinel) -> bool:
    try:
        return len(sentinel.discover_slaves(Pair.name)) == 1
    except redis.RedisError:
        return False
