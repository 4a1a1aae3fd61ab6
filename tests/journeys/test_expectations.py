"""It should have run by now: found where no worker lives, by a server alone; and over days of virtual time."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from typing import Any

import pytest

from horae import Horae, Retry
from horae.testing import Lab
from tests.journeys.test_service import HORAE, Serve
from tests.journeys.test_service import serve as serve
from tests.support.waiting import wait_until

DAY = timedelta(days=1)


@pytest.mark.slow
def test_a_server_alone_finds_what_no_worker_runs(database_url: str, serve: Serve) -> None:
    running = serve(database_url)
    with running.client(running.token("system", "admin")) as client:
        terms = {"key": "beat", "handler": "report", "every": 3600, "expect": "within 2s"}
        assert client.post("/schedules", json=terms).json()["expect"] == "within 2s"

        def missing() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get("/expectations", params={"state": "open"}).json()["items"]
            return found

        (found,) = wait_until(missing, "the missing run on record")
        assert (found["schedule"], found["count"], found["expect"]) == ("beat", 1, "within 2s")
        seen = client.get("/overview").json()
        assert (seen["missed_schedules"], seen["health"]["code"]) == (["beat"], "trouble")
        shown = client.get("/schedules/beat").json()
        assert ([each["code"] for each in shown["why"]][:1], shown["missed_at"]) == (["missed"], found["due_at"])
        wait_until(lambda: "horae_missed_expectations 1" in client.get("/metrics").text, "the metric")
    listed = subprocess.run(
        [*HORAE, "expectation", "list", "--json", "--db", running.database],
        check=True, capture_output=True, text=True, env=running.environment,
    )  # fmt: skip
    assert json.loads(listed.stdout)["items"] == [found]


@pytest.mark.slow
def test_a_server_alone_finds_a_job_that_no_worker_runs(database_url: str, serve: Serve) -> None:
    running = serve(database_url)
    with running.client(running.token("system", "admin,tasks")) as client:
        made = client.post("/jobs", json={"handler": "send", "expect": "within 2s"}).json()

        def missing() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get("/expectations", params={"state": "open"}).json()["items"]
            return found

        (found,) = wait_until(missing, "the missing job on record")
        assert (found["job"], found["schedule"], found["expect"]) == (made["id"], None, "within 2s")
        seen = client.get("/overview").json()
        assert (seen["missed_jobs"], seen["health"]["code"]) == ([made["id"]], "trouble")
        assert client.get(f"/jobs/{made['id']}/why").json()["items"][-1]["code"] == "missed"
    shown = subprocess.run(
        [*HORAE, "job", "show", made["id"], "--db", running.database],
        check=True, capture_output=True, text=True, env=running.environment,
    )  # fmt: skip
    assert "it should have succeeded by" in shown.stdout


async def test_a_job_that_comes_late_is_told_once_and_recovers_once() -> None:
    app = Horae("sqlite://", name="expected-jobs")
    broken = [True]

    @app.job("send", expect="within 1h", retry=Retry.fixed("30m", attempts=10))
    async def send(n: int) -> None:
        if broken[0]:
            raise ConnectionError("no mail")

    async with Lab(app, starts_at="2030-01-07T00:00:00Z") as lab:
        job = send.enqueue(1)
        send.using(expect="none").enqueue(2)
        await lab.advance(timedelta(minutes=59))
        assert list(app.expectations.list()) == []
        await lab.advance(timedelta(minutes=2))
        (missed,) = app.expectations.list()
        assert (missed.job, missed.state, f"{missed.due_at:%H:%M}") == (job.id, "open", "01:00")

        broken[0] = False
        await lab.advance(timedelta(hours=1))
        (missed,) = app.expectations.list()
        assert (missed.state, f"{missed.ended_at:%H:%M}") == ("recovered", "01:30")


async def test_a_week_without_a_night_is_told_once_and_recovers_once() -> None:
    app = Horae("sqlite://", name="expected")
    broken = [False]

    @app.job("nightly", cron="0 2 * * *", expect="by 06:00")
    async def nightly() -> None:
        if broken[0]:
            raise ConnectionError("no backup")

    async with Lab(app, starts_at="2030-01-07T00:00:00Z") as lab:
        await lab.advance(3 * DAY)
        assert list(app.expectations.list()) == []

        broken[0] = True
        await lab.advance(3 * DAY)
        (missed,) = app.expectations.list()
        assert (missed.state, missed.count, f"{missed.due_at:%m-%d %H:%M}") == ("open", 3, "01-10 06:00")

        broken[0] = False
        await lab.advance(2 * DAY)
        (missed,) = app.expectations.list()
        assert (missed.state, missed.count, f"{missed.ended_at:%m-%d %H:%M}") == ("recovered", 3, "01-13 02:00")
        assert app.schedules.get("nightly").missed_at is None


async def test_a_program_that_declares_an_expectation_changes_it_with_its_code() -> None:
    def build(expect: str | None) -> Horae:
        app = Horae("sqlite://", name="expected")
        more: dict[str, Any] = {} if expect is None else {"expect": expect}

        @app.job("tick", every=3600, **more)
        async def tick() -> None:
            pass

        return app

    async with Lab(build("every 90m")) as lab:
        assert lab.app.schedules.get("tick").expect == "every 1h30m"
        await lab.advance(DAY)
        assert list(lab.app.expectations.list()) == []
    async with Lab(build(None)) as lab:
        assert lab.app.schedules.get("tick").expect is None
