"""Every operation of the room of users' scheduled tasks, through all four senders: equal values, equal errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from horae.api.scheduled_tasks.values import ScheduledTask, ScheduledTaskRun, TaskTerms
from horae.core.scheduled_tasks.task import Wish
from horae.core.schedules.schedule import Schedule
from horae.errors import (
    Conflict,
    IntervalRefused,
    InvalidCron,
    InvalidInput,
    KeyConflict,
    NotAllowed,
    NotFound,
    VersionConflict,
)
from tests.api.conftest import Sent
from tests.support.refusals import refused

numbers = count()
NEVER = f"task_{'0' * 32}"
# What a schedule has that a task says in another word, and what it does not say at all.
IN_OTHER_WORDS = {"key", "owner", "title", "kind", "expression", "zone", "next_fire_at", "last_fire_at", "paused_at"}
HIDDEN = {
    "budget", "cost",
    "number", "group", "queue", "priority", "gap", "fold", "anchor", "initial_delay", "misfire", "catch_up", "spread",
    "grace", "overlap", "jitter", "retry", "timeout", "mode", "lock_ttl", "stale_timeout", "after", "starts_at",
    "ends_at", "max_fires", "declared", "paused_by", "pause_reason", "next_due_at", "tzdata", "fire_count", "sources",
    "toggled", "calendar", "calendar_days", "calendar_rule", "quiet_hours", "paused_until", "expect",
    "expected_since", "succeeded_at", "missed_at", "check_job",
}  # fmt: skip


@pytest.fixture
def task(rooms: Sent) -> Iterator[ScheduledTask]:
    """A task of alice's; it goes away, because only twenty may be enabled."""
    made = rooms.alice.scheduled_tasks.create(
        name="stand-up", schedule_expr="0 9 * * 1-5", timezone="Asia/Shanghai", payload={"text": "stand up"}
    )
    yield made
    for each in rooms.alice.scheduled_tasks.list():
        rooms.alice.scheduled_tasks.delete(each.id)


def test_the_limits_say_how_many_tasks_are_on_and_may_be(rooms: Sent, task: ScheduledTask) -> None:
    limits = rooms.alice.scheduled_tasks.limits()
    assert (limits.enabled, limits.max_enabled, limits.handler) == (1, 20, "dispatch")
    assert task.handler in limits.handlers
    rooms.alice.scheduled_tasks.change(task.id, enabled=False)
    assert rooms.alice.scheduled_tasks.limits().enabled == 0
    assert rooms.house.scheduled_tasks.limits().enabled == 0


def test_a_task_is_stored_as_it_was_asked_for(rooms: Sent, task: ScheduledTask) -> None:
    assert isinstance(task, ScheduledTask)
    assert (task.user_id, task.name, task.enabled, task.version) == ("alice", "stand-up", True, 1)
    assert (task.schedule_type, task.schedule_expr, task.timezone) == ("cron", "0 9 * * 1-5", "Asia/Shanghai")
    assert (task.payload, task.handler, task.deduplicated) == ({"text": "stand up"}, "dispatch", False)
    assert rooms.alice.scheduled_tasks.get(task.id) == task
    assert list(rooms.alice.scheduled_tasks.list()) == [task]
    assert task in list(rooms.house.scheduled_tasks.list(user_id="alice"))
    assert rooms.alice.scheduled_tasks.get(task.id, lang="zh").words != task.words


def test_the_same_key_is_the_same_task_and_other_terms_are_refused(rooms: Sent, task: ScheduledTask) -> None:
    key = f"k{next(numbers)}"
    first = rooms.alice.scheduled_tasks.create(key=key, payload={"text": "x"})
    again = rooms.alice.scheduled_tasks.create(key=key, payload={"text": "x"})
    with refused(KeyConflict, "key_taken"):
        rooms.alice.scheduled_tasks.create(key=key, payload={"text": "y"})

    assert (again.id, first.deduplicated, again.deduplicated) == (first.id, False, True)
    rooms.alice.scheduled_tasks.delete(first.id)
    with refused(Conflict, "task_key_of_deleted"):
        rooms.alice.scheduled_tasks.create(key=key, payload={"text": "x"})


def test_a_time_without_an_offset_is_one_of_the_tasks_own_zone(rooms: Sent, task: ScheduledTask) -> None:
    at = datetime(2040, 1, 1, 9)  # noqa: DTZ001
    made = rooms.alice.scheduled_tasks.create(
        schedule_type="once", timezone="Asia/Shanghai", next_run_at=at, payload={"text": "x"}
    )
    assert made.next_run_at == datetime(2040, 1, 1, 1, tzinfo=UTC)


def test_a_change_keeps_the_rest(rooms: Sent, task: ScheduledTask) -> None:
    changed = rooms.alice.scheduled_tasks.change(task.id, enabled=False, version=task.version, reason="holiday")
    either = rooms.alice.scheduled_tasks.change(task.id, name="later", version=[1, changed.version])

    assert (changed.enabled, changed.name, changed.version, changed.next_run_at) == (False, "stand-up", 2, None)
    assert (either.name, either.version) == ("later", 3)
    assert rooms.alice.scheduled_tasks.why(task.id).status == "disabled"
    with refused(VersionConflict, "task_version_old"):
        rooms.alice.scheduled_tasks.change(task.id, enabled=True, version=1)
    with refused(VersionConflict, "task_version_old"):
        rooms.alice.scheduled_tasks.delete(task.id, version=1)
    assert [each.reason for each in rooms.house.schedules.versions(task.id, owner="alice")] == [None, "holiday", None]


