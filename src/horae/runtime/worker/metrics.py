"""What one worker counts of its own work: plain numbers, written by its loop and read by whoever looks.

Counting must cost less than a microsecond for each job, watched or not: so no locks, no objects for each value, one
look-up for each series. A reader in another thread may see a sum that is one value ahead of its buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from horae.core.jobs.job import Job
from horae.core.metrics import MOST, OTHER, Buckets, Family
from horae.core.schedules.schedule import Firing
from horae.ports import Clock

DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
NOT_RUN = frozenset({"snoozed", "skipped"})  # put off before or instead of running: their times would say nothing


class Measures:
    """Everything one worker counts; ``counts`` is how its runs ended, whatever their queue."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._delays: dict[str, Buckets] = {}
        self._durations: dict[tuple[str, str], Buckets] = {}
        self._ends: dict[tuple[str, str, str], int] = {}
        self._fires: Counter[str] = Counter()

    # -- the worker writes ---------------------------------------------------------------------------------------

    def started(self, jobs: Sequence[Job], clock: Clock) -> float:
        """A claim of one queue has come back, and all of it begins; when that was, on the monotonic clock."""
        buckets = self._delays.get(jobs[0].queue)
        if buckets is None:  # a worker's queues are its settings: they need no bound
            buckets = self._delays[jobs[0].queue] = Buckets(DELAYS)
        now = clock.now()
        for job in jobs:
            buckets.add((now - job.run_at).total_seconds())
        return clock.monotonic()

    def ran(self, job: Job, ending: str, seconds: float) -> None:
        """An attempt is over; whether its ending is accepted is another question."""
        if ending in NOT_RUN:
            return
        buckets = self._durations.get((job.queue, job.handler))
        if buckets is None:
            labels = _labels(self._durations, job)
            buckets = self._durations.get(labels) or self._durations.setdefault(labels, Buckets(DURATIONS))
        buckets.add(seconds)

    def ended(self, job: Job, ending: str) -> None:
        """An ending was accepted; or it was ``stale``, or the lease was ``lost`` before there was one."""
        self.counts[ending] += 1
        key = (job.queue, job.handler, ending)
        if key in self._ends:
            self._ends[key] += 1
        else:
            key = (*_labels({labels[:2] for labels in self._ends}, job), ending)
            self._ends[key] = self._ends.get(key, 0) + 1

    def fired(self, firing: Firing, _: Sequence[str]) -> None:
        for fire in firing.fires:
            self._fires[fire.verdict] += fire.count

    # -- somebody looks ------------------------------------------------------------------------------------------

    def families(self) -> list[Family]:
        ends = list(self._ends.items())
        return [
            Family(
                "horae_start_delay_seconds", "histogram", "From a job's due time to its start in this process.",
                ("queue",), {(queue,): each.spread() for queue, each in list(self._delays.items())},
            ),
            Family(
                "horae_run_duration_seconds", "histogram", "How long attempts in this process took.",
                ("queue", "handler"), {labels: each.spread() for labels, each in list(self._durations.items())},
            ),
            Family(
                "horae_runs_total", "counter", "Attempts of this process whose ending was accepted, by outcome.",
                ("queue", "handler", "outcome"),
                {labels: float(count) for labels, count in ends if labels[2] not in ("stale", "lost")},
            ),
            Family(
                "horae_lease_losses_total", "counter", "Attempts of this process that lost their lease while running.",
                ("queue", "handler"), {labels[:2]: float(count) for labels, count in ends if labels[2] == "lost"},
            ),
            Family(
                "horae_stale_acks_total", "counter", "Endings refused because the job had been handed on.",
                ("by",), {("worker",): float(self.counts["stale"])},
            ),
            Family(
                "horae_schedule_fires_total", "counter", "Fires of schedules decided by this process, by verdict.",
                ("verdict",), {(verdict,): float(count) for verdict, count in self._fires.items()},
            ),
        ]  # fmt: skip


def _labels(known: Collection[tuple[str, str]], job: Job) -> tuple[str, str]:
    """The labels of a new series: its own while there is room, else those that all further ones share."""
    labels = (job.queue, job.handler)
    return labels if labels in known or len(known) < MOST else (OTHER, OTHER)
