"""``list``, ``show``, ``explain``: what they print."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Shop
from tests.cli.shell import terminal
from tests.servers import GivenRedis, RedisServer


BROKER = ("--broker", "tests.cli.shop:broker")


class TestList:
    """Who holds which lock."""

    def test_each_holder_is_a_line(self, shop: Shop, command: Command) -> None:
        """With its whole digest, which the other commands take; how many there are is said beside it."""
        sent = dict(shop.send(number) for number in range(3))
        shop.bill.send(1)
        ended = command("list", "ship")
        [titles, *lines] = ended.out.splitlines()
        assert titles.split("  ")[0] == "digest"
        assert {line.split()[0]: line.split()[-1] for line in lines} == sent
        assert "3 holders of 3 locks in Redis 127.0.0.1:" in ended.err
        assert ended.code == 0

    def test_json_is_one_lock_a_line(self, shop: Shop, command: Command) -> None:
        """As the API gives it; nothing else is printed."""
        digest, message_id = shop.send(7)
        shop.bill.send(7)
        ended = command("list", "--json", "--queue", "default")
        [lock] = [json.loads(line) for line in ended.out.splitlines()]
        assert (lock["digest"], lock["holders"][0]["message_id"]) == (digest, message_id)
        assert ended.err == ""

    def test_no_lock_at_all_is_no_fault(self, shop: Shop, command: Command) -> None:
        """All is well then."""
        ended = command("list")
        assert (ended.code, ended.out) == (0, "")
        assert ended.err.startswith("0 holders of 0 locks")
        assert command("list", "--json").code == 0

    def test_a_narrower_terminal_has_fewer_columns_or_a_stack(self, shop: Shop, command: Command) -> None:
        """The digest is never shortened."""
        digest, message_id = shop.send(7)
        for columns in (40, 60, 70, 80, 110, 140, 170):
            ended = command("list", COLUMNS=str(columns))
            assert digest in ended.out
            assert max(len(line) for line in ended.out.splitlines()) <= max(columns, 49)
            assert (message_id in ended.out) == (columns < 80 or columns == 170), columns

    def test_what_is_left_over_is_the_actors(self, shop: Shop, command: Command) -> None:
        """Its name is shortened where there is no room for it."""
        shop.redis.hset("dramatiq-unique:{long}:queue", mapping={"o:m": f"1 1 {10**14} w -", "i:m": f"h:1 {'a' * 40}"})
        assert "a" * 40 in command("list", COLUMNS="200").out
        assert f" {'a' * 13}… " in command("list", COLUMNS="76").out
        assert "a" * 40 in command("list").out

    def test_the_redis_may_be_named_before_and_after_the_command(
        self, shop: Shop, command: Command, server: RedisServer | GivenRedis
    ) -> None:
        """And wins over the environment."""
        shop.send(7)
        wrong = {"DRAMATIQ_UNIQUE_URL": "redis://127.0.0.1:1/0"}
        assert command("list", "ship", "--url", server.url, **wrong).code == 0
        assert command("--url", server.url, "list", "ship", **wrong).code == 0

    def test_another_prefix_has_other_locks(self, shop: Shop, command: Command) -> None:
        """The middleware's default is the command's."""
        shop.send(7)
        ended = command("list", "ship", "--prefix", "other")
        assert ended.code == 1
        assert "with prefix 'other'" in ended.complaint

    def test_on_a_terminal_it_has_colours(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """And no trace of the progress bar is left in the end."""
        digest, message_id = shop.send(7)
        with terminal(server.url, "list") as shown:
            assert shown.end() == 0
        assert digest in shown.shown
        assert message_id in shown.shown
        assert "\x1b[33mwaiting" in shown.shown

    def test_without_rich_it_is_plain(self, shop: Shop, server: RedisServer | GivenRedis, no_rich: str) -> None:
        """Everything else works; JSON never needs it."""
        digest, _ = shop.send(7)
        with terminal(server.url, "list", PYTHONPATH=no_rich) as shown:
            assert shown.end() == 0
        assert digest in shown.shown
        assert "\x1b[" not in shown.shown
        with terminal(server.url, "list", TERM="dumb") as shown:
            assert shown.end() == 0
        assert "\x1b[" not in shown.shown


class TestShow:
    """All that is known of one lock."""

    def test_it_says_who_and_where(self, shop: Shop, command: Command) -> None:
        """By digest, or by actor and arguments, with defaults filled in."""
        digest, message_id = shop.send(7)
        for named in (
            (digest,),
            ("--actor", "ship", "7", *BROKER),
            ("--actor", "ship", "--kwargs", '{"order_id": 7, "speed": "slow"}', *BROKER),
        ):
            ended = command("show", *named)
            lines = dict(line.split(maxsplit=1) for line in ended.out.splitlines() if line)
            assert (lines["digest"], lines["message"], lines["actor"]) == (digest, message_id, "ship")
            assert lines["state"] == "waits in its queue"
            assert lines["args"] == '{"args": [7], "kwargs": {}}'
            assert "(pid " in lines["process"]
            assert ended.code == 0

    def test_json_is_the_lock(self, shop: Shop, command: Command) -> None:
        """As the API gives it."""
        digest, _ = shop.send(7)
        ended = command("show", digest, "--json")
        found = json.loads(ended.out)
        assert found["digest"] == digest
        assert found["holders"][0]["args"] == '{"args": [7], "kwargs": {}}'


class TestExplain:
    """What would happen to a message."""

    def test_a_free_lock_is_success(self, shop: Shop, command: Command) -> None:
        """For a script: it would be enqueued. What the module prints is not among the answer."""
        ended = command("explain", "ship", "7", *BROKER)
        assert ended.out.startswith("It would be enqueued: its until_executed lock is free.\ndigest   ")
        assert ended.err == "A module may print what it likes.\n"
        assert ended.code == 0

    def test_a_refusal_is_a_no_and_names_the_holder(self, shop: Shop, command: Command) -> None:
        """For people and for programs."""
        digest, message_id = shop.send(7)
        ended = command("explain", "ship", "7", *BROKER)
        assert f"It would be refused: its until_executed lock is held by message {message_id}" in ended.out
        assert digest in ended.out
        assert ended.code == 1
        ended = command("explain", "ship", "7", "--json", *BROKER)
        found = json.loads(ended.out)
        assert (found["action"], found["digest"]) == ("discarded", digest)
        assert ended.code == 1

    def test_an_actor_without_a_lock_says_so(self, shop: Shop, command: Command) -> None:
        """It would be enqueued."""
        ended = command("explain", "chat", *BROKER)
        assert (ended.code, ended.out) == (0, "It would be enqueued: actor 'chat' has no lock.\n")

    @pytest.mark.parametrize("name", ["tests.cli.shop:set_up", "tests.cli.shop:make"])
    def test_a_broker_may_be_made_by_a_callable(self, shop: Shop, command: Command, name: str) -> None:
        """One that sets the global broker, as for Dramatiq's own command, or returns one."""
        assert command("explain", "ship", "7", "--broker", name).code == 0

    def test_modules_may_be_in_another_folder(self, shop: Shop, command: Command, tmp_path: Path) -> None:
        """Which is looked into before this one."""
        (tmp_path / "elsewhere.py").write_text("from tests.cli.shop import broker\n", encoding="utf-8")
        named = ("explain", "ship", "7", "--broker", "elsewhere:broker")
        assert command(*named).code == 2
        assert command(*named, "--path", str(tmp_path)).code == 0

    def test_more_modules_bring_more_actors(self, shop: Shop, command: Command) -> None:
        """Those that the broker's own module does not import."""
        assert command("explain", "bill", "7", *BROKER).code == 2
        assert command("explain", "bill", "7", *BROKER, "--import", "tests.cli.more_jobs").code == 0
