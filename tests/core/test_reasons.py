"""Why a job waits: never without a reason, and never with one that does not hold."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from horae.core.jobs.job import Job, Run
from horae.core.jobs.reasons import Around, why

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)


def a_job(**changes: object) -> Job:
    answer = {"state": "queued", "queue": "mail", "priority": "medium", "run_at": NOON, "planned_at": NOON}
    return Job(number=1, handler="send", payload={}, created_at=NOON, **(answer | changes))  # type: ignore[arg-type]


def a_run(outcome: str, error: str = "") -> Run:
    return Run(1, 1, outcome, 0, "send", "mail", "system", "w", NOON, NOON, error or None)


def codes(job: Job, around: Around) -> list[str]:
    return [reason.code for reason in why(job, around, now=NOON)]


@pytest.mark.parametrize(
    ("paused", "held", "later", "served", "full"),
    list(product([False, True], repeat=5)),
    ids=lambda value: str(value)[0],
)
def test_a_waiting_job_names_exactly_what_is_in_its_way(
    paused: bool, held: bool, later: bool, served: bool, full: bool
) -> None:
    job = a_job(
        held="slot" if held else "",
        concurrency_key="customer:7" if held else None,
        run_at=NOON + timedelta(hours=1) if later else NOON,
    )
    around = Around(paused_at=NOON if paused else None, max_running=2, running=2 if full else 1, workers=int(served))

    expected = {
        "queue_paused": paused,
        "concurrency": held,
        "scheduled": later,
        "no_worker": not served,
        "queue_limit": full,
    }
    in_the_way = [code for code, holds in expected.items() if holds]
    assert codes(job, around) == (in_the_way or ["due"])


@pytest.mark.parametrize("state", ["running", "dead", "cancelled", "succeeded"])
def test_a_job_that_does_not_wait_says_what_became_of_it(state: str) -> None:
    assert codes(a_job(state=state, worker_id="w"), Around()) == [state]


def test_a_job_that_was_asked_to_stop_says_so() -> None:
    assert codes(a_job(state="running", cancel_reason="wrong list"), Around()) == ["stopping"]


@pytest.mark.parametrize(("outcome", "code"), [("failed", "retry"), ("lost", "retry"), ("snoozed", "snoozed")])
def test_what_ended_last_tells_why_a_job_is_due_later(outcome: str, code: str) -> None:
    job = a_job(run_at=NOON + timedelta(minutes=5), attempt=1, token=1)

    assert codes(job, Around(workers=1, last_run=a_run(outcome, "not yet"))) == [code]


def test_a_due_job_of_a_fair_queue_waits_for_its_owners_turn() -> None:
    [reason] = why(a_job(), Around(workers=1, in_turns=True), now=NOON)

    assert (reason.code, reason.reason) == ("due", "due_in_turns")
    assert "owners take turns in its queue" in reason.text
