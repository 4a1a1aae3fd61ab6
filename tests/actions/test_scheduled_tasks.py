"""The verbs of users' tasks: what they do to schedules, jobs and the audit; the quota on every database."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae.actions import scheduled_tasks
from horae.actions.access.owners import set_owner
from horae.actions.jobs import claims, endings, jobs
from horae.actions.scheduled_tasks import Saved
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules, toggles
from horae.actions.schedules.forecast import forecast
from horae.clock import SystemDice
from horae.core.access.owners import OwnerSettings
from horae.core.jobs.job import Job
from horae.core.scheduled_tasks.task import RETRY, Facts, Terms, Wish
from horae.errors import (
    Conflict,
    InvalidInput,
    InvalidPayload,
    KeyConflict,
    LeaseLost,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    VersionConflict,
)
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
TERMS = Terms()
TEXT = {"text": "hello"}


def made(world: World, *, owner: str = "alice", terms: Terms = TERMS, key: str | None = None, **wish: Any) -> Saved:
    wish = {"payload": TEXT, "schedule_expr": "0 * * * *"} | wish
    return scheduled_tasks.create(world, Wish(**wish), owner=owner, terms=terms, key=key, actor="user/alice")


def task(world: World, **wish: Any) -> str:
    return made(world, **wish).facts.schedule.key


def changed(world: World, task_id: str, versions: set[int] | None = None, terms: Terms = TERMS, **wish: Any) -> Facts:
    return scheduled_tasks.change(world, task_id, Wish(**wish), owner="alice", terms=terms, versions=versions).facts


def seen(world: World, task_id: str) -> Facts:
    return scheduled_tasks.get(world, task_id, owner="alice")


def fired(world: World) -> list[Job]:
    """Fire what is due and hand it to a worker."""
    firing.fire_due(world)
    return claims.pull(world, worker_id="w1")


def response(world: World, task_id: str) -> list[tuple[str, str, int]]:
    runs = scheduled_tasks.runs(world, task_id, owner="alice")
    return [(each.run.outcome, each.trigger, each.run.attempt) for each in runs]


def give_up(world: World, clock: VirtualClock) -> None:
    """Fail every attempt that there is."""
    while taken := claims.pull(world, worker_id="w1"):
        endings.fail(world, taken[0].id, taken[0].token, "no answer")
        clock.advance(MINUTE)


# -- the walk of a task ------------------------------------------------------------------------------------------


def test_a_task_runs_at_its_time_and_goes_on(world: World, clock: VirtualClock) -> None:
    """S1-12, S1-13, S1-23, S1-28: a run with a trace id, then the next time."""
    task_id = task(world)
    clock.advance(HOUR)

    (job,) = fired(world)
    endings.ack(world, job.id, job.token, result={"output": "done"})

    (run,) = scheduled_tasks.runs(world, task_id, owner="alice")
    assert (run.run.outcome, run.run.result, run.trigger) == ("succeeded", {"output": "done"}, "schedule")
    assert run.run.trace_id == job.trace_id
    assert job.trace_id is not None
    assert len(job.trace_id) == 32
    facts = seen(world, task_id)
    assert (facts.next_run_at, facts.last.finished_at if facts.last else None) == (NOON + 2 * HOUR, NOON + HOUR)


def test_a_raised_minimum_reaches_tasks_that_are_there_and_a_lowered_one_gives_them_back(
    world: World, clock: VirtualClock
) -> None:
    """S1-29, S1-32: the worker raises; what the user asked for stays on record."""
    task_id = task(world, schedule_type="interval", schedule_expr="20")
    strict = replace(world, shortest_interval=5 * MINUTE)
    clock.advance(20 * SECOND)

    (job,) = fired(strict)
    endings.ack(strict, job.id, job.token)
    clock.advance(20 * SECOND)

    facts = seen(strict, task_id)
    assert fired(strict) == []
    assert facts.next_run_at == NOON + 20 * SECOND + 5 * MINUTE
    assert tuple(each.text for each in facts.notices) == (
        "The interval of 20 seconds is shorter than the operator allows now; the task runs every 300 seconds.",
    )
    assert scheduled_tasks.preview(strict, task_id, owner="alice", count=2).fires == (
        NOON + 20 * SECOND + 5 * MINUTE,
        NOON + 20 * SECOND + 10 * MINUTE,
    )
    assert [at for at, _ in forecast(strict, 0.2).fires] == [NOON + 20 * SECOND + n * 5 * MINUTE for n in (1, 2)]
    clock.advance(5 * MINUTE)
    (job,) = fired(world)
    endings.ack(world, job.id, job.token)
    assert seen(world, task_id).next_run_at == NOON + 6 * MINUTE
    assert seen(world, task_id).notices == ()


def test_two_fires_have_two_trace_ids(world: World, clock: VirtualClock) -> None:
    task(world), task(world)
    clock.advance(HOUR)

    assert len({job.trace_id for job in fired(world)}) == 2


def test_a_running_task_shows_its_lock_and_its_run(world: World, clock: VirtualClock) -> None:
    """S1-10, S1-12."""
    task_id = task(world)
    clock.advance(HOUR)

    (job,) = fired(world)

    facts = seen(world, task_id)
    assert facts.running is not None
    assert (facts.running.worker_id, facts.running.leased_until) == ("w1", job.leased_until)
    assert response(world, task_id) == [("running", "schedule", 1)]


def test_a_failed_run_is_tried_again_a_minute_later_with_the_same_trace(world: World, clock: VirtualClock) -> None:
    """S1-28."""
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)

    endings.fail(world, job.id, job.token, "no answer")

    assert seen(world, task_id).next_run_at == clock.now() + MINUTE
    clock.advance(MINUTE)
    (again,) = claims.pull(world, worker_id="w1")
    assert (again.id, again.trace_id) == (job.id, job.trace_id)
    assert response(world, task_id) == [("running", "schedule", 2), ("failed", "schedule", 1)]


def test_a_retry_that_would_meet_the_next_fire_yields_to_it(world: World, clock: VirtualClock) -> None:
    """C-13; what was dropped before it began is no run."""
    task_id = task(world, schedule_expr="* * * * *")
    clock.advance(MINUTE)
    (first,) = fired(world)
    endings.fail(world, first.id, first.token, "no answer")

    clock.advance(MINUTE)
    (second,) = fired(world)

    assert second.id != first.id
    assert response(world, task_id) == [("running", "schedule", 1), ("failed", "schedule", 1)]


def test_a_rhythm_is_not_ended_by_an_occurrence_that_was_given_up(world: World, clock: VirtualClock) -> None:
    task_id = task(world)
    clock.advance(HOUR)
    firing.fire_due(world)

    give_up(world, clock)

    assert len(response(world, task_id)) == RETRY.attempts
    facts = seen(world, task_id)
    assert (facts.enabled, facts.next_run_at) == (True, NOON + 2 * HOUR)


# -- once --------------------------------------------------------------------------------------------------------


def test_a_once_task_disables_itself_after_success(world: World, clock: VirtualClock) -> None:
    """S1-11, S1-31."""
    task_id = task(world, schedule_type="once", next_run_at="2030-01-07T13:00:00")
    clock.advance(HOUR)
    (job,) = fired(world)
    assert seen(world, task_id).enabled

    endings.ack(world, job.id, job.token)

    facts = seen(world, task_id)
    assert (facts.enabled, facts.next_run_at) == (False, None)


def test_a_past_once_task_runs_at_once_and_says_so(world: World) -> None:
    """C-18."""
    saved = made(world, schedule_type="once", next_run_at="2026-02-27T01:30:00")

    assert "has passed" in saved.warnings[0].text
    assert len(fired(world)) == 1


def test_a_once_task_that_keeps_failing_is_disabled_with_the_reason(world: World, clock: VirtualClock) -> None:
    """C-30: it does not fail for ever."""
    task_id = task(world, schedule_type="once", next_run_at="2030-01-07T12:00:00")
    firing.fire_due(world)

    give_up(world, clock)

    facts = seen(world, task_id)
    assert [outcome for outcome, _, _ in response(world, task_id)] == ["failed"] * RETRY.attempts
    assert (facts.enabled, facts.next_run_at) == (False, None)
    assert facts.reason is not None
    assert "Given up after attempt 5: no answer" in facts.reason.text
    assert [reason.code for reason in scheduled_tasks.why(world, task_id, owner="alice")[1]] == ["over"]


def test_a_once_task_can_be_given_another_time(world: World, clock: VirtualClock) -> None:
    task_id = task(world, schedule_type="once", next_run_at="2030-01-07T12:00:00")
    firing.fire_due(world)
    give_up(world, clock)
    with refused(InvalidInput, "next_run_at_passed"):
        changed(world, task_id, enabled=True)

    facts = changed(world, task_id, enabled=True, next_run_at="2030-01-07T12:00:00")

    assert facts.enabled
    (job,) = fired(world)
    endings.ack(world, job.id, job.token)
    assert not seen(world, task_id).enabled


def test_a_once_task_that_runs_and_gets_another_time_runs_again_afterwards(world: World, clock: VirtualClock) -> None:
    task_id = task(world, schedule_type="once", next_run_at="2030-01-07T12:00:00")
    (first,) = fired(world)

    changed(world, task_id, next_run_at="2030-01-07T12:00:10Z")
    clock.advance(timedelta(seconds=20))

    assert fired(world) == []
    endings.ack(world, first.id, first.token)
    assert len(claims.pull(world, worker_id="w1")) == 1


# -- change ------------------------------------------------------------------------------------------------------


def test_a_changed_rule_moves_the_next_run(world: World) -> None:
    """1.3: the origin kept the old one."""
    task_id = task(world, schedule_expr="0 9 * * *")

    facts = changed(world, task_id, timezone="Asia/Shanghai")

    assert facts.next_run_at == datetime(2030, 1, 8, 1, tzinfo=UTC)
    assert facts.schedule.version == 2


def test_an_interval_that_changes_counts_from_now(world: World, clock: VirtualClock) -> None:
    task_id = task(world, schedule_type="interval", schedule_expr=3600)
    clock.advance(timedelta(minutes=50))

    facts = changed(world, task_id, schedule_expr="600")

    assert facts.next_run_at == NOON + timedelta(minutes=60)


def test_a_first_run_that_is_named_is_kept_and_the_rule_follows(world: World, clock: VirtualClock) -> None:
    task_id = task(world, next_run_at="2030-01-07T12:17:00")
    assert seen(world, task_id).next_run_at == NOON + timedelta(minutes=17)

    clock.advance(timedelta(minutes=17))

    assert len(fired(world)) == 1
    assert seen(world, task_id).next_run_at == NOON + HOUR


def test_a_first_run_that_is_named_survives_a_pause_a_toggle_and_another_zone_database(
    world: World, clock: VirtualClock
) -> None:
    task_id = task(world, next_run_at="2030-01-07T12:17:00")
    newer = replace(world, tzdata="2099z")

    schedules.pause(world, task_id, owner="alice")
    schedules.resume(world, task_id, owner="alice")
    toggles.switch(world, task_id, False, ephemeral=True, owner="alice")
    toggles.switch(world, task_id, True, ephemeral=True, owner="alice")
    assert firing.recompute_zones(newer) == []

    assert seen(world, task_id).next_run_at == NOON + timedelta(minutes=17)


def test_a_change_never_touches_what_runs(world: World, clock: VirtualClock) -> None:
    """1.3, design 13: a lease is a worker's, whatever is edited meanwhile."""
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)

    changed(world, task_id, schedule_expr="30 * * * *", name="other", enabled=False, payload={"text": "new"})

    after = jobs.get(world, job.id)
    assert (after.token, after.worker_id, after.leased_until) == (job.token, "w1", job.leased_until)
    assert after.payload == TEXT
    endings.ack(world, job.id, job.token)
    assert response(world, task_id) == [("succeeded", "schedule", 1)]


