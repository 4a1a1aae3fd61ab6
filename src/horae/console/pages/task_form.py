"""Make a task, or change it: what it does, when it runs, and a preview of that while it is typed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast
from zoneinfo import available_timezones

from starlette.responses import Response

from horae.api.scheduled_tasks.room import ScheduledTasks
from horae.api.scheduled_tasks.values import ScheduledTask, TaskLimits, TaskPreview, TaskTerms
from horae.console.pages.tasks import is_elsewhere, occasions
from horae.console.rendering import pretty_json, render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, language, mark
from horae.console.times import zone_named
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.errors import (
    AddressRefused,
    Conflict,
    HoraeError,
    InvalidCron,
    InvalidInput,
    InvalidInterval,
    InvalidName,
    InvalidPayload,
    NotAllowed,
    QuotaExceeded,
    UnknownZone,
)
from horae.service.problems import status_of
from horae.words.languages import Language

doors = Doors()
Form = Mapping[str, str]
REFUSALS = (Conflict, InvalidInput, NotAllowed)
SHOWN = 5  # next runs in the preview
NEEDED = mark("This is needed.")
REST = "rest"  # the field with everything of the payload that has no field of its own, as JSON
PREFIX = "arg."  # before the keys of the payload in the form
UNITS = {"1": mark("seconds"), "60": mark("minutes"), "3600": mark("hours"), "86400": mark("days")}
MODES = ("hybrid", "llm", "keywords")
# Examples of cron that a field offers.
EXAMPLES = ("0 9 * * 1-5", "*/15 * * * *", "0 * * * *", "30 2 * * *", "0 8 * * 1", "0 6 1 * *")
AREAS = ("Africa/", "America/", "Antarctica/", "Asia/", "Atlantic/", "Australia/", "Europe/", "Indian/", "Pacific/")


@dataclass(frozen=True)
class Argument:
    """A key of the payload that has a field of its own."""

    key: str
    label: str
    kind: str = "text"  # or "long", "mode"
    is_needed: bool = True


# What a task may run, and the fields of its payload.
ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "dispatch": (
        Argument("text", mark("Prompt"), "long"),
        Argument("default_agent", mark("Agent"), is_needed=False),
        Argument("mode", mark("How the agent is chosen"), "mode", is_needed=False),
    ),
    "webhook": (Argument("url", mark("Address")),),
    "attend": (Argument("lane", mark("Agent")), Argument("kind", mark("Kind of task"))),
}
HANDLERS = {
    "dispatch": mark("Ask an agent"),
    "webhook": mark("Call an address"),
    "attend": mark("Give an agent a task"),
}
# The field beside which a refusal is said, by its reason; the family decides where no reason is listed.
BESIDE = {
    "next_run_at_missing": "at",
    "next_run_at_passed": "at",
    "next_run_at_too_early": "at",
    "instant_unreadable": "at",
    "reading_zone_missing": "at",
    "outside_calendar": "at",
    "zone_name_too_long": "timezone",
    "cron_has_seconds": "cron",
    "webhook_url_missing": "arg.url",
    "dispatch_text_missing": "arg.text",
}
FAMILIES: tuple[tuple[type[HoraeError], str], ...] = (
    (InvalidCron, "cron"),
    (InvalidInterval, "every"),
    (UnknownZone, "timezone"),
    (QuotaExceeded, "enabled"),
    (AddressRefused, "arg.url"),
    (InvalidPayload, REST),
)


@dataclass
class Draft:
    """A form as it was sent: the terms in it, and what is wrong by field."""

    terms: TaskTerms
    problems: dict[str, str]


# -- pages and acts ----------------------------------------------------------------------------------------------------


@doors.page("/tasks/new", ScheduledTasks.limits)
async def new(visit: Visit) -> Response:
    limits = await visit.read(lambda rooms: rooms.scheduled_tasks.limits())
    return await _show(visit, limits, _blank(visit, limits, visit.query.get("handler", "")))


@doors.page("/tasks/preview", ScheduledTasks.preview_new)
async def preview(visit: Visit) -> Response:
    """Show when a task would run; asked for while a reader types, so a mistake is an answer like any other."""
    draft = Draft({}, {})
    _read_timing(visit.query, draft)
    return render(visit, "task_preview.html", **await _preview(visit, draft))


@doors.act("/tasks/new", ScheduledTasks.create)
async def create(visit: Visit) -> Response:
    limits = await visit.read(lambda rooms: rooms.scheduled_tasks.limits())
    draft = read_form(visit.form, limits)
    if visit.form.get("preview") == "yes" or draft.problems:
        return await _show(visit, limits, visit.form, draft)
    key = _key(visit.form.get("csrf", ""), draft.terms)
    try:
        made = await visit.act(lambda rooms: rooms.scheduled_tasks.create(key=key, lang=visit.language, **draft.terms))
    except REFUSALS as refusal:
        return await _refuse(visit, limits, draft, refusal)
    return visit.redirect(
        f"/tasks/{made.id}", Flash(" ".join((_("%(name)s is stored.", name=made.name), *made.warnings)))
    )


@doors.page("/tasks/{task_id}/edit", ScheduledTasks.get)
async def edit(visit: Visit, task_id: str) -> Response:
    task, limits = await _task(visit, task_id)
    return await _show(visit, limits, _form_of(task), task=task)


@doors.act("/tasks/{task_id}/edit", ScheduledTasks.change)
async def change(visit: Visit, task_id: str) -> Response:
    task, limits = await _task(visit, task_id)
    draft = read_form(visit.form, limits, task)
    if visit.form.get("preview") == "yes" or draft.problems:
        return await _show(visit, limits, visit.form, draft, task=task)
    version = visit.form.get("version", "")
    seen = int(version) if version.isascii() and version.isdigit() and len(version) < 10 else task.version
    try:
        after = await visit.act(
            lambda rooms: rooms.scheduled_tasks.change(task_id, version=seen, lang=visit.language, **draft.terms)
        )
    except REFUSALS as refusal:
        return await _refuse(visit, limits, draft, refusal, task)
    text = " ".join((_("%(name)s is changed.", name=after.name), *after.warnings))
    return visit.redirect(f"/tasks/{task_id}", Flash(text))


async def _task(visit: Visit, task_id: str) -> tuple[ScheduledTask, TaskLimits]:
    return await visit.read(lambda rooms: (rooms.scheduled_tasks.get(task_id), rooms.scheduled_tasks.limits()))


async def _refuse(
    visit: Visit, limits: TaskLimits, draft: Draft, refusal: HoraeError, task: ScheduledTask | None = None
) -> Response:
    """Show the form again as it was sent, with the refusal beside the field that it is about."""
    draft.problems[_field_of(refusal, str(draft.terms.get("handler", "")))] = refusal.in_words(visit.language)
    return await _show(visit, limits, visit.form, draft, status_of(refusal), task=task)


async def _show(
    visit: Visit,
    limits: TaskLimits,
    form: Form,
    draft: Draft | None = None,
    status: int | None = None,
    *,
    task: ScheduledTask | None = None,
) -> Response:
    timed = Draft({}, {})
    _read_timing(form, timed)
    handler = form.get("handler") or limits.handler
    problems = {} if draft is None else draft.problems
    return render(
        visit,
        "task_form.html",
        status or (422 if problems else 200),
        task=task,
        form=form,
        problems=problems,
        action=f"/tasks/{task.id}/edit" if task else "/tasks/new",
        handler=handler,
        handlers={name: gettext(HANDLERS[name]) if name in HANDLERS else name for name in limits.handlers},
        arguments=[(each, gettext(each.label)) for each in ARGUMENTS.get(handler, ())],
        modes=_modes(form.get("arg.mode", "")),
        units={seconds: gettext(text) for seconds, text in UNITS.items()},
        examples=EXAMPLES,
        zones=zone_names(),
        limits=limits,
        rest_name=REST,
        prefix=PREFIX,
        **await _preview(visit, timed),
    )


# -- the preview -------------------------------------------------------------------------------------------------------


async def _preview(visit: Visit, timed: Draft) -> dict[str, Any]:
    """Return what the preview shows: words in both languages and the next runs, or what is wrong."""
    other: Language = "zh" if language() == "en" else "en"
    context: dict[str, Any] = {"preview": None, "other": None, "other_language": other, "coming": (), "wrong": ""}
    if timed.problems:
        context["wrong"] = next(iter(timed.problems.values()))
        return context
    terms = {**timed.terms, "enabled": False}  # whether there is room for one more is said when it is stored

    def ask(lang: Language) -> Any:
        return lambda rooms: rooms.scheduled_tasks.preview_new(count=SHOWN, lang=lang, **terms)

    try:
        found, translated = await visit.read(lambda rooms: (ask(visit.language)(rooms), ask(other)(rooms)))
    except REFUSALS as refusal:
        context["wrong"] = refusal.in_words(visit.language)
        return context
    preview: TaskPreview = found
    return context | {
        "preview": preview,
        "other": translated.words,
        "coming": list(occasions(visit, preview)),
        "is_elsewhere": is_elsewhere(visit, preview.timezone),
    }


# -- from the form and into it -----------------------------------------------------------------------------------------


def read_form(form: Form, limits: TaskLimits, task: ScheduledTask | None = None) -> Draft:
    """Return the terms in a form; what cannot be read is named by its field."""
    draft = Draft({}, {})
    draft.terms["name"] = form.get("name", "").strip()
    draft.terms["enabled"] = form.get("enabled") == "yes"
    draft.terms["handler"] = form.get("handler") or limits.handler
    if not draft.terms["name"]:
        draft.problems["name"] = gettext(NEEDED)
    _read_timing(form, draft)
    if task is not None and draft.terms.get("next_run_at") == _local_start(task):
        draft.terms.pop("next_run_at", None)  # as it was, to the second
    _read_payload(form, draft)
    return draft


def _read_timing(form: Form, draft: Draft) -> None:
    """Read when it runs."""
    kind = form.get("schedule_type", "cron")
    terms, problems = draft.terms, draft.problems
    terms["schedule_type"] = kind
    terms["timezone"] = form.get("timezone", "").strip() or "UTC"
    text = form.get({"interval": "every", "once": "at"}.get(kind, "cron"), "").strip()
    if not text:
        problems[{"interval": "every", "once": "at"}.get(kind, "cron")] = gettext(NEEDED)
    elif kind == "interval":
        unit = form.get("unit", "60")
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) and unit in UNITS):
            problems["every"] = _("Give a whole number above zero.")
        else:
            terms["schedule_expr"] = str(int(text) * int(unit))
    elif kind == "once":
        terms["next_run_at"] = text
    else:
        terms["schedule_expr"] = text
        terms["day_match"] = form.get("day_match", "and")
        terms["lenient"] = form.get("lenient") == "yes"


def _read_payload(form: Form, draft: Draft) -> None:
    payload: Any = {}
    try:
        payload = json.loads(form.get(REST, "").strip() or "{}")
        if not isinstance(payload, dict):
            draft.problems[REST] = _("This is not a JSON object.")
            return
    except (ValueError, RecursionError) as mistake:
        draft.problems[REST] = _("This is not JSON: %(problem)s", problem=str(mistake)[:200])
        return
    for each in ARGUMENTS.get(str(draft.terms["handler"]), ()):
        value = form.get(f"{PREFIX}{each.key}", "")
        if value.strip():
            payload[each.key] = value if each.kind == "long" else value.strip()
        elif each.is_needed:
            draft.problems[f"{PREFIX}{each.key}"] = gettext(NEEDED)
    draft.terms["payload"] = payload


def _blank(visit: Visit, limits: TaskLimits, handler: str) -> dict[str, str]:
    return {
        "handler": handler if handler in limits.handlers else limits.handler,
        "schedule_type": "cron",
        "cron": "0 9 * * 1-5",
        "every": "1",
        "unit": "3600",
        "timezone": visit.clock.browser or "UTC",
        "enabled": "yes",
    }


def _form_of(task: ScheduledTask) -> dict[str, str]:
    """Return the form of a task as it is stored."""
    form = {
        "name": task.name,
        "handler": task.handler,
        "schedule_type": task.schedule_type,
        "timezone": task.timezone,
        "enabled": "yes" if task.enabled else "",
        "day_match": task.day_match,
        "lenient": "yes" if task.lenient else "",
        "version": str(task.version),
        "every": "1",
        "unit": "3600",
    }
    if task.schedule_type == "cron":
        form["cron"] = task.schedule_expr
    elif task.schedule_type == "interval":
        seconds = int(task.schedule_expr)
        unit = max((int(each) for each in UNITS if seconds % int(each) == 0), default=1)
        form |= {"every": str(seconds // unit), "unit": str(unit)}
    else:
        form["at"] = _local_start(task)
    payload = task.payload if isinstance(task.payload, Mapping) else {}
    rest = dict(payload)
    for each in ARGUMENTS.get(task.handler, ()):
        if isinstance(payload.get(each.key), str):
            form[f"{PREFIX}{each.key}"] = rest.pop(each.key)
    form[REST] = pretty_json(rest) if rest else ""
    return form


def _local_start(task: ScheduledTask) -> str:
    """Return the instant of a once task as a field of a date and a time has it, on the clock of its zone."""
    if task.schedule_type != "once":
        return ""
    at = task.next_run_at or datetime.fromisoformat(task.schedule_expr or "1970-01-01T00:00Z")
    return f"{at.astimezone(zone_named(task.timezone) or UTC):%Y-%m-%dT%H:%M}"


def _field_of(refusal: HoraeError, handler: str) -> str:
    """Return the field that a refusal is about; empty for the form as a whole."""
    if isinstance(refusal, InvalidName) and refusal.facts.get("what") == "name":
        return "name"
    if refusal.reason in BESIDE:
        return BESIDE[refusal.reason]
    key = f"{PREFIX}{refusal.facts.get('key', '')}"
    if key in {f"{PREFIX}{each.key}" for each in ARGUMENTS.get(handler, ())}:
        return key
    return next((field for family, field in FAMILIES if isinstance(refusal, family)), "")


def _modes(chosen: str) -> tuple[str, ...]:
    return MODES if not chosen or chosen in MODES else (*MODES, chosen)


def _key(token: str, terms: TaskTerms) -> str:
    """Return a key for this page's form: sent twice, it makes one task; changed after all, another."""
    wanted = json.dumps(cast("dict[str, Any]", terms), sort_keys=True)
    return hashlib.sha256(f"{token}\0{wanted}".encode()).hexdigest()


@cache
def zone_names() -> tuple[str, ...]:
    """Return the zones that a field offers; any other name of the zone database is taken as well."""
    return ("UTC", *sorted(each for each in available_timezones() if each.startswith(AREAS)))
