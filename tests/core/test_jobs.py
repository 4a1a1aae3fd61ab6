"""What becomes of a job whose attempt has ended."""

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from horae.core.jobs.job import (
    JOB,
    Change,
    Ending,
    Job,
    Outcome,
    after,
    band_of,
    check_run_at,
    default_key,
    job_number,
    renewal_pause,
    request_hash,
    settlement,
)
from horae.core.jobs.retry import Retry
from horae.errors import InvalidInput, NotFound, PastDue
from horae.testing.builders import a_job
from horae.testing.clock import NOON
from tests.support.refusals import refused

SECOND = timedelta(seconds=1)
ENDINGS: tuple[Ending, ...] = (
    "succeeded", "failed", "timed_out", "snoozed", "cancelled", "released", "lost", "skipped",
)  # fmt: skip


def becomes(ending: Ending, *, job: Job | None = None, now: Any = NOON, **answer: Any) -> Change:
    return after(job or a_job("running"), Outcome(ending, **answer), now=now, roll=0.5)


# -- endings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "state", "attempt"),
    [
        ("succeeded", "succeeded", 0),
        ("cancelled", "cancelled", 0),
        ("skipped", "cancelled", 0),
        ("failed", "queued", 1),
        ("timed_out", "queued", 1),
        ("lost", "queued", 1),
        ("snoozed", "queued", 0),
        ("released", "queued", 0),
    ],
)
def test_each_ending_leads_to_its_state_and_counts_or_not(ending: Ending, state: str, attempt: int) -> None:
    """S0-14, S0-18; snoozed and released cost nothing."""
    change = becomes(ending)

    assert (change.state, change.attempt) == (state, attempt)


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_max_attempts_counts_executions(attempt: int) -> None:
    """S0-19, S0-20: three failures with three attempts end dead."""
    change = becomes("failed", job=a_job("running", attempt=attempt, max_attempts=3))

    assert (change.state, change.attempt) == ("dead" if attempt == 2 else "queued", attempt + 1)


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 5])
def test_losses_are_forgiven_up_to_the_larger_of_three_and_max_attempts(max_attempts: int) -> None:
    """C-24, I5: a deploy cannot kill a job, a poison job dies all the same."""
    job, losses = a_job("running", max_attempts=max_attempts), 0
    change = becomes("lost", job=job)
    while change.state == "queued":
        losses += 1
        change = becomes("lost", job=replace(job, attempt=change.attempt))

    assert (change.state, losses + 1) == ("dead", max(max_attempts, 3))


def test_a_job_that_killed_its_workers_says_so() -> None:
    assert "worker_died_3_times" in (becomes("lost", job=a_job("running", attempt=2)).error or "")


def test_a_final_failure_is_not_tried_again() -> None:
    assert becomes("failed", final=True).state == "dead"


def test_an_undecided_external_policy_gives_up() -> None:
    job = a_job("running", retry=Retry.external())

    assert (becomes("failed", job=job).state, becomes("failed", job=job, delay=SECOND).state) == ("dead", "queued")


@pytest.mark.parametrize("ending", ["failed", "timed_out", "lost", "snoozed", "released"])
def test_a_job_that_was_asked_to_stop_is_not_tried_again(ending: Ending) -> None:
    """Whoever cancelled it must not see it start once more because its worker failed or fell silent."""
    assert becomes(ending, job=a_job("running", cancel_reason="enough")).state == "cancelled"


def test_a_success_stands_even_if_somebody_asked_to_stop() -> None:
    assert becomes("succeeded", job=a_job("running", cancel_reason="enough")).state == "succeeded"


# -- when it is tried again: C-12 --------------------------------------------------------------------------------------


def test_a_policy_counts_from_the_finish() -> None:
    change = becomes("failed", job=a_job("running", retry=Retry.fixed(60)), now=NOON + 5 * SECOND)

    assert change.run_at == NOON + 65 * SECOND


def test_the_callers_delay_wins_over_the_policy() -> None:
    assert becomes("failed", delay=7 * SECOND).run_at == NOON + 7 * SECOND


@pytest.mark.parametrize(
    ("late", "due"),
    [(5, 60), (59, 60), (60, 120), (61, 121), (3600, 3660)],
    ids=["the fixture of document 000", "just in time", "at that very instant", "a second late", "an hour late"],
)
def test_from_run_at_the_delay_counts_from_the_due_time_unless_that_has_passed(late: int, due: int) -> None:
    """C-12: run_at + delay, or now + delay, so that lateness never makes a retry immediate."""
    change = becomes("failed", delay=60 * SECOND, from_run_at=True, now=NOON + late * SECOND)

    assert change.run_at == NOON + due * SECOND


def test_no_delay_is_at_once() -> None:
    assert becomes("failed", delay=timedelta(0), now=NOON + SECOND).run_at == NOON + SECOND


def test_snoozed_counts_from_now() -> None:
    assert becomes("snoozed", delay=9 * SECOND, now=NOON + SECOND).run_at == NOON + 10 * SECOND


def test_released_keeps_its_due_time() -> None:
    assert becomes("released", now=NOON + 9 * SECOND).run_at == NOON


