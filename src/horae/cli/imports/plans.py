"""Compare entries with the schedules that are stored, and store what is new or changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from horae.api.schedules.values import schedule_fields
from horae.api.values import to_json
from horae.cli.failures import message
from horae.cli.imports.entries import Entry
from horae.cli.imports.words import say
from horae.cli.verbs import Verbs
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import encode, label, name
from horae.core.schedules.notes import Note
from horae.core.schedules.schedule import Schedule, check
from horae.errors import Conflict, HoraeError, InvalidInput, NotAllowed, NotFound
from horae.words.languages import Language

Status = Literal["new", "changed", "unchanged", "refused"]
OF_ONE_ENTRY = (InvalidInput, Conflict, NotAllowed)  # other errors, such as a silent database, end the command


@dataclass(frozen=True)
class Plan:
    """What becomes of an entry: its status, its rule in words, and the fields that differ from what is stored."""

    entry: Entry
    status: Status
    words: Mapping[Language, str] = field(default_factory=dict)
    differing: tuple[str, ...] = ()
    version: int | None = None

    def as_json(self) -> dict[str, Any]:
        refusal = self.entry.refusal
        return {
            "origin": self.entry.origin,
            "key": self.entry.key,
            "status": self.status,
            "words": self.words.get("en"),
            "schedule": to_json(dict(self.entry.timing)),
            "enabled": self.entry.enabled,
            "changes": list(self.differing),
            "notes": [{"code": each.code, "text": describe(each, "en")} for each in self.entry.notes],
            "problem": None if refusal is None else {"code": refusal.code, "text": describe(refusal, "en")},
        }


def describe(note: Note, language: Language) -> str:
    """Return a note in words, also where it holds an error."""
    problem = note.values.get("problem")
    return message(problem, language) if isinstance(problem, HoraeError) else say(note, language)


def plan(here: Verbs | None, entries: Iterable[Entry], owner: str) -> list[Plan]:
    """Return what would become of each entry; without a database every one that can be brought is new."""
    plans: list[Plan] = []
    seen: set[str] = set()
    for entry in entries:
        repeated = entry.refusal is None and entry.key in seen
        seen.add(entry.key)
        plans.append(_plan(here, replace(entry, refusal=Note("twice")) if repeated else entry, owner))
    return plans


def apply(here: Verbs, plans: Iterable[Plan], owner: str, reason: str) -> list[Plan]:
    """Store each entry that is new or changed, in a transaction of its own; a refused one does not stop the others."""
    return [_apply(here, each, owner, reason) for each in plans]


def _plan(here: Verbs | None, entry: Entry, owner: str) -> Plan:
    if entry.refusal is not None:
        return Plan(entry, "refused")
    try:
        fields = schedule_fields(entry.timing, new=True)
        new = _checked(entry.key, fields)
        stored = None if here is None else _stored(here, entry.key, owner)
    except OF_ONE_ENTRY as problem:
        return _refused(Plan(entry, "refused"), problem)
    words: dict[Language, str] = {"en": new.describe("en"), "zh": new.describe("zh")}
    if stored is None:
        return Plan(entry, "new", words)
    if stored.declared:
        return Plan(replace(entry, refusal=Note("declared")), "refused", words)
    differing = tuple(each for each in fields if getattr(stored, each) != getattr(new, each))
    return Plan(entry, "changed" if differing else "unchanged", words, differing, stored.version)


def _checked(key: str, fields: Mapping[str, Any]) -> Schedule:
    new = Schedule(key=key, **fields)
    label(key, "schedule key", 200)
    name(new.handler, "handler", 200)
    encode(new.payload)
    check(new)
    return new


def _stored(here: Verbs, key: str, owner: str) -> Any:
    try:
        return here.schedules.get(key, owner=owner)
    except NotFound:
        return None


def _apply(here: Verbs, planned: Plan, owner: str, reason: str) -> Plan:
    entry, timing = planned.entry, dict(planned.entry.timing)
    try:
        if planned.status == "new":
            here.schedules.create(entry.key, owner=owner, reason=reason, **timing, enabled=entry.enabled)
        elif planned.status == "changed":
            here.schedules.change(entry.key, version=planned.version, owner=owner, reason=reason, **timing)
    except OF_ONE_ENTRY as problem:
        return _refused(planned, problem)
    return planned


def _refused(planned: Plan, problem: HoraeError) -> Plan:
    entry = replace(planned.entry, refusal=Note("refused", {"problem": problem}))
    return replace(planned, entry=entry, status="refused")
