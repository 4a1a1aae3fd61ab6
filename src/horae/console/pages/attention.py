"""Attention: what every agent is at, what waits for a person's answer, and which lane has no driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.responses import Response

from horae.api.attention.room import Attention
from horae.api.attention.values import Confirmation, LaneSummary, Wait
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.console import lanes
from horae.console.rendering import MOST, number, render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Visit
from horae.core.dataclass import dataclass

doors = Doors()
PAGE = 50
MOST_ASKING = 10  # lanes whose questions are shown at once
MOST_QUESTIONS = 5  # of each of them


@dataclass(frozen=True)
class Asked:
    """A question of an agent."""

    lane: LaneSummary
    confirmation: Confirmation


@dataclass(frozen=True)
class Seen:
    """What the page reads."""

    lanes: tuple[LaneSummary, ...]
    next_cursor: str | None
    asked: tuple[Asked, ...]
    waits: tuple[tuple[str, Wait], ...]  # those that end first, with their agents


@doors.page("/attention", Attention.overview)
async def attention(visit: Visit) -> Response:
    cursor = visit.query.get("cursor")
    seen = await visit.read(lambda rooms: _read(rooms, cursor))
    idle = [each for each in seen.lanes if is_left_alone(visit, each)]
    return render(
        visit,
        "attention.html",
        seen=seen,
        idle=idle,
        sentence=_sentence(seen, idle),
        lead=list(_lead(seen.lanes)),
        picture=lanes.waits_band(
            visit, [(name, [wait]) for name, wait in seen.waits], _("What agents wait for, and until when")
        ),
        words=lanes,
        owner_of=owner_of,
        is_first=cursor is None,
    )


def _read(rooms: Rooms[Sender], cursor: str | None) -> Seen:
    page = rooms.attention.overview().page(cursor, limit=PAGE)
    asking = [each for each in page.items if each.confirmations][:MOST_ASKING]
    asked = tuple(
        Asked(each, question)
        for each in asking
        for question in rooms.attention.confirmations(each.lane.name, owner=each.lane.owner, limit=MOST_QUESTIONS)
    )
    waiting = sorted((each for each in page.items if each.waits), key=lambda each: -each.confirmations)
    waits = [
        (each.lane.name, wait)
        for each in waiting[: lanes.MOST_ROWS]
        for wait in rooms.attention.waits(each.lane.name, owner=each.lane.owner, limit=lanes.MOST_ROWS)
    ]
    first = sorted(waits, key=lambda each: each[1].deadline)[: lanes.MOST_ROWS]
    by_deadline = tuple(sorted(asked, key=lambda each: each.confirmation.deadline))
    return Seen(page.items, page.next_cursor, by_deadline, tuple(first))


def owner_of(owner: str) -> str | None:
    """Return the owner for the address of a lane; None for the house, which need not be named."""
    return None if owner == "system" else owner


def is_left_alone(visit: Visit, seen: LaneSummary) -> bool:
    """Return whether there is work in a lane and no driver at it."""
    until = seen.lane.driven_until
    has_work = seen.focus is not None or seen.counts.ready or seen.counts.suspended
    return bool(has_work) and (until is None or until <= visit.now)


def _sentence(seen: Seen, idle: Sequence[LaneSummary]) -> str:
    asked = sum(each.confirmations for each in seen.lanes)
    if asked:
        count = number(asked, most=MOST)
        return ngettext(
            "An agent waits for your answer.", "%(count)s questions of agents wait for an answer.", asked, count=count
        )
    if idle:
        return ngettext("One agent has work and no driver.", "%(num)s agents have work and no driver.", len(idle))
    at_work = sum(each.focus is not None for each in seen.lanes)
    if at_work:
        return ngettext("One agent is at work.", "%(num)s agents are at work.", at_work)
    return _("All agents are at rest.") if seen.lanes else _("No agent yet.")


def _lead(summaries: Sequence[LaneSummary]) -> Iterator[str]:
    at_work = sum(each.focus is not None for each in summaries)
    waits, ready = sum(each.waits for each in summaries), sum(each.counts.ready for each in summaries)
    if summaries:
        yield ngettext(
            "One lane, %(count)s with a focus.", "%(num)s lanes, %(count)s with a focus.", len(summaries), count=at_work
        )
    if ready:
        yield ngettext("One task is ready.", "%(num)s tasks are ready.", ready)
    if waits:
        yield ngettext("One thing is waited for.", "%(num)s things are waited for.", waits)
