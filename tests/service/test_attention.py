"""Attention over HTTP: tasks and events of agents, what they look like, and what only an operator may decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.actions.attention import lanes, turns
from horae.attention import Act, Attention, Control, Done, Facts, Fail, Proceed, Rule, Turn, Wait
from horae.core.attention.lanes import ADDRESSED
from horae.declare.attend import register
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.service.routes.attention import router as lane_router
from horae.testing import Lab
from horae.testing.clock import VirtualClock
from tests.service.conftest import Connect

OPS = "/attention/lanes/ops"


@pytest.fixture
def app(sqlite_database_url: str, clock: VirtualClock) -> Iterator[Horae]:
    with Horae(sqlite_database_url, clock=clock) as app:
        yield app


@pytest.fixture
def world(app: Horae) -> World:
    return app.world


def an_agent(app: Horae, owner: str = "alice") -> Attention:
    """Sleeps on ``ack``, or refunds if a person lets it."""
    agent = Attention("ops", app, owner=owner)

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"refund"}))

    @agent.action(effect="once")
    def refund(step: Any, amount: int) -> Facts:
        return Facts(receipt=f"r-{amount}")

    @agent.cognition("sleep")
    def sleep(turn: Turn) -> Any:
        if found := turn.facts.last("event"):
            return Done({"by": found["by"]})
        return Fail("nobody came") if turn.facts.last("timed_out") else Wait("ack", timedelta(minutes=10), context=[1])

    @agent.cognition("refund")
    def decide(turn: Turn) -> Any:
        if granted := turn.facts.last("confirmed"):
            return Proceed(granted.grant, context=granted["by"])
        if turn.facts.last("action_ok") or turn.facts.last("denied"):
            return Done(turn.context or "denied", context=turn.context)
        return Fail("no decision in time") if turn.facts.last("timed_out") else Act("refund", {"amount": 40})

    agent.rule(Rule("db.down", do="task", kind="sleep", priority=90, key="alert:{id}"))
    agent.rule(Rule("noise", do="log"))
    return agent


def code_of(answer: Any) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


# -- tasks ---------------------------------------------------------------------------------------------------------


def test_a_task_is_added_done_and_seen(alice: TestClient, app: Horae) -> None:
    """S2: the outside speaks HTTP, the agent runs wherever it likes."""
    made = alice.post(f"{OPS}/tasks", json={"kind": "sleep", "payload": {"day": 7}, "priority": 60})
    assert (made.status_code, made.json()["state"]) == (201, "ready")
    where = made.headers["location"]
    assert alice.get(where).json() | {"deduplicated": False} == made.json()

    agent = an_agent(app)
    agent.run()
    posted = alice.post(f"{OPS}/events", json={"key": "ack", "data": {"by": "bob"}})
    assert (posted.status_code, posted.json()["state"], posted.json()["task"]) == (201, "used", made.json()["id"])
    agent.run()

    done = alice.get(where).json()
    assert (done["state"], done["result"], done["payload"], done["turn"]) == ("completed", {"by": "bob"}, {"day": 7}, 2)


def test_the_same_key_is_the_same_task(alice: TestClient) -> None:
    key = {"Idempotency-Key": "report:7"}
    first = alice.post(f"{OPS}/tasks", json={"kind": "report", "payload": 7}, headers=key)
    again = alice.post(f"{OPS}/tasks", json={"kind": "report", "payload": 7}, headers=key)
    other = alice.post(f"{OPS}/tasks", json={"kind": "report", "payload": 8}, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"deduplicated": True}
    assert code_of(other) == (409, "conflict")


def test_tasks_are_listed_by_state_and_page(alice: TestClient) -> None:
    ids = [alice.post(f"{OPS}/tasks", json={"kind": "report"}).json()["id"] for _ in range(5)]
    alice.post(f"{OPS}/tasks/{ids[1]}/cancel", json={"reason": "not needed"})
    seen, cursor = [], None
    while True:
        page = alice.get(
            f"{OPS}/tasks", params={"limit": 2, "state": ["ready"], **({"cursor": cursor} if cursor else {})}
        )
        seen += [each["id"] for each in page.json()["items"]]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            break
    assert seen == [ids[4], ids[3], ids[2], ids[0]]
    (gone,) = alice.get(f"{OPS}/tasks", params={"state": "cancelled"}).json()["items"]
    assert (gone["id"], gone["reason"]) == (ids[1], "not needed")
    assert "payload" not in gone


def test_cancelling_twice_is_no_mistake(alice: TestClient) -> None:
    """Invariant 17."""
    task = alice.post(f"{OPS}/tasks", json={"kind": "report"}).json()["id"]
    assert [alice.post(f"{OPS}/tasks/{task}/cancel").json()["state"] for _ in range(2)] == ["cancelled"] * 2


def test_a_delayed_task_waits_for_its_time(alice: TestClient) -> None:
    made = alice.post(f"{OPS}/tasks", json={"kind": "report", "delay": 60}).json()
    assert (made["state"], made["start_at"] is not None) == ("created", True)
    assert [each["id"] for each in alice.get(OPS).json()["created"]] == [made["id"]]
    both = {"kind": "report", "delay": 60, "start_at": "2040-01-01T00:00:00Z"}
    assert code_of(alice.post(f"{OPS}/tasks", json=both)) == (422, "invalid_input")


def test_only_an_operator_kills(alice: TestClient, operator: TestClient, app: Horae) -> None:
    agent = an_agent(app)
    task = alice.post(f"{OPS}/tasks", json={"kind": "refund"}).json()["id"]
    drive = lanes.acquire(app.world, "ops", "stuck", owner="alice", lease=timedelta(hours=1))
    assert drive is not None
    think = turns.next_work(app.world, drive, Control(), agent.policy)
    assert isinstance(think, turns.Think)
    assert code_of(alice.post(f"{OPS}/tasks/{task}/kill")) == (403, "forbidden")

    killed = operator.post(f"{OPS}/tasks/{task}/kill", params={"owner": "alice"}, json={"reason": "hangs"})

    assert (killed.json()["state"], killed.json()["reason"]) == ("cancelled", "hangs")
    assert alice.get(OPS).json()["lane"]["driver"] is None


# -- lanes ---------------------------------------------------------------------------------------------------------


def test_a_lane_now(alice: TestClient, app: Horae) -> None:
    agent = an_agent(app)
    alice.post(f"{OPS}/tasks", json={"kind": "sleep"})
    agent.run()
    alice.post(f"{OPS}/tasks", json={"kind": "sleep", "priority": 20})
    alice.post(f"{OPS}/tasks", json={"kind": "sleep", "priority": 80})

    seen = alice.get(OPS).json()

    assert seen["focus"] is None
    assert seen["stack"] == []
    assert [each["priority"] for each in seen["backlog"]] == [80, 20]
    (waiting,) = seen["waiting"]
    assert (waiting["waits"][0]["key"], waiting["waits"][0]["kind"]) == ("ack", "event")
    assert waiting["waits"] == alice.get(f"{OPS}/waits").json()["items"]
    assert seen["counts"] == {"suspended": 0, "ready": 2, "waiting": 1, "created": 0}
    assert seen["lane"]["seq"] == alice.get(f"{OPS}/journal").json()["items"][-1]["seq"]
    assert len(alice.get(OPS, params={"limit": 1}).json()["backlog"]) == 1


def test_a_foreign_lane_does_not_exist(alice: TestClient, bob: TestClient, operator: TestClient) -> None:
    """C-19: the same words as for one that is not there."""
    task = alice.post(f"{OPS}/tasks", json={"kind": "report"}).json()["id"]
    paths = [
        "",
        "/tasks",
        f"/tasks/{task}",
        "/waits",
        "/confirmations",
        "/journal",
        "/journal/verify",
        "/at/1",
        "/stream",
    ]
    for path in paths:
        assert code_of(bob.get(f"{OPS}{path}")) == (404, "not_found"), path
        assert code_of(bob.get(f"{OPS}{path}", params={"owner": "alice"})) == (404, "not_found"), path
    assert code_of(bob.post(f"{OPS}/tasks/{task}/cancel")) == (404, "not_found")
    assert code_of(bob.post(f"{OPS}/tasks", json={"kind": "x"}, params={"owner": "alice"})) == (404, "not_found")
    assert bob.get("/attention/lanes").json()["items"] == []

    bob.post(f"{OPS}/tasks", json={"kind": "mine"})  # a lane of that name, and of his own
    assert code_of(bob.get(f"{OPS}/tasks/{task}")) == (404, "not_found")
    assert [each["kind"] for each in alice.get(f"{OPS}/tasks").json()["items"]] == ["report"]
    assert [each["owner"] for each in operator.get("/attention/lanes").json()["items"]] == ["alice", "bob"]
    assert operator.get(f"{OPS}/tasks/{task}", params={"owner": "alice"}).json()["kind"] == "report"
    assert code_of(operator.get(OPS)) == (404, "not_found")  # its own has no such lane


def test_lanes_are_listed_page_by_page(alice: TestClient) -> None:
    for name in ("a", "team/b", "c"):
        alice.post(f"/attention/lanes/{name}/tasks", json={"kind": "report"})
    first = alice.get("/attention/lanes", params={"limit": 2}).json()
    rest = alice.get("/attention/lanes", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [each["name"] for each in first["items"] + rest["items"]] == ["a", "team/b", "c"]
    assert rest["next_cursor"] is None
    assert alice.get("/attention/lanes/team%2Fb").json()["counts"]["ready"] == 1


# -- events --------------------------------------------------------------------------------------------------------


def test_an_event_is_judged_by_the_rules_of_the_agent(alice: TestClient, app: Horae) -> None:
    early = alice.post(f"{OPS}/events", json={"key": "db.down", "data": {"id": 1}}).json()
    assert (early["state"], early["task"]) == ("pending", None)  # no agent has said what it means
    an_agent(app).run()

    hit = alice.post(f"{OPS}/events", json={"key": "db.down", "data": {"id": "db-1"}, "event_id": "pd-1"})
    again = alice.post(f"{OPS}/events", json={"key": "db.down", "data": {"id": "db-1"}, "event_id": "pd-1"})
    noise = alice.post(f"{OPS}/events", json={"key": "noise"}).json()

    assert (hit.status_code, again.status_code) == (201, 200)
    assert again.json() == hit.json() | {"deduplicated": True}
    made = alice.get(f"{OPS}/tasks/{hit.json()['task']}").json()
    assert (made["kind"], made["priority"], made["key"], made["payload"]) == ("sleep", 90, "alert:db-1", {"id": "db-1"})
    assert (noise["state"], noise["reason"]) == ("dropped", "its rule only logs it")
    assert alice.get(f"{OPS}/journal/verify").json()["complaints"] == []


# -- what a person decides -----------------------------------------------------------------------------------------


def test_only_an_operator_confirms_and_is_named(alice: TestClient, operator: TestClient, app: Horae) -> None:
    """Section 3.8: the agent's own credentials can never approve."""
    agent = an_agent(app)
    task = alice.post(f"{OPS}/tasks", json={"kind": "refund"}).json()["id"]
    agent.run()
    (asked,) = alice.get(f"{OPS}/confirmations").json()["items"]
    assert (asked["task"], asked["action"], asked["arguments"], asked["approved"]) == (
        task,
        "refund",
        {"amount": 40},
        None,
    )
    answer = f"{OPS}/confirmations/{asked['id']}"
    assert code_of(alice.post(answer, json={"approve": True})) == (403, "forbidden")

    said = operator.post(answer, params={"owner": "alice"}, json={"approve": True, "reason": "called"})

    assert (said.json()["approved"], said.json()["intent_hash"]) == (True, asked["intent_hash"])
    assert said.json()["decided_by"].startswith("token/")
    again = operator.post(answer, params={"owner": "alice"}, json={"approve": True})
    assert again.json() == said.json()
    assert code_of(operator.post(answer, params={"owner": "alice"}, json={"approve": False})) == (409, "conflict")
    agent.run()
    done = alice.get(f"{OPS}/tasks/{task}").json()
    assert (done["state"], done["result"]) == ("completed", said.json()["decided_by"])


