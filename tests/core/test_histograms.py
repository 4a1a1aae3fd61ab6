"""Histograms merge by addition and tell percentiles within the width of a bucket."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.histograms import LAST, bound_of, bucket_of, histogram, merge, percentile

spans = st.integers(0, 10**12).map(lambda microseconds: timedelta(microseconds=microseconds))


@given(spans)
def test_a_span_lies_below_its_bound_and_above_the_one_before(span: timedelta) -> None:
    bucket = bucket_of(span)
    assert span <= bound_of(bucket) + timedelta(microseconds=1)
    assert bucket == 0 or span > bound_of(bucket - 1) - timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("span", "bucket"),
    [
        (timedelta(seconds=-5), 0),
        (timedelta(0), 0),
        (timedelta(milliseconds=1), 0),
        (timedelta(milliseconds=2), 4),
        (timedelta(milliseconds=1024), 40),
        (timedelta(days=100_000), LAST),
    ],
)
def test_bounds_are_powers_of_two_milliseconds(span: timedelta, bucket: int) -> None:
    assert bucket_of(span) == bucket


@given(st.lists(st.lists(spans, max_size=10), max_size=5))
def test_merging_counts_all_together(groups: list[list[timedelta]]) -> None:
    assert merge(map(histogram, groups)) == histogram(span for group in groups for span in group)


@given(st.lists(spans, min_size=1, max_size=40), st.floats(0, 1))
def test_a_percentile_is_at_most_a_bucket_too_high(values: list[timedelta], share: float) -> None:
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    found = percentile(histogram(values), share)
    assert found is not None
    assert exact <= found + timedelta(microseconds=1)
    assert found <= max(exact * 1.19, timedelta(milliseconds=1)) + timedelta(microseconds=2)


def test_nothing_has_no_percentile() -> None:
    assert percentile({}, 0.95) is None
