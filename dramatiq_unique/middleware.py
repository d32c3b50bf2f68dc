"""The middleware: Dramatiq's hooks, and what each one means for the locks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from dramatiq import Actor, Broker, Message, Middleware, Worker
from dramatiq.broker import MessageProxy
from dramatiq.worker import ConsumerThread, WorkerThread

from dramatiq_unique.binding import Binding
from dramatiq_unique.errors import InvalidLockOptions, UniqueError, ours
from dramatiq_unique.events import Event
from dramatiq_unique.explaining import Explaining
from dramatiq_unique.guard import Attempt
from dramatiq_unique.journal import Journal
from dramatiq_unique.lock_types import LockType
from dramatiq_unique.locks import Locks
from dramatiq_unique.options import OPTION_NAMES
from dramatiq_unique.settings import Settings
from dramatiq_unique.signatures import is_plain_of_one
from dramatiq_unique.store import Client
from dramatiq_unique.strategies import Strategy


__all__ = ["UniqueMiddleware"]

_BINDINGS = "_dramatiq_unique"  # The attribute of a broker that keeps the parts of each middleware on it.

Subscriber = TypeVar("Subscriber", bound="Callable[[Event], object]")


class UniqueMiddleware(Middleware):
    """Keeps the same job from being queued or run twice.

    ::

        broker.add_middleware(UniqueMiddleware())

        @dramatiq.actor(lock="until_executing")
        def reindex_product(product_id): ...

    It works at any place in the broker's list of middleware, added before or after the actors are declared. One
    instance serves one application; on several brokers it keeps their locks apart by actor and queue only.

    Arguments:
        client: The Redis that holds the locks: a synchronous :class:`redis.Redis` or what behaves like one
            (a Sentinel's master, :class:`redis.RedisCluster`, ``fakeredis.FakeRedis``).
        url: Its URL instead. With neither: the environment's ``DRAMATIQ_UNIQUE_URL``, else the Redis broker's own
            client, else Redis on this host.
        prefix: What every key begins with.
        on_conflict: What happens to a duplicate, unless the actor or the message says otherwise: ``"log"``,
            ``"raise"``, ``"reject"``, ``"replace"``, ``"reschedule"``, one of ``strategies``, or
            ``{"client": ..., "server": ...}``. Unset: refused silently at enqueue, rescheduled at the worker.
        lock_ttl: The longest life of a lock in seconds or as a timedelta, unless the actor or the message says
            otherwise. Unset: as long as the message.
        lease: How long a run lock outlives a worker that was killed, in seconds or as a timedelta; it is renewed at
            a third of that. At least one second.
        on_store_error: ``"raise"``: where Redis cannot be reached nothing is enqueued or run without its lock.
            ``"ignore"``: it is, and said loudly.
        enabled: ``False``: the options are checked, and nothing is locked.
        lock_types: More rows for the table of lock types; a built-in name is replaced.
        strategies: More strategies, by name; a built-in name is replaced.
        defaults: Any other lock option, as a default for all actors.

    Raises:
        InvalidLockOptions: One of these is wrong.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        url: str | None = None,
        prefix: str = "dramatiq-unique",
        on_conflict: str | Mapping[str, str | None] | None = None,
        lock_ttl: object = None,
        lease: object = 30,
        on_store_error: str = "raise",
        enabled: bool = True,
        lock_types: Iterable[LockType] = (),
        strategies: Mapping[str, Strategy] | None = None,
        **defaults: object,
    ) -> None:
        self.enabled = enabled
        self._settings = Settings.checked(
            client=client,
            url=url,
            prefix=prefix,
            lease=lease,
            on_store_error=on_store_error,
            enabled=enabled,
            lock_types=lock_types,
            strategies=strategies,
            defaults=defaults | {"on_conflict": on_conflict, "lock_ttl": lock_ttl},
        )
        self._journal = Journal()
        self._meeting = threading.Lock()
        self._met_last: Callable[[], Broker | None] = lambda: None

    def subscribe(self, function: Subscriber) -> Subscriber:
        """Hear every event (:mod:`dramatiq_unique.events`); also usable as a decorator.

        Arguments:
            function: Called with the event, in the thread where it happened. What it raises is logged and harms
                nobody.

        Returns:
            The function.

        Raises:
            InvalidLockOptions: It cannot be called with an event, or its body would not run.
        """
        if not is_plain_of_one(function):
            raise InvalidLockOptions(
                f"UniqueMiddleware.subscribe takes a plain function of one argument, the event; not {function!r}"
            )
        self._journal.subscribe(function)
        return function

    @property
    def locks(self) -> Locks:
        """The locks, to look at and to let go (:class:`~dramatiq_unique.locks.Locks`).

        On several brokers: what goes by actor, by that actor's broker; all else by the one that was met last.

        Raises:
            UniqueError: No broker was met yet, which happens when an actor is declared on it.
        """
        broker = self._met_last()
        if broker is None:
            raise UniqueError("UniqueMiddleware.locks: add it to a broker first, and declare an actor there")
        parts = self._on(broker).parts
        return Locks(
            parts.store.client,
            prefix=parts.store.prefix,
            on=self._explaining,
            journal=self._journal,
            one_step=parts.one_step is not None,
        )

    def _explaining(self, actor: Actor[Any, Any]) -> Explaining:
        if self not in actor.broker.middleware:
            raise UniqueError(f"actor {actor.actor_name!r} is on another broker than this UniqueMiddleware")
        return Explaining(self._on(actor.broker).parts, enabled=self.enabled)

    @property
    def actor_options(self) -> set[str]:
        """The options that actors may carry."""
        return set(OPTION_NAMES)

    # Declaration

    def before_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        """Check the options of an actor; a wrong one is raised where it is declared."""
        with ours(f"the options of actor {actor.actor_name!r} could not be checked"):
            self._on(broker).parts.claims.declare(actor)

    def after_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        """Check the options of an actor that was declared before the middleware was added."""
        self.before_declare_actor(broker, actor)

    def after_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Meet the broker, before anything is sent."""
        self._on(broker)

    # Enqueue

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: float | None) -> None:
        """Take the queue lock of a message."""
        if self.enabled:
            on = self._met(broker)
            if on is not None:
                on.enqueueing.enqueue(message, delay, on.guard.attempt)
            else:
                # Inside of an enqueue that is not wrapped yet: this one message cannot be refused quietly, so it goes
                # without its lock, and the worker settles it.
                self._on(broker).enqueueing.enqueue(message, delay, Attempt(passive=True))

    # Worker

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Be the first to hear when an actor is done, wherever this middleware stands."""
        self._on(broker).parts.holding.worker_boots()
        after_body = self._on(broker).after_body
        # A new list: Dramatiq is walking the old one right now.
        broker.middleware = [*(m for m in broker.middleware if m is not after_body), after_body]

    def after_worker_thread_boot(self, broker: Broker, thread: WorkerThread) -> None:
        """Know this thread as Dramatiq's."""
        self._on(broker).parts.deliveries.enter_thread()

    def after_consumer_thread_boot(self, broker: Broker, thread: ConsumerThread) -> None:
        """Know this thread as Dramatiq's."""
        self._on(broker).parts.deliveries.enter_thread()

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Settle the locks of a delivery before its actor runs."""
        if self.enabled:
            self._on(broker).processing.start(message)

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any | None = None,
        exception: BaseException | None = None,
    ) -> None:
        """Let go of what ends with the actor, where it was not done first thing (:class:`AfterBody`)."""
        self._on(broker).processing.finish(message, exception)

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """The same, where the actor or a later middleware skipped the message."""
        self._on(broker).processing.finish(message, None)

    def before_ack(self, broker: Broker, message: MessageProxy) -> None:
        """Let go of everything, if this ack is the end of the message."""
        self._on(broker).processing.end(message, dead=False)

    def before_nack(self, broker: Broker, message: MessageProxy) -> None:
        """Let go of everything: a nack is always the end of a message."""
        self._on(broker).processing.end(message, dead=True)

    def after_ack(self, broker: Broker, message: MessageProxy) -> None:
        """Forget the delivery."""
        self._on(broker).processing.close(message)

    after_nack = after_ack

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Stop keeping leases, after the last worker of the process."""
        self._on(broker).parts.holding.worker_is_down()

    # Binding

    def _met(self, broker: Broker) -> Binding | None:
        """Find the parts on this broker, if it was met."""
        bindings: dict[int, Binding] = vars(broker).get(_BINDINGS, {})
        return bindings.get(id(self))

    def _on(self, broker: Broker) -> Binding:
        """Find the parts on this broker, which keeps them, so that they go when it goes."""
        binding = self._met(broker)
        if binding is None:
            with self._meeting:
                binding = self._met(broker)  # Another thread may have met it meanwhile.
                if binding is None:
                    binding = self._bind(broker)
                    vars(broker).setdefault(_BINDINGS, {})[id(self)] = binding
        return binding

    def _bind(self, broker: Broker) -> Binding:
        if any(isinstance(other, UniqueMiddleware) and other is not self for other in broker.middleware):
            raise InvalidLockOptions(
                "UniqueMiddleware: there is another one on this broker, and each would take the locks of the other's "
                "messages for conflicts; keep one"
            )
        with ours(f"UniqueMiddleware cannot work with {type(broker).__name__}"):
            binding = Binding.to(broker, self._settings, self._journal)
        self._met_last = weakref.ref(broker)
        return binding