def test_a_change_releases_a_lock_that_has_run_out(world: World, clock: VirtualClock) -> None:
    """S1-16, S1-36: the attempt is closed as lost, and the old holder's word counts no more."""
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)
    clock.advance(timedelta(seconds=31))

    facts = changed(world, task_id, name="other")

    assert facts.running is None
    assert response(world, task_id) == [("lost", "schedule", 1)]
    with pytest.raises(LeaseLost):
        endings.ack(world, job.id, job.token)
    assert len(claims.pull(world, worker_id="w2")) == 1


@pytest.mark.parametrize("wish", [{"enabled": False}, {"schedule_expr": "30 * * * *"}])
def test_what_waits_is_withdrawn_when_the_times_change(world: World, clock: VirtualClock, wish: dict[str, Any]) -> None:
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)
    endings.fail(world, job.id, job.token, "no answer")

    changed(world, task_id, **wish)

    clock.advance(MINUTE)
    assert jobs.get(world, job.id).state == "cancelled"
    assert claims.pull(world, worker_id="w1") == []
    assert response(world, task_id) == [("failed", "schedule", 1)]


def test_another_name_does_not_stop_a_retry(world: World, clock: VirtualClock) -> None:
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)
    endings.fail(world, job.id, job.token, "no answer")

    changed(world, task_id, name="other")

    clock.advance(MINUTE)
    assert [each.id for each in claims.pull(world, worker_id="w1")] == [job.id]


