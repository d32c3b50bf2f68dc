"""Helpers for the tests of those who use this package.

::

    def test_a_duplicate_is_refused():
        first, second = welcome.send(1), welcome.send(1)
        assert_enqueued(first)
        assert_refused(second, by=first)
        assert_locked(welcome, 1)

Plain functions and context managers, for any test runner: nothing happens on import, and there is no plugin. They work
with every broker and every Redis that the middleware works with, fakeredis among them. An assertion that fails is an
:class:`AssertionError` that says what was found instead.
"""

from __future__ import annotations

from typing import Any, Literal, ParamSpec

import dramatiq.broker
from dramatiq import Actor, Message

from dramatiq_unique.errors import UniqueError
from dramatiq_unique.glimpse import Glimpse
from dramatiq_unique.middleware import UniqueMiddleware
from dramatiq_unique.outcome import Outcome, outcome
from dramatiq_unique.store.clearing import clear
from dramatiq_unique.switch import Switch, checked


__all__ = [
    "Switch",
    "assert_enqueued",
    "assert_locked",
    "assert_not_locked",
    "assert_refused",
    "disabled",
    "enabled",
    "free_everything",
]

P = ParamSpec("P")

Refusal = Literal["discarded", "rejected", "rescheduled"]


def disabled(unique: UniqueMiddleware) -> Switch:
    """Lock nothing while the block runs: messages are sent and run as if no actor had a lock.

    What is locked already stays so, and is let go when its message ends. Blocks may be nested; each puts back what it
    found. It is for the whole process, the threads of a worker included.

    Arguments:
        unique: The middleware.
    """
    return Switch(unique, on=False)


def enabled(unique: UniqueMiddleware) -> Switch:
    """Lock while the block runs: inside of :func:`disabled`, or where the middleware has ``enabled=False``.

    Arguments:
        unique: The middleware.
    """
    return Switch(unique, on=True)


