"""Workers: who serves what, how full they are, and how to drain one before it is replaced."""

from __future__ import annotations

from collections.abc import Sequence

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
    return render(visit, "workers.html", kill=kill, workers=found, sentence=_sentence(found), shapes=SHAPES)


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

    The newest one: a worker that was killed counts as running until it has been silent for long enough.
    """
    if not visit.service.options.example or not visit.may("admin"):
        return None
    found = await visit.read(lambda rooms: rooms.workers.list())
    alive = [each for each in found if each.state == "running"]
    return max(alive, key=lambda each: each.started_at).pid if alive else None


# How the state of a worker is drawn.
SHAPES = {"running": "running", "draining": "paused", "drained": "paused", "stopping": "paused", "silent": "lost"}


def _sentence(found: Sequence[Worker]) -> str:
    silent = sum(each.state == "silent" for each in found)
    alive = [each for each in found if each.state == "running"]
    if not found:
        return _("No worker takes part.")
    if silent:
        return ngettext("One worker has gone silent.", "%(num)s workers have gone silent.", silent)
    if alive and all(each.slots and each.running == each.slots for each in alive):
        return _("Every worker is full.")
    return ngettext("One worker is at work.", "%(num)s workers are at work.", len(found))
