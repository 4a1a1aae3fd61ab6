"""What people do in the console, in their words, in a real Chromium.

A scenario fails on an error on the browser's console, a breach of the content policy, or a request to another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from horae.actions.access.tokens import revoke_token
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.console.install import install
from horae.errors import StoreUnavailable
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from tests.browser.conftest import Serve, Shop
from tests.console.everything import make_everything
from tests.console.ground import make_batches, make_day
from tests.console.pages import paths
from tests.support.browsing import barriers
from tests.support.serving import answering

pytestmark = pytest.mark.slow
MOST_TABS = 120
PARTS = 3  # of the list of all pages, so that no test takes long
# What makes a page scroll sideways: the innermost elements that reach beyond its edge.
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .slice(-3).map((each) => each.outerHTML.slice(0, 160))"""
# The main five work without JavaScript and under any prefix too.
WAYS = [
    pytest.param("", {}, id="plain"),
    pytest.param("", {"java_script_enabled": False}, id="without JavaScript"),
    pytest.param("/a/b", {}, id="below a prefix"),
]


@pytest.fixture
def shop(serve: Serve) -> Shop:
    return serve()


def heading(page: Page) -> str:
    return str(page.locator("h1").inner_text())


# -- the main five -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "options"), WAYS)
def test_i_open_the_link_and_see_whether_all_is_well(prefix: str, options: dict[str, Any], serve: Serve) -> None:
    shop = serve(prefix=prefix)
    page = shop.reader(**options)
    assert page.url == f"{shop.console}/"  # the code is gone from the address
    expect(page.get_by_role("link", name="Jobs", exact=True).first).to_be_visible()
    assert heading(page)


@pytest.mark.parametrize(("prefix", "options"), WAYS)
def test_i_find_why_a_job_failed_and_run_it_again_with_edits(
    prefix: str, options: dict[str, Any], serve: Serve
) -> None:
    shop = serve(prefix=prefix)
    page = shop.reader(**options)
    page.locator("#search").fill("state:dead handler:orders.charge")
    page.locator("#search").press("Enter")
    page.locator("table a.name").first.click()
    expect(page.get_by_text("the bank refused the card").first).to_be_visible()
    page.locator("#edited").fill('{"order": 4711, "amount": 1, "card": "tok_new"}')
    page.get_by_role("button", name="Run as a new job").click()
    expect(page.get_by_text("This is the new job")).to_be_visible()
    expect(page.get_by_text("queued").first).to_be_visible()


@pytest.mark.parametrize(("prefix", "options"), WAYS)
def test_i_pause_a_queue_and_take_it_back(prefix: str, options: dict[str, Any], serve: Serve) -> None:
    shop = serve(prefix=prefix)
    page = shop.reader(**options)
    page.get_by_role("link", name="Queues", exact=True).click()
    page.get_by_role("link", name="mail", exact=True).click()
    page.get_by_label("Why pause it?").fill("the provider is down")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused. Running jobs go on.")).to_be_visible()
    expect(page.get_by_text("the provider is down").first).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Resumed.")).to_be_visible()


@pytest.mark.parametrize(("prefix", "options"), WAYS)
def test_i_cancel_many_jobs_after_i_have_seen_which(prefix: str, options: dict[str, Any], serve: Serve) -> None:
    shop = serve(prefix=prefix)
    jobs.enqueue_many(shop.world, [Request("images.resize", {"n": n}, queue="images") for n in range(5)])
    page = shop.reader(**options)
    shop.open(page, "/jobs/bulk?verb=cancel&all=yes&q=state:queued+queue:images")
    count = re.search(r"\d+", heading(page))
    assert count is not None
    page.get_by_label("Why?").fill("wrong size")
    page.get_by_label(f"Type {count[0]} to confirm").fill(count[0])
    page.get_by_role("button", name="Cancel them").click()
    expect(page.get_by_text("wrong size")).to_be_visible()


@pytest.mark.parametrize(("prefix", "options"), WAYS)
def test_i_make_a_task_and_see_when_it_runs_before_i_store_it(
    prefix: str, options: dict[str, Any], serve: Serve
) -> None:
    shop = serve(prefix=prefix)
    page = shop.reader("carol", "tasks", **options)
    assert page.url == f"{shop.console}/tasks"
    page.get_by_role("link", name="New task").click()
    page.get_by_label("Name", exact=True).fill("Water the plants")
    page.get_by_label("Prompt").fill("Remind me to water the plants")
    page.locator("#cron").fill("15 7 * * 6")
    page.locator("#timezone").fill("Asia/Tokyo")
    if options:
        page.get_by_role("button", name="Show when it runs").click()
    expect(page.locator("#preview")).to_contain_text("07:15 UTC+9")
    expect(page.locator("#preview [lang=zh-Hans]")).to_contain_text("07:15")
    page.get_by_role("button", name="Create the task").click()
    expect(page.get_by_text("Water the plants is stored.")).to_be_visible()
    expect(page.get_by_role("heading", name="Water the plants")).to_be_visible()


