"""Phrases in Simplified Chinese. Nothing is decided here: see :mod:`horae.core.schedules.words`.

"每隔" is avoided throughout: readers disagree whether 每隔两天 means every second or every third day. A weekday is 周一
everywhere, and minutes are read off the clock: 05分.
"""

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
    Sentence,
    Steps,
    Time,
    Weekdays,
    clock_time,
    is_one,
    spread,
)

WEEKDAYS = "日一二三四五六日"
NTH = "〇一二三四五"
RUN = "{}至{}"
WORKDAY = "工作日（周一至周五）"


def cron(sentence: Sentence) -> str:
    time, dates = _time(sentence.time), _dates(sentence.dates)
    if not dates and sentence.time.is_daily:
        dates = "每天"
    return f"{dates}{' ' if dates else ''}{time}（{sentence.zone}）"


def every(period: timedelta, after_finish: bool, initial_delay: timedelta) -> str:
    text = f"每次运行结束{length(period)}后" if after_finish else f"每{length(period, bare_one=True)}"
    return text + (f"，首次在{length(initial_delay)}后" if initial_delay else "")


def once(at: datetime, zone: str) -> str:
    return f"仅一次：{at.year}年{at.month}月{at.day}日 {at:%H:%M:%S}（{zone}）"


def _time(time: Time) -> str:
    match time:
        case AtTimes(times):
            return _join([clock_time(h * 3600 + m * 60 + s) for h, m, s in times])
        case Rhythm():
            return _rhythm(time)
        case OnClock(seconds, minutes, hours):
            texts = [_hours(hours) + ("" if hours == EVERY else "的"), _numbers(minutes, "分", "每分钟")]
            return "".join(texts if seconds is None else [*texts, "的", _numbers(seconds, "秒", "每秒")])


def _rhythm(time: Rhythm) -> str:
    text = "每" + length(timedelta(seconds=time.step), bare_one=True)
    if not time.whole_day:
        return f"{clock_time(time.first)}至{clock_time(time.last)}{text}"
    if time.first == 0:
        return text
    if time.step > 3600:
        return f"从{clock_time(time.first)}起{text}"
    minute, second = divmod(time.first, 60)
    hand = f"每分钟第{second}秒" if time.step <= 60 else f"每小时{minute:02}分" + (f"{second:02}秒" if second else "")
    return hand if time.step in (60, 3600) else f"{hand}起{text}"


def _hours(choice: Choice) -> str:
    if choice == EVERY:
        return "每小时"
    if isinstance(choice[0], Steps):
        return f"{choice[0].first}点至{choice[0].last}点每{choice[0].step}小时"
    return _join(spread(choice, lambda hour: f"{hour}点", RUN))


def _numbers(choice: Choice, unit: str, each: str) -> str:
    if choice == EVERY:
        return each
    if isinstance(choice[0], Steps):
        steps = choice[0]
        return f"{steps.first:02}{unit}至{steps.last:02}{unit}{each.replace('每', f'每{steps.step}')}"
    return _join(spread(choice, lambda value: f"{value:02}{unit}", RUN))


def _dates(dates: Dates) -> str:
    days, weekdays, months = dates.days, dates.weekdays, _months(dates.months)
    if days is not None and weekdays is not None:
        if dates.joined == "and" and days.is_single:
            return f"{_of_months(dates.months)}{_days(days)}（若为{_condition(weekdays, '或')}）"
        if dates.joined == "and":
            return f"{_of_months(dates.months)}{_days(days)}中的{_condition(weekdays, '和')}"
        within = f"每年{months}内，" if months else "每月"
        return f"{within}{_days(days)}以及{_weekdays(weekdays, '' if months else '每月')}"
    if days is not None:
        return f"{_of_months(dates.months)}{_days(days)}"
    if weekdays is not None:
        return (f"每年{months}的" if months else "") + _weekdays(weekdays, "" if months else "每月")
    return f"每年{months}的每一天" if months else ""


def _of_months(choice: Choice) -> str:
    """Return what stands before a day: 每月15日, 每年2月29日, 每年1月和7月的15日."""
    if choice == EVERY:
        return "每月"
    return f"每年{_months(choice)}" + ("" if is_one(choice) else "的")


def _months(choice: Choice) -> str:
    if choice and isinstance(choice[0], Steps):
        return f"{choice[0].first}月至{choice[0].last}月每{choice[0].step}个月"
    return _join(spread(choice, lambda month: f"{month}月", RUN))


def _days(days: Days) -> str:
    if days.days and isinstance(days.days[0], Steps):
        steps = days.days[0]
        texts = [f"{steps.first}日至{steps.last}日每{steps.step}天"]
    else:
        texts = spread(days.days, lambda day: f"{day}日", RUN)
    texts += [f"倒数第{number + 1}天" for number in days.before_last]
    texts += ["最后一天"] if days.last else []
    texts += [f"最后一个{WORKDAY}"] if days.last_workday else []
    texts += [f"离{day}日最近的{WORKDAY}" for day in days.workdays_nearest]
    return _join(texts)


def _weekdays(weekdays: Weekdays, each_month: str) -> str:
    plain = spread(weekdays.weekdays, lambda day: f"周{WEEKDAYS[day]}", RUN)
    texts = [f"每{_join(plain)}"] if plain else []
    ordinals = _join(_ordinals(weekdays, ""))
    return "以及".join(texts + ([each_month + ordinals] if ordinals else []))


def _condition(weekdays: Weekdays, last: str) -> str:
    plain = spread(weekdays.weekdays, lambda day: f"周{WEEKDAYS[day]}", RUN)
    return _join(plain + _ordinals(weekdays, "当月"), last)


def _ordinals(weekdays: Weekdays, of_month: str) -> list[str]:
    ordinals = [f"{of_month}第{NTH[number]}个周{WEEKDAYS[day]}" for day, number in weekdays.nth]
    return ordinals + [f"{of_month}最后一个周{WEEKDAYS[day]}" for day in weekdays.last]


def _join(texts: Sequence[str], last: str = "和") -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{'、'.join(texts[:-1])}{last}{texts[-1]}"


def length(span: timedelta, *, bare_one: bool = False) -> str:
    """Return a duration in its largest units: 1小时30分钟."""
    total = span // timedelta(milliseconds=1)
    texts = []
    for unit, size in (("天", 86_400_000), ("小时", 3_600_000), ("分钟", 60_000), ("秒", 1000)):
        count, total = divmod(total, size)
        texts += [f"{count}{unit}"] if count else []
    texts += [f"{total}毫秒"] if total else []
    return texts[0].removeprefix("1") if bare_one and len(texts) == 1 and texts[0][:2] in _ONES else "".join(texts)


_ONES = ("1天", "1小", "1分", "1秒")
