"""What every store must do when the end of a job concerns others: resting intervals, followers, dependants, places."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from horae.actions.jobs import endings, queues
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.running_limits import set_limit
from horae.actions.schedules import fires, schedules
from horae.core.jobs.job import Job, Outcome, settlement
from horae.core.jobs.retry import Retry
from horae.errors import Conflict, NotFound
from horae.ports.world import World
from horae.testing.builders import LEASE, a_request, a_schedule
from horae.testing.clock import NOON, VirtualClock
from horae.testing.conformance.support import at_once, end, take
from horae.testing.conformance.world import InVirtualTime, job_of, run, verdicts

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
ONCE = Retry.none()


def enqueue(world: World, *after: Job, **fields: Any) -> Job:
    request = a_request(after=tuple(job.id for job in after), retry=ONCE, **fields)
    return verbs.enqueue(world, request).job


def waits(world: World, job: Job) -> tuple[str, str | None]:
    """Return whether and for which jobs a job is held."""
    found = verbs.get(world, job.id)
    return found.held, found.held_for


class LinkConformance(InVirtualTime):
    """Ends that concern others, each in the transaction that ends the job."""

    # -- counting from the finish: S3-24 -------------------------------------------------------------------------

    @pytest.mark.parametrize("ending", ["succeeded", "failed", "timed_out", "cancelled", "skipped"])
    def test_a_fixed_delay_goes_on_however_its_job_ended(self, world: World, clock: VirtualClock, ending: Any) -> None:
        schedules.create(world, a_schedule("s", "60", kind="every", anchor="finish"))
        fires.fire_due(world)
        assert schedules.get(world, "s").next_fire_at is None
        clock.advance(7 * SECOND)

        run(world, ending)

        assert schedules.get(world, "s").next_fire_at == NOON + 67 * SECOND

    def test_a_fixed_delay_goes_on_after_its_waiting_job_was_cancelled(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("s", "60", kind="every", anchor="finish"))
        [(_, [job_id])] = fires.fire_due(world)
        clock.advance(7 * SECOND)

        verbs.cancel(world, job_id)

        assert schedules.get(world, "s").next_fire_at == NOON + 67 * SECOND

    def test_a_fixed_delay_goes_on_after_its_worker_died_again_and_again(
        self, world: World, clock: VirtualClock
    ) -> None:
        schedules.create(world, a_schedule("s", "60", kind="every", anchor="finish"))
        fires.fire_due(world)
        for _ in range(3):
            assert schedules.get(world, "s").next_fire_at is None
            assert len(take(world.store, now=clock.now())) == 1
            clock.advance(2 * LEASE)
            endings.lose_expired(world)

        assert job_of(world, "s").state == "dead"
        assert schedules.get(world, "s").next_fire_at == clock.now() + MINUTE

    def test_a_retry_does_not_let_a_fixed_delay_count_yet(self, world: World) -> None:
        schedules.create(world, a_schedule("s", "60", kind="every", anchor="finish", retry=Retry.fixed(5, attempts=2)))
        fires.fire_due(world)

        run(world, "failed")

        assert schedules.get(world, "s").next_fire_at is None

    def test_the_last_permitted_run_of_a_fixed_delay_is_the_last(self, world: World) -> None:
        schedules.create(world, a_schedule("s", "60", kind="every", anchor="finish", max_fires=1))
        fires.fire_due(world)

        run(world)

        assert schedules.get(world, "s").next_fire_at is None

    # -- following: S3-49 ----------------------------------------------------------------------------------------

    def test_a_follower_fires_when_its_leader_has_succeeded(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("load"))
        schedules.create(world, a_schedule("report", "", kind="after", after=("load",)))
        clock.advance(MINUTE)
        fires.fire_due(world)
        assert fires.fire_due(world) == []
        clock.advance(SECOND)

        run(world)

        assert [each.schedule.key for each, _ in fires.fire_due(world)] == ["report"]
        assert schedules.history(world, "report")[0][0].fire_at == clock.now()

    @pytest.mark.parametrize("ending", ["failed", "cancelled", "skipped"])
    def test_a_leader_that_did_not_succeed_is_not_followed(self, world: World, ending: Any) -> None:
        schedules.create(world, a_schedule("load", "60", kind="every"))
        schedules.create(world, a_schedule("report", "", kind="after", after=("load",)))
        fires.fire_due(world)

        run(world, ending)

        assert fires.fire_due(world) == []

    def test_a_follower_waits_for_all_its_leaders_and_then_begins_anew(self, world: World, clock: VirtualClock) -> None:
        for key in ("a", "b"):
            schedules.create(world, a_schedule(key, "60", kind="every"))
        schedules.create(world, a_schedule("both", "", kind="after", after=("a", "b")))
        for _ in range(2):
            fires.fire_due(world)
            run(world)
            assert schedules.get(world, "both").next_fire_at is None
            run(world)
            fires.fire_due(world)
            assert run(world).fire_at == clock.now()
            clock.advance(MINUTE)

        assert verdicts(world, "both") == [("ran", None, 1)] * 2

    def test_leaders_that_end_at_the_same_moment_fire_their_follower_once(self, world: World) -> None:
        for index in range(4):
            schedules.create(world, a_schedule(f"leader{index}", "60", kind="every"))
        schedules.create(world, a_schedule("last", "", kind="after", after=tuple(f"leader{n}" for n in range(4))))
        fires.fire_due(world)
        jobs = take(world.store)

        at_once(4, lambda index: end(world.store, jobs[index]))

        assert [each.schedule.key for each, _ in fires.fire_due(world)] == ["last"]
        assert fires.fire_due(world) == []

    def test_a_chain_of_schedules_runs_link_by_link(self, world: World) -> None:
        schedules.create(world, a_schedule("s0", "60", kind="every"))
        for index in range(1, 4):
            schedules.create(world, a_schedule(f"s{index}", "", kind="after", after=(f"s{index - 1}",)))

        fired = []
        while made := fires.fire_due(world):
            fired += [each.schedule.key for each, _ in made]
            run(world)

        assert fired == ["s0", "s1", "s2", "s3"]

    def test_a_schedule_that_others_follow_is_not_deleted(self, world: World) -> None:
        schedules.create(world, a_schedule("load"))
        schedules.create(world, a_schedule("report", "", kind="after", after=("load",)))

        with pytest.raises(Conflict, match="report"):
            schedules.delete(world, "load")
        schedules.delete(world, "report")
        schedules.delete(world, "load")

    # -- jobs that wait for jobs: S3-49 --------------------------------------------------------------------------

    def test_a_chain_of_jobs_runs_in_its_order(self, world: World) -> None:
        first = enqueue(world)
        second = enqueue(world, first)
        third = enqueue(world, second)

        assert [run(world).id for _ in range(3)] == [first.id, second.id, third.id]

    def test_one_job_lets_many_go(self, world: World) -> None:
        first = enqueue(world)
        rest = [enqueue(world, first) for _ in range(5)]

        run(world)

        assert [job.id for job in take(world.store)] == [job.id for job in rest]

    def test_a_job_waits_for_all_it_needs_and_says_for_whom(self, world: World) -> None:
        parents = [enqueue(world) for _ in range(3)]
        child = enqueue(world, *parents)

        for _ in parents:
            assert waits(world, child) == ("needs", ", ".join(job.id for job in parents))
            run(world)

        assert [job.id for job in take(world.store)] == [child.id]

    def test_parents_that_end_at_the_same_moment_let_the_child_go_once(self, world: World) -> None:
        """Each in a transaction of its own; neither may take the other for unfinished."""
        families = [[enqueue(world) for _ in range(4)] for _ in range(8)]
        children = [enqueue(world, *parents) for parents in families]
        held = {job.id: job for job in take(world.store)}

        def finish(index: int) -> None:
            for parents in families:
                end(world.store, held[parents[index].id])

        at_once(4, finish)

        assert sorted(job.number for job in take(world.store)) == sorted(child.number for child in children)

    def test_a_batch_that_ends_parents_of_one_child_lets_it_go(self, world: World) -> None:
        child = enqueue(world, *[enqueue(world) for _ in range(3)])
        endings = [settlement(job, Outcome("succeeded"), now=NOON, roll=0.5) for job in take(world.store)]

        assert world.store.settle(endings, now=NOON) == set()

        assert [job.id for job in take(world.store)] == [child.id]

    def test_a_child_enqueued_while_its_parent_ends_is_never_forgotten(self, world: World) -> None:
        parents = [enqueue(world, queue="parents") for _ in range(15)]
        held = take(world.store, queue="parents")
        assert len(held) == len(parents)

        def act(index: int) -> None:
            for job in held:
                if index:
                    enqueue(world, job)
                else:
                    end(world.store, job)

        at_once(2, act)

        assert len(take(world.store)) == len(parents)

    def test_whoever_has_succeeded_already_keeps_nobody_waiting(self, world: World) -> None:
        parent = enqueue(world)
        run(world)

        child = enqueue(world, parent)

        assert [job.id for job in take(world.store)] == [child.id]

    def test_nobody_can_wait_for_a_job_that_never_was(self, world: World) -> None:
        with pytest.raises(NotFound):
            verbs.enqueue(world, a_request(after=("job_999999",)))
        assert verbs.counts(world) == {}

    # -- places: S3-53 -------------------------------------------------------------------------------------------

    def test_threads_together_keep_the_limit_of_a_group(self, world: World, clock: VirtualClock) -> None:
        """I11: by slots with a unique key, not by counting."""
        _fire_group(world, clock, 12)
        set_limit(world, "group:night", 3)

        taken = at_once(4, lambda index: take(world.store, 5, worker=f"w{index}", now=clock.now()))

        assert sum(map(len, taken)) == 3

    def test_threads_together_keep_the_limit_of_everything(self, world: World) -> None:
        for index in range(12):
            enqueue(world, queue=f"q{index % 4}")
        set_limit(world, "global", 3)

        taken = at_once(4, lambda index: take(world.store, 5, queue=f"q{index}", worker=f"w{index}"))

        assert sum(map(len, taken)) == 3

    def test_every_limit_holds_together_with_the_others(self, world: World, clock: VirtualClock) -> None:
        _fire_group(world, clock, 4)
        enqueue(world, concurrency_key="k")
        enqueue(world, concurrency_key="k")
        set_limit(world, "group:night", 2)
        queues.limit_queue(world, "default", 4)
        set_limit(world, "global", 9)

        taken = Counter(job.group or job.concurrency_key for job in take(world.store, now=clock.now()))

        assert taken == {"night": 2, "k": 1}

    @pytest.mark.parametrize("limited", ["group", "global"])
    def test_a_worker_that_died_gives_its_places_back(self, world: World, clock: VirtualClock, limited: str) -> None:
        _fire_group(world, clock, 3)
        _limit(world, limited, 1)
        [lost] = take(world.store, now=clock.now())
        assert take(world.store, now=clock.now()) == []
        clock.advance(2 * LEASE)

        endings.lose_expired(world)

        assert [len(take(world.store, now=clock.now())) for _ in range(2)] == [1, 0]
        assert verbs.get(world, lost.id).attempt == 1

    @pytest.mark.parametrize("limited", ["group", "global"])
    @pytest.mark.parametrize("new", [None, 7])
    def test_a_lifted_or_raised_limit_lets_in_whoever_was_held(
        self, world: World, clock: VirtualClock, limited: str, new: int | None
    ) -> None:
        _fire_group(world, clock, 5)
        _limit(world, limited, 1)
        [first] = take(world.store, now=clock.now())
        assert take(world.store, now=clock.now()) == []

        _limit(world, limited, new)

        assert len(take(world.store, now=clock.now())) == 4
        assert end(world.store, first, now=clock.now())


def _limit(world: World, limited: str, most: int | None) -> None:
    if limited == "group":
        set_limit(world, "group:night", most)
    else:
        set_limit(world, "global", most)


def _fire_group(world: World, clock: VirtualClock, count: int) -> datetime:
    """So many jobs of one group, due now."""
    for index in range(count):
        schedules.create(world, a_schedule(f"s{index}", group="night"))
    clock.advance(MINUTE)
    fires.fire_due(world)
    return clock.now()
