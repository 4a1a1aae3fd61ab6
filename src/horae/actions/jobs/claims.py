"""The verbs of a worker that holds jobs: claim, peek, renew, show progress, run a step once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from horae.actions.jobs.admission import claim_admitted
from horae.actions.jobs.requests import DEFAULT_QUEUE
from horae.actions.looks import busy as busy_shard
from horae.actions.looks import left_since, look
from horae.actions.shards import ask_all, ask_each, group_by_shard, members
from horae.core.cursors import page_size
from horae.core.jobs.job import ORDERS, Job, Lease, Order, renewal_pause
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import decode, encode, label
from horae.errors import InvalidInput, InvalidPayload, LeaseLost, StoreError
from horae.ports.claims import Claim, Renewed
from horae.ports.store import Tx
from horae.ports.workers import Node, Upcoming, earliest
from horae.ports.world import FollowingClock, World

DEFAULT_LEASE = timedelta(seconds=30)
MAX_PULL = 1000
MAX_LEASE = timedelta(days=30)
OVERDUE = timedelta(minutes=15)  # after which the job of a governed object is missing, or no worker takes it


def pull(
    world: World,
    *,
    worker_id: str,
    queues: Sequence[str] = (DEFAULT_QUEUE,),
    limit: int = 100,
    lease: timedelta = DEFAULT_LEASE,
    order: Order | None = None,
    owner: str | None = None,
) -> list[Job]:
    """Take up to *limit* due jobs under a lease, queue after queue; nothing that is not due is ever taken.

    With *owner* only that tenant's jobs are seen.
    """
    page_size(limit, MAX_PULL)
    check_lease(lease)
    if order is not None and order not in ORDERS:
        raise InvalidInput("choice_unknown", name="order", value=order, choices=list(ORDERS))
    if world.cluster is not None and owner is None:
        return _pull_from_all(world, queues, worker_id, limit, lease, order)
    [shard], taken = world.within(owner=owner), list[Job]()
    for queue in queues:
        if limit > len(taken):
            who, steady = label(worker_id, "worker id", 200), shard.clock.steady()
            claim = Claim(queue_name(queue), limit - len(taken), who, lease, order, owner, steady)
            taken += claim_admitted(shard, claim)
    return taken


def _pull_from_all(
    world: World, queues: Sequence[str], worker_id: str, limit: int, lease: timedelta, order: Order | None
) -> list[Job]:
    """Pull from every database of a cluster, another one first each time; one that is away holds up no other."""
    numbers = [each.number for each in members(world)]
    first = int(world.dice.roll() * len(numbers))  # else the others' jobs would wait longest
    order_of_turns, taken = [*numbers[first:], *numbers[:first]], list[Job]()

    def take(queue: str, shard: World, _: int) -> None:
        if limit > len(taken):
            room = limit - len(taken)
            taken.extend(pull(shard, worker_id=worker_id, queues=[queue], limit=room, lease=lease, order=order))

    for queue in queues:
        try:
            ask_each(world, partial(take, queue), in_order=order_of_turns)
        except StoreError:
            if not taken:
                raise
    return taken


def claim(world: World, queue: str, limit: int, *, worker_id: str, lease: timedelta) -> list[Job]:
    """Take up to *limit* due jobs of one queue for a worker with database access; the lease counts from now."""
    return claim_admitted(world, Claim(queue, limit, worker_id, lease, steady=world.clock.steady()))


def peek(
    world: World,
    queues: Sequence[str],
    *,
    node: Node | None = None,
    node_id: str | None = None,
    worker_id: str | None = None,
) -> Upcoming:
    """Return when the next job is due, in wall-clock time, and what the node *node_id* was asked to do.

    With *node* its heartbeat is written as well; with *worker_id* the answer names the jobs of that worker that were
    asked to stop.
    """
    if world.cluster is not None:
        return earliest(
            ask_all(world, lambda shard: peek(shard, queues, node=node, node_id=node_id, worker_id=worker_id))
        )  # it is listed in each of them, because it serves all
    asked_at = world.clock.monotonic()
    upcoming = world.route().store.peek(queues, node=node, node_id=node_id, worker_id=worker_id)
    due = upcoming.next_object_at
    if due is not None and due <= world.clock.now() - OVERDUE:
        upcoming = replace(upcoming, open=upcoming.open | {"objects"})
    if upcoming.store_time is not None and isinstance(world.clock, FollowingClock):
        world.clock.follow(upcoming.store_time, asked_at)
    expiry = world.wall_time(upcoming.next_expiry_at)
    return upcoming if expiry == upcoming.next_expiry_at else replace(upcoming, next_expiry_at=expiry)


def leave(world: World, node_id: str) -> None:
    """Remove a worker that ends from the list of nodes."""
    ask_all(world, lambda shard: shard.route().store.transact(lambda tx: tx.nodes.remove(node_id)))


def check_lease(lease: timedelta) -> None:
    """Refuse a lease too short to renew, or so long that a dead worker's job would never come back."""
    if not timedelta(seconds=1) <= lease <= MAX_LEASE:
        raise InvalidInput("lease_outside", lease=lease.total_seconds(), most_days=MAX_LEASE.days)


