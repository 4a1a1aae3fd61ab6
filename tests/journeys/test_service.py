"""A real ``horae server`` process: the documents' own curl lines, a crowd at a quota, two tenants who never meet."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import needs
from tests.support import programs

LIMIT = 60
SECONDS = float(os.environ.get("HORAE_FUZZ_SECONDS", "8"))
THREADS = 2  # for each tenant
HORAE = (sys.executable, "-m", "horae")


@dataclass
class Running:
    """A server process, and what it said."""

    url: str
    database: str
    log: Path
    environment: dict[str, str]

    def token(self, owner: str, scopes: str = "tasks,worker") -> str:
        """As document and help say: ``horae token create --owner alice --scopes tasks,worker --json``."""
        response = subprocess.run(
            [*HORAE, "token", "create", "--owner", owner, "--scopes", scopes, "--json", "--db", self.database],
            check=True, capture_output=True, text=True, env=self.environment,
        )  # fmt: skip
        text: str = json.loads(response.stdout)["token"]
        return text

    def client(self, token: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=LIMIT)


Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """``serve(database_url, HORAE_X="1")``: a migrated database and a server on it, without limits of calls."""
    begun: list[subprocess.Popen[str]] = []

    def start(database: str, **more: str) -> Running:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
        free = dict.fromkeys(("HORAE_CALLS_PER_TOKEN", "HORAE_CALLS_PER_ADDRESS", "HORAE_WRONG_PER_ADDRESS"), "0")
        environment = {**kept, **free, **more}
        subprocess.run([*HORAE, "db", "migrate", "--db", database], check=True, capture_output=True, env=environment)
        log = tmp_path / "server.log"
        with log.open("w") as err:
            process = subprocess.Popen(
                [*HORAE, "server", "--port", "0", "--json", "--db", database],
                cwd=tmp_path, stdout=subprocess.PIPE, stderr=err, text=True, env=environment,
            )  # fmt: skip
        begun.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            response = json.loads(line)
            if response["event"] == "started":
                return Running(response["url"], database, log, environment)
        raise AssertionError(f"it never started: {log.read_text()[-2000:]}")

    yield start
    for process in begun:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


# -- the documents' own lines ----------------------------------------------------------------------------------------

INTERVAL = """
curl -X POST "$API_BASE/scheduled-tasks" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{
    "name": "demo interval",
    "enabled": true,
    "schedule_type": "interval",
    "schedule_expr": "60",
    "timezone": "UTC",
    "payload": {
      "text": "每天 9 点提醒我打卡",
      "context": {"channel":"scheduled_task"}
    }
  }'
"""
ONCE = """
curl -X POST "$API_BASE/scheduled-tasks" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{
    "name": "demo once",
    "schedule_type": "once",
    "timezone": "UTC",
    "next_run_at": "2026-02-27T01:30:00",
    "payload": {"text":"hello","mode":"hybrid"}
  }'
