"""``release``: what it frees, what it asks, and that it frees nothing by accident."""

import json
from typing import Any

import pytest

from dramatiq_unique import LockStoreUnavailable, outcome
from dramatiq_unique.locks import Locks
from tests.cli.conftest import Command, Shop
from tests.cli.shell import run, terminal
from tests.servers import GivenRedis, RedisServer


BROKER = ("--broker", "tests.cli.shop:broker")


class TestRelease:
    """With ``--yes``."""

    def test_by_digest_the_next_send_is_accepted(self, shop: Shop, command: Command) -> None:
        """And a second time there is nothing to release."""
        digest, _ = shop.send(7)
        ended = command("release", digest, "--yes")
        assert (ended.code, ended.out, ended.err) == (0, "Released 1 holder.\n", "")
        assert outcome(shop.ship.send(7)).action == "enqueued"
        assert command("release", digest, "--yes").code == 0
        ended = command("release", digest, "--yes")
        assert ended.code == 1
        assert f"nobody holds lock '{digest}'" in ended.complaint

    def test_by_actor_and_arguments(self, shop: Shop, command: Command) -> None:
        """Only that message's lock."""
        shop.send(7)
        _, other = shop.send(8)
        assert command("release", "--actor", "ship", "7", "--yes", *BROKER).code == 0
        assert shop.holders() == {other}

    def test_by_pattern_and_queue(self, shop: Shop, command: Command) -> None:
        """Those that list shows, and no others; as JSON, one holder a line."""
        _, kept = shop.send(7)
        billed = {shop.bill.send(number).message_id for number in range(3)}
        ended = command("release", "--pattern", "*", "--queue", "money", "--yes", "--json")
        told = [json.loads(line) for line in ended.out.splitlines()]
        assert {line["holder"]["message_id"] for line in told} == billed
        assert all(line["released"] is True for line in told)
        assert shop.holders() == {kept}

    def test_one_of_several_holders(self, shop: Shop, command: Command) -> None:
        """Named by its message."""
        digest, message_id = shop.send(7)
        ended = command("release", digest, "--message-id", "another", "--yes")
        assert ended.code == 1
        assert "message 'another' does not hold lock" in ended.complaint
        assert shop.holders() == {message_id}
        assert command("release", digest, "--message-id", message_id, "--yes").code == 0
        assert shop.holders() == set()


