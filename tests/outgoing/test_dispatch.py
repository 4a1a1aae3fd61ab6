"""The built-in handler `dispatch`, against the example orchestrator and worse ones (S1-24 to S1-28)."""

import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from examples.orchestrator.orchestrator import Server
from horae.core.outgoing.targets import target_of
from horae.errors import ConfigurationError
from horae.outgoing import Limits, Orchestrator
from tests.outgoing.conftest import Story, Telling
from tests.outgoing.ground import CANARY, Respond, answering, dripping, endless, serving
from tests.support.refusals import refused


@pytest.fixture
def orchestrator() -> Iterator[Server]:
    with Server(port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
async def story(orchestrator: Server, telling: Telling) -> AsyncIterator[Story]:
    async with telling(environment={"ORCHESTRATOR_URL": orchestrator.url}) as story:
        yield story


async def test_the_orchestrator_is_asked_in_its_own_words(story: Story, orchestrator: Server) -> None:
    job = story.jobs.dispatch.using(owner="alice", trace_id="trace-1").enqueue(
        text="每天 9 点提醒我打卡", context={"channel": "scheduled_task"}
    )
    await story.lab.settle()

    state, _, result = story.ended(job.id)
    assert state == "succeeded"
    assert result["output"] == "attendance heard: 每天 9 点提醒我打卡"
    question = {
        "text": "每天 9 点提醒我打卡",
        "context": {"channel": "scheduled_task", "user_id": "alice"},
        "default_agent": "attendance",
        "mode": "hybrid",
    }
    assert list(orchestrator.asked) == [(question, "trace-1")]


async def test_a_job_without_a_trace_id_is_traced_by_its_run(story: Story, orchestrator: Server) -> None:
    job = story.jobs.dispatch.enqueue(input="hello")
    await story.lab.settle()

    assert orchestrator.asked[0][1] == f"{job.id}.1"


async def test_a_job_of_a_scheduled_task_says_which(telling: Telling, orchestrator: Server) -> None:
    environment = {"ORCHESTRATOR_URL": orchestrator.url}
    async with telling(environment=environment, task_of=lambda job: f"task-of-{job.id}") as story:
        job = story.jobs.dispatch.using(owner="alice").enqueue(text="hello", context={"scheduled_task_id": "mine"})
        await story.lab.settle()

    assert orchestrator.asked[0][0]["context"] == {"user_id": "alice", "scheduled_task_id": f"task-of-{job.id}"}


async def test_what_bypasses_the_orchestrator_is_dropped_with_a_warning_in_the_result_s1_27_c_38(
    story: Story, orchestrator: Server
) -> None:
    job = story.jobs.dispatch.enqueue(text="hello", forced_agent="root", items=[1])
    await story.lab.settle()

    warnings = story.ended(job.id)[2]["warnings"]
    assert [warning.split()[0] for warning in warnings] == ["forced_agent", "items"]
    assert set(orchestrator.asked[0][0]) == {"text", "context", "default_agent", "mode"}


async def test_the_payload_chooses_default_agent_and_mode_s1_25_s1_26(story: Story, orchestrator: Server) -> None:
    job = story.jobs.dispatch.enqueue(text="hello", mode="llm", default_agent="clerk")
    await story.lab.settle()

    asked = orchestrator.asked[0][0]
    assert (asked["default_agent"], asked["mode"]) == ("clerk", "llm")
    assert "warnings" not in story.ended(job.id)[2]


@pytest.mark.parametrize("text", ["fail please", "empty please"])
async def test_a_failed_or_empty_answer_is_a_failure_tried_again_a_minute_later_s1_28(text: str, story: Story) -> None:
    job = story.jobs.dispatch.enqueue(text=text)
    await story.lab.settle()

    found = story.lab.job(job.id)
    assert (found.state, found.attempt) == ("queued", 1)
    assert found.run_at - story.lab.now == timedelta(seconds=60)
    assert (found.last_error or "").startswith("DispatchFailed: ")


@pytest.mark.parametrize(
    ("respond", "says"),
    [
        (answering(204, b""), "nothing"),
        (answering(200, b""), "nothing"),
        (answering(200, b"<html>"), "not plain JSON"),
        (answering(200, b"[1]"), "not an object"),
        (answering(200, b"{}"), "empty"),
        (answering(302, b"{}", location="http://127.0.0.1:1/"), "answered 302"),
        (answering(404, b'{"output":"x"}'), "answered 404"),
        (answering(503, b'{"output":"x"}', retry_after="5"), "answered 503"),
        (answering(200, b'{"output":"x"}', content_encoding="gzip"), "compressed"),
        (endless, "more than"),
        (dripping, "did not answer"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure_that_says_so(respond: Respond, says: str, telling: Telling) -> None:
    async with serving(respond) as server:
        environment = {"ORCHESTRATOR_URL": f"http://127.0.0.1:{server.port}/{CANARY}"}
        async with telling(environment=environment, dispatch_limits=Limits(total=0.4)) as story:
            job = story.jobs.dispatch.enqueue(text=f"do it, {CANARY}")
            await story.lab.settle()

            state, error, _ = story.ended(job.id)
            assert state == "queued"
            assert says in error
            assert CANARY not in error


async def test_a_dead_orchestrator_is_a_failure(telling: Telling) -> None:
    async with serving(answering()) as server:
        port = server.port
    async with telling(environment={"ORCHESTRATOR_URL": f"http://127.0.0.1:{port}"}) as story:
        job = story.jobs.dispatch.enqueue(text="hello")
        await story.lab.advance(timedelta(minutes=5))

        state, error, _ = story.ended(job.id)
        assert state == "dead"
        assert "did not answer" in error


@pytest.mark.parametrize("respond", [answering(503, b"{}"), answering(200, b""), endless, dripping, None])
async def test_only_the_operators_log_says_where_the_orchestrator_is(
    respond: Respond | None, telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    """A tenant reads the errors of its runs, and an operator's address may be private."""
    async with serving(respond or answering()) as server:
        where = f"127.0.0.1:{server.port if respond else 1}"
        environment = {"ORCHESTRATOR_URL": f"http://{where}/{CANARY}"}
        async with telling(environment=environment, dispatch_limits=Limits(total=0.4)) as story:
            job = story.jobs.dispatch.using(owner="alice").enqueue(text="hello")
            await story.lab.settle()
            runs = [run.error or "" for run in story.lab.runs(job.id)]

    assert [error.split(":")[0] for error in runs] in (["DispatchFailed"], ["CallFailed"])
    assert "127.0.0.1" not in f"{runs}"
    assert where in caplog.text
    assert CANARY not in f"{runs} {caplog.text}"


async def test_a_name_of_the_orchestrator_that_cannot_be_called_is_not_told_either(
    telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    async with telling(environment={"ORCHESTRATOR_URL": "http://nowhere.internal:9000"}) as story:
        job = story.jobs.dispatch.using(owner="alice").enqueue(text="hello")
        await story.lab.settle()
        error = story.ended(job.id)[1]

    assert "did not answer" in error
    assert "nowhere.internal" not in error
    assert "nowhere.internal:9000" in caplog.text


async def test_without_an_address_the_error_says_which_setting_is_missing(telling: Telling) -> None:
    async with telling() as story:
        job = story.jobs.dispatch.enqueue(text="hello")
        await story.lab.settle()

        response = story.ended(job.id)[1]
        assert "set ORCHESTRATOR_URL" in response
        assert "Traceback" not in response


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (None, "attendance", "hybrid")),
        ({"FUN_AGENT_SERVICE_URL": "http://b:1"}, ("http://b:1", "attendance", "hybrid")),
        ({"ORCHESTRATOR_URL": "http://a:1", "ROUTER_MODE": ""}, ("http://a:1", "attendance", "hybrid")),
        ({"ORCHESTRATOR_URL": "http://a", "FUN_AGENT_SERVICE_URL": "http://b"}, ("http://a", "attendance", "hybrid")),
        ({"ORCHESTRATOR_URL": " ", "FUN_AGENT_SERVICE_URL": "http://b:1"}, ("http://b:1", "attendance", "hybrid")),
        ({"OPENCLAW_DEFAULT_AGENT": "o", "ROUTER_MODE": "llm"}, (None, "o", "llm")),
        (
            {"SCHEDULER_DEFAULT_AGENT": "s", "OPENCLAW_DEFAULT_AGENT": "o", "SCHEDULER_ROUTER_MODE": "keywords",
             "ROUTER_MODE": "llm"},
            (None, "s", "keywords"),
        ),
    ],
)  # fmt: skip
def test_the_first_setting_that_is_there_wins_s1_25_s1_26(
    environment: dict[str, str], expected: tuple[str | None, str, str]
) -> None:
    read = Orchestrator.read(environment)

    url, agent, mode = expected
    assert read.target == (None if url is None else target_of(url))
    assert (read.routing.default_agent, read.routing.mode) == (agent, mode)


@pytest.mark.parametrize("url", ["nonsense", f"http://user:{CANARY}@a/", "ftp://a/", "http://a/#x"])
def test_an_address_that_cannot_be_called_is_refused_at_once_without_being_repeated(url: str) -> None:
    with refused(ConfigurationError, "orchestrator_url_refused") as refusal:
        Orchestrator.read({"ORCHESTRATOR_URL": url})
    assert CANARY not in str(refusal.value)