# -- batches and calendars ---------------------------------------------------------------------------------------------


def test_i_see_how_far_a_batch_is_and_cancel_what_is_left(shop: Shop) -> None:
    made = make_batches(shop.world, shop.clock)
    page = shop.reader()
    page.get_by_role("link", name="Batches", exact=True).click()
    page.get_by_role("link", name="Winter catalogue").click()
    expect(page.get_by_text("5 of 8 jobs have ended; 1 failed.")).to_be_visible()
    page.get_by_text("Cancel this batch").click()
    page.get_by_label("Why?").fill("the printer is away")
    page.get_by_role("button", name="Cancel what is left").click()
    expect(page.get_by_text("It was cancelled: the printer is away")).to_be_visible()
    assert shop.app.batches.get(made["batch"]).state == "failed"


def test_i_make_a_calendar_and_change_it_without_javascript(shop: Shop) -> None:
    page = shop.reader(java_script_enabled=False)
    page.get_by_role("link", name="Calendars", exact=True).click()
    page.get_by_label("Name").fill("bank")
    page.get_by_label("Days, one on a line").fill("2030-01-08\nsat")
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_text("bank is stored.")).to_be_visible()
    page.get_by_label("Days, one on a line").fill("sun")
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_text("Stored. The schedules that follow it have new times.")).to_be_visible()
    assert shop.app.calendars.get("bank").days == ("sun",)


# -- my tasks ----------------------------------------------------------------------------------------------------------


def test_i_see_my_mistake_while_i_type_it_and_mend_it(shop: Shop) -> None:
    page = shop.reader("alice", "tasks")
    shop.open(page, "/tasks/new")
    page.locator("#cron").fill("99 9 * * *")
    expect(page.locator("#preview .field-problem")).to_contain_text("99")
    page.locator("#cron").fill("30 9 * * *")
    expect(page.locator("#preview")).to_contain_text("09:30")
    page.get_by_label("Again and again").check()
    expect(page.locator("#cron")).to_be_hidden()
    page.locator("#every").fill("2")
    expect(page.locator("#preview .words")).to_have_text(re.compile("2 hours"))


def test_i_switch_a_task_off_run_it_now_and_delete_it(shop: Shop) -> None:
    page = shop.reader("alice", "tasks")
    page.get_by_role("switch", name="Morning briefing is on").click()
    expect(page.get_by_text("Morning briefing is off.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("switch", name="Morning briefing is on")).to_have_attribute("aria-checked", "true")
    page.get_by_role("link", name="Morning briefing").click()
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("It runs now, once.")).to_be_visible()
    page.get_by_text("Delete", exact=True).click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("Morning briefing is deleted.")).to_be_visible()


# -- how i like it -----------------------------------------------------------------------------------------------------


def test_i_read_it_in_chinese_in_the_dark_and_in_utc(shop: Shop) -> None:
    page = shop.reader()
    for name in ("中文", "深色", "UTC"):
        page.locator("header summary", has_text=re.compile("Display|显示")).click()
        page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("link", name="首页")).to_be_visible()
    shop.open(page, "/jobs?q=state:dead")
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_i_need_no_mouse(shop: Shop) -> None:
    page = shop.reader()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("/")
    page.keyboard.type("state:dead")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=state*")
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.closest('[data-row]') !== null")
    assert focused
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/job_*")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus, and see that it shows it."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", selector
            return
    raise AssertionError(f"{selector} is not reached by Tab on {page.url}")


