"""Real processes drive lanes: killed with -9 in the middle of an action, and four of them fighting over eight lanes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from horae.app import Horae
from horae.attention import Act, Attention, Done, Facts, Step, Turn
from tests.attention.checker import look, unfinished, wrong_with
from tests.journeys.conftest import Journey
from tests.support.lanes import Battle
from tests.support.waiting import wait_until

LEASE = timedelta(seconds=4)  # a living driver keeps it, also on a busy machine


def an_agent(app: Horae, act: Callable[[Step], None], effect: Any) -> Attention:
    """One task that acts once and then ends."""
    agent = Attention("journey", app, lease=LEASE)

    @agent.action(effect=effect)
    def work(step: Step) -> Facts:
        act(step)
        return Facts()

    @agent.cognition("errand")
    def errand(turn: Turn) -> Any:
        heard = [fact.kind for fact in turn.facts]
        if {"action_ok", "action_unknown"} & set(heard):
            return Done(heard)
        return Act("work")

    return agent


def drive_and_hang(url: str, home: str, effect: str) -> None:
    """What the process that will be killed does: it begins the action and never comes back from it."""
    import asyncio
    import threading

    def hang(step: Step) -> None:
        with (Path(home) / "begun").open("a") as out:
            out.write(f"{step.key}\n")
        threading.Event().wait()

    with Horae(url) as app:
        asyncio.run(an_agent(app, hang, effect).serve())


@pytest.mark.parametrize(("effect", "times"), [("once", 1), ("idempotent", 2)])
def test_a_driver_that_is_killed_inside_an_action_is_followed_by_another(
    postgres_journey: Journey, effect: str, times: int
) -> None:
    """Invariants 14 to 16 with kill -9 on PostgreSQL."""
    journey, begun = postgres_journey, postgres_journey.home / "begun"

    def act(step: Step) -> None:
        with begun.open("a") as out:
            out.write(f"{step.key}\n")

    agent = an_agent(journey.app, act, effect)
    task = agent.add("errand").task
    member = journey.python("-m", "tests.journeys.test_lanes", journey.url, str(journey.home), effect)
    wait_until(begun.exists, "the action")
    agent.run()
    assert agent.snapshot().focus is not None  # its driver lives and keeps its lease: nobody takes the lane
    member.send(signal.SIGKILL)
    member.wait()

    def ended() -> bool:
        agent.run()
        found = agent.world.store.read(lambda tx: tx.attention.task(task.number))
        return found is not None and found.state == "completed"

    wait_until(ended, "the end of the task")
    keys = begun.read_text().split()
    assert (len(keys), len(set(keys))) == (times, 1)
    scene = look(journey.app.world, "journey")
    assert [*wrong_with(scene), *unfinished(scene)] == []
    assert scene.lane.epoch >= 2


@pytest.mark.timeout(400)  # on a busy machine; it ends earlier when nothing changes any more
def test_four_processes_fight_over_eight_lanes_and_nothing_is_lost(postgres_database_url: str) -> None:
    """Invariants 1, 8 and 15 with N processes. The whole minute is ``python -m benchmarks.lanes --minutes 1``."""
    battle = Battle(postgres_database_url, kill_every=1.0, pause=0.8)  # more pauses, less work for a small machine

    counts = battle.run(seconds=3.0)

    assert battle.losses == {}
    assert counts["tasks"] > 20
    assert counts["kill -9"] >= 2
    assert counts["takeovers"] > len(battle.crew)


if __name__ == "__main__":
    drive_and_hang(*sys.argv[1:4])
