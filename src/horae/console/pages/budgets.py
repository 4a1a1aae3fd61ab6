"""Budgets: how much may be spent in a period, how much is settled and reserved, and when it is refilled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.governance.budgets import Budget, Budgets, PeriodUsage
from horae.console import drawing, governed, series, times
from horae.console.pages.governance import budget_url, reference, tabs
from horae.console.rendering import number, render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.governance.budgets import PERIODS, UNITS
from horae.errors import InvalidInput

doors = Doors()
SHOWN, PAST = 50, 31
LENGTHS = {"day": timedelta(days=1), "month": timedelta(days=31)}


@doors.page("/governance/budgets", Budgets.list)
async def budgets(visit: Visit) -> Response:
    owner = visit.query.get("owner") or None
    page = await visit.read(lambda rooms: rooms.budgets.list(owner=owner).page(visit.query.get("cursor"), limit=SHOWN))
    return render(
        visit, "budgets.html", tabs=tabs(visit), here="/governance/budgets", budgets=page.items,
        further=page.next_cursor, governed=governed, units=UNITS, periods=PERIODS, meter=meter, reference=reference,
        url_of=lambda each: budget_url(visit, each), sentence=_sentence(page.items), may_set=visit.may("admin"),
    )  # fmt: skip


@doors.page("/governance/budgets/{name}/{unit}", Budgets.get)
async def budget(visit: Visit, name: str, unit: str) -> Response:
    which, owner = _which(name, visit.query.get("agent")), visit.query.get("owner") or None
    named: Any = {"unit": unit, "period": visit.query.get("period") or "day", "owner": owner}
    found, past = await visit.read(
        lambda rooms: (
            rooms.budgets.get(which, **named),
            rooms.budgets.history(which, **named).page(limit=PAST).items,
        )
    )
    return render(
        visit, "budget.html", budget=found, past=past, governed=governed, meter=meter, reference=reference,
        picture=_picture(visit, found, past), may_set=visit.may("admin"),
    )  # fmt: skip


@doors.act("/governance/budgets", Budgets.set)
async def set_budget(visit: Visit) -> Response:
    given = _given(visit)
    capacity = _whole(visit.form.get("capacity", ""), "capacity")
    done = await visit.act(lambda rooms: rooms.budgets.set(capacity=capacity, reason=_reason(visit), **given))
    return _back(visit, done, _("The budget is set. Jobs that waited for it are due at once."))


@doors.act("/governance/budgets/adjust", Budgets.adjust)
async def adjust(visit: Visit) -> Response:
    given = _given(visit)
    amount = _whole(visit.form.get("amount", ""), "amount")
    if amount is None:
        raise InvalidInput("not_a_whole_number", name="amount", value="")
    done = await visit.act(lambda rooms: rooms.budgets.adjust(amount=amount, reason=_reason(visit), **given))
    return _back(visit, done, _("What was used is corrected."))


def meter(found: Budget | PeriodUsage) -> Markup:
    """Draw how full a budget is: settled, then reserved, then free."""
    used = found.settled + found.reserved
    most = found.capacity if found.capacity is not None else max(used, 1)
    scale = max(most, used, 1)
    settled, reserved = (round(100 * each / scale, 2) for each in (found.settled, found.reserved))
    kind = "dead" if found.capacity is not None and used >= found.capacity else "done"
    name = _(
        "%(settled)s settled, %(reserved)s reserved", settled=number(found.settled), reserved=number(found.reserved)
    )
    return Markup(
        '<svg class="meter" role="img" width="100%" height="8" aria-label="{}"><rect class="free" width="100%" '
        'height="8" rx="2"/><rect class="{}" width="{}%" height="8" rx="2"/><rect class="held" x="{}%" width="{}%" '
        'height="8" rx="2"/></svg>'
    ).format(name, kind, settled, settled, reserved)


def _which(name: str, agent: str | None) -> str:
    return f"{name}/{agent}" if agent and agent != "*" else name


def _given(visit: Visit) -> dict[str, Any]:
    form = visit.form
    return {
        "name": _which(form.get("name", "").strip(), form.get("agent", "").strip()),
        "unit": form.get("unit", ""),
        "period": form.get("period") or "day",
        "owner": form.get("owner") or None,
    }


def _reason(visit: Visit) -> str:
    return visit.form.get("reason", "").strip()


def _back(visit: Visit, done: Budget, text: str) -> Response:
    agent = None if done.agent == "*" else done.agent
    query = {"agent": agent, "period": done.period, "owner": governed.owner_of(done.owner)}
    return visit.redirect(f"/governance/budgets/{done.name}/{done.unit}", Flash(text), **query)


def _whole(text: str, name: str) -> int | None:
    """Return the whole number of a field; None where it was left empty."""
    plain = text.strip().replace(",", "").replace(" ", "")
    if not plain:
        return None
    if not (plain.removeprefix("-").isdecimal() and len(plain) < 20):
        raise InvalidInput("not_a_whole_number", name=name, value=text[:40])
    return int(plain)


def _sentence(found: Sequence[Budget]) -> str:
    if not found:
        return _("No budget is set; what agents spend is not limited.")
    empty = sum(each.left is not None and each.left <= 0 for each in found)
    if empty:
        return ngettext("One budget is used up.", "%(num)s budgets are used up.", empty)
    return ngettext("One budget, with something left.", "%(num)s budgets, each with something left.", len(found))


def _picture(visit: Visit, found: Budget, past: Sequence[PeriodUsage]) -> Markup | None:
    """Draw what each period has used; None for a budget that is never refilled."""
    length = LENGTHS.get(found.period)
    if length is None:
        return None
    now, zone = visit.now, visit.clock.zone_for()
    reach = length * (12 if found.period == "month" else 14)
    window = drawing.Window(now - reach, found.refill_at or now + length, now, zone)
    most = max([each.settled for each in past] + [found.capacity or 0, 1])
    shapes = [
        drawing.Shape(
            each.starts_at, each.starts_at + length * 3 / 4,
            "dead" if each.capacity is not None and each.settled >= each.capacity else "done",
            f"{times.clock_time(each.starts_at, now, zone)} {number(each.settled)}",
            side="up", level=series.level(each.settled, most), ahead=False,
        )
        for each in past
        if each.starts_at + length > window.since and each.settled
    ]  # fmt: skip
    name = _("What each period has used")
    label = _("now %(time)s", time=times.clock_time(now, now, zone))
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=56, below=2))
