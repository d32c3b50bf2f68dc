"""Which Redis holds the locks."""

import os
import socket
from typing import Any, TypeGuard, cast
from urllib.parse import SplitResult, parse_qs, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dramatiq_unique.errors import InvalidLockOptions


__all__ = [
    "NO_ADDRESS",
    "NO_PREFIX",
    "URL_VARIABLE",
    "Client",
    "are_one",
    "connect",
    "dial",
    "errors_of",
    "is_address",
    "is_prefix",
    "is_synchronous",
    "kind_of",
]

URL_VARIABLE = "DRAMATIQ_UNIQUE_URL"
"""The environment variable that names the Redis of the locks."""

_ADDRESS = ("host", "port", "path", "db", "username", "credential_provider")
_OBJECTS = frozenset({"retry", "retry_on_error", "credential_provider", "redis_connect_func", "command_packer"})
"""Arguments of redis-py that no text of an address can be, though it takes it for one."""

_ERRORS = (redis.RedisError, redis.exceptions.RedisClusterException)  # The second is none of the first.

Client = redis.Redis
"""A synchronous client: :class:`redis.Redis`, or what behaves like one (a Sentinel's master, a cluster's client)."""


NO_ADDRESS = (
    "is no address of a Redis; one looks like redis://host:6379/0, where what is special in a password (/, ?, #) is "
    "percent-encoded, and the database is a number"
)
"""Said of a wrong address, which is not repeated: there may be a password in it."""


NO_PREFIX = "must be a string, not empty, and without braces, which mark the slot"
"""Said of a wrong prefix."""


def is_synchronous(client: Any) -> bool:
    """Tell a client whose calls give replies from a pipeline, one that gives coroutines, and what is no client."""
    asynchronous = any(".asyncio" in cls.__module__ for cls in type(client).__mro__)
    queues = any("Pipeline" in cls.__name__ for cls in type(client).__mro__)
    return hasattr(client, "register_script") and not asynchronous and not queues and not isinstance(client, type)


def kind_of(client: object) -> str:
    """Say what was given for a client."""
    return f"the class {client.__qualname__}" if isinstance(client, type) else type(client).__qualname__


def is_address(url: Any) -> bool:
    """Tell whether redis-py understands an address; nothing is connected."""
    try:
        dial(url, patience_s=1).close()
    except ValueError:
        return False
    return True


def is_prefix(prefix: object) -> TypeGuard[str]:
    """Tell whether keys may begin with this."""
    return isinstance(prefix, str) and bool(prefix) and not any(brace in prefix for brace in "{}")


def connect(client: Client | None, url: str | None, otherwise: Client | None) -> Client:
    """Choose the client of the lock store.

    Arguments:
        client: What the user gave.
        url: What the user gave instead.
        otherwise: The broker's own client, if it has one.

    Returns:
        The client given, else one of ``url``, else one of the environment's ``DRAMATIQ_UNIQUE_URL``, else the
        broker's own, else one of Redis on this host. Nothing is connected yet.

    Raises:
        InvalidLockOptions: The environment's address is wrong.
    """
    if client is not None:
        return client
    if url is None and (url := os.environ.get(URL_VARIABLE)) and not is_address(url):
        raise InvalidLockOptions(f"UniqueMiddleware: the environment's {URL_VARIABLE} {NO_ADDRESS}")
    return Client.from_url(url) if url else otherwise or Client()


def are_one(one: Any, other: Any) -> bool:
    """Tell whether two clients are of one Redis, as one user there, as far as can be seen without asking."""
    if one is other:
        return not hasattr(one, "get_primaries")
    pools = getattr(one, "connection_pool", None), getattr(other, "connection_pool", None)
    if not all(type(pool) in (redis.ConnectionPool, redis.BlockingConnectionPool) for pool in pools):
        return False  # A Sentinel's may be of two different masters, and says nothing of it.
    here, there = (
        [pool.connection_class, *(pool.connection_kwargs.get(name) for name in _ADDRESS)]
        for pool in pools
        if pool is not None
    )
    return here == there and here[0].__module__ == redis.Connection.__module__  # Not one that imitates a server.


def dial(url: str, *, patience_s: float, cluster: bool = False) -> Client:
    """Make a client for somebody who waits for the answer: it gives up soon, and tries nothing twice.

    Arguments:
        url: The address; the environment's is not asked.
        patience_s: How long it waits for a connection, and for each answer, unless the address says otherwise.
        cluster: Whether it is a cluster that this is a node of; that is connected at once.

    Returns:
        The client. Nothing else is connected yet.

    Raises:
        ValueError: It is no address of a Redis, or one that redis-py would only find fault with when it connects.
        redis.RedisError: The cluster cannot be reached, or refuses.
    """
    waits: dict[str, Any] = {"socket_connect_timeout": patience_s, "socket_timeout": patience_s}
    if cluster:
        whole: Any = redis.RedisCluster.from_url(url, **waits)
        return cast("Client", whole)
    try:
        _check_parts(urlsplit(url))
        client = Client.from_url(url, retry=Retry(NoBackoff(), 0), **waits)
        _check_connection(client.connection_pool.make_connection())
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError, redis.RedisError):
        raise ValueError(NO_ADDRESS) from None
    return client


def _check_parts(parts: SplitResult) -> None:
    """Refuse what redis-py would take for another address.

    Raises:
        ValueError: The database is no number, for which it takes 0; or there is a part where no address has one: the
            rest of a password as a rule, whose beginning it takes for the host.
    """
    database = parts.path.strip("/")
    if parts.scheme == "unix":
        misread = ":" in parts.netloc and "@" not in parts.netloc  # The path is that of a socket.
    else:
        misread = bool(database) and not database.isdecimal()
    if misread or parts.fragment or "@" in parts.query or not _OBJECTS.isdisjoint(parse_qs(parts.query)):
        raise ValueError


def _check_connection(connection: Any) -> None:
    """Refuse what redis-py would only find fault with when it connects; its own arguments it has looked at.

    Raises:
        LookupError: There is no such encoding.
        ValueError: No socket can wait for so long.
        OverflowError: The same.
    """
    connection.encoder.encode("")
    with socket.socket() as unconnected:
        unconnected.settimeout(connection.socket_timeout)
        unconnected.settimeout(connection.socket_connect_timeout)


def errors_of(client: Any) -> tuple[type[Exception], ...]:
    """Name what a client raises: redis-py's errors, and valkey-py's where the client is of that package."""
    if any(cls.__module__.split(".")[0] == "valkey" for cls in type(client).__mro__):
        from valkey.exceptions import ValkeyError  # noqa: PLC0415 - only whoever has such a client has the package

        return (*_ERRORS, ValkeyError)
    return _ERRORS