def test_the_same_again_is_no_change(world: World) -> None:
    task_id = task(world, name="n")

    assert changed(world, task_id, name="n", enabled=True, schedule_expr="0 * * * *").schedule.version == 1


def test_a_change_of_another_version_is_refused(world: World) -> None:
    task_id = task(world)
    changed(world, task_id, {1}, name="mine")

    with pytest.raises(VersionConflict):
        changed(world, task_id, {1}, name="theirs")
    with pytest.raises(VersionConflict):
        scheduled_tasks.delete(world, task_id, owner="alice", versions={1})
    assert seen(world, task_id).schedule.title == "mine"


def test_every_change_is_in_the_audit_with_its_actor(world: World) -> None:
    task_id = task(world)
    scheduled_tasks.change(world, task_id, Wish(name="x"), owner="alice", terms=TERMS, actor="token/1")

    entries = schedules.versions(world, task_id, owner="alice")

    assert [(entry.verb, entry.actor) for entry in entries] == [("change", "token/1"), ("create", "user/alice")]


def test_a_refused_change_leaves_everything_as_it_was(world: World, clock: VirtualClock) -> None:
    task_id = task(world)
    before = seen(world, task_id).schedule

    for wish in ({"schedule_expr": "bad"}, {"timezone": "No/Where"}, {"payload": {"ctx": 1}}, {"payload": {"t": "\0"}}):
        with pytest.raises(InvalidInput):
            changed(world, task_id, **wish)

    assert seen(world, task_id).schedule == before


