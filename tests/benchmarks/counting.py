"""What Redis was asked: round trips and commands, by its own count (``INFO``), never by ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


__all__ = ["counted"]

LOOKING = {"info", "config", "client", "hello"}


def counted(client: Any, operation: Callable[[int], object], times: int) -> dict[str, float]:
    """Count what one operation asks of a Redis that nobody else uses meanwhile.

    Args:
        client: A client of it, on a connection that is open.
        operation: What is counted, given its number; once before, so that its scripts are loaded.
        times: How often it is done to be counted.

    Returns:
        ``trips``: how often the server had something to read. ``commands``: what it carried out, those inside of
        scripts included.
    """
    operation(0)
    client.config_resetstat()
    for number in range(1, times + 1):
        operation(number)
    # What the server reads until then: the answered CONFIG RESETSTAT is not in it, this INFO is.
    stats = client.info("all")
    commands = {
        name.removeprefix("cmdstat_").partition("|")[0]: stat["calls"]
        for name, stat in stats.items()
        if name.startswith("cmdstat_")
    }
    asked = sum(calls for name, calls in commands.items() if name not in LOOKING)
    return {"trips": (stats["total_reads_processed"] - 1) / times, "commands": asked / times}
