"""Agents of the OpenAI SDK: approvals through restarts, honest answers of actions, sessions in the database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.testing import assistant_message, function_call

from horae.adapters.answers import Answer, last_answer
from horae.adapters.openai_agents import AgentCognition, HoraeSession, action_tool
from horae.app import Horae
from horae.attention import Attention, Control, Fact, FactList, Facts, Step
from horae.testing.clock import NOON, VirtualClock
from tests.adapters.dying import deaths, kill, process, result_of

QUIET = RunConfig(tracing_disabled=True)


class Model17(Model):
    """Asks for a refund and a mail at once, then says what it heard; without a memory of its own."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        heard = {each["call_id"]: each["output"] for each in input if isinstance(each, dict) and "output" in each}
        if not heard:
            output = [function_call(name, {"order": "A-17"}, call_id=f"{name}-1") for name in ("refund", "mail")]
        else:
            output = [assistant_message(json.dumps({call: json.loads(said) for call, said in sorted(heard.items())}))]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@action_tool
def refund(order: str) -> str:
    """Pay an order back."""
    raise NotImplementedError


@action_tool
def mail(order: str) -> str:
    """Write to the customer."""
    raise NotImplementedError


def clerk(app: Horae, sent: list[str], *, confirm: bool = False) -> Attention:
    agent = Attention("clerk", app)
    thinker = Agent(name="clerk", model=Model17(), tools=[refund, mail])
    agent.cognition("ticket")(
        AgentCognition(
            thinker, session=lambda turn: HoraeSession(agent, "c-17"), result=json.loads, run_config=QUIET
        )
    )  # fmt: skip

    @agent.control
    def control() -> Control:
        asked = frozenset({"refund"}) if confirm else frozenset()
        return Control(must_confirm=asked, confirm_timeout=timedelta(hours=1))

    for name in ("refund", "mail"):

        @agent.action(effect="once", name=name)
        def act(step: Step, order: str) -> Facts:
            sent.append(step.key)
            return Facts(done=order)

    return agent


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Horae]:
    with Horae("sqlite://", clock=clock) as app:
        yield app


def test_calls_become_actions_one_by_one_and_the_model_hears_of_each(app: Horae) -> None:
    sent: list[str] = []
    agent = clerk(app, sent)
    agent.add("ticket", {"text": "Order A-17 never came."})
    agent.run()

    heard = result_of(agent)
    assert {call: said["outcome"] for call, said in heard.items()} == {"mail-1": "action_ok", "refund-1": "action_ok"}
    assert heard["refund-1"]["data"] == {"done": "A-17"}
    assert len(set(sent)) == 2
    items = asyncio.run(HoraeSession(agent, "c-17").get_items())
    assert [each.get("type", each.get("role")) for each in items] == [
        "user", "function_call", "function_call", "function_call_output", "function_call_output", "message",
    ]  # fmt: skip


@pytest.mark.parametrize(("approve", "outcome"), [(False, "denied"), (None, "timed_out"), (True, "action_ok")])
def test_a_person_decides_and_silence_is_no_refusal(
    app: Horae, clock: VirtualClock, approve: bool | None, outcome: str
) -> None:
    sent: list[str] = []
    agent = clerk(app, sent, confirm=True)
    agent.add("ticket", {"text": "Order A-17 never came."})
    (_, (question,)) = agent.run().waiting[0]
    if approve is None:
        clock.advance(timedelta(hours=2))
    else:
        agent.confirm(question.number, approve, actor="user/olga")
    agent.run()

    heard = result_of(agent)["refund-1"]
    assert (heard["outcome"], heard["happened"]) == (outcome, approve is True)
    assert len(sent) == 1 + (approve is True)


def test_of_what_may_have_happened_the_model_never_hears_that_it_was_refused() -> None:
    for kind in ("action_unknown", "action_failed", "action_partial"):
        answer = last_answer(FactList((Fact(kind, NOON, {"error": "?"}),)))
        assert answer.happened is None
        assert "not approved" not in json.dumps(answer.for_model())
    assert last_answer(FactList(())).kind == "action_unknown", "an answer that is missing is no refusal"
    assert Answer("timed_out", {"kind": "event"}).happened is None
    assert Answer.from_json(Answer("denied", {"by": "olga"}).as_json()).happened is False


def test_a_tool_that_is_an_action_does_not_run_outside_its_lane() -> None:
    class Approving(Model17):
        pass

    async def run() -> Any:
        first = await Runner.run(Agent(name="a", model=Approving(), tools=[refund, mail]), "?", run_config=QUIET)
        state = first.to_state()
        for item in state.get_interruptions():
            state.approve(item)
        return await Runner.run(Agent(name="a", model=Approving(), tools=[refund, mail]), state, run_config=QUIET)

    with pytest.raises(Exception, match="outside its lane"):
        asyncio.run(run())


