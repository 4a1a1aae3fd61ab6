"""A host that drives its own turns: safe points, interruptions, waits, confirmations, and what survives a restart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from horae.actions.attention import endings, inbox, lanes, turns
from horae.actions.attention.journal import verify
from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Turn
from horae.core.attention.task import Policy
from horae.core.governance.references import CITABLE
from horae.mcp.here import Here
from horae.mcp.lane_sessions import LEASE, SILENCE, LaneSessions
from horae.mcp.refusals import ADVICE
from horae.mcp.server import agent_server
from horae.ports.world import World
from horae.testing import Lab
from horae.testing.clock import VirtualClock
from tests.mcp.conftest import Host, agent, at, operator, says
from tests.support.governed import keep


async def test_the_first_safe_point_tells_what_to_work_on_and_commits_nothing(world: World) -> None:
    async with agent(world) as host:
        assert (await host.call("safe_point"))["answer"] == "idle"
        await host.call("task_add", goal="write", idempotency_key="k")
        for _ in range(2):  # a reply that was lost is given again
            response = await host.call("safe_point")
            assert (response["answer"], response["task"]["goal"], response["turn"]) == ("continue", "write", 1)
            assert [fact["kind"] for fact in response["facts"]] == ["started"]


async def test_a_context_comes_back_as_it_was_and_stays_when_it_is_left_out(world: World) -> None:
    context = {"read": [1, 2.5, None, "ü"], "deep": {"er": True}}
    async with agent(world) as host:
        task = await host.focus("x")
        response = await host.call("safe_point", task_id=task, context=context, note="page 3")
        assert (response["task"]["context"], response["task"]["note"]) == (context, "page 3")
        response = await host.call("safe_point", task_id=task)
        assert (response["task"]["context"], response["task"]["note"], response["turn"]) == (context, "page 3", 3)


async def test_a_safe_point_that_is_repeated_with_its_turn_does_no_harm(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        first = await host.call("safe_point", task_id=task, context=1, turn=1)
        again = await host.call("safe_point", task_id=task, context=1, turn=1)
        assert first == again
        assert again["turn"] == 2
        refusal = await host.refused("safe_point", task_id=task, turn=9)
        assert says("turn_not_reached", id=task, current=2, turn=9) in refusal


async def test_a_stronger_task_takes_the_focus_at_a_safe_point_and_gives_it_back(world: World) -> None:
    """Section 3.5 through the door: interrupted, resumed with context, note and what happened meanwhile."""
    async with agent(world) as host:
        report = await host.focus("report", 40)
        alert = (await host.call("task_add", goal="alert", idempotency_key="a", priority=90))["id"]
        assert (await host.call("attention_view"))["focus"]["id"] == report  # nothing happens between safe points

        response = await host.call("safe_point", task_id=report, context={"page": 3}, note="table 2 is open")

        assert (response["answer"], response["task"]["id"]) == ("yield", alert)
        assert response["reason"].startswith(f"interrupted by {alert}")
        assert [task["id"] for task in (await host.call("attention_view"))["stack"]] == [report]
        await host.call("task_done", task_id=alert, result="fixed")
        response = await host.call("safe_point")
        assert (response["task"]["id"], response["task"]["context"]) == (report, {"page": 3})
        resumed = next(fact["data"] for fact in response["facts"] if fact["kind"] == "resumed")
        assert resumed["note"] == "table 2 is open"
        assert {"completed"} <= {each["became"] for each in resumed["meanwhile"]}


async def test_what_is_slightly_stronger_waits_for_its_turn(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x", 50)
        await host.call("task_add", goal="y", idempotency_key="y", priority=59)
        assert (await host.call("safe_point", task_id=task))["answer"] == "continue"


async def test_a_cancelled_focus_yields_at_its_next_safe_point(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        response = await host.call("task_cancel", task_id=task, reason="no need")
        assert (response["state"], response["cancel_requested"], response["reason"]) == ("running", True, "no need")
        response = await host.call("safe_point", task_id=task)
        assert (response["answer"], response["task"]) == ("yield", None)
        assert response["reason"] == "it was cancelled: no need"
        refusal = await host.refused("task_done", task_id=task)
        assert says("task_has_ended", id=task, state="cancelled", focus="no task") in refusal


async def test_control_holds_the_focus_until_it_lets_go(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        lanes.set_control(world, "main", {"auto_continue": False}, owner="alice", actor="user/olga")
        response = await host.call("safe_point", task_id=task)
        assert (response["answer"], response["task"]) == ("yield", None)
        assert "control does not let it go on" in response["reason"]
        assert (await host.call("safe_point"))["answer"] == "idle"
        lanes.set_control(world, "main", {}, owner="alice", actor="user/olga")
        assert (await host.call("safe_point"))["task"]["id"] == task


# -- waits ---------------------------------------------------------------------------------------------------------


async def test_a_wait_frees_the_focus_and_an_event_brings_the_task_back(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        response = await host.call(
            "wait_for", task_id=task, keys=["ack", "nack"], timeout_s=60, context="asked", turn=1
        )
        assert (response["state"], response["early"]) == ("waiting", None)
        assert [wait["deadline"] for wait in response["waits"]] == ["2030-01-07T12:01:00Z"] * 2
        repeated = await host.call("wait_for", task_id=task, keys=["ack", "nack"], timeout_s=60, turn=1)
        assert repeated["waits"] == response["waits"]
        assert (await host.call("safe_point"))["answer"] == "idle"
        refusal = await host.refused("task_done", task_id=task)
        assert says("task_not_focused", id=task, state="waiting", focus="no task") in refusal
        assert (await host.call("event_post", key="nack", body={"by": "bob"}))["task"] == task
        response = await host.call("safe_point")
        assert (response["task"]["id"], response["task"]["context"]) == (task, "asked")
        (event,) = response["facts"]
        assert (event["kind"], event["data"], event["about"]["key"]) == ("event", {"by": "bob"}, "nack")


async def test_an_event_that_came_early_counts_as_one_in_time(world: World) -> None:
    """Invariant 9."""
    async with agent(world) as host:
        task = await host.focus("x")
        await host.call("event_post", key="ack", body={"by": "bob"})
        response = await host.call("wait_for", task_id=task, keys=["ack"], timeout_s=60)
        assert (response["state"], response["waits"], response["early"]["data"]["by"]) == ("ready", [], "bob")
        response = await host.call("safe_point")
        assert [fact["kind"] for fact in response["facts"]] == ["event"]


async def test_silence_ends_a_wait_though_no_worker_runs(world: World, clock: VirtualClock) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        await host.call("wait_for", task_id=task, keys=["ack"], timeout_s=60)
        clock.advance(timedelta(seconds=61))
        response = await host.call("safe_point")
        assert (response["task"]["id"], [fact["kind"] for fact in response["facts"]]) == (task, ["timed_out"])


async def test_facts_that_the_host_was_not_told_stay_for_its_next_turn(world: World) -> None:
    """Invariant 7: handed over exactly once for each committed turn."""
    async with agent(world) as host:
        task = await host.focus("x")
        lanes.set_control(world, "main", {"allow_interrupt": False}, owner="alice", actor="user/olga")
        response = await host.call("safe_point", task_id=task)
        assert [fact["kind"] for fact in response["facts"]] == ["control_changed"]
        assert (await host.call("safe_point", task_id=task))["facts"] == []


# -- the end -------------------------------------------------------------------------------------------------------


async def test_done_and_failed_are_said_once_and_may_be_repeated(world: World) -> None:
    async with agent(world) as host:
        first = await host.focus("x")
        for _ in range(2):
            assert (await host.call("task_done", task_id=first, result={"n": 1}))["state"] == "completed"
        assert (await host.call("task_get", task_id=first))["result"] == {"n": 1}
        second = await host.focus("y")
        for _ in range(2):
            response = await host.call("task_fail", task_id=second, reason="no source answers")
            assert (response["state"], response["reason"]) == ("failed", "no source answers")
        refusal = await host.refused("task_fail", task_id=first, reason="too late")
        assert says("task_has_ended", id=first, state="completed", focus="no task") in refusal


async def test_only_the_focus_can_be_decided_about(world: World) -> None:
    async with agent(world) as host:
        focus = await host.focus("x")
        other = (await host.call("task_add", goal="y", idempotency_key="y"))["id"]
        response = await host.refused("task_done", task_id=other)
        assert says("task_not_focused", id=other, state="ready", focus=focus) in response
        assert "(not_found)" in await host.refused("safe_point", task_id="t99")
        assert says("task_of_context_missing") in await host.refused("safe_point", context=1)


# -- confirmation --------------------------------------------------------------------------------------------------


async def asked(host: Host, **more: Any) -> dict[str, Any]:
    task = await host.focus("refund")
    return await host.call("confirm_request", task_id=task, action="refund", args={"amount": 40}, **more)


async def test_a_person_approves_exactly_what_was_asked(world: World) -> None:
    """Section 3.8: bound to the hash of the intent, with the approver's name."""
    async with agent(world) as host, operator(world) as person:
        response = await asked(host)
        (waiting,) = (await person.call("confirm_list"))["items"]
        assert (waiting["id"], waiting["owner"], waiting["lane"]) == (response["id"], "alice", "main")
        assert (waiting["action"], waiting["arguments"]) == ("refund", {"amount": 40})
        assert waiting["intent_hash"] == response["intent_hash"]
        answer = await person.call("confirm_answer", wait_id=response["id"], approve=True, reason="they are right")
        assert (answer["approved"], answer["decided_by"]) == (True, "user/olga")
        (fact,) = (await host.call("safe_point"))["facts"]
        assert (fact["kind"], fact["data"]["by"], fact["data"]["arguments"]) == (
            "confirmed", "user/olga", {"amount": 40},
        )  # fmt: skip
        again = await person.call("confirm_answer", wait_id=response["id"], approve=True)
        assert again == answer
        other = await person.refused("confirm_answer", wait_id=response["id"], approve=False)
        assert "already been approved by user/olga" in other


