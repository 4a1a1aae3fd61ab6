"""Users' scheduled tasks over HTTP: document 001's words, its examples as printed, and who sees what."""

import json
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs import claims, endings, jobs
from horae.actions.schedules import fires
from horae.core.jobs.job import Ending, Job, Outcome
from horae.ports.world import World
from horae.service.dialects.scheduled_tasks import versions_from
from horae.testing.clock import VirtualClock
from horae.words.languages import preferred_language
from tests.service.conftest import Connect

HOUR = timedelta(hours=1)
PATH = "/scheduled-tasks"
# The bodies of document 001's two curl examples, byte for byte.
INTERVAL = """{
    "name": "demo interval",
    "enabled": true,
    "schedule_type": "interval",
    "schedule_expr": "60",
    "timezone": "UTC",
    "payload": {
      "text": "每天 9 点提醒我打卡",
      "context": {"channel":"scheduled_task"}
    }
  }"""
ONCE = """{
    "name": "demo once",
    "schedule_type": "once",
    "timezone": "UTC",
    "next_run_at": "2026-02-27T01:30:00",
    "payload": {"text":"hello","mode":"hybrid"}
  }"""
HOURLY: dict[str, Any] = {"name": "hourly", "schedule_expr": "0 * * * *", "payload": {"text": "hello"}}
FIELDS = ["id", "user_id", "name", "enabled", "schedule_type", "schedule_expr", "timezone", "payload", "next_run_at",
          "last_run_at", "locked_by", "locked_until", "created_at", "updated_at"]  # fmt: skip


