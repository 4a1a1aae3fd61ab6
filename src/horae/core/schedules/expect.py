"""What is expected of a schedule: ``within 10m`` of being due, ``by 06:00``, or ``every 1d``; of a job the first two.

The one reader of expectations: code, HTTP, the command line and ``jobs.conf`` all read them here. They are stored as
text in one form. When each deadline is, and whether it was met, is decided in
:mod:`horae.core.schedules.expectations`, for a single job in :mod:`horae.core.jobs.expectations`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache

from horae.core.dataclass import dataclass
from horae.core.jobs.retry import LONGEST
from horae.core.time.instants import aware, from_iso, iso
from horae.core.time.spans import Span, span, span_from
from horae.core.time.zones import zone_named
from horae.errors import InvalidInput
from horae.words.languages import Language

SHORTEST = timedelta(seconds=1)
LONGEST_TEXT = 120
_FORM = re.compile(r"(within|by|every)\s+(\S+)(?:\s+(\S+))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]")
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


@dataclass(frozen=True, slots=True)
class Expect:
    """An expectation: a run has succeeded *within* a span of being due, *by* a time of day, or *every* so often.

    A time of day is read in *zone*, or in that of the schedule; for a job in UTC. Of a job *by* may also be an instant.
    """

    within: Span | None = None
    by: str | datetime | None = None
    every: Span | None = None
    zone: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("within", "by", "every") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidInput("expect_not_one", given=given)
        if self.by is None:
            if self.zone is not None:
                raise InvalidInput("expect_zone_unused", name=given[0])
            length = span(getattr(self, given[0]))
            if not SHORTEST <= length <= LONGEST:
                raise InvalidInput(
                    "expect_span_outside", name=given[0], value=length.total_seconds(), most_days=LONGEST.days
                )  # fmt: skip
            object.__setattr__(self, given[0], length)
            return
        if isinstance(self.by, datetime) or (isinstance(self.by, str) and _DATE.match(self.by)):
            if self.zone is not None:
                raise InvalidInput("expect_zone_unused", name="an instant")
            moment = aware(self.by, "expect") if isinstance(self.by, datetime) else from_iso(self.by)
            object.__setattr__(self, "by", iso(moment))
            return
        match = _TIME.fullmatch(self.by) if isinstance(self.by, str) else None
        if match is None:
            raise InvalidInput("expect_time_unreadable", text=str(self.by))
        object.__setattr__(self, "by", f"{int(match[1]):02}:{match[2]}")
        if self.zone is not None:
            zone_named(self.zone)

    def __str__(self) -> str:
        if self.by is not None:
            return f"by {self.by}" + (f" {self.zone}" if self.zone else "")
        return f"within {_text(self.within)}" if self.within is not None else f"every {_text(self.every)}"

    @property
    def instant(self) -> datetime | None:
        """The instant by which it must have succeeded; None for a span and for a time of day."""
        return from_iso(self.by) if isinstance(self.by, str) and _DATE.match(self.by) else None

    @property
    def length(self) -> timedelta | None:
        """Its span; None for a time of day."""
        given = self.within if self.every is None else self.every
        return None if given is None else span(given)

    def describe(self, language: Language = "en", zone: str = "UTC") -> str:
        """Return it in words; *zone* is that of the schedule."""
        if language == "zh":
            from horae.core.schedules.words_chinese import length
        else:
            from horae.core.schedules.words_english import length
        said = {"span": "" if self.length is None else length(self.length), "by": self.by, "zone": self.zone or zone}
        kind = "by" if self.by is not None else "within" if self.within is not None else "every"
        return (_CHINESE if language == "zh" else _ENGLISH)[kind].format(**said)


_ENGLISH = {
    "within": "a run has succeeded within {span} of being due",
    "by": "a run has succeeded by {by} ({zone}) on each day that it is due",
    "every": "a run has succeeded at least every {span}",
}
_CHINESE = {
    "within": "到期后{span}内应有一次成功的运行",
    "by": "在到期的每一天，{by}（{zone}）之前应有一次成功的运行",
    "every": "至少每{span}应有一次成功的运行",
}


def expect_text(value: Expect | str | None) -> str | None:
    """Return an expectation as it is stored; refuse what cannot be read."""
    if value is None:
        return None
    return str(value if isinstance(value, Expect) else read_expect(value))


def check_expect(text: str | None, kind: str, mode: str) -> None:
    """Refuse an expectation that a schedule of this kind and mode cannot have."""
    if text is None:
        return
    expect = read_expect(text)
    if expect.instant is not None:
        raise InvalidInput("expect_instant_on_schedule", expect=text)
    if mode == "ALL_NODES":
        raise InvalidInput("expect_on_all_nodes")
    if kind == "after" and expect.within is not None:
        raise InvalidInput("expect_without_times", expect=text)


@lru_cache(maxsize=4096)
def read_expect(text: str) -> Expect:
    """Read ``within 10m``, ``by 06:00``, ``by 06:00 Europe/Berlin`` or ``every 1d``."""
    if not isinstance(text, str):
        raise InvalidInput("type_wrong", name="expect", value=repr(text), expected="text or an Expect")
    words = " ".join(text.split())[:LONGEST_TEXT]
    match = _FORM.fullmatch(words)
    if match is None:
        raise _unreadable(words)
    kind, value, zone = match.groups()
    if kind == "by":
        return Expect(by=value, zone=zone)
    if zone is not None:
        raise InvalidInput("expect_zone_unused", name=kind)
    length = span_from(value, "expectation")
    return Expect(within=length) if kind == "within" else Expect(every=length)


def _unreadable(text: str) -> InvalidInput:
    if _TIME.fullmatch(text):
        return InvalidInput("expect_bare_time", text=text)
    try:
        span_from(text)
    except InvalidInput:
        return InvalidInput("expect_unreadable", text=text)
    return InvalidInput("expect_bare_span", text=text)


def _text(value: Span | None) -> str:
    """Return a span in its shortest form, such as 1h30m."""
    left, text = span(value or 0) // timedelta(milliseconds=1), ""
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text
