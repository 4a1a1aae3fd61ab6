"""The lab drives agents: days in milliseconds, and a new process after every death."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from horae import Horae
from horae.attention import Act, Attention, Done, Facts, Sleep, Step, Turn, Wait
from horae.testing import Lab
from horae.testing.agents import AGENT_POINTS, AgentPoint

DAY = timedelta(days=1)
EFFECTS = ("once", "idempotent", "transactional")


def an_agent(store: Any, effect: Any, ran: Counter[str]) -> Attention:
    """It does something once, and sleeps for three days before it answers what it has heard."""
    agent = Attention("ops", store)

    def work(step: Step, *_: Any) -> Facts:
        ran[step.key] += 1
        return Facts()

    agent.action(effect=effect, name="work")(work)

    @agent.cognition("errand")
    def errand(turn: Turn) -> Any:
        if turn.facts.last("slept"):
            return Done(turn.context)
        heard = [fact.kind for fact in turn.facts if fact.kind.startswith("action_")]
        return Sleep(3 * DAY, context=heard) if heard else Act("work")

    return agent


async def test_days_of_an_agent_pass_while_the_lab_advances() -> None:
    app, ran = Horae("sqlite://"), Counter[str]()
    agent = an_agent(app, "once", ran)
    async with Lab(app) as lab:
        lab.attend(agent)
        task = agent.add("errand").task.id
        await lab.advance(2 * DAY)
        assert agent.task(task).state == "waiting"
        await lab.advance(2 * DAY)
        assert agent.result(task) == ["action_ok"]
        assert agent.verify().is_sound


@pytest.mark.parametrize("point", AGENT_POINTS)
@pytest.mark.parametrize("effect", EFFECTS)
async def test_an_agent_that_dies_at_any_point_is_followed_by_another_process(effect: str, point: AgentPoint) -> None:
    app, ran = Horae("sqlite://"), Counter[str]()
    agent = an_agent(app, effect, ran)
    async with Lab(app) as lab:
        lab.attend(agent)
        task = agent.add("errand").task.id
        lab.crash_next(agent, at=point)
        await lab.settle()
        assert agent.task(task).state == "running"  # the lease of the dead process has not run out yet
        await lab.advance(4 * DAY)
        unknown = effect == "once" and point in ("act.before", "facts.before")
        assert agent.result(task) == (["action_unknown"] if unknown else ["action_ok"])
        again = effect != "once" and point == "facts.before"
        assert list(ran.values()) == ([] if unknown and point == "act.before" else [2 if again else 1])
        assert agent.verify().is_sound


async def test_an_agent_with_a_store_of_its_own_is_driven_in_the_labs_world(tmp_path: Path) -> None:
    app = Horae("sqlite://")
    real = tmp_path / "never-opened.db"
    agent = Attention("own", f"sqlite:///{real}")

    @agent.cognition("ask")
    def ask(turn: Turn) -> Any:
        return Done([fact.kind for fact in turn.facts.awaited]) if turn.facts.awaited else Wait("word", timeout=DAY)

    async with Lab(app) as lab:
        lab.attend(agent)
        task = agent.add("ask").task.id
        await lab.until(lambda: agent.task(task).state == "completed", within=2 * DAY)
        assert agent.result(task) == ["timed_out"]
    assert not real.exists()


async def test_an_agent_can_only_die_where_agents_are() -> None:
    app = Horae("sqlite://")
    agent = Attention("ops", app)
    async with Lab(app) as lab:
        with pytest.raises(ValueError, match=r"think\.before"):
            lab.crash_next(agent, at="settle.before")