def test_an_answer_after_the_deadline_authorises_nothing(
    alice: TestClient, operator: TestClient, app: Horae, clock: VirtualClock
) -> None:
    """Invariant 18: silence is a time-out, never a refusal."""
    agent = an_agent(app)
    task = alice.post(f"{OPS}/tasks", json={"kind": "refund"}).json()["id"]
    agent.run()
    (asked,) = alice.get(f"{OPS}/confirmations").json()["items"]
    clock.advance(timedelta(hours=9))
    late = operator.post(f"{OPS}/confirmations/{asked['id']}", params={"owner": "alice"}, json={"approve": True})
    assert code_of(late) == (409, "conflict")
    agent.run()
    assert alice.get(f"{OPS}/tasks/{task}").json()["reason"] == "no decision in time"


def test_a_confirmation_of_a_cancelled_task_is_no_longer_needed(
    alice: TestClient, operator: TestClient, app: Horae
) -> None:
    task = alice.post(f"{OPS}/tasks", json={"kind": "refund"}).json()["id"]
    an_agent(app).run()
    (asked,) = alice.get(f"{OPS}/confirmations").json()["items"]
    alice.post(f"{OPS}/tasks/{task}/cancel")
    assert alice.get(f"{OPS}/confirmations").json()["items"] == []
    answer = operator.post(f"{OPS}/confirmations/{asked['id']}", params={"owner": "alice"}, json={"approve": True})
    assert code_of(answer) == (409, "conflict")