"""
# Document 000 prints bodies and addresses; these are its curl lines.
POST = """
curl -X POST "$API_BASE{address}" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{body}'
"""
ENQUEUE = """{
  "object_type": "cognition",
  "object_id": "cg_123",
  "action": "revalidate",
  "run_at": "2026-02-21T00:00:00Z",
  "priority": "medium"
}"""
PULL = """{
  "now": "2026-02-21T00:00:10Z",
  "limit": 100,
  "worker_id": "worker-1"
}"""
ACK = """{
  "result": "succeeded",
  "audit_event_id": "aud_789",
  "next_action_at": "2026-02-28T00:00:00Z"
}"""
FAIL = """{
  "error": "timeout while verifying evidence",
  "retry_delay_sec": 300
}"""


def shell(line: str, url: str, token: str) -> dict[str, Any]:
    """What a line answers in a plain shell."""
    needs(programs.CURL)
    ended = subprocess.run(
        ["sh", "-c", line], env={"API_BASE": url, "TOKEN": token, "PATH": os.environ["PATH"]},
        check=True, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    response: dict[str, Any] = json.loads(ended.stdout)
    return response


def later(text: str) -> str:
    """The same in a year that has not passed yet: document 000 wants instants of the future."""
    return text.replace("2026-", "2099-")


def test_the_curl_lines_of_document_001_work_as_printed(serve: Serve, sqlite_database_url: str) -> None:
    """S1-1…S1-8: with a token from the command line. The payload's mode is kept (S1-26), and the printed date has
    passed: the answer says so.
    """
    server = serve(sqlite_database_url)
    alice = server.token("alice")
    made = shell(INTERVAL, server.url, alice)
    assert (made["name"], made["enabled"], made["schedule_expr"]) == ("demo interval", True, "60")
    assert made["payload"]["text"] == "每天 9 点提醒我打卡"
    assert made["next_run_at"] is not None

    once = shell(ONCE, server.url, alice)
    assert (once["schedule_type"], once["next_run_at"], once["enabled"]) == ("once", "2026-02-27T01:30:00Z", True)
    assert once["payload"] == {"text": "hello", "mode": "hybrid"}
    assert [warning.partition(" ")[0] for warning in once["warnings"]] == ["next_run_at"]
    listed = shell('curl "$API_BASE/scheduled-tasks" -H "Authorization: Bearer $TOKEN"', server.url, alice)
    assert [task["name"] for task in listed["items"]] == ["demo once", "demo interval"]


def test_the_requests_of_document_000_work_as_printed(serve: Serve, sqlite_database_url: str) -> None:
    """S0-7…S0-20: enqueue, pull, ack and fail; in a simulation, so that the printed `now` counts (C-36)."""
    server = serve(sqlite_database_url, HORAE_SIMULATION="1")
    alice = server.token("alice")

    def post(address: str, body: str) -> dict[str, Any]:
        return shell(POST.format(address=address, body=body), server.url, alice)

    past = post("/scheduler/jobs", ENQUEUE)
    assert (past["status"], past["code"]) == (422, "past_due"), "`run_at` must be >= now"
    for name in ("one", "two"):
        job = post("/scheduler/jobs", later(ENQUEUE.replace("cg_123", name)))
        assert (job["status"], job["priority"], job["attempt"], job["max_attempts"]) == ("queued", "medium", 0, 3)
    first, second = post("/scheduler/jobs/pull", later(PULL))["jobs"]
    assert [first["status"], second["status"]] == ["running", "running"]
    assert post(f"/scheduler/jobs/{first['job_id']}/ack", later(ACK))["status"] == "succeeded"
    failed = post(f"/scheduler/jobs/{second['job_id']}/fail", FAIL)
    assert (failed["status"], failed["attempt"]) == ("queued", 1)
    assert (failed["last_error"], failed["run_at"]) == ("timeout while verifying evidence", "2099-02-21T00:05:00Z")


# -- a crowd ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def test_the_twenty_first_enabled_task_is_refused_under_fifty_at_once(
    kind: str, serve: Serve, request: pytest.FixtureRequest
) -> None:
    """S1-33, C-30, security check 18: never above the limit, and never below it."""
    server = serve(request.getfixturevalue(f"{kind}_database_url"))
    with server.client(server.token("alice")) as alice, ThreadPoolExecutor(50) as crowd:
        body = {"schedule_type": "interval", "schedule_expr": "3600", "payload": {"text": "x"}}
        answers = list(
            crowd.map(lambda number: alice.post("/scheduled-tasks", json={**body, "name": str(number)}), range(50))
        )
        response = sorted(answer.status_code for answer in answers)
        assert response == [201] * 20 + [409] * 30, [
            answer.text for answer in answers if answer.status_code not in (201, 409)
        ]
        refused = next(answer for answer in answers if answer.status_code == 409)
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["allowed"] == 20
        assert len(alice.get("/scheduled-tasks").json()["items"]) == 20


# -- two tenants -----------------------------------------------------------------------------------------------------


MADE_AT = {
    ("POST", "/scheduler/jobs"): ("job", "job_id"),
    ("POST", "/scheduled-tasks"): ("task", "id"),
    ("POST", "/schedules"): ("schedule", "key"),
}


@dataclass
class Tenant:
    """Somebody who does whatever comes to mind, with a mark on everything, and looks for another's mark everywhere."""

    mark: str
    foreign: str
    token: str
    url: str
    seed: int
    ids: dict[str, list[str]] = field(default_factory=lambda: {"job": [], "task": [], "schedule": []})
    guessed: list[str] = field(default_factory=list)  # ids of everybody, the other one's among them
    complaints: list[str] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    accepted: int = 0

    def act(self, until: float) -> None:
        dice = random.Random(self.seed)
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=LIMIT) as http:
            while self.goes_on(until) and not self.complaints:
                method, path, body = self.idea(dice)
                answer = http.request(method, path, json=body)
                self.judge(method, path, answer)

    def goes_on(self, until: float) -> bool:
        """For as long as told, and on a slow machine until it has made something and tried what is not its own."""
        left = until - time.monotonic()
        return left > 0 or (left > -LIMIT and not (self.accepted and self.statuses.get(404)))

    def judge(self, method: str, path: str, answer: httpx.Response) -> None:
        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
        response = f"{method} {path} -> {answer.status_code} {answer.text[:300]}"
        repeats = self.foreign in path and not answer.is_success  # "There is no tenant 'bob'." tells nothing
        if not repeats and (self.foreign in answer.text or self.foreign in str(answer.headers)):
            self.complaints.append(f"{self.mark} saw {self.foreign}: {response}")
        if answer.status_code >= 500 and answer.status_code not in (503, 507):
            self.complaints.append(response)
        kind, name = MADE_AT.get((method, path), ("", ""))
        if kind and answer.is_success:
            made = answer.json()[name]
            self.ids[kind].append(made)
            self.guessed.append(made)
            self.accepted += 1

    def some(self, dice: random.Random, kind: str) -> str:
        """One of mine, or of anybody."""
        known = [each for each in self.guessed if each.startswith(kind)] if dice.random() < 0.5 else []
        return dice.choice(known or self.ids[kind] or ["job_1" if kind == "job" else f"{kind}_{'0' * 32}"])

    def idea(self, dice: random.Random) -> tuple[str, str, Any]:
        job, task, key = (self.some(dice, kind) for kind in ("job", "task", "schedule"))
        mark = f"{self.mark}-{dice.randrange(40)}"
        named = {"reason": mark}
        token = dice.randrange(1, 4)
        work: dict[str, Any] = {"handler": "work", "payload": {"m": mark}}
        ideas: list[tuple[str, str, Any]] = [
            ("POST", "/scheduler/jobs", {**work, "tags": [mark], "unique": mark}),
            ("POST", "/scheduler/jobs", {**work, "idempotency_key": f"same-{token}"}),
            ("POST", "/scheduler/jobs/bulk", {"jobs": [work] * 3}),
            ("POST", "/scheduler/jobs/pull", {"worker_id": mark, "limit": dice.randrange(1, 5), "lease_sec": 1}),
            ("POST", f"/scheduler/jobs/{job}/ack", {"result": {"m": mark}, "token": token}),
            ("POST", f"/scheduler/jobs/{job}/fail", {"error": mark, "token": token}),
            ("POST", f"/scheduler/jobs/{job}/renew", {"token": token}),
            ("POST", f"/scheduler/jobs/{job}/progress", {"token": token, "value": mark}),
            ("POST", f"/scheduler/jobs/{job}/release", {"token": token, "reason": mark}),
            ("POST", f"/scheduler/jobs/{job}/cancel", named),
            ("POST", f"/scheduler/jobs/{job}/revive", named),
            ("POST", "/scheduler/jobs/revive", {"dry_run": dice.random() < 0.5, "handler": "work"}),
            ("GET", f"/scheduler/jobs/{job}", None), ("GET", f"/scheduler/jobs/{job}/runs", None),
            ("GET", f"/scheduler/jobs/{job}/why", None), ("GET", "/scheduler/jobs?limit=1000", None),
            ("GET", "/scheduler/dead-letters", None), ("GET", f"/scheduler/jobs?owner={self.foreign}", None),
            ("POST", "/scheduled-tasks", {"name": mark, "payload": {"text": mark}}),
            ("PUT", f"/scheduled-tasks/{task}", {"name": mark, "enabled": dice.random() < 0.5}),
            ("GET", f"/scheduled-tasks/{task}", None), ("GET", f"/scheduled-tasks/{task}/runs", None),
            ("POST", f"/scheduled-tasks/{task}/trigger", {"payload": {"text": mark}}),
            ("DELETE", f"/scheduled-tasks/{task}", None), ("GET", "/scheduled-tasks?limit=1000", None),
            ("POST", f"/scheduled-tasks/{task}/release", None), ("GET", f"/scheduled-tasks/{task}/why", None),
            ("POST", "/schedules", {"key": f"schedule-{mark}", "handler": "dispatch", "every": 3600, "title": mark}),
            ("PATCH", f"/schedules/{key}", {"title": mark}), ("GET", f"/schedules/{key}", None),
            ("POST", f"/schedules/{key}/trigger", named), ("DELETE", f"/schedules/{key}", None),
            ("GET", f"/schedules/{key}/history", None), ("GET", f"/schedules/{key}/versions", None),
            ("GET", "/schedules?limit=1000", None), ("GET", f"/schedules?owner={self.foreign}", None),
            ("GET", "/audit?limit=1000", None), ("GET", f"/audit?owner={self.foreign}", None),
            ("GET", "/queues", None), ("GET", "/queues/scheduler", None), ("GET", "/forecast", None),
            ("GET", "/workers", None), ("GET", "/secrets", None), ("GET", "/scheduler/executions", None),
            ("GET", "/admin/job/list", None), ("GET", "/admin/job-log/page", None),
        ]  # fmt: skip
        return dice.choice(ideas)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def test_two_tenants_under_concurrent_fuzzing_never_see_each_other(
    kind: str, serve: Serve, request: pytest.FixtureRequest
) -> None:
    """Security check 2: every answer to either is searched for the other's mark; both know each other's ids."""
    server = serve(request.getfixturevalue(f"{kind}_database_url"))
    tokens = {mark: server.token(mark, "tasks,worker,read") for mark in ("alicemark", "bobmark")}
    guessed: list[str] = []
    crew = [
        Tenant(mark, foreign, tokens[mark], server.url, seed, guessed=guessed)
        for mark, foreign in (("alicemark", "bobmark"), ("bobmark", "alicemark"))
        for seed in range(THREADS)
    ]
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=tenant.act, args=(until,)) for tenant in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [complaint for tenant in crew for complaint in tenant.complaints] == []
    for tenant in crew:
        assert tenant.accepted > 0, tenant.statuses
        assert tenant.statuses.get(404, 0) > 0, "nobody tried the other's ids"
    assert "Traceback" not in server.log.read_text()
