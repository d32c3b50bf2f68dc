"""``doctor``: one line for each check, and an exit code."""

import json
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from dramatiq_unique.cli.findings import of_server
from dramatiq_unique.store import Server
from tests.cli.conftest import Command, Shop
from tests.cli.shell import run
from tests.engines.topology import cluster
from tests.rig import eventually
from tests.servers import HOST, RedisServer


BROKER = ("--broker", "tests.cli.shop:broker")


def verdicts(out: str) -> dict[str, tuple[str, str]]:
    """Read what was found, by check."""
    return {line[9:21].strip(): (line[:8].strip(), line[22:]) for line in out.splitlines()}


HEALTHY: dict[str, Any] = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "maxmemory": 0,
    "aof_enabled": 1,
    "rdb_last_bgsave_status": "ok",
    "aof_last_write_status": "ok",
}


class TestServer:
    """Whether locks are safe there."""

    @pytest.mark.parametrize(
        ("check", "changed", "verdict"),
        [
            ("version", {}, "ok"),
            ("version", {"redis_version": "6.2.0"}, "ok"),
            ("version", {"redis_version": "6.0.16"}, "fault"),
            ("version", {"redis_version": "7.2.4", "valkey_version": "8.0.1"}, "ok"),
            ("version", {"redis_version": ""}, "warning"),
            ("role", {}, "ok"),
            ("role", {"role": "slave"}, "fault"),
            ("role", {"role": None}, "skipped"),
            ("eviction", {}, "ok"),
            ("eviction", {"maxmemory_policy": "volatile-lru"}, "warning"),
            ("eviction", {"maxmemory_policy": "allkeys-lru", "maxmemory": 1000}, "fault"),
            ("eviction", {"maxmemory_policy": None}, "warning"),
            ("persistence", {}, "ok"),
            ("persistence", {"aof_enabled": 0}, "warning"),
            ("persistence", {"rdb_last_bgsave_status": "err"}, "fault"),
            ("persistence", {"aof_last_write_status": "err"}, "fault"),
        ],
    )
    def test_what_it_says_of_itself_is_judged(self, check: str, changed: dict[str, Any], verdict: str) -> None:
        """And whatever is not in order comes with advice."""
        server = Server({**HEALTHY, **changed}, saves="", answer_ms=1, ahead_ms=0)
        [finding] = [finding for finding in of_server(server, "here") if finding.check == check]
        assert finding.verdict == verdict
        assert bool(finding.advice) == (verdict in ("warning", "fault"))

    @pytest.mark.parametrize(("saves", "verdict"), [("3600 1", "ok"), ("", "warning"), (None, "skipped")])
    def test_snapshots_are_better_than_nothing(self, saves: str | None, verdict: str) -> None:
        """A server that does not tell is not blamed."""
        server = Server({**HEALTHY, "aof_enabled": 0}, saves=saves, answer_ms=1, ahead_ms=0)
        assert [f.verdict for f in of_server(server, "here") if f.check == "persistence"] == [verdict]

    @pytest.mark.parametrize(
        ("ahead_ms", "answer_ms", "clock", "connection"),
        [
            (10, 1, "ok", "ok"),
            (-6000, 1, "warning", "ok"),
            (6000, 1, "warning", "ok"),
            (6000, 4000, "ok", "warning"),
        ],
    )
    def test_the_clock_is_compared_as_far_as_the_answer_allows(
        self, ahead_ms: float, answer_ms: float, clock: str, connection: str
    ) -> None:
        """What a slow answer may have added is no fault of the clock."""
        server = Server(HEALTHY, saves="", answer_ms=answer_ms, ahead_ms=ahead_ms)
        found = {finding.check: finding.verdict for finding in of_server(server, "here")}
        assert (found["clock"], found["connection"]) == (clock, connection)


