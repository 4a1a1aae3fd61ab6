"""Retention: how long finished rows are kept, and the deletion of older ones in small steps."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial

from horae.actions.partitions import FIRES, RUNS, run_retention
from horae.actions.roll_up import keep_up, rolled_until
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import queue_name
from horae.core.partitions import LAG, Partition, delete_until
from horae.core.retention import ANY, Retention, RetentionRule, RunRetention, check_keep, check_outcome, sort_rules
from horae.ports.chores import Spared
from horae.ports.store import Tx
from horae.ports.world import World

__all__ = ["BATCH", "Retention", "StoredRetention", "clean", "clean_step", "set_retention", "show_retention"]
log = logging.getLogger("horae.retention")
BATCH = 200
PAGES = 50  # of runs, in one call, where most of them are kept for longer


@dataclass(frozen=True, slots=True)
class StoredRetention:
    """How long runs are kept: the stored rules, and what this process's settings say for all others."""

    runs: timedelta
    fires: timedelta
    rules: tuple[RetentionRule, ...]


def show_retention(world: World) -> StoredRetention:
    """Return how long runs and fire records are kept."""
    found = run_retention(world)
    return StoredRetention(found.default, world.retention.fires, found.rules)


def set_retention(
    world: World,
    keep: timedelta | None,
    *,
    queue: str | None = None,
    outcome: str | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> StoredRetention:
    """Keep runs of a queue, of an outcome, of both together or all for *keep*; None lets the next wider rule decide."""
    where = ANY if queue is None else queue_name(queue)
    ended = check_outcome(ANY if outcome is None else outcome)
    now = world.clock.now()
    rule = None if keep is None else RetentionRule(where, ended, check_keep(keep), now, actor)

    def write(tx: Tx) -> None:
        tx.retention.lock()
        before = {(each.queue, each.outcome): each for each in tx.retention.all()}.get((where, ended))
        tx.retention.remove(where, ended)
        if rule is not None:
            tx.retention.put(rule)
        name = f"{where or 'any queue'}, {ended or 'any outcome'}"
        old, new = ({"keep": None if each is None else each.keep.total_seconds()} for each in (before, rule))
        entry = Entry(now, actor, "set_retention", "retention", name, reason=reason or None, before=old, after=new)
        tx.audit.append(entry)

    world.route().store.transact(write)
    return show_retention(world)


def clean(world: World, retention: Retention, *, limit: int = BATCH) -> dict[str, int]:
    """Delete one batch of old rows of each table; return how many by table. Runs are counted before they go."""
    keep_up(world)
    now = world.clock.now()
    store = world.route().store
    rules, of_runs, of_fires = store.read(
        lambda tx: (tx.retention.all(), tx.partitions.all(RUNS), tx.partitions.all(FIRES))
    )
    kept = RunRetention(sort_rules(rules), retention.runs)
    ages = {
        "horae_keys": retention.keys,
        "horae_lines": kept.longest,  # those of days that were dropped as a whole; else they go with their runs
        "horae_ledger": max(kept.longest, retention.keys),
        "horae_task_ledger": kept.longest,
        "horae_nodes": retention.nodes,
        "horae_reservations": kept.longest,
        "horae_needs": kept.spans[0],
        "horae_parents": kept.longest,
    }
    gone = {RUNS: _clean_runs(world, kept, of_runs, now, limit)}
    spared = _spared(of_fires, now - retention.fires - LAG)
    gone[FIRES] = store.forget(FIRES, now - retention.fires, limit, spared=spared)
    gone["horae_acts"] = store.transact(lambda tx: tx.acts.forget(now - retention.runs, limit=limit))
    gone["horae_expectations"] = store.transact(lambda tx: tx.expectations.forget(now - retention.fires, limit=limit))
    gone["horae_batches"] = store.transact(lambda tx: tx.batches.forget(now - retention.runs, limit=limit))
    gone["horae_labels"] = store.transact(lambda tx: tx.labels.forget(limit=limit))
    gone["horae_sessions"] = store.transact(lambda tx: tx.sessions.forget(now, limit=limit))
    return gone | {table: store.forget(table, now - age, limit) for table, age in ages.items()}


def clean_step(world: World, retention: Retention) -> bool:
    """Delete one batch of old rows of each table; return whether there is probably more."""
    gone = clean(world, retention)
    if any(gone.values()):
        log.debug("deleted: %s", ", ".join(f"{count} of {table}" for table, count in gone.items() if count))
    return any(count >= BATCH for count in gone.values())


def _clean_runs(world: World, retention: RunRetention, partitions: list[Partition], now: datetime, limit: int) -> int:
    """Delete runs that are in the statistics, span by span, the longest first: it has the least to do."""
    several, removed, counted = len(retention.spans) > 1, 0, rolled_until(world)
    for keep in reversed(retention.spans):
        until = min(delete_until(partitions, now, keep), counted)
        walk = partial(_walk, keep=keep, until=until, retention=retention, several=several)
        for _ in range(PAGES):
            count, more = world.route().store.transact(partial(walk, limit=limit - removed))
            removed += count
            if removed >= limit:
                return removed
            if not more:
                break
    return removed


def _walk(
    tx: Tx, *, keep: timedelta, until: datetime, retention: RunRetention, limit: int, several: bool
) -> tuple[int, bool]:
    return tx.retention.walk(keep, until, retention, limit=limit, several=several)


def _spared(partitions: list[Partition], recorded_since: datetime) -> Spared | None:
    """Return which fires stay although they are old: those of days that are about to be dropped as a whole."""
    lows = [each.low for each in partitions if each.is_day and each.low is not None]
    highs = [each.high for each in partitions if each.is_day and each.high is not None]
    return Spared(min(lows), max(highs), recorded_since) if lows else None
