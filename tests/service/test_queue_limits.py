"""A token that is limited to queues reaches what is in them, and nothing else, at every door."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.schedules import schedules
from horae.ports.world import World
from horae.service.documents import example_of, operations
from horae.testing.builders import a_schedule
from tests.service.conftest import Connect

JOBS = "/scheduler/jobs"
TASKS = "/scheduled-tasks"
MARK = "elsewhere"
CALLERS = {
    "a tenant's": ("alice", "tasks", "worker", "read"),
    "the house's worker": ("system", "tasks", "worker", "read"),
    "an operator's": ("system", "admin"),
}


@pytest.fixture
def whole(connect: Connect) -> TestClient:
    """Alice with a token that is not limited."""
    return connect("alice", "tasks", "worker", "read")


@pytest.fixture(params=CALLERS)
def narrow(request: pytest.FixtureRequest, connect: Connect) -> TestClient:
    """Somebody who could otherwise see it all, limited to the queue mail."""
    owner, *scopes = CALLERS[request.param]
    return connect(owner, *scopes, queues=("mail",))


@pytest.fixture
def outside(whole: TestClient, world: World) -> dict[str, str]:
    """Things of alice's that belong to other queues, by the name of the parameter that would reach them."""

    def made(path: str, **body: Any) -> Any:
        answer = whole.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    jobs = [made(JOBS, handler=MARK, payload={"x": MARK}, queue="other", tags=[MARK]) for _ in range(4)]
    (first, second) = whole.post(f"{JOBS}/pull", json={"worker_id": MARK, "limit": 2, "queues": ["other"]}).json()[
        "jobs"
    ]
    made(f"{JOBS}/{second['job_id']}/fail", error=MARK, token=second["token"], final=True)
    assert first["job_id"] == jobs[0]["job_id"]
    task = made(TASKS, name=MARK, payload={"text": MARK})
    for owner in ("alice", "system"):
        schedules.create(
            world, a_schedule(MARK, queue="other", owner=owner, handler="dispatch", title=MARK, group=MARK)
        )
    act = made("/acts", verb="reschedule", where="queue:other", delay=3600, reason=MARK)
    whole.post(f"/acts/{act['id']}/pause", json={})
    batch = made("/batches", jobs=[{"handler": MARK, "queue": "other"}], name=MARK)
    return {
        "act_id": act["id"], "batch_id": batch["id"], "by": "queue", "fingerprint": "0" * 32,
        "job_id": jobs[0]["job_id"], "task_id": task["id"], "key": MARK, "id": MARK, "jobId": MARK, "group": MARK,
        "name": "other", "owner": "alice", "user_id": "alice", "lane": MARK, "token_id": "0" * 12, "wait": "1",
        "seq": "1", "run_id": f"{jobs[0]['job_id']}.1", "view_id": "view_1", "worker_id": MARK,
        "agent": MARK, "decision_id": "dec_1", "kind": "memory", "object_id": "mem_1", "review_id": "rev_1",
        "rollback_id": "rol_1", "session_id": "0" * 12, "unit": "usd",
    }  # fmt: skip


def told_of(whole: TestClient) -> list[str]:
    paths = [JOBS, TASKS, "/schedules", "/queues", "/audit", "/scheduler/dead-letters"]
    jobs = [job["job_id"] for job in whole.get(JOBS).json()["jobs"]]
    told = [whole.get(path).text for path in [*paths, *(f"{JOBS}/{job}/runs" for job in jobs)]]
    return [
        re.sub(r'\{"id":\d+,[^{}]*"object_type":"login_code".*?"after":\{[^{}]*\}[^{}]*\},?', "", text) for text in told
    ]


