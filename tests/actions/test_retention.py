"""What is old enough is forgotten, in small steps; what is alive never is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae import Horae
from horae.actions import logs
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.outside_runs import begin, end
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean, set_retention
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.clock import SystemDice
from horae.core.jobs.job import Outcome
from horae.core.jobs.retry import Retry
from horae.core.retention import RetentionRule, RunRetention
from horae.core.schedules.schedule import Schedule
from horae.errors import ConfigurationError, InvalidInput
from horae.ports.store import Store
from horae.ports.world import World
from horae.runtime.worker.worker import WorkerSettings
from horae.settings import Settings
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from horae.testing.conformance.support import at_once
from tests.support.refusals import refused

MONTHS = timedelta(days=60)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store: Store = open_store(engine)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


def advance(world: World, span: timedelta) -> None:
    assert isinstance(world.clock, VirtualClock)
    world.clock.advance(span)


def finished(world: World, **options: str) -> str:
    jobs.enqueue(world, Request("h", **options))  # type: ignore[arg-type]
    [job] = claims.pull(world, worker_id="w")
    endings.ack(world, job.id, job.token)
    return job.id


def test_an_old_finished_job_is_forgotten_with_its_key(world: World) -> None:
    finished(world, key="monthly")
    advance(world, MONTHS)

    gone = clean(world, Retention())

    assert (gone["horae_runs"], gone["horae_keys"]) == (1, 1)


def test_a_recent_one_stays(world: World) -> None:
    job_id = finished(world, key="monthly")

    clean(world, Retention())

    assert jobs.get(world, job_id).state == "succeeded"


def test_a_key_stays_as_long_as_its_job_waits(world: World) -> None:
    jobs.enqueue(world, Request("h", key="slow", delay=MONTHS * 2))
    advance(world, MONTHS)

    assert clean(world, Retention())["horae_keys"] == 0


def test_a_step_never_takes_more_than_its_batch(world: World) -> None:
    for _ in range(5):
        finished(world)
    advance(world, MONTHS)

    assert [clean(world, Retention(), limit=2)["horae_runs"] for _ in range(4)] == [2, 2, 1, 0]


def test_what_is_running_is_never_forgotten(world: World) -> None:
    job = begin(world, "sync", worker_id="w", lease=timedelta(days=90))
    advance(world, MONTHS)
    clean(world, Retention())

    assert jobs.get(world, job.id).state == "running"


def test_every_field_of_retention_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of any application obeys them, and thirty days is what nobody needs to say."""
    monkeypatch.setenv("HORAE_KEEP_RUNS", "90d")
    monkeypatch.setenv("HORAE_KEEP_NODES", "2h")
    with Horae("sqlite://") as app:
        obeyed = app.worker().settings.retention
        answer = app.worker(WorkerSettings(retention=Retention(runs=timedelta(days=1)))).settings.retention

    days = timedelta(days=1)
    assert obeyed == Retention(runs=90 * days, fires=30 * days, keys=7 * days, nodes=timedelta(hours=2))
    assert answer == Retention(runs=days)
    settings = Settings.read({})
    assert Retention.read(lambda name: getattr(settings, name)) == Retention()


@pytest.mark.parametrize("text", ["59m", "0", "-1d", "for ever", "40000d"])
def test_what_would_be_forgotten_too_soon_is_refused(text: str) -> None:
    """A key that is gone after a minute lets a repeated call through."""
    with refused(ConfigurationError, "setting_invalid", name="HORAE_KEEP_KEYS"):
        Settings.read({"HORAE_KEEP_KEYS": text})


# -- by queue and outcome ------------------------------------------------------------------------------------------


def kept_queues(world: World) -> dict[str, int]:
    found = world.store.read(lambda tx: tx.jobs.counts(None, None, now=world.clock.now()))
    return {queue: count for (queue, _), count in found.items()}


def finish_in(world: World, queue: str) -> None:
    jobs.enqueue(world, Request("h", queue=queue))
    [job] = claims.pull(world, worker_id="w", queues=[queue])
    endings.ack(world, job.id, job.token)


def test_the_most_particular_stored_rule_decides_then_the_setting() -> None:
    day = timedelta(days=1)
    rules = [
        RetentionRule("mail", "", 2 * day),
        RetentionRule("mail", "failed", 9 * day),
        RetentionRule("", "lost", day),
    ]
    kept = RunRetention(tuple(rules), 30 * day)

    assert kept.keep("mail", "failed") == 9 * day
    assert kept.keep("mail", "lost") == kept.keep("mail", "succeeded") == 2 * day
    assert (kept.keep("other", "lost"), kept.keep("other", "failed")) == (day, 30 * day)
    assert kept.spans == [day, 2 * day, 9 * day, 30 * day]
    assert RunRetention((RetentionRule("", "", day),), 30 * day).spans == [day]


