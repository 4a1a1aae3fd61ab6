"""What becomes of a schedule whose time has come: C-13, C-14, C-22, I7 to I9."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae.core.schedules.decisions import admits, decide, record_undecided
from horae.core.schedules.follows import cycle
from horae.core.schedules.schedule import (
    Fire,
    Firing,
    Schedule,
    Unfinished,
    check,
    due_at,
    first_fire,
    next_fire,
)
from horae.errors import InvalidInput, UnknownZone
from tests.support.refusals import refused

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)  # a Monday
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
BUSY = Unfinished(running=(1,))
WAITING = Unfinished(waiting=(2,))
RETRYING = Unfinished(retrying={3: NOON})
ALL_MINUTES = ",".join(map(str, range(60)))


def a_schedule(expression: str = "* * * * *", **fields: Any) -> Schedule:
    """Every minute, next at noon, unless changed."""
    usual: dict[str, Any] = {"kind": "cron", "created_at": NOON - timedelta(days=9), "next_fire_at": NOON}
    return Schedule(key="s", handler="h", expression=expression, number=1, **(usual | fields))


def decided(schedule: Schedule, late: timedelta = timedelta(0), unfinished: Unfinished | None = None) -> Firing:
    return decide(schedule, NOON + late, unfinished or Unfinished(), roll=0.5)


def minutes(fires: Sequence[Fire]) -> list[tuple[str, str | None, int, int | None, int]]:
    """Verdict, reason, first and last minute after noon, count."""

    def minute(moment: datetime) -> int:
        return round((moment - NOON) / MINUTE)

    return [
        (f.verdict, f.reason, minute(f.fire_at), None if f.last_at is None else minute(f.last_at), f.count)
        for f in fires
    ]


# -- on time -----------------------------------------------------------------------------------------------------


def test_a_fire_on_time_runs_and_the_next_one_follows() -> None:
    firing = decided(a_schedule(), late=SECOND)

    assert firing.fires == (Fire(NOON, "ran", due_at=NOON),)
    assert (firing.next_fire_at, firing.next_due_at, firing.fire_count) == (NOON + MINUTE, NOON + MINUTE, 1)


def test_an_interval_keeps_its_grid_however_late_it_was() -> None:
    """S3-24, C-14: a fixed rate does not drift."""
    firing = decided(a_schedule("60", kind="every"), late=SECOND * 59)

    assert firing.next_fire_at == NOON + MINUTE


def test_a_fire_at_one_instant_in_the_past_runs_at_once_and_is_the_last() -> None:
    """S1-31: a past instant is late, not lost."""
    schedule = a_schedule("2030-01-01T00:00:00Z", kind="once", next_fire_at=None)
    first = first_fire(schedule, NOON)
    firing = decided(replace(schedule, next_fire_at=first))

    assert first == datetime(2030, 1, 1, tzinfo=UTC)
    assert [(fire.verdict, fire.fire_at) for fire in firing.fires] == [("ran", first)]
    assert firing.next_fire_at is None


def test_one_instant_that_has_been_fired_does_not_come_again() -> None:
    moment = NOON - MINUTE
    schedule = a_schedule("2030-01-07T11:59:00Z", kind="once", next_fire_at=None, last_fire_at=moment)

    assert first_fire(schedule, NOON) is None


# -- missed: C-14, fault 35 --------------------------------------------------------------------------------------


def test_missed_fires_are_merged_into_the_last_one() -> None:
    firing = decided(a_schedule(), late=5 * MINUTE)

    assert minutes(firing.fires) == [("merged", "misfire", 0, 4, 5), ("ran", None, 5, None, 1)]
    assert firing.fires[0].merged_into == NOON + 5 * MINUTE
    assert firing.next_fire_at == NOON + 6 * MINUTE


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("days", [12, 3653], ids=["twelve days", "ten years"])
def test_every_second_of_a_long_downtime_is_merged_into_one_run(zone: str, days: int) -> None:
    """Counting ended after a million, and the schedule fired again for the rest; walking held a transaction."""
    firing = decided(a_schedule("* * * * * *", zone=zone), late=timedelta(days=days))

    merged, ran = firing.fires
    assert (merged.count, merged.last_at) == (days * 86_400, ran.fire_at - SECOND)
    assert (ran.verdict, ran.fire_at) == ("ran", NOON + timedelta(days=days))
    assert firing.next_fire_at == ran.fire_at + SECOND


def test_the_last_of_a_downtime_are_found_although_most_lie_far_back() -> None:
    """All of January by the second, and then nothing until December."""
    schedule = a_schedule("* * * * 1 *", misfire="catch_up", catch_up=1000)
    firing = decided(schedule, late=timedelta(days=330))

    ran = [fire for fire in firing.fires if fire.verdict == "ran"]
    last = datetime(2030, 1, 31, 23, 59, 59, tzinfo=UTC)
    assert [fire.fire_at for fire in ran] == [last - (999 - n) * SECOND for n in range(1000)]
    assert sum(fire.count for fire in firing.fires) == (last - NOON) // SECOND + 1
    assert firing.next_fire_at == datetime(2031, 1, 1, tzinfo=UTC)


def test_a_record_never_counts_beyond_what_its_column_holds() -> None:
    """A schedule of every millisecond, down for a month."""
    firing = decided(a_schedule("0.001", kind="every"), late=timedelta(days=30))

    assert [fire.count for fire in firing.fires] == [2**31 - 1, 1]
    assert firing.next_fire_at == NOON + timedelta(days=30, milliseconds=1)


def test_a_single_merged_fire_names_no_range() -> None:
    assert minutes(decided(a_schedule(), late=MINUTE).fires) == [
        ("merged", "misfire", 0, None, 1),
        ("ran", None, 1, None, 1),
    ]


def test_missed_fires_are_skipped_where_that_is_the_policy() -> None:
    firing = decided(a_schedule("0 * * * *", misfire="skip"), late=5 * MINUTE)

    assert minutes(firing.fires) == [("skipped", "misfire", 0, None, 1)]


def test_the_last_of_several_still_runs_within_its_grace() -> None:
    firing = decided(a_schedule(misfire="skip"), late=5 * MINUTE + 30 * SECOND)

    assert minutes(firing.fires) == [("skipped", "misfire", 0, 4, 5), ("ran", None, 5, None, 1)]


@pytest.mark.parametrize(("late", "verdict"), [(90 * SECOND, "ran"), (91 * SECOND, "skipped")])
def test_grace_counts_from_when_the_fire_was_due_with_its_jitter(late: timedelta, verdict: str) -> None:
    schedule = a_schedule("0 * * * *", misfire="skip", jitter=MINUTE, next_due_at=NOON + 30 * SECOND)

    assert [fire.verdict for fire in decided(schedule, late=late).fires] == [verdict]


def test_so_many_are_made_up_for_spread_over_time() -> None:
    """Fault 35: no thundering herd."""
    schedule = a_schedule(misfire="catch_up", catch_up=3, spread=6 * MINUTE, overlap="allow")

    firing = decided(schedule, late=10 * MINUTE)

    assert minutes(firing.fires)[0] == ("skipped", "misfire", 0, 7, 8)
    assert minutes(firing.fires)[1:] == [
        ("ran", None, 8, None, 1),
        ("ran", None, 9, None, 1),
        ("ran", None, 10, None, 1),
    ]
    dues = [fire.due_at for fire in firing.fires[1:]]
    assert dues == [NOON + 10 * MINUTE, NOON + 12 * MINUTE, NOON + 14 * MINUTE]


def test_fewer_missed_than_may_be_made_up_for_all_run() -> None:
    firing = decided(a_schedule(misfire="catch_up", catch_up=10), late=2 * MINUTE)

    assert [fire.verdict for fire in firing.fires] == ["ran", "ran", "ran"]


def test_three_days_of_seconds_are_counted_without_a_scan() -> None:
    firing = decided(a_schedule("1", kind="every"), late=timedelta(days=3))

    assert [fire.count for fire in firing.fires] == [3 * 86_400, 1]


# -- overlap: C-13, C-22 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unfinished", [BUSY, WAITING], ids=["running", "waiting"])
def test_a_fire_that_finds_another_unfinished_is_skipped(unfinished: Unfinished) -> None:
    firing = decided(a_schedule(), unfinished=unfinished)

    assert minutes(firing.fires) == [("skipped", "running", 0, None, 1)]
    assert (firing.fire_count, firing.next_fire_at) == (0, NOON + MINUTE)


def test_one_may_queue_behind_a_running_one() -> None:
    schedule = a_schedule(overlap="queue_one")

    verdicts = [decided(schedule, unfinished=each).fires[0].verdict for each in (Unfinished(), BUSY, WAITING)]

    assert verdicts == ["ran", "ran", "skipped"]


def test_where_overlap_is_allowed_everything_runs() -> None:
    firing = decided(a_schedule(overlap="allow"), unfinished=Unfinished(running=(1, 2), waiting=(3,)))

    assert [fire.verdict for fire in firing.fires] == ["ran"]


@pytest.mark.parametrize("overlap", ["skip", "queue_one"])
def test_a_job_that_waits_for_a_retry_yields_to_the_new_occurrence(overlap: Any) -> None:
    """C-13: when a retry would cross the next occurrence, the occurrence wins."""
    firing = decided(a_schedule(overlap=overlap), unfinished=RETRYING)

    assert ([fire.verdict for fire in firing.fires], firing.dropped) == (["ran"], (3,))


def test_a_retry_that_was_due_before_the_occurrence_waits_for_a_worker_only() -> None:
    """C-13: it crosses nothing, so it does not yield."""
    unfinished = Unfinished(waiting=(2,), retrying={3: NOON - SECOND, 4: NOON}).at(NOON)

    assert (unfinished.waiting, unfinished.retrying) == ((2, 3), {4: NOON})
    assert RETRYING.at(NOON) is RETRYING


def test_a_retry_is_kept_when_the_new_occurrence_does_not_run_anyway() -> None:
    firing = decided(a_schedule(), unfinished=Unfinished(running=(1,), retrying={3: NOON}))

    assert ([fire.verdict for fire in firing.fires], firing.dropped) == (["skipped"], ())


@pytest.mark.parametrize(
    ("overlap", "unfinished", "may"),
    [
        ("skip", Unfinished(), True),
        ("skip", BUSY, False),
        ("skip", WAITING, False),
        ("skip", RETRYING, False),
        ("queue_one", BUSY, True),
        ("queue_one", WAITING, False),
        ("queue_one", RETRYING, False),
        ("allow", Unfinished(running=(1,), waiting=(2,), retrying={3: NOON}), True),
    ],
)
def test_a_run_by_hand_obeys_overlap(overlap: Any, unfinished: Unfinished, may: bool) -> None:
    """C-23."""
    assert admits(a_schedule(overlap=overlap), unfinished) is may


# -- silent: S4-21, S4-22 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silence", "closed"), [(10 * MINUTE, ()), (10 * MINUTE + TICK, (1,))])
def test_a_running_one_without_progress_for_too_long_makes_way(silence: timedelta, closed: tuple[int, ...]) -> None:
    schedule = a_schedule(stale_timeout=10 * MINUTE)
    firing = decided(schedule, unfinished=Unfinished(running=(1,), seen_at={1: NOON - silence}))

    assert firing.silent == closed
    assert firing.fires[0].verdict == ("ran" if closed else "skipped")


def test_without_a_stale_timeout_nobody_is_closed() -> None:
    firing = decided(a_schedule(), unfinished=Unfinished(running=(1,), seen_at={1: NOON - timedelta(days=9)}))

    assert (firing.silent, firing.fires[0].verdict) == ((), "skipped")


def test_a_silent_one_beside_a_lively_one_does_not_open_the_way() -> None:
    unfinished = Unfinished(running=(1, 2), seen_at={1: NOON - 11 * MINUTE, 2: NOON - MINUTE})
    firing = decided(a_schedule(stale_timeout=10 * MINUTE), unfinished=unfinished)

    assert (firing.silent, firing.fires[0].verdict) == ((1,), "skipped")


# -- jitter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("roll", [0.0, 0.25, 0.999999])
def test_jitter_only_ever_puts_off(roll: float) -> None:
    schedule = a_schedule(jitter=40 * SECOND)
    firing = decide(schedule, NOON, Unfinished(), roll)

    assert firing.next_fire_at == NOON + MINUTE
    assert firing.next_due_at == NOON + MINUTE + 40 * SECOND * roll
    assert due_at(schedule, None, roll) is None


def test_a_fire_runs_when_its_stored_jitter_says_whatever_the_dice_say_now() -> None:
    schedule = a_schedule("0 * * * *", jitter=MINUTE, next_due_at=NOON + 7 * SECOND)

    due = {decide(schedule, NOON + 8 * SECOND, Unfinished(), roll).fires[0].due_at for roll in (0.0, 0.3, 0.9)}

    assert due == {NOON + 7 * SECOND}


@pytest.mark.parametrize(
    "schedule",
    [
        a_schedule("60", kind="every", anchor="finish", jitter=MINUTE, next_due_at=NOON),
        a_schedule("", kind="after", after=("leader",), jitter=MINUTE, next_due_at=NOON),
    ],
    ids=["counts from the finish", "follows"],
)
def test_what_waits_for_the_end_of_a_job_draws_its_jitter_when_it_fires(schedule: Schedule) -> None:
    """Whoever ended the job had no dice; the job waits instead."""
    assert decide(schedule, NOON, Unfinished(), 0.5).fires == (Fire(NOON, "ran", due_at=NOON + 30 * SECOND),)


# -- bounds ------------------------------------------------------------------------------------------------------


def test_nothing_fires_after_its_end() -> None:
    schedule = a_schedule(ends_at=NOON + 3 * MINUTE)
    firing = decided(schedule, late=10 * MINUTE)

    assert minutes(firing.fires) == [("merged", "misfire", 0, 2, 3), ("ran", None, 3, None, 1)]
    assert firing.next_fire_at is None


def test_the_end_itself_still_fires() -> None:
    assert decided(a_schedule(ends_at=NOON + MINUTE)).next_fire_at == NOON + MINUTE
    assert decided(a_schedule(ends_at=NOON + MINUTE - TICK)).next_fire_at is None


@pytest.mark.parametrize("rule", [("* * * * *", "cron"), ("60", "every")])
def test_nothing_fires_before_its_start_and_the_start_itself_does(rule: tuple[str, Any]) -> None:
    schedule = a_schedule(rule[0], kind=rule[1], starts_at=NOON + timedelta(days=1))

    assert first_fire(schedule, NOON) == next_fire(schedule, NOON) == NOON + timedelta(days=1)


def test_the_last_permitted_fire_is_the_last() -> None:
    firing = decided(a_schedule(max_fires=3, fire_count=2))

    assert (firing.fire_count, firing.next_fire_at) == (3, None)


def test_only_what_ran_counts_towards_the_bound() -> None:
    firing = decided(a_schedule(max_fires=3, fire_count=2), unfinished=BUSY)

    assert (firing.fire_count, firing.next_fire_at) == (2, NOON + MINUTE)


def test_making_up_for_missed_fires_does_not_pass_the_bound() -> None:
    schedule = a_schedule(misfire="catch_up", catch_up=4, max_fires=5, fire_count=3)

    firing = decided(schedule, late=3 * MINUTE)

    assert [(fire.verdict, fire.reason) for fire in firing.fires] == [
        ("ran", None),
        ("ran", None),
        ("skipped", "max_fires"),
        ("skipped", "max_fires"),
    ]
    assert (firing.fire_count, firing.next_fire_at) == (5, None)


# -- counting from the finish: S3-24 -----------------------------------------------------------------------------


def test_a_fixed_delay_rests_until_its_job_has_ended() -> None:
    firing = decided(a_schedule("60", kind="every", anchor="finish"), late=5 * MINUTE)

    assert ([fire.fire_at for fire in firing.fires], firing.next_fire_at) == ([NOON], None)


@pytest.mark.parametrize(("fields", "unfinished"), [({"misfire": "skip"}, Unfinished()), ({}, BUSY)])
def test_a_fixed_delay_that_did_not_run_counts_from_now(fields: dict[str, Any], unfinished: Unfinished) -> None:
    """From its old instant it would have to walk through all of a long downtime, one record after the other."""
    late = timedelta(days=3)
    firing = decided(a_schedule("60", kind="every", anchor="finish", **fields), late=late, unfinished=unfinished)

    assert [fire.verdict for fire in firing.fires] == ["skipped"]
    assert firing.next_fire_at == NOON + late + MINUTE


def test_a_changed_fixed_delay_does_not_come_back_to_an_instant_it_has_fired() -> None:
    schedule = a_schedule("60", kind="every", anchor="finish", created_at=NOON, next_fire_at=None, last_fire_at=NOON)

    assert first_fire(schedule, NOON) == NOON + MINUTE


# -- what a change leaves behind: I8 -----------------------------------------------------------------------------


def test_fires_that_nobody_decided_on_before_a_change_are_told_in_one_record() -> None:
    assert record_undecided(a_schedule(), NOON + 5 * MINUTE, "changed") == Fire(
        NOON, "skipped", reason="changed", last_at=NOON + 5 * MINUTE, count=6
    )


@pytest.mark.parametrize("next_fire_at", [None, NOON + MINUTE])
def test_a_change_leaves_nothing_behind_when_nothing_was_due(next_fire_at: datetime | None) -> None:
    assert record_undecided(a_schedule(next_fire_at=next_fire_at), NOON, "changed") is None


def test_a_rule_that_can_no_longer_be_read_leaves_what_was_told_last() -> None:
    broken = replace(a_schedule(), zone="Mars/Olympus")

    assert record_undecided(broken, NOON + 5 * MINUTE, "changed") == Fire(NOON, "skipped", reason="changed")


# -- following ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "fires"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"paused_at": NOON}, False),
        ({"inactive": "gone"}, False),
        ({"max_fires": 2, "fire_count": 2}, False),
        ({"ends_at": NOON - TICK}, False),
        ({"starts_at": NOON + TICK}, False),
        ({"starts_at": NOON, "ends_at": NOON}, True),
    ],
)
def test_a_follower_fires_when_its_leaders_have_succeeded_within_its_bounds(fields: Any, fires: bool) -> None:
    schedule = a_schedule("", kind="after", after=("leader",), next_fire_at=None, **fields)

    assert schedule.after_leaders(NOON) == (NOON if fires else None)


def test_a_follower_that_has_fired_at_this_very_instant_fires_the_next_time_a_tick_later() -> None:
    """The instant names the occurrence (I7); a second success must not vanish behind the first."""
    schedule = a_schedule("", kind="after", after=("leader",), next_fire_at=None, last_fire_at=NOON)

    assert schedule.after_leaders(NOON) == NOON + TICK


@pytest.mark.parametrize(
    ("fields", "fires"),
    [
        ({}, True),
        ({"anchor": "start"}, False),
        ({"next_fire_at": NOON + TICK}, False),
        ({"mode": "ALL_NODES"}, False),
        ({"enabled": False}, False),
        ({"paused_at": NOON}, False),
        ({"max_fires": 2, "fire_count": 2}, False),
        ({"ends_at": NOON + timedelta(seconds=59)}, False),
    ],
)
def test_an_interval_that_rests_begins_when_its_job_has_ended(fields: Any, fires: bool) -> None:
    schedule = a_schedule("60", kind="every", **{"anchor": "finish", "next_fire_at": None, **fields})

    assert schedule.after_finish(NOON) == (NOON + timedelta(minutes=1) if fires else None)


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason", "facts"),
    [
        ({"kind": "sometimes"}, "choice_unknown", {"name": "kind"}),
        ({"misfire": "never"}, "choice_unknown", {"name": "misfire"}),
        ({"overlap": "maybe"}, "choice_unknown", {"name": "overlap"}),
        ({"mode": "SOME_NODES"}, "choice_unknown", {"name": "mode"}),
        ({"priority": "urgent"}, "choice_unknown", {"name": "priority"}),
        ({"anchor": "middle"}, "choice_unknown", {"name": "anchor"}),
        ({"catch_up": 0}, "out_of_range", {"name": "catch_up"}),
        ({"catch_up": 1001}, "out_of_range", {"name": "catch_up"}),
        ({"max_fires": 0}, "out_of_range", {"name": "max_fires"}),
        ({"max_fires": 2**31}, "out_of_range", {"name": "max_fires"}),
        ({"jitter": -SECOND}, "span_negative", {"name": "jitter"}),
        ({"grace": -SECOND}, "span_negative", {"name": "grace"}),
        ({"spread": -SECOND}, "span_negative", {"name": "spread"}),
        ({"timeout": timedelta(0)}, "no_time_left", {"name": "timeout"}),
        ({"lock_ttl": -SECOND}, "no_time_left", {"name": "lock_ttl"}),
        ({"stale_timeout": timedelta(0)}, "no_time_left", {"name": "stale_timeout"}),
        ({"kind": "after", "after": ()}, "after_missing", {}),
        ({"after": ("x",)}, "after_and_times", {"kind": "cron"}),
        ({"starts_at": NOON, "ends_at": NOON}, "ends_before_start", {}),
        ({"starts_at": NOON.replace(tzinfo=None)}, "zone_missing", {"name": "starts_at"}),
        ({"ends_at": NOON.replace(tzinfo=None)}, "zone_missing", {"name": "ends_at"}),
        ({"expression": "61 * * * *"}, "cron_unreadable", {"found": "61"}),
        ({"expression": "* * * * *", "zone": "Mars/Olympus"}, "zone_unknown", {"name": "Mars/Olympus"}),
        ({"expression": f"{ALL_MINUTES} {ALL_MINUTES} * * * *"}, "expression_too_long", {"most": 255}),
        ({"kind": "every", "expression": "soon"}, "interval_unreadable", {"value": "'soon'"}),
        ({"kind": "every", "expression": "0"}, "interval_too_short", {"name": "period"}),
        ({"kind": "every", "expression": "inf"}, "interval_invalid", {"value": "inf"}),
        ({"kind": "once", "expression": "tomorrow"}, "instant_unreadable", {"text": "tomorrow"}),
        ({"kind": "once", "expression": "2030-01-01T00:00:00"}, "offset_missing", {}),
    ],
)
def test_what_cannot_work_is_refused_with_its_name(fields: dict[str, Any], reason: str, facts: dict[str, Any]) -> None:
    expression = fields.pop("expression", "* * * * *")
    with refused(InvalidInput, reason, **facts):
        check(a_schedule(expression, **fields))


def test_an_unknown_zone_is_an_error_and_never_a_silent_utc() -> None:
    """C-3."""
    with pytest.raises(UnknownZone):
        check(a_schedule(zone="Europe/Atlantis"))


# -- circles: S3-49 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "path"),
    [
        ({}, None),
        ({"a": ("b",), "b": ("c",), "c": ()}, None),
        ({"a": ("b", "c"), "b": ("d",), "c": ("d",)}, None),
        ({"a": ("a",)}, ("a", "a")),
        ({"a": ("b",), "b": ("c",), "c": ("a",)}, ("a", "b", "c", "a")),
        ({"a": ("b",), "b": ("c", "d"), "d": ("b",)}, ("b", "d", "b")),
    ],
)
def test_a_circle_is_found_with_its_path(edges: dict[str, tuple[str, ...]], path: tuple[str, ...] | None) -> None:
    assert cycle(edges) == path


def test_a_long_chain_is_walked_without_recursion() -> None:
    chain = {f"s{place}": (f"s{place + 1}",) for place in range(5_000)}

    assert cycle(chain) is None
    found = cycle({**chain, "s5000": ("s0",)})
    assert found is not None
    assert len(found) == 5_002


# -- words -------------------------------------------------------------------------------------------------------


def test_a_follower_is_told_in_words_too() -> None:
    schedule = a_schedule("", kind="after", after=("load", "clean"))

    assert schedule.describe() == "after load, clean succeeded"
    assert schedule.describe("zh") == "在 load, clean 成功之后"