class TestLocks:
    """Whether the locks are in order."""

    def test_all_is_well(self, shop: Shop, command: Command) -> None:
        """A warning is no fault: this server keeps nothing on disk."""
        shop.send(7)
        ended = command("doctor", *BROKER)
        found = verdicts(ended.out)
        assert ended.code == 0
        assert {check for check, (verdict, _) in found.items() if verdict != "ok"} <= {"persistence"}
        assert set(found) == {
            *("connection", "version", "role", "eviction", "clock", "persistence", "expiry", "content", "messages")
        }
        assert "1 holder found" in found["content"][1]

    def test_keys_without_an_expiry_and_rubbish_are_faults(self, shop: Shop, command: Command) -> None:
        """A few are named, all are counted."""
        for number in range(5):
            shop.redis.persist(f"dramatiq-unique:{{{shop.send(number)[0]}}}:queue")
        spoilt = shop.spoil()
        ended = command("doctor")
        found = verdicts(ended.out)
        assert ended.code == 1
        verdict, told = found["expiry"]
        assert verdict == "fault"
        assert told.startswith("5 keys without one")
        assert told.count("dramatiq-unique:{") == 3
        assert found["content"][0] == "fault"
        assert spoilt in found["content"][1]
        assert found["messages"][0] == "skipped"

    def test_a_holder_whose_message_is_gone_is_told(self, shop: Shop, command: Command) -> None:
        """By the broker, once it has not been seen for a while; as JSON too."""
        digest, message_id = shop.send(7)
        key = f"dramatiq-unique:{{{digest}}}:queue"
        since, rest = shop.redis.hget(key, f"o:{message_id}").decode().split(" ", 1)
        shop.redis.hset(key, f"o:{message_id}", f"{int(since) - 60_000} {rest}")  # What follows counts from it.
        assert verdicts(command("doctor", *BROKER).out)["messages"][0] == "ok"
        shop.redis.delete("dramatiq:default", "dramatiq:default.msgs")
        ended = command("doctor", "--json", *BROKER)
        [line] = [found for found in map(json.loads, ended.out.splitlines()) if found["check"] == "messages"]
        assert line["verdict"] == "warning"
        assert f"{digest} by message {message_id}" in line["found"]
        assert ended.code == 0

    def test_a_broker_that_cannot_be_asked_is_said(self, shop: Shop, command: Command) -> None:
        """The Stub broker of another process knows nothing."""
        ended = command("doctor", "--broker", "tests.cli.shop:stub")
        assert verdicts(ended.out)["messages"] == ("skipped", "this broker cannot be asked whether a message exists")


class TestElsewhere:
    """Servers that are not as the others."""

    def test_a_user_who_may_not_ask_is_told_what_could_not_be_checked(self) -> None:
        """The rest is checked."""
        with RedisServer() as server:
            with redis.Redis(host=HOST, port=server.port) as client:
                rules = ("~*", "&*", "+@all", "-info", "-config")
                client.execute_command("ACL", "SETUSER", "looker", "on", ">pass", *rules)
            ended = run(f"redis://looker:pass@{HOST}:{server.port}/0", "doctor")
        found = verdicts(ended.out)
        assert (found["role"][0], found["persistence"][0], found["expiry"][0]) == ("skipped", "skipped", "ok")
        assert ended.code == 0

    def test_each_node_of_a_cluster_is_checked_and_walked(self) -> None:
        """Whichever of them the address names."""
        with ExitStack() as stack:
            client = stack.enter_context(cluster())
            for number in range(20):
                record = f"1 1 99999999999999 w -{number}"
                client.hset(f"dramatiq-unique:{{{number}}}:queue", f"o:m{number}", record)
            node = client.get_primaries()[1]
            url = f"redis://{node.host}:{node.port}/0"
            ended = run(url, "doctor")
            assert ended.out.count("version") == 3
            assert "20 keys without one" in ended.out
            assert len(run(url, "list", "--json").out.splitlines()) == 20
            assert f"Redis {node.host}:{node.port} and its cluster" in run(url, "list").err
            assert run(url, "show", "7").code == 0
            assert run(url, "release", "--pattern", "*", "--yes").out == "Released 20 holders.\n"

    def test_a_replica_is_a_fault(self) -> None:
        """Locks are looked at there, and not released."""
        with RedisServer() as master, RedisServer() as replica:
            with redis.Redis(host=HOST, port=master.port) as client:
                client.hset("dramatiq-unique:{7}:queue", "o:m7", "1 1 99999999999999 w -")
            with redis.Redis(host=HOST, port=replica.port) as client:
                client.replicaof(HOST, master.port)
                eventually(lambda: client.dbsize() == 1, 20)
            assert verdicts(run(replica.url, "doctor").out)["role"][0] == "fault"
            assert run(replica.url, "show", "7").code == 0
            ended = run(replica.url, "release", "7", "--yes")
            assert ended.code == 3
            assert "is a replica, which nobody may write to; give the address of its master" in ended.complaint
            assert ended.complaint.endswith("nothing was released")
            assert run(master.url, "show", "7").code == 0
