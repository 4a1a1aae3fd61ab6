"""One agent's lane: its focus, what lies on the stack and in the backlog, what it waits for, its journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.responses import Response

from horae.api.attention.past import PastView, view_after
from horae.api.attention.room import Attention
from horae.api.attention.values import Confirmation, JournalEntry, LaneDetail, VerifiedJournal
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.console import lanes, times
from horae.console.pages.attention import owner_of
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _
from horae.console.visitor import Flash, Visit
from horae.core.attention.task import HIGHEST, LOWEST, NORMAL
from horae.core.cursors import LARGEST
from horae.core.dataclass import dataclass
from horae.errors import InvalidInput

doors = Doors()
SHOWN = 50  # tasks of each kind
LINES = 25  # of the journal on one page
VERIFIED_AT_ONCE = 500  # lines; a longer journal is verified when a visitor asks for it
GOALS = 200  # tasks whose goals are read for a view of the past, which knows payloads by digest only
SWITCHES = ("auto_continue", "allow_interrupt", "confirm_everything")


@dataclass(frozen=True)
class Seen:
    """What the page reads."""

    now: LaneDetail
    view: LaneDetail | PastView  # as of a line, or now
    asked: tuple[Confirmation, ...]
    lines: tuple[JournalEntry, ...]  # the newest first
    verified: VerifiedJournal | None
    goals: Mapping[str, str | None]


@doors.page("/attention/{lane:path}", Attention.get)
async def lane(visit: Visit, lane: str) -> Response:
    return await _show(visit, lane)


async def _show(visit: Visit, name: str, problem: str = "", status: int = 200) -> Response:
    owner = _owner(visit)
    at, before = _line(visit, "at"), _line(visit, "before")
    lines_before = before if before is not None or at is None else at + LINES // 2  # the line itself in the middle
    wants_proof = "verify" in visit.query
    seen = await visit.read(lambda rooms: _read(rooms, name, owner, at, lines_before, wants_proof))
    waits = [(lanes.name_of(each.task, seen.goals), each.waits) for each in seen.view.waiting]
    picture = None if at is not None else lanes.waits_band(visit, waits, _("What it waits for, and until when"))
    return render(
        visit,
        "lane.html",
        status,
        seen=seen,
        lane=seen.now.lane,
        view=seen.view,
        owner=owner,
        path=f"/attention/{name}",
        at=at,
        sentence=_sentence(visit, seen, at),
        lead=_lead(visit, seen),
        picture=picture,
        asking={each.task.id: lanes.name_of(each.task) for each in seen.view.waiting},
        row_names=[title for title, given in waits if given][: lanes.MOST_ROWS],
        forbidden=lanes.forbidden(seen.now.control),
        older=seen.lines[-1].seq if seen.lines and seen.lines[-1].seq > 1 else None,
        newer=bool(seen.lines) and seen.lines[0].seq < seen.now.lane.seq,
        may_tell=visit.may("tasks"),
        may_decide=visit.may("admin"),
        words=lanes,
        problem=problem,
        form=visit.form,
        priorities=(LOWEST, NORMAL, HIGHEST),
    )


def _read(
    rooms: Rooms[Sender], name: str, owner: str | None, at: int | None, before: int | None, wants_proof: bool
) -> Seen:
    room = rooms.attention
    now = room.get(name, limit=SHOWN, owner=owner)
    end = min(now.lane.seq, now.lane.seq if before is None else before - 1)
    lines = room.journal(name, since=max(0, end - LINES), owner=owner).page(limit=LINES).items if end else ()
    verified = room.verify(name, owner=owner) if wants_proof or now.lane.seq <= VERIFIED_AT_ONCE else None
    asked = room.confirmations(name, owner=owner, limit=SHOWN) if at is None else ()
    view: LaneDetail | PastView = now
    goals: Mapping[str, str | None] = {}
    if at is not None:
        past = room.at(name, at, owner=owner)
        (line,) = room.journal(name, since=at - 1, owner=owner).page(limit=1).items
        view = view_after(past, line.at)
        goals = {task.id: task.goal for task in room.tasks(name, owner=owner).page(limit=GOALS).items}
    return Seen(now, view, asked, tuple(reversed([line for line in lines if line.seq <= end])), verified, goals)


def _line(visit: Visit, name: str) -> int | None:
    """Return the number of a line that the address names."""
    text = visit.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= LARGEST else None


# -- words -------------------------------------------------------------------------------------------------------------


def _sentence(visit: Visit, seen: Seen, at: int | None) -> str:
    name, view = seen.now.lane.name, seen.view
    if at is not None:
        when = times.relative(view.at, visit.now)
        return _("%(agent)s after line %(line)s, %(when)s.", agent=name, line=at, when=when)
    if seen.asked:
        return _("%(agent)s waits for your answer.", agent=name)
    has_work = bool(view.focus or view.backlog or view.stack)
    if has_work and not is_driven(seen.now.lane.driven_until, visit.now):
        return _("%(agent)s has work and no driver.", agent=name)
    if view.focus is not None:
        return _("%(agent)s is at work.", agent=name)
    if has_work:
        return _("%(agent)s has something to do.", agent=name)
    return _("%(agent)s waits.", agent=name) if view.waiting else _("%(agent)s is at rest.", agent=name)


def _lead(visit: Visit, seen: Seen) -> str:
    lane = seen.now.lane
    if lane.driver and is_driven(lane.driven_until, visit.now):
        return _("Driven by %(driver)s.", driver=lane.driver)
    return _("No process drives it now.")


def is_driven(until: datetime | None, now: datetime) -> bool:
    return until is not None and until > now


# -- acts --------------------------------------------------------------------------------------------------------------


@doors.act("/attention/{lane:path}/confirmations/{wait:int}", Attention.confirm)
async def answer(visit: Visit, lane: str, wait: int) -> Response:
    """Approve or refuse what an agent asks for; the answer is the visitor's."""
    owner, verdict = _owner(visit), visit.form.get("answer")
    if verdict not in ("approve", "refuse"):
        raise InvalidInput("answer_missing")
    is_approved = verdict == "approve"
    done = await visit.act(
        lambda rooms: rooms.attention.confirm(lane, wait, is_approved, reason=_reason(visit), owner=owner)
    )
    what = lanes.question(done)
    text = _("You approved: %(what)s", what=what) if is_approved else _("You refused: %(what)s", what=what)
    return _back(visit, lane, text)


