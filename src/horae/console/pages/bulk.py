"""Bulk acts: look at what a filter reaches, say why, and see it done."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

from starlette.responses import Response

from horae.api.acts import Act, ActPreview, Acts, Verb
from horae.console import filters, states
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, mark, ngettext
from horae.console.visitor import Flash, Visit
from horae.errors import InvalidInput

doors = Doors()
VERBS: tuple[Verb, ...] = get_args(Verb)
LISTED = 50
DELAYS = {
    "0": mark("now"),
    "600": mark("in ten minutes"),
    "3600": mark("in an hour"),
    "86400": mark("in a day"),
    "604800": mark("in a week"),
}
KINDS: dict[str, str] = {"done": "succeeded"}


@doors.page("/jobs/bulk", Acts.preview)
async def bulk(visit: Visit) -> Response:
    """Show what an act would reach; nothing is changed."""
    verb, where = _verb(visit.query.get("verb")), _where(visit)
    if not where:
        return render(visit, "bulk.html", 422, verb=verb, where="", preview=None, delays={}, states=states, problem="")
    return await _preview(visit, verb, where)


async def _preview(visit: Visit, verb: Verb, where: str, problem: str = "") -> Response:
    preview = await visit.read(lambda rooms: rooms.acts.preview(verb, where))
    return render(
        visit,
        "bulk.html",
        422 if problem else 200,
        verb=verb,
        where=where,
        preview=preview,
        sentence=_sentence(verb, preview),
        delays={seconds: gettext(text) for seconds, text in DELAYS.items()},
        problem=problem,
        states=states,
    )


@doors.act("/jobs/bulk", Acts.start)
async def start(visit: Visit) -> Response:
    """Begin the act. Cancelling needs the number of jobs typed in, as the preview has shown it."""
    verb, where = _verb(visit.form.get("verb")), visit.form.get("where", "")
    if verb == "cancel" and visit.form.get("typed", "").strip() != visit.form.get("matched", ""):
        return await _preview(
            visit, verb, where, _("Type the number of jobs, so that nothing is cancelled by mistake.")
        )
    delay = timedelta(seconds=_seconds(visit.form.get("delay", "0"))) if verb == "reschedule" else None
    reason = visit.form.get("reason", "").strip()
    made = await visit.act(lambda rooms: rooms.acts.start(verb, where, delay=delay, reason=reason))
    return visit.redirect(f"/acts/{made.id}")


@doors.page("/acts", Acts.list)
async def acts(visit: Visit) -> Response:
    page = await visit.read(lambda rooms: rooms.acts.list().page(visit.query.get("cursor"), limit=LISTED))
    return render(
        visit, "acts.html", acts=page.items, next_cursor=page.next_cursor, words=act_words, kind=act_kind, states=states
    )


@doors.page("/acts/{act_id}", Acts.get)
async def act(visit: Visit, act_id: str) -> Response:
    found = await visit.read(lambda rooms: rooms.acts.get(act_id))
    return render(
        visit,
        "act.html",
        act_=found,
        words=act_words(found),
        kind=act_kind(found.state),
        states=states,
        may_act=visit.may("tasks", "worker"),
        done=found.changed + found.skipped,
    )


@doors.act("/acts/{act_id}/pause", Acts.pause)
async def pause(visit: Visit, act_id: str) -> Response:
    await visit.act(lambda rooms: rooms.acts.pause(act_id))
    return visit.redirect(f"/acts/{act_id}", Flash(_("It rests."), undo=f"/acts/{act_id}/resume"))


@doors.act("/acts/{act_id}/resume", Acts.resume)
async def resume(visit: Visit, act_id: str) -> Response:
    await visit.act(lambda rooms: rooms.acts.resume(act_id))
    return visit.redirect(f"/acts/{act_id}", Flash(_("It goes on.")))


@doors.act("/acts/{act_id}/cancel", Acts.cancel)
async def cancel(visit: Visit, act_id: str) -> Response:
    reason = visit.form.get("reason", "").strip()
    await visit.act(lambda rooms: rooms.acts.cancel(act_id, reason=reason))
    return visit.redirect(f"/acts/{act_id}", Flash(_("It ends. What it has changed stays changed.")))


@doors.act("/acts/{act_id}/undo", Acts.undo)
async def undo(visit: Visit, act_id: str) -> Response:
    made = await visit.act(lambda rooms: rooms.acts.undo(act_id))
    return visit.redirect(f"/acts/{made.id}", Flash(_("The jobs get their times back.")))


# -- words -------------------------------------------------------------------------------------------------------------


def act_words(found: Act) -> str:
    """Return what an act does, as a title."""
    return {
        "cancel": _("Cancel jobs"),
        "revive": _("Revive jobs"),
        "reschedule": _("Move jobs to another time"),
        "undo": _("Give jobs their times back"),
    }[found.verb]


def act_kind(state: str) -> str:
    return KINDS.get(state, state)


def _sentence(verb: Verb, preview: ActPreview) -> str:
    count = preview.matched
    plus = "+" if preview.more else ""
    if verb == "cancel":
        return ngettext("Cancel one job?", "Cancel %(num)s%(plus)s jobs?", count, plus=plus)
    if verb == "revive":
        return ngettext("Revive one job?", "Revive %(num)s%(plus)s jobs?", count, plus=plus)
    return ngettext("Move one job?", "Move %(num)s%(plus)s jobs?", count, plus=plus)


def _where(visit: Visit) -> str:
    """Return the filter that is meant: the jobs that were selected, or all that fit where that was chosen."""
    query, ids = visit.query.get("q", ""), visit.request.query_params.getlist("id")
    if visit.query.get("all") == "yes" or not ids:
        return query if visit.query.get("all") == "yes" else ""
    return f"id:{','.join(filters.quoted(each) for each in ids)}"


def _verb(given: str | None) -> Verb:
    if given not in VERBS:
        raise InvalidInput("choice_unknown", name="verb", value=str(given)[:40], choices=list(VERBS))
    return given


def _seconds(given: str) -> int:
    if given not in DELAYS:
        raise InvalidInput("choice_unknown", name="delay", value=given[:40], choices=list(DELAYS))
    return int(given)
