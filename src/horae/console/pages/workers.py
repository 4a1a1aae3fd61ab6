"""Workers: who serves what, how full they are, and how to drain one before it is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from starlette.responses import Response

from horae.api.queues import Worker, Workers
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit

doors = Doors()


@doors.page("/workers", Workers.list)
async def workers(visit: Visit) -> Response:
    found = await visit.read(lambda rooms: rooms.workers.list())
    kill = await to_kill(visit)
    known = [(each, state_of(visit, each)) for each in found]
    return render(visit, "workers.html", kill=kill, workers=known, sentence=_sentence(known), shapes=SHAPES)


@doors.act("/workers/{worker_id}/drain", Workers.drain)
async def drain(visit: Visit, worker_id: str) -> Response:
    leave = visit.form.get("leave") == "yes"
    await visit.act(lambda rooms: rooms.workers.drain(worker_id, leave=leave, reason=visit.form.get("reason", "")))
    text = _("It takes no more jobs, and ends after its last one.") if leave else _("It takes no more jobs.")
    return visit.redirect("/workers", Flash(text, undo=f"/workers/{worker_id}/resume"))


@doors.act("/workers/{worker_id}/resume", Workers.resume)
async def resume(visit: Visit, worker_id: str) -> Response:
    await visit.act(lambda rooms: rooms.workers.resume(worker_id, reason=visit.form.get("reason", "")))
    return visit.redirect("/workers", Flash(_("It takes jobs again."), undo=f"/workers/{worker_id}/drain"))


async def to_kill(visit: Visit) -> int | None:
    """Return the process of the example's worker, which its reader is dared to kill; None elsewhere.

    The newest one: a worker that was killed counts as running until it has missed a report.
    """
    if not visit.service.options.example or not visit.may("admin"):
        return None
    found = await visit.read(lambda rooms: rooms.workers.list())
    alive = [each for each in found if state_of(visit, each) == "running"]
    return max(alive, key=lambda each: each.started_at).pid if alive else None


def state_of(visit: Visit, worker: Worker) -> str:
    """Return the state of a worker as it is shown: silent already when a report is overdue.

    For the rest of the house it counts until it has missed three of them, because a report may be late.
    """
    overdue = OVERDUE_IN_EXAMPLE if visit.service.options.example else OVERDUE
    return "silent" if worker.seen_at < visit.now - overdue else worker.state


# A worker reports once a minute at the latest; that of the example, whose lease is five seconds, as often as it looks.
OVERDUE, OVERDUE_IN_EXAMPLE = timedelta(seconds=90), timedelta(seconds=20)
# How the state of a worker is drawn.
SHAPES = {"running": "running", "draining": "paused", "drained": "paused", "stopping": "paused", "silent": "lost"}


def _sentence(found: Sequence[tuple[Worker, str]]) -> str:
    silent = sum(state == "silent" for _worker, state in found)
    alive = [each for each, state in found if state == "running"]
    if not found:
        return _("No worker takes part.")
    if silent:
        return ngettext("One worker has gone silent.", "%(num)s workers have gone silent.", silent)
    if alive and all(each.slots and each.running == each.slots for each in alive):
        return _("Every worker is full.")
    return ngettext("One worker is at work.", "%(num)s workers are at work.", len(found))
