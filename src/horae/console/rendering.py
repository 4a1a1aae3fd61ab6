"""Templates to answers: the whole page, or its content alone where htmx asks for that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache
from http import HTTPStatus
from typing import Any

from babel.numbers import format_decimal
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from horae.api.values import to_json
from horae.console import asset_files, drawing, menu, texts, times
from horae.console.visitor import Visit
from horae.core.time.instants import iso
from horae.errors import HoraeError, StoreError
from horae.service.problems import own_words, request_id

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    # Not no-referrer, as the API has it: with that a browser sends the forms of this page with "Origin: null".
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie, Accept-Language, HX-Request, HX-Request-Type",
}
MACROS = ("forms", "shapes", "sections")  # templates whose macros every other may use
MOST = 10_000  # a count goes no further


@cache
def environment() -> Environment:
    """Return the templates, with what every one of them may use."""
    made = Environment(
        loader=PackageLoader("horae.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        _=_markup, ngettext=_plural, drawing=drawing, texts=texts, times=times, number=number, MOST=MOST
    )
    made.filters.update(
        number=number, span=times.span, json=pretty_json, listed=texts.listed, pair=lambda code, say: (code, say(code))
    )
    for part in MACROS:  # everywhere, also where a block is rendered without the rest of its template
        made.globals.update(made.get_template(f"parts/{part}.html").module.__dict__)
    return made


def render(visit: Visit, template: str, status: int = 200, **context: Any) -> Response:
    """Answer with a page: all of it, or its block ``content`` alone where htmx asks for that."""
    page = environment().get_template(f"pages/{template}")
    values = {**common(visit), **context}
    if visit.is_partial:
        block = page.blocks["content"]
        notice = environment().get_template("parts/incomplete.html").render(values) if visit.missing else ""
        text = notice + "".join(block(page.new_context(values)))
    else:
        text = page.render(values)
    headers = {**HEADERS, "Content-Language": texts.TAGS[texts.current()]}
    return visit.finish(Response(text, status, headers, "text/html; charset=utf-8"))


def render_problem(visit: Visit, error: HoraeError, status: int) -> Response:
    """Answer with a page that says what is wrong and what to do."""
    sentence = error.in_words(texts.language())
    if isinstance(error, StoreError):  # what the database said stays in the log
        sentence = own_words("store_down")
    title = HTTPStatus(status).phrase
    return render(visit, "problem.html", status, title=title, sentence=sentence, number=status, code=error.code)


def render_failure(visit: Visit) -> Response:
    """Answer that the console itself failed; the log has the reason under the id."""
    identifier = request_id(visit.request)
    sentence = own_words("failed_here", request_id=identifier)
    title = HTTPStatus(500).phrase
    return render(visit, "problem.html", 500, title=title, sentence=sentence, number=500, code="internal_error")


def common(visit: Visit) -> dict[str, Any]:
    """Return what the layout needs of every page."""
    return {
        "visit": visit,
        "url": visit.url,
        "asset": lambda name: visit.url(f"/assets/{asset_files.version()}/{name}"),
        "locale": texts.current(),
        "lang_tag": texts.TAGS[texts.current()],
        "menu": menu.entries_for(visit),
        "flash": visit.take_flash() if not visit.is_partial else None,
        "time": lambda at, **how: time_tag(visit, at, **how),
        "ago": lambda at, **how: time_tag(visit, at, relative=True, **how),
    }


# -- pieces of text ----------------------------------------------------------------------------------------------------


def time_tag(
    visit: Visit, at: datetime | None, *, relative: bool = False, seconds: bool = False, zone: str | None = None
) -> Markup:
    """Return an instant for a reader: on the clock with its zone, or how far it is from now with both in the title."""
    if at is None:
        return Markup("–")
    clock = visit.clock
    chosen: tzinfo = clock.zone_for(zone)
    there = times.exact(at, chosen)
    if relative:
        content = escape(times.relative(at, clock.now))
    else:
        text = times.clock_time(at, clock.now, chosen, seconds=seconds)
        content = Markup('{} <span class="zone">{}</span>').format(text, times.zone_label(at.astimezone(chosen)))
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso(at), there, content)


def number(count: int, *, most: int | None = None) -> str:
    """Return a count with separators; more than *most* is shown as such."""
    digits = format_decimal(min(count, most) if most else count, locale=texts.BABEL[texts.current()])
    return f"{digits}+" if most is not None and count > most else digits


def pretty_json(value: Any) -> str:
    """Return a value as JSON that a person reads; numbers are exact, other letters stay letters."""
    plain = to_json(value) if is_dataclass(value) and fields(value) else value
    return json.dumps(plain, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return iso(value) if isinstance(value, datetime) else str(value)


def _markup(text: str, /, **facts: Any) -> Markup:
    """Translate a text of a template; the facts in it are escaped, the text itself is ours."""
    return _filled(texts.gettext(text), facts)


def _plural(one: str, many: str, count: int, /, **facts: Any) -> Markup:
    chosen = texts.plural(one, many, count)
    return _filled(chosen, {"num": number(count, most=MOST), **facts})


def _filled(text: str, facts: Mapping[str, Any]) -> Markup:
    return Markup(text) % facts if facts else Markup(text)