def test_a_wait_for_an_event_is_not_a_confirmation(alice: TestClient, operator: TestClient, app: Horae) -> None:
    alice.post(f"{OPS}/tasks", json={"kind": "sleep"})
    an_agent(app).run()
    (wait,) = alice.get(f"{OPS}/waits").json()["items"]
    response = operator.post(f"{OPS}/confirmations/{wait['id']}", params={"owner": "alice"}, json={"approve": True})
    assert code_of(response) == (404, "not_found")
    unknown = operator.post("/attention/lanes/none/confirmations/1", json={"approve": True})
    assert code_of(unknown) == (404, "not_found")
    assert operator.get("/attention/lanes", params={"owner": "system"}).json()["items"] == []  # asking made none


def test_an_operator_stops_an_agent_and_lets_it_go_on(alice: TestClient, operator: TestClient, app: Horae) -> None:
    agent = an_agent(app)
    task = alice.post(f"{OPS}/tasks", json={"kind": "sleep"}).json()["id"]
    control = f"{OPS}/control"
    assert code_of(alice.put(control, json={"auto_continue": False})) == (403, "forbidden")
    response = operator.put(
        control, params={"owner": "alice"}, json={"auto_continue": False, "must_confirm": ["refund"]}
    )
    assert response.json() == {
        "auto_continue": False, "allow_interrupt": None, "confirm_everything": None, "must_confirm": ["refund"]
    }  # fmt: skip
    agent.run()
    assert alice.get(f"{OPS}/tasks/{task}").json()["state"] == "ready"
    assert alice.get(OPS).json()["control"] == response.json()

    operator.put(control, params={"owner": "alice"}, json={})
    agent.run()

    assert alice.get(f"{OPS}/tasks/{task}").json()["state"] == "waiting"
    assert code_of(operator.put(control, json={"auto_pilot": True})) == (422, "invalid_input")


