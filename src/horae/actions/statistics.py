"""Reading the statistics of endings: over time, and by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from horae.core.dataclass import dataclass
from horae.core.statistics import (
    FINER,
    LENGTHS,
    MINUTE,
    PAST,
    SCOPES,
    Grain,
    Marginals,
    Scope,
    Statistic,
    floor,
    limit_names,
    merge,
)
from horae.core.time.instants import MICROSECOND, aware, instant, iso, micros
from horae.errors import Forbidden, InvalidInput
from horae.ports.store import Tx
from horae.ports.world import World

MOST_POINTS = 3000
LOOK_BACK: dict[Grain, timedelta] = {
    "minute": timedelta(hours=2),
    "hour": timedelta(days=2),
    "day": timedelta(days=30),
}
# Up to this length a window is added up from minutes, then from hours, then from days.
FROM_MINUTES, FROM_HOURS = timedelta(hours=6), timedelta(days=10)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one name, in one span of a series or over a window."""

    name: str
    at: datetime
    until: datetime
    figures: Statistic
    depth: int | None = None  # the most due jobs of a queue that a sample found


def series(
    world: World,
    by: Scope,
    name: str = "",
    *,
    grain: Grain = "hour",
    since: datetime | None = None,
    until: datetime | None = None,
    owner: str | None = None,
) -> list[Figures]:
    """Return figures over time, the oldest first; spans in which nothing ended are left out.

    With *owner* only those of that tenant. The last span may not be over yet.
    """
    name = _permit(by, name, owner)
    start, end = _window(world, grain, since, until)

    def read(tx: Tx) -> list[Figures]:
        length, found = LENGTHS[grain], dict[int, Statistic]()
        depths: dict[int, int] = {}
        for source, low, high in _sources(grain, start, end, _rolled(tx)):
            for at, figures in tx.statistics.spans(source, low, high, by, name).items():
                found.setdefault(floor(at, length), Statistic()).add(figures)
            samples = tx.statistics.depths(source, low, high, name).get(name, {}) if by == "queue" else {}
            for at, depth in samples.items():
                depths[floor(at, length)] = max(depth, depths.get(floor(at, length), 0))
        return [
            Figures(name, instant(at), instant(at + length), found.get(at, Statistic()), depths.get(at))
            for at in sorted({*found, *depths})
        ]

    return world.route(owner=owner).store.read(read)


def totals(
    world: World,
    by: Scope,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    owner: str | None = None,
) -> list[Figures]:
    """Return the figures of a window by name, those with most runs first; default: the last 24 hours.

    A longer window begins at a full hour or day.
    """
    name = _permit(by, "", owner)
    end = world.clock.now() if until is None else aware(until, "until")
    begin = end - timedelta(days=1) if since is None else aware(since, "since")
    grain: Grain = "minute" if end - begin <= FROM_MINUTES else "hour" if end - begin <= FROM_HOURS else "day"
    low, high = _window(world, grain, begin, end)

    def read(tx: Tx) -> list[Figures]:
        sources = _sources(grain, low, high, _rolled(tx))
        spans: list[Marginals] = [each for part in sources for each in tx.statistics.marginals(*part, by)]
        found = {key[1]: figures for key, figures in merge(spans).items() if owner is None or key[1] == name}
        depths: dict[str, int] = {}
        for part in sources if by == "queue" else ():
            for queue, samples in tx.statistics.depths(*part).items():
                depths[queue] = max(depths.get(queue, 0), *samples.values())
        names = sorted({*found, *depths}, key=lambda each: (-found.get(each, Statistic()).runs, each))
        return [
            Figures(each, instant(low), instant(high), found.get(each, Statistic()), depths.get(each))
            for each in names[:limit]
        ]

    return world.route(owner=owner).store.read(read)


def count_all_time(tx: Tx, by: Scope) -> dict[str, tuple[int, Statistic]]:
    """Return how attempts ever ended by name, each with the first span on record.

    It only grows, whatever is removed from the history or from the statistics.
    """
    return add_up(tx.statistics.totals(_ever(by, _rolled(tx))))


def count_finished(tx: Tx) -> tuple[datetime, dict[tuple[str, str], int]]:
    """Return up to when endings were counted, and how many jobs were finished by then, by queue and state."""
    found = {
        (queue, state): getattr(figures, state)
        for queue, (_, figures) in count_all_time(tx, "queue").items()
        for state in ("succeeded", "cancelled")
    }
    return instant(_rolled(tx)), {key: number for key, number in found.items() if number}


