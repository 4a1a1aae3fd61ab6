"""Every operation on the log of runs, on definitions and on health, through all four senders."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from itertools import count

import pytest

from horae.actions.schedules import schedules
from horae.api.admin import Definition, LoggedRun, Retention, RunsCleaned
from horae.api.application import Acting
from horae.api.health import Ready
from horae.api.here import Here, house
from horae.api.jobs.room import Run
from horae.errors import Forbidden, InvalidInput, NotAllowed, NotFound
from horae.ports.definitions import StoredDefinition
from horae.ports.logs import Logged
from horae.testing.builders import a_schedule
from tests.api.conftest import FOUND, Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"logged{number}" for number in count())


@pytest.fixture
def name(served: Served) -> str:
    """A handler with a schedule of the same name, for this test alone."""
    name = next(names)
    schedules.create(served.world, a_schedule(name, handler=name, queue=name))
    return name


def run_once(rooms: Sent, served: Served, name: str) -> str:
    """Trigger the schedule and let a worker over the room end the job well; returns the id of the run."""
    from horae.actions.schedules import fires

    fires.trigger(served.world, name)
    (job,) = rooms.house.jobs.claim("w", queues=[name])
    rooms.house.jobs.ack(job.id, job.token)
    return f"{job.id}.{job.token}"


def test_runs_are_listed_narrowed_and_shown(rooms: Sent, served: Served, name: str) -> None:
    older, newer = run_once(rooms, served, name), run_once(rooms, served, name)
    listing = rooms.house.admin.runs(schedule=name)
    first = listing.page(limit=1)
    rest = listing.page(first.next_cursor, limit=1)
    one = rooms.house.admin.run(older)

    assert [each.id for each in listing] == [newer, older]
    assert (first.items[0].id, rest.items, rest.next_cursor) == (newer, (one,), None)
    assert isinstance(one, LoggedRun)
    assert (one.schedule, one.trigger, one.outcome, one.handler) == (name, "manual", "succeeded", name)
    assert [each.id for each in rooms.house.admin.runs(handler=name, outcome="succeeded")] == [newer, older]
    assert list(rooms.house.admin.runs(schedule=name, outcome=["failed", "lost"])) == []
    assert list(rooms.house.admin.runs(schedule=name, started_before=one.started_at)) == []


def test_runs_that_are_not_there_are_not_found(rooms: Sent, name: str) -> None:
    with refused(NotFound, "run_unknown"):
        rooms.house.admin.run("job_999999.1")
    with refused(NotFound, "schedule_unknown"):
        rooms.house.admin.runs(schedule=f"{name}-never").page()
    with refused(NotFound, "schedule_unknown"):
        rooms.alice.admin.runs(schedule=name).page()
    with refused(InvalidInput, "choice_unknown"):
        rooms.house.admin.runs(outcome="splendid").page()
    with refused(InvalidInput, "cursor_invalid"):
        rooms.house.admin.runs().page("nonsense")


def test_runs_are_counted_before_they_are_forgotten(rooms: Sent, served: Served, name: str) -> None:
    run_once(rooms, served, name)
    counted = rooms.house.admin.clean_runs(older_than=0, schedule=name)
    done = rooms.house.admin.clean_runs(older_than=timedelta(0), schedule=name, dry_run=False, reason="full disk")

    assert isinstance(counted, RunsCleaned)
    assert (counted.removed, counted.dry_run) == (1, True)
    assert (done.removed, done.dry_run, done.more) == (1, False, False)
    assert list(rooms.house.admin.runs(schedule=name)) == []
    assert next(iter(rooms.house.audit.list(object_id="job-log"))).reason == "full disk"
    with refused(InvalidInput, "run_age_missing"):
        rooms.house.admin.clean_runs()
    with refused(Forbidden, "scope_missing"):
        rooms.alice.admin.clean_runs(older_than=0)


def test_how_long_runs_are_kept_is_stored_by_queue_and_outcome(rooms: Sent, name: str) -> None:
    day = timedelta(days=1)
    before = rooms.house.admin.retention()
    stored = rooms.house.admin.set_retention(365 * day, queue=name, reason="the law")
    more = rooms.house.admin.set_retention(86400.0, queue=name, outcome="succeeded")
    entry = next(iter(rooms.house.audit.list(object_id=f"{name}, any outcome")))
    rooms.house.admin.set_retention(None, queue=name)
    last = rooms.house.admin.set_retention(None, queue=name, outcome="succeeded")

    assert isinstance(before, Retention)
    assert (before.runs, before.fires, before.rules, last) == (30 * day, 30 * day, (), before)
    assert [(each.queue, each.outcome, each.keep) for each in stored.rules] == [(name, None, 365 * day)]
    assert [(each.outcome, each.keep) for each in more.rules] == [(None, 365 * day), ("succeeded", day)]
    assert (entry.verb, entry.reason, entry.after["keep"]) == ("set_retention", "the law", 365 * 86400)
    for wrong in ({"keep": 60}, {"keep": day, "outcome": "merry"}):
        with pytest.raises(InvalidInput):
            rooms.house.admin.set_retention(**wrong)
    for call in (rooms.alice.admin.retention, lambda: rooms.alice.admin.set_retention(day)):
        with pytest.raises(Forbidden):
            call()


def test_a_worker_of_the_house_stores_what_it_can_run(rooms: Sent, name: str) -> None:
    stored = rooms.house.admin.store_definitions(
        [{"name": name, "queue": "images", "tenants": True}, {"name": f"{name}.own"}], app="images"
    )
    mine = {each.name: each for each in rooms.house.admin.definitions()}
    hers = {each.name: each for each in rooms.alice.admin.definitions()}

    assert [(each.name, each.queue, each.tenants) for each in stored] == [
        (name, "images", True),
        (f"{name}.own", "scheduler", False),
    ]
    assert (mine[name], mine[name].app) == (stored[0], "images")
    assert hers[name] == Definition(name=name, queue="images", tenants=True)
    assert f"{name}.own" not in hers
    with refused(Forbidden, "definitions_for_house_only"):
        rooms.alice.admin.store_definitions([{"name": name}])
    with refused(InvalidInput, "name_unreadable"):
        rooms.house.admin.store_definitions([{"name": "a b"}])
    with refused(InvalidInput, "definition_field_unknown"):
        rooms.house.admin.store_definitions([{"name": name, "open": True}])


def test_it_says_whether_it_is_ready(rooms: Sent) -> None:
    found = rooms.house.health.ready()

    assert isinstance(found, Ready)
    assert [each.name for each in found.checks] == ["store", "migrations", "clock", "workers"]
    assert found.status in ("ready", "degraded")


def test_every_field_of_a_run_in_the_log_is_public() -> None:
    assert {each.name for each in fields(LoggedRun)} == {each.name for each in fields(Run)} | {"schedule", "trigger"}
    assert {each.name for each in fields(Logged)} == {"run", "key", "trigger"}
    public = {each.name for each in fields(Definition)} - {"cost"}  # stored with its budget
    assert {each.name for each in fields(StoredDefinition)} == public


def test_settings_are_shown_where_the_process_offers_that(served: Served) -> None:
    from horae.settings import Settings, effective_settings

    settings = Settings(database_url="postgresql://horae:hunter2@db/horae", jwt_secret="s3cret", instance="production")
    shown = effective_settings(settings, {"HORAE_INSTANCE": "production", "HORAE_JWT_SECRET_FILE": "/run/jwt"})
    operator = Acting(lambda: Here(served.world, house("user/carol"), settings=lambda: shown))
    found = {each.name: each for each in operator.admin.settings()}
    assert (found["instance"].value, found["instance"].origin) == ("production", "environment HORAE_INSTANCE")
    assert (found["jwt_secret"].value, found["jwt_secret"].origin) == ("[masked]", "environment HORAE_JWT_SECRET_FILE")
    assert (found["database_url"].value, found["database_url"].origin) == ("postgresql://horae:…@db/horae", "given")
    assert (found["lease"].value, found["lease"].origin) == ("30s", "default")
    assert found["jwt_issuer"].value is None


def test_settings_are_refused_to_readers_and_where_nobody_offers_them(rooms: Sent) -> None:
    with refused(Forbidden, "scope_missing"):
        rooms.alice.admin.settings()
    with refused(NotAllowed, "settings_not_offered"):
        rooms.house.admin.settings()


def test_the_doctor_says_what_he_found_to_the_operator_alone(rooms: Sent) -> None:
    assert rooms.house.admin.doctor() == FOUND
    with refused(Forbidden, "scope_missing"):
        rooms.alice.admin.doctor()


def test_a_process_without_a_doctor_says_so(keyless: Sent) -> None:
    with refused(NotAllowed, "doctor_not_offered"):
        keyless.house.admin.doctor()
