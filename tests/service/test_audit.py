"""The audit over HTTP."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs import queues
from horae.actions.schedules import schedules
from horae.api.audit import verify_export
from horae.ports.world import World
from horae.testing.builders import a_schedule


@pytest.fixture
def acts(world: World) -> None:
    schedules.create(world, a_schedule(), actor="ann", reason="wanted")
    schedules.pause(world, "minutely", actor="bob")
    schedules.create(world, a_schedule("mine", owner="alice"), actor="ann")
    queues.pause_queue(world, "mail", actor="ann")


def answer(client: TestClient, **params: Any) -> list[str]:
    entries = client.get("/audit", params=params).json()["items"]
    return [f"{each['actor']} {each['verb']} {each['object_id']}" for each in entries if each["object_type"] != "token"]


@pytest.mark.usefixtures("acts")
def test_the_audit_says_who_did_what_newest_first(operator: TestClient) -> None:
    assert answer(operator) == ["ann pause mail", "ann create alice/mine", "bob pause minutely", "ann create minutely"]
    first = operator.get("/audit?verb=create&object_id=minutely").json()["items"][0]
    assert (first["reason"], first["before"], first["after"]["expression"]) == ("wanted", {}, "* * * * *")


@pytest.mark.usefixtures("acts")
def test_the_audit_is_narrowed_by_every_filter(operator: TestClient) -> None:
    assert answer(operator, actor="bob") == ["bob pause minutely"]
    assert answer(operator, object_id="mail") == answer(operator, object_type="queue") == ["ann pause mail"]
    assert answer(operator, owner="alice") == ["ann create alice/mine"]
    assert answer(operator, verb="pause", actor="ann") == ["ann pause mail"]


@pytest.mark.usefixtures("acts")
def test_the_audit_is_paged(operator: TestClient) -> None:
    whole = [each["id"] for each in operator.get("/audit").json()["items"]]
    page = operator.get("/audit?limit=2").json()
    rest = operator.get("/audit", params={"cursor": page["next_cursor"]}).json()

    assert [each["id"] for each in page["items"] + rest["items"]] == whole
    assert rest["next_cursor"] is None


@pytest.mark.usefixtures("acts")
def test_a_tenant_reads_what_concerns_it(connect: Any) -> None:
    alice = connect("alice", "read")

    assert answer(alice) == ["ann create alice/mine"]
    assert alice.get("/audit?owner=system").status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "actor=a%00", "cursor=x", "cursor=Wy0xXQ"])
def test_what_cannot_be_read_is_422(operator: TestClient, query: str) -> None:
    assert operator.get(f"/audit?{query}").status_code == 422


@pytest.mark.usefixtures("acts")
def test_an_export_is_a_stream_of_lines(operator: TestClient, connect: Any) -> None:
    answered = operator.get("/audit/export")
    lines = answered.text.split("\n")

    assert answered.headers["content-type"] == "text/x-ndjson; charset=utf-8"
    assert verify_export(lines).sound
    assert [each.owner for each in verify_export(lines).chains] == ["alice", "system"]
    hers = connect("alice", "read").get("/audit/export").text.split("\n")
    assert [each.owner for each in verify_export(hers).chains] == ["alice"]


def test_an_export_is_refused_before_it_begins(connect: Any) -> None:
    assert connect("alice", "read").get("/audit/export?owner=system").status_code == 404
    assert connect("alice", "worker").get("/audit/export").status_code == 403


@pytest.mark.usefixtures("acts")
def test_a_head_kept_elsewhere_is_given_in_the_query(operator: TestClient) -> None:
    kept = operator.post("/audit/verify").json()["chains"][0]

    assert operator.post("/audit/verify", params={"head": f"alice={kept['head']}"}).json()["sound"] is True
    assert operator.post("/audit/verify", params={"head": f"alice={'0' * 63}1"}).json()["sound"] is False
    assert operator.post("/audit/verify", params={"head": "alice"}).status_code == 422