# -- the journal ---------------------------------------------------------------------------------------------------


def test_the_journal_is_read_verified_and_travelled(alice: TestClient, app: Horae) -> None:
    """Invariant 19 over the wire."""
    first = alice.post(f"{OPS}/tasks", json={"kind": "sleep"}).json()["id"]
    an_agent(app).run()
    other = alice.post(f"{OPS}/tasks", json={"kind": "sleep"}).json()["id"]
    whole = alice.get(f"{OPS}/journal").json()
    assert [line["seq"] for line in whole["items"]] == list(range(1, len(whole["items"]) + 1))
    assert whole["next_cursor"] is None

    page = alice.get(f"{OPS}/journal", params={"limit": 2}).json()
    pages: list[Any] = page["items"]
    while page["next_cursor"] is not None:
        page = alice.get(f"{OPS}/journal", params={"cursor": page["next_cursor"], "limit": 2}).json()
        pages += page["items"]
    assert pages == whole["items"]
    assert alice.get(f"{OPS}/journal", params={"since": 2}).json()["items"] == whole["items"][2:]
    about = alice.get(f"{OPS}/journal", params={"task": other}).json()["items"]
    assert {line["task"] for line in about} == {other}

    checked = alice.get(f"{OPS}/journal/verify").json()
    assert (checked["sound"], checked["lines"], checked["complaints"]) == (True, len(whole["items"]), [])
    then = alice.get(f"{OPS}/at/1").json()
    assert {name: row["state"] for name, row in then["tasks"].items()} == {first: "created"}
    assert alice.get(f"{OPS}/at/0").json()["tasks"] == {}
    assert code_of(alice.get(f"{OPS}/at/999")) == (422, "invalid_input")