@doors.act("/attention/{lane:path}/events", Attention.post)
async def post(visit: Visit, lane: str) -> Response:
    owner, key = _owner(visit), visit.form.get("key", "").strip()
    try:
        data = _data(visit, "data")
    except ValueError as mistake:
        return await _show(visit, lane, _("This is not JSON: %(problem)s", problem=str(mistake)[:200]), 422)
    posted = await visit.act(lambda rooms: rooms.attention.post(lane, key, data, owner=owner))
    if posted.task is not None:
        return _back(visit, lane, _("%(key)s reached %(task)s.", key=key, task=posted.task))
    return _back(visit, lane, _("%(key)s is kept until a task asks for it.", key=key))


@doors.act("/attention/{lane:path}/tasks", Attention.add)
async def add(visit: Visit, lane: str) -> Response:
    owner, form = _owner(visit), visit.form
    try:
        payload, priority = _data(visit, "payload"), int(form.get("priority") or NORMAL)
    except ValueError as mistake:
        return await _show(visit, lane, _("This is not JSON: %(problem)s", problem=str(mistake)[:200]), 422)
    goal = form.get("goal", "").strip()
    if goal:
        payload = {"goal": goal, **payload}
    kind = form.get("kind", "").strip()
    made = await visit.act(lambda rooms: rooms.attention.add(lane, kind, payload, priority=priority, owner=owner))
    return _back(visit, lane, _("%(id)s is added.", id=made.id))


@doors.act("/attention/{lane:path}/control", Attention.control)
async def control(visit: Visit, lane: str) -> Response:
    """Forbid what is ticked, and nothing else; what was forbidden before can be had back."""
    owner, form = _owner(visit), visit.form
    actions = [each for each in form.get("must_confirm", "").replace(",", " ").split() if each]
    switches: dict[str, Any] = {
        "auto_continue": False if form.get("auto_continue") == "no" else None,
        "allow_interrupt": False if form.get("allow_interrupt") == "no" else None,
        "confirm_everything": True if form.get("confirm_everything") == "yes" else None,
    }
    before = (await visit.read(lambda rooms: rooms.attention.get(lane, limit=1, owner=owner))).control
    await visit.act(
        lambda rooms: rooms.attention.control(
            lane, **switches, must_confirm=actions, reason=_reason(visit), owner=owner
        )
    )  # fmt: skip
    undo = {
        "owner": owner or "",
        "auto_continue": "no" if before.auto_continue is False else "",
        "allow_interrupt": "no" if before.allow_interrupt is False else "",
        "confirm_everything": "yes" if before.confirm_everything else "",
        "must_confirm": " ".join(before.must_confirm),
    }
    flash = Flash(_("This holds from the next step on."), undo=f"/attention/{lane}/control", undo_fields=undo)
    return visit.redirect(f"/attention/{lane}", flash, owner=owner_of(owner or "system"))


def _back(visit: Visit, lane: str, text: str) -> Response:
    return visit.redirect(f"/attention/{lane}", Flash(text), owner=owner_of(_owner(visit) or "system"))


def _data(visit: Visit, name: str) -> dict[str, Any]:
    """Return the JSON object of a field; an empty field is an empty object."""
    found = json.loads(visit.form.get(name, "").strip() or "{}")
    if not isinstance(found, dict):
        raise ValueError(_("an object in braces is wanted"))
    return found


def _owner(visit: Visit) -> str | None:
    return visit.query.get("owner") or visit.form.get("owner") or None


def _reason(visit: Visit) -> str:
    return visit.form.get("reason", "").strip()
