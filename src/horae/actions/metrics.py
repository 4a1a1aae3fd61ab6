"""The metrics of the whole fleet, read from the store: every process gives the same figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from horae.actions.budgets.budgets import BudgetView, budget_views
from horae.actions.jobs.jobs import five_figures
from horae.actions.partitions import history_states
from horae.actions.shards import ask_each, members
from horae.actions.statistics import count_for_scrape, count_recent
from horae.core.cluster.messages import UnsentMessages, undelivered
from horae.core.dataclass import dataclass
from horae.core.jobs.machinery import MACHINERY
from horae.core.metrics import Backlog, Family, Point, limit_labels, sum_by_labels
from horae.core.statistics import CLOSES_AFTER, ENDS, OUTCOMES, RollUp, Statistic
from horae.core.time.instants import instant, micros
from horae.ports.queues import Depth
from horae.ports.store import Tx
from horae.ports.workers import Node
from horae.ports.world import World

RATES_WINDOW = timedelta(hours=1)  # for the rates of S0-31 and S0-32
RECENT = timedelta(minutes=5)  # for everything called recent
SEEN_LATELY = timedelta(seconds=150)  # a worker writes a heartbeat every minute
COUNTED_ROWS = 1_000  # of the catch-all partition
MOST_BUDGETS = 200  # that have metrics of their own
DATABASE_UP = "horae_database_up"  # by the database of a cluster


@dataclass(frozen=True, slots=True)
class Survey:
    """The figures of one read of the store."""

    at: datetime
    five: dict[str, float]
    depths: dict[tuple[str, str], int]
    waiting: dict[str, Backlog]
    by_queue: dict[str, Statistic]  # what ended in the last minutes that were counted
    by_handler: dict[str, Statistic]
    ever: dict[str, tuple[int, Statistic]]  # by queue, with the first instant on record
    verdicts: dict[str, int]
    workers: dict[str, int]  # by queue that they serve
    workers_seen: int
    last_number: int
    budgets: list[BudgetView]
    missing: int  # runs of schedules


def survey(world: World) -> Survey:
    """Count jobs, recent runs and workers; a few grouped statements in one transaction."""
    now = world.clock.now()

    def read(tx: Tx) -> Survey:
        seen, state = lately(tx.nodes.all(), now), tx.statistics.state() or RollUp()
        rolled, live = state.rolled_until, tx.metrics.depths(now)
        waiting = tx.metrics.waiting(now, live)
        by_queue, by_handler = count_recent(tx, now - CLOSES_AFTER - RECENT, rolled)
        window, ever = count_for_scrape(tx, now - RATES_WINDOW, rolled)
        counted_until = max(now - RATES_WINDOW, instant(rolled))
        raw = tx.jobs.rates(since=now - RATES_WINDOW, owner=None, ended_since=counted_until)
        return Survey(
            now, _five(now, raw, live, waiting, window), {key: depth.jobs for key, depth in live.items()}, waiting,
            by_queue, by_handler, ever, tx.metrics.verdicts(now - RECENT), served_by(seen), len(seen),
            max(state.last_number, _last_number(tx, raw, counted_until, rolled)),
            budget_views(tx, now, limit=MOST_BUDGETS),
            tx.expectations.count_open(),
        )  # fmt: skip

    return world.route().store.read(read)


def _last_number(tx: Tx, raw: Mapping[str, int], counted_until: datetime, rolled: int) -> int:
    """Return the highest job number that the statistics may not know: of a live job, or of one that ended since."""
    if counted_until > instant(rolled):  # nothing was counted for an hour: look at the ends of the keys
        return tx.metrics.last_number()
    return max(raw["last_live"], raw["last_ended"])


def _five(
    now: datetime,
    raw: Mapping[str, int],
    live: Mapping[tuple[str, str], Depth],
    waiting: Mapping[str, Backlog],
    window: Statistic,
) -> dict[str, float]:
    """Return what the verb ``metrics`` does, without counting live jobs once more."""
    backlog = {
        "due": sum(each.count for each in waiting.values()),
        "oldest_due": min((micros(each.since) for each in waiting.values()), default=None),
        "dead": sum(depth.jobs for (_, state), depth in live.items() if state == "dead"),
    }
    return five_figures({**raw, **backlog}, window, now)


def count_live(world: World) -> bool:
    """Count all live jobs for those who read the counts, while there are many; return whether there are."""
    store, now = world.route().store, world.clock.now()
    # All rows are read: without the limit of a statement, and before the transaction, which keeps SQLite's one writer.
    counted = store.read(lambda tx: tx.metrics.count_many(now), unbounded=True)
    store.transact(lambda tx: tx.metrics.keep_sample(counted, now))
    return bool(counted)


def _by_label(figures: Mapping[str, Statistic], label: Callable[[str], str]) -> dict[str, Statistic]:
    """Add up figures that share a label; Horae's own queue is left out."""
    found: dict[str, Statistic] = {}
    for name, each in figures.items():
        if name != MACHINERY:
            found.setdefault(label(name), Statistic()).add(each)
    return found


