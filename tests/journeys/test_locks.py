"""SINGLE_NODE jobs whose worker, or whose lock manager, dies in the middle of a run."""

import json
import signal
from collections.abc import Callable
from typing import Any

from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import schedules
from horae.core.jobs.job import Filter, Job
from tests.journeys.conftest import Journey, Member
from tests.support.servers import RedisServer
from tests.support.waiting import wait_until

LONG = 600.0  # seconds that a lock holds: nobody could wait for its end


def worker(journey: Journey, **settings: Any) -> Member:
    answer = json.dumps({"lease": 2.0, "lock_ttl": LONG, "locks": "database", **settings})
    return journey.python("-m", "tests.journeys.locked", answer)


def jobs(journey: Journey) -> list[Job]:
    """The oldest first."""
    return verbs.find(journey.app.world, Filter(handler="steady"), limit=1000)[::-1]


def outcomes(journey: Journey, job: Job) -> list[str]:
    return [run.outcome for run in verbs.runs(journey.app.world, job.id)]


def killed_in_the_middle(journey: Journey, **settings: Any) -> None:
    """Kill a worker that holds the lock; another one goes on with the same occurrence and those after it."""
    victim = worker(journey, **settings)
    victim.until("started")
    victim.send(signal.SIGKILL)
    victim.wait()
    heir = worker(journey, **settings)
    journey.open("gate")
    heir.until("passed", 4)

    wait_until(lambda: len([job for job in jobs(journey) if job.state == "succeeded"]) >= 4, "four occurrences")
    first = outcomes(journey, jobs(journey)[0])
    assert (first[0], first[-1], set(first)) == ("lost", "succeeded", {"lost", "succeeded"})
    assert {job.state for job in jobs(journey)} <= {"succeeded", "queued", "running"}
    made = [job.fire_at for job in jobs(journey) if job.fire_at is not None]
    verdicts = {fire.fire_at: fire.verdict for fire, _ in schedules.history(journey.app.world, "steady")}
    assert {verdicts[fire_at] for fire_at in made} == {"ran"}


def test_a_worker_killed_while_it_holds_the_lock_costs_no_occurrence_of_its_job(journey: Journey) -> None:
    killed_in_the_middle(journey)


def test_the_same_with_locks_in_redis(postgres_journey: Journey, empty_redis_url: str) -> None:
    killed_in_the_middle(postgres_journey, locks=empty_redis_url)


def test_while_the_redis_server_is_gone_runs_are_put_off_and_none_ends_for_good(
    postgres_journey: Journey, own_server: Callable[..., RedisServer]
) -> None:
    journey, server = postgres_journey, own_server(RedisServer)
    alive = worker(journey, lock_ttl=2.0, locks=server.url, lease=30.0)
    alive.until("started")

    server.stop("immediate")
    (first,) = wait_until(lambda: [job for job in jobs(journey) if "released" in outcomes(journey, job)], "the release")
    wait_until(lambda: outcomes(journey, first)[-1] == "snoozed", "another try")
    journey.open("gate")
    assert journey.ran("passed") == []
    server.start()
    alive.until("passed", 3)

    assert (outcomes(journey, first)[0], outcomes(journey, first)[-1]) == ("released", "succeeded")
    assert {job.state for job in jobs(journey)} <= {"succeeded", "queued", "running"}


def test_a_redis_server_that_restarts_empty_interrupts_no_run(
    postgres_journey: Journey, own_server: Callable[..., RedisServer]
) -> None:
    journey, server = postgres_journey, own_server(RedisServer)
    alive = worker(journey, lock_ttl=30.0, locks=server.url, lease=30.0)
    started = alive.until("started")

    server.restart("immediate")
    wait_until(lambda: _is_locked(server), "the lock put back", within=60)
    journey.open("gate")
    passed = alive.until("passed")

    assert (passed.job, passed.token) == (started.job, started.token)


def _is_locked(server: RedisServer) -> bool:
    import redis

    return bool(redis.Redis.from_url(server.url).exists("horae:lock:job:steady"))
