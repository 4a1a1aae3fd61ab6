"""What every store must do for schedules: keep them whole, fire each occurrence once, leave a record of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Fire
from horae.core.time.instants import micros
from horae.errors import Conflict, LeaseLost
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock
from horae.testing.conformance.support import HOSTILE, at_once, end, lease_of, lose, take
from horae.testing.conformance.world import InVirtualTime, run, verdicts

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)


class ScheduleConformance(InVirtualTime):
    """Schedules: stored, found, fired, overlapped, recorded."""

    # -- keeping -------------------------------------------------------------------------------------------------

    def test_a_schedule_is_read_back_as_it_was_written(self, world: World) -> None:
        """S3-46, S4-7."""
        schedules.create(world, a_schedule("leader"))
        full = a_schedule(
            "full",
            "",
            kind="after",
            owner="system",
            group="night",
            payload={"hostile": list(HOSTILE)},
            queue="slow",
            priority="low",
            misfire="catch_up",
            catch_up=7,
            spread=timedelta(microseconds=1),
            grace=timedelta(days=400),
            overlap="queue_one",
            jitter=SECOND,
            retry=Retry.exponential(first=SECOND, attempts=9),
            timeout=MINUTE,
            lock_ttl=MINUTE,
            stale_timeout=10 * MINUTE,
            after=("leader",),
            starts_at=NOON,
            ends_at=NOON + MINUTE,
            max_fires=2**31 - 1,
            sources={"cron": "file"},
        )
        made = schedules.create(world, full)

        assert schedules.get(world, "full") == made
        assert replace(made, sources=full.sources, number=0, created_at=None, updated_at=None, tzdata="") == full

    def test_of_two_who_make_the_same_schedule_at_once_one_is_told(self, world: World) -> None:
        def make(_: int) -> str:
            try:
                return schedules.create(world, a_schedule()).key
            except Conflict:
                return "refused"

        assert Counter(at_once(2, make)) == {"minutely": 1, "refused": 1}

    def test_of_two_changes_to_one_version_one_is_refused(self, world: World) -> None:
        schedules.create(world, a_schedule())

        def change(index: int) -> str:
            try:
                schedules.change(world, "minutely", {"payload": {"by": index}}, version=1)
                return "done"
            except Conflict:
                return "refused"

        assert Counter(at_once(3, change)) == {"done": 1, "refused": 2}
        assert schedules.get(world, "minutely").version == 2

    def test_a_page_begins_after_the_last_schedule_even_where_owners_share_a_key(self, world: World) -> None:
        for owner in ("ann", "bob", "cem", "dan", "eve"):
            schedules.create(world, a_schedule("daily", owner=owner))
        schedules.create(world, a_schedule("Daily", owner="ann"))

        first = schedules.find(world, limit=4)
        rest = schedules.find(world, limit=4, after=first[-1])

        assert [(each.key, each.owner) for each in (*first, *rest)] == [
            ("Daily", "ann"),
            *(("daily", owner) for owner in ("ann", "bob", "cem", "dan", "eve")),
        ]
        assert len(list(schedules.iterate(world, ScheduleFilter(owner="ann")))) == 2

    def test_a_page_of_the_history_never_parts_the_records_of_one_instant(self, world: World) -> None:
        number = schedules.create(world, a_schedule()).number
        for fire in (
            Fire(NOON - MINUTE, "ran"),
            Fire(NOON, "skipped", reason="running"),
            Fire(NOON, "ran", "backfill"),
            Fire(NOON + MINUTE, "ran"),
        ):
            world.store.transact(partial(_record, number=number, fire=fire))

        page = [fire for fire, _ in schedules.history(world, "minutely", limit=2)]
        rest = [fire for fire, _ in schedules.history(world, "minutely", limit=2, before=page[-1].fire_at)]

        assert [fire.fire_at for fire in page] == [NOON + MINUTE, NOON, NOON]
        assert [fire.fire_at for fire in rest] == [NOON - MINUTE]

    # -- firing --------------------------------------------------------------------------------------------------

    def test_a_fire_is_stamped_with_the_zone_database_of_who_fired_it(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("s", zone="Europe/Paris"))
        clock.advance(MINUTE)

        firing.fire_due(replace(world, tzdata="2029c"))

        assert schedules.get(world, "s").tzdata == "2029c"

    def test_a_due_schedule_becomes_a_job_a_record_and_a_next_instant(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule(payload={"a": 1}, priority="high"))
        clock.move_to(NOON + MINUTE)

        [(_, [job_id])] = firing.fire_due(world)

        job = verbs.get(world, job_id)
        assert (job.payload, job.priority, job.planned_at, job.fire_at) == ({"a": 1}, "high", clock.now(), clock.now())
        assert schedules.history(world, "minutely") == [(Fire(clock.now(), "ran", due_at=clock.now()), job_id)]
        after = schedules.get(world, "minutely")
        assert (after.next_fire_at, after.fire_count, after.last_fire_at) == (NOON + 2 * MINUTE, 1, NOON + MINUTE)

    def test_nothing_fires_early(self, world: World, clock: VirtualClock) -> None:
        """I9."""
        schedules.create(world, a_schedule())
        clock.move_to(NOON + MINUTE - TICK)

        assert firing.fire_due(world) == []

    def test_threads_that_fire_at_once_fire_each_schedule_once(self, world: World, clock: VirtualClock) -> None:
        """I7, fault 38."""
        for number in range(120):
            schedules.create(world, a_schedule(f"s{number}"))
        clock.move_to(NOON + MINUTE)

        def fire(_: int) -> list[str]:
            fired: list[str] = []
            while made := firing.fire_due(world, 7):
                fired += [each.schedule.key for each, _ in made]
            return fired

        fired = Counter(key for mine in at_once(4, fire) for key in mine)

        assert fired == {f"s{number}": 1 for number in range(120)}
        assert {len(schedules.history(world, key)) for key in fired} == {1}
        assert verbs.counts(world)["default"]["queued"] == 120

    def test_the_oldest_come_first_where_a_batch_cannot_hold_all(self, world: World, clock: VirtualClock) -> None:
        for minute in (3, 1, 2):
            schedules.create(world, a_schedule(f"m{minute}", f"{minute} * * * *"))
        clock.move_to(NOON + 3 * MINUTE)

        assert [[each.schedule.key for each, _ in firing.fire_due(world, 2)] for _ in range(2)] == [
            ["m1", "m2"],
            ["m3"],
        ]

    def test_an_occurrence_on_record_is_not_fired_again(self, world: World, clock: VirtualClock) -> None:
        """I7: a schedule that is moved back in time, by whatever mistake, does not repeat itself."""
        number = schedules.create(world, a_schedule(overlap="allow", max_fires=9)).number
        clock.move_to(NOON + MINUTE)
        firing.fire_due(world)
        world.store.transact(partial(_move_back, number=number, moment=micros(NOON + MINUTE)))

        firing.fire_due(world)

        assert verdicts(world, "minutely") == [("ran", None, 1)]
        assert verbs.counts(world)["default"]["queued"] == 1
        after = schedules.get(world, "minutely")
        assert (after.next_fire_at, after.fire_count) == (NOON + 2 * MINUTE, 1)

    def test_a_schedule_that_cannot_be_read_keeps_nobody_else_waiting(self, world: World, clock: VirtualClock) -> None:
        """Fault 34: it is not silently dead either; mended, it makes up for what it missed."""
        for key in ("broken", "sound"):
            schedules.create(world, a_schedule(key, zone="Europe/Paris"))
        world.store.transact(partial(_break_zone, key="broken"))
        clock.move_to(NOON + MINUTE)

        fired = [each.schedule.key for each, ids in firing.fire_due(world) if ids]
        clock.advance(MINUTE)
        schedules.change(world, "broken", {"zone": "Europe/Berlin"})
        clock.advance(MINUTE)
        firing.fire_due(world)

        assert fired == ["sound"]
        assert verdicts(world, "broken") == [("skipped", "changed", 1), ("ran", None, 1)]

    def test_missed_fires_are_one_record(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule())
        clock.advance(timedelta(days=3))

        firing.fire_due(world)

        assert verdicts(world, "minutely") == [("merged", "misfire", 3 * 1440 - 1), ("ran", None, 1)]
        [(last, _), (merged, _)] = schedules.history(world, "minutely")
        assert (merged.fire_at, merged.last_at, merged.merged_into) == (
            NOON + MINUTE,
            clock.now() - MINUTE,
            last.fire_at,
        )

    # -- overlap -------------------------------------------------------------------------------------------------

    def test_an_unfinished_job_lets_the_next_fire_be_skipped(self, world: World, clock: VirtualClock) -> None:
        """C-22: recorded, never silent."""
        schedules.create(world, a_schedule())
        for _ in range(2):
            clock.advance(MINUTE)
            firing.fire_due(world)
        [job] = take(world.store, now=clock.now())
        clock.advance(MINUTE)
        firing.fire_due(world)
        end(world.store, job, now=clock.now())
        clock.advance(MINUTE)
        firing.fire_due(world)

        assert verdicts(world, "minutely") == [
            ("ran", None, 1),
            ("skipped", "running", 1),
            ("skipped", "running", 1),
            ("ran", None, 1),
        ]

    def test_a_retry_yields_to_the_next_occurrence_and_is_on_record(self, world: World, clock: VirtualClock) -> None:
        """C-13."""
        schedules.create(world, a_schedule(retry=Retry.fixed(3600, attempts=5)))
        clock.advance(MINUTE)
        firing.fire_due(world)
        failed = run(world, "failed", error="Boom")
        clock.advance(MINUTE)

        firing.fire_due(world)

        dropped = verbs.get(world, failed.id)
        assert (dropped.state, [each.outcome for each in verbs.runs(world, failed.id)]) == (
            "cancelled",
            ["failed", "cancelled"],
        )
        assert dropped.cancel_reason is not None
        assert verdicts(world, "minutely") == [("ran", None, 1), ("ran", None, 1)]

    def test_a_job_that_lost_its_worker_and_is_due_again_does_not_yield(
        self, world: World, clock: VirtualClock
    ) -> None:
        """C-13: its retry crosses nothing, and attempts are left."""
        schedules.create(world, a_schedule(retry=Retry.fixed(3600, attempts=5)))
        clock.advance(MINUTE)
        firing.fire_due(world)
        [lost] = take(world.store, now=clock.now(), lease=SECOND)
        clock.advance(2 * SECOND)
        lose(world.store, clock.now())
        clock.advance(MINUTE)

        firing.fire_due(world)

        assert [job.number for job in take(world.store, now=clock.now())] == [lost.number]
        assert verdicts(world, "minutely") == [("ran", None, 1), ("skipped", "running", 1)]

    def test_one_waits_behind_the_running_one_and_never_beside_it(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule(overlap="queue_one"))
        clock.advance(MINUTE)
        firing.fire_due(world)
        [running] = take(world.store, now=clock.now(), lease=timedelta(hours=1))
        for _ in range(2):
            clock.advance(MINUTE)
            firing.fire_due(world)

        assert take(world.store, now=clock.now()) == []
        end(world.store, running, now=clock.now())
        assert len(take(world.store, now=clock.now())) == 1
        assert verdicts(world, "minutely") == [("ran", None, 1), ("ran", None, 1), ("skipped", "running", 1)]

    def test_fires_that_are_made_up_for_do_not_overlap_either(self, world: World, clock: VirtualClock) -> None:
        """S3-24: each takes longer than the spreading allows, so each waits for the one before."""
        schedules.create(world, a_schedule(misfire="catch_up", catch_up=3, spread=3 * SECOND))
        clock.advance(10 * MINUTE)
        firing.fire_due(world)
        clock.advance(5 * SECOND)

        [first] = take(world.store, now=clock.now())
        end(world.store, first, now=clock.now())

        assert first.fire_at == NOON + 8 * MINUTE
        assert [job.fire_at for job in take(world.store, now=clock.now())] == [NOON + 9 * MINUTE]

    def test_a_silent_job_is_closed_as_lost_and_its_late_word_is_refused(
        self, world: World, clock: VirtualClock
    ) -> None:
        """S4-21, S4-22: its token no longer counts, its checkpoint stays on record."""
        schedules.create(world, a_schedule(stale_timeout=10 * MINUTE))
        clock.advance(MINUTE)
        firing.fire_due(world)
        [silent] = take(world.store, now=clock.now(), lease=timedelta(hours=9))
        clock.advance(9 * MINUTE)
        claims.checkpoint(world, lease_of(silent), {"page": 7})
        clock.advance(10 * MINUTE)
        firing.fire_due(world)
        refused = verdicts(world, "minutely")[-1]
        clock.advance(MINUTE)

        firing.fire_due(world)

        assert (refused, verdicts(world, "minutely")[-1]) == (("skipped", "running", 1), ("ran", None, 1))
        with pytest.raises(LeaseLost):
            endings.ack(world, silent.id, silent.token)
        closed = verbs.get(world, silent.id)
        assert ([each.outcome for each in verbs.runs(world, silent.id)], closed.checkpoint) == (["lost"], {"page": 7})

    def test_a_trigger_and_a_fire_at_the_same_moment_do_not_overlap(self, world: World, clock: VirtualClock) -> None:
        """C-23."""
        for number in range(10):
            schedules.create(world, a_schedule(f"s{number}"))
        clock.advance(MINUTE)

        def act(index: int) -> None:
            if index:
                for number in range(10):
                    firing.trigger(world, f"s{number}")
            else:
                while firing.fire_due(world, 1):
                    pass

        at_once(2, act)
        act(0)  # a schedule that was being triggered when it came to its turn was passed over

        for number in range(10):
            assert Counter(verdict for verdict, _, _ in verdicts(world, f"s{number}")) == {"ran": 1, "skipped": 1}

    def test_two_triggers_in_the_same_microsecond_are_two_fires(self, world: World) -> None:
        schedules.create(world, a_schedule(overlap="allow"))

        ids = {firing.trigger(world, "minutely").job_id for _ in range(3)}

        rows = schedules.history(world, "minutely")
        assert ids == {job for _, job in rows}
        assert {fire.kind for fire, _ in rows} == {"manual"}

    # -- history -------------------------------------------------------------------------------------------------

    def test_runs_and_failures_are_counted_from_the_history(self, world: World, clock: VirtualClock) -> None:
        """S3-19, S3-22: only what was run counts."""
        number = schedules.create(world, a_schedule(retry=Retry.fixed(3600, attempts=5))).number
        for ending in ("succeeded", "failed", "succeeded", "failed"):
            clock.advance(MINUTE)
            firing.fire_due(world)
            run(world, ending, error="Boom" if ending == "failed" else None)
        clock.advance(MINUTE)
        firing.fire_due(world)  # the last failure's retry yields: cancelled, without having run
        run(world, "skipped")

        tally = world.store.read(lambda tx: tx.schedules.tallies([number]))[number]

        assert (tally.run_count, tally.fail_count, tally.last_outcome, tally.last_error) == (4, 2, "failed", "Boom")

    def test_a_deleted_schedule_leaves_its_jobs(self, world: World) -> None:
        schedules.create(world, a_schedule("s", "60", kind="every", anchor="finish"))
        [(_, [job_id])] = firing.fire_due(world)

        schedules.delete(world, "s")

        assert run(world).id == job_id
        assert world.store.peek([]).next_fire_at is None


def _record(tx: Any, number: int, fire: Fire) -> None:
    tx.schedules.record(number, fire, None, NOON)


def _move_back(tx: Any, number: int, moment: int) -> None:
    sql = text("UPDATE horae_schedules SET next_fire_at = :at, next_due_at = :at WHERE id = :number")
    tx.connection.execute(sql, {"at": moment, "number": number})


def _break_zone(tx: Any, key: str) -> None:
    sql = text("UPDATE horae_schedules SET zone = 'Mars/Olympus' WHERE schedule_key = :key")
    tx.connection.execute(sql, {"key": key})