@pytest.mark.slow
def test_no_operation_shows_or_changes_what_is_in_another_queue(
    narrow: TestClient, whole: TestClient, outside: dict[str, str]
) -> None:
    document = whole.get("/openapi.json").json()
    before, seen, tried = told_of(whole), [], 0
    for path, method, operation in operations(document):
        address = re.sub(r"{(\w+)}", lambda found: outside[found[1]], path)
        parameters = [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
        for query in ({}, {name: outside[name] for name in parameters if name in outside}):
            answer = narrow.request(method, address, params=query, json=example_of(operation, document))
            tried += 1
            if answer.is_success and (MARK in answer.text or "other" in answer.text):
                seen.append((method, path, query, answer.text))
            if answer.is_success and "{" in path:
                seen.append((method, path, query, answer.text))
    assert seen == []
    assert tried > 100
    assert told_of(whole) == before


@pytest.mark.parametrize("job", ["queued", "running", "dead"])
def test_a_job_of_another_queue_does_not_exist(
    job: str, narrow: TestClient, whole: TestClient, outside: dict[str, str]
) -> None:
    word = {"dead": "dead_letter"}.get(job, job)
    job_id = whole.get(JOBS, params={"status": word}).json()["jobs"][0]["job_id"]
    verbs: dict[str, Any] = {
        "cancel": {}, "revive": {}, "reschedule": {"priority": "high"}, "ack": {"token": 1}, "renew": {"token": 1},
        "fail": {"error": "x", "token": 1}, "progress": {"token": 1, "value": 1}, "release": {"token": 1},
    }  # fmt: skip
    result = {path: narrow.get(f"{JOBS}/{job_id}{path}") for path in ("", "/runs", "/why")}
    result |= {verb: narrow.post(f"{JOBS}/{job_id}/{verb}", json=body) for verb, body in verbs.items()}
    unknown = narrow.get(f"{JOBS}/job_987654").json()["detail"]

    assert {answer.status_code for answer in result.values()} == {404}
    assert narrow.get(f"{JOBS}/{job_id}").json()["detail"].replace(job_id, "job_987654") == unknown
    assert whole.get(f"{JOBS}/{job_id}").json()["status"] == word


def test_lists_and_counts_are_of_its_own_queues(narrow: TestClient, whole: TestClient, outside: dict[str, str]) -> None:
    mine = whole.post(JOBS, json={"handler": "send", "queue": "mail"}).json()["job_id"]

    assert [job["job_id"] for job in narrow.get(JOBS).json()["jobs"]] == [mine]
    assert narrow.get(JOBS, params={"queue": "other"}).json()["jobs"] == []
    assert narrow.get("/scheduler/dead-letters").json()["jobs"] == []
    assert narrow.get(TASKS).json()["items"] == []
    assert [queue["name"] for queue in narrow.get("/queues").json()["items"]] == ["mail"]
    assert narrow.get("/queues/other").status_code == 404
    assert narrow.get("/forecast").json()["fires"] == []
    revived = narrow.post(f"{JOBS}/revive", json={"dry_run": False}).json()
    assert (revived["matched"], revived["revived"]) == (0, 0)


def test_it_works_with_what_is_in_its_queues(connect: Connect, world: World) -> None:
    mail = connect("alice", "tasks", "worker", "read", queues=("mail", "default"))
    job = mail.post(JOBS, json={"handler": "send", "queue": "mail"}).json()["job_id"]
    task = mail.post(TASKS, json={"name": "mine", "payload": {"text": "x"}}).json()["id"]
    schedules.create(world, a_schedule("mine", queue="mail", owner="alice"))
    (pulled,) = mail.post(f"{JOBS}/pull", json={"worker_id": "w", "queues": ["mail"]}).json()["jobs"]

    assert pulled["job_id"] == job
    assert mail.post(f"{JOBS}/{job}/ack", json={"token": pulled["token"]}).is_success
    assert mail.get(f"{TASKS}/{task}").json()["name"] == "mine"
    assert mail.post(f"{TASKS}/{task}/trigger").status_code == 202
    assert mail.get("/schedules/mine").json()["queue"] == "mail"
    assert {fire["queue"] for fire in mail.get("/forecast").json()["fires"]} == {"mail", "default"}


def test_it_puts_nothing_into_other_queues(narrow: TestClient, outside: dict[str, str]) -> None:
    refused = [
        narrow.post(JOBS, json={"handler": "w", "queue": "other"}),
        narrow.post(JOBS, json={"handler": "w"}),
        narrow.post(f"{JOBS}/bulk", json={"jobs": [{"handler": "w", "queue": "mail"}, {"handler": "w"}]}),
        narrow.post(f"{JOBS}/pull", json={"worker_id": "w", "queues": ["mail", "other"]}),
        narrow.post(TASKS, json={"name": "x", "payload": {"text": "x"}}),
        narrow.post(f"{TASKS}/preview", json={"name": "x", "payload": {"text": "x"}}),
    ]
    assert [answer.status_code for answer in refused] == [403] * 6


def test_a_name_that_is_taken_in_another_queue_tells_nothing_of_who_has_it(connect: Connect) -> None:
    whole, mail = connect("alice"), connect("alice", queues=("mail",))
    taken = whole.post(JOBS, json={"handler": MARK, "unique": "u", "queue": "other"})
    assert taken.status_code == 201

    bulk = {"jobs": [{"handler": "w", "queue": "mail"}, {"handler": "w", "queue": "mail", "unique": "u"}]}
    answers = [
        mail.post(JOBS, json={"handler": "w", "unique": "u", "queue": "mail"}),
        mail.post(f"{JOBS}/bulk", json=bulk),
    ]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(409, "conflict")] * 2
    assert MARK not in "".join(answer.text for answer in answers)
    assert mail.get(JOBS).json()["jobs"] == [], "all or none"


def test_a_task_of_its_queue_cannot_be_led_into_another(connect: Connect) -> None:
    handlers = {"dispatch": _Handler("mail"), "webhook": _Handler("other")}
    mail = connect("alice", "tasks", queues=("mail",), handlers=lambda: handlers)
    task = mail.post(TASKS, json={"name": "x", "payload": {"text": "x"}}).json()["id"]

    moved = mail.put(f"{TASKS}/{task}", json={"handler": "webhook", "payload": {"url": "https://example.org/"}})

    assert moved.status_code == 403
    assert mail.get(f"{TASKS}/{task}").json()["handler"] == "dispatch"


class _Handler:
    def __init__(self, queue: str) -> None:
        self.queue = queue
