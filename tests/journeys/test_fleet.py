"""Many workers on one queue."""

import signal
from collections import Counter

from tests.journeys.conftest import Journey
from tests.support.waiting import pass_time_in_thread, wait_until

FLEET = 4


def test_four_workers_run_each_of_a_thousand_due_jobs_exactly_once(journey: Journey) -> None:
    fleet = [journey.worker(queues={"default": 10}, lease=20.0, ready=False) for _ in range(FLEET)]
    for member in fleet:
        member.until("ready")
    for _ in range(10 * FLEET):
        journey.enqueue("gated", gate="gate")
    for member in fleet:
        member.until("started", count=10)  # each has taken its share

    journey.enqueue_brief(1000)
    journey.open("gate")
    journey.until_done()

    effects = Counter(effect.job for effect in journey.ran())
    assert effects == Counter(journey.acknowledged[10 * FLEET :])
    assert journey.complaints() == []
    for member in fleet:
        member.send(signal.SIGTERM)
    for member in fleet:
        member.wait()
    counts = sum((Counter(member.until("ended").detail) for member in fleet), Counter[str]())
    assert counts == {"succeeded": 1000 + 10 * FLEET}


def test_a_job_enqueued_at_any_moment_of_a_workers_start_is_found_at_once(journey: Journey) -> None:
    """A hint that comes before anybody listens must not be lost until the next slow look."""
    worker = journey.worker(ready=False, look_every=600.0)
    wait_until(lambda: any(effect.pid == worker.pid for effect in journey.effects()), every=0.002)
    for number in range(40):
        journey.enqueue("brief", number=number)
        pass_time_in_thread(0.005)  # the rhythm of the race

    wait_until(lambda: len(journey.ran()) == 40, "the last job")
    journey.until_done()
    assert journey.complaints() == []
