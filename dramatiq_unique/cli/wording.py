"""Text that is safe to show: nothing that a terminal would obey, and no password."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timezone


__all__ = ["clipped", "counted", "moment", "printable", "width_of", "without_passwords"]

_USER_INFO = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://).*@", re.DOTALL)
_IN_QUERY = re.compile(r"(?i)\b(password|passwd|pwd|credential\w*)=[^&\s'\"]*")


def printable(text: str) -> str:
    """Write out what a terminal would obey or not show: control characters, changes of direction, line breaks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def without_passwords(text: str) -> str:
    """Leave out what stands before the ``@`` of an address, and what is a password by its name."""
    return _IN_QUERY.sub(r"\1=***", _USER_INFO.sub(r"\1***@", text))


def width_of(text: str) -> int:
    """Say how many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clipped(text: str, columns: int) -> str:
    """Shorten a text to so many columns."""
    if width_of(text) <= columns:
        return text
    while text and width_of(text) >= columns:
        text = text[:-1]
    return f"{text}…"


def moment(ms: int) -> str:
    """Write a moment, in UTC and to the second; somebody may have written one that no calendar has."""
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def counted(number: int, what: str) -> str:
    """Write how many there are of something whose plural ends with an s."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
