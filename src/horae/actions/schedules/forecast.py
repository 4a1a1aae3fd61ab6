"""The forecast: the fires of the next hours of all schedules, and the minutes in which many come together."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from horae.actions.consistency import one_moment
from horae.actions.schedules.schedules import iterate
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.scheduled_tasks.rules import apply_shortest_interval
from horae.core.schedules.schedule import Schedule, first_fire, next_fire
from horae.errors import InvalidInput
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World

LONGEST = timedelta(days=31)
MOST_FIRES = 20_000  # computed at most, which bounds the time of an answer
MOST_PILES = 20
MOST_NEXT = 100
PILE = 2  # fires in one minute that are worth listing


@dataclass(frozen=True, slots=True)
class Forecast:
    """Fires in order, and how far the answer reaches: to the end asked for, or to the fire where it was cut."""

    fires: tuple[tuple[datetime, Schedule], ...]
    until: datetime
    complete: bool
    total: int  # fires up to then, listed or not
    piles: tuple[tuple[datetime, int], ...]  # minutes with many fires, the worst first


@one_moment
def forecast(
    world: World,
    hours: float = 24,
    *,
    owner: str | None = None,
    queues: Collection[str] = (),
    limit: int = 1000,
    among: Iterable[Schedule] | None = None,
) -> Forecast:
    """Return the fires of the next hours by the current rules, of the schedules *among* which the caller looks, or of
    all that the world has.

    A schedule that rests between runs has only its next fire here. Of overdue fires only one is listed: how many of
    them run is decided when the schedule is fired.
    """
    ahead = timedelta(hours=hours) if 0 < hours <= LONGEST.total_seconds() / 3600 else timedelta(0)
    if not ahead:
        raise InvalidInput("hours_outside", hours=hours, most=LONGEST.total_seconds() / 3600)
    now = world.clock.now()
    end = now + ahead
    known = list(active(world, owner=owner, queues=queues) if among is None else among)
    coming = [(at, index) for index, each in enumerate(known) if (at := first_of(each, now)) is not None and at <= end]
    heapq.heapify(coming)
    fires: list[tuple[datetime, Schedule]] = []
    minutes: Counter[datetime] = Counter()
    fired: Counter[int] = Counter()
    total = 0
    while coming and total < MOST_FIRES:
        at, index = heapq.heappop(coming)
        schedule = known[index]
        total, fired[index] = total + 1, fired[index] + 1
        minutes[max(at, now).replace(second=0, microsecond=0)] += 1
        if len(fires) < limit:
            fires.append((at, schedule))
        again = _after(schedule, max(at, now), fired[index])
        if again is not None and again <= end:
            heapq.heappush(coming, (again, index))
    piles = [pile for pile in minutes.most_common(MOST_PILES) if pile[1] >= PILE]
    until = coming[0][0] if coming else end
    return Forecast(tuple(fires), until, not coming, total, tuple(piles))


def active(world: World, *, owner: str | None, queues: Collection[str]) -> Iterator[Schedule]:
    """Yield the schedules that fire by themselves, as they do so."""
    for each in iterate(world, ScheduleFilter(owner=owner, enabled=True, queues=tuple(sorted(queues)))):
        if each.is_active:
            yield apply_shortest_interval(each, world.shortest_interval)


@one_moment
def next_fires(
    world: World, *, owner: str | None = None, queues: Collection[str] = (), limit: int = 20
) -> list[tuple[datetime, Schedule]]:
    """Return the fires that come next, in order, from as many schedules as there are fires: quick with any number.

    Jobs that every node runs by itself are not among them, because no store knows when they fire.
    """
    page_size(limit, MOST_NEXT)
    now = world.clock.now()
    wanted = tuple(sorted(queues))
    # No schedule whose first fire is later than those of so many others can be among the next fires.
    found = world.route(owner=owner).store.read(lambda tx: tx.schedules.next_due(owner, wanted, limit=limit))
    known = [apply_shortest_interval(each, world.shortest_interval) for each in found]
    coming = [(at, index) for index, each in enumerate(known) if (at := first_of(each, now)) is not None]
    heapq.heapify(coming)
    fires: list[tuple[datetime, Schedule]] = []
    fired: Counter[int] = Counter()
    while coming and len(fires) < limit:
        at, index = heapq.heappop(coming)
        fires.append((at, known[index]))
        fired[index] += 1
        again = _after(known[index], max(at, now), fired[index])
        if again is not None:
            heapq.heappush(coming, (again, index))
    return fires


def first_of(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the next fire of a schedule as it stands; None where it has none."""
    if schedule.is_spent:
        return None
    if schedule.mode != "ALL_NODES":
        return schedule.next_fire_at
    try:
        return first_fire(schedule, now)
    except InvalidInput:  # a rule that this host cannot read hides no other
        return None


def _after(schedule: Schedule, at: datetime, fired: int) -> datetime | None:
    if schedule.rests or (schedule.max_fires is not None and schedule.fire_count + fired >= schedule.max_fires):
        return None
    try:
        return next_fire(schedule, at)
    except InvalidInput:
        return None
