"""One task of an agent: what it is about, its life on a band of time, what it waited for and was told."""

from __future__ import annotations

from starlette.responses import Response

from horae.api.attention.room import Attention
from horae.api.attention.values import JournalEntry, TaskStory
from horae.api.operation import Page
from horae.console import lanes
from horae.console.pages.attention import owner_of
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _
from horae.console.visitor import Flash, Visit
from horae.core.attention.task import FINAL
from horae.core.dataclass import dataclass

doors = Doors()
LAST = 50  # waits and facts
LINES = 100  # of the journal on one page


@dataclass(frozen=True)
class Seen:
    """What the page reads."""

    story: TaskStory
    lines: Page[JournalEntry]


@doors.page("/attention/{lane:path}/tasks/{task_id}", Attention.story)
async def task(visit: Visit, lane: str, task_id: str) -> Response:
    owner, cursor = visit.query.get("owner") or None, visit.query.get("cursor")
    seen = await visit.read(
        lambda rooms: Seen(
            rooms.attention.story(lane, task_id, limit=LAST, owner=owner),
            rooms.attention.journal(lane, task=task_id, owner=owner).page(cursor, limit=LINES),
        )
    )
    found = seen.story.task
    is_live = found.state not in FINAL
    name = _("The life of this task")
    return render(
        visit,
        "lane_task.html",
        lane=lane,
        owner=owner,
        path=f"/attention/{lane}/tasks/{task_id}",
        task=found,
        story=seen.story,
        lines=seen.lines,
        picture=lanes.life_band(visit, seen.lines.items, seen.story.waits, name) if cursor is None else None,
        reason=found.reason_in(visit.language),
        is_live=is_live,
        asks=any(each.kind == "confirm" and each.state == "open" for each in seen.story.waits),
        may_tell=visit.may("tasks") and is_live,
        may_decide=visit.may("admin") and is_live,
        words=lanes,
    )


@doors.act("/attention/{lane:path}/tasks/{task_id}/cancel", Attention.cancel)
async def cancel(visit: Visit, lane: str, task_id: str) -> Response:
    owner, is_graceful = visit.form.get("owner") or None, visit.form.get("graceful") == "yes"
    ended = await visit.act(
        lambda rooms: rooms.attention.cancel(
            lane, task_id, graceful=is_graceful, reason=_reason(visit), owner=owner
        )
    )  # fmt: skip
    if ended.state == "running":
        text = _("%(id)s ends at its next safe point.", id=task_id)
    else:
        text = _("%(id)s is cancelled.", id=task_id)
    return visit.redirect(f"/attention/{lane}/tasks/{task_id}", Flash(text), owner=owner_of(owner or "system"))


@doors.act("/attention/{lane:path}/tasks/{task_id}/kill", Attention.kill)
async def kill(visit: Visit, lane: str, task_id: str) -> Response:
    owner = visit.form.get("owner") or None
    await visit.act(lambda rooms: rooms.attention.kill(lane, task_id, reason=_reason(visit), owner=owner))
    text = _("%(id)s has ended. Whether its last action happened is unknown.", id=task_id)
    return visit.redirect(f"/attention/{lane}/tasks/{task_id}", Flash(text), owner=owner_of(owner or "system"))


def _reason(visit: Visit) -> str:
    return visit.form.get("reason", "").strip()
