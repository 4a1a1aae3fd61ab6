"""The timetable: how many fires each hour of a reader's clock has had and will have, over all schedules.

Schedules with the same rule share its fires, and what fires equally often in every hour is counted, not walked through.
Work is bounded: the answer says how far it reaches.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from datetime import datetime, timedelta, tzinfo

from horae.actions.consistency import one_moment
from horae.actions.schedules.forecast import active, first_of
from horae.core.dataclass import dataclass
from horae.core.schedules.schedule import Schedule, next_fire
from horae.core.time.instants import aware
from horae.core.time.zones import zone_named
from horae.errors import InvalidInput
from horae.ports.schedules import FiredQuarter
from horae.ports.world import World

MOST_DAYS = 31
MOST_COMPUTED = 100_000  # fires computed at most
MOST_RECORDS = 100_000  # records of fires looked at, the newest first
MOST_PILES = 20
MOST_ENTRIES = 200
PILE = 3  # schedules in one minute that are worth listing
HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)  # zones are a quarter of an hour apart, or a multiple
LONGEST_LATE = timedelta(days=1)  # a fire of one hour may be recorded so much later


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule in one hour."""

    schedule: Schedule
    fires: int = 0
    ran: int = 0
    missed: int = 0


@dataclass(slots=True)
class Hour:
    """One hour: how many fires will come, how many came and ran, how many came and did not."""

    fires: int = 0
    ran: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Timetable:
    """The hours in which something fires or fired, and how far the answer reaches in both directions."""

    since: datetime
    until: datetime
    complete: bool
    past_complete: bool
    schedules: int
    hours: dict[datetime, Hour]
    piles: tuple[tuple[datetime, int], ...]  # minutes in which many schedules fire, the worst first
    entries: tuple[Entry, ...] = ()  # of the hour asked for


@dataclass(slots=True)
class Group:
    """Schedules that fire at the same instants, and where that is every so often, the *period*."""

    schedules: list[Schedule] = field(default_factory=list)
    period: timedelta | None = None
    fired: int = 0

    @property
    def first(self) -> Schedule:
        return self.schedules[0]


def even_period(schedule: Schedule) -> timedelta | None:
    """Return the distance of fires that come every hour or more often, and equally often in every hour."""
    if schedule.quiet_hours is not None or schedule.calendar is not None:
        return None
    if schedule.kind != "every" or schedule.rests or schedule.max_fires is not None or schedule.ends_at is not None:
        return None
    period = timedelta(seconds=float(schedule.expression))
    return period if period <= HOUR and not HOUR % period else None


@dataclass(frozen=True, slots=True)
class Hours:
    """The span that a timetable is asked for, on a reader's clock."""

    now: datetime
    begin: datetime
    end: datetime
    clock: tzinfo
    chosen: datetime | None  # the hour whose schedules are listed

    @classmethod
    def around(cls, now: datetime, *, days: int, past: int, zone: str, hour: datetime | None) -> Hours:
        for name, value, least in (("days", days, 1), ("past", past, 0)):
            if not least <= value <= MOST_DAYS:
                raise InvalidInput("out_of_range", name=name, value=value, least=least, most=MOST_DAYS)
        clock = zone_named(zone)
        begin, chosen = hour_of(now - timedelta(days=past), clock), None if hour is None else aware(hour, "hour")
        return cls(now, begin, now + timedelta(days=days), clock, None if chosen is None else hour_of(chosen, clock))


@dataclass(frozen=True, slots=True)
class Records:
    """What one database knows: the schedules that fire, and what became of fires; *oldest* where not all was read."""

    known: Sequence[Schedule]
    quarters: Sequence[FiredQuarter]
    oldest: datetime | None
    chosen: Sequence[tuple[Schedule, int, int]]


