"""The rule of governed objects: gates before their jobs start, and one transaction for an ending and its object.

Every job that names an object, stored or not, leaves entries. Objects are locked by their numbers before budgets and
jobs. An object's gate and version are looked at again when its job ends: a verdict about something that has changed
meanwhile is not applied, and nothing passes a gate that has closed meanwhile.

What it does is imported when the first such job comes: most processes never see one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from horae.core.jobs.job import Job, Outcome
    from horae.ports.claims import JobEnding, PutBack
    from horae.ports.store import Tx
    from horae.ports.world import Dice


class ObjectRule:
    """Takes part in the jobs that name a governed object."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def concerns(self, job: Job) -> bool:
        return job.object_type is not None

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> Sequence[PutBack]:
        from horae.actions.governance.admission import admit

        return admit(self, tx, jobs, now)

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> Mapping[int, Outcome]:
        from horae.actions.governance.endings import settle

        return settle(self, tx, endings, now)
