"""A shop whose locks are looked at."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker

from dramatiq_unique import UniqueMiddleware, outcome
from tests.cli.shell import ROOT, Ended, run
from tests.servers import GivenRedis, RedisServer


class Shop:
    """The same actors as in :mod:`tests.cli.shop`, in the process of the test.

    Args:
        client: The Redis of broker and locks.
        url: Its address.
    """

    def __init__(self, client: "redis.Redis", url: str) -> None:
        self.url = url
        self.redis: Any = client
        self.broker = RedisBroker(client=client)
        self.unique = UniqueMiddleware()
        self.broker.add_middleware(self.unique)

        @dramatiq.actor(broker=self.broker, lock="until_executed", lock_info=True)
        def ship(order_id: int, speed: str = "slow") -> None:
            pass

        @dramatiq.actor(broker=self.broker, lock="until_executed", queue_name="money")
        def bill(order_id: int) -> None:
            pass

        self.ship: Any = ship
        self.bill: Any = bill

    def send(self, *args: Any) -> tuple[str, str]:
        """Ship, and give the digest and the message's id."""
        message = self.ship.send(*args)
        return str(outcome(message).digest), message.message_id

    def holders(self) -> set[str]:
        """Name the messages that hold a lock."""
        return {holder.message_id for lock in self.unique.locks.iter() for holder in lock.holders}

    def spoil(self, digest: str = "spoilt", kind: str = "run") -> str:
        """Write rubbish into a key of ours."""
        key = f"dramatiq-unique:{{{digest}}}:{kind}"
        self.redis.set(key, "hello", ex=600)
        return key


@pytest.fixture
def shop(server: RedisServer | GivenRedis, redis_client: "redis.Redis") -> Iterator[Shop]:
    """A shop with nothing in it."""
    shop = Shop(redis_client, server.url)
    yield shop
    shop.broker.close()


Command = Callable[..., Ended]


@pytest.fixture
def command(server: RedisServer | GivenRedis) -> Command:
    """Run a command on the shop's Redis."""

    def run_there(*arguments: str, said: str = "", **more: str) -> Ended:
        return run(server.url, *arguments, said=said, **more)

    return run_there


@pytest.fixture
def no_rich(tmp_path: Path) -> str:
    """A search path for modules on which there is no ``rich``."""
    folder = tmp_path / "rich"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('no rich here')\n", encoding="utf-8")
    return f"{tmp_path}{os.pathsep}{ROOT}"
