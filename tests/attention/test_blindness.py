"""Invariant 20: the runtime does not read what a task is about. Scrambled contexts leave the same trace."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from horae.attention import Act, Attention, Done, Facts, Fail, Turn, Wait, Yield
from tests.attention.checker import look, unfinished, wrong_with
from tests.attention.ground import Ground, broken_ground

Trace = list[tuple[Any, ...]]
OPS = ("act", "hold", "wait", "yield", "release")


def scrambled(dice: Random) -> Any:
    """Any JSON: nothing, a number, text with odd letters, something nested."""
    noise = "".join(chr(dice.choice([dice.randint(32, 126), dice.randint(0x4E00, 0x4EFF)])) for _ in range(20))
    return dice.choice([None, dice.random(), noise, [noise, None], {"priority": 99, noise: [1, {"x": noise}]}])


def story(ground: Ground, seed: int, contexts: Random) -> Trace:
    """The directives come from the seed; the contexts come from elsewhere."""
    dice, agent = Random(seed), Attention("blind", ground.app)
    scripts = {f"t{number}": [dice.choice(OPS) for _ in range(dice.randint(1, 5))] for number in range(1, 40)}
    ends = {task: dice.random() < 0.8 for task in scripts}

    @agent.action(effect="idempotent")
    def work(step: Any) -> Facts:
        if len(plan) and dice.random() < 0.5:
            agent.add("any", scrambled(contexts), priority=plan.pop())
        return Facts()

    @agent.cognition("any")
    def any_kind(turn: Turn) -> Any:
        script, kept = scripts[turn.task_id], {"context": scrambled(contexts), "note": str(contexts.random())}
        if turn.number > len(script):
            return Done(scrambled(contexts), **kept) if ends[turn.task_id] else Fail("so be it", **kept)
        op = script[turn.number - 1]
        if op == "wait":
            return Wait("word", timeout=timedelta(minutes=3), **kept)
        if op in ("yield", "release"):
            return Yield(release=op == "release", **kept)
        return Act("work", interruptible=op == "act", **kept)

    plan = [dice.randrange(100) for _ in range(12)]
    for _ in range(4):
        agent.add("any", scrambled(contexts), priority=dice.randrange(100))
    for _ in range(30):
        ground.run(agent)
        if dice.random() < 0.5:
            agent.post("word", {"said": scrambled(contexts)})
        ground.clock.jump(timedelta(minutes=dice.randint(1, 4)))
    scene = look(ground.app.world, "blind")
    assert wrong_with(scene) == []
    assert unfinished(scene) == []
    return [(line.seq, line.at, line.task, line.cause, line.before, line.after) for line in scene.lines]


@pytest.mark.parametrize("seed", range(3))
def test_invariant_20_scrambled_contexts_give_the_same_trace(tmp_path: Path, seed: int) -> None:
    traces = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        with broken_ground(folder) as ground:
            traces.append(story(ground, seed, Random(1000 * seed + number)))

    assert len(traces[0]) > 40
    assert traces[0] == traces[1]
