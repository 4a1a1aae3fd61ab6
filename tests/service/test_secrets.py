"""Secrets over HTTP: values go in, names come out; what is made here is shown once."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.access.secrets import open_secret
from horae.core.outgoing.signatures import SigningSecret
from horae.outgoing.encryption import KeySealer
from horae.ports.world import World
from horae.service.options import Options
from horae.testing.clock import VirtualClock
from tests.service.conftest import Connect

CANARY = "CANARY-5f3a-very-secret"
SEALER = KeySealer(b"k" * 32)


@pytest.fixture
def options() -> Options:
    return Options(version="test", sealer=SEALER)


def opened(world: World, name: str, owner: str = "alice") -> tuple[str, ...]:
    return open_secret(world, SEALER, name, owner=owner)


def test_a_value_goes_in_and_only_its_name_comes_out_e6_20(alice: TestClient, world: World) -> None:
    put = alice.put("/secrets/mail", json={"value": CANARY})
    listed = alice.get("/secrets")

    assert (put.status_code, put.json()["value"]) == (200, None)
    assert listed.json()["items"] == [
        {
            "name": "mail",
            "created_at": "2030-01-07T12:00:00Z",
            "updated_at": "2030-01-07T12:00:00Z",
            "previous_until": None,
        }
    ]
    assert CANARY not in put.text + listed.text
    assert opened(world, "mail") == (CANARY,)


def test_a_signing_secret_is_made_and_shown_once(alice: TestClient, world: World) -> None:
    made = alice.put("/secrets/orders", json={}).json()["value"]

    assert len(SigningSecret.read(made).key) == 32
    assert opened(world, "orders") == (made,)
    assert made not in alice.get("/secrets").text


def test_rotation_shows_the_new_one_and_keeps_the_old_for_a_while_e6_9(
    alice: TestClient, world: World, clock: VirtualClock
) -> None:
    first = alice.put("/secrets/orders", json={}).json()["value"]

    rotated = alice.post("/secrets/orders/rotate", json={"keep_previous_for": 3600}).json()
    again = alice.post("/secrets/orders/rotate").json()

    assert rotated["previous_until"] == "2030-01-07T13:00:00Z"
    assert again["previous_until"] == "2030-01-08T12:00:00Z"
    assert opened(world, "orders") == (again["value"], rotated["value"])
    clock.advance(timedelta(days=1))
    assert opened(world, "orders") == (again["value"],)
    assert len({first, rotated["value"], again["value"]}) == 3


def test_a_forgotten_secret_is_gone(alice: TestClient) -> None:
    alice.put("/secrets/mail", json={"value": CANARY})

    assert alice.delete("/secrets/mail").status_code == 204
    assert alice.delete("/secrets/mail").status_code == 404
    assert alice.get("/secrets").json()["items"] == []


def test_a_secret_of_somebody_else_does_not_exist(alice: TestClient, bob: TestClient, world: World) -> None:
    alice.put("/secrets/orders", json={})

    foreign = bob.post("/secrets/orders/rotate")
    unknown = alice.post("/secrets/nothing/rotate")

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json() == json.loads(unknown.text.replace("nothing", "orders"))
    assert bob.delete("/secrets/orders").status_code == 404
    assert bob.get("/secrets").json()["items"] == []
    assert bob.put("/secrets/orders", json={"value": CANARY}).status_code == 200
    assert opened(world, "orders") != opened(world, "orders", "bob")


def test_an_operator_keeps_secrets_of_the_house_and_sees_no_others(alice: TestClient, operator: TestClient) -> None:
    alice.put("/secrets/orders", json={})

    assert operator.get("/secrets").json()["items"] == []
    assert operator.delete("/secrets/orders").status_code == 404


def test_a_text_of_ones_own_is_not_rotated(alice: TestClient) -> None:
    alice.put("/secrets/mail", json={"value": "Bearer abcdef"})

    refused = alice.post("/secrets/mail/rotate")

    assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/secrets/whsec_{CANARY}", {}),
        ("/secrets/a%00b", {}),
        ("/secrets/a%20b", {}),
        (f"/secrets/{'a' * 101}", {}),
        ("/secrets/mail", {"value": "short"}),
        ("/secrets/mail", {"value": CANARY * 1000}),
        ("/secrets/mail", {"value": f"{CANARY}\x00"}),
        ("/secrets/mail", {"value": f" {CANARY}"}),
        ("/secrets/mail", {"value": f"whsec_{CANARY}"}),
        ("/secrets/mail", {"value": [CANARY]}),
        ("/secrets/mail", {"secret": CANARY}),
        ("/secrets/mail", {"value": CANARY, "keep_previous_for": -1}),
        ("/secrets/mail", {"value": CANARY, "keep_previous_for": 2**70}),
        ("/secrets/mail", [CANARY]),
    ],
)
def test_what_cannot_be_a_secret_is_refused_and_never_repeated(
    alice: TestClient, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "horae")
    refused = alice.put(path, json=body)

    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert CANARY not in refused.text + caplog.text
    assert alice.get("/secrets").json()["items"] == []


def test_a_lone_surrogate_is_refused(alice: TestClient) -> None:
    refused = alice.put(
        "/secrets/mail", content=b'{"value": "12345678\\udc80"}', headers={"content-type": "application/json"}
    )
    assert refused.status_code == 422


def test_without_a_key_the_answer_says_how_to_set_one(connect: Connect) -> None:
    alice = connect("alice", "tasks", sealer=None)

    for refused in (alice.put("/secrets/mail", json={"value": CANARY}), alice.post("/secrets/mail/rotate")):
        assert (refused.status_code, refused.json()["code"]) == (409, "secrets_locked")
        assert refused.json()["reason"] == "secrets_without_key"
    assert alice.get("/secrets").status_code == 200


def test_a_lost_key_is_a_conflict_that_says_so(connect: Connect, alice: TestClient) -> None:
    alice.put("/secrets/orders", json={})
    elsewhere = connect("alice", "tasks", sealer=KeySealer(b"x" * 32))

    refused = elsewhere.post("/secrets/orders/rotate")

    assert (refused.status_code, refused.json()["code"]) == (409, "secrets_locked")
    assert elsewhere.put("/secrets/orders", json={"value": CANARY}).status_code == 200


def test_the_operator_reseals_everything_with_the_new_key(alice: TestClient, connect: Connect, world: World) -> None:
    alice.put("/secrets/mail", json={"value": CANARY})
    new = b"n" * 32
    operator = connect("system", "admin", sealer=KeySealer(new, b"k" * 32))

    assert alice.post("/secrets/reseal").status_code == 403
    assert operator.post("/secrets/reseal").json() == {"resealed": 1}
    assert open_secret(world, KeySealer(new), "mail", owner="alice") == (CANARY,)


def test_who_may_only_look_sees_names_and_changes_nothing(connect: Connect, alice: TestClient) -> None:
    alice.put("/secrets/mail", json={"value": CANARY})
    reader, worker = connect("alice", "read"), connect("alice", "worker")

    assert [each["name"] for each in reader.get("/secrets").json()["items"]] == ["mail"]
    for refused in (reader.put("/secrets/mail", json={}), reader.delete("/secrets/mail"), worker.get("/secrets")):
        assert refused.status_code == 403
