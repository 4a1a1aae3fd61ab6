"""The rules by which objects are governed: personas, what an agent does not do, and policies, how objects age."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from horae.api.governance.personas import Personas
from horae.api.governance.policies import Policies, Policy
from horae.console import governed
from horae.console.pages.governance import tabs
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, listed, mark
from horae.console.visitor import Flash, Visit
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.governance.machines import KINDS
from horae.core.governance.policies import BUILT_IN, COUNTS, SHARES, SPANS, policy_settings
from horae.errors import InvalidInput, NotFound

doors = Doors()
PAST = 20
DAY = 86400
LIMITS = "~"  # a boundary that begins so limits and does not block
SETTINGS = {
    "stability": mark("Stability at the beginning"),
    "longest_stability": mark("Longest stability"),
    "stretch": mark("A confirmation multiplies it by"),
    "target": mark("Retrievability at which truth is checked again"),
    "half_lives": mark("Half-lives by category"),
    "stale_below": mark("Weight below which it has faded"),
    "uncertain_for": mark("How long it may be uncertain"),
    "verify_budget": mark("Checks while uncertain"),
    "mode": mark("Mode while uncertain"),
    "most_inconclusive": mark("Checks without result until it cannot be known"),
    "inconclusive_delay": mark("Pause after a check without result"),
    "reinstate_after": mark("Looks at what is archived"),
    "recheck_every": mark("Looks at what is doubtful, every"),
    "after_decay": mark("First look after it has faded"),
    "archive_after": mark("Archived so long after it has faded"),
    "tamper_at": mark("Tamper score that makes it suspected"),
    "trusted_sources": mark("Trusted sources"),
    "review_confidence": mark("Confidence that answers a review"),
    "act_age": mark("How recently an act must find it verified"),
}


@doors.page("/governance/rules", Policies.list)
async def rules(visit: Visit) -> Response:
    owner = visit.query.get("owner") or None
    policies, personas = await visit.read(
        lambda rooms: (rooms.policies.list(owner=owner), rooms.personas.list(owner=owner))
    )
    changed = sum(bool(each.version) for each in policies)
    replaced = {(each.kind, each.agent) for each in policies if each.version}
    in_force = [each for each in policies if each.version or (each.kind, each.agent) not in replaced]
    return render(
        visit, "governing_rules.html", tabs=tabs(visit), here="/governance/rules", policies=in_force,
        personas=personas, owner=owner, governed=governed, sentence=_sentence(len(personas), changed),
        label=label, may_set=visit.may("admin"), kinds=KINDS, every=EVERY_AGENT,
    )  # fmt: skip


def _sentence(personas: int, changed: int) -> str:
    if not personas and not changed:
        return _("The built-in rules hold for every agent.")
    if not personas:
        return _("Policies were changed; no agent has a persona.")
    return _("Agents have boundaries here.") if not changed else _("Agents have boundaries and policies of their own.")


# -- personas ----------------------------------------------------------------------------------------------------------


@doors.page("/governance/personas/{agent}", Personas.get)
async def persona(visit: Visit, agent: str) -> Response:
    owner = visit.query.get("owner") or None
    found, past = await visit.read(
        lambda rooms: (
            rooms.personas.get(agent, owner=owner),
            rooms.personas.history(agent, owner=owner).page(limit=PAST).items,
        )
    )
    return render(
        visit, "persona.html", persona=found, past=past, owner=owner, governed=governed,
        may_set=visit.may("admin") and visit.known.is_person, written=written, every=EVERY_AGENT,
    )  # fmt: skip


@doors.act("/governance/personas", Personas.set)
async def set_persona(visit: Visit) -> Response:
    form, version = visit.form, visit.form.get("version", "")
    agent, owner = form.get("agent", "").strip() or EVERY_AGENT, form.get("owner") or None
    lines = [each.strip() for each in form.get("boundaries", "").splitlines() if each.strip()]
    boundaries: list[Any] = [
        {"text": each.removeprefix(LIMITS).strip(), "effect": "limit" if each.startswith(LIMITS) else "block"}
        for each in lines
    ]
    values = [each.strip() for each in form.get("values", "").splitlines() if each.strip()]
    given: dict[str, Any] = {"archived": form.get("archived") == "yes", "reason": form.get("reason", "").strip()}
    if version.isdecimal() and len(version) < 10:
        given["expected_version"] = int(version)
    await visit.act(
        lambda rooms: rooms.personas.set(agent, boundaries=boundaries, values=values, owner=owner, **given)
    )  # fmt: skip
    return visit.redirect(f"/governance/personas/{agent}", Flash(_("The persona is set.")), owner=owner)


def written(boundaries: Any) -> str:
    """Return boundaries as a person writes them: one a line."""
    return "\n".join(f"{LIMITS if each.effect == 'limit' else ''}{each.text}" for each in boundaries)


# -- policies ----------------------------------------------------------------------------------------------------------


@doors.page("/governance/policies/{kind}", Policies.get)
async def policy(visit: Visit, kind: str) -> Response:
    if kind not in KINDS:
        raise NotFound("page_unknown")
    return await _show(visit, kind)


async def _show(visit: Visit, kind: Any, problem: str = "", status: int = 200) -> Response:
    source = visit.form if visit.form else visit.query
    agent, owner = source.get("agent") or EVERY_AGENT, source.get("owner") or None
    found = await visit.read(lambda rooms: rooms.policies.get(kind, agent=agent, owner=owner))
    changed = {name: _plain(found.settings[name]) for name in found.changed}
    text = visit.form.get("settings") or json.dumps(changed, indent=2, ensure_ascii=False)
    return render(
        visit, "policy.html", status, policy=found, rows=_rows(found), text=text, owner=owner, agent=agent,
        governed=governed, may_set=visit.may("admin"), problem=problem, every=EVERY_AGENT,
    )  # fmt: skip


@doors.act("/governance/policies", Policies.set)
async def set_policy(visit: Visit) -> Response:
    form = visit.form
    kind: Any = form.get("kind", "")
    agent, owner = form.get("agent", "").strip() or EVERY_AGENT, form.get("owner") or None
    try:
        settings = json.loads(form.get("settings", "") or "{}")
        if not isinstance(settings, dict):
            raise ValueError
    except ValueError:
        if kind not in KINDS:
            raise InvalidInput("choice_unknown", name="kind", value=repr(kind)[:40], choices=KINDS) from None
        return await _show(visit, kind, _("This is not a JSON object."), 422)
    version = form.get("version", "")
    expected = int(version) if version.isdecimal() and 0 < len(version) < 10 else None
    reason = form.get("reason", "").strip()
    await visit.act(
        lambda rooms: rooms.policies.set(
            kind, settings, agent=agent, owner=owner, expected_version=expected, reason=reason
        )
    )
    text = _("The policy is set. Objects follow it from their next action on.")
    return visit.redirect(f"/governance/policies/{kind}", Flash(text), owner=owner, agent=agent)


@doors.act("/governance/replan", Policies.replan)
async def replan(visit: Visit) -> Response:
    """Plan objects by the policies that hold now."""
    owner, dry = visit.form.get("owner") or None, visit.form.get("sure") != "yes"
    done = await visit.act(lambda rooms: rooms.policies.replan(dry_run=dry, owner=owner))
    if dry:
        text = _("%(moved)s of %(all)s objects would move; nothing was changed.", moved=done.moved, all=done.looked_at)
    else:
        text = _("%(moved)s of %(all)s objects were planned anew.", moved=done.moved, all=done.looked_at)
    return visit.redirect("/governance/rules", Flash(text), owner=owner)


def _plain(value: Any) -> Any:
    """Return a span of whole seconds as a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def label(name: str) -> str:
    return gettext(SETTINGS[name]) if name in SETTINGS else name


def _rows(found: Policy) -> list[tuple[str, str, str, str, bool]]:
    """Return each setting: its name, what it is, its value, the built-in value, and whether they differ."""
    usual = policy_settings(BUILT_IN)
    return [
        (name, label(name), setting_text(name, value), setting_text(name, usual.get(name)), name in found.changed)
        for name, value in found.settings.items()
    ]


def setting_text(name: str, value: Any) -> str:
    """Return a setting as a person reads it: spans in days."""
    if value is None:
        return "–"
    if name in SPANS:
        return _days(value)
    if name in SHARES:
        return f"{value:g}"
    if name in COUNTS:
        return str(value)
    if name == "half_lives":
        return listed(f"{governed.word(each)} {'–' if span is None else _days(span)}" for each, span in value.items())
    if isinstance(value, list | tuple):
        parts = [_days(each) if name == "reinstate_after" else str(each) for each in value]
        return listed(parts) or "–"
    return governed.word(str(value))


def _days(seconds: float) -> str:
    return _("%(count)s d", count=f"{seconds / DAY:g}")
