"""What it costs to keep the locks of what runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dramatiq_unique.store import Lease
from tests.benchmarks.counting import counted
from tests.benchmarks.driving import LEASE_MS, Driver
from tests.benchmarks.figures import Figure, beside
from tests.benchmarks.place import Place
from tests.benchmarks.rounds import Batch, alternate, timed
from tests.benchmarks.scale import Scale
from tests.benchmarks.sides import BARE, Side


__all__ = ["RENEWAL", "renewed"]

RENEWAL = "one renewal of all that runs"
BATCH = 8
COUNTED = 5


def renewed(scale: Scale, place: Place) -> Iterator[Figure]:
    """Measure the renewal of the locks of so many running jobs, which a process does at each third of a lease."""
    server = place.server()
    client = place.client(server)
    driver = Driver(client)
    bare = Side(BARE, place.client(server))
    operations = {}
    for running in scale.running:
        leases = [driver.start(f"{running:020}{number:020}", f"{number:036}") for number in range(running)]
        operations[running] = partial(_renew, driver, leases)
    arms: dict[str, Batch] = {BARE: partial(timed, bare.send, BATCH)}
    arms |= {str(running): partial(timed, operation, BATCH) for running, operation in operations.items()}
    times = alternate(arms, scale.rounds)
    ratios = dict(beside(times, BARE))
    for running, operation in operations.items():
        # Everything that waits for it is in this share: the thread, the network, and Redis.
        busy = sorted(times[str(running)])[len(times[BARE]) // 2] / (LEASE_MS / 3000)
        counts = counted(client, operation, COUNTED) | {"share": busy}
        yield Figure("renewal", RENEWAL, running, ratios[str(running)], counts)


def _renew(driver: Driver, leases: list[Lease], _: int) -> None:
    driver.renew(leases)