class TestNothingByAccident:
    """What stands in the way of a slip."""

    def test_a_dry_run_says_what_it_would_do(self, shop: Shop, command: Command) -> None:
        """Even with ``--yes``."""
        digest, message_id = shop.send(7)
        for more in ((), ("--yes",)):
            ended = command("release", "--pattern", "ship", "--dry-run", *more)
            assert digest in ended.out
            assert ended.out.endswith("Would release 1 holder.\n")
            assert ended.code == 0
        ended = command("release", digest, "--dry-run", "--json")
        assert json.loads(ended.out)["released"] is False
        assert command("release", "--pattern", "shop", "--dry-run").code == 1
        assert shop.holders() == {message_id}

    def test_without_a_terminal_nobody_is_asked(self, shop: Shop, command: Command) -> None:
        """Whatever stands in standard input, ``yes`` among it."""
        digest, message_id = shop.send(7)
        for said in ("", "y\n", "yes\n"):
            ended = command("release", digest, said=said)
            assert ended.code == 2
            assert ended.complaint.startswith("nothing was released: there is no terminal to ask on; say --yes")
        assert shop.holders() == {message_id}

    @pytest.mark.parametrize("arguments", [(), ("a", "b"), ("--kwargs", "{}")])
    def test_without_a_terminal_a_missing_target_is_told_first(
        self, command: Command, arguments: tuple[str, ...]
    ) -> None:
        """Else whoever says --yes then is told only after it."""
        ended = command("release", *arguments)
        assert ended.code == 2
        assert ended.complaint.startswith("name one digest, or an actor and its arguments")

    @pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("\n", 1), ("no\n", 1), ("yep\n", 1)])
    def test_on_a_terminal_it_asks(self, shop: Shop, server: RedisServer | GivenRedis, answer: str, code: int) -> None:
        """And says what it means; only yes is yes."""
        digest, message_id = shop.send(7)
        with terminal(server.url, "release", digest) as shown:
            shown.wait_for("Release 1 holder? [y/N] ")
            assert message_id in shown.shown
            shown.type(answer)
            assert shown.end() == code
        assert shop.holders() == (set() if code == 0 else {message_id})
        assert ("nothing was released" in shown.shown) == bool(code)

    def test_at_the_end_of_the_input_it_is_no(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """As after Ctrl-D."""
        digest, message_id = shop.send(7)
        with terminal(server.url, "release", digest) as shown:
            shown.wait_for("[y/N] ")
            shown.type("\x04")
            assert shown.end() == 1
        assert shop.holders() == {message_id}

    def test_ctrl_c_at_the_question_is_no(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """And says so."""
        digest, message_id = shop.send(7)
        with terminal(server.url, "release", digest) as shown:
            shown.wait_for("[y/N] ")
            assert shown.end_by_interrupt() == 130
        assert "interrupted; nothing was released" in shown.shown
        assert shop.holders() == {message_id}

    def test_what_came_after_the_question_is_not_released(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """Only what was shown is, as far as it still stands."""
        shop.send(1)
        digest, _ = shop.send(2)
        with terminal(server.url, "release", "--pattern", "ship") as shown:
            shown.wait_for("Release 2 holders? [y/N] ")
            shop.unique.locks.release(digest)
            newer = {shop.send(2)[1], shop.send(3)[1]}
            shown.type("y\n")
            assert shown.end() == 0
        assert "Released 1 holder; 1 other had gone or changed meanwhile." in shown.shown
        assert shop.holders() == newer

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "name one digest"),
            (("a", "b"), "name one digest"),
            (("a", "--pattern", "*"), "keep one of them"),
            (("--pattern", "*", "--message-id", "x"), "keep one of them"),
            (("a", "--queue", "default"), "--queue goes with --pattern"),
            (("--queue", "default"), "--queue goes with --pattern"),
            (("--patt", "*"), "unrecognized arguments: --patt"),
            (("--pattern", "*", "--ye"), "unrecognized arguments: --ye"),
            (("--pattern", "nobody*"), "no lock matches 'nobody*'"),
            (("--pattern", "*", "--prefix", "other"), "with prefix 'other'"),
            (("--actor", "ship", "7"), "only a broker knows its actors"),
        ],
    )
    def test_a_slip_releases_nothing(self, shop: Shop, command: Command, arguments: tuple[str, ...], said: str) -> None:
        """One line, and no exit code of success."""
        _, message_id = shop.send(7)
        ended = command("release", *arguments, "--yes")
        assert said in ended.complaint
        assert ended.code in (1, 2)
        assert ended.out == ""
        assert shop.holders() == {message_id}

    def test_rubbish_stays_and_the_others_go(self, shop: Shop, command: Command) -> None:
        """By pattern; by digest, nothing goes."""
        key = shop.spoil()
        shop.send(7)
        ended = command("release", "spoilt", "--yes")
        assert ended.code == 4
        assert f"'{key}' is no lock of ours: it is no hash" in ended.complaint
        ended = command("release", "--pattern", "*", "--yes")
        assert ended.code == 4
        assert ended.out == "Released 1 holder.\n"
        assert key in ended.complaint
        assert shop.holders() == set()
        assert shop.redis.get(key) == b"hello"

    @pytest.mark.parametrize(
        ("raised", "code", "said"),
        [
            (LockStoreUnavailable("gone"), 3, "failed: gone; 1 holder released before that"),
            (KeyboardInterrupt(), 130, "interrupted; 1 holder released before that"),
        ],
    )
    def test_it_says_how_far_it_got(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, said: str
    ) -> None:
        """Where Redis fails or somebody presses Ctrl-C between two releases."""
        shop.send(1)
        shop.send(2)
        released: list[Any] = []

        def once(locks: Locks, lock: Any) -> int:
            if released:
                raise raised
            released.append(lock)
            return 1

        monkeypatch.setattr(Locks, "release", once)
        ended = run(shop.url, "release", "--pattern", "*", "--yes")
        assert ended.code == code
        assert said in ended.complaint
