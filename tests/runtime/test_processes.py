"""Handlers in child processes."""

import asyncio
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from horae import Horae, JobHandle, Retry
from horae.actions.jobs import jobs as verbs
from horae.errors import ConfigurationError, JobFailed
from horae.runtime.worker import child
from horae.runtime.worker.children import Children
from horae.runtime.worker.executor import Executor
from horae.runtime.worker.worker import Worker
from tests.runtime import processes
from tests.runtime.serving import ended, outcomes, running, serving
from tests.support.refusals import refused
from tests.support.waiting import eventually


def pids_of(worker: Worker) -> list[int]:
    children = worker._processes
    assert isinstance(children, Children)
    return children.pids


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_process_handler_returns_its_result_and_its_child_serves_the_next_job(process_app: Horae) -> None:
    async with serving(process_app, slots=1) as worker:
        first = await ended(process_app, processes.add.enqueue(a=1, b=2))
        second = await ended(process_app, processes.double.enqueue(a=21))
        third = await ended(process_app, processes.add.enqueue(a=3, b=4))

        assert first.result["sum"] == 3
        assert first.result["pid"] != os.getpid()
        assert second.result == 42
        assert third.result["pid"] == first.result["pid"]
        assert pids_of(worker) == [first.result["pid"]]


async def test_children_end_with_their_worker(process_app: Horae) -> None:
    async with serving(process_app) as worker:
        await ended(process_app, processes.add.enqueue(a=1, b=2))
        (pid,) = pids_of(worker)

    await eventually(lambda: not is_alive(pid), "the end of the child")


async def test_a_worker_without_process_jobs_starts_no_child(app: Horae) -> None:
    @app.job("plain")
    def plain() -> None:
        return

    async with serving(app) as worker:
        await ended(app, plain.enqueue())

        assert pids_of(worker) == []


async def test_a_child_is_replaced_after_its_share_of_jobs(process_app: Horae) -> None:
    children = Children(max_jobs=1)
    async with serving(process_app, slots=1) as worker:
        assert isinstance(worker._executor, Executor)
        worker._processes = worker._executor._processes = children
        first = await ended(process_app, processes.add.enqueue(a=1, b=2))
        second = await ended(process_app, processes.add.enqueue(a=1, b=2))

        assert first.result["pid"] != second.result["pid"]
        await eventually(lambda: not is_alive(first.result["pid"]), "the end of the first child")


