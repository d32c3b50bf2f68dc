"""Sending in one step: the script that takes the lock stores the message too.

Where a :class:`~dramatiq.brokers.redis.RedisBroker` has its messages in the Redis that holds the locks, a send costs no
round trip more than without locks, and there is no moment in which the lock is taken and its message is not there. The
script of the broker runs inside of ours, as it stands, so that this module knows nearly nothing of how queues are laid
out. It is run only if it is one that was looked at; else, and in any other class of broker, a send takes two steps.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from dramatiq import Broker

from dramatiq_unique.brokers import client_of
from dramatiq_unique.errors import LockStoreUnavailable
from dramatiq_unique.guard import Attempt, Guard
from dramatiq_unique.store import Acquired, Kept, RedisStore, Replaced, Request, Storing, Taken, Terms, are_one


if TYPE_CHECKING:
    from collections.abc import Callable

    from dramatiq.brokers.redis import RedisBroker

__all__ = ["KNOWN", "OneStep"]

KNOWN = frozenset({"fdacc359c79a5adc3b8eeb53ff5772d7c42144e3"})
"""The SHA-1 of each ``dispatch.lua`` that was looked at; this one is that of Dramatiq 2.0.0 to 2.2.1."""

# Its arguments, as that script reads them.
_COMMAND, _QUEUE_NAME, _REDIS_MESSAGE_ID, _BODY = 0, 2, 8, 9


class OneStep:
    """Takes locks and stores messages, both or neither.

    Arguments:
        broker: The broker.
        store: The locks, in the same Redis.
    """

    def __init__(self, broker: RedisBroker, store: RedisStore) -> None:
        self._broker = broker
        self._store = store
        self._dispatch = _dispatch_of(broker)
        store.prepare_storing(_source(self._dispatch))
        self._guard: Guard
        self._enqueue: Callable[..., object]

    @classmethod
    def on(cls, broker: Broker, store: RedisStore) -> OneStep | None:
        """Make one for a broker on which it can be done; ``None``: it takes two steps there."""
        client: Any = client_of(broker)
        if client is None or not are_one(client, store.client):
            return None
        redis_broker: Any = broker
        is_dramatiqs = f"{type(broker).__module__}.{type(broker).__qualname__}" == "dramatiq.brokers.redis.RedisBroker"
        script = _source(_dispatch_of(redis_broker))
        is_known = hashlib.sha1(script.encode()).hexdigest() in KNOWN  # noqa: S324 - no secret, a name
        return cls(redis_broker, store) if is_dramatiqs and is_known and _is_untouched(broker) else None

    def install(self, guard: Guard, enqueue: Callable[..., object]) -> None:
        """Take the place of the script by which the broker does everything.

        Arguments:
            guard: Knows the attempt that is under way.
            enqueue: Called where the lock was left to be taken in the step that stores the message: with this object,
                the message as it is stored, the attempt, and what was left in its ``to_take``.
        """
        self._guard, self._enqueue = guard, enqueue
        scripts: dict[str, Any] = self._broker.scripts
        scripts["dispatch"] = self

    def __call__(self, keys: list[Any], args: list[Any]) -> Any:
        """Do a command of the broker."""
        if args[_COMMAND] == "enqueue":
            attempt = self._guard.attempt
            to_take, attempt.to_take = attempt.to_take, None
            if to_take is not None:
                storing = Storing(f"{keys[0]}:{args[_QUEUE_NAME]}.msgs", args[_REDIS_MESSAGE_ID], keys, args)
                return self._enqueue(self, storing, attempt, *to_take)
        return self._dispatch(keys=keys, args=args)

    @property
    def in_use(self) -> bool:
        """Whether nobody has put something in its way since."""
        return _is_untouched(self._broker)

    def acquire(self, storing: Storing, attempt: Attempt, request: Request, terms: Terms) -> Acquired:
        """Take the queue lock for a message as :meth:`RedisStore.acquire` does, and store it where it has it.

        Arguments:
            storing: The message, with its ticket as it is where it has its lock.
            attempt: Is told whether both were done.
            request: Which lock, for whom.
            terms: On what terms.
        """
        attempt.together = True
        try:
            answer = self._store.acquire(request, terms, storing=storing)
        except LockStoreUnavailable as exc:
            attempt.together = not exc.refused  # The broker's script may have failed where the lock was taken.
            raise
        attempt.together = isinstance(answer, Taken | Kept | Replaced)
        return answer

    def store(self, storing: Storing, body: bytes) -> None:
        """Store a message as the broker does, now that its ticket is settled.

        Arguments:
            storing: The message.
            body: It, encoded anew.
        """
        self._dispatch(keys=storing.keys, args=[*storing.args[:_BODY], body, *storing.args[_BODY + 1 :]])

    def store_unless_there(self, storing: Storing, body: bytes) -> None:
        """Store it where nobody knows whether it was stored: twice in its queue, it would be run without a body.

        Arguments:
            storing: The message.
            body: It, encoded anew.
        """
        if not self._broker.client.hexists(storing.bodies, storing.broker_id):
            self.store(storing, body)


def _is_untouched(broker: Broker) -> bool:
    """Tell whether nobody has put something of their own where a broker stores messages: tracing, say."""
    return "do_enqueue" not in vars(broker) and "_dispatch" not in vars(broker)


def _dispatch_of(broker: RedisBroker) -> Any:
    """Find the script by which a broker does everything, under what an earlier middleware put over it."""
    dispatch: Any = broker.scripts["dispatch"]
    return dispatch._dispatch if isinstance(dispatch, OneStep) else dispatch  # noqa: SLF001 - its own


def _source(script: Any) -> str:
    source = getattr(script, "script", "")
    return source if isinstance(source, str) else bytes(source).decode()
