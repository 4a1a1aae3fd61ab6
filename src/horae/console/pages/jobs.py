"""Jobs: find them by a filter, see how they are spread, keep a filter as a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from starlette.responses import RedirectResponse, Response

from horae.api.jobs.room import Job, JobCounts, Jobs
from horae.api.operation import Page, Sender
from horae.api.rooms import Rooms
from horae.api.views import View, Views
from horae.console import filters, states, times
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, mark
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.jobs.job import LIVE
from horae.errors import InvalidFilter

doors = Doors()
PAGE = 50
SHOWN = 8  # values of a facet
STATES = ("queued", "running", "dead", "succeeded", "cancelled")
# What a newcomer may try; the second is said beside it.
EXAMPLES = (
    ("state:dead", mark("dead jobs")),
    ("ended:>-2h -state:succeeded", mark("what did not succeed in the last two hours")),
    ("error:Timeout", mark("whose last error says Timeout")),
    ("due:now..+1d", mark("due in the next day")),
    ("attempt:>1", mark("tried more than once")),
)


@dataclass(frozen=True)
class Facet:
    """A value that narrows the list, and how many jobs have it."""

    text: str
    count: int
    query: str  # the filter with it
    is_chosen: bool


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    job: Job
    state: str
    when: datetime
    note: str
    took: str


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a filter: a sentence, and where it stands."""

    sentence: str
    before: str
    at: str


@doors.page("/jobs", Jobs.list)
async def jobs(visit: Visit) -> Response:
    query = visit.query.get("q", "").strip()
    named = filters.job_named(query)
    if named is not None:
        return RedirectResponse(visit.url(f"/jobs/{named}"), 303)
    cursor = visit.query.get("cursor")
    try:
        page, counts, views = await visit.read(lambda rooms: _read(rooms, query, cursor))
        mistake = None
    except InvalidFilter as error:
        page, counts, mistake = Page[Job](()), JobCounts(), _mistake(error, visit)
        views = await visit.read(lambda rooms: rooms.views.list(room="jobs"))
    return render(
        visit,
        "jobs.html",
        422 if mistake else 200,
        query=query,
        rows=[row_of(each, visit.now) for each in page.items],
        next_cursor=page.next_cursor,
        is_short=page.next_cursor is not None and len(page.items) < PAGE,
        counts=counts,
        by_state=list(_by_state(counts, query)),
        without_state=filters.without(query, "state"),
        by_queue=list(_facet(counts, query, "queue")),
        by_handler=list(_facet(counts, query, "handler")),
        views=views,
        examples=[(text, gettext(words)) for text, words in EXAMPLES],
        mistake=mistake,
        guesses=_guesses(query) if mistake else [],
        may_act=visit.may("tasks", "worker"),
        states=states,
        times=times,
        is_first=cursor is None,
    )


def _read(rooms: Rooms[Sender], query: str, cursor: str | None) -> tuple[Page[Job], JobCounts, tuple[View, ...]]:
    where = query or None
    page = rooms.jobs.list(where=where).page(cursor, limit=PAGE)
    counts = rooms.jobs.counts(where=filters.without(query, "state") or None)
    return page, counts, rooms.views.list(room="jobs")


# -- views -------------------------------------------------------------------------------------------------------------


@doors.act("/jobs/views", Views.save)
async def save_view(visit: Visit) -> Response:
    """Keep the filter under a name."""
    form = visit.form
    name, query, shared = form.get("name", "").strip(), form.get("q", ""), form.get("shared") == "yes"
    made = await visit.act(lambda rooms: rooms.views.save(name, query, room="jobs", shared=shared))
    return visit.redirect("/jobs", Flash(_("The view %(name)s is kept.", name=made.name)), q=made.filter)


@doors.act("/jobs/views/{view_id}/delete", Views.delete)
async def delete_view(visit: Visit, view_id: str) -> Response:
    await visit.act(lambda rooms: rooms.views.delete(view_id))
    return visit.redirect("/jobs", Flash(_("The view is gone.")))


# -- what the page shows -----------------------------------------------------------------------------------------------


def row_of(job: Job, now: datetime) -> Row:
    """Return the line of a job in a table."""
    state = states.job_state(job, now)
    when = job.run_at if job.state == "queued" else job.started_at if job.state == "running" else job.finished_at
    note = "" if job.state == "succeeded" or not job.last_error else job.last_error.strip().partition("\n")[0]
    return Row(job, state, when or job.created_at, note, _took(job))


def _took(job: Job) -> str:
    if job.state not in LIVE and job.started_at is not None and job.finished_at is not None:
        return times.span(job.finished_at - job.started_at)
    return ""


def _by_state(counts: JobCounts, query: str) -> Iterator[Facet]:
    found: Counter[str] = Counter()
    for group in counts.groups:
        found[group.state] += group.count
    chosen = filters.value_of(query, "state")
    for state in STATES:
        yield Facet(state, found[state], filters.with_term(query, "state", state), state == chosen)


def _facet(counts: JobCounts, query: str, field: str) -> Iterator[Facet]:
    """Return the values of a field among the jobs of the chosen state, those with most jobs first."""
    state = filters.value_of(query, "state")
    found: Counter[str] = Counter()
    for group in counts.groups:
        if state is None or group.state == state:
            found[getattr(group, field)] += group.count
    chosen = filters.value_of(query, field)
    for value, count in found.most_common(SHOWN):
        is_chosen = value == chosen
        narrowed = filters.without(query, field) if is_chosen else filters.with_term(query, field, value)
        yield Facet(value, count, narrowed, is_chosen)


def _mistake(error: InvalidFilter, visit: Visit) -> Mistake:
    expression, position = str(error.facts.get("expression", "")), int(str(error.facts.get("position", 1)))
    before, rest = expression[: position - 1], expression[position - 1 :]
    return Mistake(error.in_words(visit.language).partition("\n")[0], before, rest)


def _guesses(query: str) -> list[tuple[str, Any]]:
    """Return filters that a bare word may have meant."""
    words = filters.bare_words(query)
    if len(words) != 1:
        return []
    word = filters.quoted(words[0].strip('"'))
    return [(f"handler:{word}*", _("handlers that begin so")), (f"error:{word}", _("errors that say so")),
            (f"tag:{word}", _("jobs with that tag"))]  # fmt: skip
