"""``horae worker`` is told to end: in order the first time, at once the second time."""

import signal
import time

from tests.journeys.conftest import Journey, Member, eventually

LONG_LEASE = "60s"


def command(journey: Journey, grace: str) -> Member:
    """The real command line, with a lease that nobody could wait for."""
    target = "tests.journeys.program:app"
    return journey.python("-m", "horae", "worker", target, "--lease", LONG_LEASE, "--grace", grace)


def test_a_worker_told_to_end_gives_its_leases_back_and_another_one_goes_on_at_once(journey: Journey) -> None:
    leaver = command(journey, grace="1ms")
    job = journey.enqueue("gated", gate="gate")
    leaver.until("started")
    heir = command(journey, grace="10s")

    told_at = leaver.send(signal.SIGTERM)
    assert leaver.wait() == 0, leaver.log.read_text()
    took_over = heir.until("started")
    journey.open("gate")
    journey.until_done([job])

    assert took_over.at - told_at < 15  # a quarter of the lease, on any machine
    assert (took_over.attempt, took_over.token) == (1, 3)  # no attempt was wasted, and the token has grown
    assert [run.outcome for run in journey.runs(job)] == ["released", "succeeded"]
    assert journey.complaints() == []


def test_a_worker_told_to_end_finishes_what_fits_into_the_grace(journey: Journey) -> None:
    worker = command(journey, grace="30s")
    running = journey.enqueue("gated", gate="gate")
    worker.until("started")

    worker.send(signal.SIGTERM)
    eventually(lambda: "claims nothing more" in worker.log.read_text(), "the answer")
    waiting = journey.enqueue("brief", number=1)  # too late: it claims no more
    journey.open("gate")

    assert worker.wait() == 0, worker.log.read_text()
    assert journey.app.get(running.id).state == "succeeded"
    assert journey.app.get(waiting.id).state == "queued"


def told_again(worker: Member) -> bool:
    """Signals that follow each other within a fraction of a second are one; so we insist, as an operator would."""
    worker.send(signal.SIGTERM)
    time.sleep(0.1)  # its answer comes at once; a third signal would not even let it give its job back
    return "gives back what runs" in worker.log.read_text()


def test_a_second_signal_ends_a_worker_at_once_and_its_job_is_given_back(journey: Journey) -> None:
    worker = command(journey, grace="60s")
    job = journey.enqueue("stubborn", gate="never")
    worker.until("started")

    worker.send(signal.SIGTERM)
    eventually(lambda: "once more ends at once" in worker.log.read_text(), "the first answer")
    began = time.monotonic()
    eventually(lambda: told_again(worker), "the second answer")

    assert worker.wait() != 0
    assert time.monotonic() - began < 10  # a sixth of the grace
    assert [run.outcome for run in journey.runs(job)] == ["released"]
    assert (journey.app.get(job.id).state, journey.app.get(job.id).attempt) == ("queued", 0)
