"""Tasks that users schedule themselves: which are on, what each ran, when it runs next (document 001's page)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from markupsafe import Markup
from starlette.responses import Response

from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.api.scheduled_tasks.room import ScheduledTasks
from horae.api.scheduled_tasks.values import ScheduledTask, ScheduledTaskRun, TaskLimits, TaskPreview
from horae.console import drawing, states, times
from horae.console.rendering import number, render
from horae.console.routing import Doors
from horae.console.texts import _, language, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.errors import Conflict, InvalidInput, NotAllowed
from horae.words.languages import Language

doors = Doors()
PAGE, RUNS, NEXT = 50, 50, 5
DRAWN_RUNS = 10
REACH = timedelta(hours=12)  # shown before and after now
NEVER = datetime.max.replace(tzinfo=UTC)
DRAWN = {"success": "done", "failed": "failed", "running": "running"}
OUTCOMES = {"success": "succeeded"}  # document 001's word, and the state whose shape it has
REFUSALS = (Conflict, InvalidInput, NotAllowed)  # said on the page that the reader came from


@dataclass(frozen=True)
class Seen:
    """What the page of one task reads."""

    task: ScheduledTask
    other_words: str
    preview: TaskPreview
    runs: tuple[ScheduledTaskRun, ...]
    next_cursor: str | None


@doors.page("/tasks", ScheduledTasks.list)
async def tasks(visit: Visit) -> Response:
    cursor, user = visit.query.get("cursor"), visit.query.get("user", "").strip()
    page, limits = await visit.read(
        lambda rooms: (
            rooms.scheduled_tasks.list(user_id=user or None, lang=visit.language).page(cursor, limit=PAGE),
            rooms.scheduled_tasks.limits() if visit.may("tasks") else None,
        )
    )
    is_tenant, is_whole = visit.known.sees is not None, cursor is None and page.next_cursor is None
    return render(
        visit,
        "tasks.html",
        rows=[(each, status(each)) for each in (_next_first(page.items) if is_whole else page.items)],
        next_cursor=page.next_cursor,
        is_first=cursor is None,
        is_tenant=is_tenant,
        user=user,
        sentence=_sentence(page.items, visit.now),
        quota=_quota(limits) if limits and is_tenant else "",
        picture=_picture(visit, page.items),
        may_act=visit.may("tasks"),
        states=states,
        outcomes=OUTCOMES,
    )


@doors.page("/tasks/{task_id}", ScheduledTasks.get)
async def task(visit: Visit, task_id: str) -> Response:
    cursor = visit.query.get("cursor")
    other: Language = "zh" if language() == "en" else "en"
    seen = await visit.read(lambda rooms: _read(rooms, task_id, visit.language, other, cursor))
    return render(
        visit,
        "task.html",
        task=seen.task,
        state_now=status(seen.task),
        other_words=seen.other_words,
        other_language=other,
        preview=seen.preview,
        coming=list(occasions(visit, seen.preview)),
        is_elsewhere=is_elsewhere(visit, seen.task.timezone),
        runs=[(each, _took(each, visit.now)) for each in seen.runs],
        next_cursor=seen.next_cursor,
        is_first=cursor is None,
        picture=_runs_picture(visit, seen),
        path=f"/tasks/{task_id}",
        is_tenant=visit.known.sees is not None,
        may_act=visit.may("tasks"),
        states=states,
        outcomes=OUTCOMES,
    )


def _read(rooms: Rooms[Sender], task_id: str, lang: Language, other: Language, cursor: str | None) -> Seen:
    page = rooms.scheduled_tasks.runs(task_id).page(cursor, limit=RUNS)
    return Seen(
        rooms.scheduled_tasks.get(task_id, lang=lang),
        rooms.scheduled_tasks.get(task_id, lang=other).words,
        rooms.scheduled_tasks.preview(task_id, count=NEXT, lang=lang),
        page.items,
        page.next_cursor,
    )


def status(task: ScheduledTask) -> str:
    """Return the state of a task as it is shown."""
    if task.locked_by is not None:
        return "running"
    if task.inactive:
        return "inactive"
    if task.enabled:
        return "active"
    return "ended" if task.schedule_type == "once" and task.last_run_at is not None else "disabled"


# -- acts --------------------------------------------------------------------------------------------------------------


@doors.act("/tasks/{task_id}/toggle", ScheduledTasks.change)
async def toggle(visit: Visit, task_id: str) -> Response:
    enabled, back = visit.form.get("enabled") == "yes", visit.form.get("back", "")
    to = "/tasks" if back == "list" else f"/tasks/{task_id}"
    try:
        after = await visit.act(lambda rooms: rooms.scheduled_tasks.change(task_id, enabled=enabled))
    except REFUSALS as refusal:
        return visit.redirect(to, _problem(visit, refusal))
    text = _("%(name)s is on.", name=after.name) if enabled else _("%(name)s is off.", name=after.name)
    undo = {"enabled": "no" if enabled else "yes", "back": back}
    return visit.redirect(to, Flash(text, undo=f"/tasks/{task_id}/toggle", undo_fields=undo))


@doors.act("/tasks/{task_id}/trigger", ScheduledTasks.trigger)
async def trigger(visit: Visit, task_id: str) -> Response:
    try:
        await visit.act(lambda rooms: rooms.scheduled_tasks.trigger(task_id))
    except REFUSALS as refusal:
        return visit.redirect(f"/tasks/{task_id}", _problem(visit, refusal))
    return visit.redirect(f"/tasks/{task_id}", Flash(_("It runs now, once. Its result appears below.")))


@doors.act("/tasks/{task_id}/delete", ScheduledTasks.delete)
async def delete(visit: Visit, task_id: str) -> Response:
    gone = await visit.read(lambda rooms: rooms.scheduled_tasks.get(task_id))
    reason = visit.form.get("reason", "").strip()
    await visit.act(lambda rooms: rooms.scheduled_tasks.delete(task_id, reason=reason))
    return visit.redirect("/tasks", Flash(_("%(name)s is deleted.", name=gone.name)))


def _problem(visit: Visit, refusal: Conflict | InvalidInput | NotAllowed) -> Flash:
    return Flash(refusal.in_words(visit.language), "problem")


# -- what the pages show -----------------------------------------------------------------------------------------------


def _sentence(tasks: Sequence[ScheduledTask], now: datetime) -> str:
    """Say what comes next; what failed last is said first."""
    failed = [each for each in tasks if each.last_status == "failed" and each.enabled]
    if failed:
        return ngettext(
            "%(name)s failed the last time.", "%(num)s tasks failed the last time.", len(failed), name=failed[0].name
        )
    coming = min((each for each in tasks if each.next_run_at), key=lambda each: each.next_run_at or now, default=None)
    if coming is not None and coming.next_run_at is not None:
        when = times.relative(max(coming.next_run_at, now), now)
        return _("%(name)s runs next, %(when)s.", name=coming.name, when=when)
    return _("No task is on.") if tasks else _("No task yet.")


def _next_first(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return what runs next first, and what does not run last."""
    return sorted(tasks, key=lambda each: each.next_run_at or NEVER)


