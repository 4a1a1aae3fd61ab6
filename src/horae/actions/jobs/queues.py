"""The verbs of queues: pause, resume, limit, order, share, list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields, replace
from datetime import datetime
from typing import Any

from horae.actions.consistency import one_moment
from horae.actions.jobs.jobs import counts
from horae.actions.jobs.quiet_queues import as_of, past_turn, stay_quiet
from horae.actions.jobs.running_limits import set_limit
from horae.actions.pauses import check_until, plan_end, wake_for
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.jobs.job import ORDERS, SYSTEM, Order
from horae.core.jobs.machinery import MACHINERY, queue_name
from horae.core.jobs.running_limits import limit_name
from horae.core.jobs.turns import FAIR, Fair
from horae.errors import InvalidInput, NotFound
from horae.ports.queues import Queue
from horae.ports.store import Tx
from horae.ports.workers import Node
from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class QueueView(Queue):
    """A queue with its settings, its jobs by state, and its workers."""

    jobs: dict[str, int] = field(default_factory=dict)
    workers: tuple[str, ...] = ()


def pause_queue(
    world: World, queue: str, *, until: datetime | None = None, actor: str = SYSTEM, reason: str = ""
) -> Queue:
    """Stop handing out jobs of a queue, *until* an instant or until it is resumed; all else goes on."""
    now = world.clock.now()
    ends_at = check_until(until, now)
    pause = {"paused_at": now, "paused_by": actor, "pause_reason": reason or None, "paused_until": ends_at}

    def plan(tx: Tx, _: Queue) -> bool:
        if ends_at is not None:
            plan_end(tx, "queue", queue, SYSTEM, ends_at, now)
        return True

    paused = _change(world, queue, "pause", actor, reason, pause, plan)
    wake_for(world, ends_at)
    return paused


def resume_queue(
    world: World,
    queue: str,
    *,
    paused_until: datetime | None = None,
    begun_before: datetime | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> Queue:
    """Hand out jobs of a queue again; with *paused_until* only where the pause ends then, outside quiet hours, with
    *begun_before* only where it began before that instant.
    """
    free: dict[str, Any] = dict.fromkeys(("paused_at", "paused_by", "pause_reason", "paused_until"))

    def is_meant(tx: Tx, before: Queue) -> bool:
        if begun_before is not None and before.paused_at is not None and before.paused_at > begun_before:
            return False
        if paused_until is None:
            if before.is_overdue(world.clock.now()):
                free["quiet_at"] = past_turn(before, world.clock.now())
            return True
        return before.paused_until == paused_until and not stay_quiet(tx, before, world.clock.now())

    changed = _change(world, queue, "resume", actor, reason, free, is_meant)
    world.route().store.wake([queue])
    return changed


def limit_queue(world: World, queue: str, max_running: int | None, *, actor: str = SYSTEM, reason: str = "") -> Queue:
    """Let at most so many jobs of the queue run at once, over all workers; None lifts the limit."""
    if type(max_running) is int and max_running < 1:
        raise InvalidInput("queue_limit_too_low", max_running=max_running)
    limit = set_limit(world, limit_name(queue=queue), max_running, actor=actor, reason=reason)
    found = world.route().store.read(
        lambda tx: next((each for each in tx.queues.all() if each.name == queue), Queue(queue))
    )
    return replace(found, max_running=limit.max_running)


def order_queue(world: World, queue: str, order: Order, *, actor: str = SYSTEM, reason: str = "") -> Queue:
    """Serve by band first ("priority") or by due time first ("run_at")."""
    if order not in ORDERS:
        raise InvalidInput("choice_unknown", name="order", value=order, choices=list(ORDERS))
    return _change(world, queue, "order", actor, reason, {"order": order})


def share_queue(world: World, queue: str, fair: Fair | None, *, actor: str = SYSTEM, reason: str = "") -> Queue:
    """Let owners take turns in a queue, by their weights ("owner"), or serve it in its order alone (None)."""
    if fair is not None and fair not in FAIR:
        raise InvalidInput("choice_unknown", name="fair", value=fair, choices=list(FAIR))
    return _change(world, queue, "share", actor, reason, {"fair": fair})


@one_moment
def list_queues(
    world: World, *, owner: str | None = None, queues: Collection[str] = (), machinery: bool = False
) -> list[QueueView]:
    """Return every queue that has settings, jobs or a worker; for a tenant those with its own jobs, counting only them.

    With *queues* only these. Horae's own queue is left out unless *machinery* is set.
    """
    numbers = counts(world, owner=owner, machinery=machinery)
    settings, nodes = world.route(owner=owner).store.read(lambda tx: (tx.queues.all(), tx.nodes.all()))
    known = {queue.name: as_of(queue, world.clock.now()) for queue in settings}
    names = sorted({*known, *numbers, *(served for node in nodes for served in node.queues)})
    if machinery and owner is None:
        names = sorted({*names, MACHINERY})
    if owner is not None:
        names, nodes = sorted(numbers), []  # a tenant does not see the machines
    names = [each for each in names if not queues or each in queues]
    return [_view(known.get(each, Queue(each)), numbers.get(each, {}), _servers(nodes, each)) for each in names]


def get_queue(world: World, queue: str, *, owner: str | None = None, queues: Collection[str] = ()) -> QueueView:
    seen = list_queues(world, owner=owner, queues=queues, machinery=queue == MACHINERY)
    found = next((view for view in seen if view.name == queue), None)
    if found is None:
        raise NotFound("queue_unknown", queue=queue)
    return found


def _view(queue: Queue, jobs: dict[str, int], workers: tuple[str, ...]) -> QueueView:
    settings: dict[str, Any] = {each.name: getattr(queue, each.name) for each in fields(queue)}
    return QueueView(**settings, jobs=jobs, workers=workers)


def _servers(nodes: list[Node], queue: str) -> tuple[str, ...]:
    return tuple(node.node_id for node in nodes if node.serves(queue) or queue == MACHINERY)


def _change(
    world: World,
    queue: str,
    verb: str,
    actor: str,
    reason: str,
    changes: Mapping[str, Any],
    admits: Callable[[Tx, Queue], bool] = lambda tx, before: True,
) -> Queue:
    """Change the settings of a queue; *admits* may leave them as they are, in the same transaction."""
    queue_name(queue)

    def write(tx: Tx) -> Queue:
        before = tx.queues.get(queue, lock=True) or Queue(queue)
        if not admits(tx, before):
            return before
        after = replace(before, **changes)
        tx.queues.put(after)
        old, new = ({key: _audit_text(getattr(each, key)) for key in changes} for each in (before, after))
        now = world.clock.now()
        tx.audit.append(Entry(now, actor, verb, "queue", queue, reason=reason or None, before=old, after=new))
        return after

    return world.route().store.transact(write)


def _audit_text(value: object) -> str | None:
    """Return a value as the audit stores it: None stays None."""
    return None if value is None else str(value)
