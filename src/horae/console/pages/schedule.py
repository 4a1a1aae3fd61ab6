"""One schedule: its rule in words, when it fires next, what became of each fire, who changed it and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.schedules.expectations import MissedRun
from horae.api.schedules.room import Schedules
from horae.api.schedules.values import Backfilled, Fire, Preview, ScheduleDetail, Version
from horae.console import drawing, states, times
from horae.console.pages.schedules import results_strip
from horae.console.rendering import pretty_json, render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, language, mark, ngettext
from horae.console.times import zone_named
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.schedules.expect import read_expect
from horae.errors import InvalidInput
from horae.words.languages import Language
from horae.words.sentences import verb_phrase

doors = Doors()
NEXT, PAST, CHANGES, MISSED = 10, 20, 20, 5
MOST_DRAWN = 40
LONGEST_BACKFILL = 366  # days
MISFIRES = {
    "fire_once": mark("it fires once for all that was missed"),
    "skip": mark("what was missed is left out"),
    "catch_up": mark("it makes up for the latest ones"),
}
OVERLAPS = {
    "skip": mark("the next one is left out"),
    "queue_one": mark("one more waits for its end"),
    "allow": mark("they run side by side"),
}
CALENDAR_RULES = {
    "exclude": mark("its days are left out"),
    "include": mark("only on its days"),
    "move": mark("its days move to the next other day"),
}
MISSED_STATES = {
    "open": mark("a run is missing"),
    "recovered": mark("a run was late"),
    "dropped": mark("a run was missing, and is not expected any more"),
}
BESIDE = {"version", "updated_at", "next_fire_at", "next_due_at", "last_fire_at", "fire_count", "tzdata"}


@dataclass(frozen=True)
class Seen:
    """What the page reads."""

    schedule: ScheduleDetail
    preview: Preview
    fires: tuple[Fire, ...]
    versions: tuple[Version, ...]
    missed: tuple[MissedRun, ...]


@dataclass(frozen=True)
class Coming:
    """A fire that will come, and whether the clocks of its zone change before it."""

    at: datetime
    there: str
    change: str


@dataclass(frozen=True)
class Change:
    """One change of a schedule: the fields that differ, before and after."""

    version: Version
    verb: str
    fields: tuple[tuple[str, str, str], ...]


@doors.page("/schedules/{key:path}", Schedules.get)
async def schedule(visit: Visit, key: str) -> Response:
    return await _show(visit, key)


async def _show(
    visit: Visit, key: str, backfill: Backfilled | None = None, problem: str = "", status: int = 200
) -> Response:
    owner = visit.query.get("owner") or visit.form.get("owner") or None
    seen = await visit.read(
        lambda rooms: Seen(
            rooms.schedules.get(key, owner=owner),
            rooms.schedules.preview(key, count=NEXT, owner=owner),
            rooms.schedules.history(key, owner=owner).page(limit=PAST).items,
            rooms.schedules.versions(key, owner=owner, limit=CHANGES),
            rooms.expectations.list(owner=owner, schedule=key).page(limit=MISSED).items,
        )
    )
    found = seen.schedule
    zone = zone_named(found.zone) or UTC
    other: Language = "zh" if language() == "en" else "en"
    return render(
        visit,
        "schedule.html",
        status,
        schedule=found,
        path=f"/schedules/{key}",
        owner=owner,
        words=found.words_in(visit.language),
        other_words=found.words_in(other),
        other_language=other,
        why=[states.sentence(each, visit.clock) for each in found.why],
        picture=_picture(visit, seen),
        strip=results_strip(visit, tuple(reversed(found.results)), len(found.results)) if found.results else "",
        if_missed=gettext(MISFIRES[found.misfire]),
        if_running=gettext(OVERLAPS[found.overlap]),
        calendar_rule=gettext(CALENDAR_RULES[found.calendar_rule]),
        expected=_expected(found, visit.language),
        missed=seen.missed,
        missing_words={state: gettext(text) for state, text in MISSED_STATES.items()},
        is_elsewhere=visit.now.astimezone(zone).utcoffset() != visit.now.astimezone(visit.clock.zone_for()).utcoffset(),
        coming=list(_coming(seen.preview.fires, zone, visit.now)),
        fires=seen.fires,
        changes=list(_changes(seen.versions)),
        may_act=visit.may("admin"),
        backfill=backfill,
        problem=problem,
        form=visit.form,
        states=states,
    )


# -- acts --------------------------------------------------------------------------------------------------------------


@doors.act("/schedules/{key:path}/trigger", Schedules.trigger)
async def trigger(visit: Visit, key: str) -> Response:
    owner, reason = _owner(visit), _reason(visit)
    done = await visit.act(lambda rooms: rooms.schedules.trigger(key, owner=owner, reason=reason))
    if done.job_id is None:
        text = _("It did not run: %(reason)s", reason=done.reason or "–")
        return visit.redirect(f"/schedules/{key}", Flash(text, "problem"), owner=owner)
    return visit.redirect(f"/jobs/{done.job_id}", Flash(_("%(key)s runs now, as this job.", key=key)))


@doors.act("/schedules/{key:path}/pause", Schedules.pause)
async def pause(visit: Visit, key: str) -> Response:
    owner, reason, until = _owner(visit), _reason(visit), visit.instant("until")
    await visit.act(lambda rooms: rooms.schedules.pause(key, until=until, owner=owner, reason=reason))
    undo = Flash(
        _("%(key)s is paused.", key=key), undo=f"/schedules/{key}/resume", undo_fields={"owner": owner or ""}
    )  # fmt: skip
    return visit.redirect(f"/schedules/{key}", undo, owner=owner)


@doors.act("/schedules/{key:path}/resume", Schedules.resume)
async def resume(visit: Visit, key: str) -> Response:
    owner, reason = _owner(visit), _reason(visit)
    await visit.act(lambda rooms: rooms.schedules.resume(key, owner=owner, reason=reason))
    undo = Flash(
        _("%(key)s fires again.", key=key), undo=f"/schedules/{key}/pause", undo_fields={"owner": owner or ""}
    )  # fmt: skip
    return visit.redirect(f"/schedules/{key}", undo, owner=owner)


@doors.act("/schedules/{key:path}/backfill", Schedules.backfill)
async def backfill(visit: Visit, key: str) -> Response:
    """Count what is missing in a range, and make up for it once that was seen."""
    owner, form = _owner(visit), visit.form
    try:
        start, end = (_instant(visit, form.get(name, "")) for name in ("start", "end"))
        if end - start > timedelta(days=LONGEST_BACKFILL):
            raise InvalidInput("window_empty", since=str(start), until=str(end))
    except (ValueError, InvalidInput):
        return await _show(visit, key, problem=_("Give a start and an end, at most a year apart."), status=422)
    is_dry = form.get("sure") != "yes"
    done = await visit.act(
        lambda rooms: rooms.schedules.backfill(
            key, start, end, dry_run=is_dry, owner=owner, reason=_reason(visit)
        )
    )  # fmt: skip
    if is_dry:
        return await _show(visit, key, done)
    text = ngettext("One fire is made up for.", "%(num)s fires are made up for.", len(done.job_ids))
    return visit.redirect(f"/schedules/{key}", Flash(text), owner=owner)


def _instant(visit: Visit, text: str) -> datetime:
    there = datetime.fromisoformat(text)
    return (there if there.tzinfo else there.replace(tzinfo=visit.clock.zone_for())).astimezone(UTC)


def _owner(visit: Visit) -> str | None:
    return visit.form.get("owner") or None


def _reason(visit: Visit) -> str:
    return visit.form.get("reason", "").strip()


# -- what the page shows -----------------------------------------------------------------------------------------------


def _picture(visit: Visit, seen: Seen) -> Markup:
    """Draw the last fires and the next ones around now."""
    past = [each for each in seen.fires if each.kind == "schedule"][:NEXT]
    coming = [each for each in seen.preview.fires if each > visit.now]
    since = min((each.fire_at for each in past), default=visit.now - timedelta(hours=1))
    until = max(coming, default=visit.now + timedelta(hours=1))
    margin = max((until - since) / 40, timedelta(seconds=1))
    window = drawing.Window(since - margin, until + margin, visit.now, visit.clock.zone_for(seen.schedule.zone))
    outcomes = {each.job_id: each.outcome for each in seen.schedule.results}
    shapes = [
        drawing.Shape(each.fire_at, None, _drawn(each, outcomes), _title(visit, each), side="up", ahead=False)
        for each in past
    ]
    shapes += [
        drawing.Shape(at, None, "fire", times.clock_time(at, visit.now, window.zone), side="up", level=0.6, ahead=True)
        for at in coming[:MOST_DRAWN]
    ]
    name = _("The last fires, and the next ones")
    label = _("now %(time)s", time=times.clock_time(visit.now, visit.now, window.zone))
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=36, below=2))


def _drawn(fire: Fire, outcomes: dict[str, str]) -> str:
    if fire.verdict == "ran":
        return states.DRAWN.get(outcomes.get(fire.job_id or "", "succeeded"), "done")
    return "failed" if fire.verdict == "failed" else "skipped"


def _title(visit: Visit, fire: Fire) -> str:
    at = times.clock_time(fire.fire_at, visit.now, visit.clock.zone_for())
    return f"{at} {states.word(fire.verdict)}"


def _coming(fires: Sequence[datetime], zone: tzinfo, now: datetime) -> Iterator[Coming]:
    """Return the next fires on the schedule's own clock; say where that clock is changed before one of them."""
    before = now.astimezone(zone).utcoffset()
    for at in fires:
        there = at.astimezone(zone)
        offset = there.utcoffset()
        change = ""
        if offset != before and offset is not None and before is not None:
            change = _("after clocks go forward") if offset > before else _("after clocks go back")
        before = offset
        yield Coming(at, f"{times.clock_time(at, now, zone)} {times.zone_label(there)}", change)


def _expected(schedule: ScheduleDetail, language: Language) -> str:
    """Return what is expected of a schedule, in words."""
    return "" if schedule.expect is None else read_expect(schedule.expect).describe(language, schedule.zone)


def _changes(versions: Sequence[Version]) -> Iterator[Change]:
    for each in versions:
        names = sorted({*each.before, *each.after} - BESIDE)
        fields = tuple(
            (name, _short(each.before.get(name)), _short(each.after.get(name)))
            for name in names
            if each.before.get(name) != each.after.get(name)
        )
        yield Change(each, verb_phrase(each.verb, language()), fields)


def _short(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else pretty_json(value)
