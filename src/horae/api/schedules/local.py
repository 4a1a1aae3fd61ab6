"""The operations of schedules in this process, on behalf of a caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.consistency import moment
from horae.actions.jobs.quiet_owners import hours_of, list_owners, quiet_until, why_later
from horae.actions.schedules import fires as firing
from horae.actions.schedules import groups, schedules
from horae.actions.schedules.admission import admit
from horae.actions.schedules.forecast import active
from horae.actions.schedules.forecast import forecast as compute_forecast
from horae.actions.schedules.forecast import next_fires as compute_next_fires
from horae.actions.schedules.timetable import Hours, put_together, read_records
from horae.actions.schedules.timetable import Timetable as StoredTimetable
from horae.actions.schedules.timetable import timetable as compute_timetable
from horae.api.gather import Merged
from horae.api.here import Here
from horae.api.jobs.room import Reason
from horae.api.schedules.timetable import Timetable, TimetableEntry, TimetableHour
from horae.api.schedules.values import (
    Backfilled,
    ChangedGroup,
    Fire,
    Forecast,
    PileUp,
    Preview,
    RunSummary,
    ScheduleDetail,
    ScheduleResult,
    UpcomingFire,
)
from horae.api.schedules.values import Schedule as PublicSchedule
from horae.api.shards import ask_each
from horae.api.values import enrich, to_public
from horae.core.audit.entries import Entry
from horae.core.cursors import MAX_PAGE, cursor_from, page_size, read_cursor
from horae.core.jobs.masking import mask_text, secrets_of
from horae.core.jobs.payloads import label, name
from horae.core.schedules.schedule import KINDS, MODES, Schedule
from horae.core.schedules.status import why_silent
from horae.core.time.instants import instant, micros
from horae.errors import InvalidInput
from horae.ports.queues import OwnerHours
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.ports.world import World

MOST_FIRES = 1000  # fires of a backfill in one answer
LATEST = 2**62 // 100  # microseconds: no row has a later instant


# -- look --------------------------------------------------------------------------------------------------------------


def find(
    here: Here, wanted: ScheduleFilter, results: int, order: str, cursor: str | None, limit: int
) -> tuple[list[Any], str | None]:
    """Return one page of the schedules that the caller sees, by key or by when they are due next.

    Each has so many of its last results.
    """
    if order == "next":
        return _find_by_next(here, wanted, results, cursor, limit)
    begin = read_cursor(cursor, str, int, longest=200)
    after = None if begin is None else Schedule(begin[0], "-", "after", "", number=begin[1])  # as the store expects it
    size = min(page_size(limit), MAX_PAGE - 1)
    with moment(here.world):
        found = schedules.find(here.world, _check_filter(here, wanted), limit=size + 1, after=after)
        last = found[size - 1] if len(found) > size else None
        page = _with_results(here, found[:size], results) if results else found[:size]
    return page, None if last is None else cursor_from([last.key, last.number])


def by_next(schedule: Any) -> Any:
    """Return by what schedules are merged in the order of their next fires: those without one come last."""
    at = schedule.next_fire_at
    return at is None, 0 if at is None else micros(at), schedule.key


def _find_by_next(
    here: Here, wanted: ScheduleFilter, results: int, cursor: str | None, limit: int
) -> tuple[list[Any], str | None]:
    begin = read_cursor(cursor, int, int, most=LATEST)
    after = None if begin is None else (instant(begin[0]) if begin[0] else None, begin[1])
    size = min(page_size(limit), MAX_PAGE - 1)
    with moment(here.world):
        found = schedules.find_by_next(here.world, _check_filter(here, wanted), limit=size + 1, after=after)
        last = found[size - 1] if len(found) > size else None
        page = _with_results(here, found[:size], results) if results else found[:size]
    due = 0 if last is None or last.next_due_at is None else micros(last.next_due_at)
    return page, None if last is None else cursor_from([due, last.number])


def _with_results(here: Here, found: list[Schedule], count: int) -> list[PublicSchedule]:
    results = schedules.last_results(here.world, found, count)
    return [
        enrich(PublicSchedule, each, results=to_public(tuple[ScheduleResult, ...], results[each.number]))
        for each in found
    ]


def _check_filter(here: Here, wanted: ScheduleFilter) -> ScheduleFilter:
    """Return a filter limited to what the caller sees; a value that no schedule can have is refused."""
    for what, value, allowed in (("kind", wanted.kind, KINDS), ("mode", wanted.mode, MODES)):
        if value is not None and value not in allowed:
            raise InvalidInput("choice_unknown", name=what, value=str(value), choices=list(allowed))
    return replace(
        wanted,
        owner=here.caller.filter_owner(None if wanted.owner is None else label(wanted.owner, "owner")),
        group=None if wanted.group is None else label(wanted.group, "group"),
        handler=None if wanted.handler is None else label(wanted.handler, "handler"),
        text=None if wanted.text is None else label(wanted.text, "text", 200),
        queues=tuple(sorted(here.caller.queues)),
    )


def _get(here: Here, key: str, owner: str | None) -> Schedule:
    return schedules.get(here.world, key, owner=here.caller.resolve_owner(owner), queues=here.caller.queues)


def detail(here: Here, key: str, owner: str | None) -> ScheduleDetail:
    """Return a schedule with its runs and the reasons why it does not fire, read in one moment."""
    with moment(here.world):
        found = _get(here, key, owner)
        tally, hours = schedules.tally(here.world, found), hours_of(here.world, found.owner)
        results = to_public(tuple[ScheduleResult, ...], schedules.last_results(here.world, [found])[found.number])
    error = None if tally.last_error is None else mask_text(tally.last_error, secrets_of(found.payload))
    runs = to_public(RunSummary, replace(tally, last_error=error))
    why = (*why_silent(found, here.world.clock.now()), *why_later(hours, found.next_due_at))
    reasons = to_public(tuple[Reason, ...], why)
    made: ScheduleDetail = enrich(ScheduleDetail, found, runs=runs, why=reasons, results=results)
    return made


def history(
    here: Here, key: str, owner: str | None, cursor: str | None, limit: int
) -> tuple[list[Fire], str | None]:  # fmt: skip
    """Return one page of what became of each due fire, the newest first."""
    begin = read_cursor(cursor, int, most=LATEST)
    before, size = None if begin is None else instant(begin[0]), page_size(limit)
    owned_by, queues = here.caller.resolve_owner(owner), here.caller.queues
    found = schedules.history(here.world, key, owner=owned_by, queues=queues, limit=size, before=before)
    more = cursor_from([micros(found[-1][0].fire_at)]) if len(found) >= size else None
    return [enrich(Fire, fire, job_id=job_id) for fire, job_id in found], more


def versions(here: Here, key: str, owner: str | None, *, limit: int) -> list[Entry]:
    owned_by, queues = here.caller.resolve_owner(owner), here.caller.queues
    return schedules.versions(here.world, key, owner=owned_by, queues=queues, limit=page_size(limit))


def preview(here: Here, key: str, owner: str | None, *, count: int) -> Preview:
    found = _get(here, key, owner)
    fires, hours = schedules.preview(here.world, found, count), hours_of(here.world, found.owner)
    return Preview(key=key, fires=tuple(fires), starts=tuple(quiet_until(hours, at) or at for at in fires))


def forecast(here: Here, hours: float, owner: str | None, limit: int) -> Forecast:
    owned_by, queues = here.caller.filter_owner(owner), here.caller.queues
    known = active(here.world, owner=owned_by, queues=queues)
    return _forecast(here, hours, limit, known, list_owners(here.world.route(owner=owned_by)))


def forecast_everywhere(here: Here, hours: float, owner: str | None, limit: int) -> Merged:
    """Read the schedules and quiet hours of every database, and compute once: fires of several may come together."""
    owned_by, queues = here.caller.filter_owner(owner), here.caller.queues

    def read(there: Here, _: int) -> tuple[list[Schedule], list[OwnerHours]]:
        return list(active(there.world, owner=owned_by, queues=queues)), list_owners(there.world)

    found, away = ask_each(here, read)
    known = [schedule for schedules, _ in found.values() for schedule in schedules]
    return Merged(_forecast(here, hours, limit, known, [each for _, quiet in found.values() for each in quiet]), away)


def _forecast(
    here: Here, hours: float, limit: int, known: Iterable[Schedule], quiet: Iterable[OwnerHours]
) -> Forecast:  # fmt: skip
    since = here.world.clock.now()
    ahead = compute_forecast(here.world, hours, limit=page_size(limit), among=known)
    return Forecast(
        since=since,
        until=ahead.until,
        complete=ahead.complete,
        total=ahead.total,
        fires=_with_starts(quiet, ahead.fires),
        pile_ups=tuple(PileUp(minute=minute, fires=fires) for minute, fires in ahead.piles),
    )


def timetable(
    here: Here, days: int, past: int, zone: str, hour: datetime | None, owner: str | None
) -> Timetable:  # fmt: skip
    owned_by, queues = here.caller.filter_owner(owner), here.caller.queues
    found = compute_timetable(
        here.world, days=days, past=past, zone=zone, hour=hour, owner=owned_by, queues=queues
    )  # fmt: skip
    return _timetable(here.world.clock.now(), zone, found)


def timetable_everywhere(
    here: Here, days: int, past: int, zone: str, hour: datetime | None, owner: str | None
) -> Merged:  # fmt: skip
    owned_by, queues = here.caller.filter_owner(owner), here.caller.queues
    hours = Hours.around(here.world.clock.now(), days=days, past=past, zone=zone, hour=hour)
    found, away = ask_each(here, lambda there, _: read_records(there.world, hours, owner=owned_by, queues=queues))
    return Merged(_timetable(hours.now, zone, put_together(hours, list(found.values()))), away)


def _timetable(now: datetime, zone: str, found: StoredTimetable) -> Timetable:
    return Timetable(
        now=now,
        since=found.since,
        until=found.until,
        complete=found.complete,
        past_complete=found.past_complete,
        schedules=found.schedules,
        zone=zone,
        hours=tuple(
            TimetableHour(at=at, fires=each.fires, ran=each.ran, missed=each.missed) for at, each in found.hours.items()
        ),
        pile_ups=tuple(PileUp(minute=minute, fires=fires) for minute, fires in found.piles),
        entries=tuple(
            enrich(TimetableEntry, each.schedule, fires=each.fires, ran=each.ran, missed=each.missed)
            for each in found.entries
        ),
    )


def next_fires(here: Here, owner: str | None, limit: int) -> list[UpcomingFire]:
    owned_by, queues = here.caller.filter_owner(owner), here.caller.queues
    found = compute_next_fires(here.world, owner=owned_by, queues=queues, limit=limit)
    return list(_with_starts(list_owners(here.world.route(owner=owned_by)), found))


def _with_starts(
    quiet: Iterable[OwnerHours], fires: Iterable[tuple[datetime, Schedule]]
) -> tuple[UpcomingFire, ...]:  # fmt: skip
    """Return fires with the instants at which the quiet hours of their owners let their jobs start."""
    hours = {each.owner: each for each in quiet}
    return tuple(
        enrich(UpcomingFire, each, at=at, starts_at=quiet_until(hours.get(each.owner), at)) for at, each in fires
    )


# -- act ---------------------------------------------------------------------------------------------------------------


def create(here: Here, new: Schedule, reason: str) -> Schedule:
    origin = here.origin
    new = replace(new, sources={**new.sources, **origin.sources})

    def admits(tx: Tx) -> None:
        if origin.most:
            admit(here.world, tx, new, origin.most)

    return schedules.create(here.world, new, actor=here.actor, reason=reason, source=origin.source, admits=admits)


def pause_group(world: World, group: str, **why: Any) -> ChangedGroup:
    return _change_group(groups.pause_group, world, group, why)


def resume_group(world: World, group: str, **why: Any) -> ChangedGroup:
    return _change_group(groups.resume_group, world, group, why)


def _change_group(
    verb: Callable[..., list[Schedule]], world: World, group: str, why: dict[str, Any]
) -> ChangedGroup:  # fmt: skip
    changed = verb(world, name(group, "group"), **why)
    return ChangedGroup(group=group, changed=tuple(each.key for each in changed))


def backfill(
    world: World, key: str, *, start: datetime, end: datetime, spread: timedelta, dry_run: bool, **why: Any
) -> Backfilled:
    done = firing.backfill(world, key, start, end, dry_run=dry_run, spread=spread, **why)
    return Backfilled(
        fires=done.fires[:MOST_FIRES],
        missing=len(done.fires),
        present=done.present,
        job_ids=done.job_ids,
        dry_run=dry_run,
    )
