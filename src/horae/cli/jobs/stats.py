"""``horae stats``: what ended, how long it took and how late it began."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.statistics import Grain, Scope
from horae.core.time.spans import span_from
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.statistics import Figures
    from horae.cli.verbs import Verbs

BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 24  # of a sparkline
LENGTHS: dict[Literal["minute", "hour", "day"], timedelta] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
WINDOWS = (("minute", timedelta(hours=2)), ("hour", timedelta(days=2)))  # for longer ones: days
ROWS = 20  # whose sparkline is fetched


def register(app: typer.Typer) -> None:
    examples = ("horae stats", "horae stats --by handler --last 7d", "horae stats --by queue --name mail --last 2h")
    command(app, "stats", by_url=True, examples=examples)(stats)


def stats(
    terminal: Terminal,
    by: Annotated[str, typer.Option("--by", metavar="WHAT", help="total, queue, handler or owner.")] = "queue",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="One queue, handler or owner, over time.")
    ] = None,
    last: Annotated[str, typer.Option("--last", metavar="SPAN", help="How far to look back: 2h, 24h, 7d …")] = "24h",
    grain: Annotated[
        str | None, typer.Option("--grain", metavar="WHAT", help="minute, hour or day; else as fits the window.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many names.")] = ROWS,
) -> None:
    """See what ended, how long it took and how late it began.

    With --name, or by total, one line for each minute, hour or day; else one for each name. Endings count a minute or
    two after they happened.
    """
    window = span_from(last)
    if by not in get_args(Scope):
        raise InvalidInput("choice_unknown", name="--by", value=by, choices=list(get_args(Scope)))
    chosen: Any = grain or next((each for each, longest in WINDOWS if window <= longest), "day")
    if chosen not in get_args(Grain):
        raise InvalidInput("choice_unknown", name="--grain", value=str(chosen), choices=list(get_args(Grain)))
    scope: Any = by
    with reached(terminal) as here:
        now = here.now()
        since = now - window
        if name is not None or by == "total":
            points = here.statistics.series(scope, name or "", grain=chosen, since=since)
            terminal.result(
                {"by": by, "name": name or "", "grain": chosen, "items": to_json(list(points))},
                _over_time(terminal, points, LENGTHS[chosen]),
            )
            return
        found = here.statistics.list(scope, since=since, limit=limit)
        lines = [] if terminal.is_json else [_row(each, _bars(here, scope, each, since, now, chosen)) for each in found]
    headers = (by.upper(), "RUNS", "OK", "FAILED", "RETRIED", "DEAD", "P50", "P95", "DELAY P95", last.upper())
    text = terminal.table(headers, lines) if found else f"Nothing ended in the last {last}."
    terminal.result({"by": by, "items": to_json(list(found))}, text)


def _bars(here: Verbs, by: Any, each: Figures, since: datetime, now: datetime, grain: Any) -> str:
    points = here.statistics.series(by, each.name, grain=grain, since=since)
    width = (now - since) / COLUMNS
    counts = [0] * COLUMNS
    for point in points:
        middle = point.at + (point.until - point.at) / 2
        counts[min(COLUMNS - 1, max(0, int((middle - since) / width)))] += point.runs
    return sparkline(counts)


def sparkline(counts: Sequence[int]) -> str:
    """Return counts as one line of bars; a dot where nothing happened."""
    most = max(counts, default=0)
    return "".join("·" if not count else BARS[(count * len(BARS) - 1) // most] for count in counts)


def _row(each: Figures, bars: str) -> tuple[str, ...]:
    return (each.name or "-", *_counts(each), bars)


def _counts(each: Figures) -> tuple[str, ...]:
    counts = (each.runs, each.succeeded, each.failed + each.lost, each.retried, each.dead)
    spans = (each.duration_p50, each.duration_p95, each.delay_p95)
    return (*(str(count) for count in counts), *("-" if span is None else words.span(span) for span in spans))


def _over_time(terminal: Terminal, points: Sequence[Figures], length: timedelta) -> str:
    if not points:
        return "Nothing ended in this window."
    most = max(point.runs for point in points) or 1
    rows = [
        (
            point.at.strftime("%Y-%m-%d" if length >= timedelta(days=1) else "%Y-%m-%d %H:%M"),
            *_counts(point),
            "-" if point.depth is None else str(point.depth),
            BARS[-1] * round(10 * point.runs / most),
        )
        for point in points
    ]
    headers = ("UTC", "RUNS", "OK", "FAILED", "RETRIED", "DEAD", "P50", "P95", "DELAY P95", "DEPTH", "")
    return terminal.table(headers, rows)
