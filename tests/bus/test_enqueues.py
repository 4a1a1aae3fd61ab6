"""Handlers of workers on the bus enqueue other jobs, once, whatever gets lost or comes twice."""

from typing import Any

import nats
import pytest

from horae import Horae, Retry
from horae.actions.jobs.requests import Request
from horae.bus.calls import perform
from horae.bus.rooms import rooms_of
from horae.core.dispatch import BusCall, Subjects
from horae.core.jobs.gathered_jobs import Collect
from horae.errors import BusUnavailable, InvalidInput, KeyConflict, NeedsDatabase
from horae.runtime.sources import nats as source
from horae.runtime.sources.bus_line import BusLine
from tests.bus.dispatching import far_app, relay, working
from tests.support.refusals import refused
from tests.support.waiting import eventually

pytestmark = pytest.mark.server
SOON = 20


def stored(near: Horae, handler: str) -> list[Any]:
    return [job for job in near.jobs.list() if job.handler == handler]


async def test_a_handler_enqueues_jobs_of_all_kinds_over_the_bus(
    near: Horae, far: Horae, nats_url: str, prefix: str
) -> None:
    ran = list[int]()

    @far.job("child", queue="mail", retry=Retry.fixed(1, attempts=7))
    def child(number: int) -> None:
        ran.append(number)

    @far.job("gathered", queue="mail", collect=Collect(n=3, within=1))
    def gathered(numbers: list[int]) -> None:
        ran.extend(numbers)

    @far.job("parent", queue="mail")
    def parent() -> list[str]:
        made = [child.enqueue(1).id, far.jobs.enqueue("child", {"number": 2}, queue="mail").id]
        made += [each.id for each in child.enqueue_many([{"number": 3}, {"number": 4}])]
        made += [each.id for each in far.enqueue_many([child.using(tags=["late"]).request(5)])]
        return [*made, gathered.enqueue([8]).id, gathered.enqueue([9]).id]

    @far.job("parent_async", queue="mail")
    async def parent_async() -> list[str]:
        first = await child.enqueue_async(6)
        return [first.id, (await far.aio.jobs.enqueue("child", {"number": 7}, queue="mail", after=[first.id])).id]

    asked = [near.jobs.enqueue(name, queue="mail").id for name in ("parent", "parent_async")]
    async with relay(near, nats_url, prefix), working(far):
        job, other = [await near.aio.jobs.wait(each, timeout=SOON) for each in asked]
        assert (job.state, other.state) == ("succeeded", "succeeded"), (job.last_error, other.last_error)
        await eventually(lambda: sorted(ran) == [1, 2, 3, 4, 5, 6, 7, 8, 9], "all of them run")

    assert len(set(job.result)) == 6  # the last two are one job
    assert near.jobs.get(job.result[0]).retry == Retry.fixed(1, attempts=7)
    assert near.jobs.get(job.result[4]).tags == ("late",)


async def test_a_call_that_comes_twice_stores_a_job_once(near: Horae, far: Horae, nats_url: str, prefix: str) -> None:
    """Its message is performed again, as after a relay that died before it acknowledged it."""
    heard: list[Any] = []
    client = await nats.connect(nats_url)

    async def keep(message: Any) -> None:
        heard.append(message)

    await client.subscribe(Subjects(prefix).call("enqueue"), cb=keep)
    await client.subscribe(Subjects(prefix).call("enqueue_many"), cb=keep)
    async with relay(near, nats_url, prefix):
        one = await far.aio.jobs.enqueue("any", {"a": 1})
        many = await far.aio.jobs.enqueue_many([Request("many", {"b": 1}), Request("many", {"b": 1})])
        for each in heard * 2:
            await client.jetstream().publish(each.subject, each.data)  # under no id: the stream keeps it again
        await eventually(lambda: _is_idle(client, prefix), "they are performed")
    await client.close()

    assert [job.id for job in stored(near, "any")] == [one.id]
    assert {job.id for job in stored(near, "many")} == {each.id for each in many}
    assert len(stored(near, "many")) == 2


