"""Schedules that an agent makes for itself: few, not often, with an end, in a zone that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from horae.actions.schedules import fires, schedules
from horae.app import Horae
from horae.declare.attend import register
from horae.mcp.schedules import MOST
from horae.ports.world import World
from horae.testing import Lab
from tests.mcp.conftest import Host, agent, says

NOW = "2030-01-07T12:00:00Z"
DAILY: dict[str, Any] = {
    "name": "Morning news", "kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/Berlin", "goal": "read the news",
    "idempotency_key": "news",
}  # fmt: skip


async def test_a_schedule_tells_its_next_times_its_zone_its_end_and_what_it_is_worth(world: World) -> None:
    async with agent(world) as host:
        answer = await host.call("schedule_create", **DAILY)
        assert answer["next_times"][0] == "Tuesday, 08 January 2030 at 09:00:00 Europe/Berlin"
        assert len(answer["next_times"]) == 3
        assert (answer["timezone"], answer["ends_at"]) == ("Europe/Berlin", "2030-04-07T12:00:00Z")  # 90 days: a review
        assert answer["durable"] is True
        assert "while a worker" in answer["durability"]
        (listed,) = (await host.call("schedule_list"))["schedules"]
        assert (listed["schedule_id"], listed["goal"]) == (answer["schedule_id"], "read the news")


async def test_a_fire_puts_the_goal_into_the_backlog_of_its_owner() -> None:
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab, agent(lab.world) as host:
        made = await host.call("schedule_create", **{**DAILY, "priority": 70})
        fires.trigger(lab.world, made["schedule_id"], owner="alice")
        await lab.settle()
        answer = await host.call("safe_point")
        assert (answer["task"]["goal"], answer["task"]["priority"]) == ("read the news", 70)


async def test_the_same_key_gives_the_same_schedule_and_another_wish_is_refused(world: World) -> None:
    async with agent(world) as host:
        first = await host.call("schedule_create", **DAILY)
        again = await host.call("schedule_create", **DAILY)
        assert (first["created"], again["created"], again["schedule_id"]) == (True, False, first["schedule_id"])
        assert "(key_conflict)" in await host.refused("schedule_create", **{**DAILY, "goal": "sleep"})
        await host.call("schedule_delete", schedule_id=first["schedule_id"])
        refusal = await host.refused("schedule_create", **DAILY)
        assert says("schedule_key_used", key=first["schedule_id"]) in refusal


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"timezone": None}, says("cron_zone_missing")),
        ({"timezone": "Mars/Olympus"}, "Change `timezone` of schedule_create"),
        ({"expr": "* * * * *"}, says("agent_schedule_too_often", least=300)),
        ({"expr": "0,2 9 * * *"}, says("agent_schedule_too_often", least=300)),
        ({"expr": "61 * * * *"}, "invalid_cron"),
        ({"kind": "interval", "expr": "-5"}, "invalid_interval"),
        ({"kind": "interval", "expr": "299"}, says("agent_schedule_too_often", least=300)),
        ({"kind": "interval", "expr": "soon"}, says("interval_expr_unreadable", expr="soon")),
        ({"kind": "interval", "expr": "1e400"}, says("interval_expr_unreadable", expr="1e400")),
        (
            {"kind": "once", "expr": "2029-01-01T00:00:00Z"},
            says("once_expr_passed", at="2029-01-01T00:00:00Z", now=NOW),
        ),
        ({"kind": "once", "expr": "tomorrow"}, says("once_expr_unreadable", expr="tomorrow")),
        ({"ends_at": "2040-01-01T00:00:00Z"}, says("agent_schedule_end_outside", most_days=366)),
        ({"ends_at": "2029-01-01T00:00:00Z"}, says("agent_schedule_end_outside", most_days=366)),
        ({"max_runs": 0}, "it must be 1 or more"),
        ({"misfire": "catch_up"}, "fire_once"),
        ({"priority": -1}, "it must be 0 or more"),
        ({"retries": 3}, "has no argument"),
        ({"name": "a\nb"}, "printable"),
    ],
)
async def test_what_costs_too_much_or_means_nothing_is_refused(world: World, change: dict[str, Any], why: str) -> None:
    async with agent(world) as host:
        assert why in await host.refused("schedule_create", **{**DAILY, **change})
        assert (await host.call("schedule_list"))["schedules"] == []


async def test_an_interval_begins_after_its_first_span_and_may_end_by_count(world: World) -> None:
    async with agent(world) as host:
        answer = await host.call(
            "schedule_create", **{**DAILY, "kind": "interval", "expr": "3600", "timezone": None, "max_runs": 2}
        )
        assert answer["next_times"] == [
            "Monday, 07 January 2030 at 13:00:00 UTC", "Monday, 07 January 2030 at 14:00:00 UTC",
        ]  # fmt: skip
        assert (answer["ends_at"], answer["max_runs"]) == (None, 2)


async def test_a_single_run_without_a_zone_is_read_in_the_zone_given(world: World) -> None:
    async with agent(world) as host:
        answer = await host.call("schedule_create", **{**DAILY, "kind": "once", "expr": "2030-01-08T09:00"})
        assert answer["next_times"] == ["Tuesday, 08 January 2030 at 09:00:00 Europe/Berlin"]


async def test_the_twenty_first_schedule_is_refused(world: World) -> None:
    async with agent(world) as host:
        for number in range(MOST):
            await host.call("schedule_create", **{**DAILY, "idempotency_key": f"k{number}"})
        assert "(quota_exceeded)" in await host.refused("schedule_create", **DAILY)


async def test_pausing_and_going_on_may_be_repeated(world: World) -> None:
    async with agent(world) as host:
        made = (await host.call("schedule_create", **DAILY))["schedule_id"]
        for paused, state in ((True, "paused"), (True, "paused"), (False, "active"), (False, "active")):
            answer = await host.call("schedule_pause", schedule_id=made, paused=paused)
            assert answer["state"] == state
            assert (answer["next_run_at"] is None) == paused


async def test_a_schedule_that_is_not_the_agents_own_does_not_exist(world: World) -> None:
    async with agent(world) as host, agent(world, owner="bob") as stranger:
        made = (await host.call("schedule_create", **DAILY))["schedule_id"]
        await _is_unknown(stranger, made)
        await _is_unknown(host, "nightly\x00")
        assert schedules.get(world, made, owner="alice").paused_at is None


async def test_a_schedule_that_this_host_cannot_read_does_not_hide_the_others(world: World) -> None:
    async with agent(world) as host:
        made = (await host.call("schedule_create", **DAILY))["schedule_id"]
        await host.call("schedule_create", **{**DAILY, "idempotency_key": "more"})
        moved = replace(schedules.get(world, made, owner="alice"), zone="Mars/Olympus")
        world.store.transact(lambda tx: tx.schedules.put(moved, expected_version=moved.version))
        answer = {each["schedule_id"]: each for each in (await host.call("schedule_list"))["schedules"]}
        assert len(answer) == 2
        assert "Mars/Olympus" in answer[made]["in_words"]


async def _is_unknown(host: Host, schedule_id: str) -> None:
    for tool in ("schedule_pause", "schedule_delete"):
        assert "(not_found)" in await host.refused(tool, schedule_id=schedule_id)
