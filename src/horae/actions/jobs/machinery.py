"""Jobs of Horae's own: serve those that are due, find waits and schedules that lack one, and make it again.

A wait, a start or a deadline and its job are written together, so none should ever be missing. One is missing when the
tables were edited, an old copy was restored, or the handler failed until its job was dead; then a wait would never end.
Every worker checks for that now and then. Repairs are safe to repeat and to do in several processes at once: each is
one transaction behind the lane's or the schedule's lock, and checks again before it acts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from horae.actions.attention.inbox import come_due
from horae.actions.attention.lanes import LaneWriter, in_known_lane
from horae.actions.governance.reviews import close_overdue, time_out
from horae.actions.governance.rollbacks import plan_again
from horae.actions.governance.rollbacks import run_batch as roll_back_batch
from horae.actions.jobs.acts import run_batch
from horae.actions.jobs.endings import lose, settle
from horae.actions.jobs.expectations import repair_job_check
from horae.actions.jobs.jobs import truncate
from horae.actions.jobs.quiet_queues import keep_quiet
from horae.actions.pauses import end_pause
from horae.actions.schedules.entries import entry_for
from horae.actions.schedules.expectations import check_expectation, lacks_check, repair_check
from horae.actions.schedules.schedules import with_next_fire
from horae.core.attention.lanes import Task, TaskWait
from horae.core.attention.numbers import task_name
from horae.core.attention.task import FINAL
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.machinery import (
    ACT,
    ASK,
    DEADLINE,
    EXPECT,
    GATE,
    LET_IN,
    MACHINERY,
    PAUSE,
    QUIET,
    REVIEW,
    ROLLBACK,
    SERVED_AT_ONCE,
    START,
    TIMEOUT,
)
from horae.core.schedules.expectations import MissedRun
from horae.core.schedules.schedule import Schedule, next_fire
from horae.errors import HoraeError, StaleMap, StoreBusy, StoreError
from horae.ports.claims import Claim
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.machinery")
LEASE = timedelta(seconds=10)
LEFT_BATCH = 1000
BATCH = 200
MAX_LOGGED = 5  # repairs that the log names
REPAIRER = "system/machinery"
BATCHES: Mapping[str, Callable[[World, Job], bool]] = {ACT: run_batch, ROLLBACK: roll_back_batch}


# -- serve -------------------------------------------------------------------------------------------------------------


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
            return Outcome("snoozed", delay=timedelta(0)) if BATCHES[job.handler](world, job) else Outcome("succeeded")
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
        return keep_quiet(world, job.payload)
    if job.handler == EXPECT:
        return check_expectation(world, job)
    if job.handler == PAUSE:
        end_pause(world, job.payload)
        return None
    if job.handler == REVIEW:
        return time_out(world, str(job.payload["owner"]), str(job.payload["review"]))
    return come_due(world, job.handler, job.payload, owner=job.owner)


# -- find --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Missing:
    """Waits, tasks and expectations without the job that they need, and schedules without a next fire."""

    waits: tuple[TaskWait, ...] = ()
    tasks: tuple[Task, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    expected: tuple[Schedule, ...] = ()
    jobs: tuple[MissedRun, ...] = ()  # what is expected of them

    def __bool__(self) -> bool:
        return bool(self.waits or self.tasks or self.schedules or self.expected or self.jobs)

    def sentences(self) -> list[str]:
        """Return one sentence for each."""
        lines = [
            f"wait {each.number} of {task_name(each.task)} ({each.kind}) has no job that ends it" for each in self.waits
        ]
        lines += [f"{each.id} has no job for its {_missing_job(each)}" for each in self.tasks]
        lines += [f"schedule {each.key} is on and has no next fire" for each in self.schedules]
        lines += [f"schedule {each.key} has no job that checks its expectation" for each in self.expected]
        return lines + [f"{each.job} has no job that checks what is expected of it" for each in self.jobs]


def _missing_job(task: Task) -> str:
    return "start" if task.state == "created" else "deadline"


def find_missing(world: World, *, limit: int = BATCH) -> Missing:
    """Find up to *limit* of each kind, over all lanes and schedules."""
    return world.route().store.read(lambda tx: missing_in(tx, world.clock.now(), limit=limit))


def missing_in(tx: Tx, now: datetime, *, lane: int | None = None, limit: int = BATCH) -> Missing:
    """Find them within a transaction; with *lane* only those of that lane."""
    schedules = [] if lane is not None else tx.schedules.without_fire(now, limit=limit)
    expected = [] if lane is not None else tx.schedules.without_check(limit=limit)
    jobs = [] if lane is not None else tx.expectations.without_check(limit=limit)
    return Missing(
        tuple(tx.attention.waits_without_job(lane, limit=limit)),
        tuple(tx.attention.tasks_without_job(lane, limit=limit)),
        tuple(each for each in schedules if _lacks_fire(each, now)),
        tuple(each for each in expected if lacks_check(each)),
        tuple(jobs),
    )


def _lacks_fire(schedule: Schedule, now: datetime) -> bool:
    """Return whether a schedule without a next fire should have one; its rule may have ended."""
    try:
        return schedule.is_active and not schedule.is_spent and next_fire(schedule, now) is not None
    except HoraeError:  # its rule cannot be read here, which the doctor reports
        return False


# -- repair ------------------------------------------------------------------------------------------------------------


def repair(world: World, *, limit: int = BATCH) -> int:
    """Make missing jobs and fires again, move jobs of older versions into Horae's own queue, and return how many."""
    found = find_missing(world, limit=limit)
    done = sum(_repair_wait(world, each) for each in found.waits)
    done += sum(_repair_task(world, each) for each in found.tasks)
    done += sum(_repair_schedule(world, each) for each in found.schedules)
    done += sum(repair_check(world, each) for each in found.expected)
    done += sum(repair_job_check(world, each) for each in found.jobs)
    done += close_overdue(world) + plan_again(world)
    if found:
        log.warning("repaired %s of %s: %s", done, len(found.sentences()), "; ".join(found.sentences()[:MAX_LOGGED]))
    return done


