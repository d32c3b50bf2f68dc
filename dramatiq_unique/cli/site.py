"""Where the locks are: at an address, or where a broker's middleware keeps them."""

from __future__ import annotations

import argparse
import difflib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dramatiq import Actor, Broker

from dramatiq_unique import InvalidLockOptions, UniqueError, UniqueMiddleware
from dramatiq_unique.cli.exits import Exit, Stop
from dramatiq_unique.cli.modules import import_broker
from dramatiq_unique.locks import Locks
from dramatiq_unique.parts import Parts
from dramatiq_unique.store import URL_VARIABLE, Client, Inspection, dial


__all__ = ["Call", "Site"]

_PATIENCE_S = 10
_PREFIX = "dramatiq-unique"
_PORT = 6379  # Where redis-py looks unless the address says otherwise.


@dataclass(frozen=True, slots=True)
class Call:
    """A message that is asked about.

    Arguments:
        actor: Its actor.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """

    actor: Actor[Any, Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]


class Site:
    """The locks of one prefix in one Redis, and the broker that they are of, where it is known.

    Arguments:
        client: The Redis.
        prefix: What every key begins with.
        locks: The locks.
        url: Its address, where it is not the broker's.
        broker: The broker.
        parts: What its middleware works with.
    """

    def __init__(
        self,
        client: Client,
        prefix: str,
        locks: Locks,
        *,
        url: str | None = None,
        broker: Broker | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.client = client
        self.prefix = prefix
        self.locks = locks
        self.parts = parts
        self.inspection = Inspection(client, prefix=prefix)
        self._broker = broker
        self._url = url

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Site:
        """Find it; nothing is connected yet.

        Raises:
            Stop: The arguments name none.
        """
        given = vars(arguments)
        url, broker, prefix = given.get("url"), given.get("broker"), given.get("prefix")
        modules, path = given.get("modules") or [], given.get("path")
        if broker is None:
            if modules or path is not None:
                raise Stop("--import and --path go with --broker, which is missing", Exit.USAGE)
            return cls._at(url, _PREFIX if prefix is None else prefix)
        if "://" in broker:
            raise Stop("--broker takes module:attribute; an address goes into --url", Exit.USAGE)
        if url is not None or prefix is not None:
            raise Stop("--broker says where its locks are; leave out --url and --prefix", Exit.USAGE)
        return cls._on(broker, modules, path or ".")

    def whole(self) -> Site:
        """Reach the whole cluster, where the address is one of its nodes and the locks of the others would be missed.

        Raises:
            LockStoreUnavailable: Redis cannot be reached, or refuses.
        """
        if self._url is None or not self.inspection.is_one_of_several():
            return self
        with self.inspection.translated("cluster"):
            client = dial(self._url, patience_s=_PATIENCE_S, cluster=True)
        self.close()
        return Site(client, self.prefix, Locks(client, prefix=self.prefix), url=self._url)

    def close(self) -> None:
        """Let go of the connections, unless they are the application's."""
        if self._url is not None:
            self.client.close()

    @classmethod
    def _at(cls, url: str | None, prefix: str) -> Site:
        source = "--url"
        if url is None:
            source, url = f"the environment's {URL_VARIABLE}", os.environ.get(URL_VARIABLE)
        if not url:
            raise Stop(f"say where the locks are: --url, --broker, or the environment's {URL_VARIABLE}", Exit.USAGE)
        try:
            client = dial(url, patience_s=_PATIENCE_S)
            return cls(client, prefix, Locks(client, prefix=prefix), url=url)
        except ValueError as exc:
            raise Stop(f"{source} {exc}", Exit.USAGE) from None
        except InvalidLockOptions as exc:
            raise Stop(f"--{str(exc).removeprefix('Locks: ')}", Exit.USAGE) from None

    @classmethod
    def _on(cls, name: str, modules: list[str], path: str) -> Site:
        broker = import_broker(name, modules, path)
        unique = next((m for m in broker.middleware if isinstance(m, UniqueMiddleware)), None)
        if unique is None:
            raise Stop(
                f"the {type(broker).__name__} of --broker {name} has no UniqueMiddleware; name the broker that has it",
                Exit.USAGE,
            )
        try:
            parts = unique._on(broker).parts  # noqa: SLF001 - of one package
        except UniqueError as exc:
            raise Stop(str(exc), Exit.USAGE) from exc
        explaining, journal = unique._explaining, unique._journal  # noqa: SLF001 - of one package
        store = parts.store
        locks = Locks(store.client, prefix=store.prefix, on=explaining, journal=journal)
        return cls(store.client, store.prefix, locks, broker=broker, parts=parts)

    @property
    def name(self) -> str:
        """Name the Redis, without its password."""
        known: dict[str, Any] = getattr(self.client, "get_connection_kwargs", dict)()
        database = f"/{known.get('db') or 0}"
        if known.get("path"):
            return f"unix:{known['path']}{database}"
        if known.get("host"):
            return f"{known['host']}:{known.get('port') or _PORT}{database}"
        if self._url is not None:
            node = urlsplit(self._url)
            return f"{node.hostname}:{node.port or _PORT} and its cluster"
        return "of the broker"

    def call(self, actor: str, what: Sequence[str], kwargs: str | None) -> Call:
        """Read a message that is asked about.

        Arguments:
            actor: The name of its actor.
            what: Its positional arguments, each as JSON.
            kwargs: Its keyword arguments, as a JSON object.

        Raises:
            Stop: It makes no sense.
        """
        if self._broker is None:
            raise Stop("only a broker knows its actors; say which with --broker module:attribute", Exit.USAGE)
        declared = self._broker.actors
        if actor not in declared:
            near = difflib.get_close_matches(actor, declared, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "is its module imported (--import)?"
            raise Stop(f"there is no actor {actor!r} on this broker; {hint}", Exit.USAGE)
        args = [_json(text, f"argument {number}") for number, text in enumerate(what, 1)]
        named = {} if kwargs is None else _json(kwargs, "--kwargs")
        if not isinstance(named, dict):
            raise Stop("--kwargs takes a JSON object, as '{\"order_id\": 7}'", Exit.USAGE)
        return Call(declared[actor], args, named)


def _json(text: str, which: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        quoted = json.dumps(text)
        raise Stop(f"{which} is no JSON: {text}; text goes in two pairs of quotes, as '{quoted}'", Exit.USAGE) from None