def test_what_lies_ahead_is_told_of_a_task_and_of_a_thought(rooms: Sent, task: ScheduledTask) -> None:
    ahead = rooms.alice.scheduled_tasks.preview(task.id, count=2)
    thought = rooms.alice.scheduled_tasks.preview_new(
        schedule_expr="0 9 * * 1-5", timezone="Asia/Shanghai", payload={"text": "x"}, count=2
    )

    assert (len(ahead.next), ahead.next[0].local[10:]) == (2, "T09:00:00+08:00")
    assert thought.next == ahead.next
    assert list(rooms.alice.scheduled_tasks.list()) == [task]
    with pytest.raises(InvalidInput):
        rooms.alice.scheduled_tasks.preview(task.id, count=0)


def test_a_task_is_triggered_run_and_taken_from_its_worker(rooms: Sent, task: ScheduledTask) -> None:
    with refused(NotAllowed, "task_not_running"):
        rooms.alice.scheduled_tasks.release(task.id)
    done = rooms.alice.scheduled_tasks.trigger(task.id, {"text": "now"}, reason="asked for")
    with refused(Conflict, "task_running"):
        rooms.alice.scheduled_tasks.trigger(task.id)

    (job,) = rooms.alice.jobs.claim("w1", queues=["default"])
    assert (job.id, job.payload["text"], done.task_id) == (done.job_id, "now", task.id)
    (run,) = rooms.alice.scheduled_tasks.runs(task.id)
    assert isinstance(run, ScheduledTaskRun)
    assert (run.status, run.outcome, run.trigger, run.job_id) == ("running", "running", "manual", job.id)
    assert rooms.alice.scheduled_tasks.get(task.id).locked_by == "w1"

    assert rooms.alice.scheduled_tasks.release(task.id, reason="stuck").locked_by is None
    (again,) = rooms.alice.jobs.claim("w2", queues=["default"])
    rooms.alice.jobs.ack(again.id, again.token)
    first = rooms.alice.scheduled_tasks.runs(task.id).page(limit=1)
    assert [each.status for each in first.items] == ["success"]
    assert rooms.alice.scheduled_tasks.get(task.id).last_run_at is not None


def test_pages_go_on_where_the_one_before_ended(rooms: Sent, task: ScheduledTask) -> None:
    made = [rooms.alice.scheduled_tasks.create(payload={"text": str(number)}).id for number in range(2)]

    first = rooms.alice.scheduled_tasks.list().page(limit=2)
    second = rooms.alice.scheduled_tasks.list().page(first.next_cursor, limit=2)

    assert [each.id for each in (*first.items, *second.items)] == [*reversed(made), task.id]
    for pages in (rooms.alice.scheduled_tasks.list(), rooms.alice.scheduled_tasks.runs(task.id)):
        with refused(InvalidInput, "cursor_invalid"):
            pages.page("nonsense")
        with refused(InvalidInput, "out_of_range"):
            pages.page(limit=5000)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"schedule_expr": "61 * * * *"}, InvalidCron),
        ({"schedule_type": "interval", "schedule_expr": "1"}, IntervalRefused),
        ({"schedule_type": "weekly"}, InvalidInput),
        ({"schedule_type": "once"}, InvalidInput),
        ({"timezone": "Mars/Base"}, InvalidInput),
        ({"enabled": "no"}, InvalidInput),
        ({"schedule_expr": True}, InvalidInput),
        ({"name": "a\x00b"}, InvalidInput),
        ({"payload": [1]}, InvalidInput),
        ({"colour": "red"}, InvalidInput),
        ({"lang": "de"}, InvalidInput),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_alike(rooms: Sent, wrong: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        rooms.alice.scheduled_tasks.create(**{"payload": {"text": "x"}, **wrong})
    assert list(rooms.alice.scheduled_tasks.list()) == []


def test_nobody_reaches_somebody_elses_task(rooms: Sent, task: ScheduledTask) -> None:
    theirs = rooms.house.scheduled_tasks.create(payload={"text": "x"})
    room = rooms.alice.scheduled_tasks
    for act in (room.get, room.change, room.delete, room.trigger, room.preview, room.why, room.release):
        for unknown in (theirs.id, NEVER):
            with refused(NotFound, "scheduled_task_unknown"):
                act(unknown)
    with refused(NotFound, "tenant_unknown"):
        list(room.list(user_id="bob"))
    rooms.house.scheduled_tasks.delete(theirs.id, reason="done")


# -- values ------------------------------------------------------------------------------------------------------------


def test_every_stored_field_is_public_or_hidden() -> None:
    names, shown = ({each.name for each in fields(kind)} for kind in (Schedule, ScheduledTask))
    assert names - shown == HIDDEN | IN_OTHER_WORDS


def test_what_a_user_can_say_is_what_a_wish_holds() -> None:
    assert set(TaskTerms.__annotations__) == {each.name for each in fields(Wish)}
