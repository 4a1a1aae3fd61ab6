"""What code declares and what the store keeps, brought in line: C-15, C-16, S4-9 to S4-13."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.actions.schedules.declared import (
    BATCH,
    GONE,
    OFF_IN_CODE,
    OFF_IN_FILE,
    Plan,
    bring_in_line,
    declare,
    load_persisted,
    retire,
    set_inactive,
)
from horae.core.schedules.schedule import Schedule
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock
from tests.stores.test_statements import counting

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def in_code(key: str = "minutely", expression: str = "* * * * *", **fields: Any) -> Schedule:
    return a_schedule(key, expression, sources={"expression": "code", "handler": "code"}, **fields)


def stored(world: World) -> list[Schedule]:
    return list(schedules.iterate(world, ScheduleFilter()))


def verbs_of(world: World, key: str = "minutely") -> list[str]:
    return [entry.verb for entry in schedules.versions(world, key)]


def test_a_first_declaration_is_stored_and_fires(world: World, clock: VirtualClock) -> None:
    [made] = declare(world, [in_code()], app="shop")
    clock.advance(MINUTE)

    assert (made.declared, made.sources["expression"], made.next_fire_at) == (True, "code", NOON + MINUTE)
    assert len(firing.fire_due(world)) == 1
    assert verbs_of(world) == ["declare"]


def test_the_same_declaration_again_changes_nothing(world: World, clock: VirtualClock) -> None:
    """A restart is no event: neither version nor audit nor the next fire move."""
    [before] = declare(world, [in_code(jitter=MINUTE)])
    clock.advance(MINUTE / 2)

    [after] = declare(world, [in_code(jitter=MINUTE)])

    assert after == before
    assert verbs_of(world) == ["declare"]


@pytest.mark.parametrize(("before", "after"), [("ALL_NODES", "SINGLE_NODE"), ("SINGLE_NODE", "ALL_NODES")])
def test_a_deployment_that_changes_who_runs_a_job_changes_who_fires_it(
    world: World, clock: VirtualClock, before: Any, after: Any
) -> None:
    """S3-4, S3-16: neither does it fall silent, nor does the store fire what each node runs for itself."""
    declare(world, [in_code(mode=before)])
    declare(world, [in_code(mode=after)])
    clock.advance(MINUTE)

    assert len(firing.fire_due(world)) == (after == "SINGLE_NODE")


def test_a_new_declaration_wins_over_the_old_one_and_its_due_fires_are_told(world: World, clock: VirtualClock) -> None:
    """I8: a deployment is a downtime and a change at once."""
    declare(world, [in_code()])
    clock.advance(10 * MINUTE)

    [changed] = declare(world, [in_code(expression="0 * * * *")])

    assert (changed.expression, changed.next_fire_at) == ("0 * * * *", NOON + HOUR)
    [(fire, _)] = schedules.history(world, "minutely")
    assert (fire.verdict, fire.reason, fire.count) == ("skipped", "changed", 10)


def test_what_somebody_changed_through_a_verb_stays_and_names_its_source(world: World) -> None:
    """C-16: override > declaration."""
    declare(world, [in_code()])
    schedules.change(world, "minutely", {"expression": "0 * * * *", "enabled": False})

    [after] = declare(world, [in_code(expression="*/5 * * * *", payload={"new": True})])

    assert (after.expression, after.enabled, after.payload) == ("0 * * * *", False, {"new": True})
    assert (after.sources["expression"], after.sources["enabled"], after.sources["handler"]) == ("api", "api", "code")


def test_a_seed_is_only_ever_inserted(world: World) -> None:
    """S4-9, S4-13."""
    declare(world, [in_code()], seed=True)
    schedules.change(world, "minutely", {"enabled": False})

    [after] = declare(world, [in_code(expression="0 * * * *")], seed=True)

    assert (after.expression, after.enabled, after.declared) == ("* * * * *", False, False)


def test_what_is_no_longer_declared_is_kept_inactive_with_the_reason_until_it_comes_back(
    world: World, clock: VirtualClock
) -> None:
    declare(world, [in_code("a"), in_code("b")])

    assert retire(world, stored(world), {"a"}) == ["b"]
    assert retire(world, stored(world), {"a"}) == []
    clock.advance(MINUTE)
    assert [each.schedule.key for each, _ in firing.fire_due(world)] == ["a"]
    assert schedules.get(world, "b").inactive == GONE
    [_, back] = declare(world, [in_code("a"), in_code("b")])
    assert (back.inactive, back.next_fire_at) == (None, NOON + 2 * MINUTE)


def test_an_application_retires_only_its_own(world: World) -> None:
    declare(world, [in_code("mine")], app="shop")
    declare(world, [in_code("theirs")], app="bank")
    schedules.create(world, a_schedule("users"))

    assert retire(world, stored(world), set(), app="shop") == ["mine"]


def test_many_schedules_are_written_together_and_one_that_is_refused_keeps_no_other_out(world: World) -> None:
    refused = in_code("s0300", kind="after", expression="", after=("nobody",))
    many = [in_code(f"s{place:04}") for place in range(BATCH + 100)]
    many[300] = refused

    done = declare(world, many, app="shop")

    assert [each.key for each in done] == [each.key for each in many if each.key != "s0300"]
    assert {each.key: each.number for each in stored(world)} == {each.key: each.number for each in done}
    assert verbs_of(world, "s0599") == ["declare"]


def test_what_is_declared_as_before_is_neither_locked_nor_written(world: World) -> None:
    many = [in_code(f"s{place:04}") for place in range(BATCH + 1)]
    declare(world, many, app="shop")

    with counting(world.store) as count:  # type: ignore[arg-type]  # it is a store of ours
        again = declare(world, many, app="shop")

    assert [each.version for each in again] == [1] * len(many)
    assert count() <= 3  # begin, and five hundred are read at a time


def test_a_follower_is_written_together_with_those_it_follows(world: World) -> None:
    follower = in_code("a-last", kind="after", expression="", after=("b-first", "c-second"))

    declare(world, [follower, in_code("b-first"), in_code("c-second")])

    [last, first, second] = stored(world)
    assert (last.after, first.after, second.after) == (("b-first", "c-second"), (), ())
    assert world.store.read(lambda tx: tx.schedules.followers(first.number)) == ["a-last"]


def test_what_another_process_declared_since_this_one_read_is_not_written_again(world: World) -> None:
    many = [in_code(f"s{place:03}") for place in range(50)]
    first = declare(world, many, app="shop")

    done = declare(world, many, app="shop", stored={})  # read before the other one wrote

    assert done == first
    assert {tuple(verbs_of(world, each.key)) for each in many} == {("declare",)}


def test_a_schedule_that_cannot_be_declared_keeps_no_other_from_being(world: World) -> None:
    done = declare(world, [in_code("bad", kind="after", expression="", after=("nobody",)), in_code("good")])

    assert [each.key for each in done] == ["good"]


def test_leaders_are_declared_before_their_followers(world: World) -> None:
    declare(world, [in_code("b", "", kind="after", after=("a",)), in_code("a")])

    assert schedules.get(world, "b").after == ("a",)


def test_a_handler_that_nobody_knows_is_kept_inactive_and_lives_again_when_it_is_known(world: World) -> None:
    """C-15, S4-11."""
    schedules.create(world, a_schedule("s", handler="unknown"))

    assert load_persisted(world, {"greet"}, app="shop") == []
    assert "unknown" in (schedules.get(world, "s").inactive or "")
    assert [each.key for each in load_persisted(world, {"unknown"}, app="shop")] == ["s"]


def test_the_global_switch_stops_everything_and_gives_it_back(world: World, clock: VirtualClock) -> None:
    """S3-17."""
    plan = Plan("shop", (in_code(),), off=OFF_IN_FILE, handlers=frozenset({"greet"}))
    schedules.create(world, a_schedule("stored"))

    bring_in_line(world, plan)
    clock.advance(MINUTE)

    assert firing.fire_due(world) == []
    assert {each.inactive for each in schedules.find(world)} == {OFF_IN_FILE}
    bring_in_line(world, replace(plan, off=OFF_IN_CODE))
    assert {each.inactive for each in schedules.find(world)} == {OFF_IN_CODE}
    bring_in_line(world, replace(plan, off=None))
    assert {each.inactive for each in schedules.find(world)} == {None}


@pytest.mark.parametrize("reason", ["gone", "unknown handler"])
def test_a_schedule_that_can_no_longer_be_read_can_still_be_put_away(world: World, reason: str) -> None:
    made = schedules.create(world, a_schedule())

    def unknown_zone(tx: Tx) -> None:
        tx.schedules.put(replace(made, zone="Mars/Olympus"), expected_version=1)

    world.store.transact(unknown_zone)

    put_away = set_inactive(world, schedules.get(world, "minutely"), reason)

    assert (put_away.inactive, put_away.next_due_at) == (reason, None)
    assert verbs_of(world)[0] == "deactivate"
