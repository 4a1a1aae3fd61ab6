"""Admission: jobs that a rule has to admit are asked about after they were claimed, in the verbs that claim.

Claim and admission are two transactions, so that plain jobs keep their one statement. The second is fenced by the
token: what the rules write commits only if every job that they were asked about is still held. A process that dies in
between has started nothing; its jobs are handed on when their leases run out, as after any death.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from horae.actions.jobs.endings import settle
from horae.actions.jobs.rules import Overtaken, find_ruled
from horae.core.jobs.job import Change, Job, Lease, Outcome
from horae.errors import StoreError
from horae.ports.claims import Claim, JobEnding, JobRule, PutBack
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.admission")
ROUNDS = 5  # claims in the place of jobs that were put back, before the caller has to ask again
AGAIN = timedelta(seconds=30)  # when to ask again after the rule itself failed
SOON = timedelta(seconds=1)  # a job that is put back is due no earlier than this, or a claim would find it at once


def claim_admitted(world: World, claim: Claim) -> list[Job]:
    """Take due jobs; those that the rules do not admit go back to their queue and are not returned."""
    store = world.route(owner=claim.owner).store
    taken = store.claim(claim, now=world.clock.now())
    if not world.rules:
        return taken
    admitted: list[Job] = []
    for _ in range(ROUNDS):
        kept = admit(world, taken)
        admitted += kept
        room = claim.limit - len(admitted)
        if len(kept) == len(taken) or room < 1:
            break
        taken = store.claim(replace(claim, limit=room, steady=world.clock.steady()), now=world.clock.now())
    return admitted


def admit(world: World, jobs: Sequence[Job]) -> list[Job]:
    """Ask the rules about claimed jobs, put back those that they do not admit, and return the others in their order."""
    ruled = find_ruled(world, jobs)
    if not ruled:
        return list(jobs)
    admitted = _ask(world, [job for job in jobs if job.number in ruled])
    return [job for job in jobs if job.number not in ruled or job.number in admitted]


def _ask(world: World, asked: Sequence[Job]) -> set[int]:
    """Return the numbers of the jobs that the rules admit and that are still held; a rule that fails admits nothing."""
    try:
        return _decide(world, asked)
    except Exception as problem:  # the other jobs of the same claim must not suffer from it
        if len(asked) > 1 and not isinstance(problem, StoreError):
            return {number for job in asked for number in _ask(world, [job])}
        log.exception("admission failed; %s jobs are asked about again: %s", len(asked), problem)
        _return_all(world, asked)
        return set()


def _decide(world: World, asked: Sequence[Job]) -> set[int]:
    left, unwanted = list(asked), list[Job]()
    admitted: set[int] = set()
    while left:
        try:
            admitted = world.route().store.transact(partial(_decide_in, world, left))
        except _Unwanted as found:
            unwanted += [job for job in left if job.number in found.numbers]
            left = [job for job in left if job.number not in found.numbers]
        except Overtaken as lost:
            left = [job for job in left if job.number not in lost.numbers]
        else:
            break
    _end_cancelled(world, unwanted)
    return admitted


class _Unwanted(Overtaken):
    """Raised to roll back an admission: someone asked to cancel a job that was to be put back."""


def _decide_in(world: World, jobs: Sequence[Job], tx: Tx) -> set[int]:
    """Decide in one transaction. The rules lock their rows first and the jobs come last, as when they are settled."""
    now = world.clock.now()
    returned: dict[int, PutBack] = {}
    admitted_by: list[tuple[JobRule, list[Job]]] = []
    for rule in world.rules:
        asked = [job for job in jobs if job.number not in returned and rule.concerns(job)]
        refused = {each.number: each for each in rule.admit(tx, asked, now)} if asked else {}
        returned |= {number: replace(each, run_at=max(each.run_at, now + SOON)) for number, each in refused.items()}
        admitted_by.append((rule, [job for job in asked if job.number not in refused]))
    for rule, started in admitted_by:
        undone = [_undo(job, returned[job.number]) for job in started if job.number in returned]
        if undone:
            rule.settle(tx, undone, now)
    held = tx.jobs.lock_held(Lease(job.number, job.token) for job in jobs)
    if lost := {job.number for job in jobs} - held:
        raise Overtaken(lost)
    if unwanted := tx.jobs.put_back(list(returned.values())):
        raise _Unwanted(unwanted)
    return held - returned.keys()


def _undo(job: Job, returned: PutBack) -> JobEnding:
    """Tell a rule that admitted a job that a later one did not."""
    change = Change("released", "queued", job.attempt, returned.run_at, returned.reason or job.last_error)
    return JobEnding(job, Outcome("released", error=returned.reason), change, put_back=True)


def _end_cancelled(world: World, jobs: Sequence[Job]) -> None:
    """End jobs that could not be put back because someone wants them cancelled; a lost one is refused here."""
    if jobs:
        settle(world, [(job, Outcome("cancelled", error=job.last_error)) for job in jobs])


def _return_all(world: World, jobs: Sequence[Job]) -> None:
    """Put jobs back after a failure; where the store is away, their leases run out."""
    run_at = world.clock.now() + AGAIN
    returned = [PutBack(job.number, job.token, run_at) for job in jobs]

    def write(tx: Tx) -> set[int]:
        if any(job.object_type is not None for job in jobs):
            from horae.actions.governance.admission import follow

            follow(tx, jobs, run_at)  # an object is due when its job is
        return tx.jobs.put_back(returned)

    try:
        not_returned = world.route().store.transact(write)
        _end_cancelled(world, [job for job in jobs if job.number in not_returned])
    except Exception as problem:
        log.warning("%s claimed jobs wait for their leases to run out: %s", len(jobs), problem)
