"""One governed object: what it says, how it stands and why, what becomes of it, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.governance.object_values import (
    ForecastStep,
    GovernedObject,
    ObjectEntry,
    ObjectLinks,
    ObjectVersion,
    RecalledObject,
    WhyObject,
)
from horae.api.governance.objects import Objects
from horae.api.operation import Page, Sender
from horae.api.rooms import Rooms
from horae.console import drawing, governed, states, times
from horae.console.rendering import render
from horae.console.routing import Doors, Operation
from horae.console.texts import _, gettext, language, mark
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.governance.evidence import EVIDENCE_KINDS
from horae.errors import InvalidInput
from horae.words.sentences import verb_phrase

doors = Doors()
SHOWN = 20
STEPS = 8
ASSUMED = {
    "none": mark("nothing new arrives"),
    "confirmed": mark("every check confirms it"),
    "inconclusive": mark("every check finds nothing"),
    "refuted": mark("a check refutes it"),
}
SHORTEST, LONGEST = timedelta(days=30), timedelta(days=180)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Seen:
    """What the page reads, in one moment."""

    object: RecalledObject
    why: WhyObject
    steps: tuple[ForecastStep, ...]
    links: ObjectLinks
    versions: tuple[ObjectVersion, ...]
    entries: Page[ObjectEntry]


@dataclass(frozen=True)
class Address:
    """Which object is meant: ids are unique within an owner and a kind."""

    id: str
    kind: Any
    owner: str | None

    @property
    def path(self) -> str:
        return f"/governance/objects/{self.id}"


@dataclass(frozen=True)
class Verb:
    """Something that can be done with an object."""

    path: str
    text: str
    explained: str
    is_danger: bool = False


# By the operation's name, in the order in which they are offered.
VERBS = {
    "clear": Verb("clear", mark("Clear it"), mark("It holds after all.")),
    "reject": Verb("reject", mark("Reject it"), mark("It is forged or wrong; what rests on it is taken back."), True),
    "verify_now": Verb("verify", mark("Verify now"), mark("Its one job moves to now.")),
    "use": Verb("use", mark("Mark as used"), mark("Its clock of use starts again.")),
    "contest": Verb("contest", mark("Contest"), mark("It may be wrong; a person decides.")),
    "reinstate": Verb("reinstate", mark("Bring back"), mark("It comes back as uncertain.")),
    "archive": Verb("archive", mark("Archive"), mark("It is kept, and no longer recalled.")),
    "retract": Verb("retract", mark("Retract"), mark("It is taken back for good."), True),
}
FIRST = ("clear", "verify_now", "reinstate", "use")  # the first of these that is open is the page's primary button


@doors.page("/governance/objects/{object_id}", Objects.get)
async def show(visit: Visit, object_id: str) -> Response:
    return await _show(visit, Address(object_id, visit.query.get("kind") or None, visit.query.get("owner") or None))


async def _show(visit: Visit, which: Address, problem: str = "", status: int = 200) -> Response:
    chosen = visit.query.get("assume", "none")
    assume: Any = chosen if chosen in ASSUMED else "none"
    seen = await visit.read(lambda rooms: _read(rooms, visit, which, assume))
    it = seen.object
    content, is_masked = governed.masked(it.content)
    verbs = {name: verb for name, verb in VERBS.items() if name in seen.why.verbs}
    primary = next((name for name in FIRST if name in verbs), None)
    return render(
        visit,
        "governed_object.html",
        status,
        it=it,
        seen=seen,
        which=Address(it.id, it.kind, which.owner),
        content=content,
        is_masked=is_masked,
        governed=governed,
        title=it.subject or it.id,
        because=_because(visit, seen),
        picture=_picture(visit, seen),
        steps=seen.steps[:STEPS],
        waits=[states.sentence(each, visit.clock) for each in seen.why.waits],
        assume=assume,
        assumed={name: gettext(text) for name, text in ASSUMED.items()},
        changes=[(each, verb_phrase(each.verb, language())) for each in seen.entries.items],
        versions=[
            (each, verb_phrase(each.verb, language()), governed.masked(each.content)[0]) for each in seen.versions
        ],
        state_of=_state_of,
        verbs=verbs,
        primary=primary,
        say=gettext,
        evidence_kinds=EVIDENCE_KINDS,
        may=seen.why.verbs,
        problem=problem,
    )


def _read(rooms: Rooms[Sender], visit: Visit, which: Address, assume: Any) -> Seen:
    found = rooms.objects.get(which.id, kind=which.kind, owner=which.owner)
    named: Any = {"kind": found.kind, "owner": which.owner}
    return Seen(
        found,
        rooms.objects.why(which.id, **named),
        rooms.objects.forecast(which.id, assume=assume, **named),
        rooms.objects.links(which.id, limit=SHOWN, **named),
        rooms.objects.versions(which.id, **named).page(limit=SHOWN).items,
        rooms.objects.history(which.id, **named).page(visit.query.get("cursor"), limit=SHOWN),
    )


def _because(visit: Visit, seen: Seen) -> list[str]:
    """Return how the object stands and why, as sentences."""
    it, last = seen.object, seen.why.last
    said = [governed.meaning(it), governed.usable(it.usable, it.why)]
    if last is not None:
        when, verb = times.relative(last.at, visit.now), verb_phrase(last.verb, language())
        said.append(_("Last: %(verb)s, %(when)s, by %(actor)s.", verb=verb, when=when, actor=last.actor))
    if it.stalled:
        said.append(_("Its verifier is missing or fails, so it is stalled; its time rules go on."))
    if it.needs_person:
        said.append(_("Only a person may clear it."))
    if it.superseded_by:
        said.append(_("%(id)s has taken its place.", id=it.superseded_by))
    return [each for each in said if each]


def _state_of(facts: dict[str, Any]) -> str:
    status = facts.get("status")
    return "" if status is None else governed.state_word(str(status), facts.get("epistemic_state"))


# -- the picture -------------------------------------------------------------------------------------------------------


def _picture(visit: Visit, seen: Seen) -> Markup:
    """Draw the states that it had and will have, and what it comes due for."""
    now, zone, it = visit.now, visit.clock.zone_for(), seen.object
    until = _until(now, seen.steps)
    since = max(it.created_at, now - (until - now) / 2)
    since = min(since, now - (until - now) / 8)
    window = drawing.Window(since, until, now, zone)
    shapes = list(_spans(window, seen))
    shapes += [
        drawing.Shape(
            each.at, None, "fire", f"{times.clock_time(each.at, now, zone)} {governed.word(each.action)}",
            side="up", ahead=True,
        )
        for each in seen.steps
        if each.at < until
    ]  # fmt: skip
    shapes += [
        drawing.Shape(
            each.at, None, "change", f"{times.clock_time(each.at, now, zone)} {verb_phrase(each.verb, language())}",
            side="up", ahead=False,
        )
        for each in seen.versions
        if each.at > since
    ]  # fmt: skip
    label = _("now %(time)s", time=times.clock_time(now, now, zone))
    name = _("The states that it had, and those that it will have")
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=20, below=26))


def _until(now: datetime, steps: Sequence[ForecastStep]) -> datetime:
    """Return how far to look: somewhat beyond the last change of its state, within bounds."""
    changes = [each.at for before, each in pairwise(steps) if before.status != each.status] + [
        each.at for each in steps[:1]
    ]
    last = max(changes, default=now)
    return now + min(max((last - now) * 5 / 4, SHORTEST), LONGEST)


def _spans(window: drawing.Window, seen: Seen) -> Iterator[drawing.Shape]:
    """Return the spans of each state, the past ones solid and the coming ones hollow."""
    it = seen.object
    past = [(each.at, each.status, each.epistemic_state) for each in reversed(seen.versions)]
    if not past:
        past = [(it.state_since, it.status, it.epistemic_state)]
    ahead = [(window.now, it.status, it.epistemic_state)]
    ahead += [(each.at, each.status, each.epistemic_state) for each in seen.steps if each.at < window.until]
    for spans, last, is_ahead in ((past, window.now, False), (ahead, window.until, True)):
        for start, end, status, epistemic in _merged(spans, last):
            if end > window.since and start < window.until:
                title = governed.state_word(status, epistemic)
                state = governed.drawn(status, epistemic)
                yield drawing.Shape(max(start, window.since), end, state, title, side="down", ahead=is_ahead)


def _merged(
    spans: Sequence[tuple[datetime, str, str | None]], last: datetime
) -> Iterator[tuple[datetime, datetime, str, str | None]]:
    """Return spans with their ends; neighbours of one state become one."""
    kept: list[tuple[datetime, str, str | None]] = []
    for each in spans:
        if not kept or kept[-1][1:] != each[1:]:
            kept.append(each)
    ends = [*(each[0] for each in kept[1:]), last]
    for (start, status, epistemic), end in zip(kept, ends, strict=True):
        if end > start:
            yield start, end, status, epistemic


# -- acts --------------------------------------------------------------------------------------------------------------


def _named(visit: Visit, object_id: str) -> Address:
    return Address(object_id, visit.form.get("kind") or None, visit.form.get("owner") or None)


def _common(visit: Visit, which: Address) -> dict[str, Any]:
    """Return what every verb takes: the reason, and the version that the person has seen."""
    version = visit.form.get("version", "")
    return {
        "kind": which.kind,
        "owner": which.owner,
        "reason": visit.form.get("reason", "").strip(),
        "expected_version": int(version) if version.isdecimal() and len(version) < 10 else None,
    }


def _back(visit: Visit, which: Address, text: str, it: GovernedObject) -> Response:
    message = _("%(text)s Now: %(state)s.", text=text, state=governed.state_word(it.status, it.epistemic_state))
    return visit.redirect(which.path, Flash(message), kind=it.kind, owner=which.owner)


def _declare(path: str, operation: Operation, done: str) -> None:
    """Declare a verb that takes nothing but a reason."""

    async def do(visit: Visit, object_id: str) -> Response:
        which, name = _named(visit, object_id), operation.__name__
        given = _common(visit, which)
        it = await visit.act(lambda rooms: getattr(rooms.objects, name)(object_id, **given))
        return _back(visit, which, gettext(done), it)

    endpoint: Callable[..., Awaitable[Response]] = do
    doors.act(f"/governance/objects/{{object_id}}/{path}", operation)(endpoint)


_declare("use", Objects.use, mark("Marked as used."))
_declare("verify", Objects.verify_now, mark("It is verified as soon as a worker is free."))
_declare("contest", Objects.contest, mark("It is contested."))
_declare("clear", Objects.clear, mark("It is cleared."))
_declare("reject", Objects.reject, mark("It is rejected."))
_declare("archive", Objects.archive, mark("It is archived."))
_declare("reinstate", Objects.reinstate, mark("It is brought back."))
_declare("retract", Objects.retract, mark("It is retracted."))


@doors.act("/governance/objects/{object_id}/evidence", Objects.evidence)
async def add_evidence(visit: Visit, object_id: str) -> Response:
    which, form = _named(visit, object_id), visit.form
    piece = {name: form[name].strip() for name in ("reference", "source", "note") if form.get(name, "").strip()}
    evidence: list[Any] = [{**piece, "kind": form.get("evidence_kind", "supports")}] if "reference" in piece else []
    given = _common(visit, which)
    added = await visit.act(lambda rooms: rooms.objects.evidence(object_id, evidence, **given))
    text = _("The evidence is kept.") if added.new else _("It had that evidence already.")
    return _back(visit, which, text, added.object)


@doors.act("/governance/objects/{object_id}/supersede", Objects.supersede)
async def supersede(visit: Visit, object_id: str) -> Response:
    which, by = _named(visit, object_id), visit.form.get("by", "").strip()
    given = _common(visit, which)
    it = await visit.act(lambda rooms: rooms.objects.supersede(object_id, by, **given))
    return _back(visit, which, _("%(id)s has taken its place.", id=by), it)


@doors.act("/governance/objects/{object_id}/erase", Objects.erase)
async def erase(visit: Visit, object_id: str) -> Response:
    """Erase what it says, once the person has typed its id: that cannot be undone."""
    which = _named(visit, object_id)
    if visit.form.get("sure", "").strip() != object_id:
        raise InvalidInput("erase_not_confirmed", id=object_id)
    reason = visit.form.get("reason", "").strip()
    await visit.act(
        lambda rooms: rooms.objects.erase(object_id, kind=which.kind, owner=which.owner, reason=reason)
    )  # fmt: skip
    text = _("Erased: what it said is gone, its states and the chain of the audit stay.")
    return visit.redirect(which.path, Flash(text), kind=which.kind, owner=which.owner)
