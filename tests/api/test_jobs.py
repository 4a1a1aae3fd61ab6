"""Every operation of the jobs room, through all four senders: equal values, equal errors."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from horae import Retry
from horae.actions.jobs.held_jobs import ASK_AGAIN, Ending, Hold
from horae.actions.jobs.requests import Request
from horae.api.jobs import room
from horae.api.jobs.held import Heartbeat, Upcoming
from horae.api.jobs.logs import AttemptLog
from horae.api.jobs.room import Enqueued, Job, JobCounts, Run
from horae.core.cursors import MAX_PAGE
from horae.core.jobs import job as core
from horae.core.jobs.lines import LogLine
from horae.core.jobs.steps import StepResult
from horae.errors import (
    InvalidFilter,
    InvalidInput,
    InvalidName,
    KeyConflict,
    LeaseLost,
    NotAllowed,
    NotFound,
    ReservedQueue,
)
from tests.api.conftest import Sent
from tests.support.refusals import refused

LATER = datetime(2040, 1, 7, 6, tzinfo=UTC)
queues = (f"q{number}" for number in count())


@pytest.fixture
def queue() -> str:
    """A queue of this test alone."""
    return next(queues)


def test_a_job_is_stored_as_it_was_asked_for(rooms: Sent, queue: str) -> None:
    made = rooms.house.jobs.enqueue(
        "resize", {"image": 7}, queue=queue, priority="high", run_at=LATER, key=f"resize:{queue}", tags=["thumb"],
        retry=Retry.exponential(2, attempts=4), timeout=90, concurrency_key="disk", trace_id="a" * 32,
    )  # fmt: skip

    job = rooms.house.jobs.get(made.id)

    assert made == Enqueued(made.id, "queued", LATER)
    assert isinstance(job, Job)
    assert (job.id, job.state, job.payload, job.queue, job.priority) == (made.id, "queued", {"image": 7}, queue, "high")
    assert (job.run_at, job.planned_at, job.key, job.tags) == (LATER, LATER, f"resize:{queue}", ("thumb",))
    assert (job.retry, job.timeout) == (Retry.exponential(2, attempts=4), timedelta(seconds=90))
    assert (job.concurrency_key, job.trace_id, job.owner) == ("disk", "a" * 32, "system")
    assert [each.id for each in rooms.house.jobs.list(queue=queue)] == [made.id]


def test_the_same_key_is_the_same_job_and_another_request_is_refused(rooms: Sent, queue: str) -> None:
    first = rooms.house.jobs.enqueue("a", {"n": 1}, queue=queue, key=f"k:{queue}")
    again = rooms.house.jobs.enqueue("a", {"n": 1}, queue=queue, key=f"k:{queue}")
    with pytest.raises(KeyConflict) as refused:
        rooms.house.jobs.enqueue("a", {"n": 2}, queue=queue, key=f"k:{queue}")

    assert (again.id, first.deduplicated, again.deduplicated) == (first.id, False, True)
    assert (refused.value.key, refused.value.job_id) == (f"k:{queue}", first.id)


def test_many_jobs_are_stored_together_or_not_at_all(rooms: Sent, queue: str) -> None:
    asked = [Request("a", {"n": n}, queue=queue, delay=timedelta(hours=1)) for n in (1, 2)]
    made = rooms.house.jobs.enqueue_many(asked)
    with pytest.raises(InvalidInput):
        rooms.house.jobs.enqueue_many([Request("a", queue=queue), Request("a", queue=queue, tags=("x" * 300,))])
    with pytest.raises(InvalidInput):
        rooms.house.jobs.enqueue_many([])

    assert [each.id for each in rooms.house.jobs.list(queue=queue)] == [each.id for each in reversed(made)]


def test_pages_go_on_where_the_one_before_ended(rooms: Sent, queue: str) -> None:
    made = [rooms.house.jobs.enqueue("a", queue=queue).id for _ in range(5)]

    first = rooms.house.jobs.list(queue=queue).page(limit=2)
    second = rooms.house.jobs.list(queue=queue).page(first.next_cursor, limit=2)

    assert [each.id for each in (*first.items, *second.items)] == made[:0:-1]
    assert [each.id for each in rooms.house.jobs.list(queue=queue, limit=3)] == made[:1:-1]
    with pytest.raises(InvalidInput):
        rooms.house.jobs.list(queue=queue).page("nonsense")


@pytest.mark.parametrize("size", [0, -1, MAX_PAGE + 1])
def test_a_page_of_a_size_out_of_range_is_refused(rooms: Sent, queue: str, size: int) -> None:
    with refused(InvalidInput, "out_of_range", name="limit", value=size, least=1, most=MAX_PAGE):
        rooms.house.jobs.list(queue=queue).page(limit=size)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_list_of_no_rows_is_refused_as_one_page_and_as_all(rooms: Sent, queue: str, limit: int) -> None:
    rooms.house.jobs.enqueue("a", queue=queue)

    with refused(InvalidInput, "out_of_range", name="limit", value=limit):
        rooms.house.jobs.list(queue=queue, limit=limit).page()
    with refused(InvalidInput, "out_of_range", name="limit", value=limit):
        list(rooms.house.jobs.list(queue=queue, limit=limit))


def test_a_job_goes_from_its_claim_to_its_result(rooms: Sent, queue: str) -> None:
    made = rooms.alice.jobs.enqueue("resize", {"image": 7}, queue=queue)
    (job,) = rooms.alice.jobs.claim("w1", queues=[queue], lease=60)
    assert (job.id, job.state, job.worker_id, job.owner) == (made.id, "running", "w1", "alice")

    (renewal,) = rooms.alice.jobs.renew([Hold(job.id, job.token)], lease=90)
    noted = rooms.alice.jobs.progress(job.id, job.token, {"done": 1}, checkpoint={"at": 1})
    done = rooms.alice.jobs.ack(job.id, job.token, result={"bytes": 9}, next_action_at=LATER, audit_event_id="aud_1")

    assert (renewal.held, renewal.cancel_requested) == (True, False)
    assert (noted.progress, noted.checkpoint) == ({"done": 1}, {"at": 1})
    assert (done.state, done.result) == ("succeeded", {"bytes": 9})
    (run,) = rooms.alice.jobs.runs(job.id)
    assert isinstance(run, Run)
    assert (run.id, run.job_id, run.outcome, run.result) == (job.run_id, job.id, "succeeded", {"bytes": 9})
    assert (run.next_action_at, run.audit_event_id) == (LATER, "aud_1")
    assert [reason.code for reason in rooms.alice.jobs.why(job.id)] == ["succeeded"]
    with pytest.raises(LeaseLost) as late:
        rooms.alice.jobs.ack(job.id, job.token)
    assert (late.value.job_id, late.value.token) == (job.id, job.token)


def test_endings_are_answered_one_by_one(rooms: Sent, queue: str) -> None:
    for _ in range(3):
        rooms.house.jobs.enqueue("a", queue=queue, retry=Retry.none())
    first, second, third = sorted(rooms.house.jobs.claim("w", queues=[queue]), key=lambda job: job.run_id)

    settled = rooms.house.jobs.settle(
        [
            Ending(first.id, first.token, "succeeded", result=1),
            Ending(second.id, second.token + 1, "succeeded"),
            Ending(third.id, third.token, "failed", error="no"),
            Ending("job_999999999", 1, "succeeded"),
            Ending("no id", 1, "succeeded"),
        ]
    )

    assert [(each.accepted, each.state) for each in settled] == [
        (True, "succeeded"), (False, None), (True, "dead"), (False, None), (False, None),
    ]  # fmt: skip
    assert rooms.house.jobs.get(second.id).state == "running"
    (lost,) = rooms.house.jobs.renew([Hold(first.id, first.token)])
    assert lost.held is False


def test_a_failed_attempt_is_tried_again_or_dead(rooms: Sent, queue: str) -> None:
    rooms.house.jobs.enqueue("a", queue=queue, retry=Retry.fixed(300, attempts=2))
    (job,) = rooms.house.jobs.claim("w", queues=[queue])
    back = rooms.house.jobs.fail(job.id, job.token, "timeout", retry_delay=0)
    assert (back.state, back.attempt, back.last_error) == ("queued", 1, "timeout")

    (again,) = rooms.house.jobs.claim("w", queues=[queue])
    released = rooms.house.jobs.release(again.id, again.token, reason="not now")
    assert (released.state, released.attempt) == ("queued", 1)

    (last,) = rooms.house.jobs.claim("w", queues=[queue])
    dead = rooms.house.jobs.fail(last.id, last.token, "no", final=True)
    assert dead.state == "dead"

    assert rooms.house.jobs.revive(dead.id, reason="mended").state == "queued"


def test_a_waiting_job_is_moved_and_cancelled(rooms: Sent, queue: str) -> None:
    made = rooms.house.jobs.enqueue("a", queue=queue)
    moved = rooms.house.jobs.reschedule(made.id, run_at=LATER, priority="low", reason="later")
    assert (moved.run_at, moved.priority) == (LATER, "low")
    assert "scheduled" in [reason.code for reason in rooms.house.jobs.why(made.id)]

    ended = rooms.house.jobs.cancel(made.id, reason="not needed")

    assert (ended.state, ended.cancel_reason) == ("cancelled", "not needed")
    with pytest.raises(NotAllowed):
        rooms.house.jobs.reschedule(made.id, run_at=LATER)


def test_an_ended_job_is_run_again_as_a_new_one(rooms: Sent, queue: str) -> None:
    made = rooms.house.jobs.enqueue("a", {"n": 1}, queue=queue, tags=["x"], retry=Retry.none(), priority="high")
    with pytest.raises(NotAllowed):
        rooms.house.jobs.rerun(made.id)
    (job,) = rooms.house.jobs.claim("w", queues=[queue])
    rooms.house.jobs.fail(job.id, job.token, "no")

    same, other = rooms.house.jobs.rerun(made.id), rooms.house.jobs.rerun(made.id, payload={"n": 2}, reason="mended")

    first, second = rooms.house.jobs.get(same.id), rooms.house.jobs.get(other.id)
    assert (first.payload, second.payload) == ({"n": 1}, {"n": 2})
    assert (first.rerun_of, first.queue, first.tags, first.priority) == (made.id, queue, ("x",), "high")
    assert rooms.house.jobs.get(made.id).state == "dead"
    rooms.house.jobs.cancel(other.id)
    assert rooms.house.jobs.get(other.id).rerun_of == made.id
    with pytest.raises(NotFound):
        rooms.alice.jobs.rerun(made.id)


def test_nobody_reaches_somebody_elses_job(rooms: Sent, queue: str) -> None:
    theirs = rooms.house.jobs.enqueue("a", queue=queue)
    for act in (rooms.alice.jobs.get, rooms.alice.jobs.runs, rooms.alice.jobs.why, rooms.alice.jobs.cancel):
        with pytest.raises(NotFound):
            act(theirs.id)
    with pytest.raises(NotFound):
        rooms.alice.jobs.enqueue("a", queue=queue, after=[theirs.id])
    assert list(rooms.alice.jobs.list(queue=queue)) == []
    assert rooms.alice.jobs.claim("w", queues=[queue]) == ()


@pytest.mark.parametrize(
    ("wrong", "kind", "reason", "facts"),
    [({"handler": "no spaces"}, InvalidName, "name_unreadable", {"what": "handler", "value": "'no spaces'"}),
     ({"handler": "a", "queue": ""}, InvalidName, "name_unreadable", {"what": "queue", "value": "''"}),
     ({"handler": "a", "timeout": 0}, InvalidInput, "no_time_left", {"name": "timeout", "value": 0.0}),
     ({"handler": "a", "delay": -1}, InvalidInput, "delay_negative", {"delay": -1.0}),
     ({"handler": "a", "concurrency_limit": 0}, InvalidInput, "out_of_range", {"name": "concurrency_limit"})],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_alike(
    rooms: Sent, wrong: dict[str, object], kind: type[InvalidInput], reason: str, facts: dict[str, object]
) -> None:
    with refused(kind, reason, **facts) as caught:
        rooms.house.jobs.enqueue(**wrong)
    assert type(caught.value) is kind


def test_horaes_own_queue_is_refused(rooms: Sent) -> None:
    with refused(ReservedQueue, "queue_reserved", queue="horae"):
        rooms.house.jobs.enqueue("a", queue="horae")


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("public", "stored", "hidden"),
    [(room.Job, core.Job, room.HIDDEN), (room.Run, core.Run, room.HIDDEN_RUN)],
    ids=["job", "run"],
)
def test_every_stored_field_is_public_or_hidden(public: Any, stored: type, hidden: set[str]) -> None:
    names, shown = ({each.name for each in fields(kind)} for kind in (stored, public))
    assert names - shown == hidden
    assert all(hasattr(stored, name) or name in public.DERIVED for name in shown)


def test_a_worker_sees_what_is_due_next_and_whom_to_stop_and_a_tenant_only_its_own(rooms: Sent, queue: str) -> None:
    rooms.house.jobs.enqueue("a", queue=queue)
    (job,) = rooms.house.jobs.claim("w-peek", queues=[queue])
    rooms.house.jobs.enqueue("a", queue=queue, delay=3600)
    rooms.house.jobs.cancel(job.id)

    ours = rooms.house.jobs.peek([queue], worker_id="w-peek")
    hers = rooms.alice.jobs.peek([queue], worker_id="w-peek")

    assert ours.cancelled == (job.id,)
    assert ours.due_in is not None
    assert timedelta(minutes=50) < ours.due_in <= timedelta(hours=1)
    assert hers == Upcoming(due_in=ASK_AGAIN)
    rooms.house.jobs.release(job.id, job.token)


def test_a_worker_over_http_is_listed_until_it_leaves_and_a_tenants_never(rooms: Sent, queue: str) -> None:
    beat = Heartbeat(id=f"w:{queue}", host="h", pid=7, version="1", started_at=LATER, queues={queue: 2})

    rooms.alice.jobs.peek([], worker=beat)
    before = [each.id for each in rooms.house.workers.list()]
    rooms.house.jobs.peek([queue], worker=beat)
    (listed,) = [each for each in rooms.house.workers.list() if each.id == beat.id]
    rooms.house.jobs.peek([], worker=replace(beat, state="ended"))
    with pytest.raises(InvalidInput):
        rooms.house.jobs.peek([], worker=replace(beat, pid=-1))

    assert beat.id not in before
    assert (listed.host, listed.pid, listed.queues) == ("h", 7, {queue: 2})
    assert beat.id not in [each.id for each in rooms.house.workers.list()]


def test_a_filter_in_words_narrows_the_list(rooms: Sent, queue: str) -> None:
    red, blue = (rooms.house.jobs.enqueue("paint", queue=queue, run_at=LATER, tags=[tag]).id for tag in ("red", "blue"))

    def ids(where: str, **more: str) -> list[str]:
        return [job.id for job in rooms.house.jobs.list(where=where, **more)]

    assert ids(f"queue:{queue}") == [blue, red]
    assert ids(f"queue:{queue} tag:red") == [red]
    assert ids("-tag:red", queue=queue) == [blue]
    assert ids(f"queue:{queue} due:<2040-01-07") == []
    assert ids(f"queue:{queue} due:2040-01-07 state:queued,dead handler:pai*") == [blue, red]


def test_a_mistake_in_a_filter_is_refused_with_its_position(rooms: Sent) -> None:
    with refused(InvalidFilter, "filter_field_unknown", field="quue", position=9, expression="tag:red quue:a"):
        list(rooms.house.jobs.list(where="tag:red quue:a"))


def test_a_filter_does_not_reach_into_another_tenant(rooms: Sent, queue: str) -> None:
    rooms.house.jobs.enqueue("a", queue=queue, run_at=LATER)
    assert list(rooms.alice.jobs.list(where=f"queue:{queue}")) == []
    assert list(rooms.alice.jobs.list(where="owner:sys*")) == []
    with pytest.raises(NotFound):
        list(rooms.alice.jobs.list(where="owner:system"))


def test_jobs_are_counted_by_state_queue_and_handler(rooms: Sent, queue: str) -> None:
    for handler in ("a", "a", "b"):
        rooms.house.jobs.enqueue(handler, queue=queue)

    counted = rooms.house.jobs.counts(where=f"queue:{queue}")

    assert isinstance(counted, JobCounts)
    assert [(each.state, each.queue, each.handler, each.count) for each in counted.groups] == [
        ("queued", queue, "a", 2), ("queued", queue, "b", 1),
    ]  # fmt: skip
    assert rooms.alice.jobs.counts(where=f"queue:{queue}").groups == ()
    with refused(InvalidFilter, "filter_field_unknown", field="quue"):
        rooms.house.jobs.counts(where="quue:a")


def test_what_an_attempt_has_logged_is_read_by_those_who_see_the_job(rooms: Sent, queue: str) -> None:
    rooms.house.jobs.enqueue("a", queue=queue)
    (job,) = rooms.house.jobs.claim("w", queues=[queue])
    line = LogLine(LATER, "INFO", "resized")
    rooms.house.jobs.settle([Ending(job.id, job.token, "succeeded", lines=(line,), lines_dropped=2)])

    (log,) = rooms.house.jobs.logs(job.id)

    assert log == AttemptLog(run_id=job.run_id, attempt=log.attempt, lines=log.lines, dropped=2)
    assert [(each.at, each.level, each.text) for each in log.lines] == [(LATER, "INFO", "resized")]
    with refused(NotFound, "job_unknown", id=job.id):
        rooms.alice.jobs.logs(job.id)


def test_the_result_of_a_step_is_kept_once_and_recalled(rooms: Sent, queue: str) -> None:
    rooms.alice.jobs.enqueue("a", queue=queue)
    (job,) = rooms.alice.jobs.claim("w", queues=[queue])

    before = rooms.alice.jobs.recall_step(job.id, job.token, "charge")
    kept = rooms.alice.jobs.keep_step(job.id, job.token, "charge", {"paid": 7})
    again = rooms.alice.jobs.keep_step(job.id, job.token, "charge", {"paid": 8})

    assert before == StepResult(kept=False)
    assert kept == again == rooms.alice.jobs.recall_step(job.id, job.token, "charge")
    assert kept == StepResult(kept=True, value={"paid": 7})
    with refused(LeaseLost, "lease_lost_after_step", job_id=job.id, token=job.token + 1, step="charge"):
        rooms.alice.jobs.keep_step(job.id, job.token + 1, "charge", 1)
