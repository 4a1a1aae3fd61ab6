"""What operators load into Prometheus and Grafana, judged by promtool and by a real Prometheus that scrapes us."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert

from horae import Horae
from horae.actions.roll_up import roll_up
from horae.core.time.instants import micros
from horae.stores.tables.jobs import runs
from tests.cli.conftest import Command, Process
from tests.conftest import needs
from tests.support import programs
from tests.support.kinds import free_port
from tests.support.waiting import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES, RULE_TESTS = DEPLOY / "prometheus" / "horae-alerts.yml", DEPLOY / "prometheus" / "horae-alerts-test.yml"
DASHBOARD = DEPLOY / "grafana" / "horae.json"
APP = """
from horae import Horae

app = Horae("sqlite:///app.db")


@app.job("tick", every=1)
def tick() -> None:
    pass
"""
SCRAPES = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: horae
    static_configs: [{{targets: ["{server}", "127.0.0.1:{worker}"]}}]
"""
NAMED_BY_A_DOCUMENT = {"dead_letter_count", "jobs_due_count"}  # S0-29, S0-33; promtool keeps _count for histograms
Start = Callable[..., Process]


@pytest.fixture(scope="module")
def promtool() -> Path:
    return needs(programs.PROMETHEUS).parent / "promtool"


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_every_alert_is_valid_fires_on_what_it_is_about_and_is_silent_otherwise(promtool: Path) -> None:
    subprocess.run([promtool, "check", "rules", RULES], check=True, capture_output=True)
    tested = subprocess.run([promtool, "test", "rules", RULE_TESTS], check=False, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_has_a_test_and_says_what_is_wrong() -> None:
    names = [line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line]
    fired = RULE_TESTS.read_text().split("exp_alerts")[:-1]
    assert len(names) == 11
    assert [name for name in names if not any(f"alertname: {name}" in part[-200:] for part in fired)] == []


@pytest.fixture
def scraped(environment: Path, horae: Command, start: Start) -> Iterator[httpx.Client]:
    """A Prometheus that scrapes a working server and its worker; the endings of three minutes ago are counted."""
    (environment / "tasks.py").write_text(APP)
    with Horae("sqlite:///app.db") as app:
        app.budgets.set("llm", "tokens", 1000, reason="for the test")
        app.jobs.enqueue("letter", queue="mail")  # which no worker serves
        _end_a_job(app)
    worker_port, own_port = free_port(), free_port()
    server = start("server", "--port", "0", "--json", "--no-auth", "--db", "sqlite:///app.db").until("started")["url"]
    start("worker", "tasks:app", "--metrics-port", str(worker_port))
    config = environment / "prometheus.yml"
    config.write_text(SCRAPES.format(server=server.removeprefix("http://"), worker=worker_port))
    storage = f"--storage.tsdb.path={environment / 'series'}"
    prometheus = subprocess.Popen(
        [
            str(needs(programs.PROMETHEUS)), f"--config.file={config}", storage,
            f"--web.listen-address=127.0.0.1:{own_port}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{own_port}", timeout=10) as client:
            wait_until(lambda: _answers(client), "Prometheus answers")
            yield client
    finally:
        prometheus.kill()
        prometheus.wait()


def _end_a_job(app: Horae) -> None:
    """Write an ending that is old enough to be counted."""
    end = micros(app.world.clock.now() - timedelta(minutes=3))
    row = {
        "job_id": 5_000_000, "token": 1, "outcome": "succeeded", "state": "succeeded", "attempt": 0, "queue": "default",
        "handler": "tick", "owner": "system", "started_at": end - 2_000_000, "run_at": end - 2_500_000,
        "finished_at": end,
    }  # fmt: skip
    app.world.store.transact(lambda tx: tx.connection.execute(insert(runs), row))
    while roll_up(app.world):
        continue


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.HTTPError:
        return False


def _numbers(client: httpx.Client, expression: str) -> list[float]:
    found: dict[str, Any] = client.get("/api/v1/query", params={"query": expression}).json()
    assert found["status"] == "success", found
    return [value for each in found["data"]["result"] if not math.isnan(value := float(each["value"][1]))]


@pytest.mark.slow
def test_every_panel_of_the_dashboard_shows_figures_of_a_working_server(scraped: httpx.Client, promtool: Path) -> None:
    empty = expressions()
    assert len(empty) >= 20

    def all_shown() -> bool:
        empty[:] = [each for each in empty if not _numbers(scraped, each)]
        return not empty

    try:
        wait_until(all_shown, "every panel has figures", every=0.5)
    except AssertionError:
        pytest.fail(f"these expressions have no figures: {empty}")

    for target in scraped.get("/api/v1/targets").json()["data"]["activeTargets"]:
        text = httpx.get(target["scrapeUrl"], timeout=60).text
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=text, check=False, capture_output=True, text=True
        )
        complaints = [line for line in checked.stderr.splitlines() if line.split(" ")[0] not in NAMED_BY_A_DOCUMENT]
        assert (checked.stdout, complaints) == ("", []), target["scrapeUrl"]
