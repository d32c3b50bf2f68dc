"""Which Redis holds the locks."""

import os
from typing import Any

import redis


__all__ = ["URL_VARIABLE", "Client", "connect", "is_synchronous"]

URL_VARIABLE = "DRAMATIQ_UNIQUE_URL"
"""The environment variable that names the Redis of the locks."""

Client = redis.Redis
"""A synchronous client: :class:`redis.Redis`, or what behaves like one."""


def is_synchronous(client: Any) -> bool:
    """Tell a client whose calls give replies from one whose calls give coroutines (``redis.asyncio``)."""
    return not any(cls.__module__.startswith("redis.asyncio") for cls in type(client).__mro__)


def connect(client: Client | None, url: str | None, otherwise: Client | None) -> Client:
    """Choose the client of the lock store.

    Arguments:
        client: What the user gave.
        url: What the user gave instead.
        otherwise: The broker's own client, if it has one.

    Returns:
        The client given, else one of ``url``, else one of the environment's ``DRAMATIQ_UNIQUE_URL``, else the
        broker's own, else one of Redis on this host. Nothing is connected yet.
    """
    if client is not None:
        return client
    url = url or os.environ.get(URL_VARIABLE)
    return Client.from_url(url) if url else otherwise or Client()
