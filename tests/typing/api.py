"""Every public name, used as a user would: checked by mypy in strict mode, never run."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Literal

import dramatiq
import redis
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker
from prometheus_client import CollectorRegistry
from typing_extensions import assert_type

from dramatiq_unique import (
    DuplicateMessage,
    InvalidLockOptions,
    LockStoreUnavailable,
    LockType,
    Outcome,
    UniqueError,
    UniqueMiddleware,
    original,
    outcome,
)
from dramatiq_unique.events import Event, Refused
from dramatiq_unique.lock_types import Until
from dramatiq_unique.locks import Explanation, Lock, LockHolder, Locks
from dramatiq_unique.prometheus import Metrics
from dramatiq_unique.strategies import Action, Conflict
from dramatiq_unique.testing import (
    assert_enqueued,
    assert_locked,
    assert_not_locked,
    assert_refused,
    disabled,
    enabled,
    free_everything,
)


# The middleware, with nothing, and with everything.
UniqueMiddleware()
UniqueMiddleware(redis.Redis())
UniqueMiddleware(url="redis://localhost:6379/0")


def patient(conflict: Conflict) -> Action:
    """Wait at the worker; give up at enqueue, and after ten times."""
    assert_type(conflict.side, Literal["client", "server"])
    return Action.RESCHEDULE if conflict.side == "server" and conflict.rescheduled < 10 else Action.DISCARD


unique = UniqueMiddleware(
    redis.Redis(),
    prefix="my-app",
    on_conflict={"client": "raise", "server": None},
    lock_ttl=timedelta(hours=1),
    lease=10,
    on_store_error="ignore",
    enabled=True,
    lock_types=[LockType("until_executed_alone", queue=Until.END, run=True)],
    strategies={"patient": patient},
    reschedule_delay=2.5,
    lock_timeout=1,
)
broker = RedisBroker()
broker.add_middleware(unique)


# Actors keep the types of their functions.
@dramatiq.actor(
    broker=broker,
    lock="until_executed",
    lock_ttl=timedelta(minutes=10),
    lock_args=["tenant"],
    on_conflict="replace",
)
def export(tenant: str, *, full: bool = False) -> int:
    """Do some work."""
    return len(tenant) + full


message = export.send("acme", full=True)
assert_type(message, Message[int])
later = export.send_with_options(args=("acme",), lock=None, lock_ttl=5, delay=1000)


# What the sender learns.
learned = outcome(message)
assert_type(learned, Outcome)
assert_type(learned.action, Literal["enqueued", "discarded", "rejected", "replaced", "rescheduled"])
assert_type(learned.digest, str | None)
assert_type(learned.holder_id, str | None)
assert_type(original(message), Message[Any])
original(message).get_result(block=True, timeout=1000)


# What is raised.
def send() -> str:
    """Send, and say what came of it."""
    try:
        export.send("acme")
    except DuplicateMessage as error:
        assert_type(error.message_id, str)
        assert_type(error.actor_name, str)
        assert_type(error.digest, str)
        assert_type(error.holder_id, str | None)
    except (InvalidLockOptions, LockStoreUnavailable) as error:
        return str(error)
    except UniqueError as error:
        return str(error)
    return "sent"


root: type[dramatiq.middleware.MiddlewareError] = UniqueError


# What is told.
@unique.subscribe
def listen(event: Event) -> str:
    """Hear of everything."""
    assert_type(event.message_id, str)
    if isinstance(event, Refused):
        assert_type(event.holder_id, str)
        assert_type(event.next_actor, str | None)
    return event.name


as_before: Callable[[Event], str] = listen
unique.subscribe(print)
assert_type(unique.subscribe(Metrics()), Metrics)
unique.subscribe(Metrics(CollectorRegistry()))


# Tests of users: an actor keeps the types of its arguments.
@disabled(unique)
def test_a_duplicate_is_refused() -> None:
    """Switch the locks on, and look at them."""
    with enabled(unique):
        first, second = export.send("acme"), export.send("acme")
    assert_enqueued(first)
    assert_enqueued(second, in_place_of=first)
    assert_refused(second)
    assert_refused(second, "rejected", by=first)
    assert_locked(export, "acme", full=True)
    assert_not_locked(export, tenant="acme")
    assert_type(free_everything(unique), int)


test_as_before: Callable[[], None] = test_a_duplicate_is_refused


# Looking.
assert_type(unique.locks, Locks)
assert_type(unique.locks.get("digest"), Lock | None)
assert_type(unique.locks.find(export, "acme", full=True), Lock | None)
assert_type(unique.locks.iter("export*", queue="default", on_page=print), Iterator[Lock])
assert_type(unique.locks.release("digest", message_id="id"), int)
assert_type(unique.locks.release_matching("export*"), int)
for lock in Locks(redis.Redis(), prefix="my-app").iter():
    assert_type(unique.locks.release(lock), int)
    assert_type(lock.holders, tuple[LockHolder, ...])
    assert_type(lock.holders[0].state, Literal["waiting", "running", "unstored", "window"])
    assert_type(lock.unreadable, str | None)
    assert_type(lock.as_dict(), dict[str, Any])
explanation = unique.locks.explain(export, "acme")
assert_type(explanation, Explanation)
assert_type(explanation.action, Literal["enqueued", "discarded", "rejected", "replaced", "rescheduled", "raised"])
assert_type(explanation.holder, LockHolder | None)


# Lock types.
row = LockType("mine", run=True)
assert_type(row.name, str)
assert_type(row.queue, Until | None)
assert_type(row.run, bool)


# Mistakes that a type checker tells; an ignore that isn't needed is an error, so each of these is one.
UniqueMiddleware(on_conflict=5)  # type: ignore[arg-type]
UniqueMiddleware(enabled="yes")  # type: ignore[arg-type]
UniqueMiddleware("redis://localhost")  # type: ignore[arg-type]
LockType()  # type: ignore[call-arg]
unique.locks.explain("export")  # type: ignore[arg-type]
outcome("a message id")  # type: ignore[arg-type]
learned.action = "enqueued"  # type: ignore[misc]
unique.subscribe(lambda: None)  # type: ignore[type-var]
Metrics("registry")  # type: ignore[arg-type]
assert_locked(export, 5)  # type: ignore[arg-type]
assert_not_locked(export, "acme", fully=True)  # type: ignore[call-arg]
assert_refused(message, "refused")  # type: ignore[arg-type]
assert_enqueued(message, in_place_of="a message id")  # type: ignore[arg-type]
free_everything(broker)  # type: ignore[arg-type]
