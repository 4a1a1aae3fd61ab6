"""Verifiers in real workers: with a database, in a child process, over HTTP, and as a plain HTTP client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from horae import Attend, Horae, ObjectToVerify, Verdict
from horae.actions.governance import queries
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import propose
from horae.core.access.callers import Caller
from horae.core.governance.objects import GovernedObject
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Job
from horae.ports.store import Tx
from horae.ports.world import World
from horae.runtime.worker.worker import WorkerSettings
from tests.runtime import processes
from tests.runtime.serving import serving
from tests.support.serving import Served
from tests.support.serving import serving as serving_http
from tests.support.waiting import eventually

QUEUES = {"governance": 4, "scheduler": 4}
ALICE = Caller("alice", frozenset({"tasks"}), "agent/bob")


def a_memory(world: World, *, owner: str = "alice", queue: str = "governance", **fields: Any) -> GovernedObject:
    given: Any = {"subject": "Ann", "evidence": ("chat:1",)} | fields
    return propose(world, Proposal("memory", "Ann likes tea", **given), owner=owner, caller=ALICE, queue=queue).object


def now_of(world: World, it: GovernedObject) -> GovernedObject:
    return queries.get(world, it.id, owner=it.owner).object


async def until(world: World, it: GovernedObject, status: str) -> None:
    await eventually(lambda: now_of(world, it).status == status, f"a memory that is {status}")


def verbs_of(world: World, it: GovernedObject) -> list[str]:
    return [entry.verb for _, entry in queries.history(world, it.id, owner=it.owner).entries]


def verifier_of(world: World, it: GovernedObject) -> Any:
    entries = queries.history(world, it.id, owner=it.owner).entries
    return next(entry.after["verifier"] for _, entry in entries if "verifier" in entry.after)


# -- with a database ---------------------------------------------------------------------------------------------------


async def test_a_worker_with_a_verifier_and_one_without_on_every_database(
    app_on: Callable[[str], Horae], database_url: str
) -> None:
    app = app_on(database_url)
    seen: list[str] = []

    @app.verifier("memory")
    async def look(memory: ObjectToVerify) -> Verdict:
        seen.append(memory.content or "")
        return Verdict.refuted(evidence=["web:1"])

    async with serving(app, queues=QUEUES):
        memory = a_memory(app.world)
        given: Any = {"subject": "Ann", "evidence": ("chat:1",)}
        experience = propose(
            app.world, Proposal("experience", "Tea calms Ann", **given), owner="alice", caller=ALICE
        ).object
        await until(app.world, memory, "quarantine")
        await until(app.world, experience, "active")

    assert seen[:1] == ["Ann likes tea"]
    assert verifier_of(app.world, experience) == "built-in"
    assert [str(each) for each in check_objects(app.world)] == []


async def test_a_worker_serves_the_queue_of_objects_unless_told_otherwise(app: Horae) -> None:
    async with app.running():
        it = a_memory(app.world, owner="system")
        await until(app.world, it, "verified")


async def test_a_verifier_in_a_process_of_its_own(process_app: Horae) -> None:
    async with serving(process_app, queues=QUEUES):
        it = a_memory(process_app.world)
        await until(process_app.world, it, "verified")
    assert verifier_of(process_app.world, it) == f"{processes.__name__}.check_memory"


async def test_a_verifier_that_never_ends_is_killed_with_its_process(process_app: Horae) -> None:
    async with serving(process_app, queues=QUEUES):
        it = a_memory(process_app.world, subject="for ever")
        await eventually(lambda: "failed" in verbs_of(process_app.world, it), "the end of the endless")
    assert now_of(process_app.world, it).status == "candidate"


# -- answers that cannot be kept ---------------------------------------------------------------------------------------

HUGE = 10_000_000


def nested(depth: int) -> Any:
    """Something that no encoder without a limit survives."""
    made: Any = "confirmed"
    for _ in range(depth):
        made = [made]
    return made


def shouts(memory: ObjectToVerify) -> Any:
    raise RuntimeError("x" * 100_000)


UNKEEPABLE: dict[str, tuple[Callable[[ObjectToVerify], Any], str]] = {
    "a huge verdict": (lambda _: {"verdict": "x" * HUGE}, "Unknown verdict"),
    "a huge note": (lambda _: {"verdict": "refuted", "note": "x" * HUGE}, "4000"),
    "a huge reference": (lambda _: {"verdict": "refuted", "evidence": ["x" * HUGE]}, "500"),
    "a huge field of its own": (lambda _: {"verdict": "refuted", "page": "x" * HUGE}, "only verdict is needed"),
    "a deep verdict": (lambda _: {"verdict": nested(100_000)}, "Unknown verdict"),
    "a deep reference": (lambda _: {"verdict": "refuted", "evidence": nested(100_000)}, "reference"),
    "a deep cost": (lambda _: {"verdict": "refuted", "cost": {"tokens": nested(100_000)}}, "whole number"),
    "no JSON": (lambda _: {"verdict": "refuted", "confidence": object()}, "from 0 to 1"),
    "no text": (lambda _: b"\xff\xfe refuted", "only verdict is needed"),
    "a text that no database keeps": (lambda _: {"verdict": "refuted", "evidence": ["web:\x00"]}, "NUL"),
    "a huge error": (shouts, "xxx"),
}


def answer_of(memory: ObjectToVerify) -> Any:
    return UNKEEPABLE[memory.subject][0](memory)


async def answer_later(memory: ObjectToVerify) -> Any:
    return answer_of(memory)


def failures_of(world: World, it: GovernedObject) -> list[str]:
    entries = queries.history(world, it.id, owner=it.owner).entries
    return [entry.reason or "" for _, entry in entries if entry.verb == "failed"]


def _job_of(tx: Tx, number: int) -> list[Job]:
    return tx.jobs.some([number])


async def assert_refused_in_words(world: World) -> None:
    """Each answer fails its attempt, says so in the audit and leaves the object as it was; none is judged otherwise."""
    asked = {name: a_memory(world, subject=name) for name in UNKEEPABLE}
    for name, it in asked.items():
        await eventually(lambda it=it: failures_of(world, it), f"a refusal of {name}")  # type: ignore[misc]
    for name, it in asked.items():
        reason = failures_of(world, it)[-1]
        assert UNKEEPABLE[name][1] in reason, (name, reason[:300])
        assert len(reason) <= 4000
        now = now_of(world, it)
        assert (now.status, now.version, now.inconclusives, now.verified_at) == ("candidate", it.version, 0, None), name
        assert queries.get(world, it.id, owner=it.owner).content == "Ann likes tea"
        assert "verified" not in verbs_of(world, it)
        (job,) = world.store.read(partial(_job_of, number=now.job or 0))
        assert job.state in ("queued", "running"), name
        assert len(job.last_error or "") < 10_000
    assert [str(each) for each in check_objects(world)] == []


@pytest.mark.slow
@pytest.mark.parametrize("verify", [answer_of, answer_later], ids=["sync", "async"])
async def test_an_answer_that_cannot_be_kept_is_refused_in_words(app: Horae, verify: Callable[..., Any]) -> None:
    app.verifier("memory")(verify)
    async with serving(app, queues=QUEUES):
        await assert_refused_in_words(app.world)


@pytest.mark.slow
async def test_an_answer_that_a_far_worker_cannot_keep_is_refused_in_words(served: Served) -> None:
    async with far(served, answer_of):
        await assert_refused_in_words(served.world)


async def test_a_verdict_above_the_limit_of_results_is_not_replaced_by_another(
    app_on: Callable[..., Horae], sqlite_database_url: str
) -> None:
    """The stored evidence would confirm what the verifier has refuted, at length."""
    app = app_on(sqlite_database_url, max_payload_bytes=1000)
    app.budgets.set("verify.memory", "calls", 1000, owner="alice")
    long = [f"https://archive.example/{number}/{'x' * 80}" for number in range(40)]
    app.verifier("memory")(lambda _: Verdict.refuted(evidence=long))
    async with serving(app, queues=QUEUES):
        it = a_memory(app.world)
        await eventually(lambda: failures_of(app.world, it), "a refusal")
    assert "1,000 are accepted" in failures_of(app.world, it)[-1]
    assert (now_of(app.world, it).status, now_of(app.world, it).verified_at) == ("candidate", None)
    spent = app.budgets.get("verify.memory", "calls", owner="alice")
    assert spent.settled >= 1  # what it had reserved: it was called, whatever became of its answer
    assert [str(each) for each in check_objects(app.world)] == []


# -- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving_http(sqlite_database_url) as running:
        yield running


@asynccontextmanager
async def far(served: Served, verify: Callable[[ObjectToVerify], Any]) -> AsyncIterator[Horae]:
    """A worker without a database that verifies memories."""
    with Horae("sqlite:////nowhere/at/all.db", name="far") as app:
        app.use_service(served.url, served.token("system", "worker"))
        app.verifier("memory", cost={"tokens": 50})(verify)
        worker = app.worker(WorkerSettings(queues=QUEUES, grace=timedelta(seconds=5)))
        running = asyncio.create_task(worker.run())
        try:
            yield app
        finally:
            worker.stop()
            await running


async def test_a_worker_without_a_database_verifies_what_the_service_has(served: Served) -> None:
    seen: list[ObjectToVerify] = []

    def look(memory: ObjectToVerify) -> Verdict:
        seen.append(memory)
        return Verdict.confirmed(evidence=["web:1"], cost={"tokens": 7})

    it = a_memory(served.world, queue="scheduler")
    async with far(served, look):
        await until(served.world, it, "verified")

    (memory,) = seen
    assert (memory.content, memory.action, memory.owner, memory.stored) == ("Ann likes tea", "verify", "alice", True)
    assert [each.reference for each in memory.evidence] == ["chat:1"]
    assert verifier_of(served.world, it).startswith("token/")


async def test_an_agent_can_be_asked_by_a_worker_without_a_database(served: Served) -> None:
    it = a_memory(served.world)
    async with far(served, lambda memory: Attend("ops", "check", 60)):
        await eventually(lambda: _asked(served.world, it), "a question")
    assert [str(each) for each in check_objects(served.world)] == []


def _asked(world: World, it: GovernedObject) -> bool:
    job = world.store.read(lambda tx: tx.jobs.get(now_of(world, it).job or 0))
    return job is not None and job.checkpoint is not None


def test_a_plain_http_client_pulls_looks_and_brings_a_verdict(served: Served) -> None:
    it = a_memory(served.world, queue="scheduler")
    headers = {"Authorization": f"Bearer {served.token('alice', 'worker')}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=60) as http:
        (job,) = http.post("/scheduler/jobs/pull", json={"worker_id": "curl"}).json()["jobs"]
        found = http.get(f"/governance/objects/{job['object_id']}", params={"kind": job["object_type"]})
        why = http.get(f"/governance/objects/{job['object_id']}/why").json()
        assert (found.status_code, found.json()["content"]) == (200, "Ann likes tea")
        assert [each["reference"] for each in why["evidence"]] == ["chat:1"]

        refused = http.post(f"/scheduler/jobs/{job['job_id']}/ack", json={"result": {"verdict": "sure"}})
        assert (refused.status_code, now_of(served.world, it).status) == (422, "candidate")
        verdict = {"verdict": "refuted", "evidence": ["web:1"], "note": "she drinks coffee"}
        acked = http.post(f"/scheduler/jobs/{job['job_id']}/ack", json={"result": verdict}).json()

    assert acked["object"]["status"] == "quarantine"
    assert acked["audit_event_id"].startswith("aud_")
