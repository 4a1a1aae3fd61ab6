"""Admission: jobs that a rule has to admit are asked about after they were claimed, in the verbs that claim.

Claim and admission are two transactions, so that plain jobs keep their one statement. The second is fenced by the
token: what the rule writes commits only if every job that it admits is still held. A process that dies in between has
started nothing; its jobs are handed on when their leases run out, as after any death.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from horae.actions.jobs.endings import settle
from horae.core.jobs.job import Job, Lease, Outcome
from horae.errors import StoreError
from horae.ports import Admission, Claim, PutBack, Tx, World

log = logging.getLogger("horae.admission")
ROUNDS = 5  # claims in the place of jobs that were put back, before the caller has to ask again
AGAIN = timedelta(seconds=30)  # when to ask again after the rule itself failed
SOON = timedelta(seconds=1)  # a job that is put back is due no earlier than this, or a claim would find it at once


def claim_admitted(world: World, claim: Claim) -> list[Job]:
    """Take due jobs; those that the rule does not admit go back to their queue and are not returned."""
    store, rule = world.route(owner=claim.owner).store, world.admission
    taken = store.claim(claim, now=world.clock.now())
    if rule is None:
        return taken
    admitted: list[Job] = []
    for _ in range(ROUNDS):
        kept = admit(world, rule, taken)
        admitted += kept
        room = claim.limit - len(admitted)
        if len(kept) == len(taken) or room < 1:
            break
        taken = store.claim(replace(claim, limit=room, steady=world.clock.steady()), now=world.clock.now())
    return admitted


def admit(world: World, rule: Admission, jobs: Sequence[Job]) -> list[Job]:
    """Ask the rule about claimed jobs, put back those that it does not admit, and return the others in their order."""
    asked = [job for job in jobs if rule.concerns(job)]
    if not asked:
        return list(jobs)
    try:
        admitted = _ask(world, rule, asked)
    except Exception as problem:  # plain jobs of the same claim must not suffer from it
        log.exception("admission failed; %s jobs are asked about again: %s", len(asked), problem)
        _return_all(world, asked)
        admitted = set()
    numbers = {job.number for job in asked}
    return [job for job in jobs if job.number not in numbers or job.number in admitted]


def _ask(world: World, rule: Admission, asked: Sequence[Job]) -> set[int]:
    """Return the numbers of the jobs that the rule admits and that are still held."""
    left = list(asked)
    while left:
        try:
            admitted, not_returned = world.route().store.transact(partial(_decide, world, rule, left))
        except _Overtaken as lost:
            left = [job for job in left if job.number not in lost.numbers]
            continue
        _end_cancelled(world, [job for job in left if job.number in not_returned])
        return admitted
    return set()


class _Overtaken(Exception):
    """Raised to roll back an admission: some of its jobs have another holder by now."""

    def __init__(self, numbers: set[int]) -> None:
        self.numbers = numbers


def _decide(world: World, rule: Admission, jobs: Sequence[Job], tx: Tx) -> tuple[set[int], set[int]]:
    """Decide in one transaction. The rule locks its objects first and the jobs come last, as when they are settled."""
    now = world.clock.now()
    returned = [replace(each, run_at=max(each.run_at, now + SOON)) for each in rule.admit(tx, jobs, now)]
    back = {each.number for each in returned}
    admitted = {job.number for job in jobs} - back
    held = tx.jobs.lock_held(Lease(job.number, job.token) for job in jobs if job.number in admitted)
    if held != admitted:
        raise _Overtaken(admitted - held)
    return admitted, tx.jobs.put_back(returned)


def _end_cancelled(world: World, jobs: Sequence[Job]) -> None:
    """End jobs that could not be put back because someone wants them cancelled; a lost one is refused here."""
    if jobs:
        settle(world, [(job, Outcome("cancelled", error=job.last_error)) for job in jobs])


def _return_all(world: World, jobs: Sequence[Job]) -> None:
    """Put jobs back after a failure; where the store is away, their leases run out."""
    run_at = world.clock.now() + AGAIN
    returned = [PutBack(job.number, job.token, run_at) for job in jobs]
    try:
        not_returned = world.route().store.transact(lambda tx: tx.jobs.put_back(returned))
        _end_cancelled(world, [job for job in jobs if job.number in not_returned])
    except StoreError as problem:
        log.warning("%s claimed jobs wait for their leases to run out: %s", len(jobs), problem)
