"""The arithmetic of rate limits, against the plain definition: never too many in any window (S4-16, S4-17)."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.limits import Limit
from horae.errors import DefinitionError
from tests.support.refusals import refused

SECOND = 1_000_000  # in microseconds
MINUTE = 60


def limit_of(max_calls: int, window: int) -> Limit:
    return Limit("calls", max_calls, timedelta(seconds=window))


def in_micros(seconds: list[int]) -> list[int]:
    return [each * SECOND for each in seconds]


def turn(calls: list[int], ahead: int = 0, *, max_calls: int = 3, now: int = 100) -> float:
    """Return the instant of the next turn; all instants are seconds."""
    return limit_of(max_calls, MINUTE).turn_at(in_micros(calls), ahead, now * SECOND) / SECOND


def test_a_call_goes_at_once_while_there_is_room() -> None:
    assert turn([]) == 100
    assert turn([50, 60]) == 100


def test_a_full_window_waits_until_its_oldest_call_leaves() -> None:
    assert turn([50, 60, 70]) == 50 + MINUTE


def test_whoever_stands_behind_others_waits_for_a_later_call_to_leave() -> None:
    assert [turn([50, 60, 70], ahead) for ahead in range(3)] == [110, 120, 130]


def test_a_long_line_waits_for_calls_that_are_not_made_yet() -> None:
    assert [turn([50, 60, 70], ahead) for ahead in (3, 4, 6)] == [170, 180, 230]


def test_callers_ahead_use_the_room_before_this_one() -> None:
    assert [turn([50], ahead) for ahead in range(4)] == [100, 100, 110, 160]
    assert [turn([], ahead) for ahead in range(4)] == [100, 100, 100, 160]


def test_a_call_leaves_exactly_one_window_after_it_was_made() -> None:
    limit, calls = limit_of(3, MINUTE), in_micros([40, 40, 41])

    assert limit.first_counted(calls, 100 * SECOND) == 2
    assert limit.first_counted(calls, 100 * SECOND - 1) == 0


def test_a_lowered_limit_waits_until_few_enough_calls_are_left() -> None:
    assert turn([50, 60, 70, 80, 90], max_calls=2) == 80 + MINUTE


@given(
    max_calls=st.integers(1, 5),
    window=st.integers(1, 20),
    arrivals=st.lists(st.integers(0, 15), max_size=40),
)
def test_no_window_ever_holds_more_calls_than_the_limit(max_calls: int, window: int, arrivals: list[int]) -> None:
    limit = limit_of(max_calls, window)
    calls: list[int] = []
    now = 0
    for pause in in_micros(arrivals):
        now += pause
        now = limit.turn_at(calls[limit.first_counted(calls, now) :], 0, now)
        calls.append(now)

    assert all(later - earlier >= limit.micros for earlier, later in zip(calls, calls[max_calls:], strict=False))


@given(
    max_calls=st.integers(1, 5),
    window=st.integers(1, 20),
    made=st.lists(st.integers(0, 19), max_size=5),
    waiting=st.integers(0, 20),
)
def test_the_turn_told_to_the_last_in_line_is_when_it_really_comes(
    max_calls: int, window: int, made: list[int], waiting: int
) -> None:
    limit, now = limit_of(max_calls, window), 20 * SECOND
    calls = in_micros(sorted(made)[:max_calls])
    answer = limit.turn_at(calls[limit.first_counted(calls, now) :], waiting, now)

    at = now
    for _ in range(waiting + 1):  # each goes as soon as it may, one after the other
        at = limit.turn_at(calls[limit.first_counted(calls, at) :], 0, at)
        calls.append(at)

    assert answer == at


@pytest.mark.parametrize(
    ("max_calls", "window", "name", "reason"),
    [
        (0, 60.0, "a", "rate_too_low"), (-1, 60.0, "a", "rate_too_low"), (1.5, 60.0, "a", "rate_not_whole"),
        ("5", 60.0, "a", "rate_not_whole"), (1, 0.0, "a", "rate_window_too_short"),
        (1, 0.0005, "a", "rate_window_too_short"), (1, 60.0, "", "rate_name_unreadable"),
        (1, 60.0, "x" * 256, "rate_name_unreadable"),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_work_is_refused(max_calls: Any, window: float, name: str, reason: str) -> None:
    with refused(DefinitionError, reason):
        Limit(name, max_calls, timedelta(seconds=window))
