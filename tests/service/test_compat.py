"""Document 004's verbs on definitions: S4-13, section 4.2's scenarios, C-27, C-37."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs import claims, endings, jobs
from horae.actions.schedules import fires, schedules
from horae.ports.workers import Node
from horae.ports.world import World
from horae.service.options import Options
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Handler:
    queue: str


@pytest.fixture
def options() -> Options:
    known = {"sync_daily": Handler("etl"), "sync_history": Handler("default")}
    return Options(version="test", handlers=lambda: known)


def test_start_makes_an_interval_that_fires_and_stays(world: World, clock: VirtualClock, operator: TestClient) -> None:
    """An interval of 45 minutes is one: as cron it would fire at :00 and :45 only."""
    result = operator.post("/scheduler/jobs/sync_daily/start", json={"interval_minutes": 45}).json()

    made = schedules.get(world, "sync_daily")
    assert (made.kind, made.expression, made.handler, made.queue) == ("every", "2700", "sync_daily", "etl")
    assert (result["status"], result["enabled"], result["trigger"]) == ("started", True, "interval: 2700 s")
    assert len(fires.fire_due(world)) == 1
    assert schedules.get(world, "sync_daily").next_fire_at == NOON + 45 * MINUTE


def test_schedule_is_a_time_of_day_in_a_zone(world: World, operator: TestClient) -> None:
    body = {"hour": 20, "minute": 0, "timezone": "Asia/Shanghai"}
    result = operator.post("/scheduler/jobs/sync_daily/schedule", json=body).json()

    made = schedules.get(world, "sync_daily")
    assert (made.expression, made.zone, made.enabled) == ("0 20 * * *", "Asia/Shanghai", True)
    assert result["next_run_time"] == "2030-01-08T12:00:00Z"  # exactly noon is no longer ahead


def test_a_later_call_changes_what_is_there(world: World, operator: TestClient) -> None:
    """Upsert: the times change, the zone that nobody named stays, and a pause or a stop is over."""
    schedules.create(world, a_schedule("sync_daily", "30 18 * * *", zone="Asia/Shanghai", payload={"a": 1}))
    schedules.pause(world, "sync_daily")
    operator.post("/scheduler/jobs/sync_daily/stop")

    operator.post("/scheduler/jobs/sync_daily/schedule", json={"hour": 19, "minute": 5})

    now = schedules.get(world, "sync_daily")
    assert (now.expression, now.zone, now.payload, now.is_active) == ("5 19 * * *", "Asia/Shanghai", {"a": 1}, True)
    assert now.sources["expression"] == "api"
    assert len(schedules.find(world)) == 1


def test_stop_keeps_the_times_and_fires_no_more(world: World, clock: VirtualClock, operator: TestClient) -> None:
    operator.post("/scheduler/jobs/sync_daily/start", json={"interval_minutes": 1})

    result = operator.post("/scheduler/jobs/sync_daily/stop").json()
    clock.advance(5 * MINUTE)

    assert (result["status"], result["enabled"], result["next_run_time"]) == ("stopped", False, None)
    assert fires.fire_due(world) == []
    assert schedules.get(world, "sync_daily").expression == "60"


@pytest.mark.parametrize("held", ["stop", "pause", "both"])
def test_a_start_without_a_body_resumes_what_was_stopped_as_it_was(
    world: World, clock: VirtualClock, operator: TestClient, held: str
) -> None:
    """S4-13: what `/stop` promises."""
    schedules.create(world, a_schedule("sync_daily", "30 18 * * *", zone="Asia/Shanghai", payload={"a": 1}))
    if held != "pause":
        operator.post("/scheduler/jobs/sync_daily/stop")
    if held != "stop":
        schedules.pause(world, "sync_daily")
    clock.advance(timedelta(days=2))

    result = operator.post("/scheduler/jobs/sync_daily/start")

    assert (result.status_code, result.json()["status"], result.json()["enabled"]) == (200, "started", True)
    now = schedules.get(world, "sync_daily")
    assert (now.kind, now.expression, now.zone, now.payload) == ("cron", "30 18 * * *", "Asia/Shanghai", {"a": 1})
    assert now.is_active
    assert result.json()["next_run_time"] == "2030-01-10T10:30:00Z"  # what was missed meanwhile is not made up for
    assert schedules.versions(world, "sync_daily")[0].verb == "enable"


def test_a_start_without_a_body_of_what_runs_changes_nothing(world: World, operator: TestClient) -> None:
    operator.post("/scheduler/jobs/sync_daily/start", json={"interval_minutes": 1})
    before = schedules.get(world, "sync_daily")

    assert operator.post("/scheduler/jobs/sync_daily/start").json()["status"] == "started"
    assert schedules.get(world, "sync_daily") == before


def test_a_start_without_a_body_of_what_was_never_started_says_what_is_missing(operator: TestClient) -> None:
    answer = operator.post("/scheduler/jobs/sync_history/start")
    assert answer.status_code == 422
    assert (answer.json()["reason"], answer.json()["facts"]) == ("job_never_started", {"key": "sync_history"})
    assert operator.post("/scheduler/jobs/nobody/start").status_code == 404


def test_what_never_ran_is_stopped_already(operator: TestClient) -> None:
    assert operator.post("/scheduler/jobs/sync_history/stop").json()["status"] == "stopped"


@pytest.mark.parametrize("body", [{"params": {"day": "20300107"}}, {"day": "20300107"}])
def test_trigger_runs_a_known_handler_that_has_no_schedule(world: World, operator: TestClient, body: Any) -> None:
    result = operator.post("/scheduler/jobs/sync_daily/trigger", json=body).json()

    [job] = claims.pull(world, worker_id="w", queues=["etl"])
    assert (result["execution"], job.payload, job.max_attempts) == (job.id, {"day": "20300107"}, 1)


def test_trigger_of_a_schedule_is_a_manual_fire(world: World, operator: TestClient) -> None:
    schedules.create(world, a_schedule("sync_daily", payload={"a": 1}))

    operator.post("/scheduler/jobs/sync_daily/trigger", json={"params": {"b": 2}})

    [(fire, job_id)] = schedules.history(world, "sync_daily")
    assert (fire.kind, jobs.get(world, job_id or "").payload) == ("manual", {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("verb", "body"),
    [("start", {"interval_minutes": 5}), ("schedule", {"hour": 1, "minute": 2}), ("stop", None), ("trigger", {})],
)
def test_an_unknown_job_is_404(operator: TestClient, verb: str, body: Any) -> None:
    answer = operator.post(f"/scheduler/jobs/nobody/{verb}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("start", {"interval_minutes": 0}),
        ("start", {}),
        ("schedule", {"hour": 24, "minute": 0}),
        ("schedule", {"hour": 1, "minute": 0, "timezone": "Mars/Olympus"}),
        ("trigger", {"params": 7}),
        ("trigger", []),
    ],
)
def test_what_cannot_work_is_422(operator: TestClient, verb: str, body: Any) -> None:
    assert operator.post(f"/scheduler/jobs/sync_daily/{verb}", json=body).status_code == 422


def test_status_tells_what_runs_and_what_could(world: World, operator: TestClient) -> None:
    operator.post("/scheduler/jobs/sync_daily/schedule", json={"hour": 18, "minute": 30})
    schedules.create(world, a_schedule("off", enabled=False))

    result = operator.get("/scheduler/status").json()

    assert result["is_running"] is False
    assert result["available_jobs"] == ["sync_daily", "sync_history"]
    assert result["jobs"] == [
        {
            "id": "sync_daily",
            "name": "sync_daily",
            "next_run_time": "2030-01-07T18:30:00Z",
            "trigger": "cron: 30 18 * * * (UTC)",
            "kwargs": {},
        }
    ]


def test_a_scheduler_runs_while_a_worker_is_seen(world: World, clock: VirtualClock, operator: TestClient) -> None:
    node = Node("n", "host", 1, "0", NOON, NOON, {"default": 1})
    world.store.transact(lambda tx: tx.nodes.put(node))

    assert operator.get("/scheduler/status").json()["is_running"] is True
    clock.advance(4 * MINUTE)
    assert operator.get("/scheduler/status").json()["is_running"] is False


def ran(world: World, clock: VirtualClock, times: int) -> list[str]:
    names = []
    for _ in range(times):
        clock.advance(MINUTE)
        fires.fire_due(world)
        [job] = claims.pull(world, worker_id="w")
        endings.ack(world, job.id, job.token)
        names.append(job.run_id)
    return names


def test_executions_come_newest_first_and_are_cut(world: World, clock: VirtualClock, operator: TestClient) -> None:
    schedules.create(world, a_schedule("sync_daily"))
    names = ran(world, clock, 22)[::-1]

    def result(**params: Any) -> list[str]:
        return [each["id"] for each in operator.get("/scheduler/executions", params=params).json()]

    assert result(job_id="sync_daily") == names[:20]
    assert result(limit=2) == names[:2]
    assert result(job_id="sync_daily", limit=5000) == names
    first = operator.get("/scheduler/executions?limit=1").json()[0]
    assert (first["job_id"], first["status"], first["error_message"]) == ("sync_daily", "SUCCESS", None)
    assert first["duration_ms"] == 0


def test_executions_of_an_unknown_job_are_none(operator: TestClient) -> None:
    answer = operator.get("/scheduler/executions?job_id=nobody")
    assert (answer.status_code, answer.json()) == (200, [])


def test_a_tenant_sees_its_own_and_starts_nothing(world: World, clock: VirtualClock, connect: Any) -> None:
    schedules.create(world, a_schedule("sync_daily"))
    ran(world, clock, 1)
    alice = connect("alice", "read")

    assert alice.get("/scheduler/executions").json() == []
    result = alice.get("/scheduler/status").json()
    assert (result["jobs"], result["available_jobs"]) == ([], [])
    assert alice.post("/scheduler/jobs/sync_daily/start", json={"interval_minutes": 5}).status_code == 403
