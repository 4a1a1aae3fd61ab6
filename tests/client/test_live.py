"""Both clients against a running service: real sockets, a real database, real time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import horae
from horae import errors
from horae.actions.jobs.requests import Request
from horae.outgoing.encryption import KeySealer
from horae.service.options import Options
from tests.support.serving import Served, serving

LATER = datetime(2040, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("live")
    with serving(f"sqlite:///{folder / 'horae.db'}", Options(version="test", sealer=KeySealer(b"k" * 32))) as running:
        yield running


@pytest.fixture
def operator(served: Served) -> Iterator[horae.Client]:
    with horae.Client(served.url, served.token("system", "admin")) as client:
        yield client


@pytest.fixture
def alice(served: Served) -> Iterator[horae.Client]:
    with horae.Client(served.url, served.token("alice", "tasks", "worker")) as client:
        yield client


# -- jobs --------------------------------------------------------------------------------------------------------


def test_a_job_goes_from_enqueue_to_its_result(alice: horae.Client) -> None:
    made = alice.jobs.enqueue("resize", {"image": 7}, tags=["thumb"])
    (job,) = alice.jobs.claim("w1", wait=5)
    assert (job.id, job.payload, job.state) == (made.id, {"image": 7}, "running")

    done = alice.jobs.ack(job.id, job.token, result={"bytes": 9})

    assert (done.state, done.result) == ("succeeded", {"bytes": 9})
    with pytest.raises(errors.LeaseLost):
        alice.jobs.ack(job.id, job.token)


async def test_the_async_client_does_the_same(served: Served) -> None:
    async with horae.AsyncClient(served.url, served.token("ann", "tasks", "worker")) as client:
        made = await client.jobs.enqueue("resize", {"image": 7})
        (job,) = await client.jobs.claim("w1", wait=5)
        assert job.id == made.id
        failed = await client.jobs.fail(job.id, job.token, "no such image", final=True)
        assert failed.state == "dead"
        assert [each.id async for each in client.jobs.list(state="dead")] == [made.id]
        assert (await client.jobs.revive(made.id)).state == "queued"
        with pytest.raises(errors.NotFound):
            await client.jobs.get("job_999999")


def test_pages_follow_each_other_to_the_end(alice: horae.Client) -> None:
    many = alice.jobs.enqueue_many([Request("count", {"n": n}, run_at=LATER) for n in range(230)])
    assert len({job.id for job in many}) == 230

    found = [job.id for job in alice.jobs.list(handler="count")]
    assert found == [job.id for job in reversed(many)]
    assert [job.id for job in alice.jobs.list(handler="count", limit=7)] == found[:7]


def test_a_call_without_a_key_is_sent_with_one_of_its_own(alice: horae.Client) -> None:
    assert alice.jobs.enqueue("mail", run_at=LATER).id != alice.jobs.enqueue("mail", run_at=LATER).id


def test_a_governed_job_keeps_the_key_that_its_object_gives_it(alice: horae.Client) -> None:
    """S0-8: two requests that mean the same are one job, also without a key."""
    governed = {"object_type": "cognition", "object_id": "cg_1", "action": "revalidate"}
    first, again = (alice.jobs.enqueue("govern", run_at=LATER, **governed) for _ in range(2))  # type: ignore[arg-type]
    assert first.id == again.id
    assert alice.jobs.get(first.id).key == "cg_1:revalidate:2040-01-01T00:00:00Z"


# -- tasks and schedules -------------------------------------------------------------------------------------------


def test_a_task_of_a_user(alice: horae.Client, served: Served) -> None:
    task = alice.scheduled_tasks.create(
        name="stand-up", schedule_expr="0 9 * * 1-5", timezone="Asia/Shanghai", payload={"text": "stand up"}
    )
    assert task in list(alice.scheduled_tasks.list())
    assert alice.scheduled_tasks.change(task.id, enabled=False, version=task.version).enabled is False
    with pytest.raises(errors.VersionConflict):
        alice.scheduled_tasks.change(task.id, enabled=True, version=task.version)
    assert alice.scheduled_tasks.preview(task.id, count=2).next[0].local.endswith("T09:00:00+08:00")
    assert alice.scheduled_tasks.why(task.id).standing == "disabled"
    done = alice.scheduled_tasks.trigger(task.id, {"text": "now"})
    assert [run.job_id for run in alice.scheduled_tasks.runs(task.id)] in ([], [done.job_id])
    alice.scheduled_tasks.delete(task.id)
    with horae.Client(served.url, served.token("bob", "tasks")) as bob, pytest.raises(errors.NotFound):
        bob.scheduled_tasks.get(task.id)


def test_a_naive_time_is_one_of_the_tasks_own_zone(alice: horae.Client) -> None:
    task = alice.scheduled_tasks.create(
        schedule_type="once",
        timezone="Asia/Shanghai",
        next_run_at=datetime(2040, 1, 1, 9),  # noqa: DTZ001
        payload={"text": "x"},
    )
    assert task.next_run_at == datetime(2040, 1, 1, 1, tzinfo=UTC)
    alice.scheduled_tasks.delete(task.id)


def test_a_schedule_is_made_changed_fired_and_forgotten(operator: horae.Client) -> None:
    made = operator.schedules.create(
        "reports/nightly", handler="report", cron="0 3 * * *", zone="Europe/Berlin", jitter=timedelta(minutes=2)
    )
    assert (made.jitter, made.next_fire_at is not None) == (timedelta(minutes=2), True)
    assert operator.schedules.change("reports/nightly", every=timedelta(hours=1), version=1).expression == "3600"
    with pytest.raises(errors.VersionConflict):
        operator.schedules.change("reports/nightly", every=60, version=1)
    assert operator.schedules.pause("reports/nightly", reason="moving").pause_reason == "moving"
    assert operator.schedules.resume("reports/nightly").paused_at is None
    assert len(operator.schedules.preview("reports/nightly", count=3).fires) == 3
    done = operator.schedules.trigger("reports/nightly", {"day": 1})
    assert [fire.job_id for fire in operator.schedules.history("reports/nightly")] == [done.job_id]
    assert operator.schedules.versions("reports/nightly")[-1].verb == "create"
    assert {entry.verb for entry in operator.audit.list(object_id="reports/nightly")} >= {"create", "pause", "resume"}
    assert "reports/nightly" in {fire.key for fire in operator.schedules.forecast(hours=3).fires}
    assert list(operator.admin.runs(schedule="reports/nightly")) == []
    operator.schedules.delete("reports/nightly")
    with pytest.raises(errors.NotFound):
        operator.schedules.get("reports/nightly")


def test_a_mistake_in_cron_says_where(operator: horae.Client) -> None:
    with pytest.raises(errors.InvalidCron) as answer:
        operator.schedules.create("bad", handler="x", cron="61 * * * *")
    assert (answer.value.field, answer.value.expression) == ("minute", "61 * * * *")


# -- agents --------------------------------------------------------------------------------------------------------


def test_an_agent_is_given_work_told_things_and_looked_at(alice: horae.Client, operator: horae.Client) -> None:
    task = alice.attention.add("ops", "report", {"day": 7}, priority=60, key="report:7")
    assert alice.attention.add("ops", "report", {"day": 7}, priority=60, key="report:7") == replace(
        task, deduplicated=True
    )
    later = alice.attention.add("ops", "report", delay=timedelta(hours=1))
    assert alice.attention.task("ops", task.id).payload == {"day": 7}
    assert [each.id for each in alice.attention.tasks("ops")] == [later.id, task.id]
    assert [each.id for each in alice.attention.tasks("ops", state="created")] == [later.id]
    event = alice.attention.post("ops", "ack", {"by": "bob"}, event_id="e-1")
    assert (event.state, alice.attention.post("ops", "ack", event_id="e-1").id) == ("pending", event.id)
    seen = alice.attention.get("ops")
    assert ([each.id for each in seen.backlog], seen.counts.created, seen.lane.owner) == ([task.id], 1, "alice")
    assert alice.attention.cancel("ops", task.id, reason="not needed").state == "cancelled"
    assert (alice.attention.waits("ops"), alice.attention.confirmations("ops")) == ((), ())
    assert [line.seq for line in alice.attention.journal("ops", limit=2)] == [1, 2]
    assert next(iter(alice.attention.follow("ops", since=2))).seq == 3
    assert alice.attention.verify("ops").sound
    assert alice.attention.at("ops", 1).tasks[task.id]["state"] == "created"
    with pytest.raises(errors.Forbidden):
        alice.attention.control("ops", auto_continue=False)
    with pytest.raises(errors.Forbidden):
        alice.attention.confirm("ops", 1, True)
    with pytest.raises(errors.NotFound):
        operator.attention.confirm("ops", 1, True, owner="alice")
    answer = operator.attention.control("ops", auto_continue=False, must_confirm=["page"], reason="test", owner="alice")
    assert (answer.auto_continue, answer.must_confirm) == (False, ("page",))
    assert operator.attention.kill("ops", later.id, reason="test", owner="alice").state == "cancelled"
    assert ("ops", "alice") in {(lane.name, lane.owner) for lane in operator.attention.lanes()}


async def test_a_lane_is_followed_from_an_event_loop(served: Served, alice: horae.Client) -> None:
    alice.attention.add("loop", "report")
    async with horae.AsyncClient(served.url, served.token("alice", "tasks")) as client:
        seen = []
        async for line in client.attention.follow("loop", since=0):
            seen.append(line.after)
            if len(seen) == 2:
                break
        assert seen == ["created", "ready"]
        with pytest.raises(errors.NotFound):
            await anext(aiter(client.attention.follow("nowhere")))


# -- the house -----------------------------------------------------------------------------------------------------


def test_queues_are_paused_limited_and_listed(operator: horae.Client) -> None:
    assert operator.queues.pause("mail", reason="moving").pause_reason == "moving"
    assert operator.queues.resume("mail").paused_at is None
    assert operator.queues.limit("mail", 2).max_running == 2
    assert operator.queues.limit("mail", None).max_running is None
    assert operator.queues.order("mail", "run_at").order == "run_at"
    assert "mail" in {queue.name for queue in operator.queues.list()}
    assert operator.queues.get("mail").order == "run_at"
    assert operator.workers.list() == ()


def test_a_worker_of_the_house_says_what_it_can_run(operator: horae.Client, alice: horae.Client) -> None:
    stored = operator.admin.store_definitions(
        [{"name": "resize", "queue": "images", "tenants": True}, {"name": "wipe", "queue": "images"}], app="images"
    )
    assert [(each.name, each.tenants, each.app) for each in stored] == [
        ("resize", True, "images"),
        ("wipe", False, "images"),
    ]
    assert {"resize", "wipe"} <= {each.name for each in operator.admin.definitions()}
    assert [(each.name, each.app) for each in alice.admin.definitions()] == [("resize", None)]
    with pytest.raises(errors.Forbidden):
        alice.admin.store_definitions([{"name": "wipe", "tenants": True}])


def test_what_is_special_about_a_tenant(operator: horae.Client, alice: horae.Client) -> None:
    operator.owners.put("alice", max_enabled_tasks=3)
    assert operator.owners.get("alice").max_enabled_tasks == 3
    assert "alice" in {each.owner for each in operator.owners.list()}
    operator.owners.put("alice")
    with pytest.raises(errors.Forbidden):
        list(alice.owners.list())


def test_a_secret_is_kept_and_told_once_where_it_was_made_here(operator: horae.Client, alice: horae.Client) -> None:
    kept = alice.secrets.put("orders", "Bearer 5f3a9c1e77d0")
    made = alice.secrets.put("signing")
    turned = alice.secrets.rotate("signing", keep_previous_for=60)
    assert (kept.value, made.value != turned.value) == (None, True)
    assert str(turned.value) not in repr(turned)
    assert {each.name for each in alice.secrets.list()} == {"orders", "signing"}
    assert operator.secrets.reseal().resealed == 0  # they are sealed with the current key already
    alice.secrets.delete("orders")
    with pytest.raises(errors.NotFound):
        alice.secrets.delete("orders")


def test_a_token_is_made_used_and_revoked(served: Served, operator: horae.Client) -> None:
    made = operator.tokens.create("carol", ["read"], name="laptop", expires_in=None)
    assert made.token not in repr(made)
    with horae.Client(served.url, made.token) as carol:
        assert list(carol.jobs.list()) == []
        assert operator.tokens.revoke(made.id, reason="lost").state == "revoked"
        with pytest.raises(errors.Unauthorized):
            carol.jobs.get("job_1")
    assert [each.state for each in operator.tokens.list(owner="carol")] == ["revoked"]


def test_health_version_and_figures(served: Served, operator: horae.Client) -> None:
    with horae.Client(served.url) as nobody:
        assert nobody.health.alive() == {"status": "ok"}
        assert nobody.health.version() == "test"
        with pytest.raises(errors.Unauthorized):
            nobody.health.metrics()
    assert {check.name for check in operator.health.ready().checks} >= {"store"}
    assert "jobs_due_count" in operator.health.metrics()
