"""Bad input about governed objects is a clear 4xx and changes nothing, over HTTP (issue 12, last paragraph)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from horae.ports.world import World
from tests.service.conftest import Connect

OBJECTS = "/governance/objects"
TABLES = ("objects", "object_versions", "object_links", "evidence", "audit", "jobs", "decisions", "reviews")
MEMORY = {"kind": "memory", "content": "Ann likes tea", "subject": "Ann"}


@pytest.fixture
def carol(connect: Connect) -> TestClient:
    return connect("alice", "review", "tasks", "worker")


@pytest.fixture
def ground(carol: TestClient, alice: TestClient) -> None:
    """Two memories, one of which supersedes the other; an experience; a piece of cognition; one that was retracted."""
    for made in (
        {**MEMORY, "id": "mem_old"},
        {**MEMORY, "id": "mem_new", "content": "Ann likes coffee"},
        {**MEMORY, "id": "mem_gone", "content": "Ann is gone"},
        {"kind": "experience", "content": "Tea calms Ann", "id": "exp_1", "rests_on": ["memory:mem_new"]},
        {"kind": "cognition", "content": "Ann is calm", "id": "cog_1"},
    ):
        assert alice.post(OBJECTS, json=made).status_code == 201
    superseded = carol.post(f"{OBJECTS}/mem_old/supersede", json={"by": "mem_new"})
    assert superseded.status_code == 200, superseded.text
    assert carol.post(f"{OBJECTS}/mem_gone/retract", json={}).status_code == 200


def rows(world: World) -> dict[str, list[Any]]:
    """Return everything that governance keeps."""
    with world.store.engine.connect() as connection:  # type: ignore[attr-defined]
        return {name: list(connection.execute(text(f"SELECT * FROM horae_{name} ORDER BY 1, 2"))) for name in TABLES}


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("an unknown kind", OBJECTS, {**MEMORY, "kind": "dream"}, 422, "memory"),
    ("no content", OBJECTS, {**MEMORY, "content": ""}, 422, "content"),
    ("content of 10 MB", OBJECTS, {**MEMORY, "content": "x" * 10_000_000}, 413, "large"),
    ("content above its limit", OBJECTS, {**MEMORY, "content": "x" * 300_000}, 413, "reference"),
    ("a NUL in the content", OBJECTS, {**MEMORY, "content": "a\x00b"}, 422, "NUL"),
    ("a lone surrogate", OBJECTS, {**MEMORY, "subject": "\ud800"}, 422, ""),
    ("an id with other content", OBJECTS, {**MEMORY, "id": "mem_new", "content": "other"}, 409, "other content"),
    ("a link downwards", OBJECTS, {**MEMORY, "rests_on": ["cognition:cog_1"]}, 422, "rest on"),
    ("a link to nothing", OBJECTS, {**MEMORY, "kind": "experience", "rests_on": ["memory:none"]}, 404, "none"),
    ("confidence above 1", OBJECTS, {**MEMORY, "confidence": 2}, 422, "confidence"),
    ("an expiry that has passed", OBJECTS, {**MEMORY, "expires_at": "1999-01-01T00:00:00Z"}, 422, "passed"),
    ("a time without a zone", OBJECTS, {**MEMORY, "next_action_at": "2030-01-07T12:00:00"}, 422, "zone"),
    (
        "evidence without reference",
        f"{OBJECTS}/mem_new/evidence",
        {"evidence": [{"kind": "supports"}]},
        422,
        "reference",
    ),
    ("empty evidence", f"{OBJECTS}/mem_new/evidence", {"evidence": []}, 422, "evidence"),
    ("blank evidence", f"{OBJECTS}/mem_new/evidence", {"evidence": [" "]}, 422, "reference"),
    (
        "evidence of an unknown kind",
        f"{OBJECTS}/mem_new/evidence",
        {"evidence": [{"reference": "a", "kind": "x"}]},
        422,
        "",
    ),
    ("a cycle", f"{OBJECTS}/mem_new/supersede", {"by": "mem_old"}, 422, "cycle"),
    ("itself", f"{OBJECTS}/mem_new/supersede", {"by": "mem_new"}, 422, ""),
    ("a successor of another kind", f"{OBJECTS}/mem_new/supersede", {"by": "cog_1"}, 422, ""),
    ("an illegal event", f"{OBJECTS}/mem_new/use", {}, 409, "cannot be used"),
    ("a final object", f"{OBJECTS}/mem_gone/contest", {}, 409, "retracted"),
    ("an unknown object", f"{OBJECTS}/mem_none/contest", {}, 404, "mem_none"),
    ("an unknown verdict", f"{OBJECTS}/mem_new/conclude", {"verdict": "sure"}, 422, "confirmed"),
    ("an unknown action", f"{OBJECTS}/mem_new/verify", {"action": "dream"}, 422, "verify"),
    ("too many objects", f"{OBJECTS}/bulk", {"objects": [MEMORY] * 1001}, 422, ""),
    ("one bad among many", f"{OBJECTS}/bulk", {"objects": [MEMORY, {**MEMORY, "kind": "x"}]}, 422, ""),
    ("an unknown field", OBJECTS, {**MEMORY, "state": "active"}, 422, "state"),
]


@pytest.mark.usefixtures("ground")
def test_bad_input_is_refused_in_words_and_changes_nothing(carol: TestClient, world: World) -> None:
    before, wrong = rows(world), []
    for what, path, body, status, says in REFUSED:
        answer = carol.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        if answer.status_code != status or says not in answer.text:
            wrong.append((what, answer.status_code, answer.text[:300]))
        assert rows(world) == before, what
    assert wrong == []


@pytest.mark.usefixtures("ground")
def test_a_stale_version_is_refused_and_changes_nothing(carol: TestClient, world: World) -> None:
    bodies = {
        "evidence": {"evidence": ["chat:1"]},
        "conclude": {"verdict": "confirmed"},
        "supersede": {"by": "mem_old"},
    }
    before = rows(world)
    for verb in ("evidence", "contest", "conclude", "verify", "archive", "retract", "supersede"):
        answer = carol.post(f"{OBJECTS}/mem_new/{verb}", json=bodies.get(verb, {}), headers={"If-Match": '"99"'})
        assert (verb, answer.status_code) == (verb, 412)
    assert rows(world) == before
