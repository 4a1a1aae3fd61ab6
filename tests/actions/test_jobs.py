"""The verbs of jobs: each effect, each refusal, each audit entry."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.core.audit.entries import Entry
from horae.core.jobs.job import Filter, Job, Lease, Outcome
from horae.core.jobs.retry import Retry
from horae.errors import Conflict, InvalidInput, InvalidPayload, LeaseLost, NotAllowed, NotFound
from horae.ports.world import World
from horae.testing.builders import a_request
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def a_running_job(world: World, **asked: Any) -> Job:
    jobs.enqueue(world, a_request(**asked))
    [job] = claims.pull(world, worker_id="w1", limit=1)
    return job


def a_dead_job(world: World, **asked: Any) -> Job:
    job = a_running_job(world, retry=Retry.none(), **asked)
    return endings.fail(world, job.id, job.token, "no")


def entries(world: World, job_id: str) -> list[Entry]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=job_id, limit=10, before=None))
    return [entry for _, entry in found]


def woken(world: World, act: Callable[[], object]) -> set[str]:
    """Return the queues that are woken while *act* runs."""
    response: set[str] = set()
    unsubscribe = world.store.subscribe(response.add)
    act()
    unsubscribe()
    return response


# -- pull: S0-10 to S0-12 -------------------------------------------------------------------------------------------


def test_pull_takes_due_jobs_of_the_queues_in_turn(world: World) -> None:
    for queue in ("b", "a", "a"):
        jobs.enqueue(world, a_request(queue=queue))

    taken = claims.pull(world, worker_id="w", queues=["a", "b"], limit=3)

    assert [job.queue for job in taken] == ["a", "a", "b"]


def test_pull_takes_no_more_than_asked_for_over_all_queues(world: World) -> None:
    jobs.enqueue_many(world, [a_request(queue=queue) for queue in "aabb"])

    assert len(claims.pull(world, worker_id="w", queues=["a", "b"], limit=3)) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 1001},
        {"lease": timedelta(milliseconds=999)},
        {"lease": timedelta.max},
        {"order": "random"},
        {"queues": [""]},
        {"worker_id": ""},
        {"worker_id": "x" * 201},
    ],
    ids=str,
)
def test_a_pull_that_makes_no_sense_is_refused(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        claims.pull(world, **({"worker_id": "w"} | wrong))


# -- ack: S0-13 to S0-16 --------------------------------------------------------------------------------------------


def test_ack_ends_the_job_with_its_result(world: World) -> None:
    job = a_running_job(world)

    done = endings.ack(world, job.id, job.token, result={"n": 1})

    assert (done.state, done.result) == ("succeeded", {"n": 1})


def test_ack_keeps_the_next_action_and_the_link_to_the_audit(world: World) -> None:
    job = a_running_job(world)

    endings.ack(world, job.id, job.token, next_action_at=NOON + MINUTE, audit_event_id="aud_1")

    [run] = jobs.runs(world, job.id)
    assert (run.next_action_at, run.audit_event_id) == (NOON + MINUTE, "aud_1")


def test_a_result_that_is_not_json_is_refused_and_the_job_still_runs(world: World) -> None:
    job = a_running_job(world)

    with pytest.raises(InvalidPayload):
        endings.ack(world, job.id, job.token, result=object())
    assert jobs.get(world, job.id).state == "running"


@pytest.mark.parametrize("token", [0, 2])
def test_only_the_holder_may_ack(world: World, token: int) -> None:
    job = a_running_job(world)

    with pytest.raises(LeaseLost):
        endings.ack(world, job.id, token)


def test_a_lost_lease_cannot_ack(world: World, clock: VirtualClock) -> None:
    job = a_running_job(world)
    clock.advance(31 * SECOND)
    endings.lose_expired(world)

    with pytest.raises(LeaseLost):
        endings.ack(world, job.id, job.token)


def test_an_unknown_job_cannot_be_acked(world: World) -> None:
    with pytest.raises(NotFound):
        endings.ack(world, "job_99", 1)


# -- fail: S0-17 to S0-20 -------------------------------------------------------------------------------------------


def test_fail_tries_again_by_the_policy(world: World) -> None:
    job = a_running_job(world, retry=Retry.fixed(60))

    again = endings.fail(world, job.id, job.token, "no")

    assert (again.state, again.attempt, again.last_error, again.run_at) == ("queued", 1, "no", NOON + MINUTE)


def test_fail_takes_the_callers_delay(world: World) -> None:
    job = a_running_job(world)

    assert endings.fail(world, job.id, job.token, "no", retry_delay=9 * SECOND).run_at == NOON + 9 * SECOND


def test_fail_counts_from_run_at_where_asked(world: World, clock: VirtualClock) -> None:
    """C-12, and the fixture of document 000: pulled at :00, failed at :05, delay 60."""
    job = a_running_job(world)
    clock.advance(5 * SECOND)

    again = endings.fail(world, job.id, job.token, "no", retry_delay=MINUTE, from_run_at=True)

    assert again.run_at == NOON + MINUTE


def test_the_last_failure_kills_and_writes_an_entry(world: World) -> None:
    job = a_dead_job(world)

    assert job.state == "dead"
    assert [(entry.verb, entry.reason) for entry in entries(world, job.id)] == [("dead", "no")]


def test_a_final_failure_kills_at_once(world: World) -> None:
    job = a_running_job(world)

    assert endings.fail(world, job.id, job.token, "no", final=True).state == "dead"


def test_a_negative_delay_is_refused(world: World) -> None:
    job = a_running_job(world)

    with pytest.raises(InvalidInput):
        endings.fail(world, job.id, job.token, "no", retry_delay=-SECOND)


@pytest.mark.parametrize("error", ["nul \0", "surrogate \ud800", "x" * 100_000], ids=["nul", "surrogate", "long"])
def test_any_error_text_can_be_kept(world: World, error: str) -> None:
    job = a_running_job(world)

    response = endings.fail(world, job.id, job.token, error).last_error or ""

    assert 0 < len(response) <= 20_000


def test_a_retry_wakes_the_sleepers_of_its_queue(world: World) -> None:
    job = a_running_job(world)

    assert woken(world, lambda: endings.fail(world, job.id, job.token, "no", retry_delay=SECOND)) == {"default"}


# -- settle -----------------------------------------------------------


def test_settle_tells_who_came_too_late(world: World) -> None:
    first = a_running_job(world)
    second = a_running_job(world)
    endings.ack(world, first.id, first.token)

    response = endings.settle(world, [(first, Outcome("succeeded")), (second, Outcome("succeeded"))])

    assert response[first.id] is None
    assert response[second.id] is not None


# -- release -----------------------------------------------------------


def test_a_worker_gives_a_job_back_without_a_word_in_the_audit(world: World) -> None:
    job = a_running_job(world)

    again = endings.release(world, job.id, job.token)

    assert (again.state, again.attempt, again.run_at, entries(world, job.id)) == ("queued", 0, NOON, [])


def test_an_operator_takes_a_job_from_whoever_holds_it(world: World) -> None:
    job = a_running_job(world)

    again = endings.release(world, job.id, actor="ann", reason="stuck")

    assert again.state == "queued"
    assert [(e.verb, e.actor, e.reason) for e in entries(world, job.id)] == [("release", "ann", "stuck")]
    with pytest.raises(LeaseLost):
        endings.ack(world, job.id, job.token)


def test_a_released_job_wakes_the_sleepers(world: World) -> None:
    job = a_running_job(world)

    assert woken(world, lambda: endings.release(world, job.id, job.token)) == {"default"}


def test_a_job_that_does_not_run_cannot_be_released(world: World) -> None:
    waiting = jobs.enqueue(world, a_request()).job

    with pytest.raises(NotAllowed):
        endings.release(world, waiting.id, actor="ann")
    assert entries(world, waiting.id) == []


def test_a_worker_too_late_to_release_has_lost_its_lease(world: World) -> None:
    job = a_running_job(world)
    endings.ack(world, job.id, job.token)

    with pytest.raises(LeaseLost):
        endings.release(world, job.id, job.token)


# -- renew, progress, checkpoint, once -----------------------------------------------------------


def test_renew_extends_from_now(world: World, clock: VirtualClock) -> None:
    job = a_running_job(world)
    clock.advance(20 * SECOND)

    held = claims.renew(world, [Lease(job.number, job.token)]).held

    assert held == {job.number}
    assert jobs.get(world, job.id).leased_until == NOON + 50 * SECOND


@pytest.mark.parametrize("verb", [claims.progress, claims.checkpoint])
def test_notes_are_fenced(world: World, verb: Callable[[World, Lease, Any], None]) -> None:
    job = a_running_job(world)
    verb(world, Lease(job.number, job.token), {"done": 1})

    with pytest.raises(LeaseLost):
        verb(world, Lease(job.number, job.token + 1), {"done": 2})
    found = jobs.get(world, job.id)
    assert {"done": 1} in (found.progress, found.checkpoint)


@pytest.mark.parametrize("verb", [claims.progress, claims.checkpoint])
def test_notes_must_be_json(world: World, verb: Callable[[World, Lease, Any], None]) -> None:
    job = a_running_job(world)

    with pytest.raises(InvalidPayload):
        verb(world, Lease(job.number, job.token), object())


def test_once_runs_a_step_once_also_after_a_lost_lease(world: World, clock: VirtualClock) -> None:
    """C-35."""
    calls: list[str] = []
    first = a_running_job(world)

    def charge(_connection: Any) -> str:
        calls.append("charged")
        return "receipt"

    one = claims.once(world, Lease(first.number, first.token), "charge", charge)
    clock.advance(31 * SECOND)
    endings.lose_expired(world)
    [again] = claims.pull(world, worker_id="w2")
    two = claims.once(world, Lease(again.number, again.token), "charge", charge)

    assert (one, two, calls) == ("receipt", "receipt", ["charged"])


def test_a_step_that_fails_is_not_remembered(world: World) -> None:
    job = a_running_job(world)
    lease = Lease(job.number, job.token)

    with pytest.raises(ZeroDivisionError):
        claims.once(world, lease, "divide", lambda _: 1 // 0)

    assert claims.once(world, lease, "divide", lambda _: 42) == 42


def test_a_zombie_cannot_do_a_step(world: World, clock: VirtualClock) -> None:
    job = a_running_job(world)
    clock.advance(31 * SECOND)
    endings.lose_expired(world)

    with pytest.raises(LeaseLost):
        claims.once(world, Lease(job.number, job.token), "charge", lambda _: 1)


# -- lose_expired -----------------------------------------------------------


def test_a_lost_job_waits_again_and_wakes_the_sleepers(world: World, clock: VirtualClock) -> None:
    job = a_running_job(world)
    clock.advance(31 * SECOND)

    assert woken(world, lambda: endings.lose_expired(world)) == {"default"}
    assert jobs.get(world, job.id).state == "queued"


def test_losing_tells_which_jobs_are_dead_now(world: World, clock: VirtualClock) -> None:
    a_running_job(world, retry=Retry.none())
    response = []
    for _ in range(3):
        clock.advance(31 * SECOND)
        response += [dead for _, dead in endings.lose_expired(world)]
        claims.pull(world, worker_id="w1")

    assert response == [False, False, True]


def test_a_cancelled_job_whose_worker_dies_does_not_run_again(world: World, clock: VirtualClock) -> None:
    job = a_running_job(world)
    jobs.cancel(world, job.id, reason="enough")
    clock.advance(31 * SECOND)

    endings.lose_expired(world)

    assert jobs.get(world, job.id).state == "cancelled"


# -- cancel, revive, reschedule: effect, refusal, entry -----------------------------------------------------------


def test_cancel_ends_a_waiting_job_at_once(world: World) -> None:
    job = jobs.enqueue(world, a_request()).job

    gone = jobs.cancel(world, job.id, actor="ann", reason="enough")

    assert (gone.state, gone.cancel_reason) == ("cancelled", "enough")
    assert [(e.verb, e.actor, e.reason) for e in entries(world, job.id)] == [("cancel", "ann", "enough")]


def test_cancel_asks_a_running_job_to_stop(world: World) -> None:
    job = a_running_job(world)

    asked = jobs.cancel(world, job.id, reason="enough")

    assert (asked.state, asked.cancel_requested) == ("running", True)
    assert claims.renew(world, [Lease(job.number, job.token)]).cancelled == {job.number}


def test_revive_gives_a_dead_job_all_its_attempts_again(world: World, clock: VirtualClock) -> None:
    job = a_dead_job(world)
    clock.advance(60 * SECOND)

    again = jobs.revive(world, job.id, actor="ann")

    assert (again.state, again.attempt, again.run_at) == ("queued", 0, NOON + MINUTE)
    assert [e.verb for e in entries(world, job.id)] == ["revive", "dead"]


def test_revive_is_refused_while_another_has_the_unique_name(world: World) -> None:
    job = a_dead_job(world, unique="u")
    jobs.enqueue(world, a_request(unique="u"))

    with refused(Conflict, "unique_name_taken", unique="u"):
        jobs.revive(world, job.id)
    assert [e.verb for e in entries(world, job.id)] == ["dead"]


def test_reschedule_moves_a_waiting_job(world: World) -> None:
    job = jobs.enqueue(world, a_request(key="k")).job

    moved = jobs.reschedule(world, job.id, run_at=NOON + MINUTE, priority="high", actor="ann")

    assert (moved.run_at, moved.priority, moved.planned_at, moved.key) == (NOON + MINUTE, "high", NOON, "k")
    [entry] = entries(world, job.id)
    assert (entry.verb, entry.after) == ("reschedule", {"run_at": "2030-01-07T12:01:00Z", "priority": "high"})


def test_a_rescheduled_job_does_not_run_before_its_new_time(world: World, clock: VirtualClock) -> None:
    job = jobs.enqueue(world, a_request()).job
    jobs.reschedule(world, job.id, run_at=NOON + MINUTE)

    early = claims.pull(world, worker_id="w")
    clock.advance(60 * SECOND)

    assert (early, len(claims.pull(world, worker_id="w"))) == ([], 1)


def test_a_naive_time_is_refused(world: World) -> None:
    job = jobs.enqueue(world, a_request()).job

    with pytest.raises(InvalidInput):
        jobs.reschedule(world, job.id, run_at=datetime(2030, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (jobs.cancel, "succeeded"), (jobs.cancel, "dead"), (jobs.cancel, "cancelled"),
        (jobs.revive, "queued"), (jobs.revive, "running"), (jobs.revive, "succeeded"), (jobs.revive, "cancelled"),
        (jobs.reschedule, "running"), (jobs.reschedule, "dead"), (jobs.reschedule, "succeeded"),
    ],
)  # fmt: skip
def test_what_the_machine_does_not_draw_is_refused_without_an_entry(
    world: World, verb: Callable[..., Job], state: str
) -> None:
    job = jobs.enqueue(world, a_request(retry=Retry.none())).job
    if state != "queued":
        [job] = claims.pull(world, worker_id="w")
    if state in ("succeeded", "cancelled"):
        endings.settle(world, [(job, Outcome(state))])  # type: ignore[arg-type]
    if state == "dead":
        endings.fail(world, job.id, job.token, "no")
    before = entries(world, job.id)

    with pytest.raises(NotAllowed):
        verb(world, job.id)
    assert entries(world, job.id) == before


@pytest.mark.parametrize("verb", [jobs.cancel, jobs.revive, jobs.reschedule, jobs.get, jobs.runs])
@pytest.mark.parametrize("job_id", ["job_99", "nonsense", ""])
def test_what_is_not_there_is_not_found(world: World, verb: Callable[..., object], job_id: str) -> None:
    with pytest.raises(NotFound):
        verb(world, job_id)


@pytest.mark.parametrize("verb", [jobs.cancel, jobs.reschedule, jobs.get, jobs.runs])
def test_somebody_elses_job_does_not_exist(world: World, verb: Callable[..., object]) -> None:
    """I10."""
    job = jobs.enqueue(world, a_request(owner="ann")).job

    with pytest.raises(NotFound):
        verb(world, job.id, owner="bob")
    assert jobs.get(world, job.id, owner="ann").state == "queued"


@pytest.mark.parametrize("verb", [jobs.cancel, jobs.reschedule])
def test_a_reason_may_be_any_text(world: World, verb: Callable[..., Job]) -> None:
    job = jobs.enqueue(world, a_request()).job

    verb(world, job.id, reason="nul \0, surrogate \ud800, " + "x" * 100_000)

    [entry] = entries(world, job.id)
    assert entry.reason is not None
    assert len(entry.reason) <= 20_000


def test_each_does_one_verb_to_many_and_one_refusal_stops_nobody(world: World) -> None:
    first, second = (jobs.enqueue(world, a_request()).job for _ in range(2))

    response = jobs.each(world, jobs.cancel, [first.id, "job_99", second.id])

    assert [response[first.id], response[second.id]] == ["ok", "ok"]
    assert "no job job_99" in response["job_99"]


# -- reading -----------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_page_has_a_sensible_size(world: World, limit: int) -> None:
    with pytest.raises(InvalidInput):
        jobs.find(world, limit=limit)


def test_an_unknown_state_is_refused(world: World) -> None:
    with refused(InvalidInput, "choice_unknown", name="state"):
        jobs.find(world, Filter(states=("waiting",)))


def test_the_next_page_begins_after_the_last_id(world: World) -> None:
    given = [answer.id for answer in jobs.enqueue_many(world, [a_request() for _ in range(5)])]

    page = jobs.find(world, limit=2)
    rest = jobs.find(world, before=page[-1].id)

    assert [job.id for job in page + rest] == given[::-1]


def test_counts_name_every_state(world: World) -> None:
    a_running_job(world)

    assert jobs.counts(world)["default"] == {
        "queued": 0, "running": 1, "succeeded": 0, "dead": 0, "cancelled": 0,
    }  # fmt: skip


def test_metrics_of_an_empty_store_are_calm(world: World) -> None:
    assert jobs.metrics(world) == {
        "jobs_due_count": 0,
        "jobs_lag_seconds": 0.0,
        "job_success_rate": 1.0,
        "job_retry_rate": 0.0,
        "dead_letter_count": 0,
    }


def test_metrics_follow_the_formulas_of_document_000(world: World, clock: VirtualClock) -> None:
    """S0-29 to S0-33: three succeeded (one after a retry), one dead, one cancelled, one due for nine seconds."""
    jobs.enqueue_many(world, [a_request(retry=Retry.fixed(0, attempts=2)) for _ in range(4)])
    retried, *others = claims.pull(world, worker_id="w")
    endings.fail(world, retried.id, retried.token, "no")
    [retried] = claims.pull(world, worker_id="w")
    endings.settle(world, [(job, Outcome("succeeded")) for job in (retried, *others[:2])])
    endings.fail(world, others[2].id, others[2].token, "no", final=True)
    jobs.cancel(world, jobs.enqueue(world, a_request()).id)
    jobs.enqueue(world, a_request())
    clock.advance(9 * SECOND)

    response = jobs.metrics(world)

    assert (response["jobs_due_count"], response["jobs_lag_seconds"], response["dead_letter_count"]) == (1, 9.0, 1)
    assert response["job_success_rate"] == 3 / 4
    assert response["job_retry_rate"] == 2 / 6