async def test_context_and_logging_of_a_child_reach_the_parent(
    process_app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    job = processes.report.using(tags=["a", "b"], owner="ann").enqueue()
    async with serving(process_app):
        done = await ended(process_app, job)
        await ended(process_app, processes.log.enqueue())

    assert done.result == [1, 1, "ann", job.job.planned_at.isoformat(), ["a", "b"], 1]
    (line,) = [record for record in caplog.records if record.name == "horae.jobs.report"]
    assert line.getMessage() == f"half way with {job.id}"
    assert vars(line)["run_id"] == f"{job.id}.1"
    (trouble,) = [record for record in caplog.records if record.name == "some.library"]
    assert vars(trouble)["shelf"] == 4
    assert "ValueError: inner" in logging.Formatter().format(trouble)


async def test_an_async_function_runs_in_a_child_under_a_loop_of_its_own(process_app: Horae) -> None:
    async with serving(process_app):
        done = await ended(process_app, processes.add_async.enqueue(a=2, b=2))

    assert done.result == 4


WAYS_OUT = {
    "fail": ("dead", "KeyError: 'the thing we needed'\n\nTraceback"),
    "leave": ("dead", "SystemExit: 3"),
    "put-off": ("queued", "the bank is closed"),
    "call-off": ("cancelled", "nobody wants it any more"),
    "write-badly": ("dead", "InvalidPayload: The progress is not plain JSON"),
}


async def test_every_way_out_of_a_child_is_told(process_app: Horae) -> None:
    async with serving(process_app, slots=1):
        for name, (state, says) in WAYS_OUT.items():
            job = process_app.enqueue(name)
            await eventually(lambda job=job: [*outcomes(process_app, job), "running"][0] != "running")  # type: ignore[misc]

            assert (name, process_app.get(job.id).state) == (name, state)
            assert (verbs.runs(process_app.world, job.id)[0].error or "").startswith(says)


async def test_a_child_judges_the_type_of_its_exception_by_the_policy_of_the_job(process_app: Horae) -> None:
    async with serving(process_app, slots=1):
        with refused(JobFailed, "job_is_dead", attempts=1):
            await process_app.enqueue("fail-for-good").result_async(60)


async def test_a_child_reads_the_results_of_the_jobs_before_its_own(process_app: Horae) -> None:
    add = process_app.enqueue("add", a=1, b=2)
    total = JobHandle[Any, Any](process_app, process_app.definitions.get("sum-up")).using(after=[add]).enqueue()
    async with serving(process_app, slots=1):
        assert await total.result_async(60) == [3]


async def test_a_result_that_is_not_json_is_told_as_an_error_of_a_job_that_succeeded(
    process_app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(process_app):
        done = await ended(process_app, processes.not_json.enqueue())

    assert (done.state, done.result) == ("succeeded", None)
    assert (done.last_error or "").startswith("ResultNotKept: ")
    assert "the result of set cannot be stored" in caplog.text


async def test_a_handler_that_kills_its_interpreter_ends_dead_and_the_queue_goes_on(process_app: Horae) -> None:
    async with serving(process_app) as worker:
        poison = {how: processes.vanish.enqueue(how=how) for how in ("exit", "crash", "kill")}
        dead = {how: await ended(process_app, job) for how, job in poison.items()}
        after = await ended(process_app, processes.add.enqueue(a=1, b=1))

        assert {(job.state, job.attempt) for job in dead.values()} == {("dead", 2)}
        assert "exit code 7" in (dead["exit"].last_error or "")
        assert "killed by SIGSEGV" in (dead["crash"].last_error or "")
        assert "killed by SIGKILL" in (dead["kill"].last_error or "")
        assert after.state == "succeeded"
        assert worker.counts["failed"] == 6


async def test_a_checkpoint_survives_the_crash_of_its_child(process_app: Horae) -> None:
    async with serving(process_app):
        done = await ended(process_app, processes.crash_after_checkpoint.enqueue())

    assert (done.result, done.attempt) == ({"page": 7}, 1)


async def test_an_effect_in_the_ledger_happens_once_although_its_child_crashed(process_app: Horae) -> None:
    with process_app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE charges (job TEXT)"))
    async with serving(process_app):
        done = await ended(process_app, processes.charge.enqueue())

    with process_app.engine.connect() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM charges")).scalar() == 1
    assert (done.result, done.attempt) == ("charged", 1)


async def test_a_step_is_not_run_again_although_its_child_crashed(process_app: Horae) -> None:
    async with serving(process_app):
        done = await ended(process_app, processes.steps.enqueue())

    assert (done.result, done.attempt) == ([True, 1], 1)


async def test_a_handler_whose_time_is_up_may_clean_up_and_frees_its_slot(process_app: Horae, tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with serving(process_app, slots=1):
        late = processes.sleep.using(timeout=2).enqueue(seconds=60, note=str(note))
        after = processes.add.enqueue(a=1, b=1)
        done = await ended(process_app, late)

        assert (await ended(process_app, after)).state == "succeeded"
    assert (done.last_error or "").startswith("timed_out: over 0:00:02")
    assert outcomes(process_app, late) == ["timed_out"]
    assert note.with_suffix(".cleaned").exists()


async def test_the_start_of_a_child_does_not_count_against_the_time_limit(
    process_app: Horae, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOW_IMPORT", "3")
    async with serving(process_app):
        done = await ended(process_app, processes.double.using(timeout=2).enqueue(a=1))

    assert done.state == "succeeded"


async def test_a_child_that_ignores_sigterm_is_killed_with_its_own_children(process_app: Horae, tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with serving(process_app):
        await ended(process_app, processes.stubborn.using(timeout=3).enqueue(note=str(note)))

        pid, grandchild = map(int, note.read_text().split())
        await eventually(lambda: not is_alive(pid) and not is_alive(grandchild), "the end of the family")


async def test_cancelling_a_job_reaches_its_child(process_app: Horae, tmp_path: Path) -> None:
    notes = {name: tmp_path / name for name in ("polite", "sleep-async", "decorated")}
    jobs = {name: process_app.enqueue(name, note=str(note)) for name, note in notes.items()}
    async with serving(process_app):
        await eventually(lambda: all(note.exists() for note in notes.values()), "the start")
        for job in jobs.values():
            await asyncio.to_thread(verbs.cancel, process_app.world, job.id)
        states = [(await ended(process_app, job)).state for job in jobs.values()]

    assert states == ["cancelled"] * 3
    assert all(note.with_suffix(".cleaned").exists() for note in notes.values())


async def test_an_async_function_behind_a_plain_decorator_is_awaited_in_the_child(process_app: Horae) -> None:
    job = processes.decorated.enqueue()
    async with serving(process_app):
        done = await ended(process_app, job)

    assert (done.state, done.result) == ("succeeded", "worked")


async def test_a_generator_that_a_child_returns_is_a_failure(process_app: Horae) -> None:
    job = processes.produce.enqueue()
    async with serving(process_app):
        done = await ended(process_app, job)

    assert done.state == "dead"
    assert (done.last_error or "").startswith("HandlerFailed: produce returned a generator")


async def test_a_stopping_worker_ends_its_children_and_gives_their_jobs_back(
    process_app: Horae, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    job = processes.sleep.enqueue(seconds=60, note=str(note))
    async with serving(process_app, grace=0.1):
        await eventually(lambda: note.exists() and note.read_text(), "the start")

    back = process_app.get(job.id)
    assert (back.state, back.attempt) == ("queued", 0)
    await eventually(lambda: not is_alive(int(note.read_text())), "the end of the child")


async def test_a_killed_child_between_jobs_is_replaced_without_a_failure(process_app: Horae) -> None:
    async with serving(process_app, slots=1) as worker:
        first = await ended(process_app, processes.add.enqueue(a=1, b=1))
        await eventually(lambda: pids_of(worker) == [first.result["pid"]])
        os.kill(first.result["pid"], 9)
        await eventually(lambda: pids_of(worker) == [], "the end of the child")
        second = await ended(process_app, processes.add.enqueue(a=1, b=1))

    assert (second.state, second.attempt) == ("succeeded", 0)


async def test_a_handler_inside_another_function_is_refused_with_advice(process_app: Horae) -> None:
    @process_app.job("hidden", executor="process", retry=Retry.none())
    def hidden() -> None:
        return

    async with serving(process_app):
        done = await ended(process_app, hidden.enqueue())

    assert "declare it at the top level of a module" in (done.last_error or "")


async def test_once_in_a_child_says_that_memory_cannot_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_DATABASE_URL", "sqlite://")
    importlib.reload(processes)
    with processes.app as app:
        async with serving(app):
            done = await ended(app, processes.charge.using(retry=Retry.none()).enqueue())

    assert "ctx.once in a child process cannot reach a database in the memory" in (done.last_error or "")


def test_a_module_that_starts_a_worker_when_imported_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "inside", True)

    with refused(ConfigurationError, "worker_inside_child"):
        Children()


SCRIPT = """
import asyncio, os, sys
from horae import Horae, Retry
app = Horae(sys.argv[1])

@app.job("who", executor="process", retry=Retry.none())
def who(ctx):
    return ctx.once("who", lambda connection: [os.getpid(), __name__])

@app.job("hang", executor="process", retry=Retry.none())
def hang():
    print(os.getpid(), flush=True)
    asyncio.run(asyncio.sleep(60))

async def main():
    job = app.enqueue(sys.argv[2])
    async with app.running():
        while app.get(job.id).state in ("queued", "running"):
            await asyncio.sleep(0.01)
    print(app.get(job.id).result, os.getpid())

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def script(tmp_path: Path, sqlite_database_url: str) -> Callable[[str], list[str]]:
    file = tmp_path / "my script.py"
    file.write_text(SCRIPT)
    return lambda job: [sys.executable, str(file), sqlite_database_url, job]


def test_a_handler_declared_in_a_script_runs_in_a_child(script: Callable[[str], list[str]]) -> None:
    answer = subprocess.run(script("who"), capture_output=True, text=True, timeout=60, check=False)

    assert "'__horae_main__'" in answer.stdout, answer.stderr


def test_a_child_does_not_outlive_a_killed_parent(script: Callable[[str], list[str]]) -> None:
    with subprocess.Popen(script("hang"), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()

    asyncio.run(eventually(lambda: not is_alive(pid), "the end of the orphan"))


async def test_a_running_child_keeps_its_lease(process_app: Horae) -> None:
    async with serving(process_app, lease=1.0) as worker:
        job = processes.sleep.enqueue(seconds=2.5)
        await running(process_app, job)
        done = await ended(process_app, job)

    assert (done.result, worker.counts["succeeded"]) == ("slept", 1)


async def test_a_child_spends_through_its_parent_until_its_budget_is_empty(process_app: Horae) -> None:
    process_app.budgets.set("llm", "tokens", 300)
    job = processes.spend.enqueue()
    wrong = processes.misspend.enqueue()

    async with serving(process_app):
        refused_one = await ended(process_app, wrong)
        await eventually(lambda: process_app.jobs.runs(job.id)[-1].outcome == "snoozed", "the end of the attempt")

    assert "draws on no budget" in (refused_one.last_error or "")
    waiting = process_app.jobs.get(job.id)
    assert (waiting.state, waiting.attempt, waiting.checkpoint) == ("queued", 0, "begun")
    budget = process_app.budgets.get("llm", "tokens")
    assert (budget.settled, budget.reserved) == (280, 0)
    assert "budget_empty" in (waiting.last_error or "")
