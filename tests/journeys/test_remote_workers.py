"""Workers over HTTP and two services on one database: whoever falls silent, every job is done and none counts twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from horae.actions.access.tokens import create_token
from tests.journeys.conftest import LEASE, STEADY, Journey, Member, setting_out
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

FREE = dict.fromkeys(("HORAE_CALLS_PER_TOKEN", "HORAE_CALLS_PER_ADDRESS", "HORAE_WRONG_PER_ADDRESS"), "0")
NO_DATABASE = "sqlite:////nowhere/at/all.db"
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.server)]


class Service:
    """A ``horae server`` process that can be killed and started again at the same port."""

    def __init__(self, journey: Journey, name: str) -> None:
        self._journey, self._log = journey, journey.home / f"service-{name}"
        self.url = self.start("0")

    def start(self, port: str) -> str:
        with self._log.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "horae", "server", "--port", port, "--json", "--db", self._journey.url],
                cwd=self._journey.home, stdout=subprocess.PIPE, stderr=err, env={**os.environ, **FREE}, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "started":
                return str(event["url"])
        raise AssertionError(f"it never started: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def start_again(self) -> None:
        assert self.start(self.url.rpartition(":")[2].strip("/")) == self.url


@dataclass
class Remote:
    """A journey with two services, whose workers have no database."""

    journey: Journey
    services: tuple[Service, Service]
    token: str

    def worker(self, url: str, lease: float = STEADY, **settings: Any) -> Member:
        environment = {"HORAE_TOKEN": self.token, "HORAE_DATABASE_URL": NO_DATABASE}
        return self.journey.worker(environment=environment, url=url, lease=lease, **settings)


@pytest.fixture(params=KINDS)
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remote]:
    for journey in setting_out(request.getfixturevalue(f"{request.param}_database_url"), tmp_path):
        _, token = create_token(journey.app.world, owner="system", scopes=["worker"], actor="test")
        services = Service(journey, "one"), Service(journey, "two")
        try:
            yield Remote(journey, services, token)
        finally:
            for service in services:
                service.kill()


def test_two_workers_at_two_services_share_the_work(remote: Remote) -> None:
    journey = remote.journey
    crew = [remote.worker(service.url) for service in remote.services]

    journey.enqueue_brief(40)
    journey.until_done()

    assert sum(worker.end().get("succeeded", 0) for worker in crew) == 40
    assert journey.complaints() == []


def test_a_worker_that_is_told_to_end_gives_back_what_it_cannot_finish(remote: Remote) -> None:
    journey, (one, two) = remote.journey, remote.services
    job = journey.enqueue("gated", gate="later")
    first = remote.worker(one.url, grace=0.2)
    first.until("started")

    counts = first.end()
    journey.open("later")
    heir = remote.worker(two.url)
    heir.until("passed")
    journey.until_done([job])

    assert counts == {"released": 1}
    assert [run.outcome for run in journey.runs(job)] == ["released", "succeeded"]
    assert journey.complaints() == []


def test_the_job_of_a_killed_worker_is_done_by_another(remote: Remote) -> None:
    journey, (one, two) = remote.journey, remote.services
    job = journey.enqueue("gated", gate="later")
    first = remote.worker(one.url, lease=LEASE)
    first.until("started")
    first.send(signal.SIGKILL)
    first.wait()

    journey.open("later")
    remote.worker(two.url)
    journey.until_done([job])

    assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
    assert journey.complaints() == []


def test_a_result_outlives_the_service_that_was_killed(remote: Remote) -> None:
    """Its worker holds it, and hands it in when the service is back before the lease has ended."""
    journey, (one, _) = remote.journey, remote.services
    job = journey.enqueue("gated", gate="open")
    worker = remote.worker(one.url)
    worker.until("started")

    one.kill()
    journey.open("open")
    worker.until("passed")
    wait_until(lambda: "outcomes wait" in worker.log.read_text(), "the held result")
    one.start_again()
    journey.until_done([job])

    assert [run.outcome for run in journey.runs(job)] == ["succeeded"]
    assert worker.log.read_text().count("outcomes wait") == 1
    assert journey.complaints() == []


def test_the_jobs_of_a_service_that_stays_away_are_done_at_the_other(remote: Remote) -> None:
    journey, (one, two) = remote.journey, remote.services
    job = journey.enqueue("stubborn", gate="open")
    cut_off = remote.worker(one.url, lease=LEASE)
    cut_off.until("started")

    one.kill()
    remote.worker(two.url).until("started")
    one.start_again()
    journey.open("open")
    cut_off.until("passed")
    journey.until_done([job])
    counts = cut_off.end()

    assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
    assert counts in ({"lost": 1}, {"stale": 1})  # it learns of its loss by a renewal, or when it hands in its result
    assert journey.complaints() == []


def test_a_worker_whose_network_was_cut_hands_in_what_it_holds(remote: Remote) -> None:
    journey, (one, _) = remote.journey, remote.services
    job = journey.enqueue("gated", gate="open")
    with Proxy(one.url) as proxy:
        worker = remote.worker(proxy.url)
        worker.until("started")

        proxy.swallow()
        journey.open("open")
        worker.until("passed")
        wait_until(lambda: "outcomes wait" in worker.log.read_text(), "the held result")
        proxy.let_through()
        journey.until_done([job])
        journey.enqueue("brief", number=7)
        worker.until("ran")
        journey.until_done()

    assert [run.outcome for run in journey.runs(job)] == ["succeeded"]
    assert journey.complaints() == []
