"""A worker loads the rooms that its store has something in: agents and their memories cost others no memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.templates import put_tables

WORKS = """
import asyncio, sys
from horae import Horae
from horae.actions.jobs.claims import peek
from horae.actions.retention import Retention
from horae.runtime.chores.janitor import CHORES, cleaning

app = Horae(sys.argv[1])

@app.job("work")
async def work() -> None:
    pass

async def serve() -> None:
    async with app.running() as worker:
        while not worker.counts["succeeded"]:
            await asyncio.sleep(0.01)

with app:
    if sys.argv[2] == "an agent":
        app.attention.add("assistant", "report", {})
    work.enqueue()
    asyncio.run(serve())
    look = peek(app.world, ["default"])
    done = [each.name for each in (*CHORES, cleaning(Retention())) if each.when is None or each.when(look)]
    for chore in (*CHORES, cleaning(Retention())):
        if chore.name in done:
            chore.work(app.world)
print("repair lanes" in done, *sys.modules)
"""
OF_AGENTS = (
    "horae.actions.attention.",
    "horae.stores.attention",
    "horae.stores.tables.attention",
    "horae.stores.journal",
)
OF_MEMORIES = ("horae.actions.governance.", "horae.stores.governance", "horae.stores.tables.governance")
RULE = "horae.actions.governance.rule"  # which asks whether an ending concerns it


def loaded_by(url: str, kept: str) -> tuple[bool, set[str]]:
    """Whether lanes were looked after, and the modules that a worker has loaded after a job and every chore."""
    command = [sys.executable, "-c", WORKS, url, kept]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    repaired, *modules = ran.stdout.split()
    return repaired == "True", set(modules)


@pytest.mark.slow
def test_a_worker_without_agents_loads_nothing_of_theirs(tmp_path: Path) -> None:
    repaired, modules = loaded_by(put_tables(tmp_path / "horae.db"), "nothing")
    assert not repaired
    assert not [name for name in modules - {RULE} if name.startswith((*OF_AGENTS, *OF_MEMORIES))]


@pytest.mark.slow
def test_a_store_with_a_lane_has_its_lanes_looked_after(tmp_path: Path) -> None:
    repaired, modules = loaded_by(put_tables(tmp_path / "horae.db"), "an agent")
    assert repaired
    assert "horae.actions.attention.repairs" in modules
