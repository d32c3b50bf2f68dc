"""Whatever is wrong is one line that says what, and what to do; an exit code; and no traceback."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from dramatiq_unique.cli import main
from dramatiq_unique.cli.wording import clipped, counted, moment, printable, width_of, without_passwords
from tests.cli.conftest import Command, Shop
from tests.cli.shell import COMMAND, ROOT, environment, run, run_process, terminal
from tests.cost.test_lookups import fill
from tests.servers import HOST, GivenRedis, RedisServer, free_port


BROKER = ("--broker", "tests.cli.shop:broker")
EACH = [
    ("list",),
    ("show", "7"),
    ("release", "--pattern", "*", "--yes"),
    ("watch", "--times", "1"),
    ("doctor",),
]


class TestArguments:
    """What makes no sense is exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "the following arguments are required: command; see dramatiq-unique --help"),
            (("lst",), "invalid choice: 'lst'"),
            (("list", "--jsn"), "unrecognized arguments: --jsn"),
            (("list", "--url", "localhost"), "--url is no address of a Redis; one looks like redis://host:6379/0"),
            (("list", "--url", "redis://127.0.0.1:port/0"), "--url is no address"),
            (("list", "--url", "redis://127.0.0.1/locks"), "--url is no address"),
            (("list", "--url", "redis://127.0.0.1/0?no_such=1"), "--url is no address"),
            (("list", "--url", ""), "say where the locks are"),
            (("list", "--prefix", "a{b}"), "--prefix must be a string, not empty, and without braces"),
            (("list", "--import", "x"), "--import and --path go with --broker"),
            (("list", "--prefix", "x", *BROKER), "leave out --url and --prefix"),
            (("watch", "--every", "0"), "must be between 0.1 and 86400 seconds"),
            (("watch", "--every", "nan"), "must be between 0.1 and 86400 seconds"),
            (("watch", "--times", "0"), "must be 1 or more"),
            (("watch", "--times", "often"), "argument --times"),
            (("show",), "name one digest, or an actor and its arguments"),
            (("show", "a", "b"), "name one digest, or an actor and its arguments"),
            (("explain",), "the following arguments are required: actor"),
            (("explain", "ship", "7"), "only a broker knows its actors"),
            (("show", "\udcff"), "an argument is no text that Redis could hold"),
        ],
    )
    def test_it_is_told(
        self,
        arguments: tuple[str, ...],
        said: str,
        server: RedisServer | GivenRedis,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """In one line, with nothing on standard output."""
        monkeypatch.setenv("DRAMATIQ_UNIQUE_URL", server.url)
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert said in err
        assert (out, err.count("\n")) == ("", 1)

    def test_without_an_address_none_is_guessed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A Redis on this host may be somebody else's."""
        monkeypatch.delenv("DRAMATIQ_UNIQUE_URL", raising=False)
        assert main(["release", "--pattern", "*", "--yes"]) == 2
        assert "say where the locks are: --url, --broker, or the environment's" in capsys.readouterr().err
        monkeypatch.setenv("DRAMATIQ_UNIQUE_URL", "nonsense")
        assert main(["list"]) == 2
        assert "the environment's DRAMATIQ_UNIQUE_URL is no address" in capsys.readouterr().err

    def test_help_is_no_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        """For the whole, with the exit codes, and for each command."""
        assert main(["--help"]) == 0
        assert "130  Ctrl-C" in capsys.readouterr().out
        for command in ("list", "show", "explain", "release", "watch", "doctor"):
            assert main([command, "--help"]) == 0
            assert f"usage: dramatiq-unique {command}" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("explain", "shop", "7"), "there is no actor 'shop' on this broker; did you mean 'ship'?"),
            (("explain", "refund", "7"), "there is no actor 'refund' on this broker; is its module imported"),
            (
                ("explain", "ship", "seven"),
                "argument 1 is no JSON: seven; text goes in two pairs of quotes, as '\"seven\"'",
            ),
            (("explain", "ship", "--kwargs", "[7]"), "--kwargs takes a JSON object"),
            (("explain", "ship", "--kwargs", "{"), "--kwargs is no JSON"),
            (("show", "--actor", "shop", "7"), "did you mean 'ship'?"),
        ],
    )
    def test_an_actor_or_argument_is_told(self, command: Command, arguments: tuple[str, ...], said: str) -> None:
        """By the broker that should know it."""
        ended = command(*arguments, *BROKER)
        assert said in ended.err.splitlines()[-1]
        assert (ended.code, ended.out) == (2, "")

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("no_such_module", "importing 'no_such_module' failed with ModuleNotFoundError"),
            ("tests.cli.shop:nothing", "module 'tests.cli.shop' has no 'nothing'"),
            ("tests.cli.shop:number", "'tests.cli.shop:number' is no broker but a int"),
            ("tests.cli.shop:bare", "the StubBroker of --broker tests.cli.shop:bare has no UniqueMiddleware"),
            ("tests.cli.shop:fail", "calling 'tests.cli.shop:fail' failed with RuntimeError at "),
            ("tests.cli.shop:leave", "calling 'tests.cli.shop:leave' failed with SystemExit"),
            ("tests.cli.shop:broker.client.nothing", "has no 'broker.client.nothing'"),
            ("tests.cli.shop:doubled", "UniqueMiddleware: there is another one on this broker"),
            (":broker", "importing '' failed with ValueError"),
        ],
    )
    def test_a_broker_is_told(self, command: Command, name: str, said: str) -> None:
        """Whatever the user's module raises is one line, too."""
        ended = command("explain", "ship", "7", "--broker", name)
        assert said in ended.err.splitlines()[-1]
        assert "secret" not in ended.err
        assert (ended.code, ended.out) == (2, "")

    def test_options_that_do_not_fit_the_arguments_are_told(self, command: Command) -> None:
        """As `send` would."""
        ended = command("explain", "count", '"seven"', "--broker", "tests.cli.shop:strict")
        assert ended.code == 2
        assert "lock_args_method" in ended.err.splitlines()[-1]


