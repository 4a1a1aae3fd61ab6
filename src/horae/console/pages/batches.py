"""Batches: what is under way and what came of it; one batch with its progress, its jobs and what follows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from starlette.responses import Response

from horae.api.jobs.batch import Batches, JobBatch
from horae.api.jobs.room import Job
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.console import states
from horae.console.pages.job import jobs_by_id
from horae.console.pages.jobs import Row, row_of
from horae.console.rendering import number, render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, mark, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.jobs.batch import BATCH_STATES, BatchState, Callback

doors = Doors()
LISTED, MEMBERS = 30, 50
EXAMPLE = """app.batch(
    [resize.request(each) for each in files],
    on_success=publish.request(),
    on_failure=complain.request(),
)"""
KINDS = {"open": "running", "failed": "dead"}  # whose shape and colour a state has
WORDS = {"open": mark("under way"), "succeeded": mark("succeeded"), "failed": mark("failed")}
CALLBACKS: dict[Callback, str] = {
    "on_end": mark("when all have ended"),
    "on_success": mark("when all have succeeded"),
    "on_failure": mark("when one has failed"),
}


@dataclass(frozen=True)
class Follower:
    """A callback: which outcome it follows, and the job."""

    when: str
    id: str
    row: Row | None  # None where the job is no longer on record


@dataclass(frozen=True)
class Seen:
    """What the page of a batch reads."""

    batch: JobBatch
    ids: tuple[str, ...]
    next_cursor: str | None
    jobs: dict[str, Job]


@doors.page("/batches", Batches.list)
async def batches(visit: Visit) -> Response:
    state, cursor = _state(visit), visit.query.get("cursor")
    page, under_way = await visit.read(
        lambda rooms: (
            rooms.batches.list(state=state or ()).page(cursor, limit=LISTED),
            rooms.batches.list(state="open").page(limit=LISTED),
        )
    )
    return render(
        visit,
        "batches.html",
        batches=page.items,
        next_cursor=page.next_cursor,
        sentence=_sentence(page.items, len(under_way.items), has_more=under_way.next_cursor is not None),
        state_=state,
        choices=_choices(),
        kinds=KINDS,
        is_first=cursor is None,
        example=EXAMPLE,
    )


@doors.page("/batches/{batch_id}", Batches.get)
async def batch(visit: Visit, batch_id: str) -> Response:
    state, cursor = _state(visit), visit.query.get("cursor")
    seen = await visit.read(lambda rooms: _read(rooms, batch_id, state, cursor))
    found = seen.batch
    return render(
        visit,
        "batch.html",
        batch=found,
        kind=KINDS.get(found.state, found.state),
        word=gettext(WORDS[found.state]),
        lead=_lead(found),
        took=_took(found, visit),
        rows=[(each, row_of(seen.jobs[each], visit.now) if each in seen.jobs else None) for each in seen.ids],
        next_cursor=seen.next_cursor,
        followers=list(_followers(found, seen.jobs, visit)),
        state_=state,
        choices=_choices(),
        counts={None: found.total, "open": found.open, "succeeded": found.succeeded, "failed": found.failed},
        kinds=KINDS,
        may_act=visit.may("tasks", "worker"),
        is_first=cursor is None,
        states=states,
    )


def _read(rooms: Rooms[Sender], batch_id: str, state: BatchState | None, cursor: str | None) -> Seen:
    found = rooms.batches.get(batch_id)
    page = rooms.batches.jobs(batch_id, state=state).page(cursor, limit=MEMBERS)
    ids = tuple(each.id for each in page.items)
    called = [each for each in (found.on_end, found.on_success, found.on_failure) if each is not None]
    return Seen(found, ids, page.next_cursor, jobs_by_id(rooms, ids) | jobs_by_id(rooms, called))


@doors.act("/batches/{batch_id}/cancel", Batches.cancel)
async def cancel(visit: Visit, batch_id: str) -> Response:
    reason = visit.form.get("reason", "").strip()
    await visit.act(lambda rooms: rooms.batches.cancel(batch_id, reason=reason))
    text = _("What waited is cancelled; what runs was asked to stop.")
    return visit.redirect(f"/batches/{batch_id}", Flash(text))


# -- words -------------------------------------------------------------------------------------------------------------


def _state(visit: Visit) -> BatchState | None:
    """Return the state that is asked for; None for all of them."""
    return next((each for each in BATCH_STATES if each == visit.query.get("state")), None)


def _choices() -> list[tuple[BatchState | None, str]]:
    return [(None, _("All")), *((each, gettext(WORDS[each])) for each in BATCH_STATES)]


def _sentence(batches: Sequence[JobBatch], under_way: int, *, has_more: bool) -> str:
    plus = "+" if has_more else ""
    if under_way:
        return ngettext("One batch is under way.", "%(num)s%(plus)s batches are under way.", under_way, plus=plus)
    return _("No batch is under way.") if batches else _("No batch yet.")


def _lead(found: JobBatch) -> str:
    ended = found.total - found.open
    facts = {"ended": number(ended), "count": number(found.total), "failed": number(found.failed)}
    if not found.failed:
        return _("%(ended)s of %(count)s jobs have ended, all of them well.", **facts) if ended else ngettext(
            "Its one job has not ended yet.", "None of its %(num)s jobs has ended yet.", found.total
        )  # fmt: skip
    return _("%(ended)s of %(count)s jobs have ended; %(failed)s failed.", **facts)


def _took(found: JobBatch, visit: Visit) -> timedelta:
    return (found.ended_at or visit.now) - found.created_at


def _followers(found: JobBatch, jobs: dict[str, Job], visit: Visit) -> Iterator[Follower]:
    for name, when in CALLBACKS.items():
        job_id: str | None = getattr(found, name)
        if job_id is not None:
            row = row_of(jobs[job_id], visit.now) if job_id in jobs else None
            yield Follower(gettext(when), job_id, row)
