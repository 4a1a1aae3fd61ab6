"""Queues: which wait, which are served, and how; one queue with its last twelve hours and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from horae.api.operation import Sender
from horae.api.queues import QueueDetail, Queues
from horae.api.rooms import Rooms
from horae.api.statistics import Figures
from horae.console import endings
from horae.console.rendering import MOST, number, render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.jobs.job import ORDERS
from horae.core.jobs.turns import FAIR
from horae.core.statistics import Scope
from horae.errors import InvalidInput

doors = Doors()
DAY = timedelta(days=1)


@doors.page("/queues", Queues.list)
async def queues(visit: Visit) -> Response:
    found, figures, ended = await visit.read(lambda rooms: (rooms.queues.list(), *_figures(rooms, visit, "total")))
    by_name = {each.name: each for each in figures}
    return render(
        visit, "queues.html", queues=found, figures=by_name, sentence=_sentence(found), lead=_lead(found),
        **_pictures(visit, ended),
    )  # fmt: skip


@doors.page("/queues/{name}", Queues.get)
async def queue(visit: Visit, name: str) -> Response:
    found, figures, ended = await visit.read(
        lambda rooms: (rooms.queues.get(name), *_figures(rooms, visit, "queue", name))
    )
    today: Figures | None = next((each for each in figures if each.name == name), None)
    lead = _lead([found])
    return render(visit, "queue.html", queue=found, today=today, orders=ORDERS, lead=lead, **_pictures(visit, ended))


def _figures(
    rooms: Rooms[Sender], visit: Visit, by: Scope, name: str = ""
) -> tuple[tuple[Figures, ...], tuple[Figures, ...]]:
    """Return the figures of a day by queue, and what ended in the last hours; a caller of some queues sees neither."""
    if visit.known.queues:
        return (), ()
    day = rooms.statistics.list("queue", since=visit.now - DAY, limit=1000)
    return day, rooms.statistics.series(by, name, grain="minute", since=visit.now - endings.REACH)


def _pictures(visit: Visit, ended: Sequence[Figures]) -> dict[str, Any]:
    """Return what the part of the page with the last hours shows."""
    found = endings.bars(visit.now - endings.REACH, visit.now, endings.WIDTH, ended)
    wide, narrow = (endings.past(visit, ended, width) for width in (endings.WIDTH, endings.WIDER))
    return {"picture": wide, "narrow_picture": narrow, "hours": endings.by_hour(found)}


@doors.act("/queues/{name}/pause", Queues.pause)
async def pause(visit: Visit, name: str) -> Response:
    until, reason = visit.instant("until"), visit.form.get("reason", "")
    await visit.act(lambda rooms: rooms.queues.pause(name, until=until, reason=reason))
    return visit.redirect(f"/queues/{name}", Flash(_("Paused. Running jobs go on."), undo=f"/queues/{name}/resume"))


@doors.act("/queues/{name}/resume", Queues.resume)
async def resume(visit: Visit, name: str) -> Response:
    await visit.act(lambda rooms: rooms.queues.resume(name, reason=visit.form.get("reason", "")))
    return visit.redirect(f"/queues/{name}", Flash(_("Resumed."), undo=f"/queues/{name}/pause"))


@doors.act("/queues/{name}/quiet", Queues.quiet)
async def quiet(visit: Visit, name: str) -> Response:
    hours, zone = visit.form.get("quiet_hours", "").strip() or None, visit.form.get("zone", "").strip() or "UTC"
    reason = visit.form.get("reason", "")
    await visit.act(lambda rooms: rooms.queues.quiet(name, hours, zone=zone, reason=reason))
    text = _("It has no quiet hours any more.") if hours is None else _("No job starts in its quiet hours.")
    return visit.redirect(f"/queues/{name}", Flash(text))


@doors.act("/queues/{name}/limit", Queues.limit)
async def limit(visit: Visit, name: str) -> Response:
    most = _whole(visit.form.get("max_running", ""))
    await visit.act(lambda rooms: rooms.queues.limit(name, most, reason=visit.form.get("reason", "")))
    return visit.redirect(f"/queues/{name}", Flash(_("The limit is set.")))


@doors.act("/queues/{name}/order", Queues.order)
async def order(visit: Visit, name: str) -> Response:
    wanted = next((each for each in ORDERS if each == visit.form.get("order")), None)
    if wanted is None:
        raise InvalidInput("choice_unknown", name="order", value=visit.form.get("order", ""), choices=list(ORDERS))
    await visit.act(lambda rooms: rooms.queues.order(name, wanted, reason=visit.form.get("reason", "")))
    return visit.redirect(f"/queues/{name}", Flash(_("The order is set.")))


@doors.act("/queues/{name}/fair", Queues.share)
async def share(visit: Visit, name: str) -> Response:
    fair = next((each for each in FAIR if each == visit.form.get("fair")), None)
    await visit.act(lambda rooms: rooms.queues.share(name, fair, reason=visit.form.get("reason", "")))
    return visit.redirect(f"/queues/{name}", Flash(_("Owners take turns.") if fair else _("First come, first served.")))


def _sentence(found: Sequence[QueueDetail]) -> str:
    unserved = [each for each in found if each.jobs.get("queued") and not each.workers and each.paused_at is None]
    paused = [each for each in found if each.paused_at is not None]
    if not found:
        return _("No queue yet.")
    if unserved:
        return ngettext("One queue has jobs and no worker.", "%(num)s queues have jobs and no worker.", len(unserved))
    if paused:
        return ngettext("One queue is paused.", "%(num)s queues are paused.", len(paused))
    return ngettext("One queue, and it is served.", "%(num)s queues, all served.", len(found))


def _lead(found: Sequence[QueueDetail]) -> str:
    """Return how many jobs wait and run, in a sentence."""
    waiting, running = (sum(each.jobs.get(state, 0) for each in found) for state in ("queued", "running"))
    wait = ngettext("One job waits", "%(count)s jobs wait", waiting, count=number(waiting, most=MOST))
    run = ngettext("one runs", "%(count)s run", running, count=number(running, most=MOST))
    return _("%(wait)s, %(run)s.", wait=wait if waiting else _("No job waits"), run=run if running else _("none runs"))


def _whole(text: str) -> int | None:
    """Return the number of a field; None where it was left empty."""
    if not text.strip():
        return None
    if not text.strip().isdecimal():
        raise InvalidInput("not_a_whole_number", name="max_running", value=text[:40])
    return int(text)