def test_an_inactive_task_is_checked_like_any_other(world: World) -> None:
    task_id = task(world)

    with pytest.raises(InvalidPayload):
        changed(world, task_id, terms=Terms(known={"webhook"}), payload={"text": "\0"})


# -- delete ------------------------------------------------------------------------------------------------------


def test_a_deleted_task_is_gone_with_its_runs_and_what_waited(world: World, clock: VirtualClock) -> None:
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)
    endings.fail(world, job.id, job.token, "no answer")

    scheduled_tasks.delete(world, task_id, owner="alice", actor="token/1")

    with pytest.raises(NotFound):
        scheduled_tasks.runs(world, task_id, owner="alice")
    assert scheduled_tasks.find(world, owner="alice") == []
    assert jobs.get(world, job.id).state == "cancelled"


def test_what_runs_survives_its_task(world: World, clock: VirtualClock) -> None:
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)

    scheduled_tasks.delete(world, task_id, owner="alice")

    assert endings.ack(world, job.id, job.token).state == "succeeded"


# -- by hand -----------------------------------------------------------------------------------------------------


def test_a_disabled_task_can_be_triggered_with_other_values(world: World) -> None:
    """C-23: its own run record, the schedule untouched, no retry."""
    task_id = task(world, enabled=False)

    done, warnings = scheduled_tasks.trigger(world, task_id, {"text": "now", "mode": "x", "items": []}, owner="alice")

    (job,) = claims.pull(world, worker_id="w1")
    assert (job.id, job.payload, job.max_attempts) == (done.job_id, {"text": "now", "mode": "x"}, 1)
    assert len(warnings) == 1
    assert response(world, task_id) == [("running", "manual", 1)]
    assert not seen(world, task_id).enabled


def test_a_task_that_runs_is_not_triggered_and_the_refusal_is_on_record(world: World) -> None:
    """C-22."""
    task_id = task(world)
    scheduled_tasks.trigger(world, task_id, owner="alice")

    with pytest.raises(Conflict):
        scheduled_tasks.trigger(world, task_id, owner="alice")

    history = schedules.history(world, task_id, owner="alice")
    assert [fire.verdict for fire, _ in history] == ["skipped", "ran"]


def test_a_task_without_its_handler_cannot_be_triggered(world: World) -> None:
    task_id = task(world, terms=Terms(known={"webhook"}))

    with refused(NotAllowed, "task_cannot_run"):
        scheduled_tasks.trigger(world, task_id, owner="alice")
    assert fired(world) == []