def renew(world: World, leases: Iterable[Lease], *, lease: timedelta = DEFAULT_LEASE) -> Renewed:
    """Extend leases from now on; a job that is missing from the answer is lost."""
    if world.cluster is not None:
        return _renew_by_map(world, list(leases), lease)
    return world.route().store.renew(leases, until=world.clock.steady() + lease)


def _renew_by_map(world: World, leases: Sequence[Lease], lease: timedelta) -> Renewed:
    """Extend leases of a cluster where their jobs are; one that is on the way is held, but not extended."""
    renewed = _renew_each(world, leases, lease)
    lost = [each for each in leases if each.job_number not in renewed.held | renewed.busy]
    if not lost:
        return renewed
    before = look(world, [each.job_number for each in lost])
    more = _renew_each(world, [each for each in lost if each.job_number not in before.away], lease)
    found = before.away | more.held | more.busy
    away = before.away | left_since(world, before, [each.job_number for each in lost if each.job_number not in found])
    return merge_renewed([renewed, more, Renewed(frozenset(), frozenset(), away)])


def _renew_each(world: World, leases: Sequence[Lease], lease: timedelta) -> Renewed:
    """Extend leases in the databases that keep their jobs by the known map."""
    shards = group_by_shard(world, leases, lambda each: each.job_id)
    return merge_renewed([renew(shard, few, lease=lease) for shard, few in shards])


def merge_renewed(parts: Sequence[Renewed]) -> Renewed:
    """Return one answer for several renewals."""
    held, cancelled, busy = (
        frozenset[int]().union(*(getattr(each, name) for each in parts)) for name in ("held", "cancelled", "busy")
    )
    return Renewed(held, cancelled, busy)


def progress(world: World, lease: Lease, value: Any) -> None:
    """Store how far the attempt has come."""
    _note(world, lease, progress=encode(value, "progress", world.max_payload_bytes))


def checkpoint(world: World, lease: Lease, value: Any) -> None:
    """Store what a later attempt needs to go on from here."""
    _note(world, lease, checkpoint=encode(value, "checkpoint", world.max_payload_bytes))


def _note(world: World, lease: Lease, **texts: str | None) -> None:
    """Write beside a held job; in a cluster where it is, and refuse it while it is on the way."""
    if world.route(id=lease.job_id).store.note(lease, now=world.clock.now(), **texts):
        return
    if world.cluster is not None:
        number, before = lease.job_number, look(world, [lease.job_number])
        if number in before.away:
            raise busy_shard(world, number)
        if world.route(id=lease.job_id).store.note(lease, now=world.clock.now(), **texts):
            return
        if left_since(world, before, [number]):
            raise busy_shard(world, number)
    raise LeaseLost(lease.job_id, lease.token)


def once(
    world: World,
    lease: Lease,
    step: str,
    work: Callable[[Any], Any],
    *,
    limit: timedelta | None = None,
    held_for: timedelta | None = None,
) -> Any:
    """Run ``work(connection)`` and remember its result in one transaction; a later attempt gets the result back.

    *limit* bounds each statement of *work*: what is left of the job's time limit. The job's row is locked meanwhile, so
    that its lease can be neither renewed nor reaped; if that took long, the commit extends it by *held_for*.
    """
    label(step, "step")
    began = world.clock.monotonic()

    def write(tx: Tx) -> Any:
        tx.ledger.begin(lease.job_number, lease.token)
        known = tx.ledger.get(lease.job_number, step)
        if known is None:
            with tx.lend_connection(limit) as connection:
                known = _result_of(step, work(connection), world.max_payload_bytes)
            tx.ledger.put(lease.job_number, step, known, world.clock.now())
        took = timedelta(seconds=world.clock.monotonic() - began)
        if held_for is not None and took > renewal_pause(held_for) / 2:
            tx.ledger.renew(lease.job_number, world.clock.steady() + held_for)
        return decode(known)["value"]

    return world.route(id=lease.job_id).store.transact(write)


def _result_of(step: str, value: Any, max_bytes: int) -> str:
    try:
        return encode({"value": value}, "result", max_bytes)
    except InvalidPayload as problem:
        raise InvalidPayload("step_rolled_back", step=step, problem=str(problem)) from None
