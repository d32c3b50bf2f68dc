"""What one world is made of."""

from dataclasses import dataclass


__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one world is made of.

    Args:
        lock: The lock type of the one actor.
        client: Its strategy at enqueue, or ``None``.
        server: Its strategy at the worker, or ``None``.
        limit: Its ``lock_limit``.
        ttl_s: Its ``lock_ttl``, or ``None``.
        broker: What the broker can do: ``"silent"``, ``"telling"`` or ``"unknown"`` (see :func:`.post.adapter`).
        first: Whether the middleware stands in front of Dramatiq's own.
        reschedule_limit: Its ``reschedule_limit``.
        on_store_error: The middleware's.
    """

    lock: str
    client: str | None = None
    server: str | None = None
    limit: int = 1
    ttl_s: int | None = None
    broker: str = "silent"
    first: bool = False
    reschedule_limit: int | None = None
    on_store_error: str = "raise"