class TestNotFound:
    """What nobody holds is exit code 1."""

    def test_a_digest_and_a_pattern(self, shop: Shop, command: Command) -> None:
        """Each with where it was looked for."""
        ended = command("show", "unknown")
        assert ended.code == 1
        assert "nobody holds lock 'unknown' in Redis 127.0.0.1:" in ended.complaint
        for more in ((), ("--json",)):
            ended = command("list", "shop*", "--queue", "money", *more)
            assert (ended.code, ended.out) == (1, "")
            assert "no lock matches 'shop*' on queue 'money'" in ended.complaint

    def test_a_message_that_nobody_sent(self, shop: Shop, command: Command) -> None:
        """And an actor that has no lock."""
        for named in (("ship", "7"), ("chat",)):
            ended = command("show", "--actor", *named, *BROKER)
            assert ended.code == 1
            assert "nobody holds a lock of such a message" in ended.err


class TestRedis:
    """What Redis refuses is exit code 3."""

    @pytest.mark.parametrize("arguments", EACH, ids=lambda arguments: str(arguments[0]))
    def test_one_that_is_down(self, arguments: tuple[str, ...]) -> None:
        """It is not tried for long."""
        ended = run(f"redis://:secret@{HOST}:{free_port()}/0", *arguments)
        assert (ended.code, ended.out) == (3, "")
        assert "cannot be reached; is it running, and is the address right?" in ended.complaint

    def test_one_without_a_port_is_named_with_the_usual_one(self) -> None:
        """That is where it was looked for."""
        ended = run("redis://nohost.invalid", "list")
        assert ended.code == 3
        assert ended.complaint.startswith("Redis nohost.invalid:6379/0 cannot be reached")

    def test_a_broker_whose_redis_is_down(self) -> None:
        """The same line, and for a socket of this host."""
        ended = run("redis://127.0.0.1:1/0", "list", "--broker", "tests.cli.shop:elsewhere")
        assert ended.code == 3
        assert "Redis unix:/no/such/socket/0 cannot be reached" in ended.err.splitlines()[-1]
        ended = run(f"redis://:secret@{HOST}:{free_port()}/0", "explain", "ship", "7", *BROKER)
        assert ended.code == 3
        assert "cannot be reached" in ended.err.splitlines()[-1]
        assert "secret" not in ended.err

    @pytest.mark.parametrize("arguments", EACH, ids=lambda arguments: str(arguments[0]))
    def test_one_that_needs_a_password(self, arguments: tuple[str, ...]) -> None:
        """None, a wrong one, and the right one, which is never printed."""
        with locked() as address:
            for url, said in (
                (f"redis://{address}", "needs a password; write it into the address, before the host"),
                (f"redis://:wrong-one@{address}", "refuses the user or the password; look at the address"),
            ):
                ended = run(url, *arguments)
                assert (ended.code, ended.out) == (3, "")
                assert said in ended.complaint
                assert "wrong-one" not in ended.err
            ended = run(f"redis://:s3cret@{address}", *arguments)
            assert ended.code in (0, 1)
            assert "s3cret" not in ended.out + ended.err

    def test_one_that_does_not_answer(self) -> None:
        """It is not waited for longer than the address says, ten seconds by default."""
        with RedisServer() as server:
            os.kill(server.pid, signal.SIGSTOP)
            ended = run(f"{server.url}?socket_timeout=0.2", "list")
        assert (ended.code, ended.out) == (3, "")
        assert "does not answer; is it running" in ended.complaint

    def test_a_user_without_permission(self) -> None:
        """To release, for one who may look."""
        with RedisServer() as server:
            with redis.Redis(host=HOST, port=server.port) as client:
                rules = ("~*", "&*", "+@read", "+@connection", "+time", "+info")
                client.execute_command("ACL", "SETUSER", "looker", "on", ">pass", *rules)
                client.hset("dramatiq-unique:{7}:queue", "o:m7", "1 1 99999999999999 w -")
            url = f"redis://looker:pass@{HOST}:{server.port}/0"
            assert run(url, "show", "7").code == 0
            ended = run(url, "release", "7", "--yes")
            assert ended.code == 3
            assert "does not allow that to this user" in ended.complaint
            assert "nothing was released" in ended.complaint
            assert run(url, "show", "7").code == 0


