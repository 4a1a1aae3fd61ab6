"""Tokens over HTTP, and a walk over every route: nobody comes in without the right one (security check 1)."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from horae.actions.access.tokens import create_token
from horae.core.cursors import cursor_from
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.documents import operations
from horae.service.options import Options
from horae.service.state import REQUIRED_SCOPES
from horae.testing.clock import VirtualClock
from tests.service.conftest import Connect

OPEN = {"/healthz", "/readyz", "/version", "/docs", "/openapi.json"}


def test_a_token_is_made_shown_once_used_listed_and_revoked(operator: TestClient, nobody: TestClient) -> None:
    wanted = {"owner": "carol", "scopes": ["tasks", "read"], "name": "laptop", "expires_in": 86400}
    made = operator.post("/tokens", json=wanted)
    assert made.status_code == 201, made.text
    answer = made.json()
    assert (answer["owner"], answer["scopes"], answer["expires_at"]) == (
        "carol",
        ["tasks", "read"],
        "2030-01-08T12:00:00Z",
    )
    nobody.headers["Authorization"] = f"Bearer {answer['token']}"
    assert nobody.get("/scheduled-tasks").status_code == 200

    (listed,) = operator.get("/tokens", params={"owner": "carol"}).json()["items"]
    assert (listed["id"], listed["state"], listed["used_from"]) == (answer["id"], "valid", "testclient")
    assert answer["token"][-40:] not in operator.get("/tokens").text

    revoked = operator.delete(f"/tokens/{answer['id']}")
    assert (revoked.status_code, revoked.json()["state"]) == (200, "revoked")
    assert operator.delete(f"/tokens/{answer['id']}").status_code == 200
    assert nobody.get("/scheduled-tasks").status_code == 401  # at once


@pytest.mark.parametrize(
    "wrong",
    [
        {"owner": "carol", "scopes": ["everything"]},
        {"owner": "carol", "scopes": []},
        {"owner": "", "scopes": ["tasks"]},
        {"owner": "a\nb", "scopes": ["tasks"]},
        {"owner": "carol", "scopes": ["tasks"], "expires_in": 0},
        {"owner": "carol", "scopes": ["tasks"], "expires_in": 1e12},
        {"owner": "carol", "scopes": ["tasks"], "queues": ["no spaces"]},
        {"owner": "carol", "scopes": ["tasks"], "secret": "mine"},
    ],
    ids=str,
)
def test_a_token_that_makes_no_sense_is_refused(wrong: dict[str, Any], operator: TestClient) -> None:
    assert operator.post("/tokens", json=wrong).status_code == 422


def test_a_token_that_is_not_there_cannot_be_revoked(operator: TestClient) -> None:
    assert operator.delete("/tokens/000000000000").status_code == 404
    assert operator.delete("/tokens/x").status_code == 404


def test_tokens_are_listed_page_by_page(world: World, operator: TestClient, clock: VirtualClock) -> None:
    made = []
    for number in range(5):
        made.append(operator.post("/tokens", json={"owner": "carol", "scopes": ["read"]}).json()["id"])
        clock.advance(timedelta(seconds=number % 2))
    answer: list[list[str]] = []
    address = "/tokens?owner=carol&limit=2"
    cursor: str | None = ""
    while cursor is not None:
        page = operator.get(f"{address}&cursor={cursor}" if cursor else address).json()
        answer.append([each["id"] for each in page["items"]])
        cursor = page["next_cursor"]
    assert [len(each) for each in answer] == [2, 2, 1]
    assert sorted(each for page in answer for each in page) == sorted(made)


@pytest.mark.parametrize("values", [[1, "x"], [-1, "0" * 12], [2**70, "0" * 12], ["1", "0" * 12], [1]])
def test_a_cursor_of_ones_own_making_is_refused(operator: TestClient, values: list[Any]) -> None:
    assert operator.get("/tokens", params={"cursor": cursor_from(values)}).status_code == 422


def test_neither_tenants_nor_readers_see_tokens(connect: Connect) -> None:
    for scope in ("tasks", "worker", "read"):
        assert connect("alice", scope).get("/tokens").status_code == 403


# -- every route ---------------------------------------------------------------------------------------------------


def scopes_of(dependant: Dependant) -> Iterator[tuple[str, ...]]:
    """What the dependencies of a route demand, at any depth."""
    if dependant.call in REQUIRED_SCOPES:
        yield REQUIRED_SCOPES[dependant.call]
    for each in dependant.dependencies:
        yield from scopes_of(each)


def routes(app: FastAPI) -> list[APIRoute]:
    found = list(inside(app.routes))
    assert len(found) > 50
    return found


def inside(listed: Iterable[Any]) -> Iterator[APIRoute]:
    """FastAPI keeps an included router whole."""
    for route in listed:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from inside(route.original_router.routes)


def test_every_route_declares_who_may_call_it(world: World) -> None:
    undeclared = [
        route.path
        for route in routes(build(lambda: world, Options()))
        if route.path not in OPEN and not list(scopes_of(route.dependant))
    ]
    assert undeclared == []


def calls(app: FastAPI) -> list[tuple[str, str]]:
    """Every operation of the document, with something in its blanks."""
    found = [(method, path) for path, method, _ in operations(app.openapi()) if path not in OPEN]
    return [(method, "/".join("job_1" if "{" in part else part for part in path.split("/"))) for method, path in found]


@pytest.mark.slow
def test_every_route_refuses_strangers(world: World, clock: VirtualClock, connect: Connect) -> None:
    """Security check 1: no token, a wrong one, an expired one, a revoked one; the table comes from OpenAPI."""
    _, expired = create_token(world, owner="alice", scopes=["admin"], expires_in=timedelta(hours=1))
    clock.advance(timedelta(hours=2))
    client = connect()
    answer = calls(client.app)  # type: ignore[arg-type]
    assert len(answer) > 50
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {expired}"},
                   {"Authorization": "Basic YTpi"}):  # fmt: skip
        entered = [
            (method, path, status)
            for method, path in answer
            if (status := client.request(method, path, headers=header, json={}).status_code) != 401
        ]
        assert entered == []


@pytest.mark.slow
def test_every_route_refuses_other_scopes(connect: Connect) -> None:
    """Security check 1: each operation is tried with every scope that it does not name."""
    clients = {scope: connect("alice", scope) for scope in ("tasks", "worker", "read")}
    app: FastAPI = clients["read"].app  # type: ignore[assignment]
    entered = []
    for route in routes(app):
        demanded = list(scopes_of(route.dependant))
        for scope, client in clients.items():
            method = min(route.methods or {"GET"})
            enough = any(scope in each or (scope == "read" and method == "GET") for each in demanded)
            if route.path in OPEN or enough:
                continue
            path = "/".join("job_1" if "{" in part else part for part in route.path.split("/"))
            status = client.request(method, path, json={}).status_code
            if status != 403:
                entered.append((scope, method, route.path, status))
    assert entered == []
