"""Durations: what people write, in whole milliseconds, and nothing that is no duration."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_unique.durations import LONGEST_MS, to_ms


SECONDS = st.one_of(
    st.integers(min_value=1, max_value=LONGEST_MS // 1000),
    st.floats(min_value=0, max_value=LONGEST_MS / 1000, exclude_min=True),
)


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (1, 1000),
        (2.5, 2500),
        (timedelta(minutes=1), 60_000),
        (timedelta(milliseconds=1), 1),
        (0.0001, 1),
        (1.0001, 1001),
        (LONGEST_MS // 1000, LONGEST_MS),
    ],
)
def test_seconds_and_timedeltas_become_milliseconds(value: float | timedelta, ms: int) -> None:
    """Seconds as int or float, or a timedelta; a part of a millisecond counts as a whole one."""
    assert to_ms(value) == ms


@given(SECONDS)
def test_a_duration_becomes_longer_by_at_most_a_millisecond_and_never_zero(value: float) -> None:
    """Rounding goes up, so what is more than nothing stays more than nothing."""
    ms = to_ms(value)

    assert ms >= 1
    assert value * 1000 <= ms <= value * 1000 + 1


@given(SECONDS, SECONDS)
def test_a_longer_duration_is_never_shorter_in_milliseconds(one: float, other: float) -> None:
    """Order is kept."""
    shorter, longer = sorted([one, other])

    assert to_ms(shorter) <= to_ms(longer)


@pytest.mark.parametrize("value", [0, 0.0, timedelta(0)])
def test_zero_is_a_duration_only_where_it_is_asked_for(value: float | timedelta) -> None:
    """An expiry of nothing is refused; a wait of nothing is fine."""
    assert to_ms(value, zero=True) == 0
    with pytest.raises(ValueError, match=r"must be more than 0 seconds, not "):
        to_ms(value)


@pytest.mark.parametrize("value", ["10", None, True, False, b"1", [1], 1j, object])
def test_what_is_no_duration_is_refused(value: object) -> None:
    """A string of digits isn't guessed at, and True isn't one second."""
    for zero in (False, True):
        with pytest.raises(ValueError, match=r"takes seconds \(int or float\) or a timedelta, not "):
            to_ms(value, zero=zero)


@pytest.mark.parametrize("value", [-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, -math.inf])
def test_negative_and_endless_durations_are_refused(value: float | timedelta) -> None:
    """Neither a deadline in the past nor one that never comes."""
    with pytest.raises(ValueError, match="must be more than 0 seconds"):
        to_ms(value)
    with pytest.raises(ValueError, match="must be 0 or more seconds"):
        to_ms(value, zero=True)


@pytest.mark.parametrize(
    "value",
    [LONGEST_MS // 1000 + 1, LONGEST_MS / 1000 + 0.001, timedelta.max, 1e300, 10**400],
    ids=["int", "float", "timedelta", "huge float", "int beyond floats"],
)
def test_more_than_ten_years_is_refused(value: float | timedelta) -> None:
    """No deadline overflows what Redis stores."""
    with pytest.raises(ValueError, match="must be at most ten years"):
        to_ms(value)