def write(page: Page, selector: str, text: str) -> None:
    tab_to(page, selector)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def test_my_five_main_tasks_need_no_mouse(shop: Shop) -> None:
    jobs.enqueue_many(shop.world, [Request("images.resize", {"n": n}, queue="images") for n in range(2)])
    page = shop.reader()
    page.keyboard.press("/")  # why did it fail, and run it again with edits
    page.keyboard.type("state:dead handler:orders.charge")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=state*")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/job_*")
    write(page, "#edited", '{"order": 4711, "amount": 1, "card": "tok_new"}')
    tab_to(page, "button")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This is the new job")).to_be_visible()

    page.keyboard.press("g")  # pause a queue, and take it back
    page.keyboard.press("q")
    page.wait_for_url("**/queues")
    tab_to(page, 'a[href$="/queues/mail"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues/mail")
    write(page, "#pause-reason", "the provider is down")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Paused. Running jobs go on.")).to_be_visible()
    tab_to(page, '[action$="/queues/mail/resume"] button')
    page.keyboard.press("Enter")
    expect(page.get_by_text("Resumed.")).to_be_visible()

    page.keyboard.press("/")  # cancel some jobs after a look at them
    page.keyboard.type("state:queued queue:images")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=state*")
    page.keyboard.press("j")
    page.keyboard.press("x")
    tab_to(page, 'button[value="cancel"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/bulk?*")
    write(page, "#why", "wrong size")
    write(page, "#typed", "1")
    tab_to(page, "button.danger")
    page.keyboard.press("Enter")
    expect(page.get_by_text("wrong size")).to_be_visible()


def test_a_task_of_mine_needs_no_mouse(shop: Shop) -> None:
    page = shop.reader("carol", "tasks")
    tab_to(page, 'a[href$="/tasks/new"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/new")
    write(page, "#name", "Water the plants")
    write(page, "textarea", "Remind me to water the plants")
    write(page, "#cron", "15 7 * * 6")
    write(page, "#timezone", "Asia/Tokyo")
    expect(page.locator("#preview")).to_contain_text("07:15 UTC+9")
    tab_to(page, "button.primary")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Water the plants is stored.")).to_be_visible()


# -- while i watch -----------------------------------------------------------------------------------------------------


def test_what_changes_appears_while_i_watch_and_my_focus_stays(shop: Shop) -> None:
    page = shop.reader()
    shop.open(page, "/jobs?q=queue:rare")
    page.locator("#q").focus()
    where = page.evaluate("(scrollTo(0, 40), scrollY)")
    jobs.enqueue(shop.world, Request("rare.thing", {}, queue="rare"))
    expect(page.locator("table").get_by_text("rare.thing")).to_be_visible()
    assert page.evaluate("[document.activeElement.id, scrollY]") == ["q", where]


def test_nothing_changes_under_my_eyes_while_i_have_paused_it(shop: Shop) -> None:
    page = shop.reader()
    shop.open(page, "/jobs?q=queue:rare")
    page.keyboard.press("l")
    expect(page.locator("#live")).to_contain_text("Paused")
    jobs.enqueue(shop.world, Request("rare.thing", {}, queue="rare"))
    page.keyboard.press("l")
    expect(page.locator("table").get_by_text("rare.thing")).to_be_visible()


def test_a_revoked_token_ends_the_page_at_the_next_request(shop: Shop) -> None:
    token_id, text = shop.token()
    page = shop.browser()
    shop.open(page, "/login")
    page.get_by_label("Access token").fill(text)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/console/")
    revoke_token(shop.world, token_id, actor="test")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.wait_for_url("**/login?next=*")


def test_a_reader_sees_everything_and_no_button_that_acts(shop: Shop) -> None:
    page = shop.reader("system", "read")
    for path in ("/queues/mail", "/schedules/newsletter", "/tasks"):
        shop.open(page, path)
        assert page.locator("#content form[method=post]").count() == 0


@pytest.fixture
def away(shop: Shop) -> Iterator[tuple[Shop, list[bool]]]:
    """The same store, behind a service that can be cut off from it."""
    gone = [False]

    def opens() -> World:
        if gone[0]:
            raise StoreUnavailable("store_not_opened_yet")
        return shop.world

    service = build(opens, Options(version="test"))
    install(service)
    with answering(service) as server:
        shop.url = server.url
        yield shop, gone


def test_while_the_store_is_away_the_page_says_so_and_then_it_recovers(away: tuple[Shop, list[bool]]) -> None:
    shop, gone = away
    page = shop.reader(expected=("503",))
    before = heading(page)
    gone[0] = True
    expect(page.locator("#live")).to_have_text("Reconnecting")
    assert heading(page) == before  # what was there stays
    page.reload()
    expect(page.get_by_text("does not answer").first).to_be_visible()
    gone[0] = False
    expect(page.locator("#live")).to_have_text("Live")


# -- for everybody -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_keeps_anybody_out_or_scrolls_sideways(part: int, serve: Serve) -> None:
    """axe finds nothing serious on any page, each with something in it, and at 360 pixels nothing is cut off."""
    problems = []
    for path, page in visit(serve, part, color_scheme="light", viewport={"width": 360, "height": 780}):
        problems += [f"{path}: {each}" for each in barriers(page)]
        problems += [f"{path}: too wide: {each}" for each in page.evaluate(TOO_WIDE)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_can_be_read_in_the_dark(part: int, serve: Serve) -> None:
    """Only colours differ there."""
    seen = visit(serve, part, color_scheme="dark")
    problems = [f"{path}: {each}" for path, page in seen for each in barriers(page, ["color-contrast"])]
    assert not problems, "\n".join(problems)


def visit(serve: Serve, part: int, **context: Any) -> Iterator[tuple[str, Page]]:
    """Open some of all pages, one after the other."""
    shop = serve(hours=0)
    found = make_everything(shop.world, shop.clock)
    make_day(shop.world, shop.clock, hours=1)
    page = shop.reader(**context)
    for path in list(paths(found))[part::PARTS]:
        shop.open(page, path)
        yield path, page
