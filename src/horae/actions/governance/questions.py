"""Questions to agents about objects: asked where a verifier must think, answered by a task, or by silence."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from horae.core.governance.answers import ATTEND, Attend
from horae.core.governance.objects import GovernedObject
from horae.core.governance.verdicts import Finding
from horae.core.jobs.job import Job, NewJob
from horae.core.jobs.machinery import ASK, MACHINERY, THINKING
from horae.core.jobs.payloads import encode
from horae.core.time.instants import iso
from horae.ports.store import Tx

SHORTEST = timedelta(seconds=1)


def question_of(job: Job) -> Mapping[str, Any] | None:
    """Return what an agent was asked about the object of a job, if it was."""
    found = job.checkpoint.get(ATTEND) if isinstance(job.checkpoint, Mapping) else None
    return found if isinstance(found, Mapping) and "lane" in found and "key" in found else None


def ask_agent(tx: Tx, job: Job, it: GovernedObject, attend: Attend, now: datetime) -> datetime:
    """Let an agent think about an object whose job is about to go back; return until when its answer counts.

    That is never beyond the end of uncertainty or of the object's life: time goes on while an agent thinks.
    """
    ends = [end for end in (it.uncertain_until, it.expires_at) if end is not None and end > now]
    until = max(min([now + attend.limit, *ends]), now + SHORTEST)
    question = {"key": f"{THINKING}{job.run_id}", "until": iso(until), **attend.as_json()[ATTEND]}
    tx.jobs.keep_checkpoint(job, encode({ATTEND: question}))
    _plan(tx, job, now, question=question)
    return until


def silence(tx: Tx, job: Job, now: datetime) -> Finding | None:
    """Return what it means that the job of an object is due again while an agent was asked: it has not answered."""
    question = question_of(job)
    if question is None:
        return None
    _plan(tx, job, now, withdraw=question)
    lane = str(question["lane"])
    return Finding("inconclusive", note=f"{lane} did not answer in time", verifier=f"lane/{lane}")


def _plan(tx: Tx, job: Job, now: datetime, **what: Any) -> None:
    payload = encode({"owner": job.owner, "job": job.number, **what})
    tx.jobs.insert([NewJob(ASK, payload, MACHINERY, 0, now, now, owner=job.owner)], now)
    tx.wake([MACHINERY])