class TestRubbish:
    """A key of ours that somebody wrote into."""

    @pytest.mark.parametrize(
        "fields",
        [
            None,
            {"a": "b"},
            {"o:m": "1 2 3"},
            {"o:m": "a b c w -"},
            {b"o:\xff": b"1 1 99999999999999 w -"},
            {"o:m": "1 1 99999999999999 ? -"},
        ],
        ids=["string", "no-holder", "short", "letters", "bytes", "state"],
    )
    def test_it_is_named_and_the_others_are_shown(
        self, shop: Shop, command: Command, fields: dict[str, str] | None
    ) -> None:
        """And nothing of it is released."""
        key = "dramatiq-unique:{spoilt}:queue"
        digest, _ = shop.send(7)
        if fields is None:
            shop.redis.set(key, b"\x00\xff")
        else:
            shop.redis.hset(key, mapping=fields)
        before = shop.redis.dump(key)
        for arguments in (("show", "spoilt"), ("release", "spoilt", "--yes")):
            ended = command(*arguments)
            assert (ended.code, ended.out) == (4, "")
            assert f"what stands in key '{key}' is no lock of ours" in ended.complaint
            assert ended.complaint.endswith("look at it, and delete it")
        for walk in (("list",), ("release", "--pattern", "*", "--yes", "--json")):
            ended = command(*walk)
            assert ended.code == 4
            assert digest in ended.out
            assert key in ended.err
        assert shop.redis.dump(key) == before

    def test_what_a_terminal_would_obey_is_written_out(self, shop: Shop, command: Command) -> None:
        """Ids, actors, queues, hosts, arguments: no control character, no markup, no change of direction."""
        key = "dramatiq-unique:{evil}:queue"
        evil = "\x1b[2J\r\n\u202e[red]x"
        fields = {
            f"o:{evil}": "1 1 99999999999999 w -",
            f"p:{evil}": f" {evil}",
            f"i:{evil}": f"{evil}:1 {evil}",
            f"a:{evil}": evil,
        }
        shop.redis.hset(key, mapping=fields)
        shop.redis.pexpire(key, 60_000)
        for arguments in (("list",), ("show", "evil"), ("release", "evil", "--dry-run"), ("watch", "--times", "1")):
            ended = command(*arguments)
            assert r"\x1b[2J\r\n\u202e[red]x" in ended.out
            assert all(line.isprintable() for line in ended.out.splitlines())
        with terminal(shop.url, "list") as shown:
            assert shown.end() == 0
        assert "\x1b[2J" not in shown.shown
        assert r"\x1b[2J\r" in shown.shown

    def test_a_moment_that_no_calendar_has(self, shop: Shop, command: Command) -> None:
        """Is shown as the number that it is."""
        shop.redis.hset("dramatiq-unique:{odd}:queue", "o:m", f"0 1 {10**30} w -")
        ended = command("show", "odd")
        assert ended.code == 0
        assert f"{10**30} ms" in ended.out


