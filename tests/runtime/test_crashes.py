"""Whole worker processes that die, and what stands afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import text

from horae import Horae
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.jobs.retry import Retry
from tests.runtime.serving import LIMIT, LIVE

AT_ONCE = Retry.fixed(0, attempts=3)


@contextmanager
def worker_process(url: str, fault: str = "") -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"HORAE_DATABASE_URL": url, "HORAE_FAULT": fault}
    with subprocess.Popen([sys.executable, "-m", "tests.runtime.dying"], env=environment) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def eventually(predicate: Callable[[], bool]) -> None:
    ends = time.monotonic() + LIMIT
    while not predicate():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.01)


def until_ended(app: Horae, *jobs: Enqueued) -> None:
    eventually(lambda: all(app.get(job.id).state not in LIVE for job in jobs))


def test_an_effect_in_the_ledger_happens_once_although_its_worker_died_before_settling(
    database_url: str, app_on: Callable[[str], Horae]
) -> None:
    app = app_on(database_url)
    with app.engine.begin() as connection:
        connection.execute(text("CREATE TABLE charges (job_id VARCHAR(50))"))
    job = verbs.enqueue(app.world, Request("charge", retry=AT_ONCE))

    with worker_process(database_url, fault="settle.before:kill") as first:
        assert first.wait(LIMIT) == -signal.SIGKILL
    held = app.get(job.id)
    with worker_process(database_url):
        until_ended(app, job)

    done = app.get(job.id)
    assert done.result == [{"run": held.token}, f"charged in run {held.token}"]
    with app.engine.connect() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM charges")).scalar() == 1
    assert [run.outcome for run in verbs.runs(app.world, job.id)] == ["lost", "succeeded"]


def test_a_handler_that_takes_its_whole_worker_along_ends_dead_with_the_reason_and_the_queue_goes_on(
    sqlite_database_url: str, app_on: Callable[[str], Horae]
) -> None:
    app = app_on(sqlite_database_url)
    poison = verbs.enqueue(app.world, Request("poison", retry=Retry.fixed(0, attempts=1)))

    for _ in range(3):
        with worker_process(sqlite_database_url) as worker:
            assert worker.wait(LIMIT) == 9
    with worker_process(sqlite_database_url):
        harmless = verbs.enqueue(app.world, Request("harmless"))
        until_ended(app, poison, harmless)

    dead = app.get(poison.id)
    assert (dead.state, dead.attempt) == ("dead", 3)
    assert (dead.last_error or "").startswith("worker_died_3_times")
    assert app.get(harmless.id).result == "done"