def test_the_longest_delay_does_not_break_the_calendar() -> None:
    assert becomes("failed", delay=timedelta.max).run_at > NOON


@example(ending="failed", attempt=0, max_attempts=3, late=1, delay=0, from_run_at=True)
@given(
    ending=st.sampled_from(ENDINGS),
    attempt=st.integers(0, 6),
    max_attempts=st.integers(1, 5),
    late=st.integers(0, 10**6),
    delay=st.none() | st.integers(0, 10**6),
    from_run_at=st.booleans(),
)
def test_whatever_ends_the_attempt_the_rules_hold(
    ending: Ending, attempt: int, max_attempts: int, late: int, delay: int | None, from_run_at: bool
) -> None:
    job = a_job("running", attempt=attempt, max_attempts=max_attempts)
    now = NOON + timedelta(seconds=late)
    wait = None if delay is None else timedelta(seconds=delay)

    change = after(job, Outcome(ending, delay=wait, from_run_at=from_run_at), now=now, roll=0.5)

    assert change.state == JOB.after("running", change.event)
    assert job.attempt <= change.attempt <= job.attempt + 1
    assert change.state == "queued" or change.run_at == job.run_at
    if ending in ("failed", "timed_out", "snoozed", "lost") and change.state == "queued":
        assert change.run_at >= now


# -- settlements, names, times -----------------------------------------------------------------------------------------


def test_a_death_brings_its_audit_entry() -> None:
    job = a_job("running", max_attempts=1, owner="ann")

    entry = settlement(job, Outcome("failed", error="no"), now=NOON, roll=0.5).entry

    assert entry is not None
    assert (entry.verb, entry.object_id, entry.owner, entry.reason) == ("dead", "job_1", "ann", "no")
    assert (entry.before["state"], entry.after["state"], entry.evidence) == ("running", "dead", ("run:job_1.1",))


@pytest.mark.parametrize("ending", ["succeeded", "failed", "lost", "snoozed"])
def test_an_ordinary_ending_has_no_entry(ending: Ending) -> None:
    assert settlement(a_job("running"), Outcome(ending), now=NOON, roll=0.5).entry is None


def test_only_a_loss_must_still_be_expired_when_it_is_written() -> None:
    answer = {end: settlement(a_job("running"), Outcome(end), now=NOON, roll=0.5).expired_before for end in ENDINGS}

    assert {end for end, before in answer.items() if before is not None} == {"lost"}


@pytest.mark.parametrize("text", ["job_12", "12", 12])
def test_a_job_id_is_read(text: str | int) -> None:
    assert job_number(text) == 12


@pytest.mark.parametrize("text", ["", "job_", "job_1.2", "job_-1", "run_1", "job_¹", "job_" + "9" * 30, "job_ 1"])
def test_what_cannot_name_a_job_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        job_number(text)


def test_bands_rank_high_before_medium_before_low() -> None:
    """S0-22."""
    assert [band_of(word) for word in ("high", "medium", "low")] == [0, 1, 2]


def test_an_unknown_priority_is_refused() -> None:
    with refused(InvalidInput, "choice_unknown", choices=["high", "medium", "low"]):
        band_of("urgent")


def test_the_default_key_names_object_action_and_time() -> None:
    """S0-6, with the type that its origin forgot."""
    assert default_key("m1", "verify", NOON) == "m1:verify:2030-01-07T12:00:00Z"


def test_the_same_request_has_the_same_hash_in_any_order() -> None:
    assert request_hash({"a": 1, "b": {"c": 2, "d": 3}}) == request_hash({"b": {"d": 3, "c": 2}, "a": 1})


def test_a_lease_is_renewed_at_a_third() -> None:
    """C-10."""
    assert renewal_pause(timedelta(seconds=30)) == timedelta(seconds=10)


@pytest.mark.parametrize(("late", "refused"), [(0, False), (5, False), (5.000001, True), (60, True)])
def test_a_strict_door_refuses_the_past_beyond_five_seconds(late: float, refused: bool) -> None:
    """S0-9, C-18."""
    run_at = NOON - timedelta(seconds=late)
    if refused:
        with pytest.raises(PastDue):
            check_run_at(run_at, now=NOON, strict=True)
    else:
        check_run_at(run_at, now=NOON, strict=True)


def test_an_easy_door_lets_the_past_in() -> None:
    check_run_at(NOON - timedelta(days=1), now=NOON, strict=False)


@pytest.mark.parametrize(
    ("job", "due"),
    [
        (a_job(), True),
        (a_job(run_at=NOON + SECOND), False),
        (a_job("running"), False),
        (a_job(held="slot"), False),
        (a_job("dead"), False),
    ],
    ids=["waiting", "later", "running", "held", "dead"],
)
def test_due_is_a_comparison(job: Job, due: bool) -> None:
    """S0-21."""
    assert job.is_due(NOON) is due


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        a_job().state = "dead"  # type: ignore[misc]


def test_a_job_says_who_it_is() -> None:
    job = a_job("running", number=7, token=3)

    assert (job.id, job.run_id, job.cancel_requested, len(fields(job)) > 30) == ("job_7", "job_7.3", False, True)
