"""Tenants over HTTP: the operator decides, nobody else looks."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.ports.world import World
from tests.service.conftest import Connect

LIKE_EVERYBODY: dict[str, Any] = {
    "allow_networks": [],
    "allow_http": False,
    "ports": [],
    "max_enabled_tasks": None,
    "weight": 1,
}
SPECIAL: dict[str, Any] = {
    "allow_networks": ["10.1.0.0/16"],
    "allow_http": True,
    "ports": [8080],
    "max_enabled_tasks": 50,
    "weight": 3,
}


def test_what_the_operator_decides_is_kept_and_audited(operator: TestClient, world: World) -> None:
    assert operator.get("/owners/alice").json() == {"owner": "alice", **LIKE_EVERYBODY}

    put = operator.put("/owners/alice", json=SPECIAL)

    assert put.json() == operator.get("/owners/alice").json() == {"owner": "alice", **SPECIAL}
    ((_, entry),) = world.store.read(lambda tx: tx.audit.find(object_id="alice", limit=10, before=None))
    assert (entry.verb, entry.owner, entry.after["max_enabled_tasks"]) == ("set", "alice", 50)


def test_a_new_decision_replaces_the_old_one(operator: TestClient) -> None:
    operator.put("/owners/alice", json=SPECIAL)

    assert operator.put("/owners/alice", json={}).json() == {"owner": "alice", **LIKE_EVERYBODY}


def test_tenants_are_listed_page_by_page(operator: TestClient) -> None:
    for name in ("carol", "alice", "bob/builder", "鲍勃"):
        assert operator.put(f"/owners/{name}", json={"max_enabled_tasks": 1}).status_code == 200

    first = operator.get("/owners", params={"limit": 3}).json()
    rest = operator.get("/owners", params={"limit": 3, "cursor": first["next_cursor"]}).json()

    assert [each["owner"] for each in first["items"] + rest["items"]] == ["alice", "bob/builder", "carol", "鲍勃"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"allow_networks": ["0.0.0.0/0"]},
        {"allow_networks": ["::/0"]},
        {"allow_networks": ["10.0.0.1/8"]},
        {"allow_networks": ["all"]},
        {"allow_networks": "10.0.0.0/8"},
        {"allow_networks": ["10.0.0.0/8"] * 101},
        {"allow_http": "yes"},
        {"ports": [0]},
        {"ports": [65536]},
        {"ports": ["443"]},
        {"max_enabled_tasks": -1},
        {"weight": 0},
        {"weight": 1001},
        {"max_enabled_tasks": 2**63},
        {"max_enabled_tasks": 1.5},
        {"everything": True},
        [],
    ],
)
def test_what_makes_no_sense_is_refused(operator: TestClient, body: Any) -> None:
    refused = operator.put("/owners/alice", json=body)

    assert refused.status_code == 422
    assert operator.get("/owners").json()["items"] == []


@pytest.mark.parametrize("path", ["/owners/a%00b", "/owners/%20a", f"/owners/{'a' * 256}"])
def test_a_name_that_cannot_be_stored_is_refused(operator: TestClient, path: str) -> None:
    assert operator.put(path, json={}).status_code == 422
    assert operator.get(path).status_code == 422


@pytest.mark.parametrize("cursor", ["nonsense", "WyJhXHUwMDAwIl0", "WzFd"])
def test_a_cursor_that_was_not_made_here_is_refused(operator: TestClient, cursor: str) -> None:
    assert operator.get("/owners", params={"cursor": cursor}).status_code == 422


@pytest.mark.parametrize("scope", ["tasks", "read", "worker"])
def test_no_tenant_sees_or_changes_tenants(connect: Connect, scope: str) -> None:
    alice = connect("alice", scope)

    for refused in (alice.get("/owners"), alice.get("/owners/alice"), alice.put("/owners/alice", json=SPECIAL)):
        assert refused.status_code == 403


def test_a_token_of_the_house_may_look_and_not_change(connect: Connect) -> None:
    watching = connect("system", "read")

    assert watching.get("/owners").status_code == 200
    assert watching.put("/owners/alice", json={}).status_code == 403
