"""A walk through the doors with a generated client; run in the environment that has it: walk.py URL TOKEN."""

import sys
from http import HTTPStatus
from importlib import import_module
from typing import Any

URL, TOKEN = sys.argv[1:]
HOURLY = {"schedule_type": "interval", "schedule_expr": "3600", "timezone": "UTC"}
CLIENT = import_module("horae_generated.client").AuthenticatedClient(base_url=URL, token=TOKEN)


def call(door: str, model: str = "", body: Any = None, status: int = HTTPStatus.OK, **arguments: Any) -> Any:
    """Call one operation, named by tag and id; returns the answer as JSON, read by the generated model."""
    if model:
        kind = getattr(import_module("horae_generated.models"), model)
        arguments["body"] = kind.from_dict(body or {})
    answer = import_module(f"horae_generated.api.{door}").sync_detailed(client=CLIENT, **arguments)
    assert answer.status_code == status, (door, answer.status_code, answer.content)
    assert answer.parsed is not None or status == HTTPStatus.NO_CONTENT, f"{door}: the answer could not be read"
    return None if answer.parsed is None else answer.parsed.to_dict()


def our_doors() -> None:
    made = call("jobs.enqueue", "NewJob", {"handler": "resize", "payload": {"image": 7}, "queue": "walk"}, 201)
    assert call("jobs.get", job_id=made["id"])["state"] == "queued"
    (job,) = call("workers.claim", "Claim", {"worker_id": "w", "queues": ["walk"]})["items"]
    ending = {"job_id": job["id"], "token": job["token"], "outcome": "succeeded", "result": {"width": 640}}
    call("workers.settle", "Settle", {"endings": [ending]})
    assert call("jobs.get", job_id=made["id"])["state"] == "succeeded"
    assert [each["id"] for each in call("jobs.list_jobs", queue="walk")["items"]] == [made["id"]]
    assert call("queues.pause_queue", "ReasonBody", {"reason": "walk"}, name="walk")["pause_reason"] == "walk"
    token = call("tokens.create_token", "NewToken", {"owner": "alice", "scopes": ["read"]}, 201)
    assert call("tokens.revoke_token", token_id=token["id"])["state"] == "revoked"
    assert call("audit.verify_audit")["sound"] is True
    assert call("runs.list_runs")["items"] == []
    call("schedules.create_schedule", "NewSchedule", {"key": "hourly", "handler": "resize", "every": 3600}, 201)
    assert call("schedules.get_schedule", key="hourly")["handler"] == "resize"


def document_000() -> None:
    made = call("jobs.enqueue_job", "JobRequest", {"handler": "resize", "queue": "walk-000"}, 201)
    (job,) = call("worker_protocol.pull_jobs", "Pull", {"worker_id": "w", "queues": ["walk-000"]})["jobs"]
    assert job["job_id"] == made["job_id"]
    done = call("worker_protocol.ack_job", "AckJob", {"token": job["token"]}, job_id=job["job_id"])
    assert done["status"] == "succeeded"


def document_001() -> None:
    made = call(
        "scheduled_tasks.create_task", "TaskBody", {"name": "water", "payload": {"text": "ferns"}, **HOURLY}, 201
    )
    assert call("scheduled_tasks.get_task", task_id=made["id"])["schedule_expr"] == "3600"
    call("scheduled_tasks.delete_task", task_id=made["id"], status=204)


our_doors()
document_000()
document_001()
print("walked")
