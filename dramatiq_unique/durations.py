"""Durations as people write them, and milliseconds as Redis takes them."""

from __future__ import annotations

import math
from datetime import timedelta


__all__ = ["LONGEST_MS", "to_ms"]

LONGEST_MS = 10 * 365 * 24 * 3600 * 1000
"""Ten years: nothing is locked for longer, and no deadline overflows what Redis stores."""


def to_ms(value: object, *, zero: bool = False) -> int:
    """Turn a duration into whole milliseconds.

    Arguments:
        value: Seconds as ``int`` or ``float``, or a :class:`datetime.timedelta`.
        zero: Whether 0 is allowed.

    Returns:
        Milliseconds, at least 1 unless the value is 0.

    Raises:
        ValueError: It is no duration, is not finite, is negative or longer than ten years; the text says what is
            right.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValueError(f"takes seconds (int or float) or a timedelta, not {value!r}")  # noqa: TRY004 - callers treat wrong type and wrong range alike
    # No isfinite() of an int: one that is larger than any float would overflow there.
    finite = isinstance(seconds, int) or math.isfinite(seconds)
    if not finite or seconds < 0 or (seconds == 0 and not zero):
        raise ValueError(f"must be {'0 or more' if zero else 'more than 0'} seconds, not {value!r}")
    if seconds * 1000 > LONGEST_MS:
        raise ValueError(f"must be at most ten years ({LONGEST_MS // 1000} seconds), not {value!r}")
    return math.ceil(seconds * 1000)
