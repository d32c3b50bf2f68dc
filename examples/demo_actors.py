"""The actors of the demo: the same job under each lock type, and once without a lock.

`demo.py` sends; the worker process that it starts (`python -m dramatiq demo_actors`) runs. Both have this module, and
the Redis at `DRAMATIQ_UNIQUE_URL`, where the demo also keeps its log and its gates.
"""

import time

import dramatiq
import setting

from dramatiq_unique import UniqueMiddleware


broker, client = setting.start()
broker.add_middleware(UniqueMiddleware(client))
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=0)
def no_lock(order: int) -> None:
    """Ship an order."""
    _ship("no_lock", order)


@dramatiq.actor(max_retries=0, lock="until_executing")
def until_executing(order: int) -> None:
    """Ship an order; one copy waits."""
    _ship("until_executing", order)


@dramatiq.actor(max_retries=0, lock="until_executed")
def until_executed(order: int) -> None:
    """Ship an order; one copy from enqueue to done."""
    _ship("until_executed", order)


@dramatiq.actor(max_retries=0, lock="until_expired", lock_ttl=3600)
def until_expired(order: int) -> None:
    """Ship an order; one copy an hour."""
    _ship("until_expired", order)


@dramatiq.actor(max_retries=0, lock="while_executing", lock_timeout=30)
def while_executing(order: int) -> None:
    """Ship an order; one copy runs at a time, the others wait up to 30 seconds for it."""
    _ship("while_executing", order)


@dramatiq.actor(max_retries=0, lock="until_and_while_executing", lock_timeout=30)
def until_and_while_executing(order: int) -> None:
    """Ship an order; one copy waits, and one runs."""
    _ship("until_and_while_executing", order)


@dramatiq.actor(max_retries=0)
def occupy(act: str) -> None:
    """Take a worker thread, until the demo lets it go."""
    client.rpush(f"demo:occupied:{act}", "taken")
    setting.wait_until(lambda: client.lpop(f"demo:let-go:{act}"), "the demo to free a thread")


def _ship(act: str, order: int) -> None:
    """Work: behind a gate that the demo opens, and then for a moment."""
    client.rpush(f"demo:log:{act}", f"start {order}")
    setting.wait_until(lambda: client.exists(f"demo:open:{act}"), "the demo to open the gate")
    time.sleep(0.05)  # The work itself.
    client.rpush(f"demo:log:{act}", f"end {order}")
