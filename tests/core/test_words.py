"""Words say what the engine does.

Phrases are evaluated here, by a reader who knows only what each phrase means, and the times found are compared with
the fires of the engine. Texts are compared by example, and no two different schedules may share one.
"""

from __future__ import annotations

import calendar
import random
from datetime import UTC, datetime, timedelta

import pytest

from horae.core.schedules.phrases import (
    AtTimes,
    Choice,
    Days,
    OnClock,
    Rhythm,
    Run,
    Sentence,
    Steps,
    Time,
    Values,
    Weekdays,
)
from horae.core.schedules.rules import Every, Once
from horae.core.schedules.schedule import Schedule
from horae.core.schedules.words import sentence
from horae.core.time.calendars import Calendar
from horae.core.time.cron import Cron
from horae.errors import InvalidInput, NeverFires
from tests.core.cron_oracle import a_field, an_expression
from tests.support.cases import cases
from tests.support.refusals import refused


def holds(choice: Choice, value: int) -> bool:
    for part in choice:
        match part:
            case Values(values) if value in values:
                return True
            case Run(first, last) if first <= value <= last:
                return True
            case Steps(first, last, step) if value in range(first, last + 1, step):
                return True
    return False


def time_is_meant(time: Time, reading: datetime) -> bool:
    hour, minute, second = reading.hour, reading.minute, reading.second
    passed = hour * 3600 + minute * 60 + second
    match time:
        case AtTimes(times):
            return (hour, minute, second) in times
        case Rhythm(step, first, last, whole_day):
            return passed % step == first % step if whole_day else passed in range(first, last + 1, step)
        case OnClock(seconds, minutes, hours):
            return (
                (second == 0 if seconds is None else not seconds or holds(seconds, second))
                and (not minutes or holds(minutes, minute))
                and (not hours or holds(hours, hour))
            )


def day_is_meant(days: Days, reading: datetime) -> bool:
    first, length = calendar.monthrange(reading.year, reading.month)
    work = [day for day in range(1, length + 1) if (first + day - 1) % 7 < 5]
    return (
        holds(days.days, reading.day)
        or (days.last and reading.day == length)
        or length - reading.day in days.before_last
        or (days.last_workday and reading.day == work[-1])
        or any(reading.day == min(work, key=lambda d: abs(d - n)) for n in days.workdays_nearest if n <= length)
    )


def weekday_is_meant(weekdays: Weekdays, reading: datetime) -> bool:
    weekday, nth = reading.isoweekday(), (reading.day + 6) // 7
    is_last = reading.day + 7 > calendar.monthrange(reading.year, reading.month)[1]
    return (
        holds(weekdays.weekdays, weekday)
        or (weekday % 7, nth) in weekdays.nth
        or (is_last and weekday % 7 in weekdays.last)
    )


def is_meant(said: Sentence, reading: datetime) -> bool:
    dates = said.dates
    if dates.months and not holds(dates.months, reading.month):
        return False
    fits = [day_is_meant(dates.days, reading)] if dates.days else []
    fits += [weekday_is_meant(dates.weekdays, reading)] if dates.weekdays else []
    dates_fit = any(fits) if dates.joined == "or" and fits else all(fits)
    return dates_fit and time_is_meant(said.time, reading)


def a_cron(dice: random.Random) -> Cron:
    while True:
        columns = an_expression(dice, seconds=dice.random() < 0.3, busy=0.6).split()
        if dice.random() < 0.3:
            columns[-3] = dice.choice(
                ["L", "LW", "15W", "1W,10", "L,3-9", "31W", "L-3", "L-1,L", "9,10", "1-7", "1-31", "28-3"]
            )
        if dice.random() < 0.3:
            columns[-1] = dice.choice(["5L", "1#2", "0#1,3", "2#5,1L", "5-7", "0-6", "5-1", "1"])
        if dice.random() < 0.2:
            columns[-5:-3] = [f"{dice.randrange(60)}", a_field(dice, 0, 23)]
        try:
            return Cron(" ".join(columns), day_match=dice.choice(["and", "or"]), lenient=True)
        except NeverFires:
            continue


def test_what_is_said_is_what_fires() -> None:
    dice = random.Random("words")
    for _ in range(cases(700)):
        cron = a_cron(dice)
        said = sentence(cron.parsed, cron.day_match, "UTC")
        fire = datetime(dice.randint(2020, 2040), dice.randint(1, 12), dice.randint(1, 28), tzinfo=UTC)
        for _ in range(12):
            following = cron.next_after(fire)
            assert following is not None
            assert is_meant(said, following), (cron, said, following)
            fire = following
        for _ in range(150):
            reading = fire + timedelta(seconds=dice.randrange(-86_400 * 40, 86_400 * 40))
            reading = reading.replace(second=dice.choice([0, 0, reading.second]))
            fires = cron.next_after(reading - timedelta(microseconds=1)) == reading
            assert fires == is_meant(said, reading), (cron, said, reading)