def test_stored_rules_win_over_the_setting_and_delete_only_what_they_name(world: World) -> None:
    for queue in ("law", "news", "default"):
        finish_in(world, queue)
    set_retention(world, timedelta(days=365), queue="law")
    set_retention(world, timedelta(days=1), queue="news", outcome="succeeded")
    advance(world, timedelta(days=3))
    assert clean(world, Retention())["horae_runs"] == 1
    assert kept_queues(world) == {"law": 1, "default": 1}

    advance(world, MONTHS)
    assert clean(world, Retention())["horae_runs"] == 1
    assert kept_queues(world) == {"law": 1}
    advance(world, timedelta(days=365))
    assert clean(world, Retention())["horae_runs"] == 1


def test_a_walk_goes_on_where_it_stopped_and_begins_anew_with_a_new_rule(world: World) -> None:
    set_retention(world, timedelta(days=365), queue="law")
    for queue in ("law", "news", "news", "news"):
        finish_in(world, queue)
    advance(world, MONTHS)

    assert [clean(world, Retention(), limit=2)["horae_runs"] for _ in range(3)] == [2, 1, 0]
    set_retention(world, timedelta(days=1), queue="law")
    assert clean(world, Retention())["horae_runs"] == 1


def test_a_rule_that_is_forgotten_lets_the_setting_decide_and_both_are_audited(world: World) -> None:
    set_retention(world, timedelta(days=1), actor="ann", reason="full disk")
    left = set_retention(world, None, actor="bob")

    assert left.rules == ()
    entries = world.store.read(lambda tx: tx.audit.find(object_id="any queue, any outcome", limit=9, before=None))
    assert [(entry.actor, entry.before, entry.after) for _, entry in entries] == [
        ("bob", {"keep": 86400.0}, {"keep": None}),
        ("ann", {"keep": None}, {"keep": 86400.0}),
    ]


@pytest.mark.parametrize("wrong", [{"keep": timedelta(minutes=1)}, {"keep": MONTHS, "outcome": "merry"}])
def test_a_rule_that_makes_no_sense_is_refused(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        set_retention(world, **wrong)


# -- run counts do not shrink (S3-19) ----------------------------------------------------------------------------

Remove = Callable[[World], object]


def by_retention(world: World) -> None:
    clean(world, Retention())


def by_hand(world: World) -> None:
    logs.clean(world, world.clock.now() - timedelta(days=14), dry_run=False)


def ran(world: World, *fails: bool) -> None:
    """One run of the schedule for each."""
    for fail in fails:
        advance(world, timedelta(minutes=1))
        firing.fire_due(world)
        [job] = claims.pull(world, worker_id="w")
        if fail:
            endings.fail(world, job.id, job.token, "no", final=True)
            jobs.revive(world, job.id)
            jobs.cancel(world, job.id)  # a dead job keeps its runs; one that was called off does not
        else:
            endings.ack(world, job.id, job.token)


def counts(world: World, schedule: Schedule) -> tuple[int, int]:
    tally = schedules.tally(world, schedule)
    return tally.run_count, tally.fail_count


@pytest.mark.parametrize("remove", [by_retention, by_hand])
def test_run_counts_of_a_schedule_outlive_its_log(world: World, remove: Remove) -> None:
    schedule = schedules.create(world, Schedule("minutely", "h", "every", "60", retry=Retry.none()))
    ran(world, False, True, False)
    assert counts(world, schedule) == (3, 1)
    advance(world, MONTHS)

    remove(world)
    assert logs.count(world) == 0
    assert counts(world, schedule) == (3, 1)
    remove(world)
    ran(world, True)

    assert counts(world, schedule) == (4, 2)
    assert schedules.tally(world, schedule).last_outcome == "failed"
    schedules.delete(world, "minutely")
    advance(world, MONTHS)
    remove(world)
    assert world.store.read(lambda tx: tx.schedules.tallies([schedule.number])) == {}


def test_run_counts_of_a_handler_without_a_schedule_outlive_its_log(world: World) -> None:
    finished(world)
    job = begin(world, "tracked", worker_id="here")
    end(world, job, Outcome("failed", error="no"))
    advance(world, MONTHS)

    clean(world, Retention())
    finished(world)

    answer = world.store.read(lambda tx: tx.schedules.handler_tallies(["h", "tracked", "unknown"]))
    assert {name: (each.run_count, each.fail_count) for name, each in answer.items()} == {
        "h": (2, 0),
        "tracked": (1, 1),
    }


def test_two_who_clean_up_at_once_count_each_run_once(world: World) -> None:
    schedule = schedules.create(world, Schedule("minutely", "h", "every", "60"))
    ran(world, *[False] * 12)
    advance(world, MONTHS)

    at_once(4, lambda place: (by_retention, by_hand)[place % 2](world))
    by_retention(world)

    assert logs.count(world) == 0
    assert counts(world, schedule) == (12, 0)
