"""The job log: what it tells, how it is paged, what a clean-up may remove. S3-38, S3-40, C-26."""

from datetime import timedelta

import pytest

from horae.actions import logs
from horae.actions.jobs import claims, endings, jobs, outside_runs
from horae.actions.schedules import fires, schedules
from horae.core.jobs.job import Outcome
from horae.core.jobs.retry import Retry
from horae.errors import InvalidInput, NotFound
from horae.ports.logs import LogFilter, Logged
from horae.ports.world import World
from horae.testing.builders import a_request, a_schedule
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def ran(world: World, clock: VirtualClock, times: int = 1, *, fails: bool = False) -> list[str]:
    """Let the schedules fire so often and run what they make; the ids of the runs."""
    names = []
    for _ in range(times):
        clock.advance(MINUTE)
        fires.fire_due(world)
        for job in claims.pull(world, worker_id="w"):
            clock.advance(timedelta(seconds=1))
            if fails:
                endings.fail(world, job.id, job.token, "Boom: no")
            else:
                endings.ack(world, job.id, job.token)
            names.append(job.run_id)
    return names


def answer(page: list[Logged]) -> list[str]:
    return [each.run.id for each in page]


def test_a_run_is_told_with_its_schedule_its_times_and_its_end(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    [name] = ran(world, clock)

    line = logs.get(world, name)

    assert (line.key, line.trigger, line.run.outcome) == ("minutely", "schedule", "succeeded")
    assert (line.run.fire_at, line.run.started_at) == (NOON + MINUTE, NOON + MINUTE)
    assert line.run.finished_at == NOON + MINUTE + timedelta(seconds=1)


def test_a_run_under_way_is_in_the_log(world: World, clock: VirtualClock) -> None:
    """C-26: the row is there from the start on."""
    schedules.create(world, a_schedule())
    clock.advance(MINUTE)
    fires.fire_due(world)
    [job] = claims.pull(world, worker_id="w")

    [line] = logs.page(world)

    assert (line.run.id, line.run.outcome, line.run.finished_at) == (job.run_id, "running", None)
    assert logs.get(world, job.run_id) == line
    assert answer(logs.page(world, LogFilter(outcomes=("running",)))) == [job.run_id]
    assert logs.count(world) == 1


def test_a_manual_run_says_so(world: World, clock: VirtualClock) -> None:
    """C-23."""
    schedules.create(world, a_schedule())
    fires.trigger(world, "minutely")
    [job] = claims.pull(world, worker_id="w")
    endings.ack(world, job.id, job.token)

    assert logs.get(world, job.run_id).trigger == "manual"


def test_pages_follow_each_other_without_gap_or_repetition(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    names = ran(world, clock, 5)

    first = logs.page(world, limit=2)
    rest = logs.page(world, limit=10, before=logs.run_name(first[-1].run.id))

    assert answer(first) + answer(rest) == names[::-1]


def test_the_log_of_one_job_knows_nothing_of_others(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    schedules.create(world, a_schedule("other"))
    ran(world, clock)

    wanted = logs.wanted_for(world, "other")

    assert [each.key for each in logs.page(world, wanted)] == ["other"]
    assert logs.count(world, wanted) == 1


def test_filters_by_outcome_and_time(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    [good], [bad] = ran(world, clock), ran(world, clock, fails=True)

    assert answer(logs.page(world, LogFilter(outcomes=("failed", "timed_out")))) == [bad]
    edge = logs.get(world, bad).run.started_at
    assert answer(logs.page(world, LogFilter(started_before=edge))) == [good]
    assert answer(logs.page(world, LogFilter(started_after=edge))) == [bad]


def test_jobs_without_a_schedule_are_no_part_of_it_unless_asked_for(world: World) -> None:
    jobs.enqueue(world, a_request())
    [job] = claims.pull(world, worker_id="w")
    endings.ack(world, job.id, job.token)

    assert logs.page(world) == []
    assert answer(logs.page(world, logs.wanted_for(world, "greet"))) == [job.run_id]


def test_code_that_is_only_tracked_is_part_of_it(world: World) -> None:
    """S4-14."""
    job = outside_runs.begin(world, "sync_by_hand", worker_id="w")
    outside_runs.end(world, job, Outcome("succeeded"))

    [line] = logs.page(world)

    assert (line.run.handler, line.key, line.trigger) == ("sync_by_hand", None, "job")


@pytest.mark.parametrize("name", ["", "job_1", "job_1.x", "7", "job_99999999999999999999.1", "job_5.5", "job_1.1\n"])
def test_an_unknown_run_is_not_found(world: World, name: str) -> None:
    """C-27."""
    with pytest.raises(NotFound):
        logs.get(world, name)


def test_a_foreign_run_does_not_exist(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule(owner="alice", handler="dispatch"))
    [name] = ran(world, clock)

    assert logs.get(world, name, owner="alice").run.owner == "alice"
    with pytest.raises(NotFound):
        logs.get(world, name, owner="bob")
    assert logs.page(world, LogFilter(owner="bob")) == []


def test_a_dry_run_counts_and_removes_nothing(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    ran(world, clock, 3)
    clock.advance(DAY)

    would = logs.clean(world, clock.now() - DAY / 2)

    assert (would.removed, would.dry_run) == (3, True)
    assert logs.count(world) == 3


def test_a_clean_up_removes_what_is_old_in_batches_and_is_accounted_for(
    world: World, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "BATCH", 2)
    schedules.create(world, a_schedule(misfire="skip"))
    ran(world, clock, 5)
    clock.advance(DAY)
    [young] = ran(world, clock)

    done = logs.clean(world, clock.now() - DAY / 2, dry_run=False, actor="ann")

    assert (done.removed, done.more) == (5, False)
    assert answer(logs.page(world)) == [young]
    [(_, entry)] = world.store.read(lambda tx: tx.audit.find(object_id="job-log", limit=5, before=None))
    assert (entry.verb, entry.actor, entry.after["removed"]) == ("clean", "ann", 5)


def test_a_clean_up_stops_at_its_bound_and_says_that_there_is_more(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    ran(world, clock, 3)
    clock.advance(DAY)

    assert logs.clean(world, clock.now(), dry_run=False, most=2).more is True
    assert logs.clean(world, clock.now(), dry_run=False, most=2).more is False


def test_a_clean_up_of_one_job_leaves_the_others(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule())
    schedules.create(world, a_schedule("other"))
    ran(world, clock)
    clock.advance(DAY)

    logs.clean(world, clock.now(), logs.wanted_for(world, "other"), dry_run=False)

    assert [each.key for each in logs.page(world)] == ["minutely"]


def test_the_story_of_a_job_that_is_still_there_stays(world: World, clock: VirtualClock) -> None:
    """Never live jobs: neither waiting for a retry, nor running, nor dead."""
    schedules.create(world, a_schedule(retry=Retry.fixed(0, attempts=2)))
    [first] = ran(world, clock, fails=True)
    clock.advance(DAY)
    assert logs.clean(world, clock.now(), dry_run=False).removed == 0
    [job] = claims.pull(world, worker_id="w")
    endings.fail(world, job.id, job.token, "again")
    clock.advance(DAY)

    assert jobs.get(world, job.id).state == "dead"
    assert logs.clean(world, clock.now(), dry_run=False).removed == 0
    assert answer(logs.page(world)) == [job.run_id, first]


def test_what_is_still_to_come_is_not_old(world: World) -> None:
    with refused(InvalidInput, "before_in_future"):
        logs.clean(world, NOON + DAY)


def test_an_unknown_outcome_is_refused_with_the_known_ones(world: World) -> None:
    with refused(InvalidInput, "choice_unknown", name="outcome"):
        logs.page(world, LogFilter(outcomes=("SUCCESS",)))