async def contents(session: HoraeSession, limit: int | None = None) -> list[str]:
    found: list[Any] = list(await session.get_items(limit))
    return [each["content"] for each in found]


async def test_a_session_keeps_its_items_in_order(database_url: str) -> None:
    with Horae(database_url) as app:
        mine, other = HoraeSession(app, "s-1"), HoraeSession(app, "s-2", owner="alice")
        hellos: list[Any] = [{"role": "user", "content": f"héllo {n} 你好"} for n in range(3)]
        await mine.add_items(hellos)
        await other.add_items([{"role": "user", "content": "x" * 100_000}])
        await mine.add_items([])

        assert await contents(mine, 2) == ["héllo 1 你好", "héllo 2 你好"]
        assert await mine.pop_item() == {"role": "user", "content": "héllo 2 你好"}
        assert await mine.position() == 2
        await mine.rewind(1)
        assert len(await mine.get_items()) == 1
        await mine.clear_session()
        assert (await mine.pop_item(), await mine.get_items(), await mine.get_items(0)) == (None, [], [])
        assert len(await other.get_items()) == 1


async def test_two_runs_that_add_at_once_lose_nothing(database_url: str) -> None:
    with Horae(database_url) as app:
        session = HoraeSession(app, "s-1")
        items: list[Any] = [[{"role": "user", "content": f"{writer}-{n}"} for n in range(3)] for writer in range(6)]
        await asyncio.gather(*(session.add_items(each) for each in items))

        found = await contents(session)
        assert sorted(found) == sorted(each["content"] for batch in items for each in batch)
        assert all(found[first][0] == found[first + 2][0] for first in range(0, 18, 3)), "what was added stays together"


# -- dying ---------------------------------------------------------------------------------------------------------


class Hesitant(Model17):
    """Is not reachable when it is asked the first time, as a model that is too busy."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        self.asked += 1
        if self.asked == 1:
            raise ConnectionError("429")
        text = f"heard {input[-1]['content']} after {len(input) - 1}"
        return ModelResponse(output=[assistant_message(text)], usage=Usage(), response_id=None)


def test_a_turn_that_is_tried_again_takes_nothing_from_another_task_with_the_same_session(
    app: Horae, clock: VirtualClock
) -> None:
    """The first waits after an error of its model; meanwhile the second speaks to the same customer."""
    agent = Attention("clerk", app)
    thinker = Agent(name="clerk", model=Hesitant())
    agent.cognition("ticket")(
        AgentCognition(thinker, session=lambda turn: HoraeSession(agent, "c-17"), run_config=QUIET)
    )
    first, second = (agent.add("ticket", {"text": text}).task for text in ("first", "second"))
    agent.run()
    clock.advance(timedelta(minutes=10))
    agent.run()

    assert agent.result(second.id) == {"answer": "heard second after 0"}
    assert agent.result(first.id) == {"answer": "heard first after 2"}
    items: list[Any] = list(asyncio.run(HoraeSession(agent, "c-17").get_items()))
    assert [each["content"] for each in items if each.get("role") == "user"] == ["second", "first"]
    assert len(items) == 4


def story(app: Horae, sent: list[str]) -> Attention:
    agent = clerk(app, sent)
    agent.add("ticket", {"text": "Order A-17 never came."}, key="A-17")
    agent.run()
    return agent


@pytest.mark.slow
def test_an_agent_that_dies_before_any_transaction_goes_on_and_acts_at_most_once(tmp_path: Path) -> None:
    sent: list[str] = []
    outcomes = set()
    for where, file in deaths(tmp_path, lambda app: story(app, sent)):
        with process(file, life=1) as app:
            agent = story(app, sent)
            heard = result_of(agent)
            items = asyncio.run(HoraeSession(agent, "c-17").get_items())
        assert len(sent) == len(set(sent)) <= 2, where
        assert {said["outcome"] for said in heard.values()} <= {"action_ok", "action_unknown"}, where
        assert len(items) == 6, f"{where}: an item is in the session twice, or not at all"
        outcomes.add(heard["refund-1"]["outcome"])
        sent.clear()
    assert outcomes == {"action_ok", "action_unknown"}


@pytest.mark.slow
def test_a_killed_agent_goes_on(tmp_path: Path) -> None:
    for file in kill(tmp_path, lambda app: story(app, []), 70):
        with process(file, life=1) as app:
            assert sorted(result_of(story(app, []))) == ["mail-1", "refund-1"]
