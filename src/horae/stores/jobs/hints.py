"""Where the last full claim of a queue ended, so that the next one need not walk over its remains.

Claimed rows leave dead entries at the head of PostgreSQL's index of waiting jobs. While somebody holds an old snapshot
they cannot be cleaned away, and every claim walks over all of them: a worker that drained 100,000 jobs lost half of its
speed (docs/decisions/0023-claim-hints.md). A hint is only an optimisation. It is dropped when a claim comes back short,
when anybody announces new work, and after a second, because jobs may have been put back behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from horae.core.jobs.job import PRIORITIES, Job
from horae.core.time.instants import micros

LASTS = 1_000_000  # microseconds
HEAD = (-(2**63), 0)


class Hints:
    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int, int, int]] = {}  # queue: band, run_at, id, when

    def starts(self, queue: str, now: int) -> tuple[tuple[int, int], ...]:
        """Return for each band the (run_at, id) behind which a claim may begin; empty: begin at the head."""
        end = self._ends.get(queue)
        if end is None or now - end[3] > LASTS:
            return ()
        return tuple(end[1:3] if band == end[0] else HEAD for band in range(len(PRIORITIES)))

    def keep(self, queue: str, taken: Sequence[Job], now: int) -> None:
        """A claim came back full, in order of priority. The second counts from the last one that began at the head."""
        end, last = self._ends.get(queue), taken[-1]
        began = now if end is None or now - end[3] > LASTS else end[3]
        self._ends[queue] = (PRIORITIES.index(last.priority), micros(last.run_at), last.number, began)

    def drop(self, queue: str) -> None:
        if queue == "*":
            self._ends.clear()
        else:
            self._ends.pop(queue, None)
