"""Wake-ups and approvals for hosts of the Claude Agent SDK, with hook inputs of its shape; it is not installed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from types import ModuleType
from typing import Any

import pytest

from horae.actions.schedules import fires
from horae.adapters.claude import Approvals, WakeUp, WakeUps, hook_matchers, resume_session
from horae.app import Horae
from horae.attention import Attention
from horae.errors import MissingExtra, StoreUnavailable
from horae.testing import Lab
from horae.testing.clock import VirtualClock
from tests.adapters.claude_hooks import PERMISSIONS, PRE_TOOL, SESSION, STOP, SUBAGENT_STOP, complaints
from tests.adapters.dying import deaths, kill, process
from tests.support.refusals import refused


def listing(*crons: Any) -> dict[str, Any]:
    return {**STOP, "session_crons": list(crons)}


def wake_ups_on(app: Horae, resumed: list[WakeUp], zone: str = "Europe/Athens") -> WakeUps:
    async def resume(wake_up: WakeUp) -> str:
        resumed.append(wake_up)
        if wake_up.prompt == "lost":
            raise RuntimeError("no such session")
        return "ok"

    return WakeUps(app, resume, zone=zone)


def test_the_hook_inputs_have_the_fields_of_the_sdk() -> None:
    inputs = {"StopHookInput": STOP, "SubagentStopHookInput": SUBAGENT_STOP, "PreToolUseHookInput": PRE_TOOL}
    assert [each for name, value in inputs.items() for each in complaints(name, value)] == []
    assert [each for cron in STOP["session_crons"] for each in complaints("SessionCronSummary", cron)] == []
    assert [each for task in STOP["background_tasks"] for each in complaints("BackgroundTaskSummary", task)] == []


async def test_each_wake_up_is_stored_before_the_hook_answers_and_the_answer_names_it(database_url: str) -> None:
    with Horae(database_url, clock=VirtualClock(datetime(2026, 11, 17, 12, 1, tzinfo=UTC))) as app:
        wake_ups = wake_ups_on(app, [])
        first, again = await wake_ups.on_stop(STOP), await wake_ups.on_stop(SUBAGENT_STOP)

        green, later = wake_ups.of(SESSION)
        assert first == again
        assert [line.split()[1] for line in first["systemMessage"].splitlines()] == ["a1b2c3d4", "e5f6a7b8"]
        assert f"schedule {green.key}." in first["systemMessage"]
        assert (green.clipped, later.clipped) == (False, True)
        assert "only the first 1000 characters" in first["systemMessage"]
        found = app.world.store.read(lambda tx: tx.schedules.get(later.key, "system"))
        assert found is not None
        assert found.next_fire_at == datetime(2026, 11, 17, 12, 30, tzinfo=UTC), "14:30 in Athens"


async def test_the_list_is_the_whole_truth_and_its_absence_says_nothing() -> None:
    with Horae("sqlite://") as app:
        wake_ups = wake_ups_on(app, [])
        await wake_ups.on_stop(STOP)
        await wake_ups.on_stop({**STOP, "session_id": "other"})
        assert await wake_ups.on_stop({name: value for name, value in STOP.items() if name != "session_crons"}) == {}
        assert len(wake_ups.of(SESSION)) == 2

        changed = {**STOP["session_crons"][0], "schedule": "0 * * * *"}
        await wake_ups.on_stop(listing(changed))
        assert [(each.id, each.schedule) for each in wake_ups.of(SESSION)] == [("a1b2c3d4", "0 * * * *")]
        assert await wake_ups.on_stop(listing()) == {}
        assert (wake_ups.of(SESSION), len(wake_ups.of("other"))) == ([], 2)


def test_subagents_that_stop_at_once_store_and_remove_each_wake_up_once(database_url: str) -> None:
    """The hooks of a session run side by side: what another has stored or removed meanwhile is no failure."""
    crons = [{"id": f"c{number}", "schedule": "0 9 * * *", "prompt": "?"} for number in range(4)]
    racers = 4
    with ExitStack() as stack, ThreadPoolExecutor(racers) as pool:
        hosts = [wake_ups_on(stack.enter_context(Horae(database_url)), []) for _ in range(racers)]
        assert hosts[0].of(SESSION) == []  # the tables are there
        for number in range(5):
            session, start = f"s{number}", Barrier(racers)

            def stop(host: WakeUps, listed: Any, session: str = session, start: Barrier = start) -> Any:
                start.wait()
                return asyncio.run(host.on_stop({**listing(*listed), "session_id": session}))

            answers = list(pool.map(stop, hosts, [crons] * racers))
            assert [answer.get("decision") for answer in answers] == [None] * racers, answers
            assert [each.id for each in hosts[0].of(session)] == ["c0", "c1", "c2", "c3"]
            assert list(pool.map(stop, hosts, [[]] * racers)) == [{}] * racers
            assert hosts[0].of(session) == []


async def test_a_list_that_cannot_be_read_is_said_to_be_not_stored() -> None:
    """The SDK takes a hook that raises for one without an opinion, and the model relies on what is not there."""
    with Horae("sqlite://") as app:
        answer = await wake_ups_on(app, []).on_stop(listing({"schedule": "0 9 * * *", "prompt": "without an id"}))
    assert answer["decision"] == "block"
    assert "NOT stored" in answer["reason"]


async def test_a_wake_up_that_cannot_be_stored_is_a_record_with_the_reason() -> None:
    with Horae("sqlite://") as app:
        wake_ups = wake_ups_on(app, [])
        answer = await wake_ups.on_stop(listing({"id": "bad id/€", "schedule": "every day", "prompt": "?"}))

        (refused,) = wake_ups.of(SESSION)
        assert (refused.id, refused.key) == ("bad id/€", "")
        assert refused.reason in answer["systemMessage"]
        assert "NOT stored" in answer["systemMessage"]
        await wake_ups.on_stop(listing({"id": "bad id/€", "schedule": "0 9 * * *", "prompt": "?"}))
        assert [each.reason for each in wake_ups.of(SESSION)] == [""]


async def test_without_a_database_the_model_hears_once_that_nothing_is_stored() -> None:
    class Away:
        @property
        def world(self) -> Any:
            raise StoreUnavailable("database_not_reached", product="PostgreSQL", problem="gone")

        def job(self, *_: Any, **__: Any) -> Any:
            return lambda function: function

    wake_ups = wake_ups_on(Away(), [])  # type: ignore[arg-type]
    first = await wake_ups.on_stop(STOP)
    second = await wake_ups.on_stop({**STOP, "stop_hook_active": True})

    assert first["decision"] == "block"
    assert "NOT stored" in first["reason"]
    assert "decision" not in second
    assert "NOT stored" in second["systemMessage"]


async def test_a_fire_resumes_the_session_and_names_the_wake_up() -> None:
    resumed: list[WakeUp] = []
    app = Horae("sqlite://")
    wake_ups = wake_ups_on(app, resumed, zone="UTC")
    async with Lab(app, starts_at=datetime(2026, 11, 17, 14, 22, tzinfo=UTC)) as lab:
        await wake_ups.on_stop(STOP)
        await lab.advance(timedelta(minutes=20))

    assert [each.id for each in resumed] == ["a1b2c3d4", "a1b2c3d4", "e5f6a7b8", "a1b2c3d4", "a1b2c3d4"]
    once = next(each for each in resumed if each.id == "e5f6a7b8")
    assert once.text.startswith("Wake-up e5f6a7b8 (30 14 17 11 *). Only the first 1000 characters")
    assert (once.session_id, resumed[0].text) == (SESSION, "Wake-up a1b2c3d4 (*/5 * * * *).\n\nIs the build green?")


@pytest.mark.parametrize("prompt", ["x" * 1000 + "… [+1 chars]", "x" * 985 + "… [+2345 chars]", "x" * 1001])
async def test_a_clipped_prompt_is_recognised_by_its_marker_or_its_length(prompt: str) -> None:
    with Horae("sqlite://") as app:
        wake_ups = wake_ups_on(app, [])
        await wake_ups.on_stop(listing({"id": "x", "schedule": "0 9 * * *", "recurring": True, "prompt": prompt}))
        await wake_ups.on_stop(listing({"id": "x", "schedule": "0 9 * * *", "recurring": True, "prompt": prompt}))
        (kept,) = wake_ups.of(SESSION)
    assert (kept.clipped, kept.prompt) == (True, prompt)


async def test_a_prompt_that_ends_in_dots_was_not_clipped_and_sunday_may_be_seven() -> None:
    with Horae("sqlite://") as app:
        wake_ups = wake_ups_on(app, [])
        prompt = "y" * 997 + "..."
        await wake_ups.on_stop(listing({"id": "x", "schedule": "0 9 * * 7", "recurring": True, "prompt": prompt}))
        (kept,) = wake_ups.of(SESSION)
    assert (kept.clipped, kept.reason) == (False, "")


async def test_a_single_wake_up_that_was_missed_by_a_busy_session_comes_now_and_not_in_a_year() -> None:
    """Listed at 14:31, meant for 14:30; a session fires its wake-ups only while it is idle."""
    resumed: list[WakeUp] = []
    app = Horae("sqlite://")
    wake_ups = wake_ups_on(app, resumed, zone="UTC")
    missed = {"id": "m", "schedule": "30 14 17 11 *", "recurring": False, "prompt": "now"}
    tomorrow = {"id": "t", "schedule": "20 14 * * *", "recurring": False, "prompt": "tomorrow"}
    async with Lab(app, starts_at=datetime(2026, 11, 17, 14, 31, tzinfo=UTC)) as lab:
        for _ in range(2):
            await wake_ups.on_stop(listing(missed, tomorrow))
            await lab.advance(timedelta(minutes=1))
        assert [each.prompt for each in resumed] == ["now"]
        await lab.advance(timedelta(days=2))
    assert [each.prompt for each in resumed] == ["now", "tomorrow"]


async def test_a_wake_up_that_is_gone_from_the_list_still_comes_where_it_has_fired() -> None:
    """Two wake-ups fire while nobody works; the first one's turn no longer lists the second, whose time has passed."""
    resumed: list[WakeUp] = []
    app = Horae("sqlite://")
    wake_ups = wake_ups_on(app, resumed, zone="UTC")
    crons = [
        {"id": name, "schedule": f"{minute} 14 17 11 *", "recurring": False, "prompt": name}
        for name, minute in (("a", 30), ("b", 31))
    ]
    async with Lab(app, starts_at=datetime(2026, 11, 17, 14, 22, tzinfo=UTC)) as lab:
        await wake_ups.on_stop(listing(*crons))
        lab.clock.advance(timedelta(minutes=20))
        fires.fire_due(lab.world)
        await wake_ups.on_stop(listing())
        await lab.advance(timedelta(minutes=1))
    assert sorted(each.prompt for each in resumed) == ["a", "b"]


