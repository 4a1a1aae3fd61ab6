"""Rules that every page keeps: operation, form's token, scopes, hostile text, both languages (S1-1, S3-54)."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi import FastAPI

from horae import console
from horae.api.acts import Acts
from horae.api.scheduled_tasks.room import ScheduledTasks
from horae.api.views import Views
from horae.console.install import doors
from horae.console.routing import Door
from horae.errors import StoreUnavailable
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser, LogIn
from tests.console.everything import make_everything
from tests.console.ground import HOSTILE
from tests.console.pages import WITHOUT_OPERATION, acts, filled, pages, paths

TEMPLATES = Path(console.__file__).parent / "templates"
READS_BY_POST = (Acts.preview, ScheduledTasks.preview_new)  # take much in their body, and change nothing
READERS_MAY = (Views.save, Views.delete)  # a reader keeps views of its own


def names(door: Door) -> str:
    return f"{door.method} {door.path}"


def test_every_door_stands_on_an_operation_or_says_why_not() -> None:
    without = {(door.method, door.path) for door in doors() if door.operation is None}
    assert without == set(WITHOUT_OPERATION)
    assert all(door.is_public == (door.operation is None) for door in doors())


def test_reading_stands_on_reading_and_acting_on_acting() -> None:
    """A page never stands on what changes something, and an act always does."""
    wrong = [
        names(door)
        for door in doors()
        if door.operation is not None
        and (door.operation.method == "GET" or door.operation in READS_BY_POST) != (door.method == "GET")
    ]
    assert wrong == []


@pytest.mark.parametrize("door", acts(), ids=names)
def test_an_act_without_the_token_of_a_form_is_refused(door: Door, operator: Browser) -> None:
    assert operator.post(filled(door.path, {}), csrf="0" * 128).status_code == 403


@pytest.mark.parametrize("door", [door for door in acts() if door.operation not in (None, *READERS_MAY)], ids=names)
def test_an_act_is_refused_to_those_who_may_only_read(door: Door, log_in: LogIn) -> None:
    assert log_in("system", "read").post(filled(door.path, {})).status_code == 403


@pytest.mark.parametrize("door", [door for door in doors() if not door.is_public], ids=names)
def test_nobody_comes_in_without_a_session(door: Door, browser: Browser) -> None:
    path = filled(door.path, {})
    answer = browser.get(path) if door.method == "GET" else browser.post(path, csrf="0" * 128)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/console/login")


def is_made_by_naming(door: Door) -> bool:
    """A queue may be paused or limited before its first job."""
    return door.method == "POST" and door.path.startswith("/queues/")


@pytest.mark.parametrize(
    "door", [door for door in doors() if "{" in door.path and not is_made_by_naming(door)], ids=names
)
def test_what_is_not_there_is_a_page_that_says_so(door: Door, operator: Browser) -> None:
    path = filled(door.path, {})
    answer = operator.get(path) if door.method == "GET" else operator.post(path)
    assert answer.status_code in (404, 422), answer.text
    assert "<h1" in answer.text


def test_hostile_text_is_only_text_on_every_page(operator: Browser, world: World, clock: VirtualClock) -> None:
    for path in paths(make_everything(world, clock)):
        answer = operator.get(path)
        assert answer.status_code == (303 if path == "/login" else 200), path
        assert_harmless(answer.text, path)


def assert_harmless(page: str, path: str) -> None:
    elements = Elements()
    elements.feed(page)
    assert elements.scripts <= {"htmx", "console"}, path
    assert not elements.handlers, path
    assert "<img" not in page, path
    assert "49" not in re.findall(r"\{\{7\*7\}\}|49\$", page), path


class Elements(HTMLParser):
    """Finds scripts and handlers in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: set[str] = set()
        self.handlers: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            source = dict(attributes).get("src") or "inline"
            self.scripts.add(re.split(r"[-.]", source.rpartition("/")[2])[0])
        self.handlers += [name for name, _ in attributes if name.startswith("on") or name == "style"]


def test_every_page_speaks_both_languages_whole(operator: Browser, world: World, clock: VirtualClock) -> None:
    for path in paths(make_everything(world, clock)):
        joined = "&" if "?" in path else "?"
        for lang, tag in (("en", "en"), ("zh", "zh-Hans")):
            answer = operator.get(f"{path}{joined}lang={lang}")
            if answer.status_code != 303:
                assert f'<html lang="{tag}"' in answer.text, path
                assert answer.headers["content-language"] == tag


