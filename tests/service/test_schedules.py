"""Schedules over HTTP: every verb, tenants, versions, paging."""

import json
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs import jobs
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NIGHTLY = {"key": "nightly", "handler": "report", "cron": "0 3 * * *", "zone": "Europe/Berlin", "payload": {"a": 1}}


def test_a_schedule_is_made_and_told_in_words(world: World, operator: TestClient) -> None:
    answer = operator.post("/schedules", json={**NIGHTLY, "timeout": 90, "reason": "wanted"})

    result = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (201, '"1"')
    assert (result["key"], result["owner"], result["status"]) == ("nightly", "system", "active")
    assert (result["next_fire_at"], result["timeout"]) == ("2030-01-08T02:00:00Z", 90)
    assert "03:00" in result["words"]
    entry = schedules.versions(world, "nightly")[0]
    assert (entry.verb, entry.reason, entry.actor.split("/")[0]) == ("create", "wanted", "token")


@pytest.mark.parametrize(
    ("rule", "kind", "expression"),
    [
        ({"every": 90}, "every", "90"),
        ({"every": 0.25}, "every", "0.25"),
        ({"once": "2030-02-01T00:00:00+01:00"}, "once", "2030-01-31T23:00:00Z"),
        ({"after": ["first"]}, "after", ""),
    ],
)
def test_every_kind_of_rule_can_be_given(
    world: World, operator: TestClient, rule: dict[str, Any], kind: str, expression: str
) -> None:
    schedules.create(world, a_schedule("first"))

    result = operator.post("/schedules", json={"key": "k", "handler": "report", **rule}).json()

    assert (result["kind"], result["expression"]) == (kind, expression)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"key": "k", "handler": "report"},
        {"key": "k", "cron": "* * * * *", "every": 5},
        {"key": "k", "cron": "61 * * * *"},
        {"key": "k", "cron": "* * * * *", "zone": "Mars/Olympus"},
        {"key": "k", "every": 0},
        {"key": "k", "every": 1e300},
        {"key": "k", "cron": None},
        {"key": "k\x00", "cron": "* * * * *"},
        {"key": "k", "cron": "* * * * *", "reason": "a\x00b"},
        {"key": "k", "cron": "* * * * *", "payload": {"a": "\ud800"}},
        {"key": "k", "cron": "* * * * *", "payload": [1]},
        {"key": "k", "cron": "* * * * *", "colour": "red"},
        {"key": "k", "cron": "* * * * *", "handler": "no spaces"},
        {"key": "k", "cron": "* * * * *", "starts_at": "2030-01-02T00:00:00Z", "ends_at": "2030-01-01T00:00:00Z"},
        {"key": "k", "once": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_what_cannot_work_is_422(operator: TestClient, body: Any) -> None:
    text = json.dumps(body)
    answer = operator.post("/schedules", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text


def test_the_same_key_twice_is_a_conflict(operator: TestClient) -> None:
    operator.post("/schedules", json=NIGHTLY)
    assert operator.post("/schedules", json=NIGHTLY).status_code == 409


def test_following_nobody_is_404_and_a_circle_409(operator: TestClient) -> None:
    assert operator.post("/schedules", json={"key": "b", "after": ["a"]}).status_code == 404
    operator.post("/schedules", json={"key": "a", "every": 60})
    operator.post("/schedules", json={"key": "b", "after": ["a"]})
    assert operator.patch("/schedules/a", json={"after": ["b"]}).status_code == 409
    assert operator.delete("/schedules/a").status_code == 409


def test_a_change_touches_only_what_it_names(operator: TestClient) -> None:
    operator.post("/schedules", json={**NIGHTLY, "group": "reports"})

    result = operator.patch("/schedules/nightly", json={"cron": "0 4 * * *", "group": None}).json()

    assert (result["expression"], result["zone"], result["payload"]) == ("0 4 * * *", "Europe/Berlin", {"a": 1})
    assert (result["group"], result["version"], result["next_fire_at"]) == (None, 2, "2030-01-08T03:00:00Z")


def test_a_change_of_an_old_version_is_refused(operator: TestClient) -> None:
    seen = operator.post("/schedules", json=NIGHTLY).headers["etag"]
    changed = operator.patch("/schedules/nightly", json={"enabled": False}, headers={"If-Match": seen})

    late = operator.patch("/schedules/nightly", json={"enabled": True}, headers={"If-Match": seen})
    odd = operator.patch("/schedules/nightly", json={"enabled": True}, headers={"If-Match": "three"})
    any_will_do = operator.patch("/schedules/nightly", json={"enabled": True}, headers={"If-Match": "*"})

    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert (late.status_code, late.json()["code"]) == (412, "version_conflict")
    assert (odd.status_code, any_will_do.status_code) == (422, 200)


def test_pause_and_resume(operator: TestClient) -> None:
    operator.post("/schedules", json=NIGHTLY)

    paused = operator.post("/schedules/nightly/pause", json={"reason": "repairs"}).json()
    resumed = operator.post("/schedules/nightly/resume").json()

    assert (paused["status"], paused["pause_reason"], paused["next_fire_at"]) == ("paused", "repairs", None)
    assert (resumed["status"], resumed["paused_at"]) == ("active", None)


def test_a_group_is_paused_and_resumed_together(operator: TestClient) -> None:
    for key in ("a", "b"):
        operator.post("/schedules", json={"key": key, "every": 60, "group": "etl"})
    operator.post("/schedules", json={"key": "c", "every": 60})

    assert operator.post("/schedules/groups/etl/pause").json() == {"group": "etl", "changed": ["a", "b"]}
    assert operator.get("/schedules/c").json()["status"] == "active"
    assert operator.post("/schedules/groups/etl/resume").json()["changed"] == ["a", "b"]


def test_trigger_preview_history_and_versions(world: World, clock: VirtualClock, operator: TestClient) -> None:
    operator.post("/schedules", json={"key": "hourly", "cron": "0 * * * *", "payload": {"a": 1}})

    result = operator.post("/schedules/hourly/trigger", json={"parameters": {"a": 2}}).json()
    again = operator.post("/schedules/hourly/trigger").json()
    ahead = operator.get("/schedules/hourly/preview?count=2").json()["fires"]
    fires = operator.get("/schedules/hourly/history").json()["items"]
    verbs = [each["verb"] for each in operator.get("/schedules/hourly/versions").json()["items"]]

    assert (result["triggered"], jobs.get(world, result["job_id"]).payload) == (True, {"a": 2})
    assert (again["triggered"], again["reason"]) == (False, "running")
    assert ahead == ["2030-01-07T13:00:00Z", "2030-01-07T14:00:00Z"]
    assert [(each["kind"], each["verdict"]) for each in fires] == [("manual", "skipped"), ("manual", "ran")]
    assert verbs == ["trigger", "trigger", "create"]


def test_history_is_paged_to_its_end(world: World, clock: VirtualClock, operator: TestClient) -> None:
    operator.post("/schedules", json={"key": "minutely", "cron": "* * * * *"})
    for _ in range(5):
        clock.advance(MINUTE)
        firing.fire_due(world)

    result: list[str] = []
    cursor: str | None = None
    while True:
        page = operator.get(
            "/schedules/minutely/history", params={"limit": 2, **({"cursor": cursor} if cursor else {})}
        )
        result += [each["fire_at"] for each in page.json()["items"]]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            break

    assert result == [f"2030-01-07T12:0{minute}:00Z" for minute in (5, 4, 3, 2, 1)]


def test_a_backfill_counts_first(world: World, clock: VirtualClock, operator: TestClient) -> None:
    operator.post("/schedules", json={"key": "hourly", "cron": "0 * * * *", "enabled": False})
    clock.advance(3 * HOUR)
    body = {"start": "2030-01-07T12:30:00Z", "end": "2030-01-07T15:00:00Z"}

    counted = operator.post("/schedules/hourly/backfill", json=body).json()
    done = operator.post("/schedules/hourly/backfill", json={**body, "dry_run": False}).json()
    again = operator.post("/schedules/hourly/backfill", json={**body, "dry_run": False}).json()

    assert (counted["missing"], counted["job_ids"], counted["dry_run"]) == (3, [], True)
    assert (done["missing"], len(done["job_ids"])) == (3, 3)
    assert (again["missing"], again["present"]) == (0, 3)


def test_a_deleted_schedule_is_gone(operator: TestClient) -> None:
    operator.post("/schedules", json=NIGHTLY)

    assert operator.delete("/schedules/nightly?reason=done").status_code == 204
    assert operator.get("/schedules/nightly").status_code == 404


def test_a_key_with_a_slash_can_be_addressed(operator: TestClient) -> None:
    operator.post("/schedules", json={"key": "team/report", "every": 60})

    assert operator.get("/schedules/team/report").json()["key"] == "team/report"
    assert operator.post("/schedules/team%2Freport/pause").json()["status"] == "paused"


@pytest.mark.parametrize(
    "key",
    [
        "groups/x",
        "groups/a/b",
        "a/preview",
        "a/b/history",
        "a/versions",
        "a/pause",
        "a/../b",
        "a/./b",
        "a//b",
        "/a",
        "a/",
    ],
)
def test_a_key_that_would_be_taken_for_something_else_is_refused_over_http(operator: TestClient, key: str) -> None:
    answer = operator.post("/schedules", json={"key": key, "every": 60})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert "choose another, say '" in answer.text
    assert operator.get("/schedules").json()["items"] == []


@pytest.mark.parametrize(
    "key", ["groups", "preview", "team/report", "a/previews", "v1.2/x", "a/pause/b", "my/groups/x"]
)
def test_an_ordinary_key_with_a_verb_or_a_slash_in_it_is_fine(operator: TestClient, key: str) -> None:
    assert operator.post("/schedules", json={"key": key, "every": 60}).status_code == 201
    assert operator.post(f"/schedules/{key}/pause").json()["status"] == "paused"
    assert operator.get(f"/schedules/{key}").json()["key"] == key
    assert operator.delete(f"/schedules/{key}").status_code == 204


@pytest.mark.parametrize("group", ["x", "a/b"])
def test_a_group_and_a_schedule_of_the_same_path_are_not_confused(
    world: World, operator: TestClient, group: str
) -> None:
    schedules.create(world, a_schedule("member", group=group))
    schedules.create(world, a_schedule(f"groups/{group}", owner="alice"))
    assert operator.post(f"/schedules/groups/{group}/pause").json()["changed"] == ["member"]
    assert operator.post(f"/schedules/groups/{group}/resume").json()["changed"] == ["member"]

    schedules.create(world, a_schedule(f"groups/{group}"))
    for verb in ("pause", "resume"):
        answer = operator.post(f"/schedules/groups/{group}/{verb}")
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert answer.json()["reason"] == "schedule_path_ambiguous"
        assert answer.json()["facts"] == {"meaning": f"the group '{group}'", "key": f"groups/{group}"}
    assert not any(schedules.get(world, key).paused_at for key in ("member", f"groups/{group}"))
    assert operator.post(f"/schedules/groups/{group}/trigger").json()["key"] == f"groups/{group}"


@pytest.mark.parametrize("verb", ["preview", "history", "versions"])
def test_a_question_about_one_schedule_is_not_answered_where_another_has_that_path(
    world: World, operator: TestClient, verb: str
) -> None:
    schedules.create(world, a_schedule("a"))
    assert operator.get(f"/schedules/a/{verb}").status_code == 200

    schedules.create(world, a_schedule(f"a/{verb}"))

    answer = operator.get(f"/schedules/a/{verb}")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert operator.get(f"/schedules/a/{verb}/{verb}").status_code == 200


def test_the_list_is_narrowed_and_paged(world: World, operator: TestClient) -> None:
    for number in range(5):
        schedules.create(world, a_schedule(f"job{number}", group="etl" if number % 2 else None))
    schedules.create(world, a_schedule("job0", owner="alice"))

    def keys(**params: Any) -> list[str]:
        return [f"{each['owner']}/{each['key']}" for each in operator.get("/schedules", params=params).json()["items"]]

    assert len(keys()) == 6
    assert keys(owner="alice") == ["alice/job0"]
    assert keys(group="etl") == ["system/job1", "system/job3"]
    first = operator.get("/schedules?limit=2").json()
    assert [each["key"] for each in first["items"]] == ["job0", "job0"]
    assert keys(cursor=first["next_cursor"]) == ["system/job1", "system/job2", "system/job3", "system/job4"]


@pytest.mark.parametrize("path", ["/schedules?cursor=nonsense", "/schedules?group=a%00", "/schedules/a%00b"])
def test_what_no_database_could_store_is_422(operator: TestClient, path: str) -> None:
    assert operator.get(path).status_code == 422


class TestTenants:
    def test_a_tenant_reads_its_own_and_changes_nothing(self, world: World, connect: Any) -> None:
        schedules.create(world, a_schedule("mine", owner="alice"))
        schedules.create(world, a_schedule("theirs", owner="bob"))
        alice = connect("alice", "read")

        assert [each["key"] for each in alice.get("/schedules").json()["items"]] == ["mine"]
        assert alice.get("/schedules/mine").json()["owner"] == "alice"
        for path in ("", "/history", "/versions", "/preview"):
            assert alice.get(f"/schedules/theirs{path}").status_code == 404
        assert alice.get("/schedules?owner=bob").status_code == 404
        assert alice.post("/schedules/mine/pause").status_code == 403
        assert alice.delete("/schedules/mine").status_code == 403

    def test_the_same_key_belongs_to_each_tenant_alone(self, world: World, operator: TestClient) -> None:
        for owner in ("alice", "bob"):
            operator.post(f"/schedules?owner={owner}", json=NIGHTLY)

        operator.post("/schedules/nightly/pause?owner=alice")

        assert schedules.get(world, "nightly", owner="alice").paused_at == NOON
        assert schedules.get(world, "nightly", owner="bob").paused_at is None

    def test_nobody_gets_in_without_a_token(self, nobody: TestClient) -> None:
        for path in (
            "/schedules",
            "/admin/job/list",
            "/queues",
            "/workers",
            "/audit",
            "/forecast",
            "/scheduler/status",
        ):
            assert nobody.get(path).status_code == 401


def test_the_forecast_tells_fires_and_pile_ups(world: World, operator: TestClient, connect: Any) -> None:
    for key in ("a", "b"):
        schedules.create(world, a_schedule(key, "0 * * * *"))
    schedules.create(world, a_schedule("mine", "30 * * * *", owner="alice"))

    result = operator.get("/forecast?hours=1").json()

    assert [each["key"] for each in result["fires"]] == ["mine", "a", "b"]
    assert result["pile_ups"] == [{"minute": "2030-01-07T13:00:00Z", "fires": 2}]
    assert (result["complete"], result["total"], result["until"]) == (True, 3, "2030-01-07T13:00:00Z")
    mine = connect("alice", "read").get("/forecast?hours=2").json()
    assert {each["key"] for each in mine["fires"]} == {"mine"}
    assert operator.get("/forecast?hours=0").status_code == 422
