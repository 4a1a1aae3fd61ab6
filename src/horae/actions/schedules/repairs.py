"""Give schedules and expectations their next fire or job again where one is missing.

They are written together, so that none should ever be missing. One is where the tables were edited, an old copy was
restored, or a handler of ours failed until its job was dead. Repairs are safe to repeat and to do in several processes
at once: each is one transaction behind the schedule's lock, and checks again before it acts.
"""

from __future__ import annotations

import logging
from datetime import datetime

from horae.actions.jobs.expectations import repair_job_check
from horae.actions.schedules.entries import entry_for
from horae.actions.schedules.expectations import lacks_check, repair_check
from horae.actions.schedules.schedules import with_next_fire
from horae.core.dataclass import dataclass
from horae.core.schedules.expectations import MissedRun
from horae.core.schedules.schedule import Schedule, next_fire
from horae.errors import HoraeError
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.machinery")
AT_ONCE = 200
MAX_LOGGED = 5  # repairs that the log names
REPAIRER = "system/machinery"


@dataclass(frozen=True, slots=True)
class Missing:
    """Schedules without a next fire, and expectations without the job that checks them."""

    schedules: tuple[Schedule, ...] = ()
    expected: tuple[Schedule, ...] = ()
    jobs: tuple[MissedRun, ...] = ()  # what is expected of them

    def sentences(self) -> list[str]:
        """Return one sentence for each."""
        lines = [f"schedule {each.key} is on and has no next fire" for each in self.schedules]
        lines += [f"schedule {each.key} has no job that checks its expectation" for each in self.expected]
        return lines + [f"{each.job} has no job that checks what is expected of it" for each in self.jobs]


def missing_in(tx: Tx, now: datetime, *, limit: int = AT_ONCE) -> Missing:
    """Find up to *limit* of each kind."""
    return Missing(
        tuple(each for each in tx.schedules.without_fire(now, limit=limit) if _lacks_fire(each, now)),
        tuple(each for each in tx.schedules.without_check(limit=limit) if lacks_check(each)),
        tuple(tx.expectations.without_check(limit=limit)),
    )


def _lacks_fire(schedule: Schedule, now: datetime) -> bool:
    """Return whether a schedule without a next fire should have one; its rule may have ended."""
    try:
        return schedule.is_active and not schedule.is_spent and next_fire(schedule, now) is not None
    except HoraeError:  # its rule cannot be read here, which the doctor reports
        return False


def repair_schedules(world: World, *, limit: int = AT_ONCE) -> int:
    """Make missing fires and jobs again, and return how many."""
    found = world.route().store.read(lambda tx: missing_in(tx, world.clock.now(), limit=limit))
    done = sum(_repair_schedule(world, each) for each in found.schedules)
    done += sum(repair_check(world, each) for each in found.expected)
    done += sum(repair_job_check(world, each) for each in found.jobs)
    log_repairs(done, found.sentences())
    return done


def log_repairs(done: int, sentences: list[str]) -> None:
    """Log what was missing, if anything was, and how much of it was made again."""
    if sentences:
        log.warning("repaired %s of %s: %s", done, len(sentences), "; ".join(sentences[:MAX_LOGGED]))


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