def days_of(cron: Cron) -> list[int]:
    """Return which days match, for every shape that a month can have: its length and its first weekday."""
    days = Calendar(cron.parsed, cron.day_match)
    return [days.days(year, month) for year in range(2000, 2028) for month in (1, 2, 4)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_different_schedules_are_said_differently(language: str) -> None:
    dice = random.Random("different")
    answer: dict[str, object] = {}
    for _ in range(cases(3000)):
        cron = a_cron(dice)
        meaning = (*cron.parsed[:3], cron.parsed.months, *days_of(cron))
        assert answer.setdefault(cron.describe(language), meaning) == meaning, cron  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "english", "chinese"),
    [
        ("* * * * *", "Every minute", "每分钟"),
        ("*/15 * * * *", "Every 15 minutes", "每15分钟"),
        ("5-59/15 * * * *", "Every 15 minutes from 5 minutes past the hour", "每小时05分起每15分钟"),
        ("0 * * * *", "Every hour", "每小时"),
        ("5 * * * *", "At 5 minutes past every hour", "每小时05分"),
        ("0 */2 * * *", "Every 2 hours", "每2小时"),
        ("30 */2 * * *", "Every 2 hours from 00:30", "从00:30起每2小时"),
        ("0 */5 * * *", "Every 5 hours from 00:00 to 20:00, every day", "每天 00:00至20:00每5小时"),
        ("0 9 * * *", "At 09:00 every day", "每天 09:00"),
        ("0 9,12,18 * * *", "At 09:00, 12:00 and 18:00 every day", "每天 09:00、12:00和18:00"),
        ("*/15 9-17 * * *", "Every 15 minutes from 09:00 to 17:45, every day", "每天 09:00至17:45每15分钟"),
        ("*/7 * * * *", "Every 7 minutes from minute 0 to 56 of every hour", "每小时00分至56分每7分钟"),
        ("0 9 * * 1-5", "At 09:00, Monday to Friday", "每周一至周五 09:00"),
        ("0 9 * * 1,4", "At 09:00 on Mondays and Thursdays", "每周一和周四 09:00"),
        ("0 9 * 1,7 *", "At 09:00 every day in January and July", "每年1月和7月的每一天 09:00"),
        ("0 0 15 * *", "At 00:00 on the 15th of every month", "每月15日 00:00"),
        ("0 0 29 2 *", "At 00:00 on 29 February", "每年2月29日 00:00"),
        ("0 0 15 * 1", "At 00:00 on the 15th, if it is a Monday", "每月15日（若为周一） 00:00"),
        ("0 0 1 3-5 *", "At 00:00 on the 1st of every month from March to May", "每年3月至5月的1日 00:00"),
        ("*/10 * * * * *", "Every 10 seconds", "每10秒"),
        ("0,30 * * * * *", "Every 30 seconds", "每30秒"),
        ("30 * * * * *", "At 30 seconds past every minute", "每分钟第30秒"),
        ("15 30 9 * * *", "At 09:30:15 every day", "每天 09:30:15"),
        ("15 5 * * * *", "At 5 minutes and 15 seconds past every hour", "每小时05分15秒"),
        ("0 9 1-31 * *", "At 09:00 every day", "每天 09:00"),
        ("0 9 * 1-12 0-6", "At 09:00 every day", "每天 09:00"),
        ("0 9 20-31,1-19 3 *", "At 09:00 every day in March", "每年3月的每一天 09:00"),
        ("0 9 1 1,7 *", "At 09:00 on the 1st of January and July", "每年1月和7月的1日 09:00"),
        ("0 0 9,10 * 1", "At 00:00 on the 9th or the 10th, whichever is a Monday", "每月9日和10日中的周一 00:00"),
        ("0 0 1-7 * 1", "At 00:00 on the 1st to the 7th, whichever is a Monday", "每月1日至7日中的周一 00:00"),
        (
            "0 0 9,10 3 1",
            "At 00:00 on the 9th or the 10th of March, whichever is a Monday",
            "每年3月9日和10日中的周一 00:00",
        ),
        ("0 0 15 * 1,4", "At 00:00 on the 15th, if it is a Monday or a Thursday", "每月15日（若为周一或周四） 00:00"),
        (
            "0 0 1-15 * 1,5",
            "At 00:00 on the 1st to the 15th of every month, but only on Mondays and Fridays",
            "每月1日至15日中的周一和周五 00:00",
        ),
        (
            "5,17,33 9-17 * * *",
            "At minutes 5, 17 and 33 of hours 9 to 17, every day",
            "每天 9点至17点的05分、17分和33分",
        ),
    ],
)
def test_a_schedule_reads(expression: str, english: str, chinese: str) -> None:
    cron = Cron(expression, "Asia/Shanghai")

    assert cron.describe() == f"{english} (Asia/Shanghai)"
    assert cron.describe("zh") == f"{chinese}（Asia/Shanghai）"


