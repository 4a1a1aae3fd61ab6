"""A second opinion on cron: slow, simple, and written without a look at the engine; and the dice to try both with.

It walks real minutes (or seconds) one by one, asks zoneinfo what the wall clock shows, and compares with plain sets.
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from horae.core.time.cron import Cron

BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo",
    "Asia/Beirut", "Pacific/Chatham", "Asia/Kathmandu", "Africa/Casablanca", "Asia/Gaza", "America/Havana",
    "America/Asuncion", "Europe/Dublin", "America/Sao_Paulo", "America/St_Johns", "Asia/Tehran", "Asia/Shanghai",
    "Pacific/Apia", "Pacific/Kwajalein", "America/Caracas", "Asia/Pyongyang", "America/Scoresbysund",
)  # fmt: skip


def at(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(cron: Cron, after: str, count: int) -> list[str]:
    """What the engine says the next fires are, as short texts."""
    found: list[str] = []
    instant: datetime | None = at(after)
    while len(found) < count and instant is not None:
        instant = cron.next_after(instant)
        found.append("never" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}".removesuffix(":00"))
    return found


def members(text: str, low: int, high: int) -> set[int]:
    """What a strict field allows, spelled out."""
    allowed: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if body == "*" else body).partition("-")
        allowed.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return allowed


def day_matches(text: str, day: date) -> bool:
    """The day field, with L, LW and 15W."""
    length = calendar.monthrange(day.year, day.month)[1]
    workdays = [n for n in range(1, length + 1) if date(day.year, day.month, n).weekday() < 5]
    for item in text.split(","):
        if item == "L":
            hit = day.day == length
        elif item.startswith("L-"):
            hit = day.day == length - int(item[2:])
        elif item == "LW":
            hit = day.day == workdays[-1]
        elif item.endswith("W"):
            target = int(item[:-1])
            hit = target <= length and day.day == min(workdays, key=lambda n: abs(n - target))
        else:
            hit = item == "?" or day.day in members(item, 1, 31)
        if hit:
            return True
    return False


def weekday_matches(text: str, day: date) -> bool:
    """The weekday field, with 5L and 1#2."""
    length = calendar.monthrange(day.year, day.month)[1]
    weekday = day.isoweekday() % 7
    for item in text.split(","):
        if item.endswith("L"):
            hit = weekday == int(item[:-1]) and day.day + 7 > length
        elif "#" in item:
            wanted, nth = item.split("#")
            hit = weekday == int(wanted) and (day.day - 1) // 7 + 1 == int(nth)
        else:
            hit = item == "?" or weekday in members(item, 0, 6)
        if hit:
            return True
    return False


def date_matches(columns: list[str], day: date, day_match: str) -> bool:
    """The last three fields of an expression together."""
    days, months, weekdays = columns
    if day.month not in members(months, 1, 12):
        return False
    by_day, by_weekday = day_matches(days, day), weekday_matches(weekdays, day)
    restricted = not any({"*", "*/1", "?"} & set(text.split(",")) for text in (days, weekdays))
    return by_day or by_weekday if day_match == "or" and restricted else by_day and by_weekday


@dataclass
class Oracle:
    """Fires of an expression, found by walking."""

    expression: str
    zone: str
    day_match: str = "and"
    gap: str = "after"
    fold: str = "first"

    def __post_init__(self) -> None:
        columns = self.expression.split()
        self.unit = timedelta(seconds=1) if len(columns) == 6 else timedelta(minutes=1)
        columns = columns if len(columns) == 6 else ["0", *columns]
        self.seconds, self.minutes, self.hours = (
            members(text, *bounds) for text, bounds in zip(columns[:3], BOUNDS[:3], strict=True)
        )
        self.dates = columns[3:]
        self.fixed = not any(item.startswith("*") for text in columns[1:3] for item in text.split(","))
        self.known_days: dict[date, bool] = {}

    def matches(self, reading: datetime) -> bool:
        if reading.second not in self.seconds or reading.minute not in self.minutes or reading.hour not in self.hours:
            return False
        day = reading.date()
        if day not in self.known_days:
            self.known_days[day] = date_matches(self.dates, day, self.day_match)
        return self.known_days[day]

    def fires(self, start: datetime, end: datetime, memory: timedelta = timedelta(hours=4)) -> list[datetime]:
        """All fires after *start* up to *end*; watches the clock from earlier, to know a repetition when it comes."""
        zone = ZoneInfo(self.zone)
        instant = start - memory
        before = instant.astimezone(zone).replace(tzinfo=None)
        shown: set[datetime] = set()
        found = []
        while instant < end:
            instant += self.unit
            reading = instant.astimezone(zone).replace(tzinfo=None)
            fires = self.matches(reading) and not (self.fixed and self.fold == "first" and reading in shown)
            shown.add(reading)
            if reading > before + self.unit and self.fixed and self.gap == "after":
                fires = fires or any(self.matches(lost) for lost in self.readings(before + self.unit, reading))
            if fires and instant > start:
                found.append(instant)
            before = reading
        return found

    def readings(self, start: datetime, end: datetime) -> Iterator[datetime]:
        while start < end:
            yield start
            start += self.unit


def a_field(dice: random.Random, low: int, high: int) -> str:
    """A random strict field, restricted."""
    kind = dice.randrange(6)
    first = dice.randint(low, high)
    last = dice.randint(first, high)
    step = dice.randint(1, max(1, (high - low) // 2))
    if kind == 0:
        return f"*/{step}"
    if kind == 1:
        return f"{first}-{last}"
    if kind == 2:
        return f"{first}-{last}/{step}"
    if kind == 3:
        return ",".join(str(dice.randint(low, high)) for _ in range(dice.randint(2, 4)))
    if kind == 4:
        return f"{first},{first}-{last}/{step}"
    return str(first)


def an_expression(dice: random.Random, *, seconds: bool = False, busy: float = 0.8) -> str:
    """A random strict expression; date fields are left open with probability *busy*."""
    times = [a_field(dice, *bounds) if dice.random() < 0.7 else "*" for bounds in BOUNDS[1:3]]
    dates = ["*" if dice.random() < busy else a_field(dice, *bounds) for bounds in BOUNDS[3:]]
    front = [a_field(dice, 0, 59) if dice.random() < 0.7 else "*"] if seconds else []
    return " ".join([*front, *times, *dates])


def changes(zone: str, year: int) -> list[datetime]:
    """Hours of a year after which the offset of a zone is another one."""
    info = ZoneInfo(zone)
    day = datetime(year, 1, 1, tzinfo=UTC)
    found = []
    for _ in range(366):
        if day.astimezone(info).utcoffset() != (day + timedelta(days=1)).astimezone(info).utcoffset():
            found.append(day)
        day += timedelta(days=1)
    return found
