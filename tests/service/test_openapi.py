"""The document against the service: what happens is declared, and what is not declared does not happen.

That every status which a test in this folder meets is declared is checked by the clients themselves (``conftest.py``).
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.ports.world import World
from horae.service.asgi import build, methods_beside_ids
from horae.service.documents import operations
from tests.service.conftest import Connect, routes_of

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
EXAMPLES = {"job_id": "job_1", "task_id": f"task_{'0' * 32}", "wait": "1", "seq": "1", "token_id": "0" * 12}


def address(path: str) -> str:
    return re.sub(r"{(\w+)(?::path)?}", lambda found: EXAMPLES.get(found[1], "nightly"), path)


@pytest.fixture
def document(operator: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = operator.get("/openapi.json").json()
    return found


@pytest.mark.slow
def test_a_method_that_an_address_does_not_have_is_refused_with_those_that_it_has(
    operator: TestClient, world: World
) -> None:
    """Keys may contain slashes, so that one address may belong to two templates: then it has the methods of both."""
    routes, tried = routes_of(build(lambda: world)), 0
    for path in {route.path for route in routes}:
        concrete = address(path)
        has = {method for route in routes if route.path_regex.match(concrete) for method in route.methods or ()}
        has = set(methods_beside_ids().get(concrete, has))
        for method in set(METHODS) - has:
            answer = operator.request(method, concrete)
            tried += 1
            assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed"), (method, path)
            assert set(answer.headers["allow"].split(", ")) == has, (method, path)
    assert tried > 150


@pytest.mark.parametrize("path", ["/scheduler/jobs/pull", "/scheduler/jobs/bulk", "/scheduled-tasks/preview"])
def test_a_name_beside_ids_is_not_taken_for_one(path: str, operator: TestClient, connect: Connect) -> None:
    for client in (operator, connect()):
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            answer = client.request(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), method


@pytest.mark.slow
def test_a_route_that_is_added_to_the_service_is_described_with_ours(world: World) -> None:
    app = build(lambda: world)
    app.add_api_route("/mine", lambda: "mine", summary="Mine")

    paths = app.openapi()["paths"]
    assert {"/mine", "/jobs"} <= set(paths)
    assert "/mine" not in build(lambda: world).openapi()["paths"]


def test_whatever_names_one_thing_may_not_find_it(document: dict[str, Any]) -> None:
    """Except where naming it makes it."""
    makes = {"put_secret", "get_owner", "put_owner", "pause_queue", "resume_queue", "limit_queue", "order_queue"}
    makes |= {"set_limit", "reset_limit", "quiet_queue", "share_queue", "quiet_owner", "set_calendar"}
    makes |= {"list_statistics", "get_statistics_series"}  # of nothing there are none
    silent = {
        operation["operationId"]
        for path, _, operation in operations(document)
        if "{" in path and "404" not in operation["responses"]
    }
    assert silent == makes


def test_whatever_takes_a_version_may_be_too_late(document: dict[str, Any]) -> None:
    result = {operation["operationId"]: "412" in operation["responses"] for _, _, operation in operations(document)}
    takes = {
        operation["operationId"]
        for _, _, operation in operations(document)
        if any(each["name"].lower() == "if-match" for each in operation.get("parameters", []))
    }
    assert {name for name, declared in result.items() if declared} == takes
    objects = {name for name in takes if name.endswith("_object") or name == "add_evidence"}
    assert takes - objects == {
        "update_task",
        "delete_task",
        "change_schedule",
        "set_calendar",
        "set_persona",
        "set_policy",
    }
    assert len(objects) > 5


def test_every_model_has_a_name_that_a_generator_can_use(document: dict[str, Any]) -> None:
    """A name of a module inside it means that two models share one; so does a second one for input."""
    schemas = document["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    titles = [schema.get("title", name) for name, schema in schemas.items()]
    assert sorted(titles) == sorted(schemas)


def test_every_declared_refusal_is_a_problem(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status.startswith("4") or status == "default":
                assert list(answer["content"]) == ["application/problem+json"], (method, path, status)
                assert answer["description"], (method, path, status)
