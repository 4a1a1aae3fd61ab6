"""A service over a store, and callers of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from horae import Horae
from horae.actions.tokens import create_token
from horae.ports import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.testing.clock import VirtualClock
from tests.support.templates import put_tables

Connect = Callable[..., TestClient]


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


@pytest.fixture
def connect(world: World, options: Options) -> Connect:
    """``connect("alice", "tasks")``: a client with a token of that tenant; without arguments one with no token."""

    def client(owner: str = "", *scopes: str, queues: tuple[str, ...] = (), **changed: object) -> TestClient:
        app = build(lambda: world, replace(options, **changed))  # type: ignore[arg-type]
        made = TestClient(app, base_url="http://horae.test", raise_server_exceptions=False)
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
