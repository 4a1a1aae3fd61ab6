"""Histograms on a logarithmic scale: they merge by addition, and any percentile can be read from them later.

A bucket is a whole number; its upper bound is ``2 ** (bucket / 4)`` milliseconds. So a percentile is given at most 19 %
too high, from a millisecond to years, with a few dozen counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from datetime import timedelta

STEPS = 4  # buckets for each doubling
LAST = 160  # the bucket for everything longer than 2**40 milliseconds, about 35 years

# The longest span of each bucket but the last, in whole microseconds: so that SQL, which has no logarithm everywhere,
# and Python find the same bucket. Exact: only every fourth bound is a whole number, and it is a power of two.
EDGES = tuple(math.floor(1000 * 2 ** (bucket // STEPS) * 2 ** (bucket % STEPS / STEPS)) for bucket in range(LAST))

Histogram = dict[int, int]  # bucket to count; buckets without a count are left out


def bucket_of(span: timedelta) -> int:
    """Return the bucket of a span: the first whose upper bound is not shorter; a negative span counts as zero."""
    return bisect_left(EDGES, span // timedelta(microseconds=1))


def histogram_text(counts: Mapping[int, int]) -> str:
    """Return a histogram as it is stored: ``12:5 13:1``; empty without a count."""
    return " ".join(f"{bucket}:{counts[bucket]}" for bucket in sorted(counts))


def histogram_from(text: str) -> Histogram:
    """Read a histogram from its stored form, or from several, one behind the other: they are added up."""
    found: Histogram = {}
    for part in text.split():
        bucket, _, count = part.partition(":")
        found[int(bucket)] = found.get(int(bucket), 0) + int(count)
    return found


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
