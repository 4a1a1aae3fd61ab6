"""Errors by cause: what is new, what comes back, and one group with its days, its latest message and its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from markupsafe import Markup
from starlette.responses import Response

from horae.api.error_groups import ErrorGroup, ErrorGroups
from horae.console import drawing, series
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit

doors = Doors()
DAY = timedelta(days=1)
SHOWN = 50
REACH = 30 * DAY


@doors.page("/errors", ErrorGroups.list)
async def errors(visit: Visit) -> Response:
    muted = visit.query.get("muted") == "yes"
    page = await visit.read(
        lambda rooms: rooms.error_groups.list(muted=muted, owner=visit.query.get("owner")).page(
            visit.query.get("cursor"), limit=SHOWN
        )
    )
    fresh = [each for each in page.items if each.first_seen > visit.now - DAY]
    return render(
        visit, "errors.html", groups=page.items, further=page.next_cursor, fresh=fresh, muted=muted,
        sentence=_sentence(page.items, fresh, muted),
    )  # fmt: skip


@doors.page("/errors/{fingerprint}", ErrorGroups.get)
async def error(visit: Visit, fingerprint: str) -> Response:
    owner = visit.query.get("owner")
    group = await visit.read(lambda rooms: rooms.error_groups.get(fingerprint, owner=owner))
    return render(visit, "error.html", group=group, picture=_picture(visit, group), days=sorted(group.days.items()))


@doors.act("/errors/{fingerprint}/mute", ErrorGroups.mute)
async def mute(visit: Visit, fingerprint: str) -> Response:
    owner, reason = visit.query.get("owner"), visit.form.get("reason", "")
    await visit.act(lambda rooms: rooms.error_groups.mute(fingerprint, reason=reason, owner=owner))
    undo = f"/errors/{fingerprint}/unmute"
    return visit.redirect(f"/errors/{fingerprint}", Flash(_("Muted. It goes on counting."), undo=undo), owner=owner)


@doors.act("/errors/{fingerprint}/unmute", ErrorGroups.unmute)
async def unmute(visit: Visit, fingerprint: str) -> Response:
    owner, reason = visit.query.get("owner"), visit.form.get("reason", "")
    await visit.act(lambda rooms: rooms.error_groups.unmute(fingerprint, reason=reason, owner=owner))
    return visit.redirect(f"/errors/{fingerprint}", Flash(_("It is heard of again.")), owner=owner)


@doors.act("/errors/{fingerprint}/retry", ErrorGroups.retry)
async def retry(visit: Visit, fingerprint: str) -> Response:
    owner, reason = visit.query.get("owner"), visit.form.get("reason", "")
    await visit.act(lambda rooms: rooms.error_groups.retry(fingerprint, reason=reason, owner=owner))
    return visit.redirect(f"/errors/{fingerprint}", Flash(_("Its dead jobs are revived.")), owner=owner)


def _sentence(groups: Sequence[ErrorGroup], fresh: Sequence[ErrorGroup], muted: bool) -> str:
    if muted:
        return (
            ngettext("One error is muted.", "%(num)s errors are muted.", len(groups)) if groups else _("None is muted.")
        )
    if not groups:
        return _("No errors so far.")
    if fresh:
        return ngettext("One new error since yesterday.", "%(num)s new errors since yesterday.", len(fresh))
    return ngettext("One known error, none new.", "%(num)s known errors, none new.", len(groups))


def _picture(visit: Visit, group: ErrorGroup) -> Markup:
    """Draw how often it was seen, day by day."""
    window = drawing.Window(visit.now - REACH, visit.now + DAY, visit.now, visit.clock.zone_for())
    most = max(group.days.values(), default=0)
    shapes = []
    for day, count in group.days.items():
        start = datetime.fromisoformat(day).replace(tzinfo=UTC)
        title = ngettext("%(day)s: once", "%(day)s: %(num)s times", count, day=day)
        level = series.level(count, most)
        shapes.append(
            drawing.Shape(start, start + DAY * 3 / 4, "failed", title=title, side="up", level=level, ahead=False)
        )
    name = _("How often it was seen, by day")
    return drawing.band(window, shapes, name=name, now_label=_("now"), size=drawing.Size(above=60, below=4))
