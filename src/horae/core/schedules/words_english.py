"""Phrases in English. Nothing is decided here: see :mod:`horae.core.schedules.words`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from horae.core.schedules.phrases import (
    EVERY,
    AtTimes,
    Choice,
    Dates,
    Days,
    OnClock,
    Rhythm,
    Run,
    Sentence,
    Steps,
    Time,
    Values,
    Weekdays,
    clock_time,
    is_one,
    spread,
)

MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NTH = ("", "first", "second", "third", "fourth", "fifth")
RUN = "{} to {}"
WORKDAY = "working day (Monday to Friday)"


def cron(sentence: Sentence) -> str:
    time, dates = _time(sentence.time), _dates(sentence.dates)
    if not dates and sentence.time.is_daily:
        dates = "every day"
    close = isinstance(sentence.time, AtTimes) and dates.startswith(("on", "every day"))
    text = time + ("" if not dates else " " if close else ", ") + dates
    return f"{text[0].upper()}{text[1:]} ({sentence.zone})"


def every(period: timedelta, after_finish: bool, initial_delay: timedelta) -> str:
    text = f"{length(period)} after each run has ended" if after_finish else f"Every {length(period, bare_one=True)}"
    text += f", first after {length(initial_delay)}" if initial_delay else ""
    return text[0].upper() + text[1:]


def once(at: datetime, zone: str) -> str:
    return f"Once, on {at.day} {MONTHS[at.month]} {at.year} at {at:%H:%M:%S} ({zone})"


def _time(time: Time) -> str:
    match time:
        case AtTimes(times):
            return "at " + _join([clock_time(h * 3600 + m * 60 + s) for h, m, s in times])
        case Rhythm():
            return _rhythm(time)
        case OnClock(seconds, minutes, hours):
            texts = [] if seconds is None else [_numbers(seconds, "second")]
            texts += [_numbers(minutes, "minute"), _numbers(hours, "hour")]
            return ("" if texts[0].startswith("every") else "at ") + " of ".join(texts)


def _rhythm(time: Rhythm) -> str:
    text = "every " + length(timedelta(seconds=time.step), bare_one=True)
    if not time.whole_day:
        return f"{text} from {clock_time(time.first)} to {clock_time(time.last)}"
    if time.first == 0:
        return text
    if time.step > 3600:
        return f"{text} from {clock_time(time.first)}"
    unit = "hour" if time.step > 60 else "minute"
    past = length(timedelta(seconds=time.first)) + " past"
    return f"at {past} every {unit}" if time.step in (60, 3600) else f"{text} from {past} the {unit}"


def _numbers(choice: Choice, unit: str) -> str:
    """Positions of one hand of the clock: "minutes 0, 5 and 10 to 20"."""
    if choice == EVERY:
        return f"every {unit}"
    if isinstance(choice[0], Steps):
        return f"every {choice[0].step} {unit}s from {unit} {choice[0].first} to {choice[0].last}"
    texts = spread(choice, str, RUN)
    return f"{unit}{'s' if len(texts) > 1 or not isinstance(choice[0], Values) else ''} {_join(texts)}"


def _dates(dates: Dates) -> str:
    days, weekdays, months = dates.days, dates.weekdays, _months(dates.months)
    if days is not None and weekdays is not None:
        if dates.joined == "and":
            return _both(days, weekdays, f" of {months}" if months else "")
        of = "" if months else " of every month"
        return f"on {_days(days)}{of} and {_weekdays(weekdays, every=True)}" + (f", in {months}" if months else "")
    if days is not None and days.is_single and days.numbers and is_one(dates.months):
        return f"on {days.numbers[0]} {months}"
    if days is not None:
        return f"on {_days(days)} of {_each_month(dates.months)}"
    if weekdays is not None:
        return _weekdays(weekdays) + (f", in {months}" if months else "")
    return f"every day in {months}" if months else ""


def _each_month(choice: Choice) -> str:
    """Return months behind a day: "every month from March to May", "January and July"."""
    is_run = len(choice) == 1 and isinstance(choice[0], Run)
    return f"every month from {_months(choice)}" if is_run else _months(choice) or "every month"


def _both(days: Days, weekdays: Weekdays, of: str) -> str:
    """Say days that must be days of the week too, as one says them: if it is, whichever is, but only on."""
    if days.is_single:
        of = of or (" of the month" if days.has_marks else "")
        return f"on {_days(days)}{of}, if it is {_condition(weekdays)}"
    if days.is_within_a_week and weekdays.is_single:
        return f"on {_days(days, 'or')}{of}, whichever is {_condition(weekdays)}"
    return f"on {_days(days)}{of or ' of every month'}, but only {_weekdays(weekdays)}"


def _months(choice: Choice) -> str:
    if choice and isinstance(choice[0], Steps):
        steps = choice[0]
        return f"every {_ordinal(steps.step)} month from {MONTHS[steps.first]} to {MONTHS[steps.last]}"
    return _join(spread(choice, MONTHS.__getitem__, RUN))


def _days(days: Days, last: str = "and") -> str:
    if days.days and isinstance(days.days[0], Steps):
        steps = days.days[0]
        texts = [f"every {_ordinal(steps.step)} day from the {_ordinal(steps.first)} to the {_ordinal(steps.last)}"]
    else:
        texts = spread(days.days, lambda day: f"the {_ordinal(day)}", RUN)
    texts += [
        f"the {_ordinal(number) + ' ' if number > 1 else ''}day before the last day" for number in days.before_last
    ]
    texts += ["the last day"] if days.last else []
    texts += [f"the last {WORKDAY}"] if days.last_workday else []
    texts += [f"the {WORKDAY} nearest the {_ordinal(day)}" for day in days.workdays_nearest]
    return _join(texts, last)


def _weekdays(weekdays: Weekdays, *, every: bool = False) -> str:
    """Return weekdays as "on Mondays", "Monday to Friday"; with *every*, beside other days, "on every Monday"."""
    texts = []
    for part in weekdays.weekdays:
        match part:
            case Values(values):
                days = [f"every {WEEKDAYS[day]}" if every else WEEKDAYS[day] + "s" for day in values]
                texts.append("on " + _join(days))
            case Run(first, last) | Steps(first, last):
                texts.append(f"{'every ' if every else ''}{WEEKDAYS[first]} to {WEEKDAYS[last]}")
    return _join(texts + [f"on {ordinal}" for ordinal in _ordinals(weekdays)])


def _condition(weekdays: Weekdays) -> str:
    texts = spread(weekdays.weekdays, lambda day: f"a {WEEKDAYS[day]}", RUN)
    texts = [text.replace(" to a ", " to ") if " to " in text else text for text in texts]
    return _join(texts + _ordinals(weekdays), "or")


def _ordinals(weekdays: Weekdays) -> list[str]:
    ordinals = [f"the {NTH[number]} {WEEKDAYS[day]} of the month" for day, number in weekdays.nth]
    return ordinals + [f"the last {WEEKDAYS[day]} of the month" for day in weekdays.last]


def _join(texts: Sequence[str], last: str = "and") -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def length(span: timedelta, *, bare_one: bool = False) -> str:
    """Return a duration in its largest units: "1 hour and 30 minutes"."""
    total = span // timedelta(milliseconds=1)
    texts = []
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        count, total = divmod(total, size)
        texts += [f"{count} {unit}{'' if count == 1 else 's'}"] if count else []
    texts += [f"{total} milliseconds"] if total else []
    text = _join(texts)
    return text.removeprefix("1 ") if bare_one and len(texts) == 1 and text.startswith("1 ") else text


def _ordinal(number: int) -> str:
    ending = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
