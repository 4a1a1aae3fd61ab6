"""Frequent endpoints are called directly; whatever is asked, the answer is FastAPI's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.ports.world import World
from horae.service.asgi import ROUTERS
from horae.service.direct import DIRECT, Direct
from tests.service.conftest import Connect

DIRECTLY = "application/json"
OVER_FASTAPI = "application/json; charset=utf-8"
HOLD = {"job_id": "job_1", "token": 0}
BODIES: list[tuple[str, Any]] = [
    ("/jobs", {"handler": "dispatch"}),
    ("/jobs", {"handler": "dispatch", "queue": "mail", "delay": 5, "tags": ["a"], "retry": {"attempts": 2}}),
    ("/jobs", {"handler": "dispatch", "run_at": "2030-01-07T06:00:00Z", "timeout": 7.5}),
    ("/jobs", {"handler": "dispatch", "run_at": "soon"}),
    ("/jobs", {"handler": "dispatch", "delay": -1}),
    ("/jobs", {"handler": "dispatch", "delay": True}),
    ("/jobs", {"handler": "dispatch", "timeout": 0}),
    ("/jobs", {"handler": "dispatch", "typo": 1}),
    ("/jobs", {"handler": "", "payload": {}}),
    ("/jobs", {"handler": "dispatch", "queue": "horae"}),
    ("/jobs", {"handler": "dispatch", "unique": "one", "after": ["job_99"]}),
    ("/jobs", {"handler": "dispatch", "retry": {"attempts": 0}}),
    ("/jobs", {"handler": "dispatch", "object_type": "nothing"}),
    ("/jobs", []),
    ("/jobs", None),
    ("/jobs/batch", {"jobs": [{"handler": "dispatch"}, {"handler": "dispatch"}]}),
    ("/jobs/batch", {"jobs": []}),
    ("/jobs/claim", {"worker_id": "w", "limit": 1}),
    ("/jobs/claim", {"worker_id": "", "limit": 1}),
    ("/jobs/claim", {"worker_id": "w", "limit": 10**6}),
    ("/jobs/settle", {"endings": [{**HOLD, "outcome": "succeeded"}]}),
    ("/jobs/settle", {"endings": [{**HOLD, "outcome": "unheard"}]}),
    ("/jobs/renew", {"holds": [HOLD]}),
    ("/jobs/peek", {"queues": ["default"]}),
]


def answer(client: TestClient, path: str, media: str, body: Any, **headers: str) -> tuple[int, Any]:
    sent = body if isinstance(body, str) else json.dumps(body)
    got = client.post(path, content=sent, headers={"Content-Type": media, **headers})
    return got.status_code, _without_numbers(got.json())


def _without_numbers(value: Any) -> Any:
    """What differs between two jobs that were asked for alike."""
    if isinstance(value, dict):
        return {name: _without_numbers(each) for name, each in value.items() if name not in ("id", "request_id")}
    return [_without_numbers(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_both_ways_answer_alike(path: str, body: Any, connect: Connect) -> None:
    client = connect("alice", "tasks", "worker")

    assert answer(client, path, DIRECTLY, body) == answer(client, path, OVER_FASTAPI, body)


def test_what_is_no_json_is_refused_alike(alice: TestClient) -> None:
    assert answer(alice, "/jobs", DIRECTLY, "{") == answer(alice, "/jobs", OVER_FASTAPI, "{")
    assert answer(alice, "/jobs", DIRECTLY, "{")[0] == 422


def test_a_caller_without_the_scope_is_refused_alike(connect: Connect) -> None:
    reader = connect("alice", "read")

    refused = answer(reader, "/jobs", DIRECTLY, {"handler": "dispatch"})

    assert refused == answer(reader, "/jobs", OVER_FASTAPI, {"handler": "dispatch"})
    assert refused[0] == 403


def test_an_unknown_parameter_of_a_frequent_endpoint_is_refused(alice: TestClient) -> None:
    assert alice.post("/jobs?qeue=mail", json={"handler": "dispatch"}).status_code == 422


def test_the_key_in_a_header_counts_both_ways(alice: TestClient) -> None:
    headers = {"Idempotency-Key": "once"}
    first, again = (answer(alice, "/jobs", DIRECTLY, {"handler": "dispatch"}, **headers) for _ in range(2))

    assert (first[0], again[0], again[1]["deduplicated"]) == (201, 200, True)
    assert answer(alice, "/jobs", DIRECTLY, {"handler": "other"}, **headers)[0] == 409
    assert answer(alice, "/jobs", DIRECTLY, {"handler": "other"}, **{"Idempotency-Key": "x" * 256})[0] == 422


def test_every_frequent_endpoint_is_found() -> None:
    async def nothing(*_: Any) -> None:
        return None

    doors = Direct(nothing, [route for router in ROUTERS for route in router.routes]).doors

    assert {door.route.operation_id for door in doors.values()} == DIRECT


def test_callers_who_enqueue_at_once_each_get_their_own_answer(world: World, connect: Connect) -> None:
    client = connect("alice", "tasks")
    assert answer(client, "/jobs", DIRECTLY, {"handler": "dispatch", "key": "taken"})[0] == 201

    def ask(number: int) -> tuple[int, str]:
        body: dict[str, Any] = {"handler": "dispatch", "payload": {"n": number}}
        body |= {"key": "taken"} if number % 5 == 0 else {"key": f"k{number}"} if number % 5 == 1 else {}
        got = client.post("/jobs", json=body)
        return got.status_code, got.json().get("id", got.json().get("code"))

    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(ask, range(50)))

    refused = [said for status, said in answers if status == 409]
    stored = {said for status, said in answers if status == 201}
    assert (refused, len(stored)) == (["key_conflict"] * 10, 40)
    payloads = {job["id"]: job["payload"] for job in client.get("/jobs?limit=100").json()["items"]}
    assert all(payloads[said] == {"n": n} for n, (status, said) in enumerate(answers) if status == 201)