async def test_a_session_that_cannot_be_resumed_leaves_a_job_with_the_reason() -> None:
    app = Horae("sqlite://")
    wake_ups = wake_ups_on(app, [], zone="UTC")
    async with Lab(app, starts_at=datetime(2026, 11, 17, 14, 22, tzinfo=UTC)) as lab:
        await wake_ups.on_stop(listing({"id": "x", "schedule": "30 14 * * *", "recurring": False, "prompt": "lost"}))
        await lab.advance(timedelta(minutes=30))
        (job,) = lab.enqueued("claude.wake")

    assert (job.state, "no such session" in (job.last_error or "")) == ("dead", True)


@pytest.mark.slow
def test_a_host_that_dies_before_any_transaction_has_all_wake_ups_after_its_next_stop(tmp_path: Path) -> None:
    for where, file in deaths(tmp_path, lambda app: asyncio.run(wake_ups_on(app, []).on_stop(STOP))):
        with process(file, life=1) as app:
            wake_ups = wake_ups_on(app, [])
            asyncio.run(wake_ups.on_stop(STOP))
            assert sorted(each.id for each in wake_ups.of(SESSION)) == ["a1b2c3d4", "e5f6a7b8"], where


@pytest.mark.slow
def test_a_killed_host_keeps_the_wake_ups_that_it_has_stored(tmp_path: Path) -> None:
    for file in kill(tmp_path, lambda app: asyncio.run(wake_ups_on(app, []).on_stop(STOP)), 6, 16, 22):
        with process(file, life=1) as app:
            wake_ups = wake_ups_on(app, [])
            stored = [each.id for each in wake_ups.of(SESSION)]
            assert stored == ["a1b2c3d4", "e5f6a7b8"][: len(stored)]
            asyncio.run(wake_ups.on_stop(STOP))
            assert [each.id for each in wake_ups.of(SESSION)] == ["a1b2c3d4", "e5f6a7b8"]