class TestTerminal:
    """The end that people look at."""

    @pytest.mark.parametrize("arguments", [("list",), ("release", "--pattern", "*", "--yes"), ("watch",)])
    def test_one_that_is_too_narrow_is_told(self, shop: Shop, command: Command, arguments: tuple[str, ...]) -> None:
        """And nothing is released; JSON has no width."""
        _, message_id = shop.send(7)
        ended = command(*arguments, COLUMNS="20")
        assert (ended.code, ended.out) == (2, "")
        assert ended.complaint == "the terminal has 20 columns, and a table needs 40; make it wider, or use --json"
        assert shop.holders() == {message_id}
        assert command("list", "--json", COLUMNS="20").code == 0
        for nonsense in ("", "0", "-5", "wide"):
            assert command("list", COLUMNS=nonsense).code == 0

    @pytest.mark.parametrize("columns", [40, 72, 80, 110, 140, 170])
    def test_a_digest_is_whole_at_any_width(self, shop: Shop, columns: int) -> None:
        """And so is a complaint."""
        digest, _ = shop.send(7)
        key = shop.spoil()
        with terminal(shop.url, "list", columns=columns) as shown:
            assert shown.end() == 4
        assert digest in shown.shown
        assert f"dramatiq-unique: what stands in key '{key}' is no lock of ours" in re.sub(r"\s*\r\n", " ", shown.shown)

    def test_one_that_knows_ascii_only(self, shop: Shop, command: Command) -> None:
        """What it cannot show is written out."""
        key = "dramatiq-unique:{latin}:queue"
        shop.redis.hset(key, mapping={"o:é": "1 1 99999999999999 w -"})
        ended = run_process(shop.url, "list", PYTHONIOENCODING="ascii")
        assert r"\xe9" in ended.out
        assert ended.code == 0

    def test_ctrl_c_ends_a_walk_clean(self, server: RedisServer | GivenRedis, redis_client: "redis.Redis") -> None:
        """In one line, with 130."""
        fill(redis_client, 5000)
        with subprocess.Popen(
            [*COMMAND, "list", "--json"],
            env=environment(server.url),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()  # The pipe is full long before the end, so it is in the middle of its work.
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, "dramatiq-unique: interrupted\n")

    @pytest.mark.parametrize("more", [(), ("--json",)])
    def test_a_pipe_that_is_closed_ends_it_quietly(
        self, server: RedisServer | GivenRedis, redis_client: "redis.Redis", more: tuple[str, ...]
    ) -> None:
        """As `head` does it."""
        fill(redis_client, 5000)
        with subprocess.Popen(
            [*COMMAND, "list", *more],
            env=environment(server.url),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(30) == 141
            assert process.stderr.read() == ""

    def test_a_full_disk_is_told(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """In one line."""
        shop.send(7)
        with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
            done = subprocess.run(
                [*COMMAND, "list", "--json"],
                env=environment(server.url),
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert "the output could not be written: No space left on device" in done.stderr

    def test_a_closed_output_is_told(self, shop: Shop, server: RedisServer | GivenRedis) -> None:
        """The same, without a word of Python's."""
        shop.send(7)
        command = f"{shlex.join(COMMAND)} list --json >&-"
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=environment(server.url), cwd=ROOT, stderr=subprocess.PIPE, check=False
        )
        assert done.returncode == 1
        assert done.stderr == b"dramatiq-unique: the output could not be written: Bad file descriptor\n"


class TestPasswords:
    """None is ever printed."""

    @pytest.mark.parametrize(
        "url",
        [
            "redis://:p@s3cret#1@localhost:1/5",
            "redis://app:s3cret#67@localhost:1/5",
            "redis://:top@s3cret?x@localhost:1/5",
            "redis://:s3cret/x@localhost:1/5",
            "redis://:s3cret@localhost:1/5?protocol=9",
            "rediss://:s3cret@localhost:1/5?ssl_cert_reqs=some",
            "redis://:s3cret@localhost:1/5?socket_timeout=-1",
            "redis://:s3cret@localhost:1/5?retry=3",
            "unix://:s3cret/x@/run/redis.sock",
        ],
    )
    def test_not_even_a_part_of_one_that_is_written_wrongly(self, url: str) -> None:
        """What is behind a "#" or "?" is no longer the password to the driver, and what is before it the host."""
        ended = run("", "list", "--url", url)
        assert (ended.code, ended.out) == (2, "")
        assert "--url is no address of a Redis" in ended.complaint
        assert "s3cret" not in ended.err

    @pytest.mark.parametrize(
        "arguments",
        [
            ("redis://:s3cret@host/0",),
            ("list", "redis://user:s3cret@host/0"),
            ("show", "redis://user:s3cret@host/0"),
            ("list", "--every", "redis://:s3cret@host/0"),
            ("watch", "--every", "redis://:s3 cret@host/0"),
            ("list", "--url", "redis://:s3cret@127.0.0.1:port/0"),
            ("list", "--url", "redis://:s3/cret@127.0.0.1:1/0"),
            ("list", "--url", "redis://:s3cret@127.0.0.1:1/0"),
            ("list", "--url", "redis://127.0.0.1:1/0?password=s3cret"),
            ("list", "--broker", "redis://:s3cret@host/0"),
            ("list", "--prefix", "redis://:s3cret@host/{0}"),
            ("explain", "redis://:s3cret@host/0"),
        ],
    )
    def test_wherever_it_was_typed(
        self,
        arguments: tuple[str, ...],
        server: RedisServer | GivenRedis,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """In the right place or in a wrong one."""
        monkeypatch.setenv("DRAMATIQ_UNIQUE_URL", server.url)
        assert main(arguments) != 0
        out, err = capsys.readouterr()
        assert err.count("\n") == 1
        assert "s3" not in out + err
        assert "cret" not in out + err


class TestWording:
    """Text that is safe to show."""

    def test_each_of_its_functions(self) -> None:
        """By example."""
        assert printable("a\tb\u200f") == r"a\tb\u200f"
        assert printable("äöü €") == "äöü €"
        assert without_passwords("x redis://u:p@w@h/0 and ?password=y&z=1") == "x redis://***@h/0 and ?password=***&z=1"
        assert (width_of("日本"), width_of("é"), width_of("e\u0301")) == (4, 1, 1)
        assert (clipped("abcdef", 4), clipped("日本語", 4), clipped("ab", 2)) == ("abc…", "日…", "ab")
        assert (counted(1, "key"), counted(2000, "key")) == ("1 key", "2,000 keys")
        assert moment(0) == "1970-01-01 00:00:00 UTC"
        assert moment(10**40) == f"{10**40} ms"


@contextmanager
def locked() -> Iterator[str]:
    """Start a Redis that needs a password, ``s3cret``."""
    with RedisServer() as server:
        with redis.Redis(host=HOST, port=server.port) as client:
            client.config_set("requirepass", "s3cret")
        yield f"{HOST}:{server.port}/0"
