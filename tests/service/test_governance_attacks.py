"""Every verb of governance, with each field of its body replaced by what is bad: a clear 4xx, and nothing changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import inspect, text

from horae.ports.world import World
from tests.service.conftest import Connect

OBJECTS, MEMORY = "/governance/objects", {"kind": "memory", "content": "Ann likes tea", "subject": "Ann"}
# What no field of these bodies means: a wrong type, a number out of range, text that no table can keep, something huge.
BAD: tuple[Any, ...] = (
    [], [[]], {}, {"a": {"b": 1}}, True, -1, 2**63, 1.5, "", " ", "a\x00b", "\ud800", "x" * 70_000, "../../x", "NaN",
    "2030-13-45T99:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", float("nan"), float("inf"),
)  # fmt: skip
OF_OBJECT: dict[str, dict[str, Any]] = {
    "use": {"reason": "r"},
    "evidence": {"evidence": ["chat:9"], "reason": "r"},
    "contest": {"evidence": ["chat:9"], "reason": "r"},
    "clear": {"evidence": ["chat:9"], "reason": "r"},
    "reject": {"evidence": ["chat:9"], "reason": "r"},
    "conclude": {"verdict": "confirmed", "evidence": ["x:1"], "confidence": 0.5, "next_action_at": None, "note": "n",
                 "counterexample": None},
    "verify": {"action": "verify", "at": None},
    "archive": {"reason": "r"},
    "reinstate": {"reason": "r"},
    "retract": {"reason": "r"},
    "supersede": {"by": "mem_other"},
    "rollback": {"dry_run": True, "reason": "r"},
}  # fmt: skip
ELSEWHERE: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", OBJECTS, {**MEMORY, "evidence": ["chat:1"], "rests_on": [], "risk": "low", "impact": "low", "tamper": 0.1,
                       "confidence": 0.5, "expires_at": None, "next_action_at": None, "protected": False, "agent": "a",
                       "category": "fact", "source": "s", "source_type": "user", "mode": None, "unknown_type": None}),
    ("POST", f"{OBJECTS}/bulk", {"objects": [MEMORY], "reason": "r"}),
    ("POST", f"{OBJECTS}/erase", {"id": "mem_none", "kind": "memory", "subject": None, "reason": "r"}),
    ("POST", "/governance/decisions", {"action": "a", "agent": "a", "cites": [], "risk": "low", "reason": "r"}),
    ("PUT", "/governance/personas/desk", {"boundaries": ["b"], "values": ["v"], "archived": False, "reason": "r"}),
    ("PUT", "/governance/policies/memory", {"settings": {"verify_budget": 2}, "reason": "r"}),
    ("PUT", "/governance/budgets/llm/calls", {"capacity": 10, "reason": "r"}),
    ("POST", "/governance/budgets/llm/calls/adjust", {"amount": 1, "reason": "r"}),
    ("POST", "/governance/reviews", {"about": "memory:mem_one", "question": "q"}),
    ("POST", "/governance/replan", {"dry_run": True}),
]  # fmt: skip


@pytest.fixture
def operator(connect: Connect) -> TestClient:
    """An operator over two memories, an open question and a budget."""
    made = connect("system", "admin")
    for given in ({**MEMORY, "id": "mem_one"}, {**MEMORY, "id": "mem_other", "content": "Ann likes coffee"}):
        assert made.post(OBJECTS, json=given).status_code == 201
    assert made.put("/governance/budgets/llm/calls", json={"capacity": 10}).status_code == 200
    assert made.post("/governance/reviews", json={"about": "memory:mem_one", "question": "q"}).status_code in (200, 201)
    return made


def rows(world: World) -> dict[str, list[Any]]:
    """Return every row of every table, but for what merely asking leaves: the last use of a token, and rates."""
    engine = world.store.engine  # type: ignore[attr-defined]
    names = [name for name in inspect(engine).get_table_names() if name.startswith("horae_") and "token" not in name]
    with engine.connect() as connection:
        return {name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")))) for name in names}


def attacks() -> Iterator[tuple[str, str, Any]]:
    verbs = [("POST", f"{OBJECTS}/mem_one/{verb}", {"kind": None, **body}) for verb, body in OF_OBJECT.items()]
    for method, path, body in [*verbs, *ELSEWHERE]:
        wholes: tuple[Any, ...] = ([], "text", None, 7, {**body, "status": "active"})
        yield from ((method, path, whole) for whole in wholes)
        for field in body:
            yield from ((method, path, {**body, field: bad}) for bad in BAD)


@pytest.mark.slow
def test_whatever_is_refused_is_refused_in_words_and_changes_nothing(operator: TestClient, world: World) -> None:
    """Some of these are taken, a reason of many letters for example; none is an error of ours, none half done."""
    wrong, refused = [], 0
    with closing(sqlite3.connect(world.store.engine.url.database)) as watch:  # type: ignore[attr-defined]
        before, seen = rows(world), commits(watch)
        for method, path, body in attacks():
            sent = json.dumps(body)
            answer = operator.request(method, path, content=sent, headers={"Content-Type": "application/json"})
            is_refused = 400 <= answer.status_code < 500 and bool(answer.json()["detail"])
            if (now := commits(watch)) != seen or not answer.is_success:
                after = rows(world) if now != seen else before
                if not (is_refused and after == before) and not answer.is_success:
                    wrong.append((method, path, sent[:120], answer.status_code, answer.text[:200]))
                before, seen = after, now
            refused += is_refused
    assert wrong == []
    assert refused > 500


def commits(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed something."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


@pytest.mark.parametrize("version", ['"99"', "99", '""', "x", '"-1"', '"1", "2"'])
def test_no_verb_on_an_object_takes_a_version_that_is_not_its_own(
    version: str, operator: TestClient, world: World
) -> None:
    before = rows(world)
    for verb, body in OF_OBJECT.items():
        answer = operator.post(f"{OBJECTS}/mem_one/{verb}", json=body, headers={"If-Match": version})
        assert 400 <= answer.status_code < 500, (verb, version, answer.text)
        assert rows(world) == before, (verb, version)


def test_of_many_who_act_on_one_version_at_once_one_does_and_the_others_are_refused(
    operator: TestClient,
) -> None:
    def act(number: int) -> int:
        verb, body = (("contest", {"reason": "r"}), ("archive", {"reason": "r"}), ("verify", {}))[number % 3]
        answer = operator.post(f"{OBJECTS}/mem_one/{verb}", json=body, headers={"If-Match": '"1"'})
        return int(answer.status_code)

    with ThreadPoolExecutor(6) as pool:
        found = sorted(pool.map(act, range(6)))
    assert found[0] == 200
    assert set(found[1:]) == {412}
    assert operator.get(f"{OBJECTS}/mem_one").json()["version"] == 2
