"""What workers of the house store over HTTP, and who may not."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs.definitions import find_definitions
from horae.ports.world import World
from tests.service.conftest import Connect

PATH = "/definitions"
JOBS = "/scheduler/jobs"
OPEN = {"app": "images", "definitions": [{"name": "resize", "queue": "images", "tenants": True}]}


def pulled(client: TestClient, *queues: str) -> list[str]:
    answer = client.post(f"{JOBS}/pull", json={"worker_id": "w", "queues": list(queues)})
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


@pytest.fixture
def worker(connect: Connect) -> TestClient:
    """A worker of the house over HTTP."""
    return connect("system", "worker")


def test_a_worker_of_the_house_gets_tenants_jobs_for_what_it_declares_open(
    worker: TestClient, alice: TestClient
) -> None:
    job = alice.post(JOBS, json={"handler": "resize", "queue": "images"}).json()["job_id"]
    assert pulled(worker, "images") == []

    stored = worker.put(PATH, json=OPEN)

    assert stored.status_code == 200, stored.text
    (result,) = stored.json()["items"]
    assert (result["name"], result["queue"], result["tenants"], result["app"]) == ("resize", "images", True, "images")
    assert pulled(worker, "images") == [job]


def test_only_the_house_stores_definitions(connect: Connect, world: World) -> None:
    """A tenant that could store one would open the house's handlers to itself."""
    callers = [connect("alice", "tasks", "worker", "read"), connect("system", "read"), connect("system", "tasks")]

    assert [caller.put(PATH, json=OPEN).status_code for caller in callers] == [403, 403, 403]
    assert connect().put(PATH, json=OPEN).status_code == 401
    assert find_definitions(world) == []


def test_a_tenant_sees_what_is_open_and_not_who_stored_it(worker: TestClient, alice: TestClient) -> None:
    worker.put(PATH, json={"definitions": [*OPEN["definitions"], {"name": "wipe"}], "app": "images"})

    hers = alice.get(PATH).json()["items"]

    assert hers == [
        {
            "name": "resize",
            "queue": "images",
            "tenants": True,
            "app": None,
            "stored_at": None,
            "stored_by": None,
            "sensitive": [],
            "parameters": None,
            "description": None,
            "budget": None,
            "cost": {},
        }
    ]
    assert [each["name"] for each in worker.get(PATH).json()["items"]] == ["resize", "wipe"]


def test_a_worker_limited_to_queues_declares_nothing_for_others(
    connect: Connect, worker: TestClient, world: World
) -> None:
    narrow = connect("system", "worker", queues=("mail",))

    assert narrow.put(PATH, json=OPEN).status_code == 403
    assert find_definitions(world) == []
    worker.put(PATH, json={"definitions": [{"name": "wipe", "queue": "images"}]})
    assert (
        narrow.put(PATH, json={"definitions": [{"name": "wipe", "queue": "mail", "tenants": True}]}).status_code == 403
    )
    assert narrow.put(PATH, json={"definitions": [{"name": "send", "queue": "mail", "tenants": True}]}).is_success


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"definitions": []},
        {"definitions": [{"name": ""}]},
        {"definitions": [{"name": "a b"}]},
        {"definitions": [{"name": "resize", "tenants": "yes"}]},
        {"definitions": [{"name": "resize", "open": True}]},
        {"definitions": [{"name": "resize", "queue": ""}]},
    ],
)
def test_what_is_no_definition_is_refused(worker: TestClient, world: World, body: Any) -> None:
    assert worker.put(PATH, json=body).status_code == 422
    assert find_definitions(world) == []
