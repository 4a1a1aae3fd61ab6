"""A user's task, from its schedule to the example orchestrator, which runs as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from examples.orchestrator.orchestrator import FAILURES
from horae.actions import scheduled_tasks
from horae.core.jobs.job import Job
from horae.core.scheduled_tasks.task import Terms, Wish
from horae.outgoing import Limits
from horae.ports.world import World
from horae.testing import Lab
from tests.outgoing.conftest import Telling

SCRIPT = Path(__file__).parents[2] / "examples" / "orchestrator" / "orchestrator.py"
MINUTE = timedelta(minutes=1)
WISH = Wish(name="打卡提醒", schedule_expr="0 9 * * *", timezone="Asia/Shanghai", payload={"text": "提醒我打卡"})

Start = Callable[..., tuple[str, "subprocess.Popen[str]"]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the example as its readers would; the answer is where it listens."""
    running: list[subprocess.Popen[str]] = []

    def run(*options: str) -> tuple[str, subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, SCRIPT, "--port", "0", *options], stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
        running.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("listening on "), line
        return line.removeprefix("listening on ").strip().removesuffix("/dispatch/execute"), process

    yield run
    for process in running:
        if process.returncode is None:
            stopped(process)


def stopped(process: subprocess.Popen[str]) -> str:
    """End the example and return what it printed."""
    process.terminate()
    assert process.stderr is not None
    printed = process.stderr.read()  # communicate() would lose what was read ahead of the first line
    process.wait(60)
    return printed


def a_task(world: World) -> str:
    return scheduled_tasks.create(world, WISH, owner="alice", terms=Terms()).facts.schedule.key


async def fired(lab: Lab) -> Job:
    """Until the task has had its first attempt."""
    await lab.until(lambda: any(job.token for job in lab.enqueued("dispatch")), within=timedelta(days=1))
    (job,) = lab.enqueued("dispatch")
    return job


async def test_a_users_task_fires_asks_the_orchestrator_and_succeeds_s1_24(start: Start, telling: Telling) -> None:
    url, process = start()
    async with telling(environment={"ORCHESTRATOR_URL": url}) as story:
        task = a_task(story.lab.world)
        job = await fired(story.lab)

        assert story.lab.job(job.id).state == "succeeded"
        (run,) = scheduled_tasks.runs(story.lab.world, task, owner="alice")
        assert (run.run.outcome, run.run.result["output"]) == ("succeeded", "attendance heard: 提醒我打卡")
    response = stopped(process)
    assert f'"context": {{"user_id": "alice", "scheduled_task_id": "{task}"}}' in response
    assert f"by trace {run.run.trace_id}\n" in response


@pytest.mark.parametrize("how", FAILURES)
async def test_a_bad_answer_is_a_failed_run_and_asked_again_a_minute_later_s1_28(
    how: str, start: Start, telling: Telling
) -> None:
    url, _ = start("--fail", how)
    async with telling(environment={"ORCHESTRATOR_URL": url}, dispatch_limits=Limits(total=0.5)) as story:
        task = a_task(story.lab.world)
        job = await fired(story.lab)

        (run,) = scheduled_tasks.runs(story.lab.world, task, owner="alice")
        assert run.run.outcome == "failed"
        assert run.run.error is not None
        assert run.run.error.startswith("CallFailed" if how == "slow" else "DispatchFailed")
        found = story.lab.job(job.id)
        assert (found.state, found.run_at - story.lab.now) == ("queued", MINUTE)


async def test_a_task_recovers_with_its_orchestrator(start: Start, telling: Telling) -> None:
    url, process = start("--fail", "500")
    port = url.rpartition(":")[2]
    async with telling(environment={"ORCHESTRATOR_URL": url}) as story:
        a_task(story.lab.world)
        job = await fired(story.lab)
        stopped(process)
        start("--port", port)
        await story.lab.advance(MINUTE)

        assert story.lab.job(job.id).state == "succeeded"
