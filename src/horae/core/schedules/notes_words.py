"""Notes in English and Chinese. Nothing is decided here: see :mod:`horae.core.schedules.notes`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from horae.core.schedules.notes import Change, Effect, Note
from horae.core.schedules.words import length
from horae.core.schedules.words_english import MONTHS
from horae.errors import InvalidInput
from horae.words.languages import Language

LISTED = 4  # more times than this are described by the first, the last and their number

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "day_and_weekday": "Day {day} and weekday {weekday} must both match. Many other crons fire when one of them "
        'does; day_match="or" means that.',
        "star_and": "Day {day} with weekday {weekday} means both, as in Debian's cron; some others fire when one of "
        'them matches, and day_match="or" means that.',
        "day_or_weekday": "It fires on day {day} and also on every weekday {weekday}; one of the two suffices.",
        "absent_days": "No fire in {months}: day {day} does not exist there.",
        "leap_days": "No fire in February, except in leap years.",
        "seconds_first": "Six fields: the first, {second}, is the second. Some other crons put it last.",
        "sunday_is_zero": "Weekday {weekday}: Sunday is 0 here; in Quartz it is 1.",
        "uneven_minute": "{text} begins anew each hour: minute {last} is followed by {first} after {rest} minutes, "
        "not {step}. An interval keeps an even pace.",
        "uneven_hour": "{text} begins anew each day: {last}:00 is followed by 0:00 after {rest} hours, not {step}. An "
        "interval keeps an even pace.",
        "uneven_day": "{text} begins anew each month: the last of its days is followed by the 1st, however few days "
        "lie between.",
        "uneven_month": "{text} begins anew each year: month {last} is followed by {first} after {rest} months, not "
        "{step}.",
        "uneven_weekday": "{text} begins anew each week: weekday {last} is followed by {first} (Sunday) the day after.",
        "each_minute": "It fires in every minute of hour {hour}: {count:,} times a day. For once an hour, write a "
        "number as the minute.",
        "often": "It fires {count:,} times a day.",
        "rare": "It is rare: the next fire is {days:,} days away.",
        "never": "It has no fire before the year 10000: the clocks of its zone never show that time.",
        "gap": "{before} → {instead} ({at}): clocks go forward by {size}, {low} to {high} does not exist.",
        "fold": "{before} → {instead} ({at}): clocks go back by {size}, {low} to {high} comes twice.",
        "moved": "{times} fires at {moved} instead ({fires}).",
        "moved_many": "{times} fire together, once, at {moved} ({fires}).",
        "merged": "{times} falls together with {moved}; one fire ({fires}).",
        "merged_many": "{times} fall together with {moved}; one fire ({fires}).",
        "skipped": "{times} does not fire on that day.",
        "skipped_many": "{times} do not fire on that day.",
        "once": "{times} fires once, the first time ({fires}).",
        "once_many": "{times} fire once each, the first time.",
        "doubled": "{times} fires twice ({fires}).",
        "doubled_many": "{times} fire twice each.",
        "even": "Untouched: after {before} comes {after}, {between} later as always.",
        "uneven": "{times} is left out: after {before} comes {after}, {between} later.",
        "uneven_many": "{times} are left out: after {before} comes {after}, {between} later.",
        "shifted": "The interval stays the same; its fires read {size} {direction} on the wall from then on.",
        "later": "later",
        "earlier": "earlier",
        "untouched": "Untouched: no fire falls into it.",
        "before_change": "It fires before that, at {times} ({fires}).",
        "after_change": "It fires after that, when clocks show {times} ({fires}).",
        "first_pass": "{times} comes twice; it fires the first time ({fires}).",
        "second_pass": "{times} comes twice; it fires the second time ({fires}).",
        "interval": "Untouched: an interval counts elapsed time, and its fires read as before.",
        "quiet": "The clocks of {zone} do not change within the next {months} months.",
    },
    "zh": {
        "day_and_weekday": "日字段（{day}）与周字段（{weekday}）须同时满足；许多其他 cron 只要满足其一就触发，"
        'day_match="or" 即为此意。',
        "star_and": "日字段 {day} 与周字段 {weekday} 表示两者同时满足，与 Debian 的 cron 相同；"
        '有些 cron 只要满足其一就触发，day_match="or" 即为此意。',
        "day_or_weekday": "日字段（{day}）与周字段（{weekday}）满足其一即触发。",
        "absent_days": "{months}没有 {day} 日，不会触发。",
        "leap_days": "2月只有闰年才会触发。",
        "seconds_first": "共六个字段：第一个（{second}）是秒；有些 cron 把秒放在最后。",
        "sunday_is_zero": "周字段 {weekday}：这里周日为 0；在 Quartz 中为 1。",
        "uneven_minute": "{text} 每小时重新开始：{last:02}分之后 {rest} 分钟就到 {first:02}分，"
        "而不是 {step} 分钟。需要均匀节奏请用时间间隔。",
        "uneven_hour": "{text} 每天重新开始：{last}:00 之后 {rest} 小时就到 0:00，而不是 {step} 小时。"
        "需要均匀节奏请用时间间隔。",
        "uneven_day": "{text} 每月重新开始：最后一个匹配日之后就是次月1日，不论相距几天。",
        "uneven_month": "{text} 每年重新开始：{last}月之后 {rest} 个月就到{first}月，而不是 {step} 个月。",
        "uneven_weekday": "{text} 每周重新开始：周字段 {last} 的次日就是 {first}（周日）。",
        "each_minute": "在 {hour} 点的每一分钟都会触发：每天 {count:,} 次。若每小时只需一次，请把分钟写成一个数字。",
        "often": "每天触发 {count:,} 次。",
        "rare": "很少触发：下一次在 {days:,} 天之后。",
        "never": "公元 10000 年之前不会触发：该时区的时钟从不显示这一时间。",
        "gap": "{before} → {instead}（{at}）：时钟拨快{size}，{low} 至 {high} 不存在。",
        "fold": "{before} → {instead}（{at}）：时钟拨慢{size}，{low} 至 {high} 出现两次。",
        "moved": "{times} 改在 {moved} 触发（{fires}）。",
        "moved_many": "{times} 合并，在 {moved} 触发一次（{fires}）。",
        "merged": "{times} 与 {moved} 合并，触发一次（{fires}）。",
        "merged_many": "{times} 与 {moved} 合并，触发一次（{fires}）。",
        "skipped": "当天 {times} 不触发。",
        "skipped_many": "当天 {times} 不触发。",
        "once": "{times} 只在第一次出现时触发（{fires}）。",
        "once_many": "{times} 各只在第一次出现时触发。",
        "doubled": "{times} 触发两次（{fires}）。",
        "doubled_many": "{times} 各触发两次。",
        "even": "不受影响：{before} 之后是 {after}，照常相隔{between}。",
        "uneven": "略过 {times}：{before} 之后是 {after}，相隔{between}。",
        "uneven_many": "略过 {times}：{before} 之后是 {after}，相隔{between}。",
        "shifted": "间隔不变；此后墙上时钟显示的触发时间{direction}{size}。",
        "later": "晚",
        "earlier": "早",
        "untouched": "不受影响：其间没有触发。",
        "before_change": "在此之前触发：{times}（{fires}）。",
        "after_change": "在此之后触发：届时时钟显示 {times}（{fires}）。",
        "first_pass": "{times} 出现两次；在第一次触发（{fires}）。",
        "second_pass": "{times} 出现两次；在第二次触发（{fires}）。",
        "interval": "不受影响：间隔按实际经过的时间计算，显示的触发时间不变。",
        "quiet": "{zone} 的时钟在未来 {months} 个月内不调整。",
    },
}


def say(note: Note, language: Language = "en") -> str:
    """Return a note as a sentence."""
    values = dict(note.values)
    if "months" in values and not isinstance(values["months"], int):
        values["months"] = _join([_month(month, language) for month in values["months"]], language)
    return _text(note.code, language, **values)


def say_change(change: Change, language: Language = "en") -> str:
    """Return what the clocks do: ``2027-03-28 02:00 → 03:00 …``."""
    low, high = change.readings
    return _text(
        change.kind,
        language,
        before=_reading(change.at + change.before, None),
        instead=_reading(change.at + change.after, (change.at + change.before).date()),
        at=_utc(change.at),
        size=length(change.size, language),
        low=_reading(low, low.date()),
        high=_end(high, low.date()),
    )


def say_effect(effect: Effect, language: Language = "en") -> str:
    """Return what becomes of the fires."""
    change, outcome = effect.change, effect.outcome
    day = change.readings[0].date()
    many = "_many" if len(effect.readings) > 1 else ""
    values: dict[str, Any] = {"times": _times(effect.readings, day, language), "fires": _fires(effect.fires, language)}
    if outcome in ("moved", "merged"):
        values["moved"] = _reading(change.readings[1], day)
    elif outcome in ("even", "uneven"):
        before, after = effect.fires
        values |= {"before": _reading(before + change.before, day), "after": _reading(after + change.after, day)}
        values["between"] = length(after - before, language)
        many = "" if outcome == "even" else many
    elif outcome == "shifted":
        direction = _text("later" if change.kind == "gap" else "earlier", language)
        values |= {"size": length(change.size, language), "direction": direction}
        many = ""
    elif outcome == "untouched":
        return _text("interval" if effect.fires else "untouched", language)
    return _text(outcome + many, language, **values)


def _text(code: str, language: str, **values: Any) -> str:
    if language not in TEXTS:
        raise InvalidInput("language_unknown", language=language)
    return TEXTS[language][code].format(**values)


def _times(readings: Sequence[datetime], day: date, language: str) -> str:
    texts = [_reading(reading, day) for reading in readings]
    if len(texts) <= LISTED:
        return _join(texts, language)
    return f"{texts[0]}{'、' if language == 'zh' else ', '}{texts[1]} … {texts[-1]} ({len(texts):,})"


def _fires(fires: Sequence[datetime], language: str) -> str:
    return _join([_utc(fire) for fire in fires[:LISTED]], language)


def _join(texts: Sequence[str], language: str) -> str:
    if language == "zh":
        return "、".join(texts)
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else ""


def _month(month: int, language: str) -> str:
    return f"{month}月" if language == "zh" else MONTHS[month]


def _reading(reading: datetime, day: date | None) -> str:
    """Return what a wall clock shows; the date only where it differs from *day*."""
    clock = f"{reading:%H:%M:%S}" if reading.second else f"{reading:%H:%M}"
    return clock if reading.date() == day else f"{reading:%Y-%m-%d} {clock}"


def _end(reading: datetime, day: date) -> str:
    """Return the end of a stretch of readings; a midnight belongs to the day that it ends."""
    at_midnight = reading.time() == time(0) and reading.date() == day + timedelta(days=1)
    return "24:00" if at_midnight else _reading(reading, day)


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
