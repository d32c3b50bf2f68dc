"""Much of something, made by the server from one that was really made: nothing is known here of what is in a lock."""

from __future__ import annotations

from typing import Any

from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker


__all__ = ["copy_lock", "copy_message"]

PAGE = 10_000

LOCKS = """
local raw, left = redis.call('DUMP', KEYS[1]), redis.call('PTTL', KEYS[1])
for number = ARGV[1], ARGV[2] - 1 do
  redis.call('RESTORE', ARGV[3] .. string.format('%040x', number) .. ARGV[4], left, raw)
end
"""

MESSAGES = """
local body = redis.call('HGET', KEYS[2], ARGV[3])
local before, after = string.find(body, ARGV[3], 1, true)
for number = ARGV[1], ARGV[2] - 1 do
  local id = string.format('%036x', number)
  redis.call('HSET', KEYS[2], id, string.sub(body, 1, before - 1) .. id .. string.sub(body, after + 1))
  redis.call('LPUSH', KEYS[1], id)
end
"""


def copy_lock(client: Any, digest: str, copies: int) -> None:
    """Copy a lock to so many other digests, whatever keys it is made of."""
    for key in list(client.scan_iter(match=f"*{digest}*", count=PAGE)):
        before, after = key.decode().split(digest)
        for first in range(0, copies, PAGE):
            client.eval(LOCKS, 1, key, first, min(first + PAGE, copies), before, after)


def copy_message(client: Any, broker: RedisBroker, message: Message[Any], copies: int) -> None:
    """Copy a message that waits so many times, to the front of its queue."""
    queue = f"{broker.namespace}:{message.queue_name}"
    own = message.options["redis_message_id"]
    for first in range(0, copies, PAGE):
        client.eval(MESSAGES, 2, queue, f"{queue}.msgs", first, min(first + PAGE, copies), own)
