"""Endings of jobs that a rule concerns: written in one transaction with what the rules write about them.

The rules come first, because their rows are locked before the jobs. If the store then refuses an ending, because the
job has another holder by now, everything is rolled back and written again without it: what a rule wrote for it is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from horae.core.jobs.job import Job, Outcome, Settlement, settlement
from horae.ports.claims import JobEnding
from horae.ports.store import Tx
from horae.ports.world import World

Drafted = tuple[Job, Settlement]  # a job as its claim returned it, and its ending as it is about to be written


class Overtaken(Exception):
    """Raised to roll back a transaction: some of its jobs have another holder by now."""

    def __init__(self, numbers: Collection[int]) -> None:
        self.numbers = frozenset(numbers)


def is_ruled(world: World, job: Job) -> bool:
    """Return whether any rule has a say about a job."""
    return any(rule.concerns(job) for rule in world.rules)


def find_ruled(world: World, jobs: Sequence[Job]) -> set[int]:
    """Return the numbers of the jobs about which any rule has a say: none, most of the time."""
    return {
        job.number
        for rule in world.rules
        if any(map(rule.concerns, jobs))  # asked first, because it costs a plain job the least
        for job in jobs
        if rule.concerns(job)
    }


def split(
    world: World, jobs: Sequence[Job], settlements: Sequence[Settlement]
) -> tuple[Sequence[Drafted], Sequence[Drafted]]:
    """Return the endings of plain jobs, and those of jobs that a rule concerns."""
    endings, ruled = list(zip(jobs, settlements, strict=True)), find_ruled(world, jobs)
    if not ruled:
        return endings, ()
    return (
        [each for each in endings if each[0].number not in ruled],
        [each for each in endings if each[0].number in ruled],
    )


def settle_by_rules(world: World, endings: Sequence[Drafted], now: datetime) -> dict[int, Settlement]:
    """Write endings and what the rules write about them; return, by number of the job, the endings as written.

    Those that are missing were refused: the job has another holder.
    """
    left = _once(endings)
    while left:
        try:
            return world.route().store.transact(partial(settle_within, world, endings=left, now=now))
        except Overtaken as lost:
            left = [(job, done) for job, done in left if job.number not in lost.numbers]
    return {}


def _once(endings: Sequence[Drafted]) -> list[Drafted]:
    """Keep one ending of each job: the first with the highest token, since no earlier one can be current."""
    kept: dict[int, Drafted] = {}
    for job, done in endings:
        if job.number not in kept or kept[job.number][1].token < done.token:
            kept[job.number] = (job, done)
    return list(kept.values())


def settle_within(world: World, tx: Tx, endings: Sequence[Drafted], now: datetime) -> dict[int, Settlement]:
    """Write endings and what the rules write about them in a transaction; ``Overtaken`` must roll it back."""
    holders = tx.jobs.tokens(job.number for job, _ in endings)
    late = {job.number for job, done in endings if holders.get(job.number) != done.token}
    if late:  # most late endings are found here, before a rule is troubled with them
        raise Overtaken(late)
    drafts = {job.number: (job, done) for job, done in endings}
    for rule in world.rules:
        asked = [JobEnding(job, done.outcome, done.change) for job, done in drafts.values() if rule.concerns(job)]
        replaced = rule.settle(tx, asked, now) if asked else {}
        for number, outcome in replaced.items():
            job, done = drafts[number]
            drafts[number] = (job, _redraft(world, job, done, outcome, now))
    written = {number: done for number, (_, done) in drafts.items()}
    rejected = tx.jobs.settle(list(written.values()), now)
    if rejected:
        raise Overtaken(rejected)
    return written


def _redraft(world: World, job: Job, done: Settlement, outcome: Outcome, now: datetime) -> Settlement:
    """Return the ending with another outcome, behind the same fence."""
    other = settlement(job, outcome, now=now, roll=world.dice.roll())
    asked_for = None if done.change.state == "dead" else done.entry  # an entry about its death belongs to that ending
    return replace(other, expired_before=done.expired_before, entry=other.entry or asked_for)
