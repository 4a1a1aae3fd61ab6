"""What the janitor does for rooms that many processes never enter: each verb is imported when it is first done."""

from __future__ import annotations

import logging

from horae.ports.world import World

log = logging.getLogger("horae.janitor")


def seal_lines(world: World) -> int:
    from horae.actions.attention.journal_chain import seal_left

    return seal_left(world)


def repair_lanes(world: World) -> int:
    from horae.actions.attention import repairs

    return repairs.repair_lanes(world)


def end_left(world: World) -> int:
    """Close reviews whose deadline has passed, and give open rollbacks without a job a new one; return how many."""
    from horae.actions.governance.reviews import close_overdue
    from horae.actions.governance.rollbacks import plan_again

    return close_overdue(world) + plan_again(world)


def look_after(world: World) -> int:
    """Do what no worker has claimed for an hour; plan objects whose job is missing. Return how much was done."""
    from horae.actions.governance.keeper import do_unclaimed
    from horae.actions.governance.plans import plan_missing

    done = do_unclaimed(world)
    planned = 0 if done else plan_missing(world)
    if planned:
        log.warning("planned %s governed objects again whose job was missing", planned)
    return done


def restart_acts(world: World) -> int:
    from horae.actions.jobs.acts import restart_lost

    return restart_lost(world)


def let_in(world: World) -> None:
    from horae.actions.jobs.leftovers import let_in_forgotten

    queues = let_in_forgotten(world)
    if queues:
        log.warning("released jobs that were held although there was room, in queues: %s", ", ".join(sorted(queues)))


def settle_left(world: World) -> int:
    from horae.actions.budgets.repair import settle_leftovers

    left = settle_leftovers(world)
    if left:
        log.warning("settled %s reservations of budgets whose attempts had ended without them", left)
    return left


def find_lost(world: World) -> None:
    from horae.actions.jobs.leftovers import find_lost_parents

    lost = find_lost_parents(world)
    if lost:
        log.warning("repaired %s jobs that still waited for jobs which had already ended", lost)


def mend(world: World) -> None:
    from horae.actions.jobs import batch

    mended = batch.mend(world)
    if mended:
        log.warning("repaired %s batches and jobs of batches that were being cancelled", mended)
