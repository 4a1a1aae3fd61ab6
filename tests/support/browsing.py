"""A real Chromium, driven by Playwright, without a request to anywhere but the service under test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support import programs

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Chromium says this of itself where a page is left while it fades in; no script of ours is concerned.
HARMLESS = ("Transition was aborted", "Transition was skipped")
SERIOUS = ("serious", "critical")  # what axe calls such


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium, without a window."""
    path = programs.find(programs.CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """What must not happen in a browser: an error on its console, a breach of the content policy, a foreign request.

    *expected* are parts of console lines that a scenario causes on purpose.
    """

    hosts: set[str]
    expected: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        context.on("page", self._follow_page)
        context.on("request", lambda request: self._request(request.url))

    def _follow_page(self, page: Page) -> None:
        page.on("console", lambda line: self._line(line.type, line.text))
        page.on("pageerror", lambda error: self._line("error", str(error)))

    def _line(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(part in text for part in (*self.expected, *HARMLESS)):
            self.seen.append(f"console: {text}")

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc not in self.hosts:
            self.seen.append(f"a request to another host: {url}")


def barriers(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Return what axe finds on a page that keeps somebody out, by all of its rules or by some."""
    options = {"runOnly": list(rules)} if rules else None
    found: dict[str, Any] = Axe().run(page, options=options).response
    return [
        f"{each['id']}: {each['help']} at {each['nodes'][0]['target']}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]
