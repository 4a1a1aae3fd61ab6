"""Workers and the calls that they follow: whoever dies, comes late or comes twice, the handler runs once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from horae import Horae
from tests.executors import heavy
from tests.executors.conftest import Program
from tests.executors.heavy import chosen
from tests.runtime.serving import ended, outcomes, running, serving
from tests.support.waiting import eventually, pass_time, wait_until

pytestmark = pytest.mark.slow
SHORT_LEASE = 2.0


def starts(folder: Path) -> int:
    file = folder / "began"
    return len(file.read_text().split()) if file.exists() else 0


async def test_a_call_elsewhere_brings_back_result_lines_and_progress(heavy_app: Horae, tmp_path: Path) -> None:
    async with serving(heavy_app):
        job = heavy.report.enqueue(folder=str(tmp_path))
        await eventually(lambda: heavy_app.get(job.id).progress == {"done": 0.5}, "the progress")
        (tmp_path / "go").touch()
        done = await ended(heavy_app, job)

    assert (done.state, done.result) == ("succeeded", [job.id, 1])
    lines = [line.text for attempt in heavy_app.jobs.logs(job.id) for line in attempt.lines]
    assert "half of it is done" in lines
    assert any(line.startswith("runs as horae-") for line in lines)


async def test_an_error_elsewhere_is_tried_again_as_another_call(heavy_app: Horae) -> None:
    async with serving(heavy_app):
        job = heavy.fail.enqueue(text="on fire")
        done = await ended(heavy_app, job)

    assert (done.state, outcomes(heavy_app, job)) == ("dead", ["failed"] * 3)
    assert (done.last_error or "").startswith("ValueError: on fire")
    assert chosen.asked.count("submit") == 3


async def test_a_process_that_dies_elsewhere_is_told_with_its_exit_code(heavy_app: Horae) -> None:
    async with serving(heavy_app):
        done = await ended(heavy_app, heavy.die.enqueue(code=3))

    assert done.state == "dead"
    assert "RemoteDied" in (done.last_error or "")
    assert "exit code 3" in (done.last_error or "")


async def test_a_worker_that_shuts_down_leaves_the_call_to_the_next(heavy_app: Horae, tmp_path: Path) -> None:
    job = heavy.hold.enqueue(folder=str(tmp_path))
    async with serving(heavy_app, grace=0.1):
        await eventually((tmp_path / "alive").exists, "the start")
    assert heavy_app.get(job.id).state == "queued"

    (tmp_path / "go").touch()
    async with serving(heavy_app):
        done = await ended(heavy_app, job)

    assert (done.result, starts(tmp_path), done.attempt) == ("let go", 1, 0)


@pytest.mark.parametrize("verb", ["not submit", "submit", "collect", "cancel"])
async def test_a_worker_killed_at_any_step_leaves_one_call(
    heavy_app: Horae, worker_program: Program, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "go").touch()
    job = heavy.hold.enqueue(folder=str(tmp_path))
    killed = worker_program(dies_after=verb)
    assert killed.wait(60) == -signal.SIGKILL

    async with serving(heavy_app, lease=SHORT_LEASE):
        done = await ended(heavy_app, job)

    assert (done.state, done.result) == ("succeeded", "let go")
    assert starts(tmp_path) == 1
    assert outcomes(heavy_app, job) == ["lost", "succeeded"]


async def test_a_worker_that_lost_its_lease_does_not_stop_what_another_follows(
    heavy_app: Horae, worker_program: Program, tmp_path: Path
) -> None:
    job = heavy.hold.enqueue(folder=str(tmp_path))
    silent = worker_program()
    await eventually((tmp_path / "alive").exists, "the start")
    await eventually(lambda: (heavy_app.get(job.id).checkpoint or {})["remote"]["handle"], "the handle")
    os.kill(silent.pid, signal.SIGSTOP)

    async with serving(heavy_app, lease=SHORT_LEASE):
        await eventually(lambda: "wait" in chosen.asked, "the other worker")
        os.kill(silent.pid, signal.SIGCONT)
        await pass_time(SHORT_LEASE)
        (tmp_path / "go").touch()
        done = await ended(heavy_app, job)

    assert (done.state, done.result, starts(tmp_path)) == ("succeeded", "let go", 1)


async def test_a_cancelled_job_is_stopped_elsewhere(heavy_app: Horae, tmp_path: Path) -> None:
    async with serving(heavy_app):
        job = heavy.hold.enqueue(folder=str(tmp_path))
        await eventually((tmp_path / "alive").exists, "the start")
        heavy_app.jobs.cancel(job.id)
        done = await ended(heavy_app, job)

    before = (tmp_path / "alive").stat().st_size
    await pass_time(0.3)
    assert done.state == "cancelled"
    assert (tmp_path / "alive").stat().st_size == before
    assert "has stopped it" in (done.last_error or "")


async def test_a_time_limit_counts_from_the_first_submission_and_stops_the_call(
    heavy_app: Horae, tmp_path: Path
) -> None:
    job = heavy.hold_for_an_hour.enqueue(folder=str(tmp_path))
    async with serving(heavy_app, grace=0.1):
        await eventually((tmp_path / "alive").exists, "the start")
    submitted_an_hour_ago(tmp_path / "horae.db")

    async with serving(heavy_app):
        done = await ended(heavy_app, job)
    before = (tmp_path / "alive").stat().st_size
    await pass_time(0.3)

    assert (done.state, starts(tmp_path)) == ("dead", 1)
    assert "timed_out: over 1:00:00; chosen has stopped it" in (done.last_error or "")
    assert (tmp_path / "alive").stat().st_size == before


def submitted_an_hour_ago(database: Path) -> None:
    """Move the moment of the submission, as if the worker had been away for long."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        [[text]] = connection.execute("SELECT checkpoint FROM horae_jobs").fetchall()
        checkpoint = json.loads(text)
        checkpoint["remote"]["submitted_at"] -= 3_600_000_000
        connection.execute("UPDATE horae_jobs SET checkpoint = ?", [json.dumps(checkpoint)])


