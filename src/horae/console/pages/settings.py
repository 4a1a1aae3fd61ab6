"""Settings: who comes in and how, how this server is set up and how it is, and what one reader has chosen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from horae.api.access.room import Owners, Sessions, Tokens
from horae.api.access.values import TokenMade
from horae.api.admin import Admin, Retention
from horae.api.examination import Examination
from horae.api.operation import Sender
from horae.api.overview import OverviewRoom
from horae.api.rooms import Rooms
from horae.console import states
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, mark, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.access.callers import SCOPES
from horae.core.dataclass import dataclass
from horae.errors import HoraeError, InvalidInput, NotAllowed
from horae.words.sentences import setting_help

doors = Doors()
SHOWN = 50
DAY = timedelta(days=1)
TABS = (
    ("/settings", mark("You")),
    ("/settings/tokens", mark("Tokens")),
    ("/settings/sessions", mark("Sessions")),
    ("/settings/owners", mark("Owners")),
    ("/settings/server", mark("This server")),
    ("/settings/doctor", mark("Doctor")),
    ("/settings/retention", mark("Retention")),
)
LIVES = {
    "1": mark("one day"),
    "30": mark("30 days"),
    "90": mark("90 days"),
    "365": mark("a year"),
    "": mark("for ever"),
}
USUAL_LIFE = "90"
SCOPE_WORDS = {
    "read": mark("looks, and changes nothing"),
    "tasks": mark("enqueues jobs, proposes and decides"),
    "worker": mark("claims jobs and brings results"),
    "review": mark("answers questions as a person"),
    "admin": mark("may do everything"),
}
OUTCOMES = ("succeeded", "failed", "timed_out", "lost", "skipped", "cancelled", "snoozed", "released")


@dataclass(frozen=True)
class Tab:
    """A part of the settings."""

    path: str
    text: str


def _tabs(visit: Visit) -> list[Tab]:
    """Return the parts that the visitor may open: without the rights of an operator only its own."""
    return [Tab(path, gettext(text)) for path, text in TABS if path == "/settings" or visit.may("admin")]


def _render(visit: Visit, template: str, here: str, status: int = 200, **context: Any) -> Response:
    return render(visit, template, status, tabs=_tabs(visit), here=here, **context)


@doors.page("/settings", OverviewRoom.get)
async def settings(visit: Visit) -> Response:
    """Show who the visitor is, what they have chosen, and which installation this is."""
    options = visit.service.options
    return _render(
        visit, "settings.html", "/settings", instance=options.instance, colour=options.instance_colour,
        version=options.version,
        scopes=[(each, gettext(SCOPE_WORDS[each])) for each in SCOPES if each in visit.known.scopes],
    )  # fmt: skip


# -- tokens ------------------------------------------------------------------------------------------------------------


@doors.page("/settings/tokens", Tokens.list)
async def tokens(visit: Visit) -> Response:
    return await _show_tokens(visit)


async def _show_tokens(visit: Visit, made: TokenMade | None = None, problem: str = "", status: int = 200) -> Response:
    page = await visit.read(lambda rooms: rooms.tokens.list().page(visit.query.get("cursor"), limit=SHOWN))
    soon = [
        each
        for each in page.items
        if each.state == "valid" and each.expires_at is not None and each.expires_at < visit.now + 7 * DAY
    ]
    answer = _render(
        visit, "tokens.html", "/settings/tokens", status, tokens=page.items, further=page.next_cursor, made=made,
        problem=problem, form=visit.form, chosen=visit.form_lists.get("scopes", ["tasks"]), soon=soon,
        scopes=[(each, gettext(SCOPE_WORDS[each])) for each in SCOPES], usual=USUAL_LIFE,
        lives=[(days, gettext(text)) for days, text in LIVES.items()],
        own=None if visit.session is None else visit.session.token_id,
        sentence=_tokens_sentence(sum(each.state == "valid" for each in page.items), len(soon)),
    )  # fmt: skip
    if made is not None:
        answer.headers["Cache-Control"] = "no-store"  # the text of a token is in no cache
    return answer


def _tokens_sentence(valid: int, soon: int) -> str:
    if soon:
        return ngettext("One token expires within a week.", "%(num)s tokens expire within a week.", soon)
    return ngettext("One token lets somebody in.", "%(num)s tokens let somebody in.", valid)


@doors.act("/settings/tokens", Tokens.create)
async def create_token(visit: Visit) -> Response:
    """Make a token and show its text, this once."""
    form, days = visit.form, visit.form.get("days", USUAL_LIFE)
    if days not in LIVES:
        raise InvalidInput("choice_unknown", name="days", value=repr(days)[:40], choices=list(LIVES))
    queues = [each.strip() for each in form.get("queues", "").split(",") if each.strip()]
    try:
        made = await visit.act(
            lambda rooms: rooms.tokens.create(
                form.get("owner", "").strip() or "system",
                visit.form_lists.get("scopes", []),
                name=form.get("name", "").strip(),
                queues=queues,
                agent=form.get("agent", "").strip() or None,
                expires_in=timedelta(days=int(days)) if days else None,
                reason=form.get("reason", "").strip(),
            )
        )
    except InvalidInput as error:
        return await _show_tokens(visit, problem=error.in_words(visit.language), status=422)
    return await _show_tokens(visit, made)


@doors.act("/settings/tokens/{token_id}/revoke", Tokens.revoke)
async def revoke_token(visit: Visit, token_id: str) -> Response:
    reason = visit.form.get("reason", "").strip()
    done = await visit.act(lambda rooms: rooms.tokens.revoke(token_id, reason=reason))
    text = _("The token %(name)s is revoked. Calls that wait with it end within a second.", name=done.name or done.id)
    return visit.redirect("/settings/tokens", Flash(text))


# -- sessions ----------------------------------------------------------------------------------------------------------


@doors.page("/settings/sessions", Sessions.list)
async def sessions(visit: Visit) -> Response:
    page = await visit.read(lambda rooms: rooms.sessions.list().page(visit.query.get("cursor"), limit=SHOWN))
    own = None if visit.session is None else visit.session.session_id
    others = sum(each.id != own for each in page.items)
    sentence = (
        ngettext("One other browser is logged in.", "%(num)s other browsers are logged in.", others)
        if others
        else _("Only this browser is logged in.")
    )
    return _render(
        visit, "browser_sessions.html", "/settings/sessions", sessions=page.items, further=page.next_cursor, own=own,
        sentence=sentence,
    )  # fmt: skip


@doors.act("/settings/sessions/{session_id}/end", Sessions.end)
async def end_session(visit: Visit, session_id: str) -> Response:
    reason = visit.form.get("reason", "").strip()
    await visit.act(lambda rooms: rooms.sessions.end(session_id, reason=reason))
    return visit.redirect("/settings/sessions", Flash(_("That browser is logged out.")))


# -- owners ------------------------------------------------------------------------------------------------------------


@doors.page("/settings/owners", Owners.list)
async def owners(visit: Visit) -> Response:
    chosen = visit.query.get("owner", "").strip()
    page, special = await visit.read(
        lambda rooms: (
            rooms.owners.list().page(visit.query.get("cursor"), limit=SHOWN),
            rooms.owners.get(chosen) if chosen else None,
        )
    )
    count = len(page.items)
    sentence = (
        ngettext("One owner has settings, secrets or tasks.", "%(num)s owners have settings, secrets or tasks.", count)
        if count
        else _("No owner needs anything special.")
    )
    return _render(
        visit, "owners.html", "/settings/owners", owners=page.items, further=page.next_cursor, special=special,
        chosen=chosen, sentence=sentence,
    )  # fmt: skip


@doors.act("/settings/owners", Owners.put)
async def put_owner(visit: Visit) -> Response:
    form = visit.form
    owner, most, weight = (form.get(name, "").strip() for name in ("owner", "max_enabled_tasks", "weight"))
    networks = [each.strip() for each in form.get("allow_networks", "").replace(",", "\n").splitlines() if each.strip()]
    given: dict[str, Any] = {
        "allow_networks": networks,
        "allow_http": form.get("allow_http") == "yes",
        "ports": [_whole(each, "ports") for each in form.get("ports", "").replace(",", " ").split()],
        "max_enabled_tasks": _whole(most, "max_enabled_tasks") if most else None,
        "weight": _whole(weight, "weight") if weight else 1,
        "reason": form.get("reason", "").strip(),
    }
    await visit.act(lambda rooms: rooms.owners.put(owner, **given))
    return visit.redirect("/settings/owners", Flash(_("The settings of %(owner)s are stored.", owner=owner)))


def _whole(text: str, name: str) -> int:
    if not (text.isdecimal() and len(text) < 10):
        raise InvalidInput("not_a_whole_number", name=name, value=text[:40])
    return int(text)


# -- the server --------------------------------------------------------------------------------------------------------


@doors.page("/settings/server", Admin.settings)
async def server(visit: Visit) -> Response:
    found, problem = await _or_problem(visit, lambda rooms: rooms.admin.settings())
    changed = [each for each in found or () if each.origin != "default"]
    usual = [each for each in found or () if each.origin == "default"]
    return _render(
        visit, "server_settings.html", "/settings/server", changed=changed, usual=usual, problem=problem,
        help_of=setting_help, instance=visit.service.options.instance, colour=visit.service.options.instance_colour,
        sentence=ngettext(
            "One setting differs from its default.", "%(num)s settings differ from their defaults.", len(changed)
        ) if found else _("This server does not show its settings."),
    )  # fmt: skip


@doors.page("/settings/doctor", Admin.doctor)
async def doctor(visit: Visit) -> Response:
    found, problem = await _or_problem(visit, lambda rooms: rooms.admin.doctor())
    findings = () if found is None else found.findings
    bad = sorted((each for each in findings if each.level != "ok"), key=lambda each: each.level)
    return _render(
        visit, "doctor.html", "/settings/doctor", found=found, bad=bad, problem=problem,
        well=[each for each in findings if each.level == "ok"], sentence=_doctor_sentence(found, bad),
    )  # fmt: skip


def _doctor_sentence(found: Examination | None, bad: Sequence[Any]) -> str:
    if found is None:
        return _("This server does not examine itself.")
    problems = sum(each.level == "problem" for each in bad)
    if problems:
        return ngettext("One thing is wrong.", "%(num)s things are wrong.", problems)
    if bad:
        return ngettext("Nothing is wrong; one warning.", "Nothing is wrong; %(num)s warnings.", len(bad))
    return _("Everything is as it should be.")


async def _or_problem(visit: Visit, work: Any) -> tuple[Any, str]:
    """Return what an operation answers, or why this process does not offer it."""

    def read(rooms: Rooms[Sender]) -> tuple[Any, HoraeError | None]:
        try:
            return work(rooms), None
        except NotAllowed as error:
            return None, error

    found, error = await visit.read(read)
    return found, "" if error is None else error.in_words(visit.language)


# -- retention ---------------------------------------------------------------------------------------------------------


@doors.page("/settings/retention", Admin.retention)
async def retention(visit: Visit) -> Response:
    found: Retention = await visit.read(lambda rooms: rooms.admin.retention())
    sentence = _("Finished jobs are kept for %(days)s days.", days=f"{found.runs / DAY:g}")
    return _render(
        visit, "retention.html", "/settings/retention", kept=found, sentence=sentence, outcomes=OUTCOMES, states=states,
    )  # fmt: skip


@doors.act("/settings/retention", Admin.set_retention)
async def set_retention(visit: Visit) -> Response:
    form = visit.form
    days = form.get("days", "").strip()
    if form.get("forget") == "yes":
        keep = None
    elif not (days.isdecimal() and len(days) < 6):
        raise InvalidInput("not_a_whole_number", name="days", value=days[:40])
    else:
        keep = timedelta(days=int(days))
    await visit.act(
        lambda rooms: rooms.admin.set_retention(
            keep, queue=form.get("queue", "").strip() or None, outcome=form.get("outcome") or None,
            reason=form.get("reason", "").strip(),
        )
    )  # fmt: skip
    text = _("The rule is forgotten.") if keep is None else _("The rule is stored.")
    return visit.redirect("/settings/retention", Flash(text))
