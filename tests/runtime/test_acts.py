"""Bulk acts in whole worker processes that are killed, and what stands afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from sqlalchemy import text

from horae import Horae
from horae.actions.jobs import acts, jobs
from horae.actions.jobs.requests import Request
from tests.runtime.test_crashes import worker_process
from tests.support.waiting import wait_until

JOBS = int(os.environ.get("ACT_JOBS", "3000"))  # ACT_JOBS=100000 is the whole promise; it takes minutes
LIMIT = 60 + JOBS / 100
MOST_COUNTED = 10_000  # before an act begins


@pytest.mark.slow
@pytest.mark.timeout(300 + JOBS // 50)
def test_an_act_survives_killed_workers_with_equal_counts(database_url: str, app_on: Callable[[str], Horae]) -> None:
    app = app_on(database_url)
    for _ in range(JOBS // 1000):
        jobs.enqueue_many(app.world, [Request("harmless", queue="unserved")] * 1000)
    others = jobs.enqueue_many(app.world, [Request("harmless", queue="other")] * 5)
    act = acts.start(app.world, "cancel", "queue:unserved", actor="ada", reason="wrong list")

    for least in (JOBS // 15, JOBS // 3, JOBS * 2 // 3):
        with worker_process(database_url) as process:
            wait_until(lambda least=least: acts.get(app.world, act.id).changed >= least, within=LIMIT)  # type: ignore[misc]
            process.send_signal(signal.SIGKILL)
            process.wait()
    with worker_process(database_url):
        wait_until(lambda: acts.get(app.world, act.id).state == "done", within=LIMIT)

    done = acts.get(app.world, act.id)
    with app.engine.connect() as connection:
        query = "SELECT COUNT(*) FROM horae_runs WHERE queue = 'unserved' AND state = 'cancelled'"
        cancelled = connection.execute(text(query)).scalar()
        query = "SELECT COUNT(*), COUNT(DISTINCT object_id) FROM horae_audit WHERE verb = 'cancel' AND actor = 'ada'"
        audited = tuple(connection.execute(text(query)).one())
    assert (done.matched, done.changed, done.skipped) == (min(JOBS, MOST_COUNTED), JOBS, 0)
    assert (cancelled, audited) == (JOBS, (JOBS, JOBS))
    assert {app.get(job.id).state for job in others} == {"queued"}
