"""Alerts to the operator: jobs that died, runs that are missing, open reviews, unserved queues, exceeded budgets, too
few partitions ahead.

An alert is a ``webhook`` job of the house with a key of its own, so that any number of processes that notice the same
thing send one message.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Protocol

from horae.actions.budgets.budgets import BudgetView, find_overdrawn
from horae.actions.budgets.ledger import period_facts
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.reasons import SILENT
from horae.actions.jobs.requests import Request
from horae.actions.partitions import HistoryState, history_states
from horae.core.dataclass import dataclass
from horae.core.governance.reviews import Review
from horae.core.jobs.job import SYSTEM, Job
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.masking import mask_text, secrets_of
from horae.core.jobs.retry import Retry
from horae.core.schedules.expectations import MissedRun
from horae.core.time.instants import iso
from horae.errors import KeyConflict
from horae.ports.queues import DueBacklog
from horae.ports.store import Tx
from horae.ports.world import World

HANDLER = "webhook"
TAG = "alert"
RETRY = Retry.external(attempts=10, default=300)  # the handler itself knows when to try again
LOOK_BACK = timedelta(hours=1)  # for deaths that reached no listener: over HTTP, or while a process was dying
MOST = 100  # deaths in one check
LONGEST_ERROR = 1000


@dataclass(frozen=True, slots=True)
class Alerts:
    """The target of alerts. *secret* is the name of the secret that signs them."""

    url: str
    stalled_after: timedelta = timedelta(minutes=5)
    secret: str | None = None
    queue: str = "default"


class DeadJob(Protocol):
    """The fields of a job that an alert needs; the core value and the public one have them."""

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def handler(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def last_error(self) -> str | None: ...
    @property
    def payload(self) -> Any: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def object_type(self) -> str | None: ...
    @property
    def object_id(self) -> str | None: ...
    @property
    def action(self) -> str | None: ...


def tell_dead(world: World, alerts: Alerts, job: DeadJob) -> bool:
    """Send an alert about a dead job; return False where it was sent before, or the job was an alert itself."""
    if job.owner == SYSTEM and job.handler == HANDLER and TAG in job.tags:
        return False
    facts = {
        "job_id": job.id,
        "run_id": job.run_id,
        "handler": job.handler,
        "queue": job.queue,
        "owner": job.owner,
        "attempt": job.attempt,
        "error": mask_text(job.last_error or "", secrets_of(job.payload))[:LONGEST_ERROR],
    }
    if job.object_type is not None:  # what is remembered goes on ageing, but no verifier has looked at it
        facts |= {"object_type": job.object_type, "object_id": job.object_id, "action": job.action}
    return _send(world, alerts, "job.dead", job.run_id, facts)


def tell_stalled(world: World, alerts: Alerts, waiting: DueBacklog) -> bool:
    """Send an alert about a queue whose due jobs no worker takes; once an hour."""
    now = world.clock.now()
    hour = iso(now.replace(minute=0, second=0, microsecond=0))
    facts = {"queue": waiting.queue, "waiting": waiting.count, "oldest_due_at": iso(waiting.oldest)}
    return _send(world, alerts, "queue.stalled", f"{waiting.queue}@{hour}", facts)


def find_stalled(world: World, after: timedelta) -> list[DueBacklog]:
    """Return queues with work that has been due for so long while no worker serves them; paused ones do not count."""
    now = world.clock.now()

    def read(tx: Tx) -> list[DueBacklog]:
        nodes = [node for node in tx.nodes.all() if node.seen_at > now - SILENT]
        served = {name for node in nodes for name in node.queues if node.serves(name)} | (
            {MACHINERY} if nodes else set()
        )
        paused = {queue.name for queue in tx.queues.all() if queue.paused_at is not None}
        return tx.jobs.waiting(now - after, not_in=served | paused)

    return world.route().store.read(read)


def tell_history(world: World, alerts: Alerts, state: HistoryState) -> bool:
    """Send an alert about a table of the history that has too few partitions ahead; once a day."""
    facts = {"table": state.table, "days_ahead": state.days_ahead, "catch_all_rows": state.catch_all}
    return _send(world, alerts, "history.partitions_low", f"{state.table}@{world.clock.now():%Y-%m-%d}", facts)


def tell_review(world: World, alerts: Alerts, review: Review) -> bool:
    """Send an alert about a review that waits for a person; once for each, and without what was asked."""
    facts = {
        "review_id": review.id,
        "owner": review.owner,
        "kind": review.kind,
        "agent": review.agent,
        "decision": review.decision,
        "deadline": iso(review.deadline),
    }
    return _send(world, alerts, "review.opened", f"{review.owner}/{review.id}", facts)


def tell_overdrawn(world: World, alerts: Alerts, view: BudgetView) -> bool:
    """Send an alert about a budget that was exceeded; once for each of its periods."""
    budget, period = view.budget, view.period
    facts = {"owner": budget.owner, "budget": budget.id, **period_facts(period)}
    return _send(world, alerts, "budget.overdrawn", f"{budget.owner}/{budget.id}@{iso(period.starts_at)}", facts)


def tell_missed(world: World, alerts: Alerts, missed: MissedRun) -> bool:
    """Send an alert about a run that should have succeeded by now, and one when a run has; each once."""
    is_over = missed.state == "recovered"
    facts = {
        **({"schedule": missed.schedule} if missed.job is None else {"job": missed.job}),
        "owner": missed.owner,
        "handler": missed.handler,
        "queue": missed.queue,
        "expect": missed.expect,
        "expected_at": iso(missed.expected_at),
        "due_at": iso(missed.due_at),
        "missed": missed.count,
    }
    if missed.ended_at is not None:
        facts["recovered_at"] = iso(missed.ended_at)
    what = "schedule" if missed.job is None else "job"
    event = f"{what}.recovered" if is_over else f"{what}.missed"
    is_sent = _send(world, alerts, event, missed.id, facts)  # a key keeps it from being sent twice
    world.route().store.transact(lambda tx: tx.expectations.tell(missed.number, 2 if is_over else 1))
    return is_sent


def look_round(world: World, alerts: Alerts) -> int:
    """Check for everything that operators are alerted to; return how many alerts were sent."""
    since = world.clock.now() - LOOK_BACK
    dead: Iterable[Job] = world.route().store.read(lambda tx: tx.jobs.died(since, limit=MOST))
    sent = [tell_dead(world, alerts, job) for job in dead]
    reviews = world.route().store.read(lambda tx: tx.reviews.find(owner=None, states=("open",), limit=MOST))
    sent += [tell_review(world, alerts, review) for review in reviews]
    sent += [tell_stalled(world, alerts, waiting) for waiting in find_stalled(world, alerts.stalled_after)]
    sent += [tell_history(world, alerts, state) for state in history_states(world, most=MOST) if state.is_short]
    untold = world.route().store.read(lambda tx: tx.expectations.untold(since, limit=MOST))
    sent += [tell_missed(world, alerts, missed) for missed in untold]
    sent += [tell_overdrawn(world, alerts, view) for view in find_overdrawn(world, limit=MOST)]
    return sum(sent)


def _send(world: World, alerts: Alerts, event: str, about: str, facts: dict[str, Any]) -> bool:
    body = {"type": event, "timestamp": iso(world.clock.now()), "data": facts}
    payload: dict[str, Any] = {"url": alerts.url, "body": body}
    if alerts.secret is not None:
        payload["secret"] = alerts.secret
    request = Request(
        HANDLER, payload, alerts.queue, retry=RETRY, key=f"alert:{event}:{about}"[:255], tags=(TAG,), owner=SYSTEM
    )
    try:
        return not enqueue(world, request).deduplicated
    except KeyConflict:  # sent before, with another text
        return False
