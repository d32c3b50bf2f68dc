"""Tells each fact twice: to the subscribers as an event, to the log as a line.

Where the application configured structlog, its configuration is used. Where it did not, the lines go to Python's
``logging`` under ``dramatiq_unique``, as ``event key=value`` beside Dramatiq's own.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import structlog
from structlog.typing import EventDict

from dramatiq_unique.events import LEVELS, Event


__all__ = ["Journal", "where_raised"]

LOGGER_NAME = "dramatiq_unique"
_plain_logger = logging.getLogger(LOGGER_NAME)


class Journal:
    """Where facts are told."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Event], object]] = []

    def subscribe(self, function: Callable[[Event], object]) -> None:
        """Add a subscriber, called in the thread where the fact happened.

        Arguments:
            function: Takes the event. What it raises is logged and harms nobody.
        """
        self._subscribers.append(function)

    def is_heard(self, kind: type[Event], *, level: int | None = None) -> bool:
        """Tell whether a fact would reach anybody, so that one of every message need not be made for nobody.

        Arguments:
            kind: Its class.
            level: As for :meth:`tell`.
        """
        return bool(self._subscribers) or _is_written(LEVELS[kind.name] if level is None else level)

    def tell(self, event: Event, *, level: int | None = None) -> None:
        """Tell a fact.

        Arguments:
            event: The fact.
            level: The level of its line, 0 for none; the one in :data:`~dramatiq_unique.events.LEVELS` by default.
        """
        level = LEVELS[event.name] if level is None else level
        if _is_written(level):
            self._line(level, event.name, {field.name: getattr(event, field.name) for field in fields(event)})
        for function in tuple(self._subscribers):
            try:
                function(event)
            except Exception as exc:  # noqa: BLE001 - a subscriber harms nobody
                name = getattr(function, "__qualname__", type(function).__qualname__)
                self.complain("subscriber_failed", exc, subscriber=name, told=event.name)

    def complain(self, name: str, error: BaseException | None, **details: str) -> None:
        """Write an error line about something that has no event: a fault in code of the user's own.

        Arguments:
            name: What failed.
            error: What was raised, if anything was. Its type and where it was raised are written, and not its text,
                in which there may be arguments of a job.
            details: What else to say.
        """
        if error is not None:
            details |= {"error": type(error).__name__, "where": where_raised(error)}
        self._line(logging.ERROR, name, details)

    @staticmethod
    def _line(level: int, name: str, details: dict[str, Any]) -> None:
        details = {key: value for key, value in details.items() if value is not None}
        try:
            getattr(_logger(), logging.getLevelName(level).lower())(name, **details)
        except Exception:
            # A log that is set up wrongly harms no message.
            _plain_logger.exception("The line %r could not be written.", name)


def where_raised(error: BaseException) -> str:
    """Name the place where an error was raised, as ``file:line in function``."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "unknown"


def _is_written(level: int) -> bool:
    """Tell whether a line of this level may be written: where structlog is configured, only it knows."""
    return bool(level) and (structlog.is_configured() or _plain_logger.isEnabledFor(level))


def _logger() -> Any:
    """Find the logger anew for each line, since applications configure structlog whenever they like."""
    if structlog.is_configured():
        return structlog.get_logger(LOGGER_NAME)
    return structlog.wrap_logger(
        _plain_logger,
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, _plain],
    )


def _plain(_logger: object, _method: str, line: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """Write a line as ``event key=value ...`` for ``logging``."""
    return (" ".join([line.pop("event"), *(f"{key}={_quoted(value)}" for key, value in line.items())]),), {}


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text else text