def test_a_fragment_is_the_content_alone(operator: Browser, world: World, clock: VirtualClock) -> None:
    for path in paths(make_everything(world, clock)):
        page = operator.get(path).text
        part = operator.get(path, headers={"HX-Request": "true", "HX-Request-Type": "partial"}).text
        assert "<html" not in part
        assert without_tokens(part).strip() in without_tokens(page), path


def without_tokens(page: str) -> str:
    return re.sub(r'value="[0-9a-f]{128}"', "", page)


def test_boosted_and_restored_requests_get_the_whole_page(operator: Browser) -> None:
    assert "<html" in operator.open(
        "/", headers={"HX-Request": "true", "HX-Boosted": "true", "HX-Request-Type": "full"}
    )
    assert "HX-Request-Type" in operator.get("/").headers["vary"]


def test_a_store_that_does_not_answer_is_a_page_that_tries_again(options: Options) -> None:
    from horae.console.install import install

    def away() -> World:
        raise StoreUnavailable("store_not_opened_yet")

    app: FastAPI = build(away, options)
    install(app)
    browser = Browser(app)
    browser.http.cookies.set("horae_session_8765", f"{'0' * 12}.{'0' * 64}")
    answer = browser.get("/")
    assert answer.status_code == 503
    assert 'http-equiv="refresh"' in answer.text
    assert "does not answer" in answer.text


def test_a_failure_of_ours_is_a_page_with_an_id(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from horae.console.pages import home

    def broken(*_: object) -> str:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr(home, "_lead", broken)
    answer = operator.get("/", headers={"X-Request-Id": "r-77"})
    assert answer.status_code == 500
    assert "r-77" in answer.text
    assert "secret of the house" not in answer.text


def test_a_page_that_is_not_there_says_so(operator: Browser) -> None:
    answer = operator.get("/nothing-here")
    assert answer.status_code == 404
    assert "no such page" in answer.text


def test_a_page_has_at_most_one_primary_button(operator: Browser, world: World, clock: VirtualClock) -> None:
    for path in paths(make_everything(world, clock)):
        page = operator.get(path).text
        assert len(re.findall(r'class="[^"]*\bprimary\b', page)) <= 1, path


def test_every_time_has_its_zone_and_what_machines_read(operator: Browser, world: World, clock: VirtualClock) -> None:
    for path in paths(make_everything(world, clock)):
        for tag in re.findall(r"<time\b[^>]*>", operator.get(path).text):
            assert re.search(r'datetime="\d{4}-\d\d-\d\dT[\d:.]+Z"', tag), (path, tag)
            assert re.search(r'title="[^"]+UTC', tag), (path, tag)


def test_every_state_has_a_shape_and_a_word(operator: Browser, world: World, clock: VirtualClock) -> None:
    """A colour alone says nothing to those who do not see it."""
    seen = 0
    for path in paths(make_everything(world, clock)):
        for shown in re.findall(r'<span class="state [^"]*">(.*?</span>)</span>', operator.get(path).text, re.S):
            seen += 1
            assert "<svg" in shown, path
            assert re.sub(r"<[^>]+>|\s", "", shown), path
    assert seen > 20


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda each: each.name)
def test_what_destroys_asks_for_a_reason(template: Path) -> None:
    """Each form that destroys something takes a reason, or leads to the page that counts first and takes one there."""
    for form in re.findall(r"<form\b.*?</form>", template.read_text(encoding="utf-8"), re.S):
        if re.search(r'<button[^>]*class="[^"]*\bdanger|\'danger\'', form):
            takes = 'name="reason"' in form or 'field("reason"' in form or 'name="note"' in form
            assert takes or "/jobs/bulk" in form, form[:200]
    assert '"danger")' not in template.read_text(encoding="utf-8"), "a macro's form takes no reason"


# What a tenant reads of the house, and why: calendars are shared, so that its own schedules can follow them.
SHARED = ("/calendars", "/calendars/mail")


@pytest.mark.parametrize("scope", ["tasks", "read", "worker", "review"])
def test_a_tenant_opens_every_page_or_is_refused_and_sees_nothing_of_others(
    scope: str, log_in: LogIn, world: World, clock: VirtualClock
) -> None:
    tenant = log_in("bob", scope)
    for path in paths(make_everything(world, clock)):
        answer = tenant.get(path)
        assert answer.status_code in (200, 303, 403, 404), path
        if path not in SHARED and answer.status_code == 200:  # a refusal repeats the name that was asked for
            assert "alert(2)" not in answer.text, path


assert HOSTILE
assert pages()
