"""Pictures of time, as SVG made of plain values.

One picture runs through the console: a *band* of time with the *now line*. What has happened stands left of it and is
solid, what is to come stands right of it and is hollow. A day of an installation, the attempts at a job, the fires of a
schedule and a wait are the same band at other scales.

Positions across are percentages, so that a picture is as wide as its place and its text never scales. Colours and sizes
of text come from the style sheet by class; nothing here has a ``style`` attribute, which the content policy forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from html import escape
from typing import Literal

from markupsafe import Markup

from horae.console.times import day
from horae.core.dataclass import dataclass

Side = Literal["up", "down", "on"]
# Steps between two marks of the scale; the first that gives at most MOST_MARKS is taken.
STEPS = tuple(
    timedelta(seconds=each)
    for each in (
        0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600,
        86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 90 * 86400, 365 * 86400,
    )
)  # fmt: skip
MOST_MARKS = 9
DAY = timedelta(days=1)
LABELS = 22  # pixels below a band for its scale
HEAD = 20  # pixels above a band for the word at the now line
LEAST = 3.0  # pixels: what happened at all is seen
HEAT_HOURS, HEAT_ROW, HEAT_STEPS = 24, 24, 5  # of a grid of days: columns, pixels of a row, shades
NARROWEST = 0.35  # per cent: what took no time is seen as well


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a band shows, on a reader's clock."""

    since: datetime
    until: datetime
    now: datetime
    zone: tzinfo = UTC

    def x(self, at: datetime) -> float:
        """Return where an instant is, in per cent of the width; what is outside stands at the edge."""
        share = (at - self.since) / (self.until - self.since)
        return min(100.0, max(0.0, share * 100))

    def marks(self) -> list[tuple[datetime, str]]:
        """Return the instants of the scale with their labels, on round times of the reader's clock."""
        length = self.until - self.since
        step = next((each for each in STEPS if length / each <= MOST_MARKS), STEPS[-1])
        start = self.since.astimezone(self.zone)
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        first = midnight + -((midnight - start) // step) * step
        found = []
        for number in range(MOST_MARKS + 2):
            at = (first + number * step).astimezone(UTC)  # wall clock: round hours also after a change of clocks
            if self.since <= at <= self.until:
                found.append((at, _label(at.astimezone(self.zone), step)))
        return found


@dataclass(frozen=True, slots=True)
class Shape:
    """Something on a band: a span, or an instant where *end* is None.

    *kind* is a state and becomes its class. A shape goes *up* or *down* from the line by its *level* (0 to 1), or lies
    *on* the line of its *row*. It is hollow where *ahead* says so, or where it begins after now.
    """

    start: datetime
    end: datetime | None
    kind: str
    title: str = ""
    side: Side = "on"
    level: float = 1.0
    row: int = 0
    ahead: bool | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """Pixels of a band: above its line, below it, and for each row where things lie on the line."""

    above: int = 44
    below: int = 60
    row: int = 28


def band(
    window: Window,
    shapes: Iterable[Shape],
    *,
    name: str,
    now_label: str = "",
    size: Size | None = None,
    rows: int = 0,
) -> Markup:
    """Draw a band; *name* says what it shows, for those who do not see it.

    With *rows* things lie on that many lines, one below the other; else they go up and down from one line.
    """
    sizes = size or Size()
    top = HEAD if now_label else 4
    line = top + sizes.above
    floor = top + rows * sizes.row if rows else line + sizes.below
    height = floor + LABELS
    parts = [f'<line class="base" x1="0" x2="100%" y1="{line}" y2="{line}"/>'] if not rows else []
    parts += _scale(window, top, floor, height)
    parts += [_shape(window, each, sizes, top, line) for each in shapes]
    parts += _now(window, now_label, top, floor)
    head = f'<svg class="band" role="img" width="100%" height="{height}" aria-label="{escape(name)}">'
    return Markup(f"{head}{''.join(parts)}</svg>")


def strip(results: Sequence[tuple[str, str]], *, name: str, most: int = 20) -> Markup:
    """Draw the last results as a row of small blocks, the newest at the right: (kind, title)."""
    step, width, height = 7, 5, 18
    latest = list(results)[-most:]
    start = (most - len(latest)) * step
    parts = [
        f'<rect class="{escape(kind)}" x="{start + number * step}" y="{0 if kind in TALL else 6}" width="{width}" '
        f'height="{height if kind in TALL else height - 6}" rx="1"><title>{escape(title)}</title></rect>'
        for number, (kind, title) in enumerate(latest)
    ]
    label = escape(name)
    return Markup(
        f'<svg class="strip" role="img" width="{most * step}" height="{height}" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One hour of a grid of days and hours; *level* (0 to 1) says how dark it is, *url* where it leads."""

    hour: int
    level: float
    kind: str
    title: str
    url: str


def heat(rows: Sequence[Sequence[HeatCell]], *, name: str, now: tuple[int, float] | None = None) -> Markup:
    """Draw a grid with a row for each day and a column for each hour; *now* is a row and an hour within it."""
    width, top, height = 100 / HEAT_HOURS, HEAD, HEAD + len(rows) * HEAT_ROW
    parts = [
        f'<text class="scale{" minor" if hour % 6 else ""}" x="{_short(hour * width)}%" y="{top - 7}">{hour:02d}</text>'
        for hour in range(0, HEAT_HOURS, 3)
    ]
    for index, cells in enumerate(rows):
        y = top + index * HEAT_ROW
        parts.append(f'<rect class="day" x="0" y="{y + 1}" width="100%" height="{HEAT_ROW - 2}" rx="2"/>')
        for cell in cells:
            step = min(HEAT_STEPS, 1 + int(cell.level * HEAT_STEPS))
            parts.append(
                f'<a href="{escape(cell.url)}" tabindex="-1" aria-label="{escape(cell.title)}">'
                f'<rect class="{escape(cell.kind)} l{step}" x="{_short(cell.hour * width + 0.15)}%" y="{y + 1}" '
                f'width="{_short(width - 0.3)}%" height="{HEAT_ROW - 2}" rx="2">'
                f"<title>{escape(cell.title)}</title></rect></a>"
            )
    if now is not None:
        y, x = top + now[0] * HEAT_ROW, _short(now[1] * width)
        parts.append(f'<line class="now" x1="{x}%" x2="{x}%" y1="{y - 2}" y2="{y + HEAT_ROW + 2}"/>')
    head = f'<svg class="band heat" role="group" width="100%" height="{height}" aria-label="{escape(name)}">'
    return Markup(f"{head}{''.join(parts)}</svg>")


TALL = frozenset({"dead", "failed", "late"})  # recognised by their height as well as by their colour


def _shape(window: Window, shape: Shape, size: Size, top: int, line: int) -> str:
    left, right = window.x(shape.start), window.x(shape.start if shape.end is None else shape.end)
    width = max(right - left, NARROWEST)
    if shape.side == "on":
        thick = size.row - 14
        y, tall = float(top + shape.row * size.row + 7), float(thick)
    else:
        room = size.above if shape.side == "up" else size.below
        tall = max(LEAST, min(1.0, shape.level) * (room - 6))
        y = line - 1 - tall if shape.side == "up" else line + 1.0
    ahead = shape.start >= window.now if shape.ahead is None else shape.ahead
    title = f"<title>{escape(shape.title)}</title>" if shape.title else ""
    kinds = f"{escape(shape.kind)} ahead" if ahead else escape(shape.kind)
    return (
        f'<rect class="{kinds}" x="{_short(left)}%" y="{_short(y)}" width="{_short(width)}%" height="{_short(tall)}" '
        f'rx="1.5">{title}</rect>'
    )


def _scale(window: Window, top: int, floor: int, height: int) -> Iterator[str]:
    for number, (at, label) in enumerate(window.marks()):
        x = window.x(at)
        minor = " minor" if number % 2 else ""
        yield f'<line class="mark{minor}" x1="{_short(x)}%" x2="{_short(x)}%" y1="{top}" y2="{floor}"/>'
        anchor = "start" if x < 7 else "end" if x > 93 else "middle"
        where = f'x="{_short(x)}%" y="{height - 4}" text-anchor="{anchor}"'
        yield f'<text class="scale{minor}" {where}>{escape(label)}</text>'


def _now(window: Window, label: str, top: int, floor: int) -> Iterator[str]:
    if not window.since <= window.now <= window.until:
        return
    x = window.x(window.now)
    yield f'<line class="now" x1="{_short(x)}%" x2="{_short(x)}%" y1="{top - 2}" y2="{floor + 2}"/>'
    if label:
        anchor = "start" if x < 8 else "end" if x > 92 else "middle"
        yield f'<text class="now-label" x="{_short(x)}%" y="{top - 7}" text-anchor="{anchor}">{escape(label)}</text>'


def _label(at: datetime, step: timedelta) -> str:
    if step >= DAY:
        return day(at)
    if step < timedelta(seconds=1):
        return f"{at:%M:%S}.{at.microsecond // 1000:03d}"
    return f"{at:%H:%M:%S}" if step < timedelta(minutes=1) else f"{at:%H:%M}"


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
