"""Make jobs again that waits and tasks of lanes need and lack.

They are written together; one is missing where the tables were edited, an old copy was restored, or a handler of ours
failed until its job was dead. Then a wait would never end. Repairs are safe to repeat and to do in several processes at
once: each is one transaction behind the lane's lock, and checks again before it acts.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from horae.actions.attention.lanes import LaneWriter, in_known_lane
from horae.actions.schedules.repairs import AT_ONCE, log_repairs
from horae.core.attention.lanes import Task, TaskWait
from horae.core.attention.numbers import task_name
from horae.core.attention.task import FINAL
from horae.core.dataclass import dataclass
from horae.core.jobs.machinery import DEADLINE, MACHINERY, START, TIMEOUT
from horae.ports.store import Tx
from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class Missing:
    """Waits and tasks without the job that they need."""

    waits: tuple[TaskWait, ...] = ()
    tasks: tuple[Task, ...] = ()

    def sentences(self) -> list[str]:
        """Return one sentence for each."""
        lines = [
            f"wait {each.number} of {task_name(each.task)} ({each.kind}) has no job that ends it" for each in self.waits
        ]
        return lines + [f"{each.id} has no job for its {_missing_job(each)}" for each in self.tasks]


def _missing_job(task: Task) -> str:
    return "start" if task.state == "created" else "deadline"


def missing_in(tx: Tx, *, lane: int | None = None, limit: int = AT_ONCE) -> Missing:
    """Find up to *limit* of each kind; with *lane* only those of that lane."""
    return Missing(
        tuple(tx.attention.waits_without_job(lane, limit=limit)),
        tuple(tx.attention.tasks_without_job(lane, limit=limit)),
    )


def repair_lanes(world: World, *, limit: int = AT_ONCE) -> int:
    """Make missing jobs again, move jobs of older versions into Horae's own queue, and return how many."""
    found = world.route().store.read(lambda tx: missing_in(tx, limit=limit))
    done = sum(_repair_wait(world, each) for each in found.waits)
    done += sum(_repair_task(world, each) for each in found.tasks)
    log_repairs(done, found.sentences())
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
