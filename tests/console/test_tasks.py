"""A tenant's own tasks: create, preview, toggle, run, change, delete; nothing typed is lost (S1-1)."""

import re
from typing import Any

import pytest

from horae import Horae
from horae.actions.jobs import claims, endings
from horae.ports.world import World
from tests.console.conftest import Browser, LogIn

CRON: dict[str, Any] = {"schedule_type": "cron", "cron": "0 9 * * 1-5", "timezone": "Asia/Shanghai"}
FORM: dict[str, Any] = {
    "name": "Stand-up",
    "arg.text": "Remind us of the stand-up",
    "enabled": "yes",
    "unit": "60",
    **CRON,
}


@pytest.fixture
def alice(log_in: LogIn) -> Browser:
    return log_in("alice", "tasks")


def create(browser: Browser, **fields: Any) -> str:
    """Create a task by the form; return its path."""
    answer = browser.post("/tasks/new", **{**FORM, **fields})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/console")


def test_a_tenant_who_logs_in_lands_on_their_tasks(browser: Browser, log_in: LogIn, world: World) -> None:
    alice = log_in("alice", "tasks")
    assert alice.get("/login").headers["location"] == "/console/tasks"
    assert "No task yet." in alice.open("/tasks")


def test_an_operator_lands_at_home(operator: Browser) -> None:
    assert operator.get("/login").headers["location"] == "/console/"


def test_a_task_is_made_by_the_form_and_shown_with_its_words_and_next_runs(alice: Browser) -> None:
    page = alice.open(create(alice))
    assert "Remind us of the stand-up" in page
    assert "At 09:00 on Monday to Friday" in page or "09:00" in page
    assert "Asia/Shanghai" in page
    listed = alice.open("/tasks")
    assert "One task is on; at most 20 can be." in listed
    assert "Stand-up runs next" in listed


def test_a_form_that_is_sent_twice_makes_one_task(alice: Browser) -> None:
    token = alice.csrf("/tasks/new")
    first, second = (alice.post("/tasks/new", csrf=token, **FORM).headers["location"] for _ in range(2))
    assert first == second
    third = alice.post("/tasks/new", csrf=token, **{**FORM, "name": "Another"})
    assert third.headers["location"] != first


@pytest.mark.parametrize(
    ("wrong", "field", "says"),
    [
        ({"cron": "0 9 * *"}, "cron", "Cron"),
        ({"cron": ""}, "cron", "needed"),
        ({"timezone": "Mars/Base"}, "timezone", "Mars/Base"),
        ({"name": "  "}, "name", "needed"),
        ({"arg.text": ""}, "arg.text", "needed"),
        ({"rest": "{"}, "rest", "not JSON"),
        ({"rest": "[]"}, "rest", "not a JSON object"),
        ({"rest": '{"ctx": 1}'}, "rest", "ctx"),
        ({"schedule_type": "interval", "every": "2", "unit": "1"}, "every", "too short"),
        ({"schedule_type": "interval", "every": "-2"}, "every", "whole number"),
        ({"schedule_type": "once"}, "at", "needed"),
        ({"schedule_type": "once", "at": "tomorrow"}, "at", "tomorrow"),
    ],
)
def test_a_mistake_is_said_beside_its_field_and_nothing_typed_is_lost(
    wrong: dict[str, Any], field: str, says: str, alice: Browser
) -> None:
    form = {**FORM, "arg.default_agent": "oracle", **wrong}
    answer = alice.post("/tasks/new", **form)
    assert answer.status_code in (400, 422)
    (said,) = re.findall(rf'id="{re.escape(field)}-problem" role="alert">([^<]*)<', answer.text)
    assert says in said
    assert re.search(
        rf'name="{re.escape(field)}"[^>]* aria-invalid="true" aria-describedby="{field}-problem"', answer.text
    )
    assert 'value="oracle"' in answer.text
    assert form["name"] in answer.text
    assert form["arg.text"] in answer.text
    assert "No task yet." in alice.open("/tasks")


