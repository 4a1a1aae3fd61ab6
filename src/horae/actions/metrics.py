"""The metrics of the whole fleet, read from the store: every process gives the same figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from horae.actions.consistency import one_moment
from horae.actions.jobs.jobs import metrics
from horae.actions.partitions import HistoryState, read_history
from horae.core.metrics import Backlog, Ended, Family, limit_labels, sum_by_labels
from horae.ports import Node, Tx, World

RATES_WINDOW = timedelta(hours=1)  # for the rates of S0-31 and S0-32
RECENT = timedelta(minutes=5)  # for everything called recent
SEEN_LATELY = timedelta(seconds=150)  # a worker writes a heartbeat every minute
MICROS = 1_000_000.0
COUNTED_ROWS = 1_000  # of the catch-all partition


@dataclass(frozen=True, slots=True)
class Survey:
    """The figures of one read of the store."""

    at: datetime
    five: dict[str, float]
    depths: dict[tuple[str, str], int]
    waiting: dict[str, Backlog]
    endings: list[Ended]
    verdicts: dict[str, int]
    workers: dict[str, int]  # by queue that they serve
    workers_seen: int
    last_number: int
    history: list[HistoryState]


@one_moment
def survey(world: World) -> Survey:
    """Count jobs, recent runs and workers; a few grouped statements in one transaction."""
    now = world.clock.now()

    def read(tx: Tx) -> Survey:
        seen = lately(tx.nodes.all(), now)
        return Survey(
            now, {}, tx.metrics.depths(), tx.metrics.waiting(now), tx.metrics.endings(now - RECENT),
            tx.metrics.verdicts(now - RECENT), served_by(seen), len(seen), tx.metrics.last_number(),
            read_history(tx, now, most=COUNTED_ROWS),
        )  # fmt: skip

    figures = world.route().store.read(read)
    figures.five.update(metrics(world, window=RATES_WINDOW))
    return figures


def lately(nodes: list[Node], now: datetime) -> list[Node]:
    return [node for node in nodes if now - node.seen_at <= SEEN_LATELY]


def served_by(nodes: list[Node]) -> dict[str, int]:
    """Return how many processes serve each queue."""
    return dict(Counter(queue for node in nodes for queue in node.queues))


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
    ends = Counter[str]()
    for each in figures.endings:
        counted[each.queue] += each.count
        ends[each.handler] += each.count
    queue_of = limit_labels((name for name, _ in counted.most_common()), first=sorted(figures.workers))
    handler_of = limit_labels(name for name, _ in ends.most_common())
    by_run = [((queue_of(each.queue), handler_of(each.handler)), each) for each in figures.endings]
    took = sum_by_labels((labels, float(each.took)) for labels, each in by_run)
    timed = sum_by_labels((labels, float(each.timed)) for labels, each in by_run)
    delay = sum_by_labels(((queue_of(each.queue),), float(each.delay)) for each in figures.endings)
    delayed = sum_by_labels(((queue_of(each.queue),), float(each.delayed)) for each in figures.endings)
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
            "horae_recent_runs", "gauge", "Attempts that ended in the last five minutes, over all workers.",
            ("queue", "handler", "outcome"),
            sum_by_labels(((*labels, each.outcome), float(each.count)) for labels, each in by_run),
        ),
        Family(
            "horae_recent_run_seconds_mean", "gauge", "How long those attempts took on average.", ("queue", "handler"),
            {labels: took[labels] / timed[labels] / MICROS for labels in took if timed[labels]},
        ),
        Family(
            "horae_recent_run_seconds_max", "gauge", "How long the longest of them took.", ("queue", "handler"),
            sum_by_labels(((labels, each.longest / MICROS) for labels, each in by_run if each.timed), max),
        ),
        Family(
            "horae_recent_start_delay_seconds_mean", "gauge",
            "How long after its due time the last attempt of a job began, on average over the last five minutes.",
            ("queue",), {labels: delay[labels] / delayed[labels] / MICROS for labels in delay if delayed[labels]},
        ),
        Family(
            "horae_recent_start_delay_seconds_max", "gauge", "The longest such delay.", ("queue",),
            sum_by_labels(
                (((queue_of(e.queue),), e.longest_delay / MICROS) for e in figures.endings if e.delayed), max
            ),
        ),
        Family(
            "horae_recent_fires", "gauge", "Fires of schedules recorded in the last five minutes, by verdict.",
            ("verdict",), {(verdict,): float(count) for verdict, count in figures.verdicts.items()},
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
        Family(
            "horae_history_days_ahead", "gauge",
            "Days after today for which a table of the history has partitions; nothing where it has none.", ("table",),
            {(each.table,): float(each.days_ahead) for each in figures.history},
        ),
        Family(
            "horae_history_catch_all_rows", "gauge",
            "Rows of the history that no daily partition takes, counted up to 1,000.", ("table",),
            {(each.table,): float(each.catch_all) for each in figures.history},
        ),
    ]  # fmt: skip
