"""A broker in memory: what is stored is shared, and each simulated process has a broker object of its own over it.

It behaves as Dramatiq's brokers do where locks can tell: hooks are emitted as ``StubBroker`` and ``RedisBroker`` emit
them, every hop has an id of its own in the options before ``before_enqueue``, what is fetched stays until it is
acknowledged, and comes again when its consumer is lost.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from dramatiq import Broker, Message, Middleware
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.common import current_millis, dq_name
from dramatiq.errors import ConnectionClosed, QueueNotFound

from dramatiq_unique.brokers import AnyBroker, BrokerAdapter


__all__ = ["QUEUE", "AnyLetters", "Letter", "Post", "PostBroker", "PostConsumer", "Watcher", "adapter"]

QUEUE = "default"
_HOP = "redis_message_id"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message in the broker: one hop of it."""

    hop: str
    queue_name: str
    message_id: str
    body: bytes

    @classmethod
    def of(cls, message: Message[Any]) -> "Letter":
        """Encode a message."""
        return cls(message.options[_HOP], message.queue_name, message.message_id, message.encode())

    @property
    def message(self) -> Message[Any]:
        """Decode it."""
        return Message.decode(self.body)


@dataclass(slots=True)
class Post:
    """What is stored.

    Args:
        waiting: The letters in each queue, the oldest first.
        fetched: The letters that are not acknowledged, by who has them.
        dead: The dead letters.
    """

    waiting: defaultdict[str, list[Letter]] = field(default_factory=lambda: defaultdict(list))
    fetched: defaultdict[str, list[Letter]] = field(default_factory=lambda: defaultdict(list))
    dead: list[Letter] = field(default_factory=list)
    hops: int = 0

    def next_hop(self) -> str:
        """Make an id for the next hop."""
        self.hops += 1
        return f"h{self.hops}"

    def letters(self) -> Iterator[Letter]:
        """Give everything that is not dead."""
        for letters in (*self.waiting.values(), *self.fetched.values()):
            yield from letters

    def fetch(self, letter: Letter, reader: str) -> None:
        """Hand a waiting letter to a reader."""
        self.waiting[letter.queue_name].remove(letter)
        self.fetched[reader].append(letter)

    def settle(self, hop: str, reader: str, *, dead: bool) -> None:
        """Acknowledge or reject what was fetched; nothing happens where the reader has lost it in the meantime."""
        for letter in self.fetched[reader]:
            if letter.hop == hop:
                self.fetched[reader].remove(letter)
                if dead:
                    self.dead.append(letter)
                return

    def bring_back(self, reader: str) -> None:
        """Put what a reader has fetched back where it waited."""
        for letter in self.fetched.pop(reader, ()):
            self.waiting[letter.queue_name].append(letter)


class Watcher(Protocol):
    """Whoever is told what a process is about to do at the broker, and what it has done."""

    name: str

    def seam(self, at: str) -> None:
        """It is about to call the broker."""

    def stores(self) -> bool:
        """Tell whether the broker takes the message."""

    def stored(self, message: Message[Any]) -> None:
        """A message was stored."""

    def settled(self, message: MessageProxy, *, dead: bool) -> None:
        """A message was acknowledged or rejected."""

    def buried(self, message: Message[Any]) -> None:
        """A message that was in no queue is among the dead letters."""

    def listed(self, letters: list[Letter]) -> None:
        """Letters are about to be flushed."""

    def dropped(self, letters: list[Letter]) -> None:
        """Letters were flushed or withdrawn."""


