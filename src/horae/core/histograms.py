"""Histograms on a logarithmic scale: they merge by addition, and any percentile can be read from them later.

A bucket is a whole number; its upper bound is ``2 ** (bucket / 4)`` milliseconds. So a percentile is told at most 19 %
too high, from a millisecond to years, with a few dozen counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta

STEPS = 4  # buckets for each doubling
LAST = 160  # the bucket for everything longer than 2**40 milliseconds, about 35 years

Histogram = dict[int, int]  # bucket to count; buckets without a count are left out


def bucket_of(span: timedelta) -> int:
    """Return the bucket of a span: the first whose upper bound is not shorter; a negative span counts as zero."""
    milliseconds = span / timedelta(milliseconds=1)
    if milliseconds <= 1:
        return 0
    bucket = math.ceil(math.log2(milliseconds) * STEPS - 1e-9)
    return min(bucket, LAST)


def bound_of(bucket: int) -> timedelta:
    """Return the upper bound of a bucket."""
    return timedelta(milliseconds=2 ** (bucket / STEPS))


def histogram(spans: Iterable[timedelta]) -> Histogram:
    """Count spans by bucket."""
    found: Histogram = {}
    for span in spans:
        bucket = bucket_of(span)
        found[bucket] = found.get(bucket, 0) + 1
    return found


def merge(histograms: Iterable[Mapping[int, int]]) -> Histogram:
    """Add histograms, for example those of sixty minutes to that of their hour."""
    found: Histogram = {}
    for each in histograms:
        for bucket, count in each.items():
            found[bucket] = found.get(bucket, 0) + count
    return found


def percentile(counts: Mapping[int, int], share: float) -> timedelta | None:
    """Return the span that *share* (0 to 1) of all do not exceed, rounded up to its bucket; None without any."""
    total = sum(counts.values())
    if not total:
        return None
    wanted = max(1, math.ceil(share * total))
    reached = 0
    for bucket in sorted(counts):
        reached += counts[bucket]
        if reached >= wanted:
            return bound_of(bucket)
    raise AssertionError("a share is at most 1")
