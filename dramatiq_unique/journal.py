"""Tells each fact twice: to the subscribers as an event, to the log as a line.

Where the application configured structlog, its configuration is used. Where it did not, the lines go to Python's
``logging`` under ``dramatiq_unique``, as ``event key=value`` beside Dramatiq's own.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import structlog
from structlog.typing import EventDict

from dramatiq_unique.events import LEVELS, Event


__all__ = ["Journal"]

LOGGER_NAME = "dramatiq_unique"


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

    def tell(self, event: Event, *, level: int | None = None, exc_info: BaseException | None = None) -> None:
        """Tell a fact.

        Arguments:
            event: The fact.
            level: The level of its line, 0 for none; the one in :data:`~dramatiq_unique.events.LEVELS` by default.
            exc_info: What was raised, where the line should show it.
        """
        fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        level = LEVELS[event.name] if level is None else level
        if level:
            self._line(level, event.name, exc_info, fields)
        for function in tuple(self._subscribers):
            try:
                function(event)
            except Exception as exc:  # noqa: BLE001 - a subscriber harms nobody
                name = getattr(function, "__qualname__", repr(function))
                self.complain("subscriber_failed", exc, subscriber=name, told=event.name)

    def complain(self, name: str, error: BaseException | None, **fields: str) -> None:
        """Write an error line about something that has no event: a fault in code of the user's own.

        Arguments:
            name: What failed.
            error: What was raised, if anything was.
            fields: What else to say.
        """
        self._line(logging.ERROR, name, error, fields)

    @staticmethod
    def _line(level: int, name: str, exc_info: BaseException | None, fields: dict[str, Any]) -> None:
        fields = {key: value for key, value in fields.items() if value is not None}
        if exc_info is not None:
            fields["exc_info"] = exc_info
        _logger().log(level, name, **fields)


def _logger() -> Any:
    """Find the logger anew for each line, since applications configure structlog whenever they like."""
    if structlog.is_configured():
        return structlog.get_logger(LOGGER_NAME)
    return structlog.wrap_logger(
        logging.getLogger(LOGGER_NAME),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, _plain],
    )


def _plain(_logger: object, _method: str, line: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """Write a line as ``event key=value ...`` for ``logging``."""
    exc_info = line.pop("exc_info", None)
    text = " ".join([line.pop("event"), *(f"{key}={value}" for key, value in line.items())])
    return (text,), {"exc_info": exc_info}
