"""``horae worker`` is told to end: in order the first time, at once the second time."""

import signal

from tests.journeys.conftest import Journey, Member
from tests.support.waiting import pass_time_in_thread, wait_until

LONG_LEASE = "10m"
MORE_THAN_ONE_PRESS = 0.5  # seconds; two signals closer than 0.3 s count as one


def command(journey: Journey, grace: str) -> Member:
    """The real command line, with a lease that nobody could wait for."""
    target = "tests.journeys.program:app"
    return journey.python("-m", "horae", "worker", target, "--lease", LONG_LEASE, "--grace", grace)


def test_a_worker_told_to_end_gives_its_leases_back_and_another_one_goes_on_at_once(journey: Journey) -> None:
    leaver = command(journey, grace="1ms")
    job = journey.enqueue("gated", gate="gate")
    leaver.until("started")
    heir = command(journey, grace="10s")

    leaver.send(signal.SIGTERM)
    assert leaver.wait() == 0, leaver.log.read_text()
    took_over = heir.until("started")
    journey.open("gate")
    journey.until_done([job])

    assert (took_over.attempt, took_over.token) == (1, 3)  # no attempt was wasted, and the token has grown
    assert [run.outcome for run in journey.runs(job)] == ["released", "succeeded"]
    assert journey.complaints() == []


def test_a_worker_told_to_end_finishes_what_fits_into_the_grace(journey: Journey) -> None:
    worker = command(journey, grace="30s")
    running = journey.enqueue("gated", gate="gate")
    worker.until("started")

    worker.send(signal.SIGTERM)
    wait_until(lambda: "claims nothing more" in worker.log.read_text(), "the answer")
    waiting = journey.enqueue("brief", number=1)  # too late: it claims no more
    journey.open("gate")

    assert worker.wait() == 0, worker.log.read_text()
    assert journey.app.get(running.id).state == "succeeded"
    assert journey.app.get(waiting.id).state == "queued"


def test_a_second_signal_ends_a_worker_at_once_and_its_job_is_given_back(journey: Journey) -> None:
    worker = command(journey, grace="1h")
    job = journey.enqueue("stubborn", gate="never")
    worker.until("started")

    worker.send(signal.SIGTERM)
    wait_until(lambda: "once more ends at once" in worker.log.read_text(), "the first answer")
    pass_time_in_thread(MORE_THAN_ONE_PRESS)
    worker.send(signal.SIGTERM)

    assert worker.wait() != 0
    assert "gives back what runs" in worker.log.read_text()
    assert [run.outcome for run in journey.runs(job)] == ["released"]
    assert (journey.app.get(job.id).state, journey.app.get(job.id).attempt) == ("queued", 0)
