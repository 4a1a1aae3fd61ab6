"""Queues: which wait, which are served, and how; one queue with its last twelve hours and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from starlette.responses import Response

from horae.api.queues import QueueDetail, Queues
from horae.api.statistics import Figures
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.jobs.job import ORDERS
from horae.errors import InvalidInput

doors = Doors()
DAY = timedelta(days=1)


@doors.page("/queues", Queues.list)
async def queues(visit: Visit) -> Response:
    found, figures = await visit.read(
        lambda rooms: (
            rooms.queues.list(),
            () if visit.known.queues else rooms.statistics.list("queue", since=visit.now - DAY),
        )
    )
    by_name = {each.name: each for each in figures}
    return render(visit, "queues.html", queues=found, figures=by_name, sentence=_sentence(found))


@doors.page("/queues/{name}", Queues.get)
async def queue(visit: Visit, name: str) -> Response:
    found, figures = await visit.read(
        lambda rooms: (
            rooms.queues.get(name),
            () if visit.known.queues else rooms.statistics.list("queue", since=visit.now - DAY, limit=1000),
        )
    )
    today: Figures | None = next((each for each in figures if each.name == name), None)
    return render(visit, "queue.html", queue=found, today=today, orders=ORDERS)


@doors.act("/queues/{name}/pause", Queues.pause)
async def pause(visit: Visit, name: str) -> Response:
    await visit.act(lambda rooms: rooms.queues.pause(name, reason=visit.form.get("reason", "")))
    return visit.redirect(f"/queues/{name}", Flash(_("Paused. Running jobs go on."), undo=f"/queues/{name}/resume"))


@doors.act("/queues/{name}/resume", Queues.resume)
async def resume(visit: Visit, name: str) -> Response:
    await visit.act(lambda rooms: rooms.queues.resume(name, reason=visit.form.get("reason", "")))
    return visit.redirect(f"/queues/{name}", Flash(_("Resumed."), undo=f"/queues/{name}/pause"))


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


def _whole(text: str) -> int | None:
    """Return the number of a field; None where it was left empty."""
    if not text.strip():
        return None
    if not text.strip().isdecimal():
        raise InvalidInput("not_a_whole_number", name="max_running", value=text[:40])
    return int(text)
