"""Who comes in, by what, and when it ends: cookies under the console alone, codes once, forms from here (S3-54)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from horae.actions.access.sessions import create_code
from horae.actions.access.tokens import create_token, find_tokens, revoke_token
from horae.console.install import install
from horae.console.rendering import POLICY
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.guard.limits import Rates
from horae.service.options import Options
from horae.testing.clock import VirtualClock
from tests.console.conftest import Browser, LogIn


@pytest.fixture
def code(world: World) -> str:
    token, _ = create_token(world, owner="system", scopes=["admin"])
    return create_code(world, token.token_id)[1]


def test_a_link_with_a_code_logs_in_and_leads_on_without_the_code(browser: Browser, code: str) -> None:
    answer = browser.get(f"/login?code={code}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert browser.open("/")


def test_a_code_works_once(browser: Browser, service: FastAPI, code: str) -> None:
    browser.get(f"/login?code={code}")
    second = Browser(service)
    assert second.get(f"/login?code={code}").status_code == 401
    assert second.get("/").status_code == 303


def test_a_code_can_be_pasted_instead_of_a_token(browser: Browser, code: str) -> None:
    assert browser.log_in(code).status_code == 303
    assert browser.open("/")


def test_a_token_is_pasted_and_not_kept_in_the_cookie(browser: Browser, world: World) -> None:
    _, token = create_token(world, owner="alice", scopes=["tasks"])
    answer = browser.log_in(f"  {token} ")
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303
    assert token[-40:] not in cookie
    assert all(part in cookie for part in ("HttpOnly", "SameSite=lax", "Path=/console", "horae_session_8765="))
    assert "Secure" not in cookie


def test_over_https_the_cookie_is_secure(service: FastAPI, world: World) -> None:
    browser = Browser(service, host="https://horae.test")
    answer = browser.log_in(create_token(world, owner="alice", scopes=["tasks"])[1])
    assert "Secure" in answer.headers["set-cookie"]


def test_a_wrong_token_is_told_so_on_the_page(browser: Browser) -> None:
    answer = browser.log_in("horae_nonsense")
    assert answer.status_code == 401
    assert "not valid" in answer.text
    assert not browser.is_logged_in


def test_wrong_codes_count_like_wrong_tokens(browser: Browser, code: str, clock: VirtualClock) -> None:
    answers = [browser.get(f"/login?code={number:040x}").status_code for number in range(30)]
    assert answers[0] == 401
    assert answers[-1] == 429
    assert browser.get(f"/login?code={code}").status_code == 303  # a right one is still accepted


def test_a_cookie_is_nothing_to_the_api(operator: Browser) -> None:
    assert operator.http.get("/jobs").status_code == 401
    assert operator.http.post("/jobs", json={"handler": "x"}).status_code == 401


def test_a_token_is_nothing_to_the_console(service: FastAPI, world: World) -> None:
    _, token = create_token(world, owner="system", scopes=["admin"])
    answer = TestClient(service).get(
        "/console/", headers={"Authorization": f"Bearer {token}"}, follow_redirects=False
    )  # fmt: skip
    assert answer.status_code == 303


def test_a_revoked_token_ends_the_page_at_the_next_request(operator: Browser, world: World) -> None:
    assert operator.open("/")
    (token,) = find_tokens(world)
    revoke_token(world, token.token_id)
    assert operator.get("/").headers["location"] == "/console/login"
    assert operator.get("/", headers={"HX-Request-Type": "partial"}).headers["hx-redirect"] == "/console/login"


def test_an_idle_session_ends(operator: Browser, clock: VirtualClock) -> None:
    clock.advance(timedelta(hours=12))
    assert operator.get("/").status_code == 303


def test_logging_out_ends_the_session_everywhere(operator: Browser, service: FastAPI) -> None:
    twin = Browser(service)
    twin.http.cookies.update(operator.http.cookies)
    assert operator.post("/logout").headers["location"] == "/console/login"
    assert twin.get("/").status_code == 303


def test_two_installations_on_one_host_do_not_log_each_other_out(service: FastAPI, world: World) -> None:
    browser = Browser(service)
    browser.log_in(create_token(world, owner="alice", scopes=["tasks"])[1])
    browser.http.base_url = "http://horae.test:8766"
    browser.post("/login", csrf=browser.csrf("/login"), token=create_token(world, owner="bob", scopes=["tasks"])[1])
    assert {"horae_session_8765", "horae_session_8766"} <= set(browser.http.cookies)


@pytest.mark.parametrize(
    "there",
    ["https://evil.test/", "//evil.test/console/", "/\\evil.test", "/elsewhere", "javascript:alert(1)", "/console\n/x"],
)
def test_after_the_login_only_pages_of_the_console_follow(there: str, browser: Browser, world: World) -> None:
    _, token = create_token(world, owner="alice", scopes=["tasks"])
    answer = browser.post("/login", token=token, next=there)
    assert answer.headers["location"] == "/console/tasks"


def test_after_the_login_the_page_that_was_wanted_follows(browser: Browser, world: World) -> None:
    asked = browser.get("/jobs?q=state%3Adead")
    assert asked.headers["location"] == "/console/login?next=%2Fconsole%2Fjobs%3Fq%3Dstate%253Adead"
    _, token = create_token(world, owner="alice", scopes=["tasks"])
    answer = browser.post("/login", token=token, next="/console/jobs?q=state%3Adead")
    assert answer.headers["location"] == "/console/jobs?q=state%3Adead"


def test_a_form_from_elsewhere_is_refused(operator: Browser, service: FastAPI, world: World) -> None:
    other = Browser(service)
    other.log_in(create_token(world, owner="system", scopes=["admin"])[1])
    for wrong in ("", "0" * 128, other.csrf("/")):
        assert operator.post("/logout", csrf=wrong).status_code == 403
    assert operator.open("/")


def test_a_page_of_another_site_can_send_no_form(operator: Browser) -> None:
    token = operator.csrf("/")
    answer = operator.http.post("/console/logout", data={"csrf": token}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


def test_each_answer_masks_its_token_anew(operator: Browser) -> None:
    assert operator.csrf("/") != operator.csrf("/")


def test_the_login_form_needs_its_own_page_too(browser: Browser, world: World) -> None:
    _, token = create_token(world, owner="alice", scopes=["tasks"])
    assert browser.post("/login", csrf="0" * 128, token=token).status_code == 403


def test_the_policy_is_on_every_page_and_forms_know_their_origin(operator: Browser, browser: Browser) -> None:
    for answer in (operator.get("/"), operator.get("/nothing"), browser.get("/login")):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


def test_what_is_sent_before_the_login_is_read_only_a_little(browser: Browser) -> None:
    answer = browser.post("/login", csrf="0" * 128, token="x" * 20_000)
    assert answer.status_code == 413


def test_an_act_of_nobody_leads_to_the_login_and_its_body_is_not_read(browser: Browser) -> None:
    answer = browser.post("/jobs/job_1/cancel", csrf="0" * 128, reason="x" * 100_000)
    assert answer.status_code in (303, 404)


def test_without_authentication_the_console_opens_by_itself(world: World, options: Options) -> None:
    app = build(lambda: world, replace(options, open_to_all=True, rates=Rates()))
    install(app)
    browser = Browser(app)
    assert "Log out" not in browser.open("/")
    assert browser.post("/preferences", csrf=browser.csrf("/"), theme="dark").status_code == 303


@pytest.mark.parametrize("prefix", ["", "/a/b"])
def test_a_browser_is_led_to_the_console_from_the_root_under_any_prefix(
    prefix: str, service: FastAPI, world: World
) -> None:
    outer = FastAPI()
    outer.mount(prefix or "/", service)
    browser = Browser(outer, root=prefix)
    found = browser.http.get(f"{prefix}/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert found.headers["location"] == f"{prefix}/console/"
    answer = browser.log_in(create_token(world, owner="alice", scopes=["tasks"])[1])
    assert answer.headers["location"] == f"{prefix}/console/tasks"
    assert f"Path={prefix}/console" in answer.headers["set-cookie"]
    assert f'href="{prefix}/console/assets/' in browser.open("/")


def test_a_program_at_the_root_still_learns_that_nothing_is_there(browser: Browser) -> None:
    answer = browser.http.get("/")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_reader_keeps_theme_language_and_zone(operator: Browser) -> None:
    operator.post("/preferences", theme="dark", lang="zh", zone="utc")
    page = operator.open("/")
    assert 'data-theme="dark"' in page
    assert 'lang="zh-Hans"' in page


def test_a_read_only_visitor_sees_home(log_in: LogIn) -> None:
    assert log_in("system", "read").open("/")
    assert log_in("alice", "tasks").open("/")
    assert log_in("alice", "worker", queues=("mail",)).open("/")