async def test_what_the_cluster_has_forgotten_is_lost_and_never_done(heavy_app: Horae, tmp_path: Path) -> None:
    async with serving(heavy_app):
        job = heavy.hold.enqueue(folder=str(tmp_path))
        await eventually((tmp_path / "alive").exists, "the start")
        handle = await eventually(lambda: (heavy_app.get(job.id).checkpoint or {})["remote"]["handle"], "the handle")
        assert chosen.real is not None
        chosen.real.cancel(handle)
        await eventually(lambda: starts(tmp_path) == 2, "the second attempt")
        (tmp_path / "go").touch()
        done = await ended(heavy_app, job)

    assert outcomes(heavy_app, job) == ["failed", "succeeded"]
    assert done.result == "let go"


async def test_a_cluster_that_is_away_puts_the_attempt_back_without_counting_it(
    heavy_app: Horae, tmp_path: Path
) -> None:
    chosen.is_away = True
    async with serving(heavy_app) as worker:
        worker.remotes.away_limit = 0.0
        job = heavy.hold.enqueue(folder=str(tmp_path))
        waiting = await eventually(lambda: (it := heavy_app.get(job.id)).last_error and it, "the attempt put back")

    assert (waiting.state, waiting.attempt) == ("queued", 0)
    assert "chosen does not answer" in (waiting.last_error or "")


async def test_a_cancel_that_the_cluster_does_not_hear_says_so(
    heavy_app: Horae, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horae.runtime.worker.remote.STOP_LIMIT", 0.5)
    async with serving(heavy_app):
        job = heavy.hold.enqueue(folder=str(tmp_path))
        await running(heavy_app, job)
        await eventually(lambda: "wait" in chosen.asked, "the wait")
        chosen.is_away = True
        heavy_app.jobs.cancel(job.id)
        done = await ended(heavy_app, job)

    assert done.state == "cancelled"
    assert "it may still run there" in (done.last_error or "")
    (tmp_path / "go").touch()
    wait_until((tmp_path / "began").exists, "the call")
