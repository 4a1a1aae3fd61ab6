"""Document 003's administration over HTTP: S3-40 to S3-42, C-16, C-23, C-26, C-27."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from horae.actions.jobs import claims, endings
from horae.actions.schedules import fires, schedules
from horae.actions.schedules.declared import Plan, bring_in_line
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NOON_MS = int(NOON.timestamp() * 1000)


def ran(world: World, clock: VirtualClock, times: int = 1, *, error: str | None = None) -> list[str]:
    names = []
    for _ in range(times):
        clock.advance(MINUTE)
        fires.fire_due(world)
        for job in claims.pull(world, worker_id="w"):
            clock.advance(timedelta(milliseconds=1500))
            if error is None:
                endings.ack(world, job.id, job.token)
            else:
                endings.fail(world, job.id, job.token, error)
            names.append(job.run_id)
    return names


@pytest.fixture
def minutely(world: World) -> None:
    schedules.create(world, a_schedule(payload={"a": 1}))


@pytest.mark.usefixtures("minutely")
class TestJobs:
    def test_the_list_tells_document_003_s_status(
        self, world: World, clock: VirtualClock, operator: TestClient
    ) -> None:
        """S3-41: the counts are of the whole cluster."""
        ran(world, clock)
        ran(world, clock, error="Boom: no")

        [job] = operator.get("/admin/job/list").json()

        assert {name: job[name] for name in ("id", "enabled", "mode", "lastResult", "runCount", "failCount")} == {
            "id": "minutely",
            "enabled": True,
            "mode": "SINGLE_NODE",
            "lastResult": "FAILED",
            "runCount": 2,
            "failCount": 1,
        }
        assert (job["lastDuration"], job["lastFireTime"]) == (1500, NOON_MS + 120_000)
        assert job["nextFireTime"] == NOON_MS + 180_000

    def test_one_job_says_where_its_values_come_from(self, operator: TestClient) -> None:
        """C-16."""
        job = operator.get("/admin/job/get", params={"id": "minutely"}).json()

        assert (job["expression"], job["parameters"], job["sources"]["expression"]) == ("* * * * *", {"a": 1}, "api")
        assert (job["lastFireTime"], job["lastResult"], job["runCount"]) == (None, None, 0)

    def test_a_trigger_takes_parameters_and_runs_a_disabled_job(self, world: World, operator: TestClient) -> None:
        """C-23."""
        operator.put("/admin/job/update-status", json={"id": "minutely", "enabled": False})

        answer = operator.post("/admin/job/trigger", params={"id": "minutely"}, json={"b": 2}).json()

        [job] = claims.pull(world, worker_id="w")
        assert (answer["triggered"], answer["jobId"], job.payload) == (True, job.id, {"a": 1, "b": 2})
        assert job.max_attempts == 1

    def test_a_trigger_of_a_running_job_is_refused_on_record(self, operator: TestClient) -> None:
        """C-22: skipped, never silently."""
        operator.post("/admin/job/trigger?id=minutely")

        again = operator.post("/admin/job/trigger?id=minutely").json()

        assert again == {"id": "minutely", "triggered": False, "jobId": None, "reason": "running"}

    def test_switching_off_is_for_good(self, world: World, operator: TestClient) -> None:
        result = operator.put("/admin/job/update-status", json={"id": "minutely", "enabled": False}).json()
        bring_in_line(world, Plan("shop"), starts=True)

        assert (result["enabled"], result["ephemeral"], result["nextFireTime"]) == (False, False, None)
        assert operator.get("/admin/job/get?id=minutely").json()["enabled"] is False

    def test_an_ephemeral_toggle_is_forgotten_by_the_next_start(self, world: World, operator: TestClient) -> None:
        """S3-42."""
        body = {"id": "minutely", "enabled": False, "ephemeral": True, "reason": "noise"}
        result = operator.put("/admin/job/update-status", json=body).json()
        assert (result["enabled"], result["ephemeral"]) == (False, True)

        bring_in_line(world, Plan("shop"), starts=True)

        now = operator.get("/admin/job/get?id=minutely").json()
        assert (now["enabled"], now["ephemeral"]) == (True, False)

    def test_a_tenant_sees_its_own_jobs_and_changes_none(self, world: World, connect: Any) -> None:
        schedules.create(world, a_schedule("mine", owner="alice"))
        alice = connect("alice", "read")

        assert [job["id"] for job in alice.get("/admin/job/list").json()] == ["mine"]
        assert alice.get("/admin/job/get?id=minutely").status_code == 404
        assert alice.get("/admin/job/get?id=mine&owner=system").status_code == 404
        assert alice.put("/admin/job/update-status", json={"id": "mine", "enabled": False}).status_code == 403
        assert alice.post("/admin/job/trigger?id=mine").status_code == 403

    def test_an_operator_may_name_a_tenant(self, world: World, operator: TestClient) -> None:
        schedules.create(world, a_schedule("mine", owner="alice"))

        assert [job["id"] for job in operator.get("/admin/job/list?owner=alice").json()] == ["mine"]
        assert operator.post("/admin/job/trigger?id=mine&owner=alice").json()["triggered"] is True


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/admin/job/get?id=nobody", None),
        ("POST", "/admin/job/trigger?id=nobody", None),
        ("PUT", "/admin/job/update-status", {"id": "nobody", "enabled": True}),
        ("GET", "/admin/job-log/get?id=job_7.1", None),
        ("GET", "/admin/job-log/get?id=whatever", None),
    ],
)
def test_an_unknown_id_is_404(operator: TestClient, method: str, path: str, body: Any) -> None:
    """C-27."""
    answer = operator.request(method, path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.usefixtures("minutely")
class TestLog:
    def test_a_line_has_document_003_s_names(self, world: World, clock: VirtualClock, operator: TestClient) -> None:
        """S3-38, C-26: words, and the number beside them."""
        [name] = ran(world, clock, error="Boom: no")

        line = operator.get("/admin/job-log/get", params={"id": name}).json()

        fire = NOON_MS + 60_000
        assert (line["id"], line["jobId"], line["status"], line["statusCode"]) == (name, "minutely", "FAILED", 1)
        assert (line["fireTime"], line["startTime"], line["duration"]) == (fire, fire, 1500)
        assert (line["message"], line["trigger"]) == ("Boom: no", "schedule")

    def test_a_run_under_way_is_told_from_its_start_on(self, world: World, operator: TestClient) -> None:
        operator.post("/admin/job/trigger?id=minutely")
        claims.pull(world, worker_id="w")

        [line] = operator.get("/admin/job-log/page").json()["list"]

        assert (line["status"], line["statusCode"], line["duration"]) == ("RUNNING", None, None)
        assert line["trigger"] == "manual"

    def test_pages_by_number_and_by_cursor_tell_the_same(
        self, world: World, clock: VirtualClock, operator: TestClient
    ) -> None:
        names = ran(world, clock, 5)[::-1]

        first = operator.get("/admin/job-log/page?pageNo=1&pageSize=2").json()
        second = operator.get("/admin/job-log/page?pageNo=2&pageSize=2").json()
        by_cursor = operator.get("/admin/job-log/page", params={"pageSize": 2, "cursor": first["next_cursor"]}).json()
        last = operator.get("/admin/job-log/page?pageNo=3&pageSize=2").json()

        assert first["total"] == 5
        assert [line["id"] for page in (first, second, last) for line in page["list"]] == names
        assert by_cursor["list"] == second["list"]
        assert (last["next_cursor"], by_cursor["total"]) == (None, None)

    def test_filters_narrow_the_log(self, world: World, clock: VirtualClock, operator: TestClient) -> None:
        ran(world, clock)
        [bad] = ran(world, clock, error="no")
        since = clock.now() - MINUTE

        def result(**params: str) -> list[str]:
            answer = operator.get("/admin/job-log/page", params=params)
            return [line["id"] for line in answer.json()["list"]]

        assert result(status="FAILED") == [bad]
        assert result(**{"from": since.isoformat()}) == [bad]
        assert result(to="2030-01-07T12:00:00Z") == []
        assert len(result(jobId="minutely")) == 2
        assert result(jobId="other") == []

    def test_a_tenant_reads_its_own_log(self, world: World, clock: VirtualClock, connect: Any) -> None:
        schedules.create(world, a_schedule("mine", owner="alice", handler="dispatch"))
        [foreign, mine] = sorted(ran(world, clock))
        alice = connect("alice", "read")

        assert {line["jobId"] for line in alice.get("/admin/job-log/page").json()["list"]} == {"mine"}
        result = {alice.get("/admin/job-log/get", params={"id": each}).status_code for each in (foreign, mine)}
        assert result == {200, 404}
        assert alice.delete("/admin/job-log/clean?olderThanDays=0").status_code == 403

    def test_a_clean_up_without_an_age_asks_first_and_says_how_many(
        self, world: World, clock: VirtualClock, operator: TestClient
    ) -> None:
        ran(world, clock, 2)
        clock.advance(15 * DAY)

        asked = operator.delete("/admin/job-log/clean")
        counted = operator.delete("/admin/job-log/clean?dry_run=true").json()
        done = operator.delete("/admin/job-log/clean?confirm=true").json()

        assert asked.status_code == 422
        assert asked.json()["reason"] == "cleaning_not_confirmed"
        assert asked.json()["facts"] == {"days": 14, "count": 2}
        assert (counted["removed"], counted["dry_run"]) == (2, True)
        assert (done["removed"], done["dry_run"], done["more"]) == (2, False, False)
        assert operator.get("/admin/job-log/page").json()["total"] == 0

    def test_a_clean_up_by_age_and_by_job(self, world: World, clock: VirtualClock, operator: TestClient) -> None:
        schedules.create(world, a_schedule("other"))
        ran(world, clock)
        clock.advance(2 * DAY)

        assert operator.delete("/admin/job-log/clean?olderThanDays=3").json()["removed"] == 0
        assert operator.delete("/admin/job-log/clean?olderThanDays=1&jobId=other").json()["removed"] == 1
        before = clock.now().isoformat()
        assert operator.delete("/admin/job-log/clean", params={"before": before}).json()["removed"] == 1

    @pytest.mark.parametrize(
        "query",
        [
            "pageNo=0",
            "pageSize=1000",
            "pageNo=10000&pageSize=200",
            "status=0",
            "from=yesterday",
            "from=2030-01-07T12:00:00",
            "jobId=a%00b",
            "cursor=nonsense",
            "cursor=Wy0xLDFd",
        ],
    )
    def test_what_cannot_be_read_is_422(self, operator: TestClient, query: str) -> None:
        assert operator.get(f"/admin/job-log/page?{query}").status_code == 422

    @pytest.mark.parametrize("query", ["before=2030-01-01T00:00:00Z&olderThanDays=1", "before=2040-01-01T00:00:00Z"])
    def test_a_clean_up_that_makes_no_sense_is_422(self, operator: TestClient, query: str) -> None:
        assert operator.delete(f"/admin/job-log/clean?{query}").status_code == 422
