"""Schedules: make them, look at them, steer them, fire them by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Unpack

from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.here import Here
from horae.api.operation import DELETE, GET, PAGES, PATCH, POST, Call, Listing, Page, Room, S, if_match_header
from horae.api.schedules import local
from horae.api.schedules.keys import schedule_key
from horae.api.schedules.timetable import Timetable
from horae.api.schedules.values import (
    Backfilled,
    ChangedGroup,
    Fire,
    Forecast,
    Preview,
    Schedule,
    ScheduleDetail,
    Timing,
    Triggered,
    UpcomingFire,
    Version,
    schedule_fields,
)
from horae.api.values import Free, drop_none, free, to_json
from horae.core.jobs.payloads import label
from horae.core.schedules.schedule import Kind, Mode
from horae.core.schedules.schedule import Schedule as Stored
from horae.core.time.spans import Span, span
from horae.errors import InvalidInput
from horae.ports.schedules import ScheduleFilter

ADMIN = ("admin",)


class Schedules(Room[S]):
    """Schedules; changing them needs the scope ``admin``. *owner* is part of a schedule's address.

    For an operator it is the house unless it names a tenant; a tenant reaches only its own.
    """

    # -- look ------------------------------------------------------------------------------------------------------

    @PAGES("/schedules", *ADMIN, by_queue=True)
    def list(
        self,
        *,
        owner: str | None = None,
        group: str | None = None,
        handler: str | None = None,
        kind: Kind | None = None,
        mode: Mode | None = None,
        enabled: bool | None = None,
        declared: bool | None = None,
        text: str | None = None,
        order: Literal["key", "next"] = "key",
        results: int = 0,
        limit: int | None = None,
    ) -> Listing[Schedule]:
        """List schedules by key, or by when they are due next; without *owner* an operator sees all owners'.

        *text* is looked for in key, title and handler. *limit* is for all pages together. With *results*, at most 20,
        each has its last results, read in one statement for a page.
        """
        wanted = ScheduleFilter(owner, group, handler, mode, enabled, declared, kind, text=text)
        query = drop_none(
            owner=owner, group=group, handler=handler, kind=kind, mode=mode, enabled=enabled, declared=declared,
            text=text, order=order if order != "key" else None, results=results or None,
        )  # fmt: skip
        first: Call[Page[Schedule]] = Call(Page[Schedule], query=query)
        by = local.by_next if order == "next" else attrgetter("key", "owner")
        rows = lambda here, *at: local.find(here, wanted, results, order, *at)  # noqa: E731  # beside the call that takes it
        return Listing(first, limit, rows, order=by, is_rising=True)

    @GET("/schedules/{key}", *ADMIN, by_queue=True)
    def get(self, key: str, *, owner: str | None = None) -> Call[ScheduleDetail]:
        """Return one schedule, how its runs went, and why it does not fire if it does not."""
        return _read(ScheduleDetail, local.detail, key, owner)

    @PAGES("/schedules/{key}/history", *ADMIN, by_queue=True)
    def history(self, key: str, *, owner: str | None = None, limit: int | None = None) -> Listing[Fire]:
        """List what became of each due fire, the newest first.

        All records of one instant stay together, so that a page may be a little longer than asked for.
        """
        first: Call[Page[Fire]] = Call(Page[Fire], at=_at(key), query=drop_none(owner=owner))
        return Listing(first, limit, lambda here, *at: local.history(here, key, owner, *at))

    @GET("/schedules/{key}/versions", *ADMIN, by_queue=True)
    def versions(self, key: str, *, owner: str | None = None, limit: int = 50) -> Call[tuple[Version, ...]]:
        """Return its changes, who made them and why, the newest first."""
        return _read(tuple[Version, ...], local.versions, key, owner, limit=limit)

    @GET("/schedules/{key}/preview", *ADMIN, by_queue=True)
    def preview(self, key: str, *, count: int = 5, owner: str | None = None) -> Call[Preview]:
        """Return its next fires, as if it were neither paused nor off."""
        return _read(Preview, local.preview, key, owner, count=count)

    @GET("/forecast", *ADMIN, by_queue=True)
    def forecast(self, *, hours: float = 24, owner: str | None = None, limit: int = 100) -> Call[Forecast]:
        """Return what will fire in the next hours by the rules as they are now, and the minutes with several fires."""

        def fetch(here: Here) -> Any:
            return local.forecast(here, hours, owner, limit)

        query, gather = drop_none(hours=hours, owner=owner, limit=limit), local.forecast_everywhere
        return Call(Forecast, fetch, query=query, gather=lambda here: gather(here, hours, owner, limit))

    @GET("/forecast/next", *ADMIN, by_queue=True)
    def next_fires(self, *, owner: str | None = None, limit: int = 20) -> Call[tuple[UpcomingFire, ...]]:
        """Return the fires that come next, at most 100, in order; quick with any number of schedules."""

        def fetch(here: Here) -> Any:
            return local.next_fires(here, owner, limit)

        gather = over_all(fetch, partial(merges.merge_fires, limit=limit))
        return Call(tuple[UpcomingFire, ...], fetch, query=drop_none(owner=owner, limit=limit), gather=gather)

    @GET("/forecast/timetable", *ADMIN, by_queue=True)
    def timetable(
        self,
        *,
        days: int = 14,
        past: int = 7,
        zone: str = "UTC",
        hour: datetime | None = None,
        owner: str | None = None,
    ) -> Call[Timetable]:
        """Count fires by hour of a *zone*: those to come by the rules as they are, those of the *past* as recorded.

        With *hour*, an instant, the schedules of that hour are listed too.
        """

        def fetch(here: Here) -> Any:
            return local.timetable(here, days, past, zone, hour, owner)

        query, gather = drop_none(days=days, past=past, zone=zone, hour=hour, owner=owner), local.timetable_everywhere
        return Call(Timetable, fetch, query=query, gather=lambda here: gather(here, days, past, zone, hour, owner))

    # -- make and change -------------------------------------------------------------------------------------------

    @POST("/schedules", *ADMIN)
    def create(
        self, key: str, *, owner: str | None = None, reason: str = "", **timing: Unpack[Timing]
    ) -> Call[Schedule]:
        """Make a schedule, such as ``create("nightly", handler="report", cron="0 3 * * *", zone="Europe/Berlin")``.

        The handler is called like the schedule unless it is named.
        """
        schedule_key(key)
        fields = dict(timing)
        _check_payload(fields)
        values = {"handler": key, **schedule_fields(fields, new=True)}

        def make(here: Here) -> Any:
            zone = {"zone": here.origin.source} if "zone" in fields else {}  # also where it names the default
            owned_by = here.caller.resolve_owner(owner)
            new = Stored(key=key, owner=owned_by, sources=zone, **{**_inherited(here, fields), **values})
            return local.create(here, new, reason)

        body = {"key": key, **_fields_body(fields), **drop_none(reason=reason or None)}
        return Call(Schedule, make, query=drop_none(owner=owner), body=body)

    @PATCH("/schedules/{key}", *ADMIN)
    def change(
        self,
        key: str,
        *,
        version: int | None = None,
        owner: str | None = None,
        reason: str = "",
        **timing: Unpack[Timing],
    ) -> Call[Schedule]:
        """Change the given fields and keep the rest; None removes an optional value. The next fire is recomputed.

        With *version*, only if it is still of that version; else VersionConflict.
        """
        fields = dict(timing)
        _check_payload(fields)
        changes = schedule_fields(fields, new=False)

        def act(here: Here) -> Any:
            owned_by, by = here.caller.resolve_owner(owner), here.actor
            wanted = {**_inherited(here, fields), **changes}
            return schedules.change(here.world, key, wanted, owner=owned_by, version=version, actor=by, reason=reason)

        body = {**_fields_body(fields), **drop_none(reason=reason or None)}
        return Call(
            Schedule, act, at=_at(key), query=drop_none(owner=owner), body=body, headers=if_match_header(version)
        )

    @POST("/schedules/{key}/pause", *ADMIN)
    def pause(
        self, key: str, *, until: datetime | None = None, owner: str | None = None, reason: str = ""
    ) -> Call[Schedule]:
        """Pause a schedule: no fires *until* an instant, or until it is resumed; running jobs go on."""
        return _act(Schedule, schedules.pause, _at(key), owner, reason, repeats=True, until=until)

    @POST("/schedules/{key}/resume", *ADMIN)
    def resume(self, key: str, *, owner: str | None = None, reason: str = "") -> Call[Schedule]:
        """Resume a schedule from now on; missed fires are not made up for, except a single instant (once)."""
        return _act(Schedule, schedules.resume, _at(key), owner, reason, repeats=True)

    @POST("/schedules/groups/{group}/pause", *ADMIN)
    def pause_group(
        self, group: str, *, until: datetime | None = None, owner: str | None = None, reason: str = ""
    ) -> Call[ChangedGroup]:
        """Pause all schedules of a group, *until* an instant where given; return those that were not paused before."""
        return _act(ChangedGroup, local.pause_group, {"group": group}, owner, reason, until=until)

    @POST("/schedules/groups/{group}/resume", *ADMIN)
    def resume_group(self, group: str, *, owner: str | None = None, reason: str = "") -> Call[ChangedGroup]:
        """Resume all schedules of a group; return those that were paused before."""
        return _act(ChangedGroup, local.resume_group, {"group": group}, owner, reason)

    @DELETE("/schedules/{key}", *ADMIN)
    def delete(self, key: str, *, owner: str | None = None, reason: str = "") -> Call[None]:
        """Forget a schedule and the record of its fires; jobs that it made live on."""

        def act(here: Here) -> None:
            schedules.delete(here.world, key, owner=here.caller.resolve_owner(owner), actor=here.actor, reason=reason)

        return Call(None, act, at=_at(key), query=drop_none(owner=owner, reason=reason or None))

    # -- fire by hand ----------------------------------------------------------------------------------------------

    @POST("/schedules/{key}/trigger", *ADMIN)
    def trigger(
        self, key: str, parameters: Mapping[str, Any] | None = None, *, owner: str | None = None, reason: str = ""
    ) -> Call[Triggered]:
        """Run it once, now, on or off; *parameters* win over its own. It obeys overlap and is not retried."""
        sent = {"parameters": free(parameters)}
        return _act(Triggered, firing.trigger, _at(key), owner, reason, sent=sent, parameters=parameters)

    @POST("/schedules/{key}/backfill", *ADMIN)
    def backfill(
        self,
        key: str,
        start: datetime,
        end: datetime,
        *,
        spread: Span = 0,
        dry_run: bool = True,
        owner: str | None = None,
        reason: str = "",
    ) -> Call[Backfilled]:
        """Make up for fires that never became a job, at most 10,000; only count them unless *dry_run* is False."""
        options: dict[str, Any] = {"start": start, "end": end, "spread": span(spread), "dry_run": dry_run}
        return _act(Backfilled, local.backfill, _at(key), owner, reason, **options)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _at(key: str) -> dict[str, str]:
    return {"key": label(key, "schedule key", 200)}


def _check_payload(fields: Mapping[str, Any]) -> None:
    if not isinstance(fields.get("payload"), dict | None):
        raise InvalidInput("schedule_payload_no_object")


def _fields_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: Free(value) if name == "payload" else to_json(value) for name, value in fields.items()}


def _inherited(here: Here, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what cron takes over from the application unless it is given."""
    return {"lenient": True} if here.world.lenient and fields.get("cron") else {}


def _read(answer: Any, verb: Callable[..., Any], key: str, owner: str | None, **more: Any) -> Call[Any]:
    def fetch(here: Here) -> Any:
        return verb(here, key, owner, **more)

    return Call(answer, fetch, at=_at(key), query=drop_none(owner=owner, **more))


def _act(
    answer: Any,
    verb: Callable[..., Any],
    at: Mapping[str, str],
    owner: str | None,
    reason: str,
    *,
    repeats: bool = False,
    sent: Mapping[str, Any] | None = None,
    **more: Any,
) -> Call[Any]:
    def act(here: Here) -> Any:
        owned_by = here.caller.resolve_owner(owner)
        return verb(here.world, *at.values(), **more, owner=owned_by, actor=here.actor, reason=reason)

    body = drop_none(**{**more, **(sent or {})}, reason=reason or None)
    return Call(answer, act, at=at, query=drop_none(owner=owner), body=body, repeats=repeats)
