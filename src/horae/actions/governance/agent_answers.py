"""Verifiers that must think: an agent gets a task, its answer ends the object's job, and silence decides nothing.

The job waits in its queue until the time for the answer is over; its checkpoint names the task. The task is put into
the lane by a job of Horae's own, because a lane is locked before objects and never after them. Where the task ends,
in whatever way, the object's job ends in the same transaction. Whatever else moves the job forgets the question: its
answer comes too late then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from horae.actions.attention import endings, inbox
from horae.actions.attention.lanes import LaneWriter
from horae.actions.governance import queries
from horae.actions.governance.admission import name_of
from horae.actions.governance.quarantine import lock_with_dependents
from horae.actions.governance.questions import question_of
from horae.actions.jobs.rules import settle_within
from horae.core.attention.lanes import Task
from horae.core.cluster.numbers import read_number
from horae.core.governance.answers import answer_from
from horae.core.governance.verdicts import MAX_NOTE, Finding
from horae.core.jobs.job import Job, Outcome, settlement
from horae.core.jobs.machinery import THINKING
from horae.core.jobs.payloads import decode, encode
from horae.core.time.instants import from_iso
from horae.errors import Conflict, InvalidInput, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

ACTOR = "system/governance"
LEASE = timedelta(seconds=30)
MOST_EVIDENCE = 100  # pieces of evidence that a task gets


# -- what the jobs of Horae's own do -----------------------------------------------------------------------------------


def come_due(world: World, payload: Mapping[str, Any]) -> None:
    """Put a question into the lane of an agent, or take it back; both may come twice."""
    owner = str(payload["owner"])
    if "withdraw" in payload:
        _withdraw(world, owner, payload["withdraw"])
    else:
        _put_question(world, owner, int(payload["job"]), payload["question"])


def _put_question(world: World, owner: str, number: int, question: Mapping[str, Any]) -> None:
    job = world.route(owner=owner).store.read(lambda tx: tx.jobs.get(number))
    if job is None or job.state != "queued" or question_of(job) != question:
        return
    try:
        facts = _facts_of(world, job)
        extra = {} if question.get("payload") is None else {"payload": question["payload"]}
        inbox.add(
            world, question["lane"], question["kind"], facts | extra, priority=question["priority"],
            key=question["key"], expires_at=from_iso(question["until"]), owner=owner, actor=ACTOR,
        )  # fmt: skip
    except (Conflict, NotFound):  # asked already, about less; or the object is gone
        return


def _facts_of(world: World, job: Job) -> dict[str, Any]:
    """Return an object as the task of an agent gets it."""
    view, pieces = queries.to_verify(world, job.object_id or "", owner=job.owner, kind=job.object_type or "")
    it = view.object
    evidence = [
        {"reference": each.reference, "kind": each.kind, "source": each.source} for each in pieces[-MOST_EVIDENCE:]
    ]
    about = {
        "kind": it.kind, "id": it.id, "subject": it.subject, "status": it.status, "risk": it.risk,
        "content": view.content, "rests_on": list(view.rests_on), "evidence": evidence,
    }  # fmt: skip
    return {"object": about, "action": job.action}


def _withdraw(world: World, owner: str, question: Mapping[str, Any]) -> None:
    def read(tx: Tx) -> Task | None:
        lane = tx.attention.lane(str(question["lane"]), owner)
        return None if lane is None else tx.attention.task_by_key(lane.number, str(question["key"]))

    task = world.route(owner=owner).store.read(read)
    if task is not None:
        endings.cancel(world, str(question["lane"]), task.id, reason="no answer in time", owner=owner, actor=ACTOR)


# -- the answer --------------------------------------------------------------------------------------------------------


def take_answer(writer: LaneWriter, task: Task) -> None:
    """End the job of an object with the task in which an agent thought about it, in the same transaction."""
    tx, number = writer.tx, _job_number(task)
    job = None if number is None else tx.jobs.get(number)
    if job is None or job.owner != writer.lane.owner or job.object_type is None:
        return
    found = tx.objects.kinds_by_number([name_of(job)])
    locked = lock_with_dependents(tx, found).objects  # all that the ending may lock, before the job is
    it = next((locked[number] for number in found), None)
    waiting = tx.jobs.lock(job.number)
    if it is None or waiting is None or it.job != job.number or waiting.state != "queued":
        return
    question = question_of(waiting)
    if question is None or (question["key"], question["lane"]) != (task.key, writer.lane.name):
        return  # the object has changed since, or the time is over
    verifier = f"lane/{writer.lane.name}"
    taken = tx.jobs.take(waiting, worker_id=verifier, until=writer.world.clock.steady() + LEASE, now=writer.now)
    if taken is None:
        return
    tx.jobs.keep_checkpoint(taken, None)
    tx.objects.save([(it, replace(it, admitted_version=it.version))])
    done = settlement(
        replace(taken, checkpoint=None), _outcome(task, verifier), now=writer.now, roll=writer.world.dice.roll()
    )
    settle_within(writer.world, tx, [(replace(taken, checkpoint=None), done)], writer.now)
    tx.wake([job.queue])


def _job_number(task: Task) -> int | None:
    name = (task.key or "").removeprefix(THINKING).removeprefix("job_").partition(".")[0]
    return read_number(name)


def _outcome(task: Task, verifier: str) -> Outcome:
    """Return how a job ends by the end of its task: an answer, a failure, or, where it was cancelled, silence."""
    if task.state == "failed":
        return Outcome("failed", error=f"{verifier}: {task.reason or 'its task failed'}")
    if task.state == "cancelled":
        note = f"the task {task.id} was cancelled: {task.reason or 'without a reason'}"[:MAX_NOTE]
        return Outcome("succeeded", result=encode({"verdict": "inconclusive", "note": note, "verifier": verifier}))
    given: Any = None if task.result is None else decode(task.result)
    try:
        if not isinstance(answer_from(given), Finding):
            raise InvalidInput("verdict_unreadable", fields=["verdict"])
    except InvalidInput as problem:
        return Outcome("failed", error=f"{verifier}: {problem}")
    return Outcome("succeeded", result=encode({**given, "verifier": verifier}))
