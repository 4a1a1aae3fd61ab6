"""The options that make or change a schedule, and how their values are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from horae.cli.arguments import arguments_from, priority_from
from horae.cli.terminal import with_signature
from horae.core.time.spans import span_from
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.schedules.values import Schedule


def _option(kind: Any, flag: str, metavar: str | None, text: str) -> Any:
    return Annotated[kind, typer.Option(flag, metavar=metavar, help=text)]


# What makes a schedule, in the order of the help: the name of a field (of a rule for the first four), and its option.
OPTIONS: dict[str, Any] = {
    "cron": _option(str | None, "--cron", "EXPR", 'By cron: "0 9 * * 1-5"; six fields have seconds first.'),
    "every": _option(str | None, "--every", "SPAN", "Every 90s, 15m, 2h, 1d …"),
    "once": _option(str | None, "--once", "INSTANT", "Once, at 2030-01-07T06:00:00Z; without an offset, in --tz."),
    "after": _option(list[str] | None, "--after", "KEY", "After these schedules have succeeded. Repeat it."),
    "zone": _option(str | None, "--tz", "ZONE", "The IANA zone of cron and of times without an offset."),
    "payload": _option(str | None, "--payload", "JSON", "The arguments of the handler as one JSON object."),
    "queue": _option(str | None, "--queue", "NAME", "The queue of its jobs."),
    "priority": _option(str | None, "--priority", "BAND", "high, medium or low."),
    "group": _option(str | None, "--group", "NAME", "A group to pause and to limit together; none for no group."),
    "misfire": _option(
        str | None, "--misfire", "POLICY", "Fires missed while no worker ran: fire_once, skip or catch_up."
    ),
    "catch_up": _option(int | None, "--catch-up", "N", "Make up for the last N missed fires; implies catch_up."),
    "spread": _option(str | None, "--spread", "SPAN", "Distribute the fires that are caught up over this time."),
    "grace": _option(str | None, "--grace", "SPAN", "With --misfire skip, still run the last fire if no later."),
    "overlap": _option(
        str | None, "--overlap", "POLICY", "A fire while a job is unfinished: skip, queue_one or allow."
    ),
    "jitter": _option(str | None, "--jitter", "SPAN", "Spread each fire forward by up to so much."),
    "anchor": _option(str | None, "--anchor", "start|finish", "Count an interval from fire to fire, or from each end."),
    "initial_delay": _option(str | None, "--initial-delay", "SPAN", "The first fire of an interval so much later."),
    "starts_at": _option(str | None, "--starts-at", "INSTANT", "No fire before; none lifts it."),
    "ends_at": _option(str | None, "--ends-at", "INSTANT", "No fire after; none lifts it."),
    "max_fires": _option(str | None, "--max-fires", "N", "Fire at most so often; none lifts it."),
    "retry": _option(str | None, "--retry", "JSON", 'After a failure: {"kind": "fixed", "attempts": 3, "delay": 60}.'),
    "timeout": _option(str | None, "--timeout", "SPAN", "Stop an attempt that takes longer; none lifts it."),
    "stale_timeout": _option(
        str | None, "--stale-timeout", "SPAN", "Close a job without progress for so long when the next fires; or none."
    ),
    "budget": _option(str | None, "--budget", "NAME", "Draw on this budget: llm, or llm/agent; none lifts it."),
    "cost": _option(
        list[str] | None, "--cost", "UNIT=N", "Reserve so many calls, tokens or micros for each attempt. Repeat it."
    ),
    "quiet_hours": _option(
        str | None, "--quiet-hours", "HOURS", "No fire 22:00-07:00, one at the end for all; none lifts it."
    ),
    "calendar": _option(str | None, "--calendar", "NAME", "A calendar of `horae calendar list`; none lifts it."),
    "calendar_rule": _option(
        str | None, "--calendar-rule", "RULE", "Its days: exclude them, include only them, or move to the next other."
    ),
    "expect": _option(
        str | None, "--expect", "WHEN", "A success within 10m of being due, by 06:00, or every 1d; none lifts it."
    ),
    "mode": _option(str | None, "--mode", "MODE", "SINGLE_NODE: one node runs each fire; or ALL_NODES."),
    "lock_ttl": _option(str | None, "--lock-ttl", "SPAN", "Run under a lock that ends so long unrenewed; or none."),
    "day_match": _option(str | None, "--day-match", "and|or", "Whether day and weekday must both match."),
    "gap": _option(str | None, "--gap", "after|skip", "A time that clocks skip: fire after it, or not."),
    "fold": _option(str | None, "--fold", "first|both", "A time that clocks repeat: fire once, or each time."),
    "lenient": _option(
        bool | None,
        "--lenient/--strict",
        None,
        "Read names, 7 for Sunday, 22-2, @daily, ?, L, W and # in cron, or not.",
    ),
}
NONE = "none"
SPANS = ("jitter", "initial_delay", "spread", "grace", "timeout", "stale_timeout", "lock_ttl")
MAY_BE_ABSENT = (
    "group",
    "starts_at",
    "ends_at",
    "max_fires",
    "timeout",
    "stale_timeout",
    "lock_ttl",
    "budget",
    "quiet_hours",
    "calendar",
    "expect",
)


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter *given* of a command by all of these options; it receives them as a dictionary."""
    hints = get_type_hints(function, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        if each.name == "given":
            ours = OPTIONS.items()
            parameters += [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in ours]
        else:
            parameters.append(each.replace(annotation=hints[each.name]))

    def run(*terminal: Any, **values: Any) -> None:
        given = {name: values.pop(name) for name in OPTIONS}
        function(*terminal, given=given, **values)

    return with_signature(run, function, parameters)


def rule_values(given: dict[str, Any], zone: str | None, *, required: bool) -> dict[str, Any]:
    """Read the rule: exactly one of ``--cron``, ``--every``, ``--once``, ``--after``, or none where none is needed."""
    from horae.core.time.readings import instant_from

    named = [(kind, given.pop(kind)) for kind in ("cron", "every", "once", "after")]
    rules = [(kind, value) for kind, value in named if value]
    if len(rules) > 1 or (required and not rules):
        raise InvalidInput("timing_ambiguous")
    rule: dict[str, Any] = dict(rules)
    if "every" in rule:
        rule["every"] = span_from(rule["every"], "span")
    elif "once" in rule:
        rule["once"] = instant_from(rule["once"], zone, "--once")
    return rule


def values_from(given: dict[str, Any], zone: str | None, *, required: bool) -> dict[str, Any]:
    """Read the options as ``schedules.create`` takes them; times without an offset are read in *zone*."""
    from horae.core.time.readings import instant_from

    values = rule_values(given, zone, required=required)
    for name, value in given.items():
        if value is None or value == []:
            continue
        if value == NONE and name in MAY_BE_ABSENT:
            values[name] = None
        elif name in SPANS:
            values[name] = span_from(value, name.replace("_", " "))
        elif name in ("starts_at", "ends_at"):
            values[name] = instant_from(value, zone, f"--{name.replace('_', '-')}")
        else:
            values[name] = _read(name, value)
    if values.get("catch_up") is not None:
        values.setdefault("misfire", "catch_up")
    return values


def _read(name: str, value: Any) -> Any:
    if name == "payload":
        return arguments_from([], value, None)
    if name == "cost":
        return arguments_from(value, None, None)
    if name == "priority":
        return priority_from(value)
    if name == "retry":
        return _read_retry(value)
    if name == "max_fires":
        if not (value.isascii() and value.isdigit()):
            raise InvalidInput("max_fires_unreadable", text=value)
        return int(value)
    return value


def _read_retry(text: str) -> Any:
    from horae.declare.file_values import read_retry  # when asked for: other commands must not wait for it

    return read_retry(text if text == NONE else arguments_from([], text, None))


def zone_of(zone: str | None, schedule: Schedule | None = None) -> str | None:
    """Return the zone of times without an offset: the one given now, or the one that was set for the schedule."""
    if zone is not None or schedule is None:
        return zone
    return schedule.zone if schedule.sources.get("zone", "default") != "default" else None
