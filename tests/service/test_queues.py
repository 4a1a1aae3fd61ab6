"""Queues and workers over HTTP."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.attention import inbox
from horae.actions.jobs import jobs
from horae.ports.workers import Node
from horae.ports.world import World
from horae.testing.builders import a_request
from horae.testing.clock import NOON, VirtualClock


def test_the_queue_of_horaes_own_jobs_is_hidden_and_nobody_touches_it(
    operator: TestClient, alice: TestClient, world: World
) -> None:
    inbox.add(world, "ops", "report", delay=timedelta(hours=1), owner="alice")
    (own,) = operator.get("/scheduler/jobs?queue=horae").json()["jobs"]

    assert operator.get("/queues").json()["items"] == []
    assert [each["name"] for each in operator.get("/queues?machinery=true").json()["items"]] == ["horae"]
    assert operator.get("/queues/horae").json()["jobs"]["queued"] == 1
    assert operator.get("/scheduler/jobs").json()["jobs"] == alice.get("/scheduler/jobs").json()["jobs"] == []
    mine = f"/scheduler/jobs/{own['job_id']}"
    calls: list[tuple[str, Any]] = [
        ("/queues/horae/pause", {}),
        ("/queues/horae/resume", {}),
        ("/queues/horae/limit", {"max_running": 1}),
        ("/queues/horae/order", {"order": "run_at"}),
        (f"{mine}/cancel", {}),
        (f"{mine}/revive", {}),
        (f"{mine}/reschedule", {"priority": "low"}),
        (f"{mine}/ack", {"token": 1}),
        (f"{mine}/fail", {"token": 1, "error": "no"}),
        (f"{mine}/renew", {"token": 1}),
        (f"{mine}/release", {"token": 1}),
        ("/scheduler/jobs", {"handler": "work", "queue": "horae"}),
        ("/scheduler/jobs/pull", {"worker_id": "w", "queues": ["horae"]}),
        ("/schedules", {"key": "s", "handler": "work", "cron": "* * * * *", "queue": "horae"}),
    ]
    for path, body in calls:
        answer = operator.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "reserved_queue"), path
    result = alice.post(f"{mine}/cancel", json={}).json()["detail"]
    assert "keeps the start of task t1" in result
    assert operator.get(mine).json()["status"] == "queued"


def test_a_queue_tells_its_jobs_and_who_serves_it(world: World, operator: TestClient) -> None:
    jobs.enqueue_many(world, [a_request(queue="mail") for _ in range(2)])
    world.store.transact(lambda tx: tx.nodes.put(Node("n1", "host", 1, "0", NOON, NOON, {"mail": 5})))

    [result] = operator.get("/queues").json()["items"]

    assert (result["name"], result["jobs"]["queued"], result["workers"]) == ("mail", 2, ["n1"])
    assert operator.get("/queues/mail").json() == result


def test_pause_resume_limit_and_order(world: World, operator: TestClient) -> None:
    paused = operator.post("/queues/mail/pause", json={"reason": "repairs"}).json()
    assert (paused["pause_reason"], paused["paused_at"]) == ("repairs", "2030-01-07T12:00:00Z")
    assert operator.post("/queues/mail/resume").json()["paused_at"] is None
    assert operator.post("/queues/mail/limit", json={"max_running": 3}).json()["max_running"] == 3
    assert operator.post("/queues/mail/limit", json={"max_running": None}).json()["max_running"] is None
    assert operator.post("/queues/mail/order", json={"order": "run_at"}).json()["order"] == "run_at"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/queues/mail/limit", {"max_running": 0}, 422),
        ("/queues/mail/limit", {}, 422),
        ("/queues/mail/order", {"order": "alphabet"}, 422),
        ("/queues/no%20spaces/pause", {}, 422),
        ("/queues/a%00b/pause", {}, 422),
    ],
)
def test_what_cannot_work_is_refused(operator: TestClient, path: str, body: Any, status: int) -> None:
    assert operator.post(path, json=body).status_code == status


def test_an_unknown_queue_is_404(operator: TestClient) -> None:
    assert operator.get("/queues/nobody").status_code == 404


def test_a_tenant_sees_queues_with_jobs_of_its_own_and_counts_only_them(world: World, connect: Any) -> None:
    jobs.enqueue_many(world, [a_request(queue="mail"), a_request(queue="mail", owner="alice"), a_request(queue="x")])
    world.store.transact(lambda tx: tx.nodes.put(Node("n1", "host", 1, "0", NOON, NOON, {"mail": 5})))
    alice = connect("alice", "read")

    [result] = alice.get("/queues").json()["items"]

    assert (result["name"], result["jobs"]["queued"], result["workers"]) == ("mail", 1, [])
    assert alice.get("/queues/x").status_code == 404
    assert alice.post("/queues/mail/pause").status_code == 403
    assert alice.get("/workers").json() == {"items": [], "next_cursor": None}


def test_a_worker_that_is_not_seen_any_more_is_silent(world: World, clock: VirtualClock, operator: TestClient) -> None:
    world.store.transact(lambda tx: tx.nodes.put(Node("n1", "host", 71, "0.1", NOON, NOON, {"mail": 5})))

    [result] = operator.get("/workers").json()["items"]
    clock.advance(timedelta(minutes=3))
    [later] = operator.get("/workers").json()["items"]

    assert (result["id"], result["state"], result["queues"], result["pid"]) == ("n1", "running", {"mail": 5}, 71)
    assert later["state"] == "silent"
