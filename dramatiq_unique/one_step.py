"""Sending in one step: the script that takes the lock stores the message too.

Where a :class:`~dramatiq.brokers.redis.RedisBroker` has its messages in the Redis that holds the locks, a send costs no
round trip more than without locks, and there is no moment in which the lock is taken and its message is not there. The
script of the broker runs inside of ours, as it stands, so that this module knows nearly nothing of how queues are laid
out. It is run only if it is one that was looked at; else, and in any other class of broker, a send takes two steps.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dramatiq import Broker

from dramatiq_unique.brokers import client_of
from dramatiq_unique.errors import LockStoreUnavailable
from dramatiq_unique.guard import Attempt
from dramatiq_unique.store import Acquired, Kept, RedisStore, Replaced, Request, Taken, are_one


if TYPE_CHECKING:
    from collections.abc import Callable

    from dramatiq.brokers.redis import RedisBroker

__all__ = ["KNOWN", "Hop", "OneStep"]

KNOWN = frozenset({"fdacc359c79a5adc3b8eeb53ff5772d7c42144e3"})
"""The SHA-1 of each ``dispatch.lua`` that was looked at; this one is that of Dramatiq 2.0.0 to 2.2.1."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A message that is about to be stored.

    Arguments:
        broker: The broker.
        queue_name: The queue; a delay queue's name where it is delayed.
        redis_message_id: The broker's own id of it.
        body: The message, encoded.
    """

    broker: RedisBroker
    queue_name: str
    redis_message_id: str
    body: bytes

    def with_body(self, body: bytes) -> Hop:
        """Make the same with another body."""
        return replace(self, body=body)

    def store(self, dispatch: Callable[..., Any] | None = None) -> Any:
        """Store it as the broker does.

        Arguments:
            dispatch: Called in the place of the broker's script, with its keys and arguments.
        """
        through = self.broker if dispatch is None else _Through(self.broker, dispatch)
        store = type(self.broker)._dispatch(through, "enqueue")  # type: ignore[arg-type]  # noqa: SLF001 - pinned with KNOWN
        return store(self.queue_name, self.redis_message_id, self.body)

    def store_unless_there(self) -> None:
        """Store it where nobody knows whether it was stored: twice in its queue, it would be run without a body."""
        if not self.broker.client.hexists(self.bodies, self.redis_message_id):
            self.store()

    @property
    def bodies(self) -> str:
        """The hash in which its body is until it is acknowledged."""
        return f"{self.broker.namespace}:{self.queue_name}.msgs"


class _Through:
    """A broker with another script: what it makes of a command depends on its version, and stays its business."""

    def __init__(self, broker: RedisBroker, dispatch: Callable[..., Any]) -> None:
        vars(self).update(vars(broker), _broker=broker, scripts={"dispatch": dispatch})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


class OneStep:
    """Takes locks and stores messages, both or neither.

    Arguments:
        broker: The broker.
        store: The locks, in the same Redis.
    """

    def __init__(self, broker: RedisBroker, store: RedisStore) -> None:
        self._broker = broker
        self._store = store
        store.prepare_send(_source(broker))

    @classmethod
    def on(cls, broker: Broker, store: RedisStore) -> OneStep | None:
        """Make one for a broker on which it can be done; ``None``: it takes two steps there."""
        client: Any = client_of(broker)
        if client is None or not are_one(client, store.client):
            return None
        redis_broker: Any = broker
        by_itself = {"do_enqueue", "_dispatch"}.isdisjoint(vars(broker))
        is_dramatiqs = f"{type(broker).__module__}.{type(broker).__qualname__}" == "dramatiq.brokers.redis.RedisBroker"
        known = hashlib.sha1(_source(redis_broker).encode()).hexdigest() in KNOWN  # noqa: S324 - no secret, a name
        return cls(redis_broker, store) if is_dramatiqs and by_itself and known else None

    def install(self, store: Callable[[Hop], object]) -> None:
        """Take the place of the step in which the broker instance stores a message.

        Arguments:
            store: Called with each message that is to be stored.
        """

        def do_enqueue(queue_name: str, redis_message_id: str, body: bytes) -> None:
            store(Hop(self._broker, queue_name, redis_message_id, body))

        vars(self._broker)["do_enqueue"] = do_enqueue

    def acquire(self, hop: Hop, attempt: Attempt, request: Request, **asked: Any) -> Acquired:
        """Take the queue lock for a message as :meth:`RedisStore.acquire` does, and store it where it has it.

        Arguments:
            hop: The message, with its ticket as it is where it has its lock.
            attempt: Is told whether both were done.
            request: Which lock, for whom.
            asked: What is asked for.
        """

        def both(lock_keys: list[str], lock_args: list[str | int]) -> Any:
            def dispatch(*, keys: list[str], args: list[Any]) -> Any:
                return self._store.send([*lock_keys, hop.bodies, *keys], [*lock_args, hop.redis_message_id, *args])

            return hop.store(dispatch)

        attempt.together = True
        try:
            answer = self._store.acquire(request, **asked, through=both)
        except LockStoreUnavailable as exc:
            attempt.together = not exc.refused  # The broker's script may have failed where the lock was taken.
            raise
        attempt.together = isinstance(answer, Taken | Kept | Replaced)
        return answer


def _source(broker: RedisBroker) -> str:
    """Read the script by which a broker does everything."""
    script: Any = broker.scripts["dispatch"].script
    return script if isinstance(script, str) else bytes(script).decode()
