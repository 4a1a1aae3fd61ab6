"""The checks a reviewer will try, where no other test shows them; docs/explanation/security-checks.md lists all."""

import random
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.routing import compile_path

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.attention import Attention
from horae.core.attention.directives import Done
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.documents import METHODS, example_of, operations
from horae.service.options import Options
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.service.conftest import Connect

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/security-checks.md"
MARK = "hersmark"
ID = re.compile(r"job_\d+|task_[0-9a-f]{32}|[0-9a-f]{32}|token/[0-9a-f]{12}")


def test_every_test_that_the_page_names_exists() -> None:
    """And every one of the twenty checks has a line of its own."""
    text = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    lost = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists() or f"def {test}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert lost == []
    assert len(named) > 30
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == list(range(1, 21))


# -- 2: another tenant's things --------------------------------------------------------------------------------------


@pytest.fixture
def alice(connect: Connect) -> TestClient:
    return connect("alice", "tasks", "worker", "read")


@pytest.fixture
def bob(connect: Connect) -> TestClient:
    return connect("bob", "tasks", "worker", "read")


@pytest.fixture
def hers(alice: TestClient, operator: TestClient) -> dict[str, tuple[str, str]]:
    """Things of alice's, each with something that nobody has, by the name of the parameter."""

    def made(path: str, by: TestClient = alice, **body: Any) -> Any:
        answer = by.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    jobs = [made("/scheduler/jobs", handler=MARK, payload={"x": MARK}, queue="hersqueue") for _ in range(3)]
    alice.post("/scheduler/jobs/pull", json={"worker_id": MARK, "limit": 1, "queues": ["hersqueue"]})
    tasks = [made("/scheduled-tasks", name=f"{MARK}{number}", payload={"text": MARK}) for number in range(3)]
    for number in range(3):
        schedule = {"key": f"{MARK}{number}", "handler": "dispatch", "every": 3600, "group": f"{MARK}-group"}
        made("/schedules?owner=alice", operator, **schedule)
        made(f"/schedules/{MARK}0/trigger?owner=alice", operator, reason=MARK)
    return {
        "job_id": (jobs[0]["job_id"], "job_987654"),
        "task_id": (tasks[0]["id"], f"task_{'0' * 32}"),
        "key": (f"{MARK}0", "nothing"),
        "id": (f"{MARK}0", "nothing"),
        "jobId": (f"{MARK}0", "nothing"),
        "group": (f"{MARK}-group", "nothing"),
        "name": ("hersqueue", "nothing"),
        "owner": ("alice", "noone"),
        "user_id": ("alice", "noone"),
        "token_id": ("0" * 12, "1" * 12),
    }


def told_of(client: TestClient) -> list[str]:
    """All that a tenant can see."""
    lists = (
        "/scheduler/jobs",
        "/scheduled-tasks",
        "/schedules",
        "/secrets",
        "/audit",
        "/queues",
        "/scheduler/dead-letters",
    )
    answers = [client.get(path) for path in lists]
    jobs = [job["job_id"] for job in answers[0].json()["jobs"]]
    answers += [client.get(f"/scheduler/jobs/{job}{more}") for job in jobs for more in ("", "/runs")]
    return [answer.text for answer in answers]


@pytest.mark.slow
def test_somebody_elses_things_answer_as_if_they_were_not_there(
    alice: TestClient, bob: TestClient, hers: dict[str, tuple[str, str]]
) -> None:
    """Security check 2, C-27: over every operation of the document that takes an id or names a tenant."""
    document = bob.get("/openapi.json").json()
    before = told_of(alice)
    different, tried = [], 0
    for path, method, operation in operations(document):
        parameters = [each["name"] for each in operation.get("parameters", []) if each["in"] in ("path", "query")]
        for wanted in [name for name in parameters if name in hers]:
            answers = []
            for which in (0, 1):
                address = path
                for name in re.findall(r"{(\w+)}", path):
                    known = hers.get(name, (MARK, "nothing"))
                    address = address.replace(f"{{{name}}}", known[which if name == wanted else 1])
                query = {wanted: hers[wanted][which]} if f"{{{wanted}}}" not in path else {}
                query |= {name: "nothing" for name in ("id",) if name in parameters and name != wanted}
                answer = bob.request(method, address, params=query, json=example_of(operation, document))
                text = answer.text.replace(hers[wanted][which], "…").replace("nothing", "…").replace(repr(address), "…")
                answers.append((answer.status_code, text))
                if answer.is_success and MARK in text:
                    different.append((method, path, wanted, text))
            tried += 1
            if answers[0] != answers[1]:
                different.append((method, path, wanted, *answers))
    assert different == []
    assert tried > 60
    assert told_of(alice) == before, "and nothing has happened to hers"


