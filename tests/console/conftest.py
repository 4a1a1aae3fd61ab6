"""A service with its console over a store, and browsers that are logged in to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from fastapi.testclient import TestClient

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.console.install import install
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.guard.limits import Rates
from horae.service.options import Options
from horae.testing.clock import VirtualClock
from tests.support.templates import put_tables

HOST = "http://horae.test:8765"
CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Browser:
    """A browser without JavaScript: follows links, sends forms, keeps cookies."""

    portal: ClassVar[BlockingPortal | None] = None  # of the tests, which share one; a benchmark gets one by itself

    def __init__(self, app: Any, root: str = "", host: str = HOST) -> None:
        self.http = TestClient(app, base_url=host, raise_server_exceptions=True)
        self.http.portal = self.portal
        self.root = f"{root}/console"

    def get(self, path: str, **options: Any) -> Any:
        return self.http.get(f"{self.root}{path}", **{"follow_redirects": False, **options})

    def open(self, path: str, **options: Any) -> str:
        """Open a page, and return it."""
        answer = self.get(path, **options)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.headers.get('location', answer.text)}"
        return str(answer.text)

    def csrf(self, page: str = "/login") -> str:
        found = CSRF.search(self.get(page).text)
        assert found is not None
        return found[1]

    def post(self, path: str, *, csrf: str | None = None, follow: bool = False, **fields: Any) -> Any:
        """Send a form as a browser does: with the token of the page, from the same site."""
        token = self.csrf("/" if self.is_logged_in else "/login") if csrf is None else csrf
        return self.http.post(
            f"{self.root}{path}", data={"csrf": token, **fields}, headers={"Sec-Fetch-Site": "same-origin"},
            follow_redirects=follow,
        )  # fmt: skip

    @property
    def is_logged_in(self) -> bool:
        return any(name.startswith("horae_session") for name in self.http.cookies)

    def log_in(self, token: str) -> Any:
        return self.post("/login", token=token)


LogIn = Callable[..., Browser]


@pytest.fixture(scope="session", autouse=True)
def _one_event_loop() -> Iterator[None]:
    """All browsers share an event loop: a new one for each request costs a millisecond or two."""
    with start_blocking_portal() as Browser.portal:
        yield


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(tmp_path: Path, clock: VirtualClock) -> Iterator[Horae]:
    with Horae(put_tables(tmp_path / "horae.db"), clock=clock) as made:
        yield made


@pytest.fixture
def world(app: Horae) -> World:
    return app.world


@pytest.fixture
def options() -> Options:
    """Override it to run the service in another way."""
    return Options(version="test", rates=Rates(wrong_per_address=30))


@pytest.fixture
def service(world: World, options: Options) -> FastAPI:
    made = build(lambda: world, options)
    install(made)
    return made


@pytest.fixture
def browser(service: FastAPI) -> Browser:
    """A browser that is not logged in."""
    return Browser(service)


@pytest.fixture
def log_in(world: World, service: FastAPI) -> LogIn:
    """``log_in("alice", "tasks")``: a browser that is logged in with a token of that tenant."""

    def with_token(owner: str = "system", *scopes: str, queues: tuple[str, ...] = ()) -> Browser:
        _, token = create_token(world, owner=owner, scopes=scopes or ("admin",), queues=queues)
        made = Browser(service)
        answer = made.log_in(token)
        assert answer.status_code == 303, answer.text
        return made

    return with_token


@pytest.fixture
def operator(log_in: LogIn) -> Browser:
    return log_in()