# -- approvals -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Horae]:
    with Horae("sqlite://", clock=clock) as app:
        yield app


def approvals_on(app: Horae, resumed: list[str]) -> tuple[Attention, Approvals]:
    async def resume(session_id: str, text: str) -> None:
        resumed.append(text)

    agent = Attention("claude", app)
    return agent, Approvals(agent, {"Bash"}, resume)


def ask(approvals: Approvals, **changes: Any) -> tuple[str, str]:
    answer = asyncio.run(approvals.on_tool({**PRE_TOOL, **changes}))["hookSpecificOutput"]
    return answer["permissionDecision"], answer["permissionDecisionReason"]


def test_a_deferred_call_is_allowed_once_after_a_person_has_approved_it(app: Horae) -> None:
    resumed: list[str] = []
    agent, approvals = approvals_on(app, resumed)
    assert asyncio.run(approvals.on_tool({**PRE_TOOL, "tool_name": "Read"})) == {}
    assert ask(approvals) == ("defer", "A person is asked: task t1 of claude.")
    assert ask(approvals)[0] == "defer", "asked twice, it is one task"
    (_, (question,)) = agent.run().waiting[0]
    assert "rm -r build" in (question.intent or "")
    agent.confirm(question.number, True, actor="user/olga")
    agent.run()

    assert resumed == ["Bash: a person has approved this call."]
    assert ask(approvals, tool_input={"command": "rm -r /"})[0] == "defer", "another input is another call"
    assert [ask(approvals)[0] for _ in range(2)] == ["allow", "deny"]