async def test_a_call_without_an_answer_is_sent_again_under_its_key(
    near: Horae, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the first try gets lost on the way to the worker."""
    far, lost = far_app(nats_url, prefix), list[bytes]()
    receive = BusLine._receive  # noqa: SLF001

    async def lose_first(line: BusLine, message: Any) -> None:
        if lost:
            await receive(line, message)
        else:
            lost.append(message.data)
            await message.ack()

    monkeypatch.setattr(BusLine, "_receive", lose_first)
    monkeypatch.setattr(source, "PATIENT", 6.0)
    async with relay(near, nats_url, prefix):
        await eventually(lambda: _has_streams(nats_url, prefix), "streams")
        made = await far.aio.jobs.enqueue("any", {"a": 1})
    far.close()

    assert [job.id for job in stored(near, "any")] == [made.id]
    assert (len(lost), made.deduplicated) == (1, True)


async def test_without_a_relay_an_enqueue_ends_with_an_error_after_its_limit(
    far: Horae, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PATIENT", 0.6)
    with refused(BusUnavailable, "bus_relay_silent"):
        await far.aio.jobs.enqueue("any")


async def test_refusals_of_the_room_and_what_cannot_travel_are_errors_in_words(
    near: Horae, far: Horae, nats_url: str, prefix: str
) -> None:
    child = far.job("child", queue="mail")(lambda: None)
    async with relay(near, nats_url, prefix):
        await far.aio.jobs.enqueue("any", {"a": 1}, key="k")
        with pytest.raises(KeyConflict):
            await far.aio.jobs.enqueue("any", {"a": 2}, key="k")
        with pytest.raises(InvalidInput):
            await far.aio.jobs.enqueue("any", queue="no queue")
    with refused(NeedsDatabase, "connection_needs_database"):
        far.enqueue_many([child.request()], connection=near.engine.connect())
    with refused(NeedsDatabase, "owner_needs_database"):
        child.using(owner="ada").enqueue()
    with refused(NeedsDatabase, "bus_executes_only"):
        far.batch([child.request()])
    child_process = Horae("sqlite:////nowhere/at/all.db", name="child")
    child_process.use_bus(())
    with refused(NeedsDatabase, "bus_not_in_child"):
        child_process.jobs.enqueue("any")


def test_what_cannot_be_read_is_refused_and_stores_nothing(near: Horae) -> None:
    rooms = rooms_of(near.world)
    wrong: list[tuple[str, Any]] = [
        ("enqueue", {}), ("enqueue", {"handler": 1}), ("enqueue", {"handler": "a", "owner": "ada"}),
        ("enqueue", {"handler": "a", "queue": 1}), ("enqueue", {"handler": "a", "tags": "x"}),
        ("enqueue", {"handler": "a", "after": [1]}), ("enqueue", {"handler": "a", "delay": "soon"}),
        ("enqueue", {"handler": "a", "retry": 7}), ("enqueue_many", {}), ("enqueue_many", {"jobs": []}),
        ("enqueue_many", {"jobs": [{"handler": "a"}, 1]}), ("enqueue_many", {"jobs": [{"handler": "a"}], "key": 1}),
    ]  # fmt: skip
    for name, arguments in wrong:
        [answer] = perform(rooms, [BusCall("id", "to", name, arguments)])
        assert answer is not None
        assert "problem" in answer, (name, arguments)
    assert list(near.jobs.list()) == []


async def _is_idle(client: Any, prefix: str) -> bool:
    found = (await client.jetstream().stream_info(f"{prefix}_CALLS")).state
    return bool(found.messages == 0)


async def _has_streams(url: str, prefix: str) -> bool:
    client = await nats.connect(url)
    try:
        return len([each for each in await client.jetstream().streams_info() if prefix in str(each.config.name)]) == 2
    finally:
        await client.close()