def _outcomes(figures: Mapping[str, Statistic], names: Sequence[str] = OUTCOMES) -> dict[tuple[str, ...], float]:
    values = {(label, name): float(getattr(each, name)) for label, each in figures.items() for name in names}
    return {labels: value for labels, value in values.items() if value}


def _seconds(
    figures: Mapping[str, Statistic], read: Callable[[Statistic], timedelta | None]
) -> dict[tuple[str, ...], float]:
    spans = {(label,): read(each) for label, each in figures.items()}
    return {labels: span.total_seconds() for labels, span in spans.items() if span is not None}


def lately(nodes: list[Node], now: datetime) -> list[Node]:
    return [node for node in nodes if now - node.seen_at <= SEEN_LATELY]


def served_by(nodes: list[Node]) -> dict[str, int]:
    """Return how many processes serve each queue."""
    return dict(Counter(queue for node in nodes for queue in node.queues if node.serves(queue)))


FIVE = {
    "jobs_due_count": "Jobs that are due and not running.",
    "jobs_lag_seconds": "How long the oldest of them has been due.",
    "job_success_rate": "Of the jobs that ended in the last hour by success or death, the share of successes.",
    "job_retry_rate": "Of the jobs ended or enqueued in the last hour, the share that failed at least once.",
    "dead_letter_count": "Jobs that are dead: no attempt left, waiting for a person.",
}


def families(figures: Survey) -> list[Family]:
    """Return a survey as metrics."""
    counted = Counter({queue: 0 for queue, _ in figures.depths})
    for (queue, _), count in figures.depths.items():
        counted[queue] += count
    for queue, each in figures.by_queue.items():
        counted[queue] += each.runs
    ends = Counter({handler: each.runs for handler, each in figures.by_handler.items()})
    queue_of = limit_labels((name for name, _ in counted.most_common()), first=sorted(figures.workers))
    handler_of = limit_labels(name for name, _ in ends.most_common())
    # In the order in which they came, so that a counter never moves to another name.
    ever_of = limit_labels(sorted(figures.ever, key=lambda queue: (figures.ever[queue][0], queue)))
    queues = _by_label(figures.by_queue, queue_of)
    handlers = _by_label(figures.by_handler, handler_of)
    ever = _by_label({queue: each for queue, (_, each) in figures.ever.items()}, ever_of)
    return [
        *(Family(name, "gauge", text, (), {(): figures.five[name]}) for name, text in FIVE.items()),
        Family(
            "horae_queue_depth", "gauge", "Jobs by queue and state: queued, running or dead.", ("queue", "state"),
            sum_by_labels(((queue_of(queue), state), float(count)) for (queue, state), count in figures.depths.items()),
        ),
        Family(
            "horae_queue_due", "gauge", "Jobs that are due and not running, by queue.", ("queue",),
            sum_by_labels(((queue_of(queue),), float(each.count)) for queue, each in figures.waiting.items()),
        ),
        Family(
            "horae_queue_lag_seconds", "gauge", "How long the oldest due job of a queue has been due.", ("queue",),
            sum_by_labels(
                (
                    ((queue_of(queue),), (figures.at - each.since).total_seconds())
                    for queue, each in figures.waiting.items()
                ),
                max,
            ),
        ),
        Family(
            "horae_recent_runs", "gauge", "Attempts that ended in the last five minutes that were counted, by queue.",
            ("queue", "outcome"), _outcomes(queues),
        ),
        Family(
            "horae_recent_handler_runs", "gauge", "The same attempts by handler.", ("handler", "outcome"),
            _outcomes(handlers),
        ),
        Family(
            "horae_recent_run_seconds_mean", "gauge", "How long those attempts took on average.", ("handler",),
            _seconds(handlers, lambda each: each.mean_duration),
        ),
        Family(
            "horae_recent_run_seconds_max", "gauge", "How long the longest of them took, at most 19 % too high.",
            ("handler",), _seconds(handlers, lambda each: each.duration(1)),
        ),
        Family(
            "horae_recent_start_delay_seconds_mean", "gauge",
            "How long after its due time the last attempt of a job began, on average over those five minutes.",
            ("queue",), _seconds(queues, lambda each: each.mean_delay),
        ),
        Family(
            "horae_recent_start_delay_seconds_max", "gauge", "The longest such delay, at most 19 % too high.",
            ("queue",), _seconds(queues, lambda each: each.delay(1)),
        ),
        Family(
            "horae_endings_total", "counter",
            "Attempts that ended since the beginning, over all workers; dead and retried ones failed or were lost.",
            ("queue", "outcome"), _outcomes(ever, ENDS),
        ),
        Family(
            "horae_recent_fires", "gauge", "Fires of schedules recorded in the last five minutes, by verdict.",
            ("verdict",), {(verdict,): float(count) for verdict, count in figures.verdicts.items()},
        ),
        Family(
            "horae_missed_expectations", "gauge", "Schedules and jobs that should have succeeded and have not.", (),
            {(): float(figures.missing)},
        ),
        Family("horae_workers", "gauge", "Worker processes seen lately.", (), {(): float(figures.workers_seen)}),
        Family(
            "horae_queue_workers", "gauge", "Worker processes seen lately, by queue that they serve.", ("queue",),
            sum_by_labels(((queue_of(queue),), float(count)) for queue, count in figures.workers.items()),
        ),
        Family(
            "horae_enqueued_total", "counter", "Job numbers given out by this database since its beginning.", (),
            {(): float(figures.last_number)},
        ),
        *_budget_families(figures.budgets),
    ]  # fmt: skip