def _quota(limits: TaskLimits) -> str:
    if not limits.max_enabled:
        return ngettext("One task is on.", "%(num)s tasks are on.", limits.enabled)
    return ngettext(
        "One task is on; at most %(most)s can be.", "%(num)s tasks are on; at most %(most)s can be.", limits.enabled,
        most=number(limits.max_enabled),
    )  # fmt: skip


def occasions(visit: Visit, preview: TaskPreview) -> Iterator[tuple[datetime, str]]:
    """Return the next runs, each with what clocks in the zone of the task show."""
    zone = times.zone_named(preview.timezone) or UTC
    for each in preview.next:
        label = times.zone_label(each.at.astimezone(zone))
        yield each.at, f"{times.clock_time(each.at, visit.now, zone)} {label}"


def is_elsewhere(visit: Visit, zone: str) -> bool:
    """Return whether clocks in a zone show another time than the reader's."""
    there = visit.now.astimezone(times.zone_named(zone) or UTC)
    return there.utcoffset() != visit.now.astimezone(visit.clock.zone_for()).utcoffset()


def _took(run: ScheduledTaskRun, now: datetime) -> timedelta | None:
    return None if run.started_at is None else (run.finished_at or now) - run.started_at


def _picture(visit: Visit, tasks: Sequence[ScheduledTask]) -> Markup:
    """Draw the last and the next run of each task around now."""
    now, zone = visit.now, visit.clock.zone_for()
    window = drawing.Window(now - REACH, now + REACH, now, zone)
    shapes = [
        drawing.Shape(each.last_run_at, None, DRAWN[each.last_status], _at(visit, each.name, each.last_run_at, zone),
                      side="up", ahead=False)
        for each in tasks
        if each.last_run_at is not None and each.last_status and each.last_run_at > window.since
    ]  # fmt: skip
    shapes += [
        drawing.Shape(each.next_run_at, None, "fire", _at(visit, each.name, each.next_run_at, zone), side="up",
                      level=0.6, ahead=True)
        for each in tasks
        if each.next_run_at is not None and now < each.next_run_at < window.until
    ]  # fmt: skip
    return _band(visit, window, shapes, _("The last and the next run of each task"))


def _runs_picture(visit: Visit, seen: Seen) -> Markup:
    """Draw what the task ran and when it runs next."""
    ran = [each for each in seen.runs[:DRAWN_RUNS] if each.started_at is not None]
    coming = [each.at for each in seen.preview.next if each.at > visit.now]
    since = min((each.started_at for each in ran if each.started_at), default=visit.now - timedelta(hours=1))
    until = max(coming, default=visit.now + timedelta(hours=1))
    margin = max((until - since) / 40, timedelta(seconds=1))
    window = drawing.Window(since - margin, until + margin, visit.now, visit.clock.zone_for(seen.task.timezone))
    shapes = [
        drawing.Shape(each.started_at, None, DRAWN[each.status],
                      _at(visit, states.word(OUTCOMES.get(each.status, each.status)), each.started_at, window.zone),
                      side="up", ahead=False)
        for each in ran
        if each.started_at is not None
    ]  # fmt: skip
    shapes += [
        drawing.Shape(at, None, "fire", times.clock_time(at, visit.now, window.zone), side="up", level=0.6, ahead=True)
        for at in coming
    ]
    return _band(visit, window, shapes, _("The last runs, and the next ones"))


def _at(visit: Visit, what: str, at: datetime, zone: tzinfo) -> str:
    return f"{times.clock_time(at, visit.now, zone)} {what}"


def _band(visit: Visit, window: drawing.Window, shapes: Sequence[drawing.Shape], name: str) -> Markup:
    label = _("now %(time)s", time=times.clock_time(visit.now, visit.now, window.zone))
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=36, below=2))
