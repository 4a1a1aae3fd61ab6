"""The client speaks the whole API: what the service describes, and nothing else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from horae.actions.jobs.held_jobs import Ending, Hold, Renewal, Settled
from horae.api.jobs.held import Heartbeat, Upcoming
from horae.api.operation import Listed, Method, operations_of
from horae.client.client import Client
from horae.core.governance.budgets import Spending
from horae.errors import StoreUnavailable
from horae.service.asgi import build
from tests.support.rooms import rooms_of

# Doors that keep the words of a document: the same can be done in ours.
DIALECTS = ("/scheduler/", "/admin/")
AnyMethod = Method[..., Any, Any, Any]
# The room of jobs imports these for type checkers alone.
WORKERS_ONLY = {kind.__name__: kind for kind in (Ending, Heartbeat, Hold, Renewal, Settled, Spending, Upcoming)}


def nowhere() -> Any:
    raise StoreUnavailable("only the description is wanted")


DOCUMENT: dict[str, Any] = build(nowhere).openapi()


def shape(method: str, path: str) -> str:
    """``GET /jobs/{}``: what stands in the braces has a name of its own on each side."""
    return f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}"


def operations() -> dict[str, dict[str, Any]]:
    return {
        shape(method, path): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }


def methods() -> Iterator[tuple[str, AnyMethod]]:
    with Client("http://127.0.0.1") as client:
        rooms = {name: type(room) for name, room in rooms_of(client).items()}
    for name, kind in rooms.items():
        for verb, value in operations_of(kind).items():
            yield f"{name}.{verb}", value


METHODS = dict(methods())


def test_every_operation_has_a_method() -> None:
    spoken = {shape(each.method, each.path) for each in METHODS.values()}
    missing = {
        operation["operationId"]: where
        for where, operation in operations().items()
        if where not in spoken and not where.partition(" ")[2].startswith(DIALECTS)
    }
    assert missing == {}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_operation(name: str) -> None:
    method = METHODS[name]
    assert shape(method.method, method.path) in operations()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(METHODS[name])


@pytest.mark.parametrize("name", [name for name, each in METHODS.items() if isinstance(each, Listed)])
def test_what_is_iterated_has_pages(name: str) -> None:
    asked = {each["name"] for each in operations()[shape("GET", METHODS[name].path)]["parameters"]}
    assert "cursor" in asked
    assert "limit" in asked


@pytest.mark.parametrize("name", METHODS)
def test_answers_have_the_fields_that_the_service_tells(name: str) -> None:
    """None is missing, and none is waited for that never comes."""
    method = METHODS[name]
    operation = operations()[shape(method.method, method.path)]
    result = [set(schema["properties"]) for schema in answered(operation) if "properties" in schema]
    for kind in answer_kinds(method):
        known = {each.name for each in fields(kind) if each.name != "raw"}
        assert known in result, f"{kind.__name__} has {known}; the service tells {result}"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_can_say_what_is_understood_and_nothing_else(name: str) -> None:
    """Every name in path, query, headers and body is a parameter, and every parameter is one of them."""
    method = METHODS[name]
    operation = operations()[shape(method.method, method.path)]
    words = {each["name"] for each in operation.get("parameters", [])}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        words |= set(properties(content["schema"]))
    own = {word for each in spoken(method) for word in (each, *SENT_AS.get(each, ()))}
    if isinstance(method, Listed):
        words |= {"limit"}  # the limit of a listing is that of all its pages together
    assert words - own <= NEVER_SAID
    assert [each for each in spoken(method) if words.isdisjoint({each, *SENT_AS.get(each, ())})] == []


def properties(schema: dict[str, Any]) -> Iterator[str]:
    """The names of a body, which may be absent."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    yield from schema.get("properties", {})
    for each in schema.get("anyOf", []):
        yield from properties(each)


def spoken(method: AnyMethod) -> Iterator[str]:
    """The names of its parameters; those of a TypedDict one by one."""
    hints = get_type_hints(method.__wrapped__, localns=WORKERS_ONLY)
    for name, each in inspect.signature(method.__wrapped__).parameters.items():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            yield from get_args(hints[name])[0].__annotations__
        elif name != "self":
            yield name


# Synonyms, what is sent without asking, and what only a browser says.
NEVER_SAID = {"accept-language", "cursor", "if-none-match", "state", "Idempotency-Key", "Last-Event-ID"}
SENT_AS = {
    "version": ("if-match",), "expected_version": ("if-match",), "key": ("Idempotency-Key",),
    "where": ("q",), "heads": ("head",), "object_id": ("id",),
    "name": ("agent",),  # of a budget: llm/researcher
}  # fmt: skip


def answer_kinds(method: AnyMethod) -> Iterator[type]:
    """The dataclasses in what a method answers with."""
    seen, open_ = set(), [get_type_hints(method.__wrapped__, localns=WORKERS_ONLY)["return"]]
    while open_:
        hint = open_.pop()
        open_ += get_args(hint)
        if isinstance(hint, type) and is_dataclass(hint) and hint not in seen:
            seen.add(hint)
            yield hint
            open_ += get_type_hints(hint).values()


def answered(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            for content in answer.get("content", {}).values():
                yield from reachable(content.get("schema", {}))


def reachable(schema: Any, seen: set[str] | None = None) -> Iterator[dict[str, Any]]:
    """A schema and all that it refers to."""
    seen = set() if seen is None else seen
    if isinstance(schema, list):
        for each in schema:
            yield from reachable(each, seen)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in seen:
                seen.add(name)
                yield from reachable(DOCUMENT["components"]["schemas"][name], seen)
            return
        yield schema
        for each in schema.values():
            yield from reachable(each, seen)
