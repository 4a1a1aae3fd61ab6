"""Calendars: named lists of days that schedules leave out, keep to or move away from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from horae.actions.schedules import calendars
from horae.actions.shards import members
from horae.api.gathering import Merged
from horae.api.here import Here
from horae.api.operation import DELETE, GET, PUT, Call, Room, S, if_match_header
from horae.api.shards import ask_each, ask_known, names_of
from horae.api.values import drop_none, enrich
from horae.core.jobs.payloads import label
from horae.core.values import PYDANTIC
from horae.errors import StoreUnavailable

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


@dataclass(frozen=True, kw_only=True)
class CalendarDetail(Calendar):
    """A calendar and the keys of the schedules that use it, of those that the caller sees."""

    schedules: tuple[str, ...] = ()


class Calendars(Room[S]):
    """Calendars; changing them needs the scope ``admin``."""

    @GET("/calendars", *ADMIN)
    def list(self) -> Call[tuple[Calendar, ...]]:
        """List the calendars by name."""

        def gather(here: Here) -> Merged:
            found, away = ask_each(here, lambda there, _: calendars.list_calendars(there.world))
            newest = {each.name: each for each in sorted((each for all_ in found.values() for each in all_), key=_age)}
            return Merged([newest[name] for name in sorted(newest)], _behind(here, found, newest, away))

        return Call(tuple[Calendar, ...], lambda here: calendars.list_calendars(here.world), gather=gather)

    @GET("/calendars/{name}", *ADMIN)
    def get(self, name: str) -> Call[CalendarDetail]:
        """Return a calendar and the schedules that use it."""

        def fetch(here: Here) -> Any:
            found, users = calendars.get_calendar(here.world, name)
            seen = [each.key for each in users if here.caller.sees in (None, each.owner)]
            return enrich(CalendarDetail, found, schedules=tuple(seen))

        def gather(here: Here) -> Merged:
            found, away = ask_known(here, fetch)
            newest = max(found.values(), key=_age)
            users = tuple(sorted(key for each in found.values() for key in each.schedules))
            lacking = {number: [each] for number, each in found.items()} | {
                each.number: [] for each in members(here.world) if each.number not in found and each.name not in away
            }
            return Merged(replace(newest, schedules=users), _behind(here, lacking, {name: newest}, away))

        return Call(CalendarDetail, fetch, at=_at(name), gather=gather)

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

        def gather(here: Here) -> Merged:
            """Let the home decide about the version, as of two who change it; the others follow."""
            made = act(here)

            def follow(there: Here, _: int) -> Any:
                return calendars.set_calendar(
                    there.world, name, days, title=title, actor=there.actor, reason=reason, becomes=made.version
                )  # fmt: skip

            return Merged(made, ask_each(here, follow)[1])

        body = {"days": days if isinstance(days, str) else [*days], **drop_none(title=title, reason=reason or None)}
        headers = if_match_header(version)
        return Call(Calendar, act, at=_at(name), body=body, headers=headers, repeats=True, gather=gather)

    @DELETE("/calendars/{name}", *ADMIN)
    def delete(self, name: str, *, reason: str = "") -> Call[None]:
        """Delete a calendar that no schedule uses."""

        def act(here: Here) -> None:
            calendars.delete_calendar(here.world, name, actor=here.actor, reason=reason)

        def gather(here: Here) -> Merged:
            """Delete it everywhere, if every database answers and no schedule of any uses it."""
            found, away = ask_known(here, lambda there: calendars.get_calendar(there.world, name)[1])
            if away:
                raise StoreUnavailable("all_databases_needed", names=list(away))
            calendars.refuse_used(name, [each for users in found.values() for each in users])
            ask_known(here, act)
            return Merged(None)

        return Call(None, act, at=_at(name), query=drop_none(reason=reason or None), gather=gather)


_age = attrgetter("version")


def _behind(
    here: Here, found: Mapping[int, Sequence[Any]], newest: Mapping[str, Any], away: tuple[str, ...]
) -> tuple[str, ...]:
    """Return who is away, and which databases lack the newest version of a calendar."""
    versions = {number: {each.name: each.version for each in known} for number, known in found.items()}
    old = {
        number
        for number, known in versions.items()
        if any(known.get(name, 0) < each.version for name, each in newest.items())
    }
    return (*away, *names_of(here, old))


def _at(name: str) -> dict[str, str]:
    return {"name": label(name, "calendar", 100)}