def test_without_javascript_a_button_shows_the_preview_and_stores_nothing(alice: Browser) -> None:
    answer = alice.post("/tasks/new", **{**FORM, "cron": "*/10 * * * *", "preview": "yes"})
    assert answer.status_code == 200
    assert "Remind us of the stand-up" in answer.text
    assert answer.text.count("UTC+8") >= 5
    assert "No task yet." in alice.open("/tasks")


def test_the_live_preview_says_the_rule_in_both_languages_and_the_next_runs(alice: Browser) -> None:
    part = alice.open("/tasks/preview", params=CRON, headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert "<html" not in part
    assert 'lang="zh-Hans"' in part
    assert re.search(r"[\u4e00-\u9fff]", part)
    assert part.count("09:00 UTC+8") == 5


def test_the_live_preview_of_a_mistake_is_a_sentence(alice: Browser) -> None:
    assert "Cron" in alice.open("/tasks/preview", params={**CRON, "cron": "99 * * * *"})
    assert "Mars" in alice.open("/tasks/preview", params={**CRON, "timezone": "Mars/Base"})


def test_a_full_quota_is_no_hindrance_to_a_preview(alice: Browser, log_in: LogIn, world: World) -> None:
    for each in range(20):
        create(alice, name=f"task {each}")
    assert "20 tasks are on; at most 20 can be." in alice.open("/tasks")
    assert "09:00 UTC+8" in alice.open("/tasks/preview", params=CRON)
    answer = alice.post("/tasks/new", **FORM)
    assert answer.status_code == 409
    assert 'id="enabled-problem"' in answer.text
    path = create(alice, name="one more", enabled="")
    refused = alice.post(f"{path}/toggle", enabled="yes", follow=True)
    assert "20 tasks are enabled" in refused.text


def test_a_task_is_switched_off_and_the_undo_switches_it_on(alice: Browser) -> None:
    path = create(alice)
    page = alice.post(f"{path}/toggle", enabled="no", back="list", follow=True).text
    assert "Stand-up is off." in page
    assert 'aria-checked="false"' in page
    assert "Undo" in page
    assert 'aria-checked="true"' in alice.post(f"{path}/toggle", enabled="yes", back="list", follow=True).text


def test_an_edit_shows_what_is_stored_and_changes_it(alice: Browser) -> None:
    path = create(alice, **{"arg.default_agent": "oracle", "rest": '{"context": {"channel": "mail"}}'})
    page = alice.open(f"{path}/edit")
    assert 'value="oracle"' in page
    assert "channel" in page
    version = field_value(page, "version")
    form = {**FORM, "schedule_type": "interval", "every": "2", "unit": "3600", "version": version}
    answer = alice.post(f"{path}/edit", **form, follow=True)
    assert "Stand-up is changed." in answer.text
    again = alice.open(f"{path}/edit")
    assert field_value(again, "every") == "2"
    assert '<option value="3600" selected>' in again


def test_a_change_over_a_newer_one_is_refused_with_the_form_kept(alice: Browser) -> None:
    path = create(alice)
    version = field_value(alice.open(f"{path}/edit"), "version")
    assert alice.post(f"{path}/edit", **{**FORM, "name": "First", "version": version}).status_code == 303
    answer = alice.post(f"{path}/edit", **{**FORM, "name": "Second", "version": version})
    assert answer.status_code == 412
    assert "at version 2 by now" in answer.text
    assert 'value="Second"' in answer.text


def test_a_task_for_once_keeps_its_instant_when_only_its_name_changes(alice: Browser, app: Horae) -> None:
    path = create(alice, schedule_type="once", at="2030-03-01T09:30")
    before = app.scheduled_tasks.get(path.rpartition("/")[2]).next_run_at
    page = alice.open(f"{path}/edit")
    assert field_value(page, "at") == "2030-03-01T09:30"
    form = {**FORM, "schedule_type": "once", "at": "2030-03-01T09:30", "name": "Other"}
    alice.post(f"{path}/edit", **form, version=field_value(page, "version"))
    after = app.scheduled_tasks.get(path.rpartition("/")[2])
    assert (after.name, after.next_run_at) == ("Other", before)


def test_run_now_makes_a_run_whose_result_is_shown(alice: Browser, world: World) -> None:
    path = create(alice)
    assert "It runs now, once." in alice.post(f"{path}/trigger", follow=True).text
    (job,) = claims.pull(world, worker_id="w", queues=("default",), limit=1)
    assert "running" in alice.open(path)
    endings.ack(world, job.id, job.token, result={"output": "all stood up"})
    page = alice.open(path)
    assert "all stood up" in page
    assert job.id in page
    refused = alice.post(f"{path}/trigger", follow=True)
    assert refused.status_code == 200
    assert "nothing was started" in alice.post(f"{path}/trigger", follow=True).text


def test_a_failed_run_says_why_and_the_list_says_it_first(alice: Browser, world: World) -> None:
    path = create(alice)
    alice.post(f"{path}/trigger")
    (job,) = claims.pull(world, worker_id="w", queues=("default",), limit=1)
    endings.fail(world, job.id, job.token, "the orchestrator is away", final=True)
    assert "the orchestrator is away" in alice.open(path)
    assert "Stand-up failed the last time." in alice.open("/tasks")


def test_a_deleted_task_is_gone_and_deleting_asks_first(alice: Browser) -> None:
    path = create(alice)
    assert "This cannot be undone." in alice.open(path)
    assert "Stand-up is deleted." in alice.post(f"{path}/delete", follow=True).text
    assert alice.get(path).status_code == 404


def test_a_tenant_sees_and_reaches_nothing_of_another(alice: Browser, log_in: LogIn) -> None:
    path, bob = create(alice, name="secret plan"), log_in("bob", "tasks")
    assert "secret plan" not in bob.open("/tasks")
    assert (
        "secret plan" not in bob.open("/tasks?user=alice") if bob.get("/tasks?user=alice").status_code == 200 else True
    )
    for each in (path, f"{path}/edit"):
        assert bob.get(each).status_code == 404
    for act in ("toggle", "trigger", "delete"):
        assert bob.post(f"{path}/{act}").status_code == 404
    assert bob.post(f"{path}/edit", **FORM).status_code == 404
    assert "secret plan" in alice.open("/tasks")


def test_an_operator_sees_the_tasks_of_all_users(alice: Browser, operator: Browser) -> None:
    create(alice)
    assert "alice" in operator.open("/tasks")
    assert "Stand-up" in operator.open("/tasks?user=alice")


def test_hostile_text_in_a_task_is_only_text(alice: Browser) -> None:
    evil = '"><script>alert(1)</script>'
    path = create(alice, **{"name": evil, "arg.text": evil, "rest": '{"x": "<img src=x>"}'})
    for page in (alice.open(path), alice.open(f"{path}/edit"), alice.open("/tasks")):
        assert "<script>alert" not in page
        assert "<img" not in page


@pytest.mark.parametrize("handler", ["webhook", "attend"])
def test_other_handlers_have_fields_of_their_own(handler: str, alice: Browser) -> None:
    page = alice.open(f"/tasks/new?handler={handler}")
    assert f'name="arg.{"url" if handler == "webhook" else "lane"}"' in page
    refused = alice.post("/tasks/new", **{**FORM, "handler": handler, "arg.url": "ftp://x"})
    assert refused.status_code in (400, 422)
    assert 'role="alert"' in refused.text


def field_value(page: str, name: str) -> str:
    found = re.search(rf'<input[^>]*name="{name}"[^>]* value="([^"]*)"', page) or re.search(
        rf'name="{name}" value="([^"]*)"', page
    )
    assert found is not None, name
    return found[1]
