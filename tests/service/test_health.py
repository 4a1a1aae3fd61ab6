"""Alive, ready, and what /readyz does not tell."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text

from horae import Horae
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.errors import SchemaMissing, SchemaTooNew, StoreUnavailable
from horae.ports.workers import Node
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock

OK = {"store": "ok", "migrations": "ok", "clock": "ok", "workers": "ok"}
LATER = timedelta(minutes=2)


def checks(client: TestClient, status: int) -> dict[str, str]:
    answer = client.get("/readyz")
    assert answer.status_code == status
    return {check["name"]: check["status"] for check in answer.json()["checks"]}


def test_a_service_over_a_store_is_ready_without_a_token(nobody: TestClient) -> None:
    answer = nobody.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert checks(nobody, 200) == OK
    assert answer.headers["cache-control"] == "no-store"


def test_every_database_is_ready_and_its_clock_is_compared(database_url: str) -> None:
    with Horae(database_url) as app:
        migrate(app.engine)
        client = TestClient(build(lambda: app.world))
        assert checks(client, 200) == OK
        (clock,) = [each for each in client.get("/readyz").json()["checks"] if each["name"] == "clock"]
        assert abs(clock["seconds"]) < 5


def test_work_that_nobody_serves_degrades_and_names_no_queue(
    nobody: TestClient, world: World, clock: VirtualClock
) -> None:
    verbs.enqueue(world, Request("work", queue="alices-secret-queue", owner="alice"))
    clock.advance(LATER)
    answer = nobody.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert "alice" not in answer.text
    now = clock.now()
    node = Node("host:1:a", "host", 1, "1", now, now, {"alices-secret-queue": 1})
    world.store.transact(lambda tx: tx.nodes.put(node))
    clock.advance(timedelta(seconds=2))
    assert checks(nobody, 200) == OK
    clock.advance(timedelta(hours=1))
    assert checks(nobody, 200)["workers"] == "warning"


@pytest.mark.parametrize("seconds", [-6, 6])
def test_a_clock_that_is_far_off_is_not_ready(world: World, seconds: int) -> None:
    class Off(VirtualClock):
        offset = timedelta(seconds=seconds)

    client = TestClient(build(lambda: replace(world, clock=Off())))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "unready")
    (clock,) = [each for each in answer.json()["checks"] if each["name"] == "clock"]
    assert (clock["status"], clock["seconds"]) == ("failed", seconds)


def test_a_store_that_does_not_answer_is_not_ready_and_tells_no_address() -> None:
    def away() -> World:
        raise StoreUnavailable("postgresql://horae:secret@db.internal/horae does not answer")

    client = TestClient(build(away))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "unready")
    assert checks(client, 503) == {"store": "failed", "migrations": "unknown", "clock": "unknown", "workers": "unknown"}
    assert not {"secret", "db.internal", "postgresql"} & set(answer.text.replace("@", " ").replace("/", " ").split())
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("problem", "says"), [(SchemaMissing, "horae db migrate"), (SchemaTooNew, "upgrade")])
def test_tables_that_do_not_fit_are_not_ready(problem: Callable[[str], Exception], says: str) -> None:
    def opens() -> World:
        raise problem("tables of another version")

    answer = TestClient(build(opens)).get("/readyz")
    assert answer.status_code == 503
    (tables,) = [each for each in answer.json()["checks"] if each["name"] == "migrations"]
    assert tables["status"] == "failed"
    assert says in tables["detail"]


def test_tables_that_somebody_else_upgrades_meanwhile_are_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'horae.db'}"
    clock = VirtualClock()
    with Horae(url, clock=clock) as app:
        client = TestClient(build(lambda: app.world))
        assert checks(client, 200) == OK
        with create_engine(url).begin() as connection:
            connection.execute(text("UPDATE horae_version SET version_num = '9999'"))
        clock.advance(timedelta(seconds=2))
        assert checks(client, 503)["migrations"] == "failed"


@pytest.mark.parametrize("unknown", [False, True])
def test_a_store_that_breaks_off_is_not_told_as_having_changed_nothing(unknown: bool) -> None:
    def opens() -> World:
        raise StoreUnavailable("gone", outcome_unknown=unknown)

    client = TestClient(build(opens, Options(open_to_all=True)))
    answer = client.post("/scheduler/jobs", json={"handler": "work"})

    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.json().get("outcome_unknown", False) is unknown
    assert ("Nothing was changed" in answer.json()["detail"]) is not unknown
