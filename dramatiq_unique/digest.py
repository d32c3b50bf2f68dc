"""Sameness: what makes two messages the same.

The digest covers the actor's name, its canonical queue, and the arguments bound to the actor's signature, in a
canonical form: that of the message encoder's own output, so that whatever the encoder makes the same is the same
here (a tuple and a list under JSON), and a worker that computes the digest from a delivered message finds what the
producer found. It is BLAKE2b with 160 bits, the same in every process, Python version and ``PYTHONHASHSEED``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dramatiq import get_encoder
from dramatiq.common import q_name
from dramatiq.encoder import JSONEncoder

from dramatiq_unique.actors import ActorView
from dramatiq_unique.errors import InvalidLockOptions
from dramatiq_unique.options import LockOptions


__all__ = ["digest_of"]

_DIGEST_BYTES = 20
_NO_FORM = (TypeError, ValueError, RecursionError)
_SCALARS = frozenset({type(None), bool, int, float, str})
"""What JSON gives back as it was given; not so a subclass, such as an enum."""

_written = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def digest_of(
    actor: ActorView,
    options: LockOptions,
    *,
    message_id: str,
    queue_name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> str:
    """Compute the digest of a message.

    Arguments:
        actor: The message's actor.
        options: Its options: ``lock_args``, ``lock_args_method``, ``unique_across_queues``,
            ``unique_across_actors``.
        message_id: For errors only.
        queue_name: Its queue; a delay queue's name stands for the queue behind it.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Returns:
        40 hexadecimal characters.

    Raises:
        InvalidLockOptions: ``lock_args_method`` raised or returned ``None``, or what counts has no canonical form.
    """
    scope = (
        "" if options.unique_across_actors else actor.actor_name,
        "" if options.unique_across_queues else q_name(queue_name),
    )
    what = _what_counts(message_id, actor, options, args, kwargs)
    try:
        if what[0] == "bound" and _comes_back_as_it_is(what[1]):
            text = _written([*scope, what])
        else:
            what = _without_sentinels(what, actor)
            text = _canonical([*scope, what])
    except _NO_FORM as exc:
        culprit = _culprit(what)
        raise InvalidLockOptions(
            f"{_where(message_id, actor)}: {culprit} no canonical form ({type(exc).__name__}), so it cannot be told "
            "from another; name the parameters that count in lock_args, or return what counts from lock_args_method"
        ) from exc
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _what_counts(
    message_id: str, actor: ActorView, options: LockOptions, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    if options.lock_args_method is not None:
        name = getattr(options.lock_args_method, "__name__", "lock_args_method")
        try:
            key = options.lock_args_method(*args, **kwargs)
        except Exception as exc:
            raise InvalidLockOptions(
                f"{_where(message_id, actor)}: lock_args_method {name!r} raised {type(exc).__name__}, so there is "
                "nothing to lock by"
            ) from exc
        if key is None:
            raise InvalidLockOptions(
                f"{_where(message_id, actor)}: lock_args_method {name!r} returned None, one lock for every message; "
                "return what counts"
            )
        return ["key", key]
    bound = actor.bind(args, kwargs)
    if bound is None:
        return ["given", list(args), dict(kwargs)]
    return ["bound", bound if options.lock_args is None else {name: bound[name] for name in options.lock_args}]


def _where(message_id: str, actor: ActorView) -> str:
    return f"message {message_id} of actor {actor.actor_name!r}"


def _without_sentinels(what: list[Any], actor: ActorView) -> list[Any]:
    """Leave out a default that no message could spell out (a sentinel object): it says nothing about sameness."""
    kind, *values = what
    if kind != "bound":
        return what
    return [kind, {n: v for n, v in values[0].items() if not (actor.is_default(n, v) and not _is_canonical(v))}]


def _comes_back_as_it_is(arguments: Mapping[str, object]) -> bool:
    """Tell of most arguments, without asking the encoder, that it makes nothing else of them."""
    return type(get_encoder()) is JSONEncoder and _SCALARS.issuperset(map(type, arguments.values()))


def _culprit(what: list[Any]) -> str:
    """Name the argument that has no canonical form, by parameter and type, never by value."""
    kind = what[0]
    if kind == "bound":
        for name, value in what[1].items():
            if not _is_canonical(value):
                return f"argument {name!r} ({type(value).__name__}) has"
    return "what lock_args_method returned has" if kind == "key" else "its arguments have"


def _is_canonical(value: object) -> bool:
    try:
        _canonical(value)
    except _NO_FORM:
        return False
    return True


def _canonical(value: object) -> str:
    encoder = get_encoder()
    # Encoded and decoded once, as the worker will see it: under JSON, keys become strings before they are sorted.
    plain = json.loads(json.dumps(value)) if type(encoder) is JSONEncoder else _plain(_round_trip(encoder, value))
    return _written(plain)


def _round_trip(encoder: Any, value: object) -> object:
    """Take a value through an encoder of the user's own, in the shape of a message."""
    encoded = encoder.encode(
        {
            "queue_name": "",
            "actor_name": "",
            "args": (value,),
            "kwargs": {},
            "options": {},
            "message_id": "",
            "message_timestamp": 0,
        }
    )
    return encoder.decode(encoded)["args"][0]


def _plain(value: object) -> object:
    """Check that a value is made of what JSON can tell apart.

    Raises:
        TypeError: It has another type in it, or a dict whose keys are not strings.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} has no canonical form")