@pytest.mark.slow
def test_somebody_elses_cursor_leads_through_ones_own(
    alice: TestClient, bob: TestClient, hers: dict[str, tuple[str, str]]
) -> None:
    """Security check 2: a cursor says where to go on, and never whose list."""
    followed = 0
    for path, method, operation in operations(bob.get("/openapi.json").json()):
        names = [each["name"] for each in operation.get("parameters", [])]
        if method != "get" or "cursor" not in names:
            continue
        address = path.replace("{task_id}", hers["task_id"][0]).replace("{key}", hers["key"][0])
        page = alice.get(address, params={"limit": 1})
        if page.is_success and page.json().get("next_cursor"):
            answer = bob.get(address, params={"limit": 1000, "cursor": page.json()["next_cursor"]})
            followed += 1
            assert answer.status_code in (200, 404), (address, answer.text)
            assert answer.status_code == 404 or MARK not in answer.text, (address, answer.text)
    assert followed >= 4


def test_tenants_whose_names_meet_share_no_history(connect: Connect, operator: TestClient) -> None:
    """Security check 2: the audit names a schedule `owner/key`, and both may contain a slash."""
    for owner, key in (("a/b", "c"), ("a", "b/c"), ("system", "a/b/c")):
        made = operator.post(
            f"/schedules?owner={owner}", json={"key": key, "handler": "work", "every": 60, "title": f"of {owner}"}
        )
        assert made.status_code == 201, made.text
    for owner, key in (("a/b", "c"), ("a", "b/c")):
        (version,) = connect(owner, "read").get(f"/schedules/{key}/versions").json()["items"]
        assert version["after"]["title"] == f"of {owner}"
    (version,) = operator.get("/schedules/a/b/c/versions").json()["items"]
    assert version["after"]["title"] == "of system"


def test_the_longest_names_fit_every_database(database_url: str) -> None:
    """Security check 15: what the document allows never reaches a column that is too short for it."""
    owner, key = "Ω" * 255, "k/" + "é" * 198
    with Horae(database_url) as app:
        migrate(app.engine)
        client = TestClient(build(lambda: app.world, Options(version="test")))
        _, token = create_token(app.world, owner="system", scopes=["admin"])
        client.headers["Authorization"] = f"Bearer {token}"
        body = {"key": key, "handler": "h" * 200, "every": 1, "group": "g" * 100, "title": "t" * 255}
        assert client.post("/schedules", params={"owner": owner}, json=body).status_code == 201
        triggered = client.post(f"/schedules/{key}/trigger", params={"owner": owner}, json={"reason": "r" * 2000})
        assert triggered.status_code == 200, triggered.text
        for verb in ("pause", "resume"):
            assert client.post(f"/schedules/{key}/{verb}", params={"owner": owner}, json={}).status_code == 200
        response = client.get(f"/schedules/{key}/versions", params={"owner": owner}).json()["items"]
        assert [version["verb"] for version in response] == ["resume", "pause", "trigger", "create"]


# -- 3: no row level security, so the mirror --------------------------------------------------------------------------

Idea = tuple[str, str, Any]


def ideas(dice: random.Random, who: str, known: list[str]) -> Idea:
    """Something a tenant may do; ids are chosen by their place, so that both worlds choose the same."""
    job = known[dice.randrange(len(known))] if known else "job_987654"
    work = {"handler": "work", "payload": {"n": dice.randrange(9)}, "tags": [who]}
    key = f"key{dice.randrange(3)}"
    return dice.choice([
        ("POST", "/scheduler/jobs", work),
        ("POST", "/scheduler/jobs", {**work, "idempotency_key": key}),
        ("POST", "/scheduler/jobs", {**work, "unique": key}),
        ("POST", "/scheduler/jobs", {**work, "concurrency_key": key, "concurrency_limit": 1}),
        ("POST", "/scheduler/jobs/pull", {"worker_id": "w", "limit": dice.randrange(1, 4), "lease_sec": 30}),
        ("POST", f"/scheduler/jobs/{job}/ack", {"token": dice.randrange(1, 3), "result": 1}),
        ("POST", f"/scheduler/jobs/{job}/fail", {"token": dice.randrange(1, 3), "error": "no", "retry_delay_sec": 1}),
        ("POST", f"/scheduler/jobs/{job}/cancel", {}),
        ("POST", f"/scheduler/jobs/{job}/revive", {}),
        ("GET", f"/scheduler/jobs/{job}", None),
        ("GET", "/scheduler/jobs", None),
        ("POST", "/schedules", {"key": key, "handler": "dispatch", "every": 60}),
        ("POST", f"/schedules/{key}/trigger", {}),
        ("DELETE", f"/schedules/{key}", None),
        ("GET", "/schedules", None),
        ("POST", "/scheduled-tasks", {"name": key, "payload": {"text": "x"}}),
        ("GET", "/scheduled-tasks", None),
        ("GET", "/queues", None),
    ])  # fmt: skip


