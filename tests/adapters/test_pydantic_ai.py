"""Pydantic AI on ``ctx.step``: model requests and tool calls are not repeated by a later try."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from horae.adapters.pydantic_ai import HoraeDurability, Journal, durable
from horae.app import Horae
from horae.attention import Act, Attention, Done, Facts, Step, Turn
from horae.errors import DefinitionError
from tests.adapters.dying import deaths, kill, process, result_of
from tests.support.refusals import refused

CITIES = ("Athens", "Rome")


def guide(effect: Callable[[str], Any], metadata: dict[str, Any] | None = None) -> Agent[None, str]:
    """An agent that asks for the weather in two cities at once, and then answers."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        effect(f"request-{len(messages)}")
        found = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if found:
            return ModelResponse(parts=[TextPart(" and ".join(found))])
        return ModelResponse(parts=[ToolCallPart("weather", {"city": city}) for city in CITIES])

    agent = Agent(FunctionModel(model), name="guide", capabilities=[HoraeDurability()])

    @agent.tool_plain(metadata=metadata)
    def weather(city: str) -> str:
        effect(city)
        return f"sunny in {city}"

    return agent


def traveller(app: Horae, effect: Callable[[str], Any]) -> Attention:
    """The run is an action of an agent; the same works in a job and in a turn."""
    agent, thinker = Attention("traveller", app), guide(effect)

    @agent.action(effect="idempotent")
    async def ask(step: Step) -> Facts:
        with durable(step):
            return Facts(said=(await thinker.run("How is the weather?")).output)

    @agent.cognition("trip")
    def trip(turn: Turn) -> Any:
        done = turn.facts.last("action_ok", "ask")
        return Act("ask") if done is None else Done(done["said"])

    return agent


def live(app: Horae, effect: Callable[[str], Any]) -> Attention:
    agent = traveller(app, effect)
    agent.add("trip", key="only")
    agent.run()
    return agent


@pytest.mark.slow
def test_a_run_that_dies_before_any_transaction_repeats_at_most_the_call_it_was_in(tmp_path: Path) -> None:
    done: list[str] = []
    most = 0
    for where, file in deaths(tmp_path, lambda app: live(app, done.append)):
        with process(file, life=1) as app:
            assert result_of(live(app, done.append)) == "sunny in Athens and sunny in Rome", where
        assert set(done) == {"request-1", "Athens", "Rome", "request-3"}, where
        assert len(done) <= 5, f"{where}: {done}"
        most += len(done) == 5
        done.clear()
    assert most == 4, "each of the four calls was killed between its effect and its record once"


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    notes = tmp_path / "effects"

    def note(name: str) -> None:
        with notes.open("a") as out:
            out.write(f"{name}\n")

    for file in kill(tmp_path, lambda app: live(app, note), 60):
        with process(file, life=1) as app:
            assert result_of(live(app, note)) == "sunny in Athens and sunny in Rome"
        assert len(notes.read_text().split()) in (4, 5)
        notes.unlink()


def test_a_tool_may_be_left_out_and_outside_a_block_the_agent_runs_as_ever() -> None:
    kept: dict[str, Any] = {}

    class Notebook(Step):
        async def step_async(self, name: str, work: Callable[[], Any]) -> Any:
            if name not in kept:
                kept[name] = await work()
            return kept[name]

    async def run_in(ctx: Step) -> str:
        with durable(ctx):
            return (await thinker.run("?")).output

    done: list[str] = []
    thinker = guide(done.append, metadata={"horae": False})
    notebook = Notebook("k", "t1", 1, "idempotent", lambda: False)
    assert [asyncio.run(run_in(notebook)) for _ in range(2)] == ["sunny in Athens and sunny in Rome"] * 2
    assert (done.count("request-1"), done.count("Rome")) == (1, 2)
    assert [name.split("__")[1] for name in kept if "model" in name] == ["model.request#1", "model.request#2"]

    asyncio.run(thinker.run("?"))
    assert done.count("request-1") == 2


def test_what_is_no_context_is_refused_and_long_names_stay_apart() -> None:
    with refused(DefinitionError, "durable_needs_context"), durable("ctx"):  # type: ignore[arg-type]
        pass
    journal = Journal(None)  # type: ignore[arg-type]
    names = [journal.next("x" * 300), journal.next("x" * 300), journal.next("y" * 300)]
    assert len(set(names)) == 3
    assert max(map(len, names)) <= 200