def test_a_call_that_no_person_can_be_asked_about_is_denied(app: Horae) -> None:
    """The SDK takes a hook that raises for one without an opinion, and runs the tool."""
    _, approvals = approvals_on(app, [])
    incomplete = {name: value for name, value in PRE_TOOL.items() if name != "tool_use_id"}
    answer = asyncio.run(approvals.on_tool(incomplete))["hookSpecificOutput"]

    assert complaints("PreToolUseHookSpecificOutput", answer) == []
    assert answer["permissionDecision"] == "deny"
    assert answer["permissionDecision"] in PERMISSIONS
    assert "not decided" in answer["permissionDecisionReason"]


@pytest.mark.parametrize(("approve", "said"), [(False, "A person has refused this."), (None, "No person has decided")])
def test_what_is_not_approved_is_denied_and_silence_is_no_refusal(
    app: Horae, clock: VirtualClock, approve: bool | None, said: str
) -> None:
    resumed: list[str] = []
    agent, approvals = approvals_on(app, resumed)
    ask(approvals)
    (_, (question,)) = agent.run().waiting[0]
    if approve is None:
        clock.advance(timedelta(hours=9))
    else:
        agent.confirm(question.number, approve, actor="user/olga")
    agent.run()

    decision, reason = ask(approvals)
    assert (decision, reason.startswith(said), len(resumed)) == ("deny", True, 1)


# -- the SDK, as far as it is used ---------------------------------------------------------------------------------


@dataclass
class Options:
    resume: str | None = None
    model: str = "default"


@dataclass
class Matcher:
    hooks: list[Any] = field(default_factory=list)
    on_failure: str | None = None


@dataclass
class Result:
    subtype: str
    is_error: bool = False
    result: str = ""


async def test_sessions_are_resumed_by_the_sdk_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def query(prompt: str, options: Options) -> AsyncIterator[Any]:
        yield Result("init")
        yield Result("success", result=f"{options.resume} {options.model}: {prompt}")

    sdk: Any = ModuleType("claude_agent_sdk")
    sdk.ClaudeAgentOptions, sdk.HookMatcher, sdk.query = Options, Matcher, query
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", sdk)
    with Horae("sqlite://") as app:
        hooks = hook_matchers(wake_ups_on(app, []), approvals_on(app, [])[1])
    answer = await resume_session("s-1", "hello", Options(model="small"))

    assert sorted(hooks) == ["PreToolUse", "Stop", "SubagentStop"]
    assert [hooks[name][0].on_failure for name in sorted(hooks)] == ["block", None, None]
    assert answer == {"subtype": "success", "is_error": False, "result": "s-1 small: hello"}


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    with refused(MissingExtra, "adapter_extra_missing", extra="claude"):
        hook_matchers()