async def test_a_denial_is_a_fact_and_silence_is_not_a_denial(world: World, clock: VirtualClock) -> None:
    """Invariant 18."""
    async with agent(world) as host, operator(world) as person:
        response = await asked(host, timeout_s=60)
        assert (await person.call("confirm_answer", wait_id=response["id"], approve=False))["approved"] is False
        back = await host.call("safe_point")
        assert [fact["kind"] for fact in back["facts"]] == ["denied"]
        response = await host.call("confirm_request", task_id=back["task"]["id"], action="refund", timeout_s=60)
        clock.advance(timedelta(seconds=60))
        assert "timed out" in await person.refused("confirm_answer", wait_id=response["id"], approve=True)
        kinds = [fact["kind"] for fact in (await host.call("safe_point"))["facts"]]
        assert "timed_out" in kinds
        assert not {"confirmed", "denied"} & set(kinds)


async def test_an_agent_cannot_answer_its_own_question_nor_post_its_way_past_it(world: World) -> None:
    async with agent(world) as host:
        response = await asked(host)
        key = (await host.call("attention_view"))["waiting"][0]["waits"][0]["key"]
        await host.call("event_post", key=key, body={"approve": True})
        assert (await host.call("task_get", task_id=response["task"]))["state"] == "waiting"
        assert "There is no tool" in await host.refused("confirm_answer", wait_id=response["id"], approve=True)