# -- what should not be said -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/attention/lanes/-ops/tasks", {"kind": "x"}),
        ("POST", f"/attention/lanes/{'x' * 201}/tasks", {"kind": "x"}),
        ("POST", "/attention/lanes/a%20b/tasks", {"kind": "x"}),
        ("POST", f"{OPS}/tasks", {"kind": "x" * 101}),
        ("POST", f"{OPS}/tasks", {"kind": "two words"}),
        ("POST", f"{OPS}/tasks", {"kind": "x", "priority": 100}),
        ("POST", f"{OPS}/tasks", {"kind": "x", "delay": 1e300}),
        ("POST", f"{OPS}/tasks", {"kind": "x", "due_by": "soon"}),
        ("POST", f"{OPS}/tasks", {"kind": "x", "start_at": "9999-12-31T23:59:59-12:00"}),
        ("POST", f"{OPS}/tasks", {"kind": "x", "anything": "else"}),
        ("POST", f"{OPS}/events", {"key": "two\nlines"}),
        ("POST", f"{OPS}/events", {"key": " "}),
        ("POST", f"{OPS}/events", {"key": "k", "data": [1]}),
        ("POST", f"{OPS}/events", {"key": "k", "event_id": "x" * 256}),
        ("POST", f"{OPS}/tasks/t1/cancel", {"reason": "x" * 2001}),
        ("POST", f"{OPS}/tasks/1/cancel", None),
        ("GET", f"{OPS}/tasks/t{'9' * 20}", None),
        ("GET", f"{OPS}/tasks?state=happy", None),
        ("GET", f"{OPS}/tasks?cursor=nonsense", None),
        ("GET", f"{OPS}/tasks?cursor=WzBd", None),
        ("GET", f"{OPS}/tasks?limit=0", None),
        ("GET", f"{OPS}/journal?since=-1", None),
        ("GET", f"{OPS}/journal?since={2**63}", None),
        ("GET", f"{OPS}/journal?task=12", None),
        ("GET", f"{OPS}/at/{2**63}", None),
        ("GET", f"{OPS}/at/now", None),
        ("GET", f"{OPS}/stream?since=x", None),
        ("POST", f"{OPS}/confirmations/0", {"approve": True}),
        ("POST", f"{OPS}/confirmations/1", {"approve": "yes"}),
        ("PUT", f"{OPS}/control", {"must_confirm": ["a\n"]}),
    ],
)
def test_what_does_not_fit_is_refused_in_words(connect: Connect, method: str, path: str, body: Any) -> None:
    caller = connect("system", "admin")
    caller.post(f"{OPS}/tasks", json={"kind": "report"})
    status, _ = code_of(caller.request(method, path, json=body))
    assert status == 422


