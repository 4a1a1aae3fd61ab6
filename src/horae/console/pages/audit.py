"""Audit: who did what to which thing and why, before and after, and whether the chain still holds."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from horae.api.audit import Audit, AuditEntry
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, language, mark, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.governance.machines import KINDS
from horae.words.sentences import verb_phrase

doors = Doors()
SHOWN = 50
# What is acted on, in words; another thing keeps the name that it has in the log.
THINGS = {
    "job": mark("job"),
    "queue": mark("queue"),
    "schedule": mark("schedule"),
    "token": mark("token"),
    "session": mark("session"),
    "memory": mark("memory"),
    "experience": mark("experience"),
    "cognition": mark("cognition"),
    "decision": mark("decision"),
    "review": mark("review"),
    "budget": mark("budget"),
    "persona": mark("persona"),
    "policy": mark("policy"),
}
FILTERS = ("actor", "verb", "object_type", "object_id", "owner")


@dataclass(frozen=True)
class Difference:
    """One field that an act changed."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Row:
    """An entry as it is shown."""

    entry: AuditEntry
    act: str
    changes: tuple[Difference, ...]
    path: str | None


@doors.page("/audit", Audit.list)
async def audit(visit: Visit) -> Response:
    wanted: dict[str, Any] = {name: visit.query[name] for name in FILTERS if visit.query.get(name)}
    page = await visit.read(
        lambda rooms: rooms.audit.list(**wanted).page(visit.query.get("cursor"), limit=SHOWN)
    )  # fmt: skip
    rows = [Row(each, _act(each), differences(each), _path(each)) for each in page.items]
    return render(visit, "audit.html", rows=rows, further=page.next_cursor, wanted=wanted, filters=FILTERS)


def _act(entry: AuditEntry) -> str:
    """Return what was done to what kind of thing; words of one Chinese sentence stand without a space."""
    known = THINGS.get(entry.object_type)
    thing = entry.object_type if known is None else gettext(known)
    phrase = verb_phrase(entry.verb, language())
    if known and phrase.endswith(thing):  # the verb names the thing already
        return phrase
    return f"{phrase}{'' if known and language() == 'zh' else ' '}{thing}"


@doors.act("/audit/verify", Audit.verify)
async def verify(visit: Visit) -> Response:
    found = await visit.act(lambda rooms: rooms.audit.verify())
    if found.sound:
        count = sum(each.entries for each in found.chains)
        text = ngettext(
            "The chain holds: one entry is as it was sealed.",
            "The chain holds: %(num)s entries are as they were sealed.",
            count,
        )
        return visit.redirect("/audit", Flash(text))
    complaints = [each for chain in found.chains for each in chain.complaints] + list(found.complaints)
    return visit.redirect(
        "/audit", Flash(_("The chain is broken: %(what)s", what="; ".join(complaints[:3])), "problem")
    )


def differences(entry: AuditEntry) -> tuple[Difference, ...]:
    """Return the fields that differ between before and after."""
    names = sorted({*entry.before, *entry.after})
    return tuple(
        Difference(name, _short(entry.before.get(name)), _short(entry.after.get(name)))
        for name in names
        if entry.before.get(name) != entry.after.get(name)
    )


def _short(value: Any) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _path(entry: AuditEntry) -> str | None:
    """Return the page of what an entry is about, where there is one."""
    rooms = {"job": "/jobs/", "schedule": "/schedules/", "queue": "/queues/", "error_group": "/errors/"}
    rooms |= dict.fromkeys(KINDS, "/governance/objects/")
    rooms |= {"decision": "/governance/decisions/", "review": "/governance/reviews/"}
    return f"{rooms[entry.object_type]}{entry.object_id}" if entry.object_type in rooms else None
