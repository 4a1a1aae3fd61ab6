"""Governance: what agents remember, by kind, state and due time, and what of it needs a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.governance.budgets import Budget, Budgets
from horae.api.governance.decisions import Decisions
from horae.api.governance.object_values import GovernanceOverview, GovernedObject
from horae.api.governance.objects import Objects
from horae.api.governance.policies import Policies
from horae.api.governance.report import Governance
from horae.api.governance.reviews import Review, Reviews
from horae.api.operation import Page, Sender
from horae.api.rooms import Rooms
from horae.console import drawing, governed, series, times
from horae.console.rendering import MOST, number, render
from horae.console.routing import Doors, Operation
from horae.console.texts import _, gettext, mark, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.governance.machines import KINDS, MACHINES
from horae.core.governance.policies import CATEGORIES, IMPACTS, RISKS

doors = Doors()
SHOWN = 50
AHEAD, BEHIND = timedelta(days=14), timedelta(hours=12)
WIDTH, WIDER = timedelta(hours=6), timedelta(days=1)
MOST_DRAWN = 500
MOST_ASKED = 5
TABS: tuple[tuple[str, str, Operation], ...] = (
    ("/governance", mark("Objects"), Objects.list),
    ("/governance/reviews", mark("Reviews"), Reviews.list),
    ("/governance/decisions", mark("Decisions"), Decisions.list),
    ("/governance/budgets", mark("Budgets"), Budgets.list),
    ("/governance/rules", mark("Personas and policies"), Policies.list),
    ("/governance/report", mark("Report"), Governance.report),
)
STATUSES = {
    kind: tuple(dict.fromkeys(state.partition("/")[0] for state in machine.states))
    for kind, machine in MACHINES.items()
}


@dataclass(frozen=True)
class Tab:
    """A part of governance that the visitor may open."""

    path: str
    text: str


@dataclass(frozen=True)
class Need:
    """One thing that needs a person."""

    kind: str
    text: str
    detail: str
    url: str
    link: str


@dataclass(frozen=True)
class Seen:
    """What the page reads, in one moment."""

    page: Page[GovernedObject]
    overview: GovernanceOverview
    due: tuple[GovernedObject, ...]
    reviews: tuple[Review, ...]
    budgets: tuple[Budget, ...]


def tabs(visit: Visit) -> list[Tab]:
    """Return the parts of governance that the visitor may open."""
    return [Tab(path, gettext(text)) for path, text, operation in TABS if visit.may(*operation.needs.scopes, "read")]


@doors.page("/governance", Objects.list)
async def governance(visit: Visit) -> Response:
    wanted = _wanted(visit)
    order = "newest" if visit.query.get("order") == "newest" else "due"
    seen = await visit.read(lambda rooms: _read(rooms, visit, wanted, order))
    needs = list(_needs(visit, seen))
    return render(
        visit,
        "governance.html",
        tabs=tabs(visit),
        here="/governance",
        seen=seen,
        wanted=wanted,
        order=order,
        needs=needs,
        sentence=_sentence(seen, needs),
        counts=_counts(seen.overview),
        picture=_picture(visit, seen.due, WIDTH),
        narrow_picture=_picture(visit, seen.due, WIDER),
        days=_days(visit, seen.due),
        governed=governed,
        kinds=KINDS,
        risks=RISKS,
        statuses=STATUSES[wanted["kind"]] if wanted.get("kind") in STATUSES else _all_statuses(),
        may_propose=visit.may("tasks"),
    )


def _wanted(visit: Visit) -> dict[str, Any]:
    """Return the filters of the address; an unknown kind or status is refused by the room."""
    names = ("kind", "status", "risk", "subject", "agent", "owner")
    wanted: dict[str, Any] = {name: visit.query[name].strip() for name in names if visit.query.get(name, "").strip()}
    for name in ("contested", "stalled"):
        if visit.query.get(name) == "yes":
            wanted[name] = True
    if visit.query.get("due") == "late":
        wanted["due_before"] = visit.now
    return wanted


def _read(rooms: Rooms[Sender], visit: Visit, wanted: Mapping[str, Any], order: Any) -> Seen:
    owner = wanted.get("owner")
    # What rests for good comes due for nothing: with a state that is asked for, the newest are shown.
    chosen: Any = "newest" if wanted.get("status") in ("archived", "retracted") else order
    return Seen(
        rooms.objects.list(**wanted, order=chosen).page(visit.query.get("cursor"), limit=SHOWN),
        rooms.objects.overview(owner=owner),
        rooms.objects.list(order="due", due_before=visit.now + AHEAD, owner=owner).page(limit=MOST_DRAWN).items,
        rooms.reviews.list(state="open", owner=owner).page(limit=MOST_ASKED).items,
        rooms.budgets.list(owner=owner).page(limit=100).items if visit.may("tasks", "worker", "read") else (),
    )


def _all_statuses() -> tuple[str, ...]:
    return tuple(dict.fromkeys(status for each in STATUSES.values() for status in each))


# -- words -------------------------------------------------------------------------------------------------------------


def _sentence(seen: Seen, needs: Sequence[Need]) -> str:
    if not seen.overview.looked_at:
        return _("Nothing is remembered yet.")
    if needs:
        return ngettext("One thing needs you.", "%(num)s things need you.", len(needs))
    return _("All that is remembered is in order.")


def _counts(seen: GovernanceOverview) -> list[tuple[str, str, int]]:
    """Return how many objects have each state, those in trouble first, then by number."""
    sums: dict[tuple[str, str], int] = {}
    for each in seen.counts:
        sums[each.kind, each.status] = sums.get((each.kind, each.status), 0) + each.count
    return sorted(((kind, status, count) for (kind, status), count in sums.items()), key=lambda each: -each[2])


def _needs(visit: Visit, seen: Seen) -> Iterator[Need]:
    now, overview = visit.now, seen.overview
    for review in seen.reviews:
        left = times.relative(review.deadline, now)
        text = review.question or governed.question(review.kind)
        due = _("deadline %(when)s", when=left)
        detail = f"{review.about or review.decision or ''} · {due}"
        url = visit.url(f"/governance/reviews/{review.id}", owner=governed.owner_of(review.owner))
        yield Need("late", text, detail, url, _("Answer"))
    if overview.open_reviews > len(seen.reviews):
        count = number(overview.open_reviews - len(seen.reviews), most=MOST)
        text = _("%(count)s more questions wait.", count=count)
        yield Need("late", text, "", visit.url("/governance/reviews"), _("See the reviews"))
    if overview.late:
        text = ngettext(
            "One object has been due for over five minutes.",
            "%(count)s objects have been due for over five minutes.",
            overview.late,
            count=number(overview.late, most=MOST),
        )
        detail = _("Is a worker there that serves their queue?")
        yield Need("dead", text, detail, visit.url("/governance", due="late"), _("See them"))
    stalled = sum(each.stalled for each in overview.counts)
    if stalled:
        text = ngettext("One object could not be verified.", "%(num)s objects could not be verified.", stalled)
        yield Need("failed", text, "", visit.url("/governance", stalled="yes", order="newest"), _("See them"))
    contested = sum(each.contested for each in overview.counts if each.status not in ("archived", "retracted"))
    if contested:
        text = ngettext("One object is contested.", "%(num)s objects are contested.", contested)
        yield Need("late", text, "", visit.url("/governance", contested="yes", order="newest"), _("See them"))
    for budget in seen.budgets:
        if budget.left is not None and budget.left <= 0:
            text = _("The budget %(name)s is used up.", name=reference(budget))
            detail = (
                "" if budget.refill_at is None else _("refilled %(when)s", when=times.relative(budget.refill_at, now))
            )
            yield Need("paused", text, detail, budget_url(visit, budget), _("See the budget"))


def reference(budget: Budget) -> str:
    return budget.name if budget.agent == "*" else f"{budget.name}/{budget.agent}"


def budget_url(visit: Visit, budget: Budget) -> str:
    agent = None if budget.agent == "*" else budget.agent
    owner = governed.owner_of(budget.owner)
    return visit.url(f"/governance/budgets/{budget.name}/{budget.unit}", agent=agent, period=budget.period, owner=owner)


# -- the picture -------------------------------------------------------------------------------------------------------


def _picture(visit: Visit, due: Sequence[GovernedObject], width: timedelta) -> Markup:
    """Draw what comes due in the next days; what is late stands at the now line."""
    now, zone = visit.now, visit.clock.zone_for()
    window = drawing.Window(now - BEHIND, now + AHEAD, now, zone)
    bars = series.collect(now, now + AHEAD, width, due, lambda each: max(each.next_action_at or now, now))
    late = sum(each.next_action_at is not None and each.next_action_at < now - timedelta(minutes=5) for each in due)
    most = max(late, *map(len, bars), 1)
    shapes = [
        drawing.Shape(
            start, start + (end - start) * 3 / 4, "fire",
            ngettext("%(at)s: one comes due", "%(at)s: %(num)s come due", len(found),
                     at=times.clock_time(start, now, zone)),
            side="up", level=series.level(len(found), most), ahead=True,
        )
        for (start, end), found in zip(series.bins(now, now + AHEAD, width), bars, strict=True)
        if found
    ]  # fmt: skip
    if late:
        title = ngettext("one is late", "%(num)s are late", late)
        start = now - BEHIND / 2
        level = series.level(late, most)
        shapes.append(drawing.Shape(start, now - BEHIND / 4, "late", title, side="up", level=level, ahead=False))
    name = ngettext("One object comes due in 14 days", "%(num)s objects come due in 14 days", len(due))
    label = _("now %(time)s", time=times.clock_time(now, now, zone))
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=56, below=2))


def _days(visit: Visit, due: Sequence[GovernedObject]) -> list[tuple[Any, int]]:
    """Return how many come due on each day, for the table beside the picture."""
    spans = series.bins(visit.now, visit.now + AHEAD, WIDER)
    found = series.collect(
        visit.now, visit.now + AHEAD, WIDER, due, lambda each: max(each.next_action_at or visit.now, visit.now)
    )
    return [(start, len(each)) for (start, _end), each in zip(spans, found, strict=True) if each]


# -- propose -----------------------------------------------------------------------------------------------------------


@doors.page("/governance/new", Objects.schemas)
async def new_object(visit: Visit) -> Response:
    return _form(visit, {})


@doors.act("/governance/new", Objects.propose)
async def propose(visit: Visit) -> Response:
    form = visit.form
    if not form.get("content", "").strip():
        return _form(visit, form, _("Say what to remember."), 422)
    lines: dict[str, Any] = {
        name: [each.strip() for each in form.get(name, "").splitlines() if each.strip()] for name in LISTS
    }
    plain: dict[str, Any] = {name: form[name].strip() for name in TEXTS if form.get(name, "").strip()}
    kind: Any = form.get("kind", "memory")
    made = await visit.act(lambda rooms: rooms.objects.propose(kind, form["content"], **plain, **lines))
    owner = governed.owner_of(made.owner)
    text = _("It was there already.") if made.deduplicated else _("Proposed. It is verified next.")
    return visit.redirect(f"/governance/objects/{made.id}", Flash(text), kind=made.kind, owner=owner)


LISTS = ("rests_on", "evidence")
TEXTS = ("id", "subject", "agent", "category", "risk", "impact", "reason", "owner", "source")


def _form(visit: Visit, form: Mapping[str, str], problem: str = "", status: int = 200) -> Response:
    return render(
        visit,
        "new_object.html",
        status,
        form=form,
        problem=problem,
        governed=governed,
        kinds=KINDS,
        risks=RISKS,
        impacts=IMPACTS,
        categories=CATEGORIES,
        may_propose=visit.may("tasks"),
    )
