"""``watch``: a live table, or the changes as JSON, until somebody ends it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.conftest import Command, Shop
from tests.cli.shell import COMMAND, ROOT, environment, terminal
from tests.rig import eventually
from tests.servers import GivenRedis, RedisServer


@contextmanager
def watching(url: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Watch with pipes until the block ends."""
    command = [*COMMAND, "watch", "--every", "0.1", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment(url), cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for a line."""
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


class TestChanges:
    """One JSON object for each."""

    def test_what_is_held_and_gone_is_told_once(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """With who it is; at Ctrl-C it ends without a word of what went wrong, since nothing did."""
        digest, message_id = shop.send(7)
        with watching(server.url, "--json") as process:
            line = read(process)
            assert (line["change"], line["digest"], line["holder"]["message_id"]) == ("held", digest, message_id)
            _, second = shop.send(8)
            line = read(process)
            assert (line["change"], line["holder"]["message_id"]) == ("held", second)
            shop.unique.locks.release(digest)
            line = read(process)
            assert (line["change"], line["digest"], line["holder"]["message_id"]) == ("gone", digest, message_id)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (130, "", "dramatiq-unique: interrupted\n")

    def test_another_state_is_a_change(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """A message that waited runs."""
        digest, message_id = shop.send(7)
        key = f"dramatiq-unique:{{{digest}}}:queue"
        with watching(server.url, "--json") as process:
            assert read(process)["change"] == "held"
            record = shop.redis.hget(key, f"o:{message_id}").decode()
            shop.redis.hset(key, f"o:{message_id}", record.replace(" w ", " r "))
            line = read(process)
            assert (line["change"], line["holder"]["state"]) == ("changed", "running")

    def test_rubbish_is_told_once(self, shop: Shop, command: Command) -> None:
        """And the others are told all the same."""
        key = shop.spoil()
        shop.send(7)
        ended = command("watch", "--json", "--every", "0.1", "--times", "3")
        assert [json.loads(line)["change"] for line in ended.out.splitlines()] == ["held"]
        assert key in ended.complaint
        assert ended.code == 0

    def test_a_server_that_goes_away_ends_it(self) -> None:
        """With a line."""
        with RedisServer() as server, watching(server.url, "--json") as process:
            server.stop()
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (3, "")
        assert "cannot be reached" in err


class TestLive:
    """A table that changes in place."""

    def test_it_follows_and_ends_clean(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """The cursor is back in the end."""
        digest, _ = shop.send(7)
        with terminal(server.url, "watch", "--every", "0.1") as shown:
            shown.wait_for(digest)
            assert "1 holder in Redis" in shown.shown
            other, _ = shop.send(8)
            shown.wait_for(other)
            shown.interrupt()
            assert shown.end() == 130
        assert shown.shown.rindex("\x1b[?25h") > shown.shown.rindex("\x1b[?25l")

    def test_the_oldest_are_shown_where_there_is_no_room_for_all(
        self, shop: Shop, server: RedisServer | GivenRedis
    ) -> None:
        """And all are counted."""
        for number in range(30):
            shop.send(number)
        with terminal(server.url, "watch", "--times", "1", lines=14) as shown:
            assert shown.end() == 0
        _, _, last = shown.shown.rpartition("30 holders in Redis")
        assert last.count("ship") == 10

    def test_without_rich_and_with_pipes_looks_stand_below_each_other(
        self, shop: Shop, server: RedisServer | GivenRedis, command: Command, no_rich: str
    ) -> None:
        """As a log."""
        digest, _ = shop.send(7)
        assert command("watch", "--times", "2", "--every", "0.1").out.count(digest) == 2
        with terminal(server.url, "watch", "--times", "2", "--every", "0.1", PYTHONPATH=no_rich) as shown:
            assert shown.end() == 0
        assert shown.shown.count(digest) == 2
        with terminal(server.url, "watch", "--times", "1", columns=50) as shown:
            assert shown.end() == 0
        assert f"digest   {digest}" in shown.shown

    def test_nothing_is_left_behind(self, shop: Shop, command: Command) -> None:
        """Looking writes no key."""
        shop.send(7)
        before = sorted(shop.redis.keys())
        command("watch", "--times", "2", "--every", "0.1")
        eventually(lambda: sorted(shop.redis.keys()) == before)
