"""The Redis broker: a list of ids and a hash of bodies for each queue (``dramatiq/brokers/redis/dispatch.lua``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis
from dramatiq import Message
from dramatiq.broker import MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.common import current_millis, dq_name, xq_name

from dramatiq_unique.brokers.adapter import AnyBroker, decoded


__all__ = ["Redis"]

_PAGE = 1000
_NEAR = 128
"""How far from either end of a queue a message is looked for: a bound, so that a long queue costs no more."""


class Redis(AnyBroker):
    """Dead letters are in ``<namespace>:<queue>.XQ`` by time and ``….XQ.msgs`` by id, as its ``nack`` leaves them."""

    def __init__(self, broker: RedisBroker) -> None:
        super().__init__(broker.enqueue)
        self._broker = broker
        # Brokers that share their locks need not share their messages: each asks only after its own. One that
        # is reached by another name counts as another: it is not asked, and the safety expiry stands behind.
        known = broker.client.get_connection_kwargs()
        whose = [broker.namespace, *(known.get(name) for name in ("host", "port", "path", "db"))]
        self._tag = hashlib.blake2b(repr(whose).encode(), digest_size=2).hexdigest()
        source = Path(__file__).with_name("withdraw.lua").read_text(encoding="utf-8")
        self._withdraw = broker.client.register_script(source)

    def dead_letter(self, message: Message[Any], error: Exception) -> None:
        """Write the message where a nack would have left it."""
        message = message.copy(options={"redis_message_id": str(uuid4())})
        letters = f"{self._broker.namespace}:{xq_name(message.queue_name)}"
        with self._broker.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(f"{letters}.msgs", message.options["redis_message_id"], message.encode())
            pipeline.zadd(letters, {message.options["redis_message_id"]: current_millis()})
            pipeline.execute()

    can_say = True

    def broker_id(self, message: Message[Any] | MessageProxy) -> str:
        """Name it by ``redis_message_id``, new at each hop, and by whose it is."""
        redis_message_id = message.options.get("redis_message_id", "")
        return f"{redis_message_id}@{self._tag}"

    def exists(self, queue_name: str, broker_id: str) -> bool | None:
        """Look for its body, which stays in ``<namespace>:<queue>.msgs`` until the message is acknowledged."""
        redis_message_id, _, tag = broker_id.partition("@")
        if tag != self._tag:
            return None
        try:
            return bool(self._broker.client.hexists(f"{self._broker.namespace}:{queue_name}.msgs", redis_message_id))
        except redis.RedisError as exc:
            self._broker.logger.warning("Could not ask whether the holder of a lock still exists: %s", exc)
            return None

    def flushed(self, queue_name: str) -> Iterator[Message[Any]]:
        """Walk the ids in its list and its delay queue's, page by page.

        What a worker has fetched is in no list, and runs all the same (``fetch`` in ``dispatch.lua``).
        """
        for name in (queue_name, dq_name(queue_name)):
            queue = f"{self._broker.namespace}:{name}"
            for first in range(0, self._broker.client.llen(queue), _PAGE):
                ids = self._broker.client.lrange(queue, first, first + _PAGE - 1)
                bodies: list[Any] = self._broker.client.hmget(f"{queue}.msgs", ids) if ids else []
                yield from decoded(bodies)

    def withdraw(self, queue_name: str, broker_id: str) -> Message[Any] | None:
        """Take it out where it waits near either end of its queue: id and body, both or neither."""
        redis_message_id, _, tag = broker_id.partition("@")
        queue = f"{self._broker.namespace}:{queue_name}"
        if tag != self._tag:
            return None
        try:
            body = self._withdraw(keys=[queue, f"{queue}.msgs"], args=[redis_message_id, _NEAR])
        except redis.RedisError as exc:
            self._broker.logger.warning("Could not withdraw a replaced message; a worker will skip it: %s", exc)
            return None
        return Message.decode(body) if body else None
