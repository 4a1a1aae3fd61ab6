"""Serve the jobs of Horae's own that are due.

What a kind of job needs is imported with the first of its kind: a worker without agents loads nothing of theirs.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from horae.actions.jobs.endings import lose, settle
from horae.actions.jobs.jobs import truncate
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.machinery import (
    ACT,
    ASK,
    EXPECT,
    GATE,
    LET_IN,
    MACHINERY,
    PAUSE,
    QUIET,
    REVIEW,
    ROLLBACK,
    SERVED_AT_ONCE,
)
from horae.errors import HoraeError, StaleMap, StoreBusy, StoreError
from horae.ports.claims import Claim
from horae.ports.world import World

log = logging.getLogger("horae.machinery")
LEASE = timedelta(seconds=10)
LEFT_BATCH = 1000
BATCHES = (ACT, ROLLBACK)  # each does a bounded step, and comes again until nothing is left


def serve_due(world: World, name: str, *, hand_on: bool = True) -> int:
    """Handle a few jobs of Horae's own that are due, and return how many; any process may do it.

    *hand_on* first takes back what a dead process had claimed; workers have a reaper for that.
    """
    if hand_on:
        left = world.route().store.find_expired(now=world.clock.steady(), limit=LEFT_BATCH)
        lose(world, [job for job in left if job.queue == MACHINERY])
    claim = Claim(MACHINERY, SERVED_AT_ONCE, name, LEASE, steady=world.clock.steady())
    taken = world.route().store.claim(claim, now=world.clock.now())
    batches = [job for job in taken if job.handler in BATCHES]
    others = [job for job in taken if job.handler not in BATCHES]
    if others:
        settle(world, [(job, outcome_of_due(world, job)) for job in others])
    for job in batches:  # each takes longer than a timeout, which therefore does not wait for them
        settle(world, [(job, outcome_of_due(world, job))])
    return len(taken)


def outcome_of_due(world: World, job: Job) -> Outcome:
    """Run one of Horae's own jobs; an error ends this job's attempt and does not stop the others."""
    try:
        if job.handler in BATCHES:
            return Outcome("snoozed", delay=timedelta(0)) if _run_batch(world, job) else Outcome("succeeded")
        again = _come_due(world, job)
    except (StaleMap, StoreBusy):  # its shard has left, or a frozen process holds its lane: others must not wait for it
        what = "a row of its batch" if job.handler in BATCHES else "its lane"
        return Outcome("snoozed", error=f"{what} is locked by another transaction", delay=LEASE)
    except StoreError:
        raise
    except HoraeError as problem:
        return Outcome("failed", error=str(problem))
    except Exception as problem:
        log.exception("%s (%s) failed and is tried again", job.id, job.handler)
        return Outcome("failed", error=truncate(f"{type(problem).__name__}: {problem}"))
    return Outcome("succeeded") if again is None else Outcome("snoozed", delay=again - world.clock.now())


def _run_batch(world: World, job: Job) -> bool:
    """Do the next step of what goes over many rows; return whether more is left."""
    if job.handler == ROLLBACK:
        from horae.actions.governance.rollbacks import run_batch as roll_back

        return roll_back(world, job)
    from horae.actions.jobs.acts import run_batch

    return run_batch(world, job)


def _come_due(world: World, job: Job) -> datetime | None:
    """Do what a job is for; return when to come back where it is too early."""
    if job.handler == GATE:
        from horae.actions.governance.plans import ask_gates_again

        ask_gates_again(world, str(job.payload["owner"]), job.payload["agent"])
        return None
    if job.handler == ASK:
        from horae.actions.governance.agent_answers import come_due as ask_agent

        ask_agent(world, job.payload)
        return None
    if job.handler == LET_IN:
        from horae.actions.governance.plans import let_in_objects

        let_in_objects(world, job.payload["jobs"])
        return None
    if job.handler == QUIET:
        from horae.actions.jobs.quiet_queues import keep_quiet

        return keep_quiet(world, job.payload)
    if job.handler == EXPECT:
        from horae.actions.schedules.expectations import check_expectation

        return check_expectation(world, job)
    if job.handler == PAUSE:
        from horae.actions.pauses import end_pause

        end_pause(world, job.payload)
        return None
    if job.handler == REVIEW:
        from horae.actions.governance.reviews import time_out

        return time_out(world, str(job.payload["owner"]), str(job.payload["review"]))
    from horae.actions.attention.inbox import come_due

    return come_due(world, job.handler, job.payload, owner=job.owner)