def fleet_families(world: World, look: Callable[[World], list[Family]]) -> list[Family]:
    """Return the metrics of the store; in a cluster those of each database, named by a label, and whether it is up."""
    if world.cluster is None:
        return look(world)
    names = {each.number: each.name for each in members(world)}
    found, away = ask_each(world, lambda shard, _: look(shard))
    merged: dict[str, Family] = {}
    for number, parts in found.items():
        for each in parts:
            known = merged.get(each.name)
            points = {(names[number], *labels): point for labels, point in each.points.items()}
            points = points if known is None else {**known.points, **points}
            merged[each.name] = replace(each, labels=("database", *each.labels), points=points)
    up: dict[tuple[str, ...], Point] = {(name,): 0.0 if name in away else 1.0 for name in names.values()}
    text = "Whether a database of the cluster answered when it was last asked."
    return [Family(DATABASE_UP, "gauge", text, ("database",), up), *merged.values()]


def undelivered_families(world: World) -> list[Family]:
    """Return what databases of a cluster have not delivered to others; nothing for a single one.

    One that does not answer is left out: what waits there is not known.
    """
    if world.cluster is None:
        return []
    shard_map = world.cluster.shard_map
    counts, ages = dict[tuple[str, ...], Point](), dict[tuple[str, ...], Point]()
    everyone = shard_map.members
    found, _ = ask_each(world, lambda shard, _: (shard.clock.now(), _waiting(shard)), asked=everyone)
    for number, (now, waiting) in found.items():
        name = shard_map.member(number).name
        for each in undelivered(shard_map, waiting):
            counts[name, each.to, "job"] = float(each.jobs)
            counts[name, each.to, "message"] = float(each.count - each.jobs)
            ages[name, each.to] = max(0.0, (now - each.oldest).total_seconds())
    return [
        Family(
            "horae_undelivered", "gauge", "What a database of the cluster has not delivered to another yet.",
            ("database", "to", "kind"), counts,
        ),
        Family(
            "horae_undelivered_seconds", "gauge", "How long the oldest of that has waited.", ("database", "to"), ages,
        ),
    ]  # fmt: skip


def _waiting(shard: World) -> list[UnsentMessages]:
    return shard.route().store.read(lambda tx: tx.messages.waiting())


def history_families(world: World) -> list[Family]:
    """Return how the history stands as metrics. It changes once a day, so that not every scrape need ask."""
    states = history_states(world, most=COUNTED_ROWS)
    return [
        Family(
            "horae_history_days_ahead", "gauge",
            "Days after today for which a table of the history has partitions; nothing where it has none.", ("table",),
            {(each.table,): float(each.days_ahead) for each in states},
        ),
        Family(
            "horae_history_catch_all_rows", "gauge",
            "Rows of the history that no daily partition takes, counted up to 1,000.", ("table",),
            {(each.table,): float(each.catch_all) for each in states},
        ),
    ]  # fmt: skip


def _budget_families(views: Sequence[BudgetView]) -> list[Family]:
    def family(name: str, text: str, read: Callable[[BudgetView], int | None]) -> Family:
        points: dict[tuple[str, ...], Point] = {
            (view.budget.owner, view.budget.reference, view.budget.unit, view.budget.period): float(value)
            for view in views
            if (value := read(view)) is not None
        }
        return Family(f"horae_budget_{name}", "gauge", text, ("owner", "budget", "unit", "period"), points)

    return [
        family("capacity", "What may be spent in the present period.", lambda view: view.period.capacity),
        family("settled", "What was spent in the present period.", lambda view: view.period.settled),
        family("reserved", "What attempts that run have reserved.", lambda view: view.period.reserved),
        family(
            "put_backs", "Starts and spends that found the present period empty.", lambda view: view.period.put_backs
        ),
    ]