def count_window(tx: Tx, since: datetime, owner: str | None) -> tuple[datetime, Statistic]:
    """Return up to when endings were counted, and how many ended between an instant and then; at most two days back."""
    rolled = _rolled(tx)
    return instant(rolled), _only(tx.statistics.totals([_lately(since, rolled, owner)])[0])


def count_for_scrape(tx: Tx, since: datetime, rolled: int) -> tuple[Statistic, dict[str, tuple[int, Statistic]]]:
    """Return what :func:`count_window` does of all owners and :func:`count_all_time` by queue, in one statement."""
    window, *ever = tx.statistics.totals([_lately(since, rolled, None), *_ever("queue", rolled)])
    return _only(window), add_up(ever)


def count_recent(tx: Tx, since: datetime, rolled: int) -> tuple[dict[str, Statistic], dict[str, Statistic]]:
    """Return what ended in the minutes since an instant that have been counted, by queue and by handler."""
    found = limit_names(tx.statistics.recent(floor(micros(since), MINUTE), rolled))
    by_queue, by_handler = (
        {name: figures for (each, name), figures in found.items() if each == scope} for scope in ("queue", "handler")
    )
    return by_queue, by_handler


def _ever(by: Scope, rolled: int) -> list[tuple[tuple[str, int, int], str, str | None]]:
    """Return the parts of the statistics that together hold every ending that was counted."""
    past: tuple[str, int, int] = (PAST, 0, 1)
    return [(window, by, None) for window in (past, *_sources("day", 0, rolled, rolled))]


def _lately(since: datetime, rolled: int, owner: str | None) -> tuple[tuple[str, int, int], str, str | None]:
    """Return the minutes since an instant, of all or of one owner."""
    window = ("minute", floor(micros(since) + MINUTE - 1, MINUTE), rolled)
    return (window, "total", "") if owner is None else (window, "owner", owner)


def _only(found: dict[str, tuple[int, Statistic]]) -> Statistic:
    return next((figures for _, figures in found.values()), Statistic())


def add_up(parts: Sequence[dict[str, tuple[int, Statistic]]]) -> dict[str, tuple[int, Statistic]]:
    found: dict[str, tuple[int, Statistic]] = {}
    for part in parts:
        for name, (first, figures) in part.items():
            begin, together = found.setdefault(name, (first, Statistic()))
            together.add(figures)
            found[name] = min(begin, first), together
    return found


def _rolled(tx: Tx) -> int:
    state = tx.statistics.state()
    return 0 if state is None else state.rolled_until


def _permit(by: Scope, name: str, owner: str | None) -> str:
    """Return the name that is meant; a tenant sees the marginal of owners, and of that its own row."""
    if by not in SCOPES:
        raise InvalidInput("choice_unknown", name="by", value=str(by), choices=list(SCOPES))
    if owner is None:
        return name
    if by != "owner" or name not in ("", owner):
        raise Forbidden("statistics_of_others", owner=owner)
    return owner


def _window(world: World, grain: Grain, since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """Return a window of whole spans."""
    if grain not in LENGTHS:
        raise InvalidInput("choice_unknown", name="grain", value=str(grain), choices=list(LENGTHS))
    end = world.clock.now() if until is None else aware(until, "until")
    begin = end - LOOK_BACK[grain] if since is None else aware(since, "since")
    length = LENGTHS[grain]
    if begin >= end:
        raise InvalidInput("window_empty", since=iso(begin), until=iso(end))
    points = (end - begin) // (length * MICROSECOND)
    if points > MOST_POINTS:
        raise InvalidInput("too_many_points", points=points, most=MOST_POINTS, grain=grain)
    return floor(micros(begin), length), floor(micros(end) - 1, length) + length


def _sources(grain: Grain, start: int, end: int, rolled: int) -> list[tuple[Grain, int, int]]:
    """Return from where to read a window: spans that are not over yet are added up from finer ones."""
    parts: list[tuple[Grain, int, int]] = []
    at: int = start
    each: Grain | None = grain
    while each is not None:
        finer = FINER.get(each)
        stop = end if finer is None else min(end, floor(rolled, LENGTHS[each]))
        if at < stop:
            parts.append((each, at, stop))
            at = stop
        each = finer
    return parts
