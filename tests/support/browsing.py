"""A real Chromium, driven by Playwright, without a request to anywhere but the service under test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

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
