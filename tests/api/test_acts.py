"""Every operation of bulk acts, through all four senders."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from horae.actions.jobs.machinery import serve_due
from horae.api import acts as room
from horae.api.acts import Act
from horae.core.jobs import acts as core
from horae.errors import InvalidFilter, NotAllowed, NotFound, WaitTimeout
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"bulk{number}" for number in count())
LATER = datetime(2040, 1, 7, 6, 0, tzinfo=UTC)


@pytest.fixture
def queue() -> str:
    return next(names)


def work(served: Served) -> None:
    while serve_due(served.world, "w"):
        pass


def test_an_act_is_counted_begun_worked_on_and_waited_for(rooms: Sent, served: Served, queue: str) -> None:
    ids = [rooms.house.jobs.enqueue("resize", queue=queue).id for _ in range(3)]

    seen = rooms.house.acts.preview("cancel", f"queue:{queue}")
    begun = rooms.house.acts.start("cancel", f"queue:{queue}", reason="wrong list")
    with refused(WaitTimeout, "act_not_ended_in_time"):
        rooms.house.acts.wait(begun.id, timeout=0)
    work(served)
    done = rooms.house.acts.wait(begun.id, timeout=60)

    assert (seen.matched, seen.more, [job.id for job in seen.first]) == (3, False, ids)
    assert (begun.verb, begun.state, begun.filter, begun.matched) == ("cancel", "running", f"queue:{queue}", 3)
    assert (begun.reason, begun.owner, begun.changed, begun.finished_at) == ("wrong list", "system", 0, None)
    assert (done.state, done.changed, done.skipped, dict(done.skipped_first)) == ("done", 3, 0, {})
    assert done.finished_at is not None
    assert rooms.house.acts.get(begun.id) == done
    assert {rooms.house.jobs.get(each).state for each in ids} == {"cancelled"}


def test_acts_are_listed_newest_first_in_pages(rooms: Sent, queue: str) -> None:
    made = [rooms.house.acts.start("revive", f"queue:{queue}").id for _ in range(3)]

    page = rooms.house.acts.list().page(limit=2)
    rest = rooms.house.acts.list().page(page.next_cursor, limit=1)

    assert [act.id for act in (*page.items, *rest.items)] == made[::-1]
    rooms.house.acts.cancel(made[0])
    assert made[0] in [act.id for act in rooms.house.acts.list(state="cancelled")]
    assert made[0] not in [act.id for act in rooms.house.acts.list(state=["running", "done"])]


def test_an_act_is_paused_resumed_and_cancelled(rooms: Sent, queue: str) -> None:
    act = rooms.house.acts.start("cancel", f"queue:{queue}")

    assert rooms.house.acts.pause(act.id, reason="too fast").state == "paused"
    assert rooms.house.acts.wait(act.id, timeout=0).state == "paused"
    with refused(NotAllowed, "transition_refused"):
        rooms.house.acts.pause(act.id)
    assert rooms.house.acts.resume(act.id).state == "running"
    assert rooms.house.acts.cancel(act.id).state == "cancelled"


def test_jobs_are_moved_and_moved_back(rooms: Sent, served: Served, queue: str) -> None:
    job = rooms.house.jobs.enqueue("resize", queue=queue, delay=3600)

    act = rooms.house.acts.start("reschedule", f"queue:{queue}", run_at=LATER)
    work(served)
    moved = rooms.house.jobs.get(job.id).run_at
    undone = rooms.house.acts.undo(act.id, reason="not meant")
    work(served)

    assert (moved, undone.verb, undone.undoes) == (LATER, "undo", act.id)
    assert rooms.house.jobs.get(job.id).run_at == job.run_at
    soon = rooms.house.acts.start("reschedule", f"queue:{queue}", delay=timedelta(hours=1))
    assert soon.run_at == soon.created_at + timedelta(hours=1)


def test_a_tenants_act_is_its_own_and_reaches_its_own_jobs(rooms: Sent, served: Served, queue: str) -> None:
    hers, ours = (who.jobs.enqueue("dispatch", queue=queue).id for who in (rooms.alice, rooms.house))

    act = rooms.alice.acts.start("cancel", f"queue:{queue}")
    house = rooms.house.acts.start("revive", f"queue:{queue}")
    work(served)

    assert (act.owner, rooms.alice.acts.get(act.id).changed) == ("alice", 1)
    assert (rooms.alice.jobs.get(hers).state, rooms.house.jobs.get(ours).state) == ("cancelled", "queued")
    assert house.id not in [each.id for each in rooms.alice.acts.list()]
    for verb in ("get", "pause", "resume", "cancel", "undo"):
        with refused(NotFound, "act_unknown"):
            getattr(rooms.alice.acts, verb)(house.id)
    with refused(NotFound, "tenant_unknown"):
        rooms.alice.acts.start("cancel", "owner:bob")


def test_a_mistake_has_its_position_and_an_empty_filter_is_refused(rooms: Sent) -> None:
    with refused(InvalidFilter, "filter_field_unknown", position=12):
        rooms.house.acts.start("cancel", "queue:mail stat:dead")
    with refused(InvalidFilter, "filter_empty"):
        rooms.house.acts.preview("cancel", " ")
    with refused(NotFound, "act_unknown"):
        rooms.house.acts.get("act_x")


def test_every_field_of_an_act_is_public_or_listed_as_hidden() -> None:
    stored, public = ({each.name for each in fields(kind)} for kind in (core.Act, Act))

    assert stored - public == room.HIDDEN
    assert public - stored == {"id", "up_to", "at", "job_id", "skipped_first", "incomplete"}
