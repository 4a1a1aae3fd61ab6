"""One job: where it stands and why, its attempts on a band of time, what it was asked and what came of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.jobs.logs import AttemptLog
from horae.api.jobs.room import Job, Jobs, Reason, Related, Run
from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.console import drawing, states, times
from horae.console.rendering import pretty_json, render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.jobs.job import LIVE
from horae.core.time.instants import from_iso, iso
from horae.core.traces import trace_link
from horae.errors import InvalidInput

doors = Doors()
MOST_DRAWN = 60  # attempts in the picture; the table has them all
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Seen:
    """What the page reads."""

    job: Job
    runs: tuple[Run, ...]
    why: tuple[Reason, ...]
    related: Related
    logs: tuple[AttemptLog, ...] = ()
    before: tuple[Job, ...] = ()  # the jobs that it was enqueued after, those on record


@doors.page("/jobs/{job_id}", Jobs.get)
async def job(visit: Visit, job_id: str) -> Response:
    return await _show(visit, job_id)


async def _show(visit: Visit, job_id: str, *, edited: str | None = None, problem: str = "") -> Response:
    """Render the page; with a problem, that of the payload that was *edited*."""
    seen = await visit.read(lambda rooms: _read(rooms, job_id))
    found = seen.job
    return render(
        visit,
        "job.html",
        422 if problem else 200,
        job=found,
        seen=seen,
        job_state=states.job_state(found, visit.now),
        why=[states.sentence(each, visit.clock) for each in seen.why],
        picture=_picture(visit, seen),
        attempts=list(_attempts(seen.runs)),
        error=_error(seen),
        progress=_progress(found.progress),
        is_live=found.state in LIVE,
        may_act=visit.may("tasks", "worker"),
        edited=pretty_json(found.payload) if edited is None else edited,
        problem=problem,
        commands=commands(visit, found),
        trace=trace_link(visit.service.options.trace_url, found.trace_id),
        states=states,
    )


def _read(rooms: Rooms[Sender], job_id: str) -> Seen:
    found, related = rooms.jobs.get(job_id), rooms.jobs.related(job_id)
    known = jobs_by_id(rooms, related.after)
    before = tuple(known[each] for each in related.after if each in known)
    return Seen(found, rooms.jobs.runs(job_id), rooms.jobs.why(job_id), related, rooms.jobs.logs(job_id), before)


def jobs_by_id(rooms: Rooms[Sender], ids: Sequence[str]) -> dict[str, Job]:
    """Return the jobs of these ids, at most fifty, that are on record and within reach, with one question."""
    if not ids:
        return {}
    return {each.id: each for each in rooms.jobs.list(where=f"id:{','.join(ids)}").page(limit=len(ids)).items}


# -- acts --------------------------------------------------------------------------------------------------------------


@doors.act("/jobs/{job_id}/cancel", Jobs.cancel)
async def cancel(visit: Visit, job_id: str) -> Response:
    done = await visit.act(lambda rooms: rooms.jobs.cancel(job_id, reason=_reason(visit)))
    if done.state in LIVE:
        return visit.redirect(f"/jobs/{job_id}", Flash(_("%(id)s was asked to stop.", id=job_id)))
    return visit.redirect(f"/jobs/{job_id}", Flash(_("%(id)s is cancelled. You can run it again below.", id=job_id)))


@doors.act("/jobs/{job_id}/revive", Jobs.revive)
async def revive(visit: Visit, job_id: str) -> Response:
    await visit.act(lambda rooms: rooms.jobs.revive(job_id, reason=_reason(visit)))
    return visit.redirect(f"/jobs/{job_id}", Flash(_("%(id)s has all its attempts again and is due now.", id=job_id)))


@doors.act("/jobs/{job_id}/reschedule", Jobs.reschedule)
async def reschedule(visit: Visit, job_id: str) -> Response:
    """Make it due now, or at the instant given; what was before can be had back."""
    given = visit.form.get("run_at")
    run_at = visit.now if not given else from_iso(given)
    before = await visit.read(lambda rooms: rooms.jobs.get(job_id))
    await visit.act(lambda rooms: rooms.jobs.reschedule(job_id, run_at=run_at, reason=_reason(visit)))
    text = _("%(id)s is due %(when)s.", id=job_id, when=times.relative(run_at, visit.now))
    undo = Flash(text, undo=f"/jobs/{job_id}/reschedule", undo_fields={"run_at": iso(before.run_at)})
    return visit.redirect(f"/jobs/{job_id}", undo)


@doors.act("/jobs/{job_id}/rerun", Jobs.rerun)
async def rerun(visit: Visit, job_id: str) -> Response:
    """Run it again as a new job, with the payload as it was edited."""
    given = visit.form.get("payload")
    try:
        payload = None if given is None else json.loads(given)
    except (ValueError, RecursionError) as mistake:
        text = _("This is not JSON: %(problem)s", problem=str(mistake)[:200])
        return await _show(visit, job_id, edited=given, problem=text)
    try:
        made = await visit.act(lambda rooms: rooms.jobs.rerun(job_id, payload=payload, reason=_reason(visit)))
    except InvalidInput as refusal:
        return await _show(visit, job_id, edited=given, problem=refusal.in_words(visit.language))
    return visit.redirect(f"/jobs/{made.id}", Flash(_("This is the new job; it runs like %(id)s.", id=job_id)))


def _reason(visit: Visit) -> str:
    return visit.form.get("reason", "").strip()


# -- the picture -------------------------------------------------------------------------------------------------------


def _picture(visit: Visit, seen: Seen) -> Markup:
    """Draw waiting and running from the first moment that matters to the last, or to what is planned."""
    found, runs = seen.job, seen.runs[-MOST_DRAWN:]
    window = _window(visit, found, runs)
    shapes = list(_shapes(found, runs, visit.now))
    label = _("now %(time)s", time=times.clock_time(visit.now, visit.now, window.zone))
    name = ngettext(
        "One attempt on a band of time", "%(num)s attempts on a band of time", len(seen.runs)
    )  # fmt: skip
    in_sight = window.since <= visit.now <= window.until
    return drawing.band(window, shapes, name=name, now_label=label if in_sight else "", rows=1)


def _window(visit: Visit, found: Job, runs: Sequence[Run]) -> drawing.Window:
    now = visit.now
    starts = [each.started_at for each in runs if each.started_at is not None]
    ends = [each.finished_at for each in runs if each.finished_at is not None]
    last = max([*starts, *ends, found.created_at])
    until = max(last, now, found.run_at) if found.state in LIVE else last
    since = min(found.created_at, *starts) if starts else found.created_at
    active = until - min(starts) if starts else timedelta(0)
    if starts and active and min(starts) - since > 3 * active:
        since = min(starts) - active  # it was made long before it ran
    margin = max((until - since) / 20, SECOND / 20 if starts else 20 * SECOND)
    return drawing.Window(since - margin / 2, until + margin, now, visit.clock.zone_for())


def _shapes(found: Job, runs: Sequence[Run], now: datetime) -> Iterator[drawing.Shape]:
    at = found.created_at
    for each in runs:
        if each.started_at is None:
            continue
        if each.started_at > at:
            waited = _("waited %(span)s", span=times.span(each.started_at - at))
            yield drawing.Shape(at, each.started_at, "waiting", waited, ahead=True)
        end = each.finished_at or now
        took = times.span(end - each.started_at)
        title = _(
            "attempt %(number)s: %(outcome)s, %(span)s",
            number=each.attempt, outcome=states.word(each.outcome), span=took,
        )  # fmt: skip
        yield drawing.Shape(each.started_at, end, states.DRAWN.get(each.outcome, "done"), title, ahead=False)
        at = end
    if found.state == "queued":
        due = max(found.run_at, at)
        yield drawing.Shape(at, due, "waiting", _("waits until it is due"), ahead=True)
        if due < now:
            kind = "late" if due < now - states.LATE else "waiting"
            yield drawing.Shape(due, now, kind, _("due for %(span)s", span=times.span(now - due)), ahead=True)
        else:
            yield drawing.Shape(due, None, "fire", _("due"), ahead=True)


# -- tables and texts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """A line of the table of attempts."""

    run: Run
    took: timedelta | None
    error: str


def _attempts(runs: Sequence[Run]) -> Iterator[Attempt]:
    """Return the attempts, the latest first."""
    for each in reversed(runs):
        ended = each.started_at is not None and each.finished_at is not None
        took = each.finished_at - each.started_at if ended else None  # type: ignore[operator]  # both are there
        yield Attempt(each, took, each.error or "")


def _error(seen: Seen) -> tuple[str, str] | None:
    """Return the latest error: its first line, and the whole of it where there is more."""
    text = seen.job.last_error
    if not text or seen.job.state == "succeeded":
        return None
    line, _newline, rest = text.strip().partition("\n")
    return line, rest.strip("\n")


def _progress(value: Any) -> tuple[float, float] | None:
    """Return how much of how much is done, where progress says so in numbers: ``{"done": 3, "of": 10}``."""
    if not isinstance(value, dict):
        return None
    numbers = [each for each in value.values() if isinstance(each, int | float) and not isinstance(each, bool)]
    whole = value.get("of", value.get("total"))
    part = next((each for each in numbers if each is not whole), None)
    if not isinstance(whole, int | float) or part is None or not 0 < whole < 1e15 or not 0 <= part <= whole:
        return None
    return float(part), float(whole)


def commands(visit: Visit, found: Job) -> dict[str, str]:
    """Return how to ask for the same job from a shell, over HTTP and from Python."""
    body: dict[str, Any] = {"handler": found.handler, "payload": found.payload}
    options = {"queue": (found.queue, "default"), "priority": (found.priority, "medium")}
    body |= {name: value for name, (value, usual) in options.items() if value != usual}
    text = json.dumps(body, ensure_ascii=False)
    flags = "".join(f" --{name} {shlex.quote(str(body[name]))}" for name in options if name in body)
    arguments = "" if found.payload is None else f" --args {shlex.quote(json.dumps(found.payload, ensure_ascii=False))}"
    given = "".join(f", {name}={body[name]!r}" for name in options if name in body)
    return {
        _("Command line"): f"horae job enqueue {shlex.quote(found.handler)}{arguments}{flags}",
        "curl": f'curl {visit.address}/jobs -H "Authorization: Bearer $HORAE_TOKEN" \\\n'
        f"  -H 'Content-Type: application/json' -d {shlex.quote(text)}",
        "Python": f"from horae import Client\n\nwith Client({visit.address!r}) as client:\n"
        f"    client.jobs.enqueue({found.handler!r}, {found.payload!r}{given})",
    }
