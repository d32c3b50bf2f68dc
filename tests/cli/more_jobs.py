"""More actors, in a module that the first one does not import."""

import dramatiq

from tests.cli.shop import broker


@dramatiq.actor(broker=broker, lock="until_executed")
def bill(order_id: int) -> None:
    """Bill an order."""
