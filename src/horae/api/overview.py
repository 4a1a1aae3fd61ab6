"""The overview: what goes on now, and what needs a person."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from horae.actions import overview
from horae.actions.error_groups import GroupView
from horae.api import merges
from horae.api.error_groups import ErrorGroup
from horae.api.everywhere import over_all
from horae.api.here import Here
from horae.api.jobs.room import Reason
from horae.api.operation import GET, Call, Room, S
from horae.api.values import Get, to_public
from horae.core.access.callers import SCOPES
from horae.core.dataclass import dataclass
from horae.core.needs import NeedLevel
from horae.core.values import PYDANTIC


def _of_why(name: str) -> Get:
    return lambda need: getattr(need.why, name)


@dataclass(frozen=True)
class Need(Reason):
    """Something that needs a person, how bad it is, and the room and the filter that show it."""

    DERIVED: ClassVar[dict[str, Get]] = {name: _of_why(name) for name in ("code", "text", "reason", "facts")}

    level: NeedLevel = "warning"
    room: str = ""
    filter: str = ""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What goes on now; counts go up to 10,001, which means more than 10,000.

    ``late`` jobs have been due for over a minute in queues that are not paused; ``stuck`` ones are held by workers that
    have gone silent; ``unserved`` queues have late jobs and no worker; ``missed_schedules`` and
    ``missed_jobs`` should have succeeded by now; ``new_errors`` were first seen in the last day.
    ``health`` is how all is in one sentence (``well``, ``ready``, ``needs_you`` or ``trouble``), ``needs`` what needs a
    person, the worst first. ``incomplete`` names databases of a cluster that did not answer.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "new_errors": lambda seen: tuple(
            to_public(ErrorGroup, GroupView(each, is_muted=False, days={})) for each in seen.new_errors
        ),
    }

    at: datetime
    running: int = 0
    due: int = 0
    late: int = 0
    dead: int = 0
    stuck: int = 0
    workers: int = 0
    unserved: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    overdue_schedules: tuple[str, ...] = ()
    missed_schedules: tuple[str, ...] = ()
    missed_jobs: tuple[str, ...] = ()
    inactive_schedules: tuple[str, ...] = ()
    new_errors: tuple[ErrorGroup, ...] = ()
    confirmations: int = 0
    reviews: int = 0
    has_jobs: bool = False
    health: Reason
    needs: tuple[Need, ...] = ()
    incomplete: tuple[str, ...] = ()


class OverviewRoom(Room[S]):
    """What goes on now; a tenant sees what is its own."""

    @GET("/overview", *SCOPES, by_queue=True)
    def get(self) -> Call[Overview]:
        """Return what goes on now, and what needs a person, read in one moment."""

        def fetch(here: Here) -> Any:
            return overview.overview(here.world, **here.reach)

        return Call(Overview, fetch, gather=over_all(fetch, merges.merge_overviews))