class PostBroker(Broker):
    """The broker object of one process.

    Args:
        post: What is stored.
        watcher: The process.
        middleware: Its middleware.
    """

    def __init__(self, post: Post, watcher: Watcher, middleware: list[Middleware]) -> None:
        self.post = post
        self.watcher = watcher
        super().__init__(middleware)

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue, as the Stub broker does."""
        if queue_name in self.queues:
            return
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = True
        self.emit_after("declare_queue", queue_name)
        delayed_name = dq_name(queue_name)
        self.queues[delayed_name] = True
        self.delay_queues.add(delayed_name)
        self.emit_after("declare_delay_queue", delayed_name)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Enqueue a message, as the Redis broker does."""
        message = message.copy(options={_HOP: self.post.next_hop()})
        if delay is not None:
            message = message.copy(
                queue_name=dq_name(message.queue_name), options={"eta": current_millis() + int(delay)}
            )
        if message.queue_name not in self.queues:
            raise QueueNotFound(message.queue_name)
        self.emit_before("enqueue", message, delay)
        self.watcher.seam("put")
        if not self.watcher.stores():
            raise ConnectionClosed("the broker was not there")
        self.post.waiting[message.queue_name].append(Letter.of(message))
        self.watcher.stored(message)
        self.emit_after("enqueue", message, delay)
        return message

    def flush(self, queue_name: str) -> None:
        """Drop what waits in a queue and its delay queue, as the Redis broker does."""
        for name in (queue_name, dq_name(queue_name)):
            self.watcher.seam("purge")
            dropped, self.post.waiting[name] = self.post.waiting[name], []
            self.watcher.dropped(dropped)


class PostConsumer(Consumer):
    """The consumer of one queue in one process."""

    def __init__(self, broker: PostBroker) -> None:
        self._broker = broker

    def ack(self, message: MessageProxy) -> None:
        """Acknowledge a message."""
        self._settle(message, dead=False)

    def nack(self, message: MessageProxy) -> None:
        """Reject a message."""
        self._settle(message, dead=True)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Do nothing: nothing is prefetched."""

    def _settle(self, message: MessageProxy, *, dead: bool) -> None:
        watcher = self._broker.watcher
        watcher.seam("nack" if dead else "ack")
        self._broker.post.settle(message.options[_HOP], watcher.name, dead=dead)
        watcher.settled(message, dead=dead)


class AnyLetters(AnyBroker):
    """What the package asks of a broker that cannot say whether a message exists, and has dead letters."""

    def __init__(self, broker: PostBroker) -> None:
        super().__init__(broker.enqueue)
        self.post = broker.post
        self.watcher = broker.watcher

    def dead_letter(self, message: Message[Any], error: Exception) -> None:
        """Put a message into the dead letters."""
        self.watcher.seam("dead_letter")
        self.post.dead.append(Letter.of(message.copy(options={_HOP: self.post.next_hop()})))
        self.watcher.buried(message)

    def flushed(self, queue_name: str) -> Iterator[Message[Any]]:
        """Give what waits in a queue and its delay queue."""
        self.watcher.seam("list")
        letters = [*self.post.waiting[queue_name], *self.post.waiting[dq_name(queue_name)]]
        self.watcher.listed(letters)
        for letter in letters:
            yield letter.message


class AllLetters(AnyLetters):
    """The same of a broker that can say, and can withdraw: the Redis broker."""

    can_say = True

    def broker_id(self, message: Message[Any] | MessageProxy) -> str:
        """Name a hop."""
        hop: str = message.options[_HOP]
        return hop

    def exists(self, queue_name: str, broker_id: str) -> bool | None:
        """Look for a hop, waiting or fetched."""
        self.watcher.seam("exists")
        return any(letter.hop == broker_id and letter.queue_name == queue_name for letter in self.post.letters())

    def withdraw(self, queue_name: str, broker_id: str) -> Message[Any] | None:
        """Take a hop out where it waits."""
        self.watcher.seam("withdraw")
        for letter in self.post.waiting[queue_name]:
            if letter.hop == broker_id:
                self.post.waiting[queue_name].remove(letter)
                self.watcher.dropped([letter])
                return letter.message
        return None


def adapter(kind: str) -> Callable[[Broker, Callable[[Message[Any]], object]], BrokerAdapter]:
    """Choose what the package is told of the broker.

    Args:
        kind: ``"silent"``: it cannot say whether a message exists; ``"telling"``: it can; ``"unknown"``: its class
            is not known, so that it has no dead letters for what never was in a queue.
    """

    def choose(broker: Broker, enqueue: Callable[[Message[Any]], object]) -> BrokerAdapter:
        assert isinstance(broker, PostBroker)
        if kind == "unknown":
            return AnyBroker(enqueue)
        return AllLetters(broker) if kind == "telling" else AnyLetters(broker)

    return choose
