"""``horae schedule explain`` and ``next``: what a schedule means, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli import words
from horae.cli.shapes import moment
from horae.cli.terminal import Terminal, command
from horae.core.time.spans import span_from
from horae.errors import InvalidInput, UnknownZone

if TYPE_CHECKING:
    from horae.core.schedules.notes import Effect
    from horae.core.schedules.rules import Rule
    from horae.words.languages import Language

Rhythm = Annotated[
    str, typer.Argument(metavar="WHEN", help='Cron in quotes ("0 9 * * 1-5"), a span (15m) or an instant.')
]
Zone = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="The IANA zone, such as Asia/Shanghai.")]
DayMatch = Annotated[
    str | None, typer.Option("--day-match", metavar="and|or", help="Whether day and weekday must both match.")
]
Gap = Annotated[
    str | None, typer.Option("--gap", metavar="after|skip", help="A time that clocks skip: fire after it, or not.")
]
Fold = Annotated[
    str | None, typer.Option("--fold", metavar="first|both", help="A time that clocks repeat: fire once, or each time.")
]
Lenient = Annotated[bool, typer.Option("--lenient", help="Read names, 7 for Sunday, 22-2, @daily, ?, L, W and # too.")]
Count = Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, max=1000, help="How many fires.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="INSTANT", help="Begin there instead of now, such as 2030-01-07T06:00Z.")
]

HEADINGS = {
    "en": {
        "previous": "previous fire",
        "next": "next fires",
        "clocks": "changes of clocks",
        "warnings": "good to know",
        "none": "no fire",
    },
    "zh": {
        "previous": "上一次触发时间",
        "next": "接下来的触发时间",
        "clocks": "时钟调整",
        "warnings": "请注意",
        "none": "不会触发",
    },
}
MONTHS_AHEAD = 13


def register(group: typer.Typer) -> None:
    command(group, "explain", examples=('horae schedule explain "30 2 * * *" --tz Europe/Berlin',))(explain)
    command(group, "next")(next_)


def explain(
    terminal: Terminal,
    when: Rhythm,
    zone: Zone = None,
    count: Count = 5,
    day_match: DayMatch = None,
    gap: Gap = None,
    fold: Fold = None,
    lenient: Lenient = False,
    start: From = None,
) -> None:
    """Say in words what a schedule means.

    Also its previous and its next fires in UTC and in its zone, what each change of clocks in the next 13 months does
    to them, and what other dialects of cron read differently. Needs no database.
    """
    from horae.core.schedules.notes import Note, effects, warnings
    from horae.core.schedules.notes_words import say
    from horae.core.time.readings import instant_from

    language = terminal.language
    now, zone_name = _now(), _zone_name(zone)
    begin = now if start is None else instant_from(start, zone, "--from")
    options = {"day_match": day_match, "gap": gap, "fold": fold, "lenient": lenient}
    rule = rule_from(when, zone, options, begin)
    previous, fires = rule.previous_before(begin), _fires(rule, begin, count)
    clock_effects = effects(rule, zone_name, begin)
    notes = warnings(rule, begin)
    shape = {
        "words": rule.describe(language),
        "language": language,
        "zone": zone_name,
        **_rule_shape(rule),
        "previous": None if previous is None else _fire_shape(previous, zone_name),
        "next": [_fire_shape(fire, zone_name) for fire in fires],
        "clocks": [effect_shape(each, language) for each in clock_effects],
        "warnings": [{"code": each.code, "text": say(each, language)} for each in notes],
    }
    quiet = say(Note("quiet", {"zone": zone_name, "months": MONTHS_AHEAD}), language)
    head = HEADINGS[language]
    lines = [terminal.bold(rule.describe(language))]
    if previous is not None:
        lines += ["", terminal.faint(head["previous"]), *fire_lines([previous], zone_name, now, language=language)]
    lines += ["", terminal.faint(head["next"])]
    lines += fire_lines(fires, zone_name, now, language=language) or [f"  {head['none']}"]
    lines += ["", terminal.faint(head["clocks"]), *(_clock_lines(clock_effects, language) or [f"  {quiet}"])]
    if notes:
        lines += ["", terminal.faint(head["warnings"]), *(f"  {say(each, language)}" for each in notes)]
    terminal.result(shape, "\n".join(lines))


def next_(
    terminal: Terminal,
    when: Rhythm,
    zone: Zone = None,
    count: Count = 5,
    day_match: DayMatch = None,
    gap: Gap = None,
    fold: Fold = None,
    lenient: Lenient = False,
    start: From = None,
) -> None:
    """Compute the next fires of a schedule that need not exist.

    In UTC and in its zone. Needs no database.
    """
    from horae.core.time.readings import instant_from

    now, zone_name = _now(), _zone_name(zone)
    begin = now if start is None else instant_from(start, zone, "--from")
    options = {"day_match": day_match, "gap": gap, "fold": fold, "lenient": lenient}
    rule = rule_from(when, zone, options, begin)
    fires = _fires(rule, begin, count)
    shape = {"words": rule.describe(), "zone": zone_name, "next": [_fire_shape(fire, zone_name) for fire in fires]}
    terminal.result(shape, "\n".join(fire_lines(fires, zone_name, now, indent="")) or HEADINGS["en"]["none"])


def fire_lines(
    fires: Sequence[datetime], zone: str, now: datetime, *, indent: str = "  ", language: Language = "en"
) -> list[str]:
    """Return a line for each fire: in UTC, in its zone, and how far away it is."""
    rows = [(words.exact(fire), *([] if zone == "UTC" else [clock(fire, zone)])) for fire in fires]
    away = [words.relative(fire, now) if language == "en" else _away_in_chinese(fire, now) for fire in fires]
    return [f"{indent}{'  '.join(row)}  {distance}" for row, distance in zip(rows, away, strict=True)]


def _away_in_chinese(moment: datetime, now: datetime) -> str:
    number, _, unit = words.span(moment - now).partition(" ")
    units = {"ms": "毫秒", "s": "秒", "min": "分钟", "h": "小时", "d": "天"}
    return f"{number} {units[unit]}{'后' if moment >= now else '前'}"


def clock(moment: datetime, zone: str) -> str:
    """Return what clocks show there: ``2030-01-07 14:00:00+08:00 Asia/Shanghai``."""
    from horae.core.time.readings import local

    try:
        return f"{local(moment, zone).isoformat(sep=' ', timespec='seconds')} {zone}"
    except UnknownZone:
        return f"unknown zone {zone}"


def _zone_name(zone: str | None) -> str:
    """Return the name of the zone, UTC without one; an empty name is as unknown as any other."""
    return "UTC" if zone is None else zone


def rule_from(when: str, zone: str | None, options: dict[str, Any], start: datetime) -> Rule:
    """Read cron, a span or an instant; their form tells which it is."""
    from horae.core.schedules.rules import Cron, Every, Once
    from horae.core.time.readings import instant_from
    from horae.core.time.zones import zone_named

    given = {name: value for name, value in options.items() if value}
    text = when.strip()
    if len(text.split()) > 1 or not text[:1].isdigit():
        return Cron(when, _zone_name(zone), **given)
    if given:
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise InvalidInput("cron_option_without_cron", option=option, text=text)
    zone_named(_zone_name(zone))
    if "-" in text:
        return Once(instant_from(text, zone))
    return Every(span_from(text, "cron expression, span or instant")).starting(start)


def _fires(rule: Rule, start: datetime, count: int) -> list[datetime]:
    """Return the first fires; an interval that begins now begins at once."""
    from horae.core.schedules.rules import Every
    from horae.core.time.instants import MICROSECOND, earlier

    begin = earlier(start, MICROSECOND) if isinstance(rule, Every) else start
    return list(islice(rule.between(begin, datetime.max.replace(tzinfo=start.tzinfo)), count))


def _clock_lines(effects: list[Effect], language: Language) -> list[str]:
    from horae.core.schedules.notes_words import say_change, say_effect

    return [line for each in effects for line in (f"  {say_change(each.change, language)}",
                                               f"    {say_effect(each, language)}")]  # fmt: skip


def _fire_shape(fire: datetime, zone: str) -> dict[str, str | None]:
    """Return a coming instant in UTC and as clocks of the zone show it."""
    from horae.core.time.readings import local

    return {"at": moment(fire), "local": local(fire, zone).isoformat()}


def effect_shape(effect: Effect, language: Language) -> dict[str, Any]:
    from horae.core.schedules.notes_words import say_change, say_effect

    change, listed = effect.change, effect.readings[:100]
    return {
        "at": moment(change.at),
        "kind": change.kind,
        "offset_before": change.before.total_seconds(),
        "offset_after": change.after.total_seconds(),
        "outcome": effect.outcome,
        "readings": [reading.replace(tzinfo=None).isoformat() for reading in listed],
        "reading_count": len(effect.readings),
        "fires": [moment(each) for each in effect.fires[:100]],
        "change": say_change(change, language),
        "effect": say_effect(effect, language),
    }


def _rule_shape(rule: Rule) -> dict[str, Any]:
    from horae.core.schedules.rules import Cron, Every, Once

    if isinstance(rule, Cron):
        fixed = rule.parsed.fixed_time
        options = {"day_match": rule.day_match, "gap": rule.gap, "fold": rule.fold, "lenient": rule.lenient}
        return {"kind": "cron", "expression": rule.expression, "fixed_time": fixed, **options}
    if isinstance(rule, Every):
        return {"kind": "every", "expression": f"{rule.period.total_seconds():g}"}
    assert isinstance(rule, Once)
    return {"kind": "once", "expression": moment(rule.at)}


def _now() -> datetime:
    from horae.clock import SystemClock

    return SystemClock().now().replace(microsecond=0)
