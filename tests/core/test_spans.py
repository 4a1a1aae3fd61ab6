"""Spans as callers write them: one reader for all doors."""

from datetime import timedelta
from typing import Any

import pytest

from horae.core.attention.task import Policy, wait_span
from horae.core.jobs.outcomes import Snooze
from horae.core.jobs.retry import Retry, time_limit
from horae.core.schedules.rules import Every
from horae.core.time.spans import span, span_from
from horae.errors import InvalidInput
from tests.support.refusals import refused

WRITTEN = {
    "0": 0, "90": 90, "250ms": 0.25, "90s": 90, "1.5m": 90, "2h": 7200, "1d": 86400, "2w": 1209600,
    "1h30m": 5400, "1d12h": 129600, "1m0.5s": 60.5, "1s500ms": 1.5,
}  # fmt: skip
UNREADABLE = [
    "", "soon", "-5", "5 weeks", "nan", "inf", "1e99", "s", "30m1h", "5m5", "1h1h", "5M", " 5m", "٥m", "1" * 41,
    "99999999w",
]  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), WRITTEN.items())
def test_text_is_a_number_of_each_unit_from_the_longest_to_the_shortest(text: str, seconds: float) -> None:
    assert span_from(text) == span(text) == span(seconds) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_not_a_span_is_refused_with_an_example(text: str) -> None:
    with refused(InvalidInput, "duration_unreadable", what="duration"):
        span_from(text)


def test_whatever_takes_a_span_takes_it_as_text() -> None:
    five = timedelta(minutes=5)

    assert Retry.fixed("5m").delay == Retry.exponential("5m").delay == Retry.external(default="5m").delay == five
    assert Retry.exponential(cap="5m").cap == Retry.external(deadline="5m").deadline == five
    assert Every("5m") == Every(300)
    assert time_limit("5m") == Snooze("5m").delay == wait_span("5m", Policy()) == five


@pytest.mark.parametrize("value", [None, [], {}, object()])
def test_what_is_neither_text_nor_a_number_is_refused(value: Any) -> None:
    with refused(InvalidInput, "span_unreadable"):
        span(value)
