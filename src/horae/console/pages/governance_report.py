"""The report on governance: what became of what agents remember, by day or week, and what is above its line."""

from __future__ import annotations

from datetime import timedelta

from markupsafe import Markup
from starlette.responses import Response

from horae.api.governance.report import Governance, GovernanceReport
from horae.console import drawing, governed, series, states, times
from horae.console.pages.budgets import meter
from horae.console.pages.governance import budget_url, reference, tabs
from horae.console.rendering import number, render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, language, mark, ngettext
from horae.console.visitor import Visit
from horae.words.sentences import verb_phrase

doors = Doors()
PERIODS = {"7": mark("a week"), "30": mark("30 days"), "90": mark("90 days"), "365": mark("a year")}  # days
USUAL = "7"
STOPPED = ("blocked", "escalated", "abstained")


@doors.page("/governance/report", Governance.report)
async def report(visit: Visit) -> Response:
    days = visit.query.get("days", USUAL)
    days = days if days in PERIODS else USUAL
    owner = visit.query.get("owner") or None
    period = timedelta(days=int(days))
    found = await visit.read(lambda rooms: rooms.governance.report(period=period, owner=owner))
    return render(
        visit,
        "governance_report.html",
        tabs=tabs(visit),
        here="/governance/report",
        report=found,
        days=days,
        owner=owner,
        periods={name: gettext(text) for name, text in PERIODS.items()},
        sentence=_sentence(found),
        lines=[states.sentence(each, visit.clock) for each in found.lines],
        warnings=[states.sentence(each, visit.clock) for each in found.warnings],
        jobs_picture=_jobs(visit, found),
        decisions_picture=_decisions(visit, found),
        events=[(verb_phrase(name, language()), count, _bars(found, name)) for name, count in found.events.items()],
        governed=governed,
        meter=meter,
        reference=reference,
        url_of=lambda each: budget_url(visit, each),
    )


def _sentence(found: GovernanceReport) -> str:
    if found.warnings:
        return ngettext("One thing is above its line.", "%(num)s things are above their lines.", len(found.warnings))
    if not found.jobs.jobs and not found.events:
        return _("Nothing happened in this time.")
    return _("Nothing is above its line.")


def _window(visit: Visit, found: GovernanceReport) -> drawing.Window:
    margin = (found.until - found.since) / 40
    return drawing.Window(found.since, max(found.until, visit.now) + margin, visit.now, visit.clock.zone_for())


def _jobs(visit: Visit, found: GovernanceReport) -> Markup:
    """Draw jobs about objects: what succeeded below the line, what was tried again or died above."""
    done = max((each.jobs.succeeded for each in found.series), default=0)
    bad = max((each.jobs.retried + each.jobs.dead for each in found.series), default=0)
    shapes = []
    for each in found.series:
        at, end = times.clock_time(each.at, visit.now, visit.clock.zone_for()), each.at + (each.until - each.at) * 3 / 4
        if each.jobs.succeeded:
            title = ngettext("%(at)s: one check done", "%(at)s: %(num)s checks done", each.jobs.succeeded, at=at)
            level = series.level(each.jobs.succeeded, done)
            shapes.append(drawing.Shape(each.at, end, "done", title, side="down", level=level, ahead=False))
        failed = each.jobs.retried + each.jobs.dead
        if failed:
            title = ngettext("%(at)s: one check failed", "%(at)s: %(num)s checks failed", failed, at=at)
            level = series.level(failed, bad)
            shapes.append(drawing.Shape(each.at, end, "failed", title, side="up", level=level, ahead=False))
    name = _("Checks of objects: done below the line, failed above")
    return drawing.band(_window(visit, found), shapes, name=name, size=drawing.Size(above=28, below=44))


def _decisions(visit: Visit, found: GovernanceReport) -> Markup:
    """Draw decisions: what went through below the line, what was stopped above."""
    sums = [
        (each, sum(count for name, count in each.decisions.items() if name in STOPPED), sum(each.decisions.values()))
        for each in found.series
    ]
    most = max((total for _each, _stopped, total in sums), default=0)
    shapes = []
    for each, stopped, total in sums:
        at, end = times.clock_time(each.at, visit.now, visit.clock.zone_for()), each.at + (each.until - each.at) * 3 / 4
        if total - stopped:
            title = ngettext("%(at)s: one went through", "%(at)s: %(num)s went through", total - stopped, at=at)
            level = series.level(total - stopped, most)
            shapes.append(drawing.Shape(each.at, end, "done", title, side="down", level=level, ahead=False))
        if stopped:
            title = ngettext("%(at)s: one was stopped", "%(at)s: %(num)s were stopped", stopped, at=at)
            level = series.level(stopped, most)
            shapes.append(drawing.Shape(each.at, end, "late", title, side="up", level=level, ahead=False))
    name = _("Decisions: stopped ones above, others below the line")
    return drawing.band(_window(visit, found), shapes, name=name, size=drawing.Size(above=40, below=40))


def _bars(found: GovernanceReport, event: str) -> Markup:
    """Draw how often one event happened in each span, as small bars."""
    counts = [each.events.get(event, 0) for each in found.series]
    heights = [round(16 * each) for each in series.levels(counts)]
    parts = [
        Markup('<rect x="{}" y="{}" width="5" height="{}" rx="1"><title>{}</title></rect>').format(
            place * 7, 18 - max(height, 1), max(height, 1), number(count)
        )
        for place, (height, count) in enumerate(zip(heights, counts, strict=True))
    ]
    width = max(len(counts), 1) * 7
    numbers = ", ".join(map(str, counts))
    return Markup('<svg class="strip" role="img" width="{}" height="18" aria-label="{}">{}</svg>').format(
        width, numbers, Markup("").join(parts)
    )
