"""Schedules: when handlers run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from horae.api.operation import DELETE, GET, PAGES, PATCH, POST, Call, Listing, Room, S, matching
from horae.api.values import given, to_json
from horae.client import reading
from horae.client.schedule_answers import (
    Backfilled,
    Fire,
    Forecast,
    Group,
    Preview,
    Schedule,
    ScheduleDetail,
    ScheduleTriggered,
    Version,
)


class Timing(TypedDict, total=False):
    """What makes a schedule fire, and how: one of cron, every, once and after; spans in seconds or as timedelta."""

    cron: str
    every: float | timedelta
    once: datetime
    after: Iterable[str]
    handler: str
    zone: str
    title: str | None
    group: str | None
    payload: Mapping[str, Any]
    queue: str
    priority: str
    day_match: str
    gap: str
    fold: str
    lenient: bool
    anchor: str
    initial_delay: float | timedelta
    misfire: str
    catch_up: int
    spread: float | timedelta
    grace: float | timedelta
    overlap: str
    jitter: float | timedelta
    retry: Mapping[str, Any]
    timeout: float | timedelta | None
    mode: str
    lock_ttl: float | timedelta | None
    stale_timeout: float | timedelta | None
    starts_at: datetime | None
    ends_at: datetime | None
    max_fires: int | None
    enabled: bool


class Schedules(Room[S]):
    """Needs a token with the scope ``admin``; *owner* is whose, the house's own unless told."""

    # -- look ----------------------------------------------------------------------------------------------------

    @PAGES("/schedules")
    def list(
        self,
        *,
        owner: str | None = None,
        group: str | None = None,
        handler: str | None = None,
        kind: str | None = None,
        mode: str | None = None,
        enabled: bool | None = None,
        declared: bool | None = None,
        limit: int | None = None,
    ) -> Listing[Schedule]:
        """Schedules by key; without *owner* an operator sees everybody's."""
        query = given(
            owner=owner, group=group, handler=handler, kind=kind, mode=mode, enabled=enabled, declared=declared
        )
        return Listing(Call(read=reading.page(Schedule, "schedules"), query=query), limit)

    @GET("/schedules/{key}")
    def get(self, key: str, *, owner: str | None = None) -> Call[ScheduleDetail]:
        """One schedule, and how its runs went."""
        return Call(read=reading.one(ScheduleDetail), at={"key": key}, query=given(owner=owner))

    @PAGES("/schedules/{key}/history")
    def history(self, key: str, *, owner: str | None = None, limit: int | None = None) -> Listing[Fire]:
        """What became of each due fire, newest first."""
        return Listing(Call(read=reading.page(Fire, "fires"), at={"key": key}, query=given(owner=owner)), limit)

    @GET("/schedules/{key}/versions")
    def versions(self, key: str, *, owner: str | None = None, limit: int | None = None) -> Call[tuple[Version, ...]]:
        """Who changed it, how and why, newest first."""
        return Call(read=reading.many(Version, "versions"), at={"key": key}, query=given(owner=owner, limit=limit))

    @GET("/schedules/{key}/preview")
    def preview(self, key: str, *, count: int | None = None, owner: str | None = None) -> Call[Preview]:
        """The next fires, as if it were neither paused nor off."""
        return Call(read=reading.one(Preview), at={"key": key}, query=given(count=count, owner=owner))

    @GET("/forecast")
    def forecast(
        self, *, hours: float | None = None, owner: str | None = None, limit: int | None = None
    ) -> Call[Forecast]:
        """What will fire in the next hours, and when many things come together."""
        return Call(read=reading.one(Forecast), query=given(hours=hours, owner=owner, limit=limit))

    # -- make and change -----------------------------------------------------------------------------------------

    @POST("/schedules")
    def create(
        self, key: str, *, owner: str | None = None, reason: str = "", **timing: Unpack[Timing]
    ) -> Call[Schedule]:
        """Make a schedule, such as ``create("nightly", handler="report", cron="0 3 * * *", zone="Europe/Berlin")``."""
        body = {"key": key, **_plain(timing), **given(reason=reason or None)}
        return Call(read=reading.one(Schedule), query=given(owner=owner), body=body)

    @PATCH("/schedules/{key}")
    def change(
        self,
        key: str,
        *,
        version: int | None = None,
        owner: str | None = None,
        reason: str = "",
        **timing: Unpack[Timing],
    ) -> Call[Schedule]:
        """Change what is named and keep the rest; None lifts what may be absent.

        With *version*, only if it is still of that version; else VersionConflict.
        """
        body = {**_plain(timing), **given(reason=reason or None)}
        query, headers = given(owner=owner), matching(version)
        return Call(read=reading.one(Schedule), at={"key": key}, query=query, body=body, headers=headers)

    @POST("/schedules/{key}/pause")
    def pause(self, key: str, *, owner: str | None = None, reason: str = "") -> Call[Schedule]:
        """No fires until it is resumed."""
        return _act(key, owner, reason)

    @POST("/schedules/{key}/resume")
    def resume(self, key: str, *, owner: str | None = None, reason: str = "") -> Call[Schedule]:
        """Fire again from now on."""
        return _act(key, owner, reason)

    @POST("/schedules/groups/{group}/pause")
    def pause_group(self, group: str, *, owner: str | None = None, reason: str = "") -> Call[Group]:
        """Pause all schedules of a group; says which were not paused before."""
        return _act_on_group(group, owner, reason)

    @POST("/schedules/groups/{group}/resume")
    def resume_group(self, group: str, *, owner: str | None = None, reason: str = "") -> Call[Group]:
        """Resume all schedules of a group; says which were paused before."""
        return _act_on_group(group, owner, reason)

    @DELETE("/schedules/{key}")
    def delete(self, key: str, *, owner: str | None = None, reason: str = "") -> Call[None]:
        """Forget a schedule and the record of its fires; jobs that it made live on."""
        return Call(read=reading.nothing, at={"key": key}, query=given(owner=owner, reason=reason or None))

    # -- fire by hand --------------------------------------------------------------------------------------------

    @POST("/schedules/{key}/trigger")
    def trigger(
        self,
        key: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        owner: str | None = None,
        reason: str = "",
    ) -> Call[ScheduleTriggered]:
        """Run it once, now, on or off; *parameters* win over its own."""
        body = given(parameters=parameters, reason=reason or None)
        return Call(read=reading.one(ScheduleTriggered), at={"key": key}, query=given(owner=owner), body=body)

    @POST("/schedules/{key}/backfill")
    def backfill(
        self,
        key: str,
        start: datetime,
        end: datetime,
        *,
        spread: float | timedelta = 0,
        dry_run: bool = True,
        owner: str | None = None,
        reason: str = "",
    ) -> Call[Backfilled]:
        """Make up for fires that never became a job; only counts them unless *dry_run* is False."""
        body = given(start=start, end=end, spread=spread, dry_run=dry_run, reason=reason or None)
        return Call(read=reading.one(Backfilled), at={"key": key}, query=given(owner=owner), body=body)


def _plain(timing: Timing) -> dict[str, Any]:
    return {name: to_json(value) for name, value in timing.items()}


def _act(key: str, owner: str | None, reason: str) -> Call[Schedule]:
    """Pausing or resuming twice ends as once."""
    body = given(reason=reason or None)
    return Call(read=reading.one(Schedule), at={"key": key}, query=given(owner=owner), body=body, repeats=True)


def _act_on_group(group: str, owner: str | None, reason: str) -> Call[Group]:
    return Call(
        read=reading.one(Group), at={"group": group}, query=given(owner=owner), body=given(reason=reason or None)
    )
