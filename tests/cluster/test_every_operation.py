"""Every operation says how it is done in a cluster: by what it is routed, or how answers of several databases merge."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, cast

import pytest

from horae.api.here import Here, house
from horae.api.operation import Call, Listing
from horae.api.waits import Wait
from horae.core.cluster.shard_map import first_map
from horae.core.jobs.job import SYSTEM
from horae.ports.world import World
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.api.test_doors import NEEDED, OPERATIONS, SAMPLES, AnyMethod

# What an operation needs beside the usual samples to get as far as its first look at a database.
GIVEN: dict[str, dict[str, Any]] = {
    "admin.run": {"run_id": "job_12.1"},
    "attention.cancel": {"task_id": "t1"},
    "batches.cancel": {"batch_id": "batch_1"},
    "batches.get": {"batch_id": "batch_1"},
    "batches.jobs": {"batch_id": "batch_1"},
    "batches.wait": {"batch_id": "batch_1"},
    **{f"budgets.{verb}": {"unit": "calls"} for verb in ("adjust", "get", "history", "set")},
    "objects.conclude": {"verdict": "confirmed"},
    "objects.erase": {"object_id": "a"},
    "objects.evidence": {"evidence": ["a"]},
    "objects.propose": {"kind": "memory"},
    "owners.quiet": {"quiet_hours": "22:00-07:00"},
    "policies.get": {"kind": "memory"},
    "policies.set": {"kind": "memory", "settings": {"act_age": 60}},
    "reviews.answer": {"answer": "approve"},
    "reviews.ask": {"about": "memory:a"},
    "schedules.backfill": {"start": NOON, "end": NOON},
    "views.save": {"filter": "queue:mail"},
}
# Nothing tells in which database these begin, and yet they show all that there is.
AT_HOME = {
    "admin.definitions": "every database has a copy of every definition (0143)",
    "health.ready": "whether this process can work: with the home, and without any of the others",
    "sessions.end": "sessions of browsers are in the home",
}
OWNERS_AT_HOME = {"sessions.list"}  # as those of browsers that act for a tenant
# These ask no database, or not through the world that they are given.
OF_THE_PROCESS = {
    "admin.doctor": "examines the installation by itself, database by database",
    "admin.settings": "what this process runs with",
    "health.alive": "asked of a service",
    "health.metrics": "asked of a service, which asks every database",
    "health.version": "asked of a service",
    "objects.schemas": "words of the program",
}


def takes_owner(operation: AnyMethod) -> bool:
    return "owner" in inspect.signature(operation.__wrapped__).parameters


class Asked(BaseException):
    """By what the rows are found that a verb asks for first; ``databases``: it goes through several by itself."""


class Store:
    """Says so as soon as a verb reads or writes; the beginning of a moment is neither."""

    def __init__(self, found_by: str) -> None:
        self._found_by = found_by

    def moment(self) -> Any:
        return nullcontext()

    def __getattr__(self, name: str) -> Any:
        raise Asked(self._found_by)


class Databases:
    """Those of a cluster."""

    shard_map = first_map("first", "sqlite:///0.db", b"0" * 16)
    token_hints: dict[str, int] = {}  # noqa: RUF012  # none is ever kept

    def __getattr__(self, name: str) -> Any:
        raise Asked("databases")


class Watched(World):
    """A world of a cluster that says what a verb asks of it."""

    __slots__ = ()

    def route(self, **known: str | None) -> World:
        by = [name for name, value in known.items() if value not in (None, SYSTEM)]
        return world_of(by[0] if by else "house" if known.get("owner") == SYSTEM else "home")

    def route_job(self, job: Any) -> World:
        return world_of("job")

    def shards(self) -> list[World]:
        raise Asked("databases")

    def databases(self) -> list[World]:
        raise Asked("databases")

    def within(self, **known: str | None) -> list[World]:
        return [self.route(**known)] if any(known.values()) else self.shards()


def world_of(found_by: str) -> World:
    return World(cast("Any", Store(found_by)), VirtualClock(NOON), LoadedDice())


def watched() -> Watched:
    return Watched(cast("Any", Store("home")), VirtualClock(NOON), LoadedDice(), cluster=cast("Any", Databases()))


class FakeSealer:
    """Stands for the operator's key."""

    def seal(self, *_: Any) -> bytes:
        return b"sealed"


def built(name: str, **chosen: str) -> Call[Any]:
    operation, given = OPERATIONS[name], {**NEEDED.get(name, {}), **GIVEN.get(name, {}), **chosen}
    for parameter in list(inspect.signature(operation.__wrapped__).parameters.values())[1:]:
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            usual = "job_12" if parameter.name == "job_id" else SAMPLES.get(str(parameter.annotation), "a")
            given.setdefault(parameter.name, usual)
    made = operation.__wrapped__(None, **given)
    call = made.round(0.0) if isinstance(made, Wait) else made.page(None, 10) if isinstance(made, Listing) else made
    assert isinstance(call, Call)
    return call


def way_of(call: Call[Any]) -> str:
    """Return by what the rows are found that an operation of the house asks for first.

    ``house``: those of the owner ``system``, which are in one virtual shard; ``home``: whatever the first database has.
    """
    assert call.verb is not None
    try:
        found = call.verb(Here(watched(), house("ann"), sealer=lambda: cast("Any", FakeSealer())))
        next(found) if isinstance(found, Iterator) else None
    except Asked as asked:
        return str(asked)
    return "nothing"


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - OF_THE_PROCESS.keys()))
def test_every_operation_is_routed_or_asks_every_database(name: str) -> None:
    """One that is about no owner, id or key asks all of them, or says why the home has everything that it shows."""
    call = built(name)
    way = "merged" if call.gather is not None else way_of(call)
    assert way != "nothing"
    assert (way == "home") == (name in AT_HOME), f"{name} asks the home alone: merge the answers of all databases"


@pytest.mark.parametrize("name", sorted(name for name, each in OPERATIONS.items() if takes_owner(each)))
def test_every_operation_that_is_told_an_owner_goes_where_that_is(name: str) -> None:
    call = built(name, owner="alice")
    if call.gather is None or (call.query.get("owner") and not call.is_scattered):
        assert way_of(call) in ("owner", "databases", *(["home"] if name in OWNERS_AT_HOME else []))


def test_no_reason_is_left_for_an_operation_that_is_not_there() -> None:
    assert {*AT_HOME, *OF_THE_PROCESS, *GIVEN} <= set(OPERATIONS)
