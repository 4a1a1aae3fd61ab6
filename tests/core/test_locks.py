"""Which attempt the value of a lock names."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from horae.core.jobs.job import Job
from horae.core.jobs.locks import LockHolder

RANDOM = "0123456789abcdef" * 2
NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
JOB = Job(12, "clean", {}, "running", "default", "medium", NOON, NOON, NOON, token=5)


def test_a_value_names_the_attempt_that_made_it() -> None:
    holder = LockHolder.of(JOB)

    assert LockHolder.read(holder.value(RANDOM)) == holder
    assert holder.run_id == JOB.run_id


@pytest.mark.parametrize("value", ["", RANDOM, "a.b.c.d", "somebody else", f"{RANDOM}.1.2.3", "x" * 22 + ".1.2.g"])
def test_a_value_that_names_no_attempt_is_nobodys(value: str) -> None:
    assert LockHolder.read(value) is None


def test_the_largest_value_fits_where_locks_are_kept() -> None:
    largest = LockHolder(2**63 - 1, 2**56 - 1, 2**32 - 1)

    assert len(largest.value(RANDOM)) <= 64


def test_only_a_later_attempt_at_the_same_job_follows() -> None:
    first = LockHolder.of(JOB)
    later = replace(first, token=7)

    assert later.follows(first)
    assert not first.follows(later)
    assert not first.follows(first)
    assert not replace(later, number=13).follows(first)
    assert not replace(later, created_at=first.created_at + 1).follows(first)
