"""Decisions: what actions of agents came to, why, what they rest on, and which were rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, get_args

from markupsafe import Markup
from starlette.responses import Response

from horae.api.governance.decisions import Decision, Decisions
from horae.console import drawing, governed, times
from horae.console.pages.governance import tabs
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Visit
from horae.core.governance.gates import Outcome
from horae.core.governance.policies import RISKS

doors = Doors()
SHOWN = 50
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
DRAWN = {"executed": "done", "limited": "faded", "blocked": "dead", "escalated": "late", "abstained": "away"}
SHORTEST = timedelta(hours=12)


@doors.page("/governance/decisions", Decisions.list)
async def decisions(visit: Visit) -> Response:
    names = ("outcome", "risk", "agent", "owner")
    wanted: dict[str, Any] = {name: visit.query[name] for name in names if visit.query.get(name)}
    page = await visit.read(
        lambda rooms: rooms.decisions.list(**wanted).page(visit.query.get("cursor"), limit=SHOWN)
    )  # fmt: skip
    return render(
        visit, "decisions.html", tabs=tabs(visit), here="/governance/decisions", decisions=page.items,
        further=page.next_cursor, wanted=wanted, governed=governed, outcomes=OUTCOMES, risks=RISKS,
        sentence=_sentence(page.items, wanted), picture=_picture(visit, page.items),
    )  # fmt: skip


@doors.page("/governance/decisions/{decision_id}", Decisions.get)
async def decision(visit: Visit, decision_id: str) -> Response:
    owner = visit.query.get("owner") or None
    found = await visit.read(lambda rooms: rooms.decisions.get(decision_id, owner=owner))
    cites = [tuple(each.partition(":")[::2]) for each in found.cites]
    return render(visit, "decision.html", decision=found, cites=cites, governed=governed, owner=owner)


def _sentence(found: Sequence[Decision], wanted: Any) -> str:
    if not found:
        return _("No decision fits.") if wanted else _("No decision was taken yet.")
    stopped = sum(each.outcome in ("blocked", "escalated", "abstained") for each in found)
    if stopped:
        return ngettext(
            "One of the last %(all)s decisions was stopped.",
            "%(num)s of the last %(all)s decisions were stopped.",
            stopped,
            all=len(found),
        )
    return ngettext("The last decision went through.", "The last %(num)s decisions went through.", len(found))


def _picture(visit: Visit, found: Sequence[Decision]) -> Markup | None:
    """Draw when decisions were taken: what was stopped above the line, what went through below."""
    if not found:
        return None
    now, zone = visit.now, visit.clock.zone_for()
    since = min(min(each.decided_at for each in found), now - SHORTEST)
    window = drawing.Window(since, now + (now - since) / 12, now, zone)
    shapes = [
        drawing.Shape(
            each.decided_at, None, DRAWN[each.outcome],
            f"{times.clock_time(each.decided_at, now, zone)} {governed.word(each.outcome)}",
            side="up" if each.outcome in ("blocked", "escalated", "abstained") else "down", ahead=False,
        )
        for each in found
    ]  # fmt: skip
    label = _("now %(time)s", time=times.clock_time(now, now, zone))
    name = _("When decisions were taken: stopped ones above, others below the line")
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=28, below=28))
