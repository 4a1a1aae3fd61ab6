"""The first minute: one link, something is happening, kill the worker and watch it recover."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browsing import Watch
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
RECOVERED = 90_000  # milliseconds: five seconds of lease and the rest of a report, on a busy machine


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``horae up`` as a newcomer starts it; the link that it prints."""
    folder = tmp_path_factory.mktemp("up")
    said = folder / "said"
    with said.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "horae", "up", "--json", "--port", "0"],
            cwd=folder, stdout=out, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        yield str(wait_until(lambda: printed_link(said), "a link"))
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(40)
        process.kill()
        process.wait()


def printed_link(said: Path) -> str | None:
    whole = [line for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]
    events = [json.loads(line) for line in whole if line.startswith("{")]
    return next((each["console"] for each in events if each["event"] == "serving"), None)


@pytest.fixture(scope="module")
def page(chrome: Browser, link: str) -> Iterator[Page]:
    watch = Watch({link.partition("//")[2].partition("/")[0]})
    context = chrome.new_context(locale="en-GB", timezone_id="Europe/Berlin")
    watch.follow(context)
    page = context.new_page()
    page.goto(link)
    yield page
    context.close()
    assert watch.seen == []


def test_what_a_newcomer_finds_is_there_from_the_start(page: Page) -> None:
    """Jobs that succeed, fail and wait, schedules, an agent's lane, memories that are looked at."""
    root = page.url.rstrip("/")
    expect(page.locator("#dare")).to_contain_text("kill -9", timeout=RECOVERED)
    expect(page.get_by_text("Questions of agents that wait for an answer: 1.")).to_be_visible(timeout=RECOVERED)
    for path, words in (
        ("/jobs?q=state:dead", "the amount 'twelve' is not a number"),
        ("/schedules", "example.backup"),
        ("/attention", "example"),
        ("/jobs?q=queue:governance", "govern"),
    ):
        page.goto(f"{root}{path}")
        expect(page.get_by_text(words).first).to_be_visible(timeout=RECOVERED)


def test_a_newcomer_kills_the_worker_from_the_page_and_watches_it_recover(page: Page) -> None:
    page.get_by_role("link", name="Home", exact=True).click()
    page.get_by_role("link", name="Watch the reports").click()
    running = page.locator("tr", has=page.locator(".is-running"))
    running.locator("a.name").first.click(timeout=RECOVERED)
    expect(page.locator("progress").first).to_be_visible(timeout=RECOVERED)
    job = page.url
    page.get_by_role("link", name="Workers", exact=True).click()
    told = re.search(r"kill -9 (\d+)", page.locator("#dare").inner_text())
    assert told is not None
    os.kill(int(told[1]), signal.SIGKILL)
    page.goto(job)
    table = page.locator("table")
    expect(table.get_by_text("lost", exact=True)).to_be_visible(timeout=RECOVERED)
    expect(table.get_by_text("succeeded", exact=True)).to_be_visible(timeout=RECOVERED)
    root = page.url.partition("/jobs/")[0]
    page.goto(f"{root}/workers")
    again = re.search(r"kill -9 (\d+)", page.locator("#dare").inner_text())
    assert again is not None
    assert again[1] != told[1]