def test_release_takes_a_running_task_from_its_worker(world: World, clock: VirtualClock) -> None:
    """The one act that touches a lease, by name and on record."""
    task_id = task(world)
    clock.advance(HOUR)
    (job,) = fired(world)

    facts = scheduled_tasks.release(world, task_id, owner="alice", actor="token/1", reason="stuck")

    assert facts.running is None
    with pytest.raises(LeaseLost):
        endings.ack(world, job.id, job.token)
    assert [each.id for each in claims.pull(world, worker_id="w2")] == [job.id]
    ((_, entry),) = world.store.read(lambda tx: tx.audit.find(object_id=job.id, limit=1, before=None))
    assert (entry.verb, entry.actor, entry.reason) == ("release", "token/1", "stuck")


def test_what_does_not_run_cannot_be_released(world: World) -> None:
    with pytest.raises(NotAllowed):
        scheduled_tasks.release(world, task(world), owner="alice")


# -- look --------------------------------------------------------------------------------------------------------


def test_tasks_are_listed_the_last_changed_first_page_by_page(world: World, clock: VirtualClock) -> None:
    """S1-14."""
    ids = []
    for _ in range(5):
        ids.append(task(world))
        clock.advance(MINUTE)
    task(world, owner="bob")
    changed(world, ids[0], name="changed")

    listed: list[str] = []
    after: tuple[str, int, int] | None = None
    while page := scheduled_tasks.find(world, owner="alice", limit=2, after=after):
        listed += [facts.schedule.key for facts in page]
        last = page[-1].schedule
        assert last.updated_at is not None
        after = (last.owner, int(last.updated_at.timestamp() * 1_000_000), last.number)

    assert listed == [ids[0], ids[4], ids[3], ids[2], ids[1]]


def test_an_operator_sees_everybodys_tasks_and_only_tasks(world: World, clock: VirtualClock) -> None:
    schedules.create(world, replace(seen(world, task(world)).schedule, key="nightly", number=0))
    task(world, owner="bob")

    listed = [(each.schedule.owner, each.schedule.key[:5]) for each in scheduled_tasks.find(world, owner=None)]

    assert listed == [("bob", "task_"), ("alice", "task_")]
    assert (
        scheduled_tasks.get(world, scheduled_tasks.find(world, owner=None)[0].schedule.key, owner=None).schedule.owner
        == "bob"
    )


def test_runs_are_paged_the_newest_first(world: World, clock: VirtualClock) -> None:
    """S1-18."""
    task_id = task(world)
    for _ in range(5):
        clock.advance(HOUR)
        (job,) = fired(world)
        endings.ack(world, job.id, job.token)
    clock.advance(HOUR)
    fired(world)

    pages: list[list[str]] = []
    before: tuple[int, int] | None = None
    while page := scheduled_tasks.runs(world, task_id, owner="alice", limit=4, before=before):
        pages.append([each.run.outcome for each in page])
        before = (page[-1].run.job_number, page[-1].run.token)

    assert pages == [["running", "succeeded", "succeeded", "succeeded"], ["succeeded", "succeeded"]]


def test_why_says_what_stands_in_the_way(world: World, clock: VirtualClock) -> None:
    """S1-36."""
    task_id = task(world)
    assert [each.code for each in scheduled_tasks.why(world, task_id, owner="alice")[1]] == ["scheduled"]

    clock.advance(HOUR + MINUTE)
    assert [each.code for each in scheduled_tasks.why(world, task_id, owner="alice")[1]] == ["due"]

    firing.fire_due(world)
    assert "no_worker" in [each.code for each in scheduled_tasks.why(world, task_id, owner="alice")[1]]

    claims.pull(world, worker_id="w1")
    assert [each.code for each in scheduled_tasks.why(world, task_id, owner="alice")[1]] == ["running"]

    changed(world, task_id, enabled=False)
    assert [each.code for each in scheduled_tasks.why(world, task_id, owner="alice")[1]] == ["running", "disabled"]


