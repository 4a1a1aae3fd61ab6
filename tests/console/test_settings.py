"""Tokens, sessions, owners, settings, the doctor and retention in the console (S3-54)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from horae import Horae
from horae.api.examination import Examination, Finding
from horae.core.time.instants import from_iso
from horae.service.options import Options
from horae.settings import Settings, effective_settings
from tests.console.conftest import Browser, LogIn


@pytest.fixture
def options(options: Options) -> Options:
    """A server that shows its settings and examines itself."""
    settings = Settings(jwt_secret="hunter2", instance="production", database_url="postgresql://a:hunter2@db/horae")
    found = Examination(
        healthy=False, complete=True, checked_at=from_iso("2030-01-07T00:00:00Z"),
        findings=(
            Finding(check="disk", level="ok", text="76 GiB are free"),
            Finding(check="workers", level="problem", text="No worker serves mail.", mend="horae worker --queues mail"),
        ),
    )  # fmt: skip
    return replace(
        options,
        instance="production",
        instance_colour="red",
        settings=lambda: effective_settings(settings, {"HORAE_INSTANCE": "production"}),
        doctor=lambda _: found,
    )


def test_the_name_and_colour_of_an_installation_stand_on_every_page(operator: Browser) -> None:
    for path in ("/", "/settings", "/governance"):
        page = operator.open(path)
        assert '<div class="stripe stripe-red">' in page
        assert '<span class="instance">production</span>' in page


def test_a_token_is_made_shown_once_and_works(operator: Browser, browser: Browser, app: Horae) -> None:
    answer = operator.post("/settings/tokens", name="ci", owner="alice", scopes=["tasks", "read"], days="30")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    text = re.search(r"horae_[0-9a-f]{12}_[0-9a-f]{72}", answer.text)
    assert text is not None
    assert text[0] not in operator.open("/settings/tokens")
    assert browser.log_in(text[0]).status_code == 303
    made = next(each for each in app.tokens.list() if each.name == "ci")
    assert (made.owner, set(made.scopes)) == ("alice", {"tasks", "read"})


def test_a_token_without_scopes_is_refused_and_what_was_typed_stays(operator: Browser) -> None:
    answer = operator.post("/settings/tokens", name="for the ci")
    assert answer.status_code == 422
    assert "for the ci" in answer.text
    assert operator.post("/settings/tokens", name="x", scopes="tasks", days="7000").status_code == 422


def test_a_revoked_token_ends_its_browsers(operator: Browser, log_in: LogIn, app: Horae) -> None:
    alice = log_in("alice", "tasks")
    assert alice.get("/").status_code == 200
    token = next(each for each in app.tokens.list() if each.owner == "alice")
    page = operator.post(f"/settings/tokens/{token.id}/revoke", reason="lost", follow=True).text
    assert "is revoked" in page
    assert alice.get("/").status_code == 303


def test_another_browser_is_logged_out(operator: Browser, log_in: LogIn, app: Horae) -> None:
    assert "Only this browser is logged in." in operator.open("/settings/sessions")
    alice = log_in("alice", "tasks")
    assert "One other browser is logged in." in operator.open("/settings/sessions")
    session = next(each for each in app.sessions.list() if each.owner == "alice")
    assert operator.post(f"/settings/sessions/{session.id}/end").status_code == 303
    assert alice.get("/").status_code == 303


def test_the_settings_of_an_owner_are_stored_and_shown_for_a_change(operator: Browser, app: Horae) -> None:
    fields: dict[str, Any] = {
        "allow_networks": "10.0.0.0/8",
        "ports": "8443",
        "max_enabled_tasks": "5",
        "weight": "3",
        "allow_http": "yes",
    }
    assert operator.post("/settings/owners", owner="alice", **fields, reason="a pilot").status_code == 303
    stored = app.owners.get("alice")
    assert (stored.allow_networks, stored.ports, stored.max_enabled_tasks, stored.allow_http) == (
        ("10.0.0.0/8",), (8443,), 5, True,
    )  # fmt: skip
    page = operator.open("/settings/owners?owner=alice")
    assert 'value="10.0.0.0/8"' in page
    assert operator.post("/settings/owners", owner="alice", ports="many").status_code == 422


def test_settings_in_force_are_shown_with_their_origin_and_without_secrets(operator: Browser) -> None:
    page = operator.open("/settings/server")
    assert "hunter2" not in page
    assert "[masked]" in page
    assert re.search(r"HORAE_INSTANCE</span>.*?production.*?environment", page, re.DOTALL)


def test_the_doctor_says_what_is_wrong_and_the_command_that_mends_it(operator: Browser) -> None:
    page = operator.open("/settings/doctor")
    assert "One thing is wrong." in page
    assert "horae worker --queues mail" in page
    assert page.index("No worker serves mail.") < page.index("76 GiB are free")


def test_retention_is_set_and_forgotten(operator: Browser, app: Horae) -> None:
    assert "Finished jobs are kept for 30 days." in operator.open("/settings/retention")
    assert operator.post("/settings/retention", queue="mail", outcome="succeeded", days="7").status_code == 303
    (rule,) = app.admin.retention().rules
    assert (rule.queue, rule.outcome, rule.keep.days) == ("mail", "succeeded", 7)
    assert operator.post("/settings/retention", queue="mail", outcome="succeeded", forget="yes").status_code == 303
    assert app.admin.retention().rules == ()
    assert operator.post("/settings/retention", days="a week").status_code == 422


def test_everybody_may_choose_how_they_see_it(log_in: LogIn) -> None:
    alice = log_in("alice", "tasks")
    page = alice.open("/settings")
    assert "/settings/tokens" not in page
    alice.post("/preferences", theme="dark", lang="zh", next="/console/settings")
    assert 'data-theme="dark"' in alice.open("/settings")
    assert "显示方式" in alice.open("/settings")


def test_tenants_and_readers_see_no_tokens_and_no_settings(log_in: LogIn) -> None:
    for owner, scope in (("alice", "tasks"), ("system", "read")):
        browser = log_in(owner, scope)
        for path in ("tokens", "sessions", "server", "doctor"):
            assert browser.get(f"/settings/{path}").status_code == 403, (owner, path)
