"""Jobs go to workers over a real NATS server, and every answer of theirs is fenced by the store (S0-40)."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import pytest

from horae import Context, Horae, Retry
from horae.actions import bus
from horae.actions.jobs import claims, endings
from horae.actions.jobs.held_jobs import Ending, recognise, settle_held
from horae.bus.dispatch import Dispatcher
from horae.core.dispatch import Ask, Subjects
from horae.core.jobs.job import Outcome
from horae.errors import BusUnavailable, InvalidInput, LeaseLost, NeedsDatabase
from horae.limits import RateLimiter
from horae.runtime.sources.bus_line import BusLine
from horae.runtime.worker.settings import WorkerSettings
from tests.bus.dispatching import LEASE, at, far_app, relay, working
from tests.support.refusals import refused
from tests.support.waiting import eventually, pass_time

pytestmark = pytest.mark.server
SOON = 20
EXAMPLE = Path(__file__).parents[2] / "examples" / "workers" / "bus_worker.py"


@asynccontextmanager
async def line_to(app: Horae, url: str, prefix: str) -> AsyncIterator[BusLine]:
    """The bare line of a worker."""
    line = BusLine(at(url, prefix), app.world.clock, app.world.dice)
    try:
        yield line
    finally:
        await asyncio.to_thread(line.close)


async def held(line: BusLine, slots: int = 1, lease: timedelta = timedelta(seconds=30)) -> dict[str, Any]:
    """Ask for jobs of the queue mail until one is there."""
    found: list[dict[str, Any]] = []

    def take() -> bool:
        found.extend(line.take("mail", slots, worker="w", lease=lease))
        return bool(found)

    await eventually(take, "a job arrives")
    return found[0]


async def call(line: BusLine, name: str, **arguments: Any) -> Any:
    return await asyncio.to_thread(line.call, name, arguments, limit=10.0)


def ending(job: dict[str, Any], outcome: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {"job_id": job["id"], "token": job["token"], "outcome": outcome, **more}


async def test_a_worker_without_a_database_runs_what_a_relay_hands_it(app: Horae, nats_url: str, prefix: str) -> None:
    far = far_app(nats_url, prefix)

    @far.job("add", queue="mail", sensitive=["b"])
    def add(ctx: Context, a: int, b: int) -> int:
        ctx.progress({"done": 1})
        ctx.checkpoint({"at": 1})
        return a + b

    made = app.jobs.enqueue("add", {"a": 2, "b": 3}, queue="mail")
    async with relay(app, nats_url, prefix), working(far):
        job = await app.aio.jobs.wait(made.id, timeout=SOON)

    assert (job.state, job.result, job.progress, job.checkpoint) == ("succeeded", 5, {"done": 1}, {"at": 1})
    assert app.jobs.get(made.id).payload == {"a": 2, "b": "[masked]"}  # it has told what is sensitive
    assert app.workers.list() == ()  # and left the list


async def test_steps_parents_and_failures_travel(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    ran: list[str] = []

    @far.job("first", queue="mail")
    def first() -> str:
        return "one"

    def charge() -> int:
        ran.append("charge")
        return 7

    @far.job("second", queue="mail", retry=Retry.fixed(0, attempts=3))
    async def second(ctx: Context) -> list[Any]:
        kept = await ctx.step_async("charge", charge)
        if ctx.attempt == 1:
            raise RuntimeError("died behind its step")
        return [kept, *(each.result for each in await ctx.parents_async())]

    parent = near.jobs.enqueue("first", queue="mail")
    child = near.jobs.enqueue("second", queue="mail", after=[parent.id], retry=Retry.fixed(0, attempts=3))
    async with relay(near, nats_url, prefix), working(far):
        job = await near.aio.jobs.wait(child.id, timeout=SOON)

    assert (job.state, job.result, ran) == ("succeeded", [7, "one"], ["charge"])
    assert [run.outcome for run in near.jobs.runs(child.id)] == ["failed", "succeeded"]


async def test_a_cancel_reaches_a_running_handler(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    began = threading.Event()

    @far.job("endless", queue="mail")
    async def endless(ctx: Context) -> None:
        began.set()
        await ctx.until_cancelled()

    made = near.jobs.enqueue("endless", queue="mail")
    async with relay(near, nats_url, prefix), working(far):
        await eventually(began.is_set, "it begins")
        near.jobs.cancel(made.id)
        job = await near.aio.jobs.wait(made.id, timeout=SOON)

    assert job.state == "cancelled"


async def test_a_worker_that_stops_gives_its_jobs_back(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    began = threading.Event()

    @far.job("long", queue="mail", retry=Retry.none())
    async def long(ctx: Context) -> None:
        began.set()
        await asyncio.Event().wait()

    made = near.jobs.enqueue("long", queue="mail", retry=Retry.none())
    async with relay(near, nats_url, prefix):
        async with working(far, grace=timedelta(milliseconds=100)):
            await eventually(began.is_set, "it begins")
        job = near.jobs.get(made.id)

    assert (job.state, job.attempt) == ("queued", 0)


async def test_no_more_is_claimed_than_workers_have_slots(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    go_on, begun = asyncio.Event(), list[str]()

    @far.job("wait", queue="mail")
    async def wait(ctx: Context) -> None:
        begun.append(ctx.job_id)
        await go_on.wait()

    made = [near.jobs.enqueue("wait", queue="mail") for _ in range(7)]
    async with relay(near, nats_url, prefix), working(far, queues={"mail": 2}):
        await eventually(lambda: len(begun) == 2, "both slots are in use")
        await pass_time(1.5)  # longer than an ask stays open with a lease of 6 seconds
        states = [near.jobs.get(each.id).state for each in made]
        assert (states.count("running"), states.count("queued")) == (2, 5)
        go_on.set()
        for each in made:
            assert (await near.aio.jobs.wait(each.id, timeout=SOON)).state == "succeeded"

    assert sorted(begun) == sorted(each.id for each in made)


async def test_an_ending_that_comes_twice_is_written_once_and_answered_alike(
    near: Horae, nats_url: str, prefix: str
) -> None:
    made = near.jobs.enqueue("any", queue="mail")
    async with relay(near, nats_url, prefix), line_to(near, nats_url, prefix) as line:
        job = await held(line)
        first = await call(line, "settle", endings=[ending(job, result=1)])
        again = await call(line, "settle", endings=[ending(job, result=1)])
        other = await call(line, "settle", endings=[ending(job, "failed", error="no")])

    assert first == again == [{"job_id": made.id, "accepted": True, "state": "succeeded"}]
    assert other == [{"job_id": made.id, "accepted": False, "state": None}]
    assert len(near.jobs.runs(made.id)) == 1


async def test_a_late_ending_after_the_lease_was_lost_changes_nothing(near: Horae, nats_url: str, prefix: str) -> None:
    made = near.jobs.enqueue("any", queue="mail")
    async with relay(near, nats_url, prefix), line_to(near, nats_url, prefix) as line:
        job = await held(line)
        near.jobs.release(job["id"], job["token"], reason="an operator took it back")
        with pytest.raises(LeaseLost):
            await call(line, "progress", job_id=job["id"], token=job["token"], value=1)
        renewed = await call(line, "renew", holds=[{"job_id": job["id"], "token": job["token"]}], lease=30)
        late = await call(line, "settle", endings=[ending(job)])
        second = await held(line)

    assert (late[0]["accepted"], renewed[0]["held"]) == (False, False)
    assert second["token"] > job["token"]
    assert near.jobs.get(made.id).result is None


async def test_a_job_that_arrives_twice_runs_once(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    ran = list[str]()

    @far.job("count", queue="mail")
    def count(ctx: Context) -> None:
        ran.append(ctx.job_id)

    client = await nats.connect(nats_url)
    copies: list[Any] = []

    async def keep(message: Any) -> None:
        copies.append(message)

    await client.subscribe(Subjects(prefix).deliveries, cb=keep)
    made = near.jobs.enqueue("count", queue="mail")
    async with relay(near, nats_url, prefix), working(far):
        await near.aio.jobs.wait(made.id, timeout=SOON)
        jobs = [each for each in copies if b'"job"' in each.data[:10]]
        for each in jobs * 3:
            await client.publish(each.subject, each.data)
        other = near.jobs.enqueue("count", queue="mail")
        await near.aio.jobs.wait(other.id, timeout=SOON)
    await client.close()

    assert len(jobs) >= 1
    assert ran == [made.id, other.id]
    assert near.jobs.get(made.id).state == "succeeded"


async def test_what_cannot_be_read_stops_no_relay(near: Horae, nats_url: str, prefix: str) -> None:
    made = near.jobs.enqueue("any", queue="mail")
    subjects = Subjects(prefix)
    async with relay(near, nats_url, prefix), line_to(near, nats_url, prefix) as line:
        job = await held(line)
        client = await nats.connect(nats_url)
        for garbage in (b"", b"[]", b"{", b'{"id": 1}', b'{"id": "a", "to": "../", "arguments": {}}'):
            await client.publish(subjects.ask, garbage)
            await client.publish(subjects.call("settle"), garbage)
            await client.publish(subjects.call("drop_table"), garbage)
        await client.flush()
        await client.close()
        mistyped = {"job_id": 1, "token": "x", "outcome": 2}
        unusable: list[dict[str, Any]] = [{}, {"endings": 1}, {"endings": [{}]}, {"endings": [mistyped]}]
        for wrong in unusable:
            with pytest.raises(InvalidInput):
                await call(line, "settle", **wrong)
        with pytest.raises(InvalidInput):
            await call(line, "progress", job_id=made.id, token=True)
        assert (await call(line, "settle", endings=[ending(job)]))[0]["accepted"]


async def test_what_a_worker_does_not_take_goes_back_uncounted(near: Horae, nats_url: str, prefix: str) -> None:
    lease = timedelta(seconds=3)
    async with relay(near, nats_url, prefix), line_to(near, nats_url, prefix) as line:
        assert line.take("mail", 1, worker="w", lease=lease) == []  # it asks, and never takes
        made = near.jobs.enqueue("any", queue="mail")
        await eventually(lambda: line.has_arrived(["mail"]), "it arrives")
        job = near.jobs.get(made.id)
        assert (job.state, job.worker_id) == ("running", "w")
        line.rest([])
        await eventually(lambda: near.jobs.get(made.id).state == "queued", "it is given back")

    assert near.jobs.get(made.id).attempt == 0
    assert [run.outcome for run in near.jobs.runs(made.id)] == ["released"]


async def test_workers_wait_for_a_relay_and_for_the_next_one(near: Horae, nats_url: str, prefix: str) -> None:
    async with line_to(near, nats_url, prefix) as line:
        with refused(BusUnavailable, "bus_relay_silent"):
            await asyncio.to_thread(line.call, "peek", {"queues": []}, limit=0.5)
        first = near.jobs.enqueue("any", queue="mail")
        async with relay(near, nats_url, prefix):
            job = await held(line)
            near.jobs.enqueue("any", queue="mail")
        async with relay(near, nats_url, prefix):  # the first has given its lease back
            assert (await call(line, "settle", endings=[ending(job)]))[0]["accepted"]
            assert (await held(line))["id"] != first.id


async def test_a_relay_that_died_is_replaced_when_its_lease_runs_out(
    near: Horae, far: Horae, nats_url: str, prefix: str
) -> None:
    ran, go_on = list[str](), asyncio.Event()

    @far.job("wait", queue="mail")
    async def wait(ctx: Context) -> None:
        ran.append(ctx.job_id)
        await go_on.wait()

    dying = asyncio.create_task(Dispatcher(near.world, "one", at(nats_url, prefix), lease=LEASE).run())
    made = [near.jobs.enqueue("wait", queue="mail") for _ in range(3)]
    async with working(far, lease=timedelta(seconds=15)):
        await eventually(lambda: len(ran) == 3, "they run")
        dying.cancel()  # in the middle: it gives back what it holds only when it can
        await asyncio.wait([dying])
        go_on.set()
        async with relay(near, nats_url, prefix):
            for each in made:
                assert (await near.aio.jobs.wait(each.id, timeout=SOON)).state == "succeeded"

    assert sorted(ran) == sorted(each.id for each in made)


async def test_two_relays_take_turns_and_double_nothing(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    ran = list[str]()

    @far.job("count", queue="mail")
    def count(ctx: Context) -> None:
        ran.append(ctx.job_id)

    made = [near.jobs.enqueue("count", queue="mail") for _ in range(100)]
    async with relay(near, nats_url, prefix), relay(near, nats_url, prefix), working(far):
        for each in made:
            await near.aio.jobs.wait(each.id, timeout=SOON)

    assert sorted(ran) == sorted(each.id for each in made)


async def test_a_job_whose_message_was_lost_comes_back_when_its_lease_runs_out(
    near: Horae, nats_url: str, prefix: str
) -> None:
    made = near.jobs.enqueue("any", queue="mail")
    ask = Ask("a", "deaf", "deaf", "mail", 1, timedelta(seconds=1))
    async with relay(near, nats_url, prefix), line_to(near, nats_url, prefix) as line:
        await call(line, "peek", queues=[])  # a relay is there
        client = await nats.connect(nats_url)
        await client.publish(Subjects(prefix).ask, json.dumps(ask.as_json()).encode())
        await eventually(lambda: near.jobs.get(made.id).worker_id == "deaf", "it is claimed")
        await client.jetstream().purge_stream(f"{prefix}_JOBS")
        await client.close()

        async def is_handed_on() -> bool:
            await call(line, "peek", queues=[])  # whoever looks takes back what has run out
            return near.jobs.get(made.id).state == "queued"

        await eventually(is_handed_on, "it is handed on")
        job = await held(line)

    assert (job["id"], job["token"] > 1) == (made.id, True)
    assert near.jobs.runs(made.id)[0].outcome == "lost"


async def test_a_job_that_is_too_large_for_the_bus_waits_and_says_why(
    near: Horae, far: Horae, nats_url: str, prefix: str
) -> None:
    far.job("read", queue="mail")(lambda text: len(text))
    large = near.jobs.enqueue("read", {"text": "x" * 1_048_000}, queue="mail")
    small = near.jobs.enqueue("read", {"text": "x"}, queue="mail")
    async with relay(near, nats_url, prefix), working(far):
        await near.aio.jobs.wait(small.id, timeout=SOON)
        await eventually(lambda: near.jobs.get(large.id).last_error, "it says why")

    job = near.jobs.get(large.id)
    assert (job.state, job.attempt) == ("queued", 0)
    assert "max_payload" in (job.last_error or "")


async def test_a_result_that_is_too_large_for_the_bus_is_not_kept_and_the_work_counts(
    near: Horae, far: Horae, nats_url: str, prefix: str
) -> None:
    far.job("write", queue="mail")(lambda: "x" * 1_048_000)
    made = near.jobs.enqueue("write", queue="mail")
    async with relay(near, nats_url, prefix), working(far):
        job = await near.aio.jobs.wait(made.id, timeout=SOON)

    assert (job.state, job.result) == ("succeeded", None)


async def test_streams_of_another_database_are_refused(
    near: Horae, nats_url: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await nats.connect(nats_url)
    for name, subject in ((f"{prefix}_CALLS", "call"), (f"{prefix}_JOBS", "to")):
        subjects = [f"{prefix}_work.{subject}.>"]
        await client.jetstream().add_stream(name=name, subjects=subjects, metadata={"horae_database": "another"})
    await client.close()

    async with relay(near, nats_url, prefix):
        await eventually(lambda: "belongs to another database" in caplog.text, "it says so")

    assert len(bus.identify(near.world)) == 12


async def test_what_is_not_executing_needs_a_database(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    @far.job("asks", queue="mail", retry=Retry.none())
    def asks(ctx: Context) -> list[str]:
        found = []
        for attempt in (
            lambda: far.jobs.cancel(ctx.job_id),
            lambda: ctx.once("x", print),
            lambda: far.jobs.get(ctx.job_id),
        ):
            try:
                attempt()
            except NeedsDatabase as problem:
                found.append(problem.reason)
        return found

    made = near.jobs.enqueue("asks", queue="mail", retry=Retry.none())
    async with relay(near, nats_url, prefix), working(far):
        job = await near.aio.jobs.wait(made.id, timeout=SOON)

    assert job.result == ["bus_executes_only", "once_needs_database", "bus_executes_only"]


def test_a_worker_that_declares_what_needs_a_database_is_refused_with_a_list(far: Horae) -> None:
    class InDatabase:
        in_database, shared = True, True

    far.limit_rate("mail", RateLimiter(1, 1, calls=InDatabase()))  # type: ignore[arg-type]
    with refused(NeedsDatabase, "worker_needs_database") as problem:
        far.worker(WorkerSettings())
    assert "queue mail" in str(problem.value)


async def test_an_unwritten_ending_waits_in_the_stream_until_a_relay_is_there(
    near: Horae, nats_url: str, prefix: str
) -> None:
    made = near.jobs.enqueue("any", queue="mail")
    async with line_to(near, nats_url, prefix) as line:
        async with relay(near, nats_url, prefix):
            job = await held(line)
        with refused(BusUnavailable, "bus_relay_silent"):
            await asyncio.to_thread(line.call, "settle", {"endings": [ending(job)]}, limit=0.5)
    # its worker is gone for good
    async with relay(near, nats_url, prefix):
        assert (await near.aio.jobs.wait(made.id, timeout=SOON)).state == "succeeded"


def test_an_ending_that_is_known_is_recognised_by_token_and_outcome(near: Horae) -> None:
    near.jobs.enqueue("any", queue="mail", retry=Retry.fixed(0, attempts=2))
    (job,) = claims.claim(near.world, "mail", 1, worker_id="w", lease=timedelta(seconds=30))
    endings.settle(near.world, [(job, Outcome("failed", error="no"))])
    same, other = Ending(job.id, job.token, "failed"), Ending(job.id, job.token, "succeeded")

    refused_both = settle_held(near.world, [same]) + settle_held(near.world, [other])
    found = recognise(near.world, [same, other, Ending("job_999", 1, "failed")], [*refused_both, refused_both[0]])
    assert [(each.accepted, each.state) for each in found] == [(True, "queued"), (False, None), (False, None)]


async def test_a_worker_in_plain_nats_takes_jobs_and_ends_them(near: Horae, nats_url: str, prefix: str) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    made = [near.jobs.enqueue("greet", {"name": name}, queue="mail") for name in ("Ada", "Grace")]
    wrong = near.jobs.enqueue("greet", {}, queue="mail", retry=Retry.none())
    environment = {**os.environ, "NATS_URL": nats_url, "HORAE_NATS_PREFIX": prefix, "HORAE_NATS_STREAM": prefix}
    async with relay(near, nats_url, prefix):
        await eventually(lambda: _has_stream(nats_url, f"{prefix}_JOBS"), "the relay has made its streams")
        plain = await asyncio.create_subprocess_exec(sys.executable, EXAMPLE, env=environment)
        try:
            jobs = [await near.aio.jobs.wait(each.id, timeout=SOON) for each in (*made, wrong)]
        finally:
            plain.kill()
            await plain.wait()

    assert [job.result for job in jobs[:2]] == [{"text": "Hello, Ada"}, {"text": "Hello, Grace"}]
    assert (jobs[2].state, "KeyError" in (jobs[2].last_error or "")) == ("dead", True)


async def _has_stream(url: str, name: str) -> bool:
    client = await nats.connect(url)
    try:
        return name in [each.config.name for each in await client.jetstream().streams_info()]
    finally:
        await client.close()
