"""Collapse a burst: a product changes ten times in a second, and the index is written once.

    python examples/collapse_burst.py

`until_executing` lets one message wait for each product. It gives the lock back just before the actor runs, so a
change that comes while the index is being written is not missed: it queues the next run.
"""

from collections import Counter

import dramatiq
import setting

from dramatiq_unique import UniqueMiddleware, outcome


broker, client = setting.start()
broker.add_middleware(UniqueMiddleware(client))
dramatiq.set_broker(broker)

prices = {42: 100, 43: 100}
runs: list[int] = []


@dramatiq.actor(lock="until_executing")
def index_product(product_id: int) -> None:
    """Write what the product is like now; a later copy would write the same."""
    runs.append(product_id)
    print(f"  indexed product {product_id} at {prices[product_id]}")


def change_price(product_id: int, price: int) -> str:
    """Do what a web request would do, and say what became of the message."""
    prices[product_id] = price
    return outcome(index_product.send(product_id)).action


def main() -> None:
    """Change one product ten times and another one once, then let a worker loose."""
    became = Counter(change_price(42, 100 + n) for n in range(1, 11))
    became[change_price(43, 250)] += 1
    print(f"11 changes: {became['enqueued']} messages enqueued, {became['discarded']} discarded")
    setting.work(broker)
    print(f"11 changes, {len(runs)} runs")


if __name__ == "__main__":
    main()