async def test_an_operator_of_one_tenant_does_not_see_the_questions_of_another(world: World) -> None:
    async with agent(world) as host, operator(world, owner="bob") as person:
        response = await asked(host)
        assert (await person.call("confirm_list"))["items"] == []
        assert "(not_found)" in await person.refused("confirm_answer", wait_id=response["id"], approve=True)


async def test_arguments_of_any_name_and_what_is_cited_reach_the_person(world: World) -> None:
    keep(world, "mem_ab12", state="stale", risk="high")
    given = {"note": "hi", "context": [1], "interruptible": False, "cites": "x", "args": {}}
    async with agent(world) as host:
        task = await host.focus("x")
        asked = await host.call("confirm_request", task_id=task, action="send", args=given, cites=["memory:mem_ab12"])

    assert (asked["arguments"], asked["cites"], asked["why"]) == (
        given, ["memory:mem_ab12"], ["memory:mem_ab12 is stale, not active"],
    )  # fmt: skip


async def test_a_cite_without_a_kind_is_refused_in_words(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        response = await host.refused("confirm_request", task_id=task, action="send", cites=["mem_ab12"])
        assert says("cite_unreadable", given="'mem_ab12'", kinds=CITABLE) in response


# -- driving -------------------------------------------------------------------------------------------------------


async def test_a_session_that_ends_gives_its_lane_back_and_the_next_goes_on(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        await host.call("safe_point", task_id=task, context="half done")
        assert (await host.call("attention_view"))["driver"] == "this server"
    lane = lanes.get_lane(world, "main", owner="alice")
    assert (lane.driver, lane.leased_until) == (None, None)
    async with agent(world) as host:
        response = await host.call("safe_point")
        assert (response["task"]["id"], response["task"]["context"], response["turn"]) == (task, "half done", 2)
    assert verify(world, "main", owner="alice").complaints == ()


async def test_a_lane_has_one_driver_and_everybody_else_may_still_add(world: World) -> None:
    """Invariant 1 between two servers."""
    async with agent(world) as host, agent(world) as other:
        await host.focus("x")
        response = await other.refused("safe_point")
        assert ADVICE["lane_driven_elsewhere"] in response
        assert (await other.call("attention_view"))["driver"] == "somebody else"
        assert (await other.call("task_add", goal="y", idempotency_key="y"))["deduplicated"] is False
        assert (await other.call("event_post", key="k"))["state"] == "pending"


async def test_a_server_that_lost_its_lane_says_so_and_can_come_back(world: World, clock: VirtualClock) -> None:
    """Invariant 16: what it says under its old epoch changes nothing."""
    async with agent(world) as host:
        task = await host.focus("x")
        clock.advance(LEASE + timedelta(seconds=1))
        drive = lanes.acquire(world, "main", "thief", owner="alice", lease=timedelta(seconds=5), policy=Policy())
        assert drive is not None
        assert "(lane_lost)" in await host.refused("safe_point", task_id=task, context="mine")
        lanes.let_go(world, drive)
        response = await host.call("safe_point")
        assert (response["task"]["id"], response["task"]["context"]) == (task, None)


async def test_a_killed_task_is_gone_for_the_host(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        endings.kill(world, "main", task, reason="operator", owner="alice", actor="user/olga")
        assert "(lane_lost)" in await host.refused("wait_for", task_id=task, keys=["a"], timeout_s=5)
        assert (await host.call("safe_point"))["answer"] == "idle"


async def test_a_seat_whose_owner_is_silent_can_be_taken(world: World, clock: VirtualClock) -> None:
    sessions = LaneSessions(world, lets_go=True)
    session = sessions.at("main", "alice")
    assert session.next_turn() is None
    before = session.is_silent
    clock.advance(SILENCE + timedelta(seconds=1))
    assert (before, session.is_silent) == (False, True)
    sessions.close()


async def test_a_step_that_a_program_left_open_is_told_to_the_host_as_failed() -> None:
    app = Horae("sqlite://")
    async with Lab(app) as lab:
        drive = _left_open(lab.world)
        lanes.let_go(lab.world, drive)
        async with agent(lab.world, owner="system") as host:
            response = await host.call("safe_point")
            assert "action_failed" in [fact["kind"] for fact in response["facts"]]


def _left_open(world: World) -> lanes.Drive:
    inbox.add(world, "main", "goal", {"goal": "x"})
    drive = lanes.acquire(world, "main", "program", lease=LEASE)
    assert drive is not None
    think = turns.next_work(world, drive, Control(), Policy())
    assert isinstance(think, turns.Think)
    turns.commit_turn(world, drive, think, Act("read"), policy=Policy(), effects={"read": "idempotent"})
    return drive


async def test_a_program_may_take_over_where_a_host_has_left() -> None:
    app = Horae("sqlite://")
    async with Lab(app) as lab:
        async with at_system(lab.world) as host:
            task = await host.focus("x")
            await host.call("safe_point", task_id=task, context=[1])
        spec = Attention("main", app)
        seen: list[Any] = []

        @spec.cognition("goal")
        def go_on(turn: Turn) -> Any:
            seen.append((turn.payload, turn.context))
            return Done()

        await spec.driver().until_idle()
        assert seen == [({"goal": "x"}, [1])]


def at_system(world: World) -> Any:
    return at(agent_server(Here.for_one(world)))
