"""Counters and histograms of one worker: plain numbers, written by its loop and read from any thread.

Counting must cost less than a microsecond per job: so no locks, no objects per value, one lookup per series. A reader
in another thread may see a sum that is one value ahead of its buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from horae.core.jobs.job import Job
from horae.core.metrics import MOST, OTHER, Buckets, Family
from horae.core.schedules.schedule import Firing
from horae.ports.world import Clock

DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
NOT_RUN = frozenset({"snoozed", "skipped"})  # the handler did not run to its end: a duration would mislead


class Measures:
    """All metrics of one worker; ``counts`` is the number of its runs by outcome, over all queues."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._delays: dict[str, Buckets] = {}
        self._durations: dict[tuple[str, str], Buckets] = {}
        self._ends: dict[tuple[str, str, str], int] = {}
        self._fires: Counter[str] = Counter()

    # -- counting ------------------------------------------------------------------------------------------------

    def count_started(self, jobs: Sequence[Job], clock: Clock) -> float:
        """Count the start of the jobs of one claim; return the time of that on the monotonic clock."""
        buckets = self._delays.get(jobs[0].queue)
        if buckets is None:  # no limit on series: the settings list the queues
            buckets = self._delays[jobs[0].queue] = Buckets(DELAYS)
        now = clock.now()
        buckets.add_all([(now - job.run_at).total_seconds() for job in jobs])
        return clock.monotonic()

    def count_duration(self, job: Job, ending: str, seconds: float) -> None:
        """Count the duration of an attempt that has ended, whether or not its outcome will be accepted."""
        if ending in NOT_RUN:
            return
        buckets = self._durations.get((job.queue, job.handler))
        if buckets is None:
            labels = _labels(self._durations, job.queue, job.handler)
            buckets = self._durations.get(labels) or self._durations.setdefault(labels, Buckets(DURATIONS))
        buckets.add(seconds)

    def count_ended(self, job: Job, ending: str) -> None:
        """Count one outcome."""
        self.count_ends([(job.queue, job.handler, ending)])

    def count_ends(self, ends: Iterable[tuple[str, str, str]]) -> None:
        """Count outcomes by queue, handler and ending: ``stale`` for a refused one, ``lost`` for a lost lease."""
        for key, count in Counter(ends).items():
            queue, handler, ending = key
            self.counts[ending] += count
            if key not in self._ends:
                key = (*_labels({labels[:2] for labels in self._ends}, queue, handler), ending)
            self._ends[key] = self._ends.get(key, 0) + count

    def count_fired(self, firing: Firing, _: Sequence[str]) -> None:
        for fire in firing.fires:
            self._fires[fire.verdict] += fire.count

    # -- reading -------------------------------------------------------------------------------------------------

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


def _labels(known: Collection[tuple[str, str]], queue: str, handler: str) -> tuple[str, str]:
    """Return the labels of a new series: its own, or beyond the limit of series the shared ones."""
    labels = (queue, handler)
    return labels if labels in known or len(known) < MOST else (OTHER, OTHER)
