"""Every operation of expectations, through all four senders."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from horae.actions.jobs.requests import Request
from horae.api.schedules.expectations import MissedRun
from horae.core.schedules.expectations import MissedRun as Record
from horae.errors import InvalidInput
from horae.ports.store import Tx
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

numbers = count()
DUE = datetime(2030, 6, 3, 2, 10, tzinfo=UTC)


@pytest.fixture
def key(served: Served) -> str:
    """The key of a schedule of which three runs were missing: one is, one was late, one is the tenant's."""
    number = next(numbers)
    name = f"expected-{number}"
    late = Record(
        subject=f"schedule:9{number:03}", schedule=name, owner="system", handler="report", queue="default",
        expect="within 10m", expected_at=DUE - timedelta(minutes=10), due_at=DUE, last_due_at=DUE, found_at=DUE,
        state="recovered", ended_at=DUE + timedelta(hours=1),
    )  # fmt: skip
    missing = replace(late, due_at=DUE + timedelta(days=1), state="open", ended_at=None, count=3)
    hers = replace(missing, subject=f"{late.subject}a", owner="alice")

    def write(tx: Tx) -> None:
        for each in (late, missing, hers):
            tx.expectations.add(each)

    served.world.store.transact(write)
    return name


def test_what_is_missing_is_listed_the_newest_first(rooms: Sent, key: str) -> None:
    found = list(rooms.house.expectations.list(schedule=key, owner="system"))

    assert all(isinstance(each, MissedRun) for each in found)
    assert [(each.state, each.count) for each in found] == [("open", 3), ("recovered", 1)]
    assert (found[1].due_at, found[1].ended_at) == (DUE, DUE + timedelta(hours=1))
    assert (found[0].schedule, found[0].handler, found[0].expect) == (key, "report", "within 10m")
    assert found[0].id.startswith("miss_")


def test_the_list_is_narrowed_and_paged(rooms: Sent, key: str) -> None:
    first = rooms.house.expectations.list(schedule=key).page(None, limit=2)
    rest = rooms.house.expectations.list(schedule=key).page(first.next_cursor, limit=2)

    assert [each.owner for each in first.items] == ["alice", "system"]
    assert ([each.state for each in rest.items], rest.next_cursor) == (["recovered"], None)
    assert [each.state for each in rooms.house.expectations.list(schedule=key, state="recovered")] == ["recovered"]
    assert list(rooms.house.expectations.list(schedule="no such")) == []
    with refused(InvalidInput, "choice_unknown"):
        list(rooms.house.expectations.list(state="lost"))


def test_a_tenant_sees_its_own(rooms: Sent, key: str) -> None:
    assert [each.owner for each in rooms.alice.expectations.list(schedule=key)] == ["alice"]


def test_a_schedule_says_what_is_expected_of_it(rooms: Sent, key: str) -> None:
    made = rooms.house.schedules.create(key, handler="h", cron="0 2 * * *", expect="within 90m")
    changed = rooms.house.schedules.change(key, expect="by 6:00 Europe/Berlin")
    lifted = rooms.house.schedules.change(key, expect=None)
    rooms.house.schedules.delete(key)

    assert (made.expect, changed.expect, lifted.expect) == ("within 1h30m", "by 06:00 Europe/Berlin", None)
    assert made.missed_at is None
    with refused(InvalidInput, "expect_bare_span"):
        rooms.house.schedules.create(key, handler="h", cron="0 2 * * *", expect="10m")


def test_a_job_says_what_is_expected_of_it(rooms: Sent, key: str) -> None:
    job = rooms.house.jobs.enqueue("send", unique=key, delay="1h", expect="within 90m")
    many = rooms.house.jobs.enqueue_many([Request("send", queue=key, expect="by 06:00 Europe/Berlin")])
    (waiting,) = rooms.house.expectations.list(state="waiting", job=job.id)

    assert (waiting.job, waiting.schedule, waiting.expect) == (job.id, None, "within 1h30m")
    assert (waiting.expected_at, waiting.due_at) == (job.run_at, job.run_at + timedelta(minutes=90))
    assert [each.expect for each in rooms.house.expectations.list(state="waiting", job=many[0].id)] == [
        "by 06:00 Europe/Berlin"
    ]
    assert "expected" in [each.code for each in rooms.house.jobs.why(job.id)]
    assert list(rooms.house.expectations.list(job=job.id)) == [], "nothing is missing yet"
    rooms.house.jobs.cancel(job.id)
    assert list(rooms.house.expectations.list(state="waiting", job=job.id)) == []


@pytest.mark.parametrize("expect", ["every 1d", "10m", "by 2020-01-01T00:00:00Z"])
def test_what_cannot_be_expected_of_a_job_is_refused(expect: str, rooms: Sent) -> None:
    with pytest.raises(InvalidInput):
        rooms.house.jobs.enqueue("send", expect=expect)


def test_a_tenant_expects_something_of_its_own_job(rooms: Sent) -> None:
    job = rooms.alice.jobs.enqueue("webhook", {"url": "https://example.org"}, delay="1h", expect="within 10m")

    assert [each.owner for each in rooms.alice.expectations.list(state="waiting", job=job.id)] == ["alice"]
    house = rooms.house.jobs.enqueue("send", delay="1h", expect="within 10m")
    assert list(rooms.alice.expectations.list(state="waiting", job=house.id)) == []
