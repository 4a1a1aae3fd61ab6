"""The verbs of schedules: the effect, the refusal, the entry. What depends on the database is in the shipped suite."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horae.actions.jobs import claims, endings
from horae.actions.schedules import fires as firing
from horae.actions.schedules import groups, schedules
from horae.core.audit.entries import Entry
from horae.core.jobs.job import Outcome
from horae.core.schedules.schedule import Schedule
from horae.core.schedules.status import schedule_status
from horae.errors import Conflict, HoraeError, InvalidInput, InvalidName, InvalidPayload, NotFound
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def created(world: World, key: str = "minutely", expression: str = "* * * * *", **fields: Any) -> Schedule:
    return schedules.create(world, a_schedule(key, expression, **fields))


def last_entry(world: World, key: str = "minutely", owner: str = "system") -> Entry:
    return schedules.versions(world, key, owner=owner)[0]


def answer(world: World, key: str = "minutely") -> list[tuple[str, str | None, int]]:
    return [(fire.verdict, fire.reason, fire.count) for fire, _ in reversed(schedules.history(world, key))]


# -- create ------------------------------------------------------------------------------------------------------


def test_a_new_schedule_knows_its_next_fire(world: World) -> None:
    made = created(world)

    assert (made.next_fire_at, made.next_due_at, made.version) == (NOON + MINUTE, NOON + MINUTE, 1)


def test_a_new_interval_fires_at_once_unless_told_to_wait(world: World) -> None:
    assert created(world, "now", "60", kind="every").next_fire_at == NOON
    assert created(world, "later", "60", kind="every", initial_delay=MINUTE).next_fire_at == NOON + MINUTE


def test_every_creation_says_who_and_why(world: World) -> None:
    schedules.create(world, a_schedule(group="night"), actor="ann", reason="needed")

    entry = last_entry(world)
    assert (entry.verb, entry.actor, entry.reason, entry.object_type) == ("create", "ann", "needed", "schedule")
    assert (entry.after["expression"], entry.after["group"], entry.after["version"]) == ("* * * * *", "night", 1)


def test_what_was_given_names_its_source(world: World) -> None:
    """C-16: each effective value shows where it comes from."""
    sources = created(world, group="night").sources

    assert sources == {"handler": "api", "kind": "api", "expression": "api", "group": "api"}


def test_a_key_is_taken_once_for_each_owner(world: World) -> None:
    created(world)

    with refused(Conflict, "schedule_exists"):
        created(world)
    assert created(world, owner="ann").owner == "ann"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"key": ""}, InvalidName),
        ({"key": "x" * 201}, InvalidName),
        ({"owner": ""}, InvalidName),
        ({"handler": "no spaces"}, InvalidName),
        ({"queue": "-"}, InvalidName),
        ({"group": ""}, InvalidName),
        ({"payload": [1]}, InvalidInput),
        ({"payload": {"x": object()}}, InvalidPayload),
        ({"payload": {"x": "\x00"}}, InvalidPayload),
        ({"payload": {"x": "y" * 2**21}}, InvalidPayload),
        ({"expression": "0 0 30 2 *"}, InvalidInput),
        ({"zone": "Mars/Olympus"}, InvalidInput),
        ({"kind": "after", "after": ("nobody",)}, NotFound),
        ({"kind": "every", "expression": "60", "zone": "Mars/Olympus"}, InvalidInput),
        ({"group": "two words"}, InvalidName),
        ({"enabled": "no"}, InvalidInput),
        ({"lenient": 1}, InvalidInput),
        ({"max_fires": "3"}, InvalidInput),
        ({"catch_up": True}, InvalidInput),
        ({"gap": []}, InvalidInput),
        ({"kind": "every", "expression": "60", "day_match": "xor"}, InvalidInput),
        ({"expression": None}, InvalidInput),
        ({"starts_at": "2030-01-07"}, InvalidInput),
        ({"retry": 3}, InvalidInput),
        ({"jitter": 5}, InvalidInput),
        ({"initial_delay": -MINUTE}, InvalidInput),
        *(({name: timedelta.max}, InvalidInput) for name in ("jitter", "grace", "spread", "timeout", "lock_ttl")),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_stored(
    world: World, fields: dict[str, Any], error: type[HoraeError]
) -> None:
    with pytest.raises(error):
        created(world, **fields)

    assert schedules.find(world) == []


def test_a_schedule_on_every_node_has_no_fires_of_its_own(world: World) -> None:
    """Each node has its timer."""
    assert created(world, mode="ALL_NODES").next_due_at is None


def test_the_ends_of_the_calendar_are_no_trouble(world: World) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

    assert created(world, "since ever", starts_at=first).next_fire_at == NOON + MINUTE
    assert created(world, "at the end", "9999-12-31T23:59:59Z", kind="once", jitter=DAY).next_fire_at is not None
    late = created(world, "never", "60", kind="every", starts_at=last, initial_delay=DAY)
    assert late.next_fire_at == last


# -- change ------------------------------------------------------------------------------------------------------


def test_a_change_computes_the_next_fire_anew(world: World) -> None:
    created(world)

    changed = schedules.change(world, "minutely", {"expression": "0 * * * *"}, actor="ann", reason="too often")

    assert (changed.next_fire_at, changed.version) == (NOON + 60 * MINUTE, 2)
    entry = last_entry(world)
    assert (entry.before["expression"], entry.after["expression"]) == ("* * * * *", "0 * * * *")
    assert (entry.actor, entry.reason) == ("ann", "too often")
    assert changed.sources["expression"] == "api"


def test_a_change_that_is_not_about_time_leaves_the_next_fire(world: World, clock: VirtualClock) -> None:
    before = created(world, jitter=30 * MINUTE / 60)
    clock.advance(MINUTE / 2)

    after = schedules.change(world, "minutely", {"payload": {"a": 1}})

    assert (after.next_fire_at, after.next_due_at) == (before.next_fire_at, before.next_due_at)


def test_the_history_of_versions_is_told_newest_first(world: World) -> None:
    created(world)
    for limit in (3, 4):
        schedules.change(world, "minutely", {"max_fires": limit})
    schedules.pause(world, "minutely")

    entries = schedules.versions(world, "minutely")

    assert [(entry.verb, entry.after["version"], entry.after["max_fires"]) for entry in entries] == [
        ("pause", 4, 4),
        ("change", 3, 4),
        ("change", 2, 3),
        ("create", 1, None),
    ]


def test_a_change_to_an_older_version_is_refused(world: World) -> None:
    created(world)
    schedules.change(world, "minutely", {"max_fires": 9}, version=1)

    with refused(Conflict, "schedule_version_old", version=2, expected=1):
        schedules.change(world, "minutely", {"max_fires": 8}, version=1)

    assert schedules.get(world, "minutely").max_fires == 9


@pytest.mark.parametrize("field", ["key", "owner", "next_fire_at", "version", "colour", "declared", "paused_at"])
def test_only_what_belongs_to_people_can_be_changed(world: World, field: str) -> None:
    created(world)

    with refused(InvalidInput, "field_not_changeable", field=field):
        schedules.change(world, "minutely", {field: 1})


def test_a_change_that_cannot_work_changes_nothing(world: World) -> None:
    before = created(world)

    with pytest.raises(InvalidInput):
        schedules.change(world, "minutely", {"expression": "nonsense", "max_fires": 3})

    assert schedules.get(world, "minutely") == before


def test_fires_that_had_come_before_a_change_are_not_silently_forgotten(world: World, clock: VirtualClock) -> None:
    """I8: a process was down, and the first thing its successor does is change the schedule."""
    created(world)
    clock.advance(10 * MINUTE)

    schedules.change(world, "minutely", {"expression": "0 * * * *"})

    assert answer(world) == [("skipped", "changed", 10)]


def test_a_change_of_a_spent_schedule_that_raises_its_bound_lets_it_fire_again(
    world: World, clock: VirtualClock
) -> None:
    created(world, max_fires=1, overlap="allow")
    clock.advance(MINUTE)
    firing.fire_due(world)
    assert schedules.get(world, "minutely").next_fire_at is None

    assert schedules.change(world, "minutely", {"max_fires": 2}).next_fire_at == NOON + 2 * MINUTE


def test_an_instant_that_has_fired_does_not_fire_again_however_often_it_is_switched_on(
    world: World, clock: VirtualClock
) -> None:
    created(world, "once", "2030-01-07T12:01:00Z", kind="once")
    clock.advance(MINUTE)
    firing.fire_due(world)

    schedules.change(world, "once", {"enabled": False})
    switched_on = schedules.change(world, "once", {"enabled": True})

    assert switched_on.next_fire_at is None
    assert schedules.preview(world, switched_on) == []


@pytest.mark.parametrize("moment", [timedelta(0), timedelta(minutes=1)], ids=["ahead", "due"])
def test_who_runs_it_is_part_of_when_it_runs(world: World, clock: VirtualClock, moment: timedelta) -> None:
    """A job for each node has no fires in the store, and one for a single node has: whichever it was before."""
    created(world)
    clock.advance(moment)

    local = schedules.change(world, "minutely", {"mode": "ALL_NODES"})
    assert (local.next_fire_at, local.next_due_at, firing.fire_due(world)) == (None, None, [])

    shared = schedules.change(world, "minutely", {"mode": "SINGLE_NODE"})
    assert shared.next_fire_at == NOON + moment + MINUTE


def _while_its_job_runs(world: World, verb: str) -> Schedule:
    if verb == "change":
        return schedules.change(world, "minutely", {"expression": "30"})
    schedules.pause(world, "minutely")
    return schedules.resume(world, "minutely")


@pytest.mark.parametrize(("verb", "rest"), [("change", MINUTE / 2), ("resume", MINUTE)])
def test_an_interval_that_counts_from_the_end_still_does_when_it_is_touched_while_its_job_runs(
    world: World, clock: VirtualClock, verb: str, rest: timedelta
) -> None:
    """C-14: a job that ends just after the change must not be followed by the next one at once."""
    created(world, "minutely", "60", kind="every", anchor="finish")
    firing.fire_due(world)
    [job] = claims.pull(world, worker_id="w")
    clock.advance(10 * MINUTE)

    touched = _while_its_job_runs(world, verb)
    assert (touched.next_fire_at, schedule_status(touched)) == (None, "resting")
    clock.advance(MINUTE / 3)
    endings.settle(world, [(job, Outcome("succeeded"))])

    assert schedules.get(world, "minutely").next_fire_at == clock.now() + rest


def test_an_interval_that_begins_to_count_from_the_end_does_not_wait_for_a_job_that_will_not_tell(
    world: World, clock: VirtualClock
) -> None:
    """The job was fired by a grid; its end concerns nobody."""
    created(world, "minutely", "60", kind="every")
    firing.fire_due(world)
    clock.advance(MINUTE / 2)

    schedules.change(world, "minutely", {"anchor": "finish"})

    assert schedules.change(world, "minutely", {"expression": "90"}).next_fire_at == clock.now() + 1.5 * MINUTE


# -- pause and resume --------------------------------------------------------------------------------------------


def test_a_paused_schedule_does_not_fire_and_says_who_paused_it(world: World, clock: VirtualClock) -> None:
    created(world)

    paused = schedules.pause(world, "minutely", actor="ann", reason="holidays")
    clock.advance(DAY)

    assert firing.fire_due(world) == []
    assert (paused.paused_by, paused.pause_reason, paused.next_fire_at) == ("ann", "holidays", None)
    assert last_entry(world).verb == "pause"


def test_a_resumed_schedule_goes_on_from_now(world: World, clock: VirtualClock) -> None:
    created(world)
    schedules.pause(world, "minutely")
    clock.advance(DAY)

    resumed = schedules.resume(world, "minutely")

    assert (resumed.paused_at, resumed.next_fire_at) == (None, NOON + DAY + MINUTE)
    clock.advance(MINUTE)
    firing.fire_due(world)
    assert answer(world) == [("ran", None, 1)]


def test_a_fire_that_had_come_when_somebody_paused_is_on_record(world: World, clock: VirtualClock) -> None:
    created(world)
    clock.advance(MINUTE)

    schedules.pause(world, "minutely")

    assert answer(world) == [("skipped", "paused", 1)]


def test_a_group_is_paused_and_resumed_together(world: World) -> None:
    """S3-48."""
    for number in range(3):
        created(world, f"s{number}", group="night")
    created(world, "other", group="day")
    created(world, "foreign", group="night", owner="ann")

    paused = groups.pause_group(world, "night", reason="maintenance")

    assert [schedule.key for schedule in paused] == ["s0", "s1", "s2"]
    assert [each.key for each in schedules.find(world) if each.paused_at is None] == ["foreign", "other"]
    assert groups.pause_group(world, "night") == []
    assert len(groups.resume_group(world, "night")) == 3


@pytest.mark.parametrize("verb", ["pause", "resume", "delete", "change", "history", "versions", "get"])
def test_an_unknown_schedule_is_not_found(world: World, verb: str) -> None:
    created(world, owner="ann")
    more: tuple[Any, ...] = ({},) if verb == "change" else ()

    with refused(NotFound, "schedule_unknown", key="minutely"):
        getattr(schedules, verb)(world, "minutely", *more)


# -- look --------------------------------------------------------------------------------------------------------


def test_a_preview_tells_the_next_fires_of_a_schedule_that_is_only_thought_of(world: World) -> None:
    assert schedules.preview(world, a_schedule("s", "0 9 * * 1-5"), 2) == [
        NOON + timedelta(hours=21),
        NOON + timedelta(hours=45),
    ]
    assert schedules.find(world) == []


@pytest.mark.parametrize("past", [timedelta(0), timedelta(minutes=2), timedelta(minutes=58), timedelta(seconds=3599.5)])
def test_an_interval_that_is_only_thought_of_is_previewed_at_its_own_pace_at_any_time_of_day(
    world: World, clock: VirtualClock, past: timedelta
) -> None:
    clock.advance(past)
    hourly = a_schedule("s", "3600", kind="every", initial_delay=timedelta(hours=1))

    answer = schedules.preview(world, hourly, 3)
    made = schedules.create(world, hourly)

    assert answer == [NOON + past + timedelta(hours=hours) for hours in (1, 2, 3)]
    assert answer == schedules.preview(world, made, 3)


def test_a_preview_of_a_stored_schedule_begins_with_what_is_stored(world: World, clock: VirtualClock) -> None:
    made = created(world, max_fires=3, fire_count=1)
    clock.advance(MINUTE / 2)

    assert schedules.preview(world, made) == [NOON + MINUTE, NOON + 2 * MINUTE]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"misfire": "skip"},
        {"misfire": "skip", "expression": "0 * * * *"},
        {"misfire": "catch_up", "catch_up": 2},
        {"misfire": "catch_up", "catch_up": 9, "max_fires": 4},
        {"kind": "every", "expression": "60"},
        {"kind": "once", "expression": "2030-01-07T12:05:00Z"},
    ],
    ids=str,
)
def test_a_preview_of_what_is_overdue_tells_what_will_run(
    world: World, clock: VirtualClock, fields: dict[str, Any]
) -> None:
    """After a downtime nobody wants to read the fires of the time when nobody was there."""
    made = created(world, overlap="allow", **fields)
    clock.advance(3 * DAY + 90 * MINUTE + MINUTE / 2)

    answer = schedules.preview(world, made, 5)
    [(fired, _)] = firing.fire_due(world)

    ran = [fire.fire_at for fire in fired.fires if fire.verdict == "ran"]
    assert answer == [*ran, *schedules.preview(world, schedules.get(world, "minutely"), 5)][:5]


@pytest.mark.parametrize("count", [0, 1001])
def test_a_preview_is_bounded(world: World, count: int) -> None:
    with pytest.raises(InvalidInput):
        schedules.preview(world, a_schedule(), count)


def test_schedules_are_found_by_what_they_are(world: World) -> None:
    created(world, "a", group="night", handler="load")
    created(world, "b", enabled=False)
    created(world, "c", mode="ALL_NODES", owner="ann")

    def keys(**wanted: Any) -> list[str]:
        return [each.key for each in schedules.find(world, ScheduleFilter(**wanted))]

    assert keys() == ["a", "b", "c"]
    assert keys(owner="system") == ["a", "b"]
    assert keys(group="night") == keys(handler="load") == ["a"]
    assert keys(enabled=False) == ["b"]
    assert keys(mode="ALL_NODES") == ["c"]
    assert keys(declared=True) == []
    assert [each.key for each in schedules.find(world, limit=2, after="a")] == ["b", "c"]


def test_a_deleted_schedule_is_gone_and_its_end_is_on_record(world: World) -> None:
    created(world)

    schedules.delete(world, "minutely", actor="ann", reason="obsolete")

    assert schedules.find(world) == []
    [(_, entry)] = world.store.read(lambda tx: tx.audit.find(object_id="minutely", limit=1, before=None))
    assert (entry.verb, entry.actor, entry.before["expression"], entry.after) == ("delete", "ann", "* * * * *", {})


# -- following ---------------------------------------------------------------------------------------------------


def test_a_circle_of_followers_is_refused_with_its_path(world: World) -> None:
    """S3-49."""
    created(world, "a")
    created(world, "b", "", kind="after", after=("a",))
    created(world, "c", "", kind="after", after=("b",))

    with refused(Conflict, "schedules_in_circle", circle=["a", "c", "b", "a"]):
        schedules.change(world, "a", {"kind": "after", "expression": "", "after": ("c",)})

    assert schedules.get(world, "a").after == ()
