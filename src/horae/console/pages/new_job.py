"""Run a job: a form made from what its handler takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from starlette.responses import Response

from horae.api.admin import Admin, Definition
from horae.api.jobs.room import Jobs
from horae.console import states
from horae.console.pages.bulk import DELAYS
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, gettext
from horae.console.times import zone_label
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.jobs.job import PRIORITIES
from horae.core.jobs.parameters import Parameter
from horae.core.time.instants import iso
from horae.errors import InvalidInput

doors = Doors()
PREFIX = "arg."  # before the names of arguments in the form
WHOLE = "payload"  # the field that holds all arguments as JSON


class Unreadable(Exception):
    """A value that does not fit its field, with a sentence for the reader."""


@dataclass(frozen=True)
class Field:
    """A field of the form: what it asks for, what is in it, and what is wrong with that."""

    parameter: Parameter
    value: str
    problem: str = ""

    @property
    def id(self) -> str:
        return f"{PREFIX}{self.parameter.name}"


@doors.page("/jobs/new", Admin.definitions)
async def choose(visit: Visit) -> Response:
    return await _show(visit, visit.query.get("handler", ""), {}, {})


@doors.act("/jobs/new", Jobs.enqueue)
async def enqueue(visit: Visit) -> Response:
    form, handler = visit.form, visit.form.get("handler", "").strip()
    definition = await _definition(visit, handler)
    payload, problems = _payload(visit, definition)
    delay = form.get("delay", "0")
    if delay not in DELAYS:
        raise InvalidInput("choice_unknown", name="delay", value=delay[:40], choices=list(DELAYS))
    if problems:
        return await _show(visit, handler, form, problems)
    options: dict[str, Any] = {"priority": form.get("priority") or "medium", "delay": timedelta(seconds=int(delay))}
    queue = form.get("queue", "").strip()
    if queue:
        options["queue"] = queue
    try:
        made = await visit.act(lambda rooms: rooms.jobs.enqueue(handler, payload, **options))
    except InvalidInput as refusal:
        return await _show(visit, handler, form, {"": refusal.in_words(visit.language)})
    return visit.redirect(f"/jobs/{made.id}", Flash(_("%(id)s is stored.", id=made.id)))


async def _definition(visit: Visit, handler: str) -> Definition | None:
    known = await visit.read(lambda rooms: rooms.admin.definitions())
    return next((each for each in known if each.name == handler), None)


async def _show(visit: Visit, handler: str, form: Mapping[str, str], problems: Mapping[str, str]) -> Response:
    known = await visit.read(lambda rooms: rooms.admin.definitions())
    chosen = next((each for each in known if each.name == handler), None)
    parameters = None if chosen is None else chosen.parameters
    fields = [
        Field(each, form.get(f"{PREFIX}{each.name}", _default(each)), problems.get(each.name, ""))
        for each in parameters or ()
    ]
    return render(
        visit,
        "new_job.html",
        422 if problems else 200,
        known=known,
        handler=handler,
        chosen=chosen,
        fields=None if parameters is None else fields,
        payload=form.get(WHOLE, "{}"),
        payload_problem=problems.get(WHOLE, ""),
        problem=problems.get("", ""),
        queue=form.get("queue", "" if chosen is None else chosen.queue),
        priorities=PRIORITIES,
        states=states,
        delays={seconds: gettext(text) for seconds, text in DELAYS.items()},
        zone=zone_label(visit.now.astimezone(visit.clock.zone_for())),
        prefix=PREFIX,
    )


def _default(parameter: Parameter) -> str:
    if parameter.required or parameter.default is None or parameter.sensitive:
        return ""
    return (
        parameter.default if isinstance(parameter.default, str) else json.dumps(parameter.default, ensure_ascii=False)
    )


def _payload(visit: Visit, definition: Definition | None) -> tuple[Any, dict[str, str]]:
    """Return the arguments as the form has them, and what is wrong by name."""
    if definition is None or definition.parameters is None:
        try:
            return _json(visit.form.get(WHOLE, "{}")), {}
        except Unreadable as mistake:
            return None, {WHOLE: str(mistake)}
    found: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for each in definition.parameters:
        text = visit.form.get(f"{PREFIX}{each.name}", "")
        if not text.strip() and not (each.required and each.kind == "text"):
            if each.required:
                problems[each.name] = _("This is needed.")
            continue
        try:
            value = _value(visit, each, text)
        except Unreadable as mistake:
            problems[each.name] = str(mistake)
            continue
        if each.kind == "extra":
            found |= value
        else:
            found[each.name] = value
    return found, problems


def _value(visit: Visit, parameter: Parameter, text: str) -> Any:
    try:
        match parameter.kind:
            case "text":
                return text
            case "integer":
                return int(text.strip())
            case "number":
                return _number(text)
            case "boolean":
                return {"yes": True, "no": False}[text]
            case "date":
                return date.fromisoformat(text).isoformat()
            case "instant":
                there = datetime.fromisoformat(text)
                return iso(there if there.tzinfo else there.replace(tzinfo=visit.clock.zone_for()))
            case "choice":
                return next(each for each in parameter.choices if _as_text(each) == text)
            case "extra":
                return _object(text)
            case _:
                return _json(text)
    except (ValueError, KeyError, StopIteration, OverflowError):
        raise Unreadable(_("This does not fit: %(kind)s is expected.", kind=_kind(parameter))) from None


def _number(text: str) -> int | float:
    value = json.loads(text.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(text)
    return value


def _object(text: str) -> dict[str, Any]:
    value = _json(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as mistake:
        raise Unreadable(_("This is not JSON: %(problem)s", problem=str(mistake)[:200])) from None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(parameter: Parameter) -> str:
    return {
        "integer": _("a whole number"),
        "number": _("a number"),
        "boolean": _("yes or no"),
        "date": _("a date"),
        "instant": _("a date and a time"),
        "choice": _("one of the choices"),
        "extra": _("a JSON object"),
    }.get(parameter.kind, _("JSON"))
