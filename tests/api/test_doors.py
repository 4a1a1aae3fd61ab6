"""Every operation of every room has one route and one verb, and every route of ours has one operation."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from horae.actions.jobs.held_jobs import Ending, Hold
from horae.actions.jobs.requests import Request
from horae.api.operation import Call, Listing, Method, Room, Streamed, operations_of
from horae.api.rooms import Rooms
from horae.api.waits import Wait
from horae.service.asgi import ROUTERS
from horae.service.rooms import ROUTE_OPERATIONS
from tests.support.rooms import rooms_of

AnyMethod = Method[..., Any, Any, Any]
OURS = "horae.service.routes."
# Doors without an operation: words of documents, and what a monitor or a reader of the description asks.
OTHERS = ("horae.service.dialects.", "horae.service.health", "horae.service.metrics", "horae.service.documents")
ASKED_OF_A_SERVICE = {"health.alive", "health.version", "health.metrics"}
# Operations that change something without `reason=`; decision 0091 says why.
TRAFFIC = {  # ordinary work, whose record is the job, the run, the task or the event itself
    "jobs.enqueue", "jobs.enqueue_many", "attention.add", "attention.post",
}  # fmt: skip
OF_AN_ATTEMPT = {  # a worker's acts on the attempt that it holds; the run is their record
    "jobs.claim", "jobs.peek", "jobs.renew", "jobs.settle", "jobs.ack", "jobs.fail", "jobs.progress",
    "jobs.recall_step", "jobs.keep_step", "jobs.spend", "jobs.spent",
}  # fmt: skip
WITH_WORDS_OF_ITS_OWN = {"reviews.ask", "reviews.answer"}  # `question` and `note` are the reason, and kept as such
ONLY_LOOKS = {"acts.preview", "scheduled_tasks.preview_new", "audit.verify"}  # POST, because they take a body
WITHOUT_REASON = TRAFFIC | OF_AN_ATTEMPT | WITH_WORDS_OF_ITS_OWN | ONLY_LOOKS
SAMPLES: dict[str, Any] = {
    "str": "a",
    "int": 1,
    "bool": True,
    "int | None": 1,
    "Span | None": 86400.0,
    "Order": "run_at",
    "Iterable[str]": ["tasks"],
    "Iterable[Request]": [Request("a")],
    "Iterable[Hold]": [Hold("job_1", 1)],
    "Iterable[Ending]": [Ending("job_1", 1, "succeeded")],
    "Iterable[Mapping[str, Any]]": [{"name": "a"}],
    "Mapping[str, int]": {"calls": 1},
}
NEEDED: dict[str, dict[str, Any]] = {
    "admin.clean_runs": {"older_than": 60.0},
    "objects.propose_many": {"objects": [{"kind": "memory", "content": "a"}]},
    "attention.cancel": {"task_id": "t1"},
    "attention.kill": {"task_id": "t1"},
    "attention.story": {"task_id": "t1"},
    "attention.task": {"task_id": "t1"},
    "jobs.release": {},
    "jobs.snooze": {"delay": 1.0},
    "schedules.create": {"every": 60},
}


def operations() -> Iterator[tuple[str, AnyMethod]]:
    for room, value in rooms_of(Rooms(None)).items():
        if isinstance(value, Room):
            for name, operation in operations_of(type(value)).items():
                yield f"{room}.{name}", operation


OPERATIONS = dict(operations())


def routes() -> list[APIRoute]:
    return [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def opened(dependant: Dependant) -> list[AnyMethod]:
    """The operations behind a route."""
    mine = [ROUTE_OPERATIONS[dependant.call]] if dependant.call in ROUTE_OPERATIONS else []
    return mine + [each for inner in dependant.dependencies for each in opened(inner)]


def shape(path: str) -> str:
    return re.sub(r"{[^}]*}", "{}", path)


def test_every_route_of_ours_opens_one_operation_at_its_address() -> None:
    for route in routes():
        module = route.endpoint.__module__
        if module.startswith(OURS):
            (operation,) = opened(route.dependant)
            assert (shape(route.path), route.methods) == (shape(operation.path), {operation.method}), route.path
        else:
            assert module.startswith(OTHERS), f"{route.path} is in {module}; it belongs in service/routes"


def test_every_operation_has_one_route() -> None:
    doors = Counter(id(each) for route in routes() for each in opened(route.dependant))
    counted = {name: doors[id(each)] for name, each in OPERATIONS.items() if not name.startswith("health.")}
    assert {name: count for name, count in counted.items() if count != 1} == {}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_has_a_verb(name: str) -> None:
    operation = OPERATIONS[name]
    if name in ASKED_OF_A_SERVICE or isinstance(operation, Streamed):
        return
    given = dict(NEEDED.get(name, {}))
    for parameter in list(inspect.signature(operation.__wrapped__).parameters.values())[1:]:
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            given.setdefault(
                parameter.name, "job_1" if parameter.name == "job_id" else SAMPLES.get(str(parameter.annotation), "a")
            )
    built = operation.__wrapped__(None, **given)
    if isinstance(built, Wait):
        built = built.round(0.0)
    if isinstance(built, Listing):
        assert built.rows is not None
    else:
        assert isinstance(built, Call)
        assert built.verb is not None


def test_every_changing_call_takes_a_reason_or_says_why_not() -> None:
    without = {
        name
        for name, each in operations()
        if each.method != "GET" and "reason" not in inspect.signature(each.__wrapped__).parameters
    }

    assert without == WITHOUT_REASON


def test_every_operation_is_called_through_all_senders() -> None:
    """Every operation is named in a test of this folder, whose fixture calls it over each sender."""
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    called = {
        name
        for name in OPERATIONS
        if name.startswith("health.") or any(re.search(rf"\b{re.escape(name)}\(", text) for text in texts)
    }
    assert sorted(set(OPERATIONS) - called) == []
