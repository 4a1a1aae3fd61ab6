"""Reviews: questions to a person, each with a deadline, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.governance.object_values import RecalledObject
from horae.api.governance.reviews import Review, Reviews
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.console import drawing, governed, times
from horae.console.pages.governance import tabs
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit
from horae.errors import InvalidInput, NotFound

doors = Doors()
SHOWN = 50
ANSWERS = ("approve", "reject", "ask_more")


@doors.page("/governance/reviews", Reviews.list)
async def reviews(visit: Visit) -> Response:
    closed = visit.query.get("state") == "closed"
    owner = visit.query.get("owner") or None
    page = await visit.read(
        lambda rooms: rooms.reviews.list(state="closed" if closed else "open", owner=owner).page(
            visit.query.get("cursor"), limit=SHOWN
        )
    )
    return render(
        visit, "reviews.html", tabs=tabs(visit), here="/governance/reviews", reviews=page.items,
        further=page.next_cursor, closed=closed, governed=governed, sentence=_sentence(visit, page.items, closed),
    )  # fmt: skip


@doors.page("/governance/reviews/{review_id}", Reviews.get)
async def review(visit: Visit, review_id: str) -> Response:
    owner = visit.query.get("owner") or None
    found, about = await visit.read(lambda rooms: _read(rooms, review_id, owner))
    content, is_masked = governed.masked(None if about is None else about.content)
    return render(
        visit, "review.html", review=found, about=about, content=content, is_masked=is_masked, governed=governed,
        picture=_picture(visit, found), owner=owner,
        may_answer=found.state == "open" and visit.known.is_person and found.deadline > visit.now,
    )  # fmt: skip


def _read(rooms: Rooms[Sender], review_id: str, owner: str | None) -> tuple[Review, RecalledObject | None]:
    found = rooms.reviews.get(review_id, owner=owner)
    if found.about is None:
        return found, None
    kind, _colon, name = found.about.partition(":")
    of: Any = kind
    try:
        return found, rooms.objects.get(name, kind=of, owner=owner)
    except NotFound:
        return found, None


@doors.act("/governance/reviews/{review_id}/answer", Reviews.answer)
async def answer(visit: Visit, review_id: str) -> Response:
    given: Any = visit.form.get("answer", "")
    if given not in ANSWERS:
        raise InvalidInput("choice_unknown", name="answer", value=repr(given)[:40], choices=ANSWERS)
    owner, note = visit.form.get("owner") or None, visit.form.get("note", "").strip()
    done = await visit.act(lambda rooms: rooms.reviews.answer(review_id, given, note=note, owner=owner))
    text = _("Answered: %(answer)s.", answer=governed.word(done.answer or ""))
    return visit.redirect("/governance/reviews", Flash(text))


def _sentence(visit: Visit, found: Sequence[Review], closed: bool) -> str:
    if closed:
        return _("Questions that were answered, or not in time.") if found else _("No question was asked yet.")
    if not found:
        return _("No question waits for you.")
    first = min(each.deadline for each in found)
    return ngettext(
        "One question waits; its time is up %(when)s.",
        "%(num)s questions wait; the first one's time is up %(when)s.",
        len(found),
        when=times.relative(first, visit.now),
    )


def _picture(visit: Visit, review: Review) -> Markup:
    """Draw the time that a person has, from the question to its deadline."""
    now, zone = visit.now, visit.clock.zone_for()
    end = review.answered_at or review.deadline
    margin = (max(end, now) - review.opened_at) / 12
    window = drawing.Window(review.opened_at - margin, max(end, now) + margin, now, zone)
    shapes = [drawing.Shape(review.opened_at, min(now, end), "done" if review.answered_at else "late", side="down")]
    if review.state == "open" and review.deadline > now:
        shapes.append(drawing.Shape(now, review.deadline, "late", _("time to answer"), side="down", ahead=True))
    label = _("now %(time)s", time=times.clock_time(now, now, zone))
    name = _("From the question to its deadline")
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=6, below=24))
