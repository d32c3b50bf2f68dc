"""The arguments of the middleware, checked."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dramatiq_unique.claim import SHORTEST_LEASE_MS
from dramatiq_unique.durations import to_ms
from dramatiq_unique.errors import InvalidLockOptions
from dramatiq_unique.lock_types import LOCK_TYPES, LockType
from dramatiq_unique.options import OptionRules
from dramatiq_unique.signatures import is_plain_of_one
from dramatiq_unique.store import NO_ADDRESS, NO_PREFIX, Client, is_address, is_prefix, is_synchronous, kind_of
from dramatiq_unique.strategies import Strategy, strategy_table


__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What one middleware was told, whatever broker it is on.

    Arguments:
        client: The Redis that holds the locks, if it was given.
        url: Its URL, if that was given.
        prefix: What every key begins with.
        lease_ms: The lease of a run lock, in milliseconds.
        without_store: Whether messages go on without a lock where the store cannot be reached.
        strategies: Every strategy that ``on_conflict`` may name.
        rules: The options, and the middleware's own level of them.
    """

    client: Client | None
    url: str | None
    prefix: str
    lease_ms: int
    without_store: bool
    strategies: Mapping[str, Strategy]
    rules: OptionRules

    @classmethod
    def checked(
        cls,
        *,
        client: Client | None,
        url: str | None,
        prefix: object,
        lease: object,
        on_store_error: str,
        enabled: object,
        lock_types: Iterable[LockType],
        strategies: Mapping[str, Strategy] | None,
        defaults: Mapping[str, object],
    ) -> "Settings":
        """Check the arguments of the middleware.

        Raises:
            InvalidLockOptions: One of them is wrong.
        """
        _check_connection(client, url)
        rows = _rows(lock_types)
        _check_strategies(strategies)
        if not isinstance(enabled, bool):
            raise _wrong(f"enabled must be True or False, not {enabled!r}")
        if not is_prefix(prefix):
            raise _wrong(f"prefix {NO_PREFIX}; not {prefix!r}")
        if on_store_error not in ("raise", "ignore"):
            raise _wrong(f"on_store_error must be 'raise' or 'ignore', not {on_store_error!r}")
        table = strategy_table(strategies)
        return cls(
            client=client,
            url=url,
            prefix=prefix,
            lease_ms=_lease_ms(lease),
            without_store=on_store_error == "ignore",
            strategies=table,
            rules=OptionRules((*LOCK_TYPES, *rows), table, defaults),
        )


def _check_connection(client: object, url: object) -> None:
    if client is not None and url is not None:
        raise _wrong("client and url do not go together; keep one")
    if client is not None and not is_synchronous(client):
        hint = "; an address goes into url=" if isinstance(client, str) else ""
        raise _wrong(f"client must be a synchronous client such as redis.Redis, not {kind_of(client)}{hint}")
    if url is not None and not is_address(url):
        raise _wrong(f"url {NO_ADDRESS}")


def _rows(lock_types: Iterable[object]) -> list[LockType]:
    try:
        given = tuple(lock_types)
    except TypeError:
        raise _wrong(f"lock_types takes a list of rows, [LockType(...)], not {lock_types!r}") from None
    rows: list[LockType] = []
    for row in given:
        if not isinstance(row, LockType):
            raise _wrong(f"lock_types takes rows, LockType(...), not {row!r}")
        rows.append(row)
    for name, count in Counter(row.name for row in rows).items():
        if count > 1:
            raise _wrong(f"lock_types has {count} rows of the name {name!r}; keep one")
    return rows


def _check_strategies(strategies: object) -> None:
    if strategies is not None and not isinstance(strategies, Mapping):
        raise _wrong(f"strategies takes callables by name, not {strategies!r}")
    for name, strategy in (strategies or {}).items():
        if not isinstance(name, str) or not name:
            raise _wrong(f"strategies takes callables by name, and {name!r} is no name")
        if not callable(strategy):
            raise _wrong(f"strategies takes callables by name, and {name!r} is {strategy!r}")
        if not is_plain_of_one(strategy) or isinstance(strategy, type):
            raise _wrong(f"strategy {name!r} must be a plain function that takes one argument, the conflict")


def _lease_ms(lease: object) -> int:
    try:
        lease_ms = to_ms(lease)
    except ValueError as exc:
        raise _wrong(f"lease {exc}") from None
    if lease_ms < SHORTEST_LEASE_MS:
        raise _wrong(f"lease must be at least {SHORTEST_LEASE_MS // 1000} second, not {lease!r}")
    return lease_ms


def _wrong(what: str) -> InvalidLockOptions:
    return InvalidLockOptions(f"UniqueMiddleware: {what}")