def made(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post(PATH, json=HOURLY | body)
    assert answer.status_code == 201, answer.text
    response: dict[str, Any] = answer.json()
    return response


def fired(world: World) -> list[Job]:
    fires.fire_due(world)
    return claims.pull(world, worker_id="w1")


# -- the documents' examples -------------------------------------------------------------------------------------


def test_the_interval_example_works_as_printed(alice: TestClient) -> None:
    """S1-15, S1-19."""
    answer = alice.post(PATH, content=INTERVAL.encode(), headers={"Content-Type": "application/json"})

    response = answer.json()
    assert answer.status_code == 201
    assert list(response)[: len(FIELDS)] == FIELDS
    assert (response["user_id"], response["schedule_type"], response["schedule_expr"]) == ("alice", "interval", "60")
    assert (response["next_run_at"], response["last_run_at"]) == ("2030-01-07T12:01:00Z", None)
    assert response["payload"] == json.loads(INTERVAL)["payload"]
    assert (response["words"], response["version"], response["warnings"]) == ("Every minute", 1, [])
    assert answer.headers["Location"] == f"{PATH}/{response['id']}"


def test_the_once_example_works_as_printed(alice: TestClient, world: World) -> None:
    """C-7, C-18, C-38: UTC, long past, and with a mode of its own (S1-26)."""
    answer = alice.post(PATH, content=ONCE.encode(), headers={"Content-Type": "application/json"})

    response = answer.json()
    assert answer.status_code == 201
    assert (response["enabled"], response["next_run_at"], response["schedule_expr"]) == (
        True,
        "2026-02-27T01:30:00Z",
        "",
    )
    assert response["payload"] == {"text": "hello", "mode": "hybrid"}
    assert [warning.split()[0] for warning in response["warnings"]] == ["next_run_at"]
    (job,) = fired(world)
    endings.ack(world, job.id, job.token, result={"output": "done"})
    after = alice.get(answer.headers["Location"]).json()
    assert (after["enabled"], after["next_run_at"], after["last_run_at"]) == (False, None, "2030-01-07T12:00:00Z")


def test_a_run_tells_the_documents_fields(alice: TestClient, world: World, clock: VirtualClock) -> None:
    """S1-12, S1-13."""
    task = made(alice)
    clock.advance(HOUR)
    (job,) = fired(world)

    (running,) = alice.get(f"{PATH}/{task['id']}/runs").json()["items"]
    endings.ack(world, job.id, job.token, result={"output": "done"})
    (ended,) = alice.get(f"{PATH}/{task['id']}/runs").json()["items"]

    assert (running["status"], running["finished_at"], running["trace_id"]) == ("running", None, job.trace_id)
    assert (ended["status"], ended["result"], ended["error"]) == ("success", {"output": "done"}, None)
    assert (ended["id"], ended["attempt"], ended["trigger"]) == (running["id"], 1, "schedule")
    assert (ended["task_id"], ended["user_id"]) == (task["id"], "alice")


@pytest.mark.parametrize("ending", ["failed", "timed_out", "lost"])
def test_whatever_did_not_succeed_has_failed(
    alice: TestClient, world: World, clock: VirtualClock, ending: Ending
) -> None:
    task = made(alice)
    clock.advance(HOUR)
    (job,) = fired(world)
    if ending == "lost":
        clock.advance(timedelta(seconds=31))
        endings.lose_expired(world)
    else:
        endings.settle(world, [(job, Outcome(ending, error="no answer"))])

    (run,) = alice.get(f"{PATH}/{task['id']}/runs").json()["items"]

    assert (run["status"], run["outcome"]) == ("failed", ending)


# -- look --------------------------------------------------------------------------------------------------------


def test_a_list_is_paged_and_shows_the_last_changed_first(alice: TestClient, clock: VirtualClock) -> None:
    """S1-14."""
    ids = []
    for place in range(5):
        ids.append(made(alice, name=f"task {place}")["id"])
        clock.advance(HOUR)
    alice.put(f"{PATH}/{ids[0]}", json={"name": "changed"})

    first = alice.get(PATH, params={"limit": 3}).json()
    second = alice.get(PATH, params={"limit": 3, "cursor": first["next_cursor"]}).json()

    assert [task["id"] for task in first["items"] + second["items"]] == [ids[0], ids[4], ids[3], ids[2], ids[1]]
    assert second["next_cursor"] is None


def test_runs_are_fifty_by_default_and_paged(alice: TestClient, world: World, clock: VirtualClock) -> None:
    """S1-18."""
    task = made(alice, schedule_type="interval", schedule_expr=10)
    for _ in range(53):
        clock.advance(timedelta(seconds=10))
        (job,) = fired(world)
        endings.ack(world, job.id, job.token)

    first = alice.get(f"{PATH}/{task['id']}/runs").json()
    second = alice.get(f"{PATH}/{task['id']}/runs", params={"cursor": first["next_cursor"]}).json()

    assert (len(first["items"]), len(second["items"])) == (50, 3)
    assert len({run["id"] for run in first["items"] + second["items"]}) == 53
    assert second["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["x", "W10", "WzEsMl0", "WyJhIiwxLC0xXQ", "WyJcdTAwMDAiLDEsMV0"])
def test_a_cursor_that_was_not_made_here_is_refused(alice: TestClient, cursor: str) -> None:
    assert alice.get(PATH, params={"cursor": cursor}).status_code == 422


def test_words_are_in_the_callers_language(alice: TestClient) -> None:
    task = made(alice, schedule_expr="0 9 * * 1-5", timezone="Asia/Shanghai")
    where = f"{PATH}/{task['id']}"

    by_header = alice.get(where, headers={"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}).json()["words"]
    by_query = alice.get(where, params={"lang": "zh"}).json()["words"]

    assert by_header == by_query != task["words"]
    assert "09:00" in by_header


@pytest.mark.parametrize(
    ("header", "language"),
    [("", "en"), ("zh", "zh"), ("fr, zh;q=0.5", "zh"), ("en;q=0.8, zh-TW", "zh"), ("en, zh", "en"), ("zh;q=0", "en"),
     ("de", "en"), (";;;,q=,=", "en")],
)  # fmt: skip
def test_the_preferred_language_is_found(header: str, language: str) -> None:
    assert preferred_language(header) == language


def test_one_task_tells_all_that_is_needed_to_see_why(alice: TestClient, world: World, clock: VirtualClock) -> None:
    """S1-36."""
    task = made(alice)
    where = f"{PATH}/{task['id']}"
    clock.advance(HOUR)
    fired(world)

    response = alice.get(where).json()
    why = alice.get(f"{where}/why").json()

    assert (response["locked_by"], response["locked_until"]) == ("w1", "2030-01-07T13:00:30Z")
    assert [reason["code"] for reason in why["reasons"]] == ["running"]
    assert why["status"] == "active"


def test_a_preview_shows_instants_clocks_and_their_changes(alice: TestClient) -> None:
    """C-5: in New York, on 10 March 2030, half past two does not exist."""
    body = {"schedule_expr": "30 2 * * *", "timezone": "America/New_York"}
    task = made(alice, **body)

    thought_of = alice.post(f"{PATH}/preview", json=body, params={"count": 2}).json()
    stored = alice.get(f"{PATH}/{task['id']}/preview", params={"count": 2}).json()

    assert thought_of == stored
    assert stored["next"] == [
        {"at": "2030-01-08T07:30:00Z", "local": "2030-01-08T02:30:00-05:00"},
        {"at": "2030-01-09T07:30:00Z", "local": "2030-01-09T02:30:00-05:00"},
    ]
    assert [change["at"] for change in stored["clocks"]] == ["2030-03-10T07:00:00Z", "2030-11-03T06:00:00Z"]
    assert len(alice.get(PATH).json()["items"]) == 1


REFUSED: list[dict[str, Any]] = [
    {"schedule_expr": "61 * * * *"},
    {"timezone": "posix/Europe/Berlin"},
    {"schedule_type": "interval", "schedule_expr": "3"},
    {"schedule_type": "once"},
    {"handler": "wipe-customer"},
    {"handler": "webhook", "payload": {}},
    {"handler": "webhook", "payload": {"url": "https://127.0.0.1/"}},
    {"handler": "webhook", "payload": {"url": "https://example.org/", "headers": {"Authorization": "Bearer x"}}},
    {"handler": "attend", "payload": {"lane": "ops"}},
    {"payload": {"ctx": 1}},
    {"name": "x" * 300},
]


@pytest.mark.parametrize("body", REFUSED, ids=str)
def test_a_preview_refuses_what_making_the_task_would(alice: TestClient, body: dict[str, Any]) -> None:
    response = [alice.post(path, json=body) for path in (PATH, f"{PATH}/preview")]

    status = 400 if body.get("schedule_type") == "interval" else 422  # document 001 says 400 of intervals
    assert [answer.status_code for answer in response] == [status, status]
    assert response[0].json()["detail"] == response[1].json()["detail"]


def test_a_preview_of_one_task_too_many_is_refused(connect: Connect) -> None:
    client = connect("alice", "tasks", max_enabled_tasks=1)
    made(client)

    response = [
        client.post(path, json={"name": "x", **more})
        for path in (PATH, f"{PATH}/preview")
        for more in ({}, {"enabled": False})
    ]

    assert [answer.status_code for answer in response] == [409, 201, 409, 200]


def test_a_preview_obeys_what_the_operator_allows_this_tenant(alice: TestClient, operator: TestClient) -> None:
    body = {"handler": "webhook", "payload": {"url": "http://10.1.2.3:8080/"}}
    assert alice.post(f"{PATH}/preview", json=body).status_code == 422
    operator.put("/owners/alice", json={"allow_networks": ["10.1.0.0/16"], "allow_http": True, "ports": [8080]})
    assert alice.post(f"{PATH}/preview", json=body).status_code == 200


def test_a_time_that_comes_twice_is_the_first_and_its_user_is_told(alice: TestClient) -> None:
    """C-7: in Berlin, on 27 October 2030, half past two comes twice; with an offset nothing is left to say."""
    body = {"schedule_type": "once", "timezone": "Europe/Berlin"}
    task = made(alice, **body, next_run_at="2030-10-27T02:30:00")
    plain = made(alice, **body, next_run_at="2030-10-27T02:30:00+01:00")

    assert task["next_run_at"] == "2030-10-27T00:30:00Z"
    assert [
        response
        for response in task["warnings"]
        if "comes twice in Europe/Berlin" in response and "01:30:00Z" in response
    ]
    assert plain["next_run_at"] == "2030-10-27T01:30:00Z"
    assert not [response for response in plain["warnings"] if "twice" in response]


# -- change ------------------------------------------------------------------------------------------------------


def test_a_put_changes_what_it_names_and_computes_the_next_run_anew(alice: TestClient) -> None:
    task = made(alice, schedule_expr="0 9 * * *", name="n")

    response = alice.put(f"{PATH}/{task['id']}", json={"timezone": "Asia/Shanghai"}).json()

    assert (response["next_run_at"], response["name"], response["version"]) == ("2030-01-08T01:00:00Z", "n", 2)


def test_a_put_with_a_local_time_reads_it_in_the_zone_it_brings(alice: TestClient) -> None:
    """C-7."""
    task = made(alice)
    body = {"schedule_type": "once", "timezone": "Asia/Shanghai", "next_run_at": "2030-01-08T09:30:00"}

    response = alice.put(f"{PATH}/{task['id']}", json=body).json()

    assert (response["next_run_at"], response["schedule_type"]) == ("2030-01-08T01:30:00Z", "once")


def test_a_task_sent_back_as_it_was_read_is_not_changed(alice: TestClient) -> None:
    task = made(alice, schedule_type="once", next_run_at="2030-01-08T00:00:00")

    response = alice.put(f"{PATH}/{task['id']}", json=task).json()

    assert response == task


def test_a_put_leaves_a_running_token_alone(alice: TestClient, world: World, clock: VirtualClock) -> None:
    """Design 13, C-35."""
    task = made(alice)
    clock.advance(HOUR)
    (job,) = fired(world)

    response = alice.put(f"{PATH}/{task['id']}", json={"schedule_expr": "30 * * * *"}).json()

    assert (response["locked_by"], response["locked_until"]) == ("w1", "2030-01-07T13:00:30Z")
    assert jobs.get(world, job.id).token == job.token
    assert endings.ack(world, job.id, job.token).state == "succeeded"


def test_a_put_clears_a_lock_that_has_run_out(alice: TestClient, world: World, clock: VirtualClock) -> None:
    """S1-16."""
    task = made(alice)
    clock.advance(HOUR)
    fired(world)
    clock.advance(timedelta(minutes=5))
    assert alice.get(f"{PATH}/{task['id']}").json()["locked_by"] == "w1"

    response = alice.put(f"{PATH}/{task['id']}", json={"name": "other"}).json()

    assert (response["locked_by"], response["locked_until"]) == (None, None)


def test_release_clears_a_lock_that_holds(alice: TestClient, world: World, clock: VirtualClock) -> None:
    task = made(alice)
    clock.advance(HOUR)
    fired(world)

    response = alice.post(f"{PATH}/{task['id']}/release", json={"reason": "stuck"}).json()
    again = alice.post(f"{PATH}/{task['id']}/release")

    assert response["locked_by"] is None
    assert (again.status_code, again.json()["code"]) == (409, "not_allowed")


def test_a_once_task_is_enabled_again_only_with_a_time(alice: TestClient, world: World) -> None:
    task = made(alice, schedule_type="once", next_run_at="2030-01-07T12:00:00")
    (job,) = fired(world)
    endings.ack(world, job.id, job.token)

    refused = alice.put(f"{PATH}/{task['id']}", json={"enabled": True})
    granted = alice.put(f"{PATH}/{task['id']}", json={"enabled": True, "next_run_at": "2030-01-09T00:00:00"})

    assert refused.status_code == 422
    assert "next_run_at" in refused.json()["detail"]
    assert (granted.json()["enabled"], granted.json()["next_run_at"]) == (True, "2030-01-09T00:00:00Z")


def test_a_trigger_runs_it_now_and_not_twice(alice: TestClient, world: World) -> None:
    """C-22, C-23."""
    task = made(alice, enabled=False)

    first = alice.post(f"{PATH}/{task['id']}/trigger", json={"payload": {"text": "now", "agent": "x"}})
    second = alice.post(f"{PATH}/{task['id']}/trigger")

    assert (first.status_code, len(first.json()["warnings"])) == (202, 1)
    assert second.status_code == 409
    (job,) = claims.pull(world, worker_id="w1")
    assert (job.id, job.payload) == (first.json()["job_id"], {"text": "now"})


def test_a_deleted_task_is_gone(alice: TestClient) -> None:
    task = made(alice)

    assert alice.delete(f"{PATH}/{task['id']}").status_code == 204
    assert alice.delete(f"{PATH}/{task['id']}").status_code == 404
    assert alice.get(PATH).json()["items"] == []


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"schedule_type": "weekly"},
        {"schedule_type": "interval", "schedule_expr": True},
        {"schedule_type": "interval", "schedule_expr": 60.5},
        {"schedule_type": "interval", "schedule_expr": 10**30},
        {"schedule_type": "once"},
        {"schedule_expr": "99 * * * *"},
        {"timezone": "Mars/Olympus"},
        {"timezone": "../../etc/passwd"},
        {"timezone": "a\x00b"},
        {"next_run_at": 1234567890},
        {"next_run_at": "soon"},
        {"enabled": "yes"},
        {"name": "a\x00b"},
        {"name": "x" * 300},
        {"payload": []},
        {"payload": {"text": "a\x00b"}},
        {"payload": {"text": "x", "ctx": {}}},
        {"payload": {"text": "x" * 2_000_000}},
        {"handler": "os.system"},
        {"handler": "webhook", "payload": {"url": "http://169.254.169.254/latest"}},
        {"handler": "webhook", "payload": {"url": "https://127.0.0.1/"}},
    ],
)
def test_what_cannot_be_kept_is_a_422_that_says_why(alice: TestClient, body: dict[str, Any]) -> None:
    """C-27, C-29."""
    answer = alice.post(PATH, json=HOURLY | body)

    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert alice.get(PATH).json()["items"] == []


@pytest.mark.parametrize("expr", ["9", 9, "soon", "1.5", "", 10**10])
def test_an_interval_that_is_too_short_or_no_number_is_a_400(alice: TestClient, expr: str | int) -> None:
    """S1-32: what document 001's API answers; nothing is stored."""
    answer = alice.post(PATH, json=HOURLY | {"schedule_type": "interval", "schedule_expr": expr})

    assert (answer.status_code, answer.json()["code"]) == (400, "interval_refused"), answer.text
    assert alice.get(PATH).json()["items"] == []


def test_the_dialect_of_cron_is_stored_with_the_task_and_shown(alice: TestClient) -> None:
    """C-1, C-2."""
    either = made(alice, schedule_expr="0 3 15 * MON", day_match="or", lenient=True)
    plain = made(alice)

    assert (either["day_match"], either["lenient"]) == ("or", True)
    assert either["words"] == "At 03:00 on the 15th of every month and on every Monday (UTC)"
    assert (plain["day_match"], plain["lenient"]) == ("and", False)
    assert alice.get(f"{PATH}/{either['id']}").json()["day_match"] == "or"
    preview = alice.post(f"{PATH}/preview", json={"schedule_expr": "0 3 15 * 7", "day_match": "or", "lenient": True})
    assert preview.json()["next"][0]["at"] == "2030-01-13T03:00:00Z"


def test_half_a_character_is_refused(alice: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    for field in ("name", "timezone", "schedule_expr", "next_run_at", "handler"):
        body = json.dumps(HOURLY | {field: "\ud800"}).encode()
        assert alice.post(PATH, content=body, headers=headers).status_code == 422, field
    body = json.dumps(HOURLY | {"payload": {"text": "\ud800"}}).encode()
    assert alice.post(PATH, content=body, headers=headers).status_code == 422


def test_the_twenty_first_enabled_task_is_refused(alice: TestClient) -> None:
    """S1-33."""
    for _ in range(20):
        made(alice)

    refused = alice.post(PATH, json=HOURLY)
    resting = made(alice, enabled=False)
    enabling = alice.put(f"{PATH}/{resting['id']}", json={"enabled": True})

    assert (refused.status_code, refused.json()["code"], refused.json()["allowed"]) == (409, "quota_exceeded", 20)
    assert (enabling.status_code, enabling.json()["code"]) == (409, "quota_exceeded")


def test_the_operators_limits_are_obeyed(connect: Connect) -> None:
    """S1-32, S1-33."""
    client = connect("alice", "tasks", max_enabled_tasks=1, shortest_interval=timedelta(seconds=300))

    assert client.post(PATH, json=HOURLY | {"schedule_type": "interval", "schedule_expr": 299}).status_code == 400
    made(client)
    assert client.post(PATH, json=HOURLY).status_code == 409


def test_a_task_whose_handler_is_not_there_is_kept_and_says_so(connect: Connect) -> None:
    """C-15."""
    client = connect("alice", "tasks", handlers=lambda: {"webhook": None})

    response = made(client)

    assert (response["inactive"], response["next_run_at"]) == (True, None)
    assert "There is no handler 'dispatch'" in response["reason"]


# -- versions and keys -------------------------------------------------------------------------------------------


def test_a_change_of_what_somebody_else_has_changed_is_refused(alice: TestClient) -> None:
    task = made(alice)
    where = f"{PATH}/{task['id']}"
    tag = alice.get(where).headers["ETag"]

    mine = alice.put(where, json={"name": "mine"}, headers={"If-Match": tag})
    theirs = alice.put(where, json={"name": "theirs"}, headers={"If-Match": tag})
    gone = alice.delete(where, headers={"If-Match": '"1"'})

    assert mine.status_code == 200
    assert (theirs.status_code, theirs.json()["code"]) == (412, "version_conflict")
    assert gone.status_code == 412
    assert alice.delete(where, headers={"If-Match": mine.headers["ETag"]}).status_code == 204


def test_a_run_in_between_does_not_stand_in_the_way_of_a_change(
    alice: TestClient, world: World, clock: VirtualClock
) -> None:
    """What is compared is the version; but what is shown has changed, and a reader learns that."""
    task = made(alice)
    where = f"{PATH}/{task['id']}"
    tag = alice.get(where).headers["ETag"]
    assert alice.get(where, headers={"If-None-Match": tag}).status_code == 304
    clock.advance(HOUR)
    fired(world)

    assert alice.get(where, headers={"If-None-Match": tag}).status_code == 200
    assert alice.put(where, json={"name": "x"}, headers={"If-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    ("header", "versions"),
    [(None, None), ("*", None), ('"3"', {3}), ('"3.ab", W/"4"', {3, 4})],
)
def test_a_version_is_read_from_its_tag(header: str | None, versions: set[int] | None) -> None:
    assert versions_from(header) == versions


@pytest.mark.parametrize("header", ["3", '"x"', '""', '"3', '"3" "4"'])
def test_a_tag_that_is_none_is_refused(alice: TestClient, header: str) -> None:
    task = made(alice)

    assert alice.put(f"{PATH}/{task['id']}", json={}, headers={"If-Match": header}).status_code == 422


def test_a_request_with_a_key_may_be_repeated(alice: TestClient, bob: TestClient) -> None:
    headers = {"Idempotency-Key": "k-1"}

    first = alice.post(PATH, json=HOURLY, headers=headers)
    again = alice.post(PATH, json=HOURLY, headers=headers)
    other = alice.post(PATH, json=HOURLY | {"name": "other"}, headers=headers)
    theirs = bob.post(PATH, json=HOURLY, headers=headers)

    assert (first.status_code, again.status_code, theirs.status_code) == (201, 200, 201)
    assert again.json()["id"] == first.json()["id"] != theirs.json()["id"]
    assert (other.status_code, other.json()["code"]) == (409, "key_conflict")


# -- who sees what -----------------------------------------------------------------------------------------------

WAYS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("PUT", "", {"name": "x"}),
    ("DELETE", "", None),
    ("GET", "/runs", None),
    ("POST", "/trigger", {}),
    ("GET", "/preview", None),
    ("GET", "/why", None),
    ("POST", "/release", {}),
]


@pytest.mark.parametrize(("method", "way", "body"), WAYS)
def test_a_foreign_task_looks_like_one_that_is_not_there(
    alice: TestClient, bob: TestClient, method: str, way: str, body: Any
) -> None:
    """S1-3, C-27, C-31: 404 with the same body, on every path."""
    task = made(alice)

    foreign = bob.request(method, f"{PATH}/{task['id']}{way}", json=body)
    missing = bob.request(method, f"{PATH}/task_{'0' * 32}{way}", json=body)
    nonsense = bob.request(method, f"{PATH}/task_%C3%BC{way}", json=body)

    assert (foreign.status_code, missing.status_code, nonsense.status_code) == (404, 404, 404)
    assert foreign.json() == missing.json() == nonsense.json()
    assert alice.get(f"{PATH}/{task['id']}").json() == task


def test_a_list_holds_only_ones_own(alice: TestClient, bob: TestClient) -> None:
    made(alice)

    assert bob.get(PATH).json()["items"] == []
    assert bob.get(PATH, params={"user_id": "alice"}).status_code == 404


def test_an_operator_sees_and_mends_everybodys(alice: TestClient, bob: TestClient, operator: TestClient) -> None:
    hers, his = made(alice), made(bob)

    listed = [task["user_id"] for task in operator.get(PATH).json()["items"]]
    only = operator.get(PATH, params={"user_id": "alice"}).json()["items"]
    changed = operator.put(f"{PATH}/{his['id']}", json={"enabled": False}).json()

    assert sorted(listed) == ["alice", "bob"]
    assert [task["id"] for task in only] == [hers["id"]]
    assert (changed["user_id"], changed["enabled"]) == ("bob", False)


def test_a_token_that_may_only_read_changes_nothing(connect: Connect, alice: TestClient) -> None:
    task = made(alice)
    reader = connect("alice", "read")

    assert reader.get(f"{PATH}/{task['id']}").status_code == 200
    assert reader.get(f"{PATH}/{task['id']}/runs").status_code == 200
    assert reader.put(f"{PATH}/{task['id']}", json={"name": "x"}).status_code == 403
    assert reader.post(PATH, json=HOURLY).status_code == 403
    assert connect("alice", "worker").get(PATH).status_code == 403


@pytest.mark.parametrize(("method", "way", "body"), [*WAYS, ("POST", "", {})])
def test_nobody_without_a_token_gets_anywhere(nobody: TestClient, method: str, way: str, body: Any) -> None:
    assert nobody.request(method, f"{PATH}/task_{'0' * 32}{way}", json=body).status_code in (401, 405)
    assert nobody.request(method, PATH, json=body).status_code in (401, 405)