@pytest.mark.parametrize(
    ("expression", "english", "chinese"),
    [
        (
            "0 0 15 * 1",
            "At 00:00 on the 15th of every month and on every Monday (UTC)",
            "每月15日以及每周一 00:00（UTC）",
        ),
        (
            "0 0 15 2 1",
            "At 00:00 on the 15th and on every Monday, in February (UTC)",
            "每年2月内，15日以及每周一 00:00（UTC）",
        ),
        ("0 0 1-31 * 1", "At 00:00 every day (UTC)", "每天 00:00（UTC）"),
        ("0 0 15 * 0-6", "At 00:00 every day (UTC)", "每天 00:00（UTC）"),
        (
            "0 0 L-3 * *",
            "At 00:00 on the 3rd day before the last day of every month (UTC)",
            "每月倒数第4天 00:00（UTC）",
        ),
        ("0 0 L-1 * *", "At 00:00 on the day before the last day of every month (UTC)", "每月倒数第2天 00:00（UTC）"),
        ("0 22-0 * * *", "At 00:00, 22:00 and 23:00 every day (UTC)", "每天 00:00、22:00和23:00（UTC）"),
        ("0 0 * * FRI-MON", "At 00:00 on Mondays and Friday to Sunday (UTC)", "每周一和周五至周日 00:00（UTC）"),
        ("0 0 L * *", "At 00:00 on the last day of every month (UTC)", "每月最后一天 00:00（UTC）"),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month (UTC)", "每月最后一个周五 00:00（UTC）"),
        ("0 0 * * 1#2", "At 00:00 on the second Monday of the month (UTC)", "每月第二个周一 00:00（UTC）"),
        (
            "0 0 15W * *",
            "At 00:00 on the working day (Monday to Friday) nearest the 15th of every month (UTC)",
            "每月离15日最近的工作日（周一至周五） 00:00（UTC）",
        ),
    ],
)
def test_or_and_the_marks_read(expression: str, english: str, chinese: str) -> None:
    cron = Cron(expression, day_match="or", lenient=True)

    assert (cron.describe("en"), cron.describe("zh")) == (english, chinese)


@pytest.mark.parametrize(
    ("every", "english", "chinese"),
    [
        (Every(1), "Every second", "每秒"),
        (Every(60), "Every minute", "每分钟"),
        (Every(90), "Every 1 minute and 30 seconds", "每1分钟30秒"),
        (Every(0.25), "Every 250 milliseconds", "每250毫秒"),
        (Every(86_400), "Every day", "每天"),
        (Every(300, anchor="finish"), "5 minutes after each run has ended", "每次运行结束5分钟后"),
        (Every(3600, initial_delay=10), "Every hour, first after 10 seconds", "每小时，首次在10秒后"),
    ],
)
def test_an_interval_reads(every: Every, english: str, chinese: str) -> None:
    assert (every.describe(), every.describe("zh")) == (english, chinese)


def test_an_instant_reads() -> None:
    once = Once(datetime(2030, 1, 7, 6, tzinfo=UTC))

    assert once.describe() == "Once, on 7 January 2030 at 06:00:00 (UTC)"
    assert once.describe("zh") == "仅一次：2030年1月7日 06:00:00（UTC）"


def test_the_instant_of_a_schedule_reads_on_the_clock_of_its_zone() -> None:
    schedule = Schedule("year-end", "report", "once", "2030-01-07T06:00:00Z", zone="Asia/Shanghai")

    assert schedule.describe() == "Once, on 7 January 2030 at 14:00:00 (Asia/Shanghai)"
    assert schedule.describe("zh") == "仅一次：2030年1月7日 14:00:00（Asia/Shanghai）"


def test_a_language_without_words_is_refused() -> None:
    with refused(InvalidInput, "language_unknown"):
        Cron("* * * * *").describe("tlh")  # type: ignore[arg-type]