def test_a_preview_follows_the_clocks_of_the_zone(world: World) -> None:
    """C-5: half past two does not exist on 10 March 2030 in New York; it is three o'clock then."""
    wish = Wish(schedule_expr="30 2 10 * *", timezone="America/New_York")

    seen = scheduled_tasks.consider(world, wish, owner="alice", terms=TERMS, count=3)

    assert [fire.isoformat()[:16] for fire in seen.fires] == [
        "2030-01-10T07:30", "2030-02-10T07:30", "2030-03-10T07:00",
    ]  # fmt: skip
    assert seen.warnings == ()


def test_a_preview_begins_with_the_first_run_that_is_named(world: World) -> None:
    wish = Wish(schedule_expr="0 * * * *", next_run_at="2030-01-07T12:17:00")

    seen = scheduled_tasks.consider(world, wish, owner="alice", terms=TERMS, count=2)

    assert seen.fires == (NOON + timedelta(minutes=17), NOON + HOUR)
    stored = scheduled_tasks.preview(world, task(world, next_run_at="2030-01-07T12:17:00"), owner="alice", count=2)
    assert stored.fires == seen.fires


@pytest.mark.parametrize("count", [0, 101])
def test_a_preview_has_bounds(world: World, count: int) -> None:
    with pytest.raises(InvalidInput):
        scheduled_tasks.preview(world, task(world), owner="alice", count=count)


def test_a_foreign_task_does_not_exist(world: World) -> None:
    """S1-3, C-27."""
    task_id = task(world)

    for verb in (
        scheduled_tasks.get,
        scheduled_tasks.runs,
        scheduled_tasks.why,
        scheduled_tasks.preview,
        scheduled_tasks.trigger,
        scheduled_tasks.release,
        scheduled_tasks.delete,
    ):
        with refused(NotFound, "scheduled_task_unknown"):
            verb(world, task_id, owner="bob")
    with refused(NotFound, "scheduled_task_unknown"):
        scheduled_tasks.change(world, task_id, Wish(name="x"), owner="bob", terms=TERMS)
    assert seen(world, task_id).schedule.version == 1


# -- keys --------------------------------------------------------------------------------------------------------


def test_the_same_key_and_request_give_the_same_task(world: World) -> None:
    first = made(world, key="k", name="n")
    again = made(world, key="k", name="n")

    assert (first.is_new, again.is_new) == (True, False)
    assert again.facts.schedule.key == first.facts.schedule.key
    assert len(scheduled_tasks.find(world, owner="alice")) == 1


def test_the_same_key_with_another_request_is_a_conflict(world: World) -> None:
    made(world, key="k", name="n")

    with pytest.raises(KeyConflict):
        made(world, key="k", name="m")


def test_keys_of_two_tenants_do_not_meet(world: World) -> None:
    assert task(world, key="k") != task(world, key="k", owner="bob")


def test_a_late_repetition_does_not_bring_back_what_was_deleted(world: World) -> None:
    scheduled_tasks.delete(world, task(world, key="k"), owner="alice")

    with refused(Conflict, "task_key_of_deleted"):
        made(world, key="k")


# -- the quota ---------------------------------------------------------------------------------------------------

TWO = Terms(max_enabled=2)


def test_one_more_than_may_be_enabled_is_refused(world: World) -> None:
    """S1-33: on create, and from disabled to enabled; a disabled one is welcome."""
    task(world, terms=TWO), task(world, terms=TWO)

    with pytest.raises(QuotaExceeded) as refused:
        task(world, terms=TWO)
    assert (refused.value.limit, refused.value.allowed) == ("max_enabled_tasks", 2)
    resting = task(world, terms=TWO, enabled=False)
    with pytest.raises(QuotaExceeded):
        changed(world, resting, terms=TWO, enabled=True)
    task(world, terms=TWO, owner="bob")


def test_an_enabled_task_may_be_changed_at_the_limit(world: World) -> None:
    first = task(world, terms=TWO)
    task(world, terms=TWO)

    assert changed(world, first, terms=TWO, enabled=True, name="x").schedule.title == "x"


def test_a_place_is_free_again_when_a_task_is_off_gone_or_over(world: World, clock: VirtualClock) -> None:
    task(world, terms=TWO, schedule_type="once", next_run_at="2030-01-07T12:00:00")
    second = task(world, terms=TWO)
    (job,) = fired(world)
    endings.fail(world, job.id, job.token, "no answer")
    with pytest.raises(QuotaExceeded):  # it is tried again, so it is still enabled
        task(world, terms=TWO)

    clock.advance(MINUTE)
    give_up(world, clock)

    third = task(world, terms=TWO)
    changed(world, second, enabled=False)
    task(world, terms=TWO)
    scheduled_tasks.delete(world, third, owner="alice")
    task(world, terms=TWO)