class Mirror:
    """One world, and what a tenant sees in it, with ids by the order in which that tenant met them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.clock = VirtualClock()
        self.app = Horae(f"sqlite:///{folder / 'horae.db'}", clock=self.clock)
        self.service = build(lambda: self.app.world, Options(version="test"))
        self.known: dict[str, list[str]] = {"alice": [], "bob": []}
        self.names: dict[str, str] = {}
        self.clients = {who: self._client(who) for who in self.known}

    def _client(self, who: str) -> TestClient:
        _, token = create_token(self.app.world, owner=who, scopes=["tasks", "worker"])
        return TestClient(self.service, headers={"Authorization": f"Bearer {token}"})

    def act(self, who: str, dice: random.Random) -> str:
        method, path, body = ideas(dice, who, self.known[who])
        answer = self.clients[who].request(method, path, json=body)
        assert answer.status_code < 500, answer.text
        if (method, path) == ("POST", "/scheduler/jobs") and answer.status_code == 201:
            self.known[who].append(answer.json()["job_id"])
        return self._renamed(f"{method} {path} {answer.status_code} {answer.text}") if who == "alice" else ""

    def _renamed(self, text: str) -> str:
        return ID.sub(lambda found: self.names.setdefault(found[0], f"#{len(self.names)}"), text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_a_tenant_sees_is_a_function_of_what_it_did(seed: int, tmp_path: Path) -> None:
    """Security check 3: decision 0060 does without row level security; this holds instead, on every store alike."""
    alone, crowded = Mirror(tmp_path / "alone"), Mirror(tmp_path / "crowded")
    others = random.Random(seed + 1000)
    with alone.app, crowded.app:
        for step in range(60):
            response = alone.act("alice", random.Random(f"{seed} {step}"))
            for _ in range(others.randrange(3)):
                crowded.act("bob", others)
            assert crowded.act("alice", random.Random(f"{seed} {step}")) == response, step
            for world in (alone, crowded):
                world.clock.advance(timedelta(seconds=step % 7))
        assert crowded.known["bob"]


def test_why_tells_a_tenant_nothing_of_what_others_run(
    alice: TestClient, bob: TestClient, operator: TestClient, world: World
) -> None:
    """Neither how many of a queue are running nor who holds a slot; the operator sees both."""
    for _ in range(3):
        bob.post("/scheduler/jobs", json={"handler": "w", "queue": "shared"})
    bob.post("/scheduler/jobs/pull", json={"worker_id": "w", "queues": ["shared"], "limit": 3})
    operator.post("/queues/shared/limit", json={"max_running": 3})
    job = alice.post("/scheduler/jobs", json={"handler": "w", "queue": "shared"}).json()["job_id"]

    hers, whole = (client.get(f"/scheduler/jobs/{job}/why").json()["reasons"] for client in (alice, operator))

    assert "queue_limit" in {reason["code"] for reason in hers}
    assert not [reason for reason in hers if re.search(r"\d", reason["text"].replace(job, ""))]
    assert "3 are running" in " ".join(reason["text"] for reason in whole)


# -- 10: what is sent is data ---------------------------------------------------------------------------------------

PAYLOADS: list[Any] = [
    {"py/object": "antigravity.fly"},
    {"__reduce__": ["antigravity", []]},
    {"yaml": "!!python/object/apply:antigravity.fly []"},
    {"pickle": "gASVHAAAAAAAAACMC2FudGlncmF2aXR5lIwDZmx5lJOUKVKULg=="},
    {"code": "__import__('antigravity')"},
    {"template": "{{ ''.__class__.__mro__[1].__subclasses__() }}", "format": "{0.__class__}"},
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_a_payload_is_data_and_comes_back_as_it_was_sent(payload: Any, alice: TestClient) -> None:
    """Security check 10: nothing is loaded, evaluated or imported."""
    made = alice.post("/scheduler/jobs", json={"handler": "antigravity.fly", "payload": payload})
    assert alice.get(f"/scheduler/jobs/{made.json()['job_id']}").json()["payload"] == payload
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("handler", ["antigravity.fly", "os:system", "__import__", "../x", "a b", "builtins.eval"])
def test_a_users_task_runs_only_what_the_operator_allows(handler: str, alice: TestClient) -> None:
    """Security check 10: a dotted path is a name among others, and this one is not on the list."""
    answer = alice.post("/scheduled-tasks", json={"name": "x", "handler": handler, "payload": {"text": "x"}})
    assert answer.status_code == 422, answer.text
    assert "antigravity" not in sys.modules


# -- 11 and 13: text stays text --------------------------------------------------------------------------------------


HOSTILE = ["<img src=x onerror=alert(1)>", "javascript:alert(1)", "</script><script>alert(1)</script>"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_never_an_answer_that_a_browser_would_run(
    text: str, alice: TestClient, nobody: TestClient
) -> None:
    """Security check 11, for the API: JSON, `nosniff`, a policy without scripts; the page of the API shows no data."""
    alice.post("/scheduler/jobs", json={"handler": "work", "payload": {"x": text}, "tags": [text], "trace_id": "t"})
    alice.post("/scheduled-tasks", json={"name": text, "payload": {"text": text}})
    alice.post("/scheduler/jobs", json={"handler": text})
    alice.get(f"/{text}")
    shown = [
        alice.get("/scheduler/jobs"),
        alice.get("/scheduled-tasks"),
        alice.get(f"/schedules/{text}"),
        nobody.get(f"/{text}"),
    ]
    for answer in shown:
        assert answer.headers["content-type"] in ("application/json", "application/problem+json")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "script-src" not in answer.headers["content-security-policy"]
    page = nobody.get("/docs", headers={"Host": f"a{text}"})
    assert text not in page.text
    assert "<script" not in page.text


ELSEWHERE = ["/?next=//evil.example", "//evil.example/", "/healthz/", "/docs/?next=//evil.example", "/\\evil.example"]


@pytest.mark.parametrize("where", ELSEWHERE)
def test_nothing_redirects(where: str, nobody: TestClient) -> None:
    """Security check 13."""
    answer = nobody.get(f"http://horae.test{where}", follow_redirects=False)
    assert answer.status_code in (401, 404, 405)
    assert "location" not in answer.headers


@pytest.mark.slow
def test_every_address_names_its_methods(operator: TestClient) -> None:
    """405 with the documented methods; where a name may contain a slash, also those of the longer name."""
    document = operator.get("/openapi.json").json()
    templates = [
        (
            compile_path(re.sub(r"{(\w+)}", r"{\1:path}", path))[0],
            {method.upper() for method in METHODS if method in item},
        )
        for path, item in document["paths"].items()
    ]
    for path, item in document["paths"].items():
        answer = operator.request("OPTIONS", re.sub(r"{\w+}", "x", path))
        allowed = set(answer.headers["allow"].split(", "))
        fitting: set[str] = set().union(
            *(methods for regex, methods in templates if regex.match(re.sub(r"{\w+}", "x", path)))
        )
        assert answer.status_code == 405
        assert {method.upper() for method in METHODS if method in item} <= allowed <= fitting, path


# -- 15: types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/scheduler/jobs/pull", {"worker_id": "w", "wait": False}),
        ("/scheduler/jobs/pull", {"worker_id": "w", "limit": True}),
        ("/scheduler/jobs/pull", {"worker_id": "w", "limit": "5"}),
        ("/scheduler/jobs", {"handler": "w", "delay_sec": "5"}),
        ("/scheduler/jobs", {"handler": "w", "max_attempts": True}),
        ("/scheduler/jobs/revive", {"dry_run": 0}),
        ("/scheduler/jobs/revive", {"dry_run": "no"}),
        ("/scheduled-tasks", {"enabled": 1}),
        ("/scheduled-tasks", {"schedule_expr": True}),
        ("/scheduled-tasks", {"schedule_expr": [60]}),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_another_type_is_refused_and_our_own_types_are_not_told(
    path: str, body: dict[str, Any], alice: TestClient
) -> None:
    """Security check 15, found by Schemathesis: `false` was taken for a number, and an error named a function."""
    answer = alice.post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert not re.search(r"function|0x[0-9a-f]{6}|constrained", answer.text)
    assert {each["where"] for each in answer.json()["errors"]} == {f"body.{list(body)[-1]}"}


# -- 17: leases ----------------------------------------------------------------------------------------------------


def test_a_token_for_one_queue_cannot_end_a_job_of_another(alice: TestClient, connect: Connect) -> None:
    """Security check 17: ack of another queue."""
    alice.post("/scheduler/jobs", json={"handler": "work", "queue": "hers"})
    (job,) = alice.post("/scheduler/jobs/pull", json={"worker_id": "w", "queues": ["hers"]}).json()["jobs"]
    other = connect("alice", "worker", queues=("mail",))
    for verb, more in (
        ("ack", {"result": 1}),
        ("fail", {"error": "x"}),
        ("renew", {}),
        ("progress", {"value": 1}),
        ("release", {}),
    ):
        answer = other.post(f"/scheduler/jobs/{job['job_id']}/{verb}", json={"token": job["token"], **more})
        assert answer.status_code == 404, (verb, answer.text)
    assert alice.get(f"/scheduler/jobs/{job['job_id']}").json()["status"] == "running"


# -- 19: the journal -------------------------------------------------------------------------------------------------

EDITS = {
    "edited": "UPDATE horae_journal SET cause = 'nothing' WHERE seq = 2",
    "deleted": "DELETE FROM horae_journal WHERE seq = 2",
    "reordered": "UPDATE horae_journal SET seq = -seq WHERE seq IN (2, 3);"
    "UPDATE horae_journal SET seq = 5 + seq WHERE seq < 0",
}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[tuple[Attention, Path]]:
    file = tmp_path / "ops.db"
    with Attention("ops", store=f"sqlite:///{file}") as agent:

        @agent.cognition("report")
        def report(turn: Any) -> Done:
            return Done({})

        agent.add("report")
        agent.run(until="idle")
        yield agent, file


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_journal_that_was_touched_names_the_line(edit: str, journal: tuple[Attention, Path]) -> None:
    """Security check 19, for the journal of attention; tests/actions/test_audit.py shows it for the audit."""
    agent, file = journal
    assert agent.verify().complaints == ()
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.executescript(edit)
    assert re.search(r"\bline [23]\b", agent.verify().complaints[0])


# -- 20: the canary --------------------------------------------------------------------------------------------------

CANARY = "CANARY5f3a9c1e77d0"


def test_a_canary_shows_only_to_its_owner(
    alice: TestClient, bob: TestClient, nobody: TestClient, operator: TestClient, world: World,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Security check 20: in payloads, headers, addresses and wrong tokens; not in logs, in metrics or for others."""
    caplog.set_level("DEBUG")
    sent: list[Callable[[], Any]] = [
        lambda: alice.post("/scheduler/jobs", json={"handler": "work", "payload": {"password": CANARY}}),
        lambda: alice.post("/scheduler/jobs/pull", json={"worker_id": "w", "limit": 1}),
        lambda: alice.post("/scheduler/jobs/job_1/fail", json={"error": CANARY, "token": 1}),
        lambda: alice.post("/scheduled-tasks", json={"name": CANARY, "payload": {"text": CANARY}}),
        lambda: alice.post("/scheduler/jobs", json={"handler": "work", "delay_sec": CANARY, "priority": CANARY}),
        lambda: alice.get(f"/scheduler/jobs?cursor={CANARY}", headers={"X-Canary": CANARY, "Cookie": CANARY}),
        lambda: nobody.get(f"/scheduler/jobs?token={CANARY}", headers={"Authorization": f"Bearer {CANARY}"}),
        lambda: nobody.get("/scheduler/jobs", headers={"Authorization": f"Bearer horae_{CANARY}"}),
        lambda: nobody.post(f"/{CANARY}", content=CANARY, headers={"Content-Type": CANARY}),
    ]
    refusals = [answer.text for answer in (each() for each in sent) if not answer.is_success]
    assert len(refusals) >= 5
    metrics = operator.get("/metrics").text
    others = [bob.get(path).text for path in ("/scheduler/jobs", "/scheduled-tasks", "/audit", "/queues")]
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]  # but the client's
    for response in (
        *refusals,
        metrics,
        *others,
        nobody.get("/readyz").text,
        *(record.getMessage() for record in ours),
    ):
        assert CANARY not in response
