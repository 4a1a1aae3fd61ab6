"""Calendars: named lists of days that schedules leave out, keep to or move away from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.actions.schedules import calendars
from horae.actions.settings.calendars import refuse_used
from horae.api import merges
from horae.api.everywhere import as_setting, over_all
from horae.api.gather import Merged
from horae.api.here import Here
from horae.api.operation import DELETE, GET, PUT, Call, Room, S, if_match_header
from horae.api.values import drop_none, enrich
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import label
from horae.core.values import PYDANTIC

if TYPE_CHECKING:
    from horae.ports.store import Tx

ADMIN = ("admin",)


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """A named list of days: 2030-12-25, 2030-12-24..2030-12-31, 12-25 of every year, or sat.

    ``incomplete`` names databases of a cluster that do not answer or have an older version: set it again for those.
    """

    __pydantic_config__ = PYDANTIC

    name: str
    days: tuple[str, ...]
    title: str | None = None
    version: int = 1
    updated_at: datetime | None = None
    incomplete: tuple[str, ...] = ()
    databases: int | None = None


@dataclass(frozen=True, kw_only=True)
class CalendarDetail(Calendar):
    """A calendar and the keys of the schedules that use it, of those that the caller sees."""

    schedules: tuple[str, ...] = ()


class Calendars(Room[S]):
    """Calendars; changing them needs the scope ``admin``."""

    @GET("/calendars", *ADMIN)
    def list(self) -> Call[tuple[Calendar, ...]]:
        """List the calendars by name."""

        def fetch(here: Here) -> Any:
            return calendars.list_calendars(here.world)

        return Call(tuple[Calendar, ...], fetch, gather=over_all(fetch, merges.merge_calendars))

    @GET("/calendars/{name}", *ADMIN)
    def get(self, name: str) -> Call[CalendarDetail]:
        """Return a calendar and the schedules that use it."""

        def fetch(here: Here) -> Any:
            found, users = calendars.get_calendar(here.world, name)
            seen = [each.key for each in users if here.caller.sees in (None, each.owner)]
            return enrich(CalendarDetail, found, schedules=tuple(seen))

        return Call(CalendarDetail, fetch, at=_at(name), gather=over_all(fetch, merges.merge_calendar))

    @PUT("/calendars/{name}", *ADMIN)
    def set(
        self, name: str, days: Sequence[str], *, title: str | None = None, version: int | None = None, reason: str = ""
    ) -> Call[Calendar]:
        """Make a calendar, or replace its days; the schedules that use it follow at once.

        With *version*, only if it is still of that version, 0 where there is none; else VersionConflict.
        """

        def act(here: Here) -> Any:
            return calendars.set_calendar(
                here.world, name, days, title=title, version=version, actor=here.actor, reason=reason
            )  # fmt: skip

        def value(tx: Tx) -> dict[str, Any]:
            known = tx.calendars.get(name)
            return {"days": [*days], "title": title, "version": 1 if known is None else known.version + 1}

        body = {"days": days if isinstance(days, str) else [*days], **drop_none(title=title, reason=reason or None)}
        headers = if_match_header(version)
        gather = as_setting("calendar", name, value, act, merges.first_answer, reason=reason)
        return Call(Calendar, act, at=_at(name), body=body, headers=headers, repeats=True, gather=gather)

    @DELETE("/calendars/{name}", *ADMIN)
    def delete(self, name: str, *, reason: str = "") -> Call[None]:
        """Delete a calendar that no schedule uses."""

        def act(here: Here) -> None:
            calendars.delete_calendar(here.world, name, actor=here.actor, reason=reason)

        value = {"days": None, "title": None, "version": 0}
        gather = as_setting("calendar", name, value, act, merges.first_answer, reason=reason)

        def gather_unused(here: Here) -> Merged:
            refuse_used(here.world, name)
            return gather(here)

        return Call(None, act, at=_at(name), query=drop_none(reason=reason or None), gather=gather_unused)


def _at(name: str) -> dict[str, str]:
    return {"name": label(name, "calendar", 100)}