def test_no_limit_is_zero_and_a_tenant_may_have_its_own(world: World) -> None:
    for _ in range(3):
        task(world, terms=Terms(max_enabled=0))
    set_owner(world, "bob", OwnerSettings(max_enabled_tasks=1))
    task(world, owner="bob")

    with pytest.raises(QuotaExceeded):
        task(world, owner="bob")
    set_owner(world, "bob", OwnerSettings(max_enabled_tasks=0))
    for _ in range(3):
        task(world, owner="bob", terms=TWO)


def test_a_toggle_counts_while_it_is_in_force(world: World) -> None:
    first = task(world, terms=Terms(max_enabled=1))
    toggles.switch(world, first, False, ephemeral=True, owner="alice")

    task(world, terms=Terms(max_enabled=1))

    with pytest.raises(QuotaExceeded):
        changed(world, first, terms=Terms(max_enabled=1), enabled=True)


@pytest.fixture
def crowd(database_url: str) -> Iterator[World]:
    """A database of each kind, and chance that fifty threads can share."""
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


def test_the_twenty_first_is_refused_also_among_fifty_at_once(crowd: World) -> None:
    """S1-33, 1.3: the origin's check was a race."""

    def attempt(place: int) -> str:
        try:
            return made(crowd, name=f"task {place}").facts.schedule.key
        except QuotaExceeded:
            return ""

    with ThreadPoolExecutor(50) as threads:
        made_ones = [task_id for task_id in threads.map(attempt, range(50)) if task_id]

    assert len(made_ones) == len(set(made_ones)) == 20
    assert len(scheduled_tasks.find(crowd, owner="alice", limit=100)) == 20


def test_the_last_place_is_given_once_among_many_who_enable(crowd: World) -> None:
    for _ in range(19):
        made(crowd)
    resting = [task(crowd, enabled=False) for _ in range(20)]

    def attempt(task_id: str) -> bool:
        try:
            return changed(crowd, task_id, enabled=True).enabled
        except QuotaExceeded:
            return False

    with ThreadPoolExecutor(20) as threads:
        assert sum(threads.map(attempt, resting)) == 1


def test_one_key_makes_one_task_among_many_at_once(crowd: World) -> None:
    with ThreadPoolExecutor(20) as threads:
        saved = list(threads.map(lambda _: made(crowd, key="k", name="n"), range(20)))

    assert len({each.facts.schedule.key for each in saved}) == 1
    assert sum(each.is_new for each in saved) == 1


def test_a_task_walks_on_every_database(crowd: World) -> None:
    """Listing, runs, retry, withdrawal, release and deletion, in the words of each database."""
    clock = crowd.clock
    assert isinstance(clock, VirtualClock)
    ids = [task(crowd, name=f"名字 {place}") for place in range(3)]
    clock.advance(HOUR)
    held = {job.schedule_id: job for job in fired(crowd)}
    numbers = [seen(crowd, task_id).schedule.number for task_id in ids]
    first, second, third = (held[number] for number in numbers)
    endings.ack(crowd, first.id, first.token, result={"ok": True})
    endings.fail(crowd, second.id, second.token, "no answer")
    scheduled_tasks.release(crowd, ids[2], owner="alice")

    assert [each.run.outcome for each in scheduled_tasks.runs(crowd, ids[0], owner="alice")] == ["succeeded"]
    assert seen(crowd, ids[1]).next_run_at == clock.now() + MINUTE
    assert changed(crowd, ids[1], enabled=False).next_run_at is None
    assert response(crowd, ids[2]) == []
    (again,) = claims.pull(crowd, worker_id="w2")
    assert again.id == third.id
    assert response(crowd, ids[2]) == [("running", "schedule", 1)]
    scheduled_tasks.delete(crowd, ids[0], owner="alice")
    after: tuple[str, int, int] | None = None
    listed = []
    while page := scheduled_tasks.find(crowd, owner=None, limit=1, after=after):
        last = page[-1].schedule
        assert last.updated_at is not None
        after = (last.owner, int(last.updated_at.timestamp() * 1_000_000), last.number)
        listed.append(last.key)
    assert listed == [ids[1], ids[2]]