@pytest.mark.parametrize("path", ["tasks/t9223372036854775807", "tasks/t9999999999999999999", "tasks/t0"])
def test_a_number_that_nobody_has_is_not_found(alice: TestClient, path: str) -> None:
    alice.post(f"{OPS}/tasks", json={"kind": "report"})
    assert code_of(alice.get(f"{OPS}/{path}")) == (404, "not_found")


# -- users' scheduled tasks reach agents -----------------------------------------------------------------------------


async def test_a_users_task_puts_something_before_an_agent() -> None:
    """S1's users' tasks may target an agent: over HTTP, through the worker, into the lane of that user."""
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab:
        options = Options(handlers=lambda: {each.name: each for each in app.definitions}, open_to_all=True)
        house = TestClient(build(lambda: lab.world, options), raise_server_exceptions=False)
        _, token = create_token(lab.world, owner="alice", scopes=("tasks",))
        alice = TestClient(build(lambda: lab.world, replace(options, open_to_all=False)))
        alice.headers["Authorization"] = f"Bearer {token}"
        asked = {"lane": "ops", "kind": "report", "payload": {"day": 7}, "priority": 70}
        made = alice.post(
            "/scheduled-tasks", json={"handler": "attend", "schedule_expr": "0 9 * * *", "payload": asked}
        )
        assert (made.status_code, made.json()["inactive"]) == (201, False), made.text

        for _ in range(2):
            assert alice.post(f"/scheduled-tasks/{made.json()['id']}/trigger").status_code == 202
            await lab.settle()

        found = alice.get(f"{OPS}/tasks").json()["items"]
        assert [(each["kind"], each["priority"], each["state"]) for each in found] == [("report", 70, "ready")] * 2
        assert alice.get(f"{OPS}/tasks/{found[0]['id']}").json()["payload"] == {"day": 7}
        assert house.get("/attention/lanes").json()["items"][0]["owner"] == "alice"


@pytest.mark.parametrize(
    "payload",
    [{}, {"lane": "ops"}, {"lane": "two words", "kind": "x"}, {"lane": "ops", "kind": "x", "priority": 100},
     {"lane": "ops", "kind": 7}, {"lane": "ops", "kind": "x", "text": "hello"}],
)  # fmt: skip
def test_a_users_task_that_no_agent_could_take_is_refused(alice: TestClient, payload: dict[str, Any]) -> None:
    response = alice.post(
        "/scheduled-tasks", json={"handler": "attend", "schedule_expr": "0 9 * * *", "payload": payload}
    )
    assert code_of(response)[0] == 422


def test_a_lane_whose_name_would_be_taken_for_a_part_of_another_cannot_be_made(alice: TestClient) -> None:
    """Or it could never be asked for, and lists that look at each lane would fail."""
    paths = [route.path for route in lane_router.routes if isinstance(route, APIRoute)]
    behind = {path.split("{lane:path}/")[1].split("/")[0] for path in paths if "{lane:path}/" in path}
    assert behind == ADDRESSED
    for word in sorted(ADDRESSED):
        made = alice.post(f"{OPS}/{word}/x/tasks", json={"kind": "sleep"})
        assert code_of(made) == (422, "invalid_name")
        assert code_of(alice.post(f"{OPS}/{word}/events", json={"key": "news"})) == (422, "invalid_name")
    for fine in ("ops/tasks-2", "tasks", "team/ops"):
        assert alice.post(f"/attention/lanes/{fine}/tasks", json={"kind": "sleep"}).status_code == 201
        assert alice.get(f"/attention/lanes/{fine}").json()["lane"]["name"] == fine
