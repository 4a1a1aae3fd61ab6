"""Expectations that were not met: runs of schedules, and jobs, that should have succeeded by now."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from horae.actions.schedules import expectations
from horae.api.here import Here
from horae.api.operation import PAGES, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none, to_public
from horae.core.cursors import cursor_from, page_size, read_cursor
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import label
from horae.core.schedules.expectations import MissedState
from horae.core.values import PYDANTIC

ADMIN = ("admin",)


@dataclass(frozen=True, kw_only=True)
class MissedRun:
    """A run that should have succeeded by ``due_at`` and had not; ``count`` in a row, up to ``last_due_at``.

    ``open`` until a run succeeds, then ``recovered``; ``dropped`` where nothing is expected any more, for a ``reason``.
    It is about a ``schedule`` or about a single ``job``, which is ``waiting`` until then.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {"schedule": lambda missed: missed.schedule or None}

    id: str
    owner: str
    handler: str
    queue: str
    expect: str
    state: MissedState
    expected_at: datetime
    due_at: datetime
    last_due_at: datetime
    found_at: datetime
    schedule: str | None = None
    job: str | None = None
    count: int = 1
    ended_at: datetime | None = None
    reason: str | None = None


class Expectations(Room[S]):
    """What is missing of what is expected of schedules and jobs."""

    @PAGES("/expectations", *ADMIN, by_queue=True)
    def list(
        self,
        *,
        owner: str | None = None,
        state: MissedState | None = None,
        schedule: str | None = None,
        job: str | None = None,
        limit: int | None = None,
    ) -> Listing[MissedRun]:
        """List expectations that were not met, the newest first; without *owner* an operator sees all owners'.

        *state* is open, recovered or dropped, or waiting for jobs whose time has not come. *limit* is for all pages
        together.
        """
        query = drop_none(owner=owner, state=state, schedule=schedule, job=job)
        first: Call[Page[MissedRun]] = Call(Page[MissedRun], query=query)

        def find(here: Here, cursor: str | None, size: int) -> tuple[Any, str | None]:
            begin, most = read_cursor(cursor, int), page_size(size)
            found = expectations.find_missed(
                here.world,
                owner=here.caller.filter_owner(None if owner is None else label(owner, "owner")),
                state=state,
                schedule=None if schedule is None else label(schedule, "schedule key", 200),
                job=job,
                queues=tuple(sorted(here.caller.queues)),
                limit=most,
                before=None if begin is None else begin[0],
            )
            more = cursor_from([found[-1].number]) if len(found) >= most else None
            return [to_public(MissedRun, each) for each in found], more

        return Listing(first, limit, find, order=attrgetter("found_at", "id"))