@one_moment
def timetable(
    world: World,
    *,
    days: int = 14,
    past: int = 7,
    zone: str = "UTC",
    hour: datetime | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Timetable:
    """Count the fires of the next *days* by the current rules, and those of the *past* days as they were recorded.

    With *hour*, also list the schedules of that hour.
    """
    hours = Hours.around(world.clock.now(), days=days, past=past, zone=zone, hour=hour)
    return put_together(hours, [read_records(world, hours, owner=owner, queues=queues)])


@one_moment
def read_records(
    world: World, hours: Hours, *, owner: str | None = None, queues: Collection[str] = ()
) -> Records:  # fmt: skip
    """Read what a timetable is made of."""
    known = list(active(world, owner=owner, queues=queues))
    read = world.route(owner=owner).store.read
    quarters, oldest = read(
        lambda tx: tx.schedules.fired_by_quarter(hours.begin, owner=owner, queues=queues, most=MOST_RECORDS)
    )
    recorded: list[tuple[Schedule, int, int]] = []
    if hours.chosen is not None and hours.chosen <= hours.now:
        end = hours.chosen + HOUR
        span = (hours.chosen, end, end + LONGEST_LATE)
        recorded = read(
            lambda tx: tx.schedules.fired_between(
                *span, owner=owner, queues=queues, most=MOST_RECORDS, limit=MOST_ENTRIES
            )
        )
    return Records(known, quarters, oldest, recorded)


def put_together(hours: Hours, records: Sequence[Records]) -> Timetable:
    """Return the timetable of what one or several databases know; the past reaches as far as that of all of them."""
    known = [schedule for each in records for schedule in each.known]
    walk = Walk(hours.now, hours.end, hours.clock, hours.chosen)
    walk.go(known)
    oldest = max((each.oldest for each in records if each.oldest is not None), default=None)
    for fired in (quarter for each in records for quarter in each.quarters):
        if oldest is None or len(records) == 1 or fired.at >= oldest:
            count_past(walk.hours[hour_of(fired.at, hours.clock)], fired)
    return Timetable(
        since=hours.begin if oldest is None else max(hours.begin, oldest),
        until=walk.until,
        complete=walk.is_complete,
        past_complete=oldest is None,
        schedules=len(known),
        hours=dict(sorted(walk.hours.items())),
        piles=tuple(pile for pile in walk.minutes.most_common(MOST_PILES) if pile[1] >= PILE),
        entries=tuple(joined(walk.entries(), (row for each in records for row in each.chosen))),
    )


def hour_of(at: datetime, clock: tzinfo) -> datetime:
    """Return when the hour began in which an instant is, on a clock; zones may be a quarter of an hour apart."""
    there = at.astimezone(clock)
    return at - timedelta(minutes=there.minute, seconds=there.second, microseconds=there.microsecond)


def count_past(hour: Hour, fired: FiredQuarter) -> None:
    if fired.verdict == "ran":
        hour.ran += fired.count
    else:
        hour.missed += fired.count


def joined(ahead: Iterable[tuple[Schedule, int]], recorded: Iterable[tuple[Schedule, int, int]]) -> Iterator[Entry]:
    """Return the schedules of an hour, what came and what will come together, the busiest first."""
    found = {schedule.number: Entry(schedule, fires=count) for schedule, count in ahead}
    for schedule, ran, missed in recorded:
        before = found.get(schedule.number)
        found[schedule.number] = Entry(schedule, 0 if before is None else before.fires, ran, missed)
    order = sorted(found.values(), key=lambda each: (-(each.fires + each.ran + each.missed), each.schedule.key))
    yield from order[:MOST_ENTRIES]


class Walk:
    """A walk through the fires to come, in order, as far as the work allows."""

    def __init__(self, now: datetime, end: datetime, clock: tzinfo, chosen: datetime | None) -> None:
        self.now, self.until, self.chosen = now, end, chosen
        self.is_complete = True
        quarters = (now + count * QUARTER for count in range((end - now) // QUARTER + 2))
        self.begins = sorted({hour_of(each, clock) for each in quarters})  # of hours, also where clocks change
        self.hours: dict[datetime, Hour] = defaultdict(Hour)
        self.minutes: Counter[datetime] = Counter()
        self.groups: list[Group] = []
        self.in_hour: Counter[int] = Counter()  # fires of the chosen hour by group

    def go(self, known: Iterable[Schedule]) -> None:
        even: list[tuple[datetime, int]] = []
        coming: list[tuple[datetime, int]] = []
        for at, group in self._grouped(known):
            self.groups.append(group)
            (coming if group.period is None else even).append((at, len(self.groups) - 1))
        heapq.heapify(coming)
        for _ in range(MOST_COMPUTED):
            if not coming:
                break
            at, index = heapq.heappop(coming)
            self._count(max(at, self.now), index)
            again = self._again(index, max(at, self.now))
            if again is not None and again <= self.until:
                heapq.heappush(coming, (again, index))
        if coming:
            self.until, self.is_complete = coming[0][0], False
        self._count_even(even)

    def entries(self) -> Iterator[tuple[Schedule, int]]:
        """Yield the schedules that will fire in the chosen hour, and how often."""
        for index, count in self.in_hour.most_common():
            for schedule in self.groups[index].schedules:
                yield schedule, count

    def _grouped(self, known: Iterable[Schedule]) -> list[tuple[datetime, Group]]:
        """Return schedules by what decides when they fire, with the first fire of each."""
        groups: dict[object, tuple[datetime, Group]] = {}
        for each in known:
            at = first_of(each, self.now)
            if at is None or at > self.until:
                continue
            is_alone = each.kind == "every" or each.rests or each.max_fires is not None
            rule = (
                each.expression,
                each.zone,
                each.day_match,
                each.gap,
                each.fold,
                each.lenient,
                each.quiet_hours,
                each.calendar,
                each.calendar_rule,
            )
            same = each.number if is_alone else (at, each.kind, each.starts_at, each.ends_at, *rule)
            groups.setdefault(same, (at, Group(period=even_period(each))))[1].schedules.append(each)
        return list(groups.values())

    def _count(self, at: datetime, index: int) -> None:
        hour = self.begins[bisect_right(self.begins, at) - 1]
        group = self.groups[index]
        group.fired += 1
        self.hours[hour].fires += len(group.schedules)
        self.minutes[at.replace(second=0, microsecond=0)] += len(group.schedules)
        if hour == self.chosen:
            self.in_hour[index] += 1

    def _count_even(self, even: Sequence[tuple[datetime, int]]) -> None:
        """Count what fires equally often in every hour: only its first hour and the last one differ."""
        begins = [*self.begins, self.until + HOUR]
        changes: Counter[int] = Counter()  # by how much the fires of a whole hour grow, by the index of the hour
        last = bisect_right(self.begins, self.until) - 1
        for at, index in even:
            group, start = self.groups[index], max(at, self.now)
            assert group.period is not None
            first = bisect_right(self.begins, start) - 1
            changes[first + 1] += (HOUR // group.period) * len(group.schedules)
            for edge in {first, last}:
                span = max(start, begins[edge]), min(begins[edge + 1], self.until)
                self.hours[begins[edge]].fires += _between(at, group.period, *span) * len(group.schedules)
            if self.chosen is not None and self.chosen + HOUR > start:
                self.in_hour[index] += _between(
                    at, group.period, max(start, self.chosen), min(self.chosen + HOUR, self.until)
                )
        level = 0
        for edge in range(last):
            level += changes[edge]
            if level:
                length = begins[edge + 1] - begins[edge]  # half an hour where clocks move by half an hour
                self.hours[begins[edge]].fires += int(level * (length / HOUR))

    def _again(self, index: int, at: datetime) -> datetime | None:
        group = self.groups[index]
        one = group.first
        if one.rests or (one.max_fires is not None and one.fire_count + group.fired >= one.max_fires):
            return None
        try:
            return next_fire(one, at)
        except InvalidInput:
            return None


def _between(first: datetime, period: timedelta, begin: datetime, end: datetime) -> int:
    """Return how many fires there are from one instant until before another."""
    return max(0, _before(first, period, end) - _before(first, period, begin))


def _before(first: datetime, period: timedelta, at: datetime) -> int:
    """Return how many fires there are before an instant."""
    return max(0, -((first - at) // period))