def _repair_wait(world: World, found: TaskWait) -> bool:
    def write(writer: LaneWriter) -> bool:
        wait = writer.tx.attention.wait(found.number)
        if wait is None or wait.state != "open" or _is_kept(writer.tx, wait.job):
            return False
        job = _keep(writer, wait.job, TIMEOUT, wait.deadline, f"wait:{wait.number}", wait=wait.number)
        writer.save(wait, replace(wait, job=job))
        writer.line("job_made_again", writer.tx.attention.task(wait.task), wait=wait.number)
        return True

    return in_known_lane(world, found.lane, write)


def _repair_task(world: World, found: Task) -> bool:
    def write(writer: LaneWriter) -> bool:
        task = writer.tx.attention.task(found.number)
        if task is None or task.state in FINAL:
            return False
        repaired = task
        if task.state == "created" and task.start_job is not None and not _is_kept(writer.tx, task.start_job):
            when = task.start_at or writer.now
            job = _keep(writer, task.start_job, START, when, f"start:{task.number}", task=task.number)
            repaired = replace(repaired, start_job=job)
        if task.deadline_job is not None and task.due_by is not None and not _is_kept(writer.tx, task.deadline_job):
            job = _keep(writer, task.deadline_job, DEADLINE, task.due_by, f"deadline:{task.number}", task=task.number)
            repaired = replace(repaired, deadline_job=job)
        writer.save(task, repaired)
        writer.line("job_made_again", repaired)
        return True

    return in_known_lane(world, found.lane, write)


def _is_kept(tx: Tx, job: int | None) -> bool:
    """Return whether a job waits in Horae's own queue, or runs in any."""
    found = None if job is None else tx.jobs.lock(job)
    return found is not None and (found.state == "running" or (found.state == "queued" and found.queue == MACHINERY))


def _keep(writer: LaneWriter, known: int | None, handler: str, run_at: datetime, unique: str, **payload: int) -> int:
    """Move a job that waits in another queue, revive a dead one, or plan a new one; return its number."""
    found = None if known is None else writer.tx.jobs.lock(known)
    if found is not None and found.handler == handler:
        writer.has_planned = True
        moved = found.queue == MACHINERY or writer.tx.jobs.move(found, MACHINERY)
        if moved and found.state == "queued":
            return found.number
        if moved and writer.tx.jobs.requeue(found, run_at=run_at, attempt=0, band=None, now=writer.now):
            return found.number
    return writer.plan(handler, run_at, unique, **payload)


def _repair_schedule(world: World, found: Schedule) -> bool:
    """Give a schedule its next fire, counted from now, as the end of its last job is unknown."""

    def write(tx: Tx) -> bool:
        before = tx.schedules.get(found.key, found.owner, lock=True)
        now = world.clock.now()
        if before is None or before.next_fire_at is not None or not _lacks_fire(before, now):
            return False
        if tx.schedules.awaited(before.number):
            return False
        after = with_next_fire(world, before, now, next_fire(before, now))
        tx.schedules.put(after, expected_version=before.version)
        reason = "it was on, nothing of it was unfinished, and it had no next fire"
        tx.audit.append(entry_for(now, "repair", after, REPAIRER, reason, before={"next_fire_at": None}))
        return True

    done = world.route().store.transact(write)
    if done:
        world.route().store.wake(["*"])
    return done
