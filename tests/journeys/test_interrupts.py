"""A process that is interrupted in the middle of a job gives the job back: no attempt is counted, nothing is dead."""

import signal

import pytest

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.jobs.retry import Retry
from tests.journeys.conftest import Journey, Member, eventually


@pytest.fixture
def journey(sqlite_journey: Journey) -> Journey:
    """What is tested here is the process; that endings reach all three databases is tested elsewhere."""
    return sqlite_journey


def begun(journey: Journey, name: str) -> tuple[Member, Enqueued]:
    """A program that has begun a job."""
    job = verbs.enqueue(journey.app.world, Request(name, retry=Retry.none()))
    program = journey.python("-m", "tests.journeys.embedded")
    eventually(lambda: any(effect.job == job.number for effect in journey.ran("started")), "the start")
    return program, job


def given_back(journey: Journey, job: Enqueued) -> tuple[str, int, list[str]]:
    found = journey.app.get(job.id)
    return found.state, found.attempt, [run.outcome for run in journey.runs(job)]


@pytest.mark.parametrize("name", ["wait", "limited", "thread", "process", "block"])
def test_ctrl_c_twice_gives_back_what_runs_inside_the_application(journey: Journey, name: str) -> None:
    program, job = begun(journey, name)

    program.send(signal.SIGINT)  # ends in order, which means to wait for the job
    program.until("interrupted")
    assert journey.app.get(job.id).state == "running"
    program.send(signal.SIGINT)
    program.wait()

    assert given_back(journey, job) == ("queued", 0, ["released"]), program.log.read_text()


@pytest.mark.parametrize("name", ["stop", "stop-from-thread", "cancel-all"])
def test_a_handler_that_breaks_the_event_loop_is_given_back_with_all_others(journey: Journey, name: str) -> None:
    bystander = verbs.enqueue(journey.app.world, Request("wait", retry=Retry.none()))
    program, job = begun(journey, name)
    program.wait()

    assert given_back(journey, job) == ("queued", 0, ["released"]), program.log.read_text()
    assert journey.app.get(bystander.id).state == "queued"
