"""A service over a store, and callers of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.errors import StoreUnavailable
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.testing.clock import VirtualClock
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url
from tests.support.templates import put_tables

Connect = Callable[..., TestClient]


# What may meet any request, whatever it asks for; the document tells it once, as `default`.
ANYWHERE = {405, 408, 415, 421, 500, 507}


def routes_of(app: FastAPI) -> list[APIRoute]:
    return list(_inside(app.routes))


def _inside(listed: Iterable[Any]) -> Iterator[APIRoute]:
    """FastAPI keeps an included router whole."""
    for route in listed:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _inside(route.original_router.routes)


@cache
def _described() -> list[tuple[APIRoute, set[str]]]:
    """Every route of a service that opens nothing, and the statuses that the document declares for it."""
    app = build(_nowhere)
    paths = app.openapi()["paths"]
    return [
        (route, set(paths[route.path_format][method.lower()]["responses"]))
        for route in routes_of(app)
        for method in route.methods or ()
        if route.path_format in paths
    ]


def _nowhere() -> World:
    raise StoreUnavailable("only the description is wanted")


def only_declared(response: httpx.Response) -> None:
    """Every answer that a test meets has a status that the OpenAPI document declares for its operation."""
    method = response.request.method if response.request.method != "HEAD" else "GET"
    path = response.request.url.path
    result = next(
        (result for route, result in _described() if method in (route.methods or ()) and route.path_regex.match(path)),
        None,
    )
    if result is not None and response.status_code not in ANYWHERE:
        assert str(response.status_code) in result, f"{method} {path} answered {response.status_code}: {sorted(result)}"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(tmp_path: Path, clock: VirtualClock) -> Iterator[World]:
    """SQLite in a file, at a time that only the test moves."""
    with Horae(put_tables(tmp_path / "horae.db"), clock=clock) as app:
        yield app.world


@pytest.fixture
def options() -> Options:
    """Override it in a file or a test module to run the service in another way."""
    return Options(version="test")


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """The one event loop that all clients share: one for each request took a third of the time of these tests."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def connect(world: World, options: Options, portal: BlockingPortal) -> Connect:
    """``connect("alice", "tasks")``: a client with a token of that tenant; without arguments one with no token."""

    def client(owner: str = "", *scopes: str, queues: tuple[str, ...] = (), **changed: object) -> TestClient:
        app = build(lambda: world, replace(options, **changed))  # type: ignore[arg-type]
        made = TestClient(app, base_url="http://horae.test", raise_server_exceptions=False)
        made.portal = portal
        made.event_hooks = {"response": [only_declared]}
        if owner:
            _, text = create_token(world, owner=owner, scopes=scopes or ("tasks", "worker"), queues=queues)
            made.headers["Authorization"] = f"Bearer {text}"
        return made

    return client


@pytest.fixture
def alice(connect: Connect) -> TestClient:
    return connect("alice", "tasks", "worker")


@pytest.fixture
def bob(connect: Connect) -> TestClient:
    return connect("bob", "tasks", "worker")


@pytest.fixture
def operator(connect: Connect) -> TestClient:
    return connect("system", "admin")


@pytest.fixture
def nobody(connect: Connect) -> TestClient:
    return connect()
