"""Users' tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.jobs.job import Job, Run
    from horae.core.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ScheduledTaskRun:
    """An attempt at a user's task, and what set it off: ``schedule``, ``manual`` or ``backfill``."""

    run: Run
    trigger: str


class ScheduledTaskRows(Protocol):
    """Users' tasks inside one transaction; with *owner* None, those of all tenants."""

    def get(self, task_id: str, owner: str | None, *, lock: bool = False) -> Schedule | None: ...
    def find(
        self, owner: str | None, *, limit: int, after: tuple[str, int, int] | None, queues: Collection[str] = ()
    ) -> list[Schedule]: ...
    def count_enabled(self, owner: str) -> int: ...
    def live(self, numbers: Iterable[int]) -> dict[int, list[Job]]: ...
    def last_run(self, number: int) -> Run | None: ...
    def runs(self, number: int, *, limit: int, before: tuple[int, int] | None) -> list[ScheduledTaskRun]: ...