def assert_locked(actor: Actor[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Assert that somebody has a lock that such a message would ask for: its queue lock, its run lock, or both.

    Arguments:
        actor: The actor.
        args: Positional arguments of the message.
        kwargs: Its keyword arguments.

    Raises:
        AssertionError: Nobody has, or the actor has no lock.
        InvalidLockOptions: The actor's options do not fit the arguments.
        UniqueError: There is no middleware on the actor's broker.
    """
    __tracebackhide__ = True
    unique, message = _unique_on(actor), actor.message(*args, **kwargs)
    found = _look(unique, actor, message)
    if found.holders:
        return
    why = ""
    if not unique.enabled:
        why = "; the middleware is switched off"
    elif not found.at_enqueue:
        why = f"; {found.lock} takes its lock when the actor begins to run, and none at enqueue"
    raise AssertionError(f"{message} is not locked: nobody holds {found.lock} lock {found.digest}{why}")


def assert_not_locked(actor: Actor[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Assert that nobody has a lock that such a message would ask for.

    Arguments:
        actor: The actor.
        args: Positional arguments of the message.
        kwargs: Its keyword arguments.

    Raises:
        AssertionError: Somebody has: the text says who, since when and where. Or the actor has no lock, so that this
            could never fail.
        InvalidLockOptions: The actor's options do not fit the arguments.
        UniqueError: There is no middleware on the actor's broker.
    """
    __tracebackhide__ = True
    unique, message = _unique_on(actor), actor.message(*args, **kwargs)
    found = _look(unique, actor, message)
    if found.holders:
        holders = "\n".join(f"  {holder}" for holder in found.holders)
        raise AssertionError(f"{message} is locked by {found.lock} lock {found.digest}:\n{holders}")


def assert_refused(message: Message[Any], action: Refusal = "discarded", *, by: Message[Any] | None = None) -> None:
    """Assert that a message was not let in, because another one held its lock.

    Arguments:
        message: What ``send`` returned.
        action: What became of it: ``"discarded"``: it is gone; ``"rejected"``: it is in the dead letters;
            ``"rescheduled"``: it comes back later.
        by: The message that should have been in the way; whichever it was by default.

    Raises:
        AssertionError: Something else became of it, or another message was in the way; or it does not know, as for
            :func:`assert_enqueued`.
    """
    __tracebackhide__ = True
    found = _outcome(message)
    if found.action != action:
        raise AssertionError(f"{_name(message)} was not {action} but {_told(found)}")
    if by is not None and found.holder_id != by.message_id:
        raise AssertionError(f"{_name(message)} was {_told(found)}, and not by {_name(by)}")


def assert_enqueued(message: Message[Any], *, in_place_of: Message[Any] | None = None) -> None:
    """Assert that a message was let into its queue, with its lock or because it asks for none.

    Arguments:
        message: What ``send`` or ``broker.enqueue`` returned. What was passed to ``broker.enqueue``, and the messages
            that a group was made of, do not know what became of them.
        in_place_of: The message whose place it should have taken (``on_conflict="replace"``); by default it does not
            matter whether it took one.

    Raises:
        AssertionError: Something else became of it, or it did not take that place. Or it does not know, although its
            actor on Dramatiq's global broker has a lock, so that this could never fail.
    """
    __tracebackhide__ = True
    found = _outcome(message)
    if found.action not in ("enqueued", "replaced"):
        raise AssertionError(f"{_name(message)} was not enqueued but {_told(found)}")
    if in_place_of is not None and (found.action, found.holder_id) != ("replaced", in_place_of.message_id):
        raise AssertionError(f"{_name(message)} was {_told(found)}, and not in the place of {_name(in_place_of)}")


def free_everything(unique: UniqueMiddleware) -> int:
    """Drop every lock in the middleware's Redis that has its prefix, whoever holds it, and tell nobody.

    For between two tests, while no worker runs. The messages stay; ``broker.flush_all()`` drops those.

    Arguments:
        unique: The middleware. Where it is on several brokers, each with a Redis of its own, the one that it met last
            is meant.

    Returns:
        How many locks there were; 0 where the test left none.

    Raises:
        LockStoreUnavailable: Redis cannot be reached, or refuses.
        UniqueError: The middleware has met no broker yet.
    """
    broker = checked(unique)._met_last()  # noqa: SLF001 - of one package
    if broker is None:
        raise UniqueError("free_everything: add the middleware to a broker first, and declare an actor there")
    return clear(unique._on(broker).parts.store)  # noqa: SLF001 - of one package


def _unique_on(actor: Actor[Any, Any]) -> UniqueMiddleware:
    if not isinstance(actor, Actor):
        raise UniqueError(f"pass an actor, not {actor!r}")
    for middleware in actor.broker.middleware:
        if isinstance(middleware, UniqueMiddleware):
            return middleware
    raise UniqueError(f"actor {actor.actor_name!r}: there is no UniqueMiddleware on its broker")


def _look(unique: UniqueMiddleware, actor: Actor[Any, Any], message: Message[Any]) -> Glimpse:
    __tracebackhide__ = True
    found = Glimpse.of(message, unique._on(actor.broker).parts)  # noqa: SLF001 - of one package
    if found is None:
        raise AssertionError(f"{message} asks for no lock: actor {actor.actor_name!r} has no lock=")
    return found


def _outcome(message: Message[Any]) -> Outcome:
    """Say what became of a message, unless it cannot know."""
    __tracebackhide__ = True
    if not isinstance(message, Message):
        raise UniqueError(f"pass a message, as send returns it, not {message!r}")
    found, broker = outcome(message), dramatiq.broker.global_broker
    if found.digest is None and broker is not None and message.actor_name in broker.actors:
        unique = next((m for m in broker.middleware if isinstance(m, UniqueMiddleware)), None)
        if unique is not None and unique.enabled and Glimpse.of(message, unique._on(broker).parts):  # noqa: SLF001 - of one package
            raise AssertionError(
                f"{_name(message)} does not know what became of it: pass what send or broker.enqueue returned, and not "
                "what was passed to it or made a group of; one that was sent with the locks disabled knows only while "
                "they are"
            )
    return found


def _name(message: Message[Any]) -> str:
    return f"message {message.message_id} ({message})"


def _told(found: Outcome) -> str:
    """Say what became of a message, and because of whom."""
    if found.digest is None:
        return "enqueued without asking for a lock"
    holder = f"message {found.holder_id}"
    return {
        "enqueued": f"enqueued with lock {found.digest}",
        "replaced": f"enqueued with lock {found.digest} in the place of {holder}",
        "discarded": f"discarded: {holder} held lock {found.digest}",
        "rejected": f"rejected (dead-lettered): {holder} held lock {found.digest}",
        "rescheduled": f"rescheduled: {holder} held lock {found.digest}",
    }[found.action]
