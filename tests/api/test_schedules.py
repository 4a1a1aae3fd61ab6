"""Every operation of the schedules room, through all four senders: equal values, equal errors."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from horae import Retry
from horae.api.schedules import values
from horae.api.schedules.timetable import Timetable
from horae.api.schedules.values import Fire, Schedule, ScheduleDetail, Version
from horae.core.audit import entries
from horae.core.schedules import schedule as fires
from horae.errors import Conflict, Forbidden, InvalidInput, InvalidInterval, NotFound, VersionConflict
from horae.ports.schedules import Tally
from tests.api.conftest import Sent
from tests.support.refusals import refused

START = datetime(2040, 1, 7, 6, tzinfo=UTC)
keys = (f"s{number}" for number in count())


@pytest.fixture
def key() -> str:
    """A schedule, or a group, of this test alone."""
    return next(keys)


def test_a_schedule_is_stored_as_it_was_asked_for(rooms: Sent, key: str) -> None:
    made = rooms.house.schedules.create(
        key, handler="report", cron="0 3 * * *", zone="Europe/Berlin", payload={"a": 1}, queue="mail", priority="high",
        group=key, jitter=timedelta(seconds=90), timeout=60, retry=Retry.exponential(2, attempts=4), starts_at=START,
        max_fires=3, title="The nightly report", reason="wanted",
    )  # fmt: skip
    seen = rooms.house.schedules.get(key)

    assert isinstance(made, Schedule)
    assert (made.key, made.kind, made.expression, made.zone, made.owner) == (
        key, "cron", "0 3 * * *", "Europe/Berlin", "system",
    )  # fmt: skip
    assert (made.status, made.words) == ("active", "At 03:00 every day (Europe/Berlin)")
    assert (made.jitter, made.timeout, made.retry) == (
        timedelta(seconds=90), timedelta(seconds=60), Retry.exponential(2, attempts=4),
    )  # fmt: skip
    assert (made.starts_at, made.max_fires, made.payload, made.sources["zone"]) == (START, 3, {"a": 1}, "api")
    assert isinstance(seen, ScheduleDetail)
    assert {each.name: getattr(seen, each.name) for each in fields(Schedule)} == vars(made)
    assert (seen.runs.run_count, [reason.code for reason in seen.why]) == (0, ["not_yet"])
    (version,) = rooms.house.schedules.versions(key)
    assert isinstance(version, Version)
    assert (version.verb, version.reason, version.before) == ("create", "wanted", {})


@pytest.mark.parametrize(
    ("rule", "kind", "expression"),
    [
        ({"every": 90}, "every", "90"),
        ({"every": timedelta(milliseconds=250)}, "every", "0.25"),
        ({"once": START}, "once", "2040-01-07T06:00:00Z"),
    ],
    ids=str,
)
def test_every_kind_of_rule_can_be_given(
    rooms: Sent, key: str, rule: dict[str, Any], kind: str, expression: str
) -> None:
    made = rooms.house.schedules.create(key, **rule)
    follower = rooms.house.schedules.create(f"{key}-next", after=[key])

    assert (made.handler, made.kind, made.expression) == (key, kind, expression)
    assert (follower.after, follower.status) == ((key,), "follows")


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"cron": "61 * * * *"}, {"cron": "* * * * *", "every": 5}, {"every": 60, "evry": 5}, {"cron": None},
        {"every": 60, "handler": "no spaces"}, {"every": 60, "zone": "Mars/Base"}, {"every": 60, "payload": [1]},
        {"every": 60, "timeout": 0}, {"every": 60, "catch_up": 0}, {"every": 60, "title": "two\nlines"},
        {"after": "nightly"}, {"after": [""]}, {"after": []}, {"once": START.replace(tzinfo=None)},
        {"every": 60, "mode": "some"}, {"every": 60, "queue": None}, {"every": 60, "jitter": -1},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_work_is_refused_alike(rooms: Sent, key: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        rooms.house.schedules.create(key, **wrong)
    with refused(NotFound, "schedule_unknown"):
        rooms.house.schedules.get(key)


def test_refusals_have_their_own_kinds(rooms: Sent, key: str) -> None:
    with refused(InvalidInterval, "interval_too_short"):
        rooms.house.schedules.create(key, every=0)
    with refused(NotFound, "followed_unknown"):
        rooms.house.schedules.create(key, after=[f"{key}-never"])
    rooms.house.schedules.create(key, every=60)
    with refused(Conflict, "schedule_exists"):
        rooms.house.schedules.create(key, every=60)
    for act in (rooms.house.schedules.pause, rooms.house.schedules.trigger, rooms.house.schedules.preview):
        with refused(NotFound, "schedule_unknown"):
            act(f"{key}-never")
        with refused(InvalidInput, "label_unreadable"):
            act("a\x00b")


def test_a_change_touches_only_what_it_names(rooms: Sent, key: str) -> None:
    rooms.house.schedules.create(key, cron="0 3 * * *", zone="Asia/Shanghai", group=key, max_fires=3)

    changed = rooms.house.schedules.change(key, every=timedelta(hours=1), group=None, version=1, reason="oftener")

    assert (changed.kind, changed.expression, changed.zone) == ("every", "3600", "Asia/Shanghai")
    assert (changed.group, changed.max_fires, changed.version) == (None, 3, 2)
    with refused(VersionConflict, "schedule_version_old"):
        rooms.house.schedules.change(key, enabled=False, version=1)
    with refused(InvalidInput, "choice_unknown"):
        rooms.house.schedules.change(key, misfire="hope")
    assert [each.reason for each in rooms.house.schedules.versions(key, limit=1)] == ["oftener"]


def test_a_schedule_is_paused_resumed_and_deleted(rooms: Sent, key: str) -> None:
    rooms.house.schedules.create(key, every=3600)
    paused = rooms.house.schedules.pause(key, reason="moving")
    why = rooms.house.schedules.get(key).why
    resumed = rooms.house.schedules.resume(key)

    assert (paused.status, paused.pause_reason, paused.next_fire_at) == ("paused", "moving", None)
    assert ([reason.code for reason in why], resumed.status) == (["paused"], "active")
    assert rooms.house.schedules.delete(key, reason="done") is None
    with refused(NotFound, "schedule_unknown"):
        rooms.house.schedules.delete(key)


def test_a_group_is_paused_and_resumed_together(rooms: Sent, key: str) -> None:
    for number in range(2):
        rooms.house.schedules.create(f"{key}-{number}", every=3600, group=key)
    rooms.house.schedules.pause(f"{key}-0")

    paused = rooms.house.schedules.pause_group(key, reason="night")
    resumed = rooms.house.schedules.resume_group(key)

    assert (paused.group, paused.changed, resumed.changed) == (key, (f"{key}-1",), (f"{key}-0", f"{key}-1"))
    with refused(InvalidInput, "name_unreadable"):
        rooms.house.schedules.pause_group("no spaces")


def test_a_trigger_makes_a_job_or_says_why_not(rooms: Sent, key: str) -> None:
    rooms.house.schedules.create(key, every=3600, payload={"a": 1, "b": 1}, starts_at=START)

    done = rooms.house.schedules.trigger(key, {"b": 2}, reason="now")
    again = rooms.house.schedules.trigger(key)
    history = list(rooms.house.schedules.history(key))

    assert (done.key, done.triggered, done.reason, done.fire.job_id) == (key, True, None, done.job_id)
    assert rooms.house.jobs.get(done.job_id).payload == {"a": 1, "b": 2}
    assert (again.triggered, again.job_id, again.reason) == (False, None, "running")
    assert history == [again.fire, done.fire]
    assert isinstance(history[0], Fire)
    assert [(each.kind, each.verdict) for each in history] == [("manual", "skipped"), ("manual", "ran")]
    assert rooms.house.schedules.history(key).page(limit=1).items == (again.fire,)


def test_pages_go_on_where_the_one_before_ended(rooms: Sent, key: str) -> None:
    made = [rooms.house.schedules.create(f"{key}-{number}", every=3600, group=key).key for number in range(3)]
    for _ in range(3):
        rooms.house.schedules.trigger(made[0])

    first = rooms.house.schedules.list(group=key).page(limit=2)
    second = rooms.house.schedules.list(group=key).page(first.next_cursor, limit=2)
    fires = rooms.house.schedules.history(made[0])

    assert [each.key for each in (*first.items, *second.items)] == made
    assert second.next_cursor is None
    assert [each.key for each in rooms.house.schedules.list(group=key, limit=2)] == made[:2]
    newest = fires.page(limit=2)
    assert [*newest.items, *fires.page(newest.next_cursor, limit=2).items] == list(fires)
    for pages in (fires, rooms.house.schedules.list()):
        with refused(InvalidInput, "cursor_invalid"):
            pages.page("nonsense")
        with refused(InvalidInput, "out_of_range"):
            pages.page(limit=5000)


@pytest.mark.parametrize("wrong", [{"group": "a\x00"}, {"kind": "weekly"}, {"mode": "some"}], ids=str)
def test_a_filter_that_nothing_can_match_is_refused(rooms: Sent, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        list(rooms.house.schedules.list(**wrong))


def test_what_lies_ahead_is_told(rooms: Sent, key: str) -> None:
    rooms.house.schedules.create(key, every=600, owner=key)  # a tenant of this test alone

    ahead = rooms.house.schedules.preview(key, count=3, owner=key)
    forecast = rooms.house.schedules.forecast(hours=1, owner=key)

    assert (ahead.key, len(ahead.fires), ahead.fires[2] - ahead.fires[1]) == (key, 3, timedelta(minutes=10))
    assert [(each.key, each.at) for each in forecast.fires[:2]] == [(key, each) for each in ahead.fires[:2]]
    assert (forecast.complete, forecast.until - forecast.since >= timedelta(hours=1)) == (True, True)
    with refused(InvalidInput, "out_of_range"):
        rooms.house.schedules.preview(key, count=0, owner=key)
    with refused(InvalidInput, "hours_outside"):
        rooms.house.schedules.forecast(hours=0)


def test_a_backfill_counts_first(rooms: Sent, key: str) -> None:
    rooms.house.schedules.create(key, cron="0 3 * * *")
    days = (datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 1, 11, tzinfo=UTC))

    counted = rooms.house.schedules.backfill(key, *days)
    done = rooms.house.schedules.backfill(key, *days, dry_run=False, spread=600, reason="an outage")
    again = rooms.house.schedules.backfill(key, *days)

    assert (counted.missing, counted.job_ids, counted.dry_run) == (3, (), True)
    assert (done.fires, len(done.job_ids), done.dry_run) == (counted.fires, 3, False)
    assert (again.missing, again.present) == (0, 3)
    with refused(InvalidInput, "end_before_start"):
        rooms.house.schedules.backfill(key, *reversed(days))


def test_an_operator_names_a_tenant_and_a_tenant_changes_nothing(rooms: Sent, key: str) -> None:
    hers = rooms.house.schedules.create(key, every=3600, owner="alice")
    rooms.house.schedules.create(f"{key}-house", every=3600)

    assert hers.owner == "alice"
    assert rooms.house.schedules.pause(key, owner="alice").owner == "alice"
    assert [each.key for each in rooms.house.schedules.list(owner="alice") if each.key == key] == [key]
    with refused(NotFound, "schedule_unknown"):
        rooms.house.schedules.get(key)
    for act in (rooms.alice.schedules.pause, rooms.alice.schedules.trigger, rooms.alice.schedules.delete):
        with refused(Forbidden, "scope_missing"):
            act(key)
    with refused(Forbidden, "scope_missing"):
        rooms.alice.schedules.create(f"{key}-mine", every=3600)


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("public", "stored", "hidden"),
    [
        (values.Schedule, fires.Schedule, values.HIDDEN),
        (values.Fire, fires.Fire, set()),
        (values.RunSummary, Tally, set()),
        (values.Version, entries.Entry, values.HIDDEN_VERSION),
    ],
    ids=["schedule", "fire", "runs", "version"],
)
def test_every_stored_field_is_public_or_hidden(public: type, stored: type, hidden: set[str]) -> None:
    names, shown = ({each.name for each in fields(kind)} for kind in (stored, public))
    assert names - shown == hidden


def test_what_can_be_said_about_a_schedule_is_a_field_of_it() -> None:
    said = set(values.Timing.__annotations__) - set(values.RULES)
    assert said <= {each.name for each in fields(fires.Schedule)}


def test_the_timetable_counts_fires_by_hour_on_any_clock(rooms: Sent, key: str) -> None:
    rooms.house.schedules.create(key, handler="report", cron="0 3 * * *", zone="Asia/Kathmandu", owner=key)
    rooms.house.schedules.create(f"{key}b", handler="report", cron="0 3 * * *", zone="Asia/Kathmandu", owner=key)
    rooms.house.schedules.create(f"{key}c", handler="often", every=60, owner=key)

    seen = rooms.house.schedules.timetable(days=3, past=1, zone="Asia/Kathmandu", owner=key)
    night = next(each for each in seen.hours if each.fires > 60)
    there = night.at.astimezone(ZoneInfo("Asia/Kathmandu"))
    chosen = rooms.house.schedules.timetable(days=3, past=1, zone="Asia/Kathmandu", hour=night.at, owner=key)

    assert isinstance(seen, Timetable)
    assert (there.hour, there.minute, night.fires) == (3, 0, 62)
    assert (seen.schedules, seen.complete, seen.past_complete, seen.zone) == (3, True, True, "Asia/Kathmandu")
    assert sum(each.fires for each in seen.hours) == 3 * 2 + 3 * 24 * 60
    assert [(each.key, each.fires) for each in chosen.entries] == [(f"{key}c", 60), (key, 1), (f"{key}b", 1)]
    for wrong in ({"days": 0}, {"days": 32}, {"past": -1}, {"zone": "Nowhere/Here"}):
        with pytest.raises(InvalidInput):
            rooms.house.schedules.timetable(**wrong)
