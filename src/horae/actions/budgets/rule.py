"""The rule of budgets: an attempt reserves its cost when it starts, and pays when it ends.

What it does is imported when the first such job comes: most processes never see one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from horae.core.jobs.job import Job, Outcome
    from horae.ports.claims import JobEnding, PutBack
    from horae.ports.store import Tx


class BudgetRule:
    """Lets a job start only if all its budgets have room for its cost; a job without a budget is not its concern."""

    def concerns(self, job: Job) -> bool:
        return job.budget is not None

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> list[PutBack]:
        from horae.actions.budgets.attempts import admit

        return admit(tx, jobs, now)

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> dict[int, Outcome]:
        from horae.actions.budgets.attempts import settle

        return settle(tx, endings, now)
