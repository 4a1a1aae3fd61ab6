"""The console in a real Chromium: a service on a port of this machine, and readers who use it as people do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect

from horae import Horae
from horae.actions.access.sessions import create_code
from horae.actions.access.tokens import create_token
from horae.cli.access.console import login_url
from horae.ports.world import World
from horae.settings import Settings
from horae.testing.clock import VirtualClock
from tests.conftest import needs
from tests.console.ground import make_day
from tests.support import programs
from tests.support.browsing import Watch, chromium
from tests.support.serving import answering
from tests.support.templates import put_tables

BEGINS = "2030-01-07T00:05:00Z"
SOON = 30_000  # milliseconds: longer is a failure
LIKE_MOST = {"locale": "en-GB", "timezone_id": "Europe/Berlin", "viewport": {"width": 1280, "height": 900}}
expect.set_options(timeout=SOON)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """One browser for a module; not for the session, because Playwright keeps an event loop of its own running."""
    needs(programs.CHROMIUM)
    with chromium() as browser:
        yield browser


@dataclass
class Shop:
    """A served console over a made-up day, and readers of it."""

    app: Horae
    clock: VirtualClock
    chrome: Browser
    url: str
    stack: ExitStack
    watches: list[Watch] = field(default_factory=list)

    @property
    def world(self) -> World:
        return self.app.world

    @property
    def console(self) -> str:
        return f"{self.url}/console"

    def token(self, owner: str = "system", *scopes: str) -> tuple[str, str]:
        """Make a token; return its id and its text."""
        made, text = create_token(self.world, owner=owner, scopes=scopes or ("admin",))
        assert made.token_id is not None
        return made.token_id, text

    def link(self, owner: str = "system", *scopes: str) -> str:
        """Return a link that logs one browser in."""
        _, code = create_code(self.world, self.token(owner, *scopes)[0], actor="test")
        return login_url(self.url, code)

    def browser(self, *, hosts: tuple[str, ...] = (), expected: tuple[str, ...] = (), **options: Any) -> Page:
        """Open a window that is not logged in; the test fails on whatever its watch has seen."""
        given = {
            "locale": "en-GB",
            "timezone_id": "Europe/Berlin",
            "viewport": {"width": 1280, "height": 900},
            **options,
        }
        context = self.chrome.new_context(**given)
        watch = Watch({self.url.partition("//")[2].partition("/")[0], *hosts}, set(expected))
        watch.follow(context)
        self.watches.append(watch)
        self.stack.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(SOON)
        return page

    def reader(self, owner: str = "system", *scopes: str, **options: Any) -> Page:
        """Open a window that has logged in by its link."""
        page = self.browser(**options)
        page.goto(self.link(owner, *scopes))
        return page

    def open(self, page: Page, path: str) -> None:
        page.goto(f"{self.console}{path}")


Serve = Callable[..., Shop]


@pytest.fixture
def serve(tmp_path: Path, chrome: Browser) -> Iterator[Serve]:
    """``serve(hours=1, prefix="/a/b")``: a console with a day behind it."""
    shops: list[Shop] = []
    with ExitStack() as stack:

        def start(*, hours: int = 1, prefix: str = "", clock: VirtualClock | None = None, **settings: Any) -> Shop:
            virtual = clock or VirtualClock(BEGINS)
            app = stack.enter_context(Horae(put_tables(tmp_path / "horae.db"), clock=virtual))
            if hours:
                make_day(app.world, virtual, hours=hours)
            service: FastAPI = app.asgi(Settings(server_chores=False, **settings))
            if prefix:
                outer = FastAPI()
                outer.mount(prefix, service)
                service = outer
            server = stack.enter_context(answering(service))
            shops.append(Shop(app, virtual, chrome, server.url + prefix, stack))
            return shops[-1]

        yield start
    for shop in shops:
        for watch in shop.watches:
            assert watch.seen == []
