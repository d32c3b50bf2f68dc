"""The first to hear that an actor is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dramatiq import Broker, Middleware
from dramatiq.broker import MessageProxy


__all__ = ["AfterBody"]


class AfterBody(Middleware):
    """Stands last in the list of a broker that works, and passes on that a message was processed, or skipped.

    ``after_*`` hooks run in reverse order (``Broker.emit_after``), so wherever the :class:`UniqueMiddleware` itself
    stands, a run lock is gone before ``Retries`` enqueues the next attempt, and what ``Pipelines`` and ``Callbacks``
    send is known to be sent by Dramatiq.

    Arguments:
        finish: Called with the message and what the actor raised.
    """

    def __init__(self, finish: Callable[[MessageProxy, BaseException | None], object]) -> None:
        self._finish = finish

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any | None = None,
        exception: BaseException | None = None,
    ) -> None:
        """Let go of what ends with the actor."""
        self._finish(message, exception)

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """Let go of what was taken before the actor, or a later middleware, raised ``SkipMessage``."""
        self._finish(message, None)
