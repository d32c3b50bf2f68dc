"""A module as users have one, with brokers to name on the command line."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from dramatiq_unique import UniqueMiddleware


URL = os.environ["TEST_REDIS_URL"]

broker = RedisBroker(url=URL)
broker.add_middleware(UniqueMiddleware())

stub = StubBroker()
stub.add_middleware(UniqueMiddleware(url=URL))

bare = StubBroker()

strict = StubBroker()
strict.add_middleware(UniqueMiddleware(url=URL))

elsewhere = StubBroker()
elsewhere.add_middleware(UniqueMiddleware(url="unix:///no/such/socket"))

number = 7

print("A module may print what it likes.")  # noqa: T201 - that is what is tested


@dramatiq.actor(broker=broker, lock="until_executed", lock_info=True)
def ship(order_id: int, speed: str = "slow") -> None:
    """Ship an order."""


def only_numbers(order_id: int) -> int:
    """Fail for what is none."""
    return order_id + 1


@dramatiq.actor(broker=strict, lock="until_executed", lock_args_method=only_numbers)
def count(order_id: int) -> None:
    """Count an order."""


@dramatiq.actor(broker=broker)
def chat() -> None:
    """Go on without a lock."""


def set_up() -> None:
    """Set the global broker, as a callable for Dramatiq's own command does."""
    dramatiq.set_broker(broker)


def make() -> RedisBroker:
    """Return a broker instead."""
    return broker


def doubled() -> StubBroker:
    """Return a broker that has two of what there may be one of."""
    made = StubBroker()
    for _ in range(2):
        made.add_middleware(UniqueMiddleware(url=URL))
    return made


def fail() -> None:
    """Raise what a driver would, with an address in it."""
    raise RuntimeError(f"cannot connect to {URL}, redis://:secret@host")


def leave() -> None:
    """End the process."""
    raise SystemExit(7)
