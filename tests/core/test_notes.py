"""What changes of clocks do to a schedule, and what is easily misread: found by the engine, given in two languages."""

import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.schedules.notes import Effect, Note, changes, effects, warnings
from horae.core.schedules.notes_words import TEXTS, say, say_change, say_effect
from horae.core.schedules.rules import Cron, Every, Once, Rule
from horae.errors import InvalidInput
from tests.support.cases import cases
from tests.support.refusals import refused

NOVEMBER = datetime(2026, 11, 15, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def in_spring(rule: Rule, zone: str = "Europe/Berlin") -> Effect:
    return next(effect for effect in effects(rule, zone, NOVEMBER) if effect.change.kind == "gap")


def in_autumn(rule: Rule, zone: str = "Europe/Berlin") -> Effect:
    return next(effect for effect in effects(rule, zone, NOVEMBER) if effect.change.kind == "fold")


def berlin(expression: str, **options: object) -> Cron:
    return Cron(expression, "Europe/Berlin", **options)  # type: ignore[arg-type]


def codes(expression: str, **options: object) -> list[str]:
    return [note.code for note in warnings(Cron(expression, **options), NOVEMBER)]  # type: ignore[arg-type]


# -- the changes -------------------------------------------------------------------------------------------------


def test_a_zone_tells_its_next_gap_and_fold() -> None:
    gap, fold = changes("Europe/Berlin", NOVEMBER, NOVEMBER + timedelta(days=396))

    assert (gap.kind, gap.at) == ("gap", datetime(2027, 3, 28, 1, tzinfo=UTC))
    assert (fold.kind, fold.at) == ("fold", datetime(2027, 10, 31, 1, tzinfo=UTC))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "Asia/Kolkata"])
def test_a_zone_without_changes_tells_none(zone: str) -> None:
    assert changes(zone, NOVEMBER, NOVEMBER + timedelta(days=396)) == []


def test_a_year_end_is_no_change() -> None:
    new_year = datetime(2027, 1, 1, tzinfo=UTC)

    assert changes("Pacific/Auckland", new_year - timedelta(days=9), new_year + timedelta(days=9)) == []


# -- in a gap ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "outcome", "said"),
    [
        (berlin("30 2 * * *"), "moved", "02:30 fires at 03:00 instead (2027-03-28 01:00:00Z)."),
        (berlin("0,30 2 * * *"), "moved", "02:00 and 02:30 fire together, once, at 03:00 (2027-03-28 01:00:00Z)."),
        (berlin("0 2,3 * * *"), "merged", "02:00 falls together with 03:00; one fire (2027-03-28 01:00:00Z)."),
        (berlin("30 2 * * *", gap="skip"), "skipped", "02:30 does not fire on that day."),
        (berlin("0 2,3 * * *", gap="skip"), "skipped", "02:00 does not fire on that day."),
        (berlin("30 2 * * 1"), "untouched", "Untouched: no fire falls into it."),
        (berlin("0 9 * * *"), "untouched", "Untouched: no fire falls into it."),
        (berlin("*/30 * * * *"), "even", "Untouched: after 01:30 comes 03:00, 30 minutes later as always."),
        (berlin("0,45 * * * *"), "even", "Untouched: after 01:45 comes 03:00, 15 minutes later as always."),
        (berlin("30 */2 * * *"), "uneven", "02:30 is left out: after 00:30 comes 04:30, 3 hours later."),
        (berlin("*/30 2 28 3 *"), "skipped", "02:00 and 02:30 do not fire on that day."),
    ],
    ids=str,
)
def test_what_a_gap_does_is_told_exactly(rule: Cron, outcome: str, said: str) -> None:
    effect = in_spring(rule)

    assert effect.outcome == outcome
    assert say_effect(effect) == said


def test_a_gap_at_midnight_moves_midnight() -> None:
    effect = in_spring(Cron("0 0 * * *", "Africa/Cairo"), "Africa/Cairo")

    assert effect.fires == (datetime(2027, 4, 29, 22, tzinfo=UTC),)


def test_a_missing_day_moves_its_fires_to_the_next() -> None:
    rule = Cron("0 9 * * *", "Pacific/Apia")
    (effect,) = effects(rule, "Pacific/Apia", datetime(2011, 12, 1, tzinfo=UTC), timedelta(days=31))

    assert effect.outcome == "moved"
    assert say_effect(effect) == "09:00 fires at 2011-12-31 00:00 instead (2011-12-30 10:00:00Z)."


# -- in a fold ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "outcome", "said"),
    [
        (berlin("30 2 * * *"), "once", "02:30 fires once, the first time (2027-10-31 00:30:00Z)."),
        (
            berlin("30 2 * * *", fold="both"),
            "doubled",
            "02:30 fires twice (2027-10-31 00:30:00Z and 2027-10-31 01:30:00Z).",
        ),
        (berlin("0,30 2 * * *"), "once", "02:00 and 02:30 fire once each, the first time."),
        (berlin("*/30 * * * *"), "doubled", "02:00 and 02:30 fire twice each."),
        (berlin("*/5 * * * *"), "doubled", "02:00, 02:05 … 02:55 (12) fire twice each."),
        (berlin("0 3 * * *"), "untouched", "Untouched: no fire falls into it."),
    ],
    ids=str,
)
def test_what_a_fold_does_is_told_exactly(rule: Cron, outcome: str, said: str) -> None:
    effect = in_autumn(rule)

    assert effect.outcome == outcome
    assert say_effect(effect) == said


def test_a_change_is_told_with_both_readings_and_the_instant() -> None:
    assert say_change(in_spring(berlin("0 9 * * *")).change) == (
        "2027-03-28 02:00 → 03:00 (2027-03-28 01:00:00Z): clocks go forward by 1 hour, 02:00 to 03:00 does not exist."
    )
    assert say_change(in_autumn(Cron("0 9 * * *", "Asia/Beirut"), "Asia/Beirut").change, "zh") == (
        "2027-10-31 00:00 → 2027-10-30 23:00（2027-10-30 21:00:00Z）：时钟拨慢1小时，23:00 至 24:00 出现两次。"
    )


ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo", "America/St_Johns", "Asia/Beirut")


@given(
    st.sampled_from(ZONES),
    st.sampled_from(["30", "0", "15,45", "0-59/20", "*/20", "*"]),
    st.sampled_from(["2", "1-3", "0", "*", "*/2", "23"]),
    st.sampled_from(["after", "skip"]),
    st.sampled_from(["first", "both"]),
)
@settings(max_examples=cases(150), deadline=None)
def test_what_is_told_is_what_the_engine_does(zone: str, minute: str, hour: str, gap: str, fold: str) -> None:
    rule = Cron(f"{minute} {hour} * * *", zone, gap=gap, fold=fold)  # type: ignore[arg-type]
    for effect in effects(rule, zone, NOVEMBER):
        change, count = effect.change, len(effect.readings)
        around = list(rule.between(change.at - change.size - TICK, change.at + change.size - TICK))
        at_once = change.at in around
        match effect.outcome:
            case "moved" | "merged":
                assert at_once
                assert effect.fires == (change.at,)
            case "skipped":
                regular = Cron(f"{minute} {hour} * * *").next_after(change.readings[1] - TICK) == change.readings[1]
                assert at_once == regular
            case "once":
                assert len(around) == count
            case "doubled":
                assert len(around) == 2 * count
            case "even" | "uneven":
                before, after = effect.fires
                assert before < change.at <= after
                assert list(rule.between(before, after)) == [after]
            case _:
                assert count == 0
        assert say_effect(effect, "en")
        assert say_effect(effect, "zh")


# -- intervals and single instants --------------------------------------------------------------------------------


def test_an_interval_that_fits_into_the_change_reads_as_before() -> None:
    assert say_effect(in_spring(Every(900))) == (
        "Untouched: an interval counts elapsed time, and its fires read as before."
    )


def test_a_daily_interval_reads_an_hour_later_after_spring_and_earlier_after_autumn() -> None:
    assert "1 hour later" in say_effect(in_spring(Every(86_400)))
    assert "早1小时" in say_effect(in_autumn(Every(86_400)), "zh")


@pytest.mark.parametrize(
    ("zone", "start", "at", "answers"),
    [
        (
            "Europe/Berlin", "2026-11-15 00:00", "2027-06-03 00:00",
            ["It fires after that, when clocks show 2027-06-03 02:00 (2027-06-03 00:00:00Z).",
             "It fires before that, at 2027-06-03 02:00 (2027-06-03 00:00:00Z)."],
        ),
        (
            "Europe/Berlin", "2027-10-01 00:00", "2027-10-31 00:30",
            ["02:30 comes twice; it fires the first time (2027-10-31 00:30:00Z).",
             "It fires before that, at 2027-10-31 01:30 (2027-10-31 00:30:00Z)."],
        ),
        (
            "Europe/Berlin", "2027-10-01 00:00", "2027-10-31 01:30",
            ["02:30 comes twice; it fires the second time (2027-10-31 01:30:00Z)."],
        ),
        (  # further away than thirteen months: also the change that its own day has
            "Europe/Berlin", "2027-11-01 00:00", "2029-03-25 02:00",
            ["It fires after that", "It fires after that", "It fires after that, when clocks show 04:00"],
        ),
        (  # Dhaka went back an hour as 2009 ended: the last hour of the year came twice
            "Asia/Dhaka", "2009-12-01 00:00", "2009-12-31 16:30",
            ["23:30 comes twice; it fires the first time (2009-12-31 16:30:00Z)."],
        ),
        (
            "Asia/Dhaka", "2009-12-01 00:00", "2009-12-31 17:30",
            ["23:30 comes twice; it fires the second time (2009-12-31 17:30:00Z)."],
        ),
        (
            "Asia/Dhaka", "2009-12-01 00:00", "2010-01-01 03:00",
            ["It fires after that, when clocks show 2010-01-01 09:00 (2010-01-01 03:00:00Z)."],
        ),
        ("Asia/Shanghai", "2026-12-31 00:00", "2027-01-01 00:00", []),
    ],
)  # fmt: skip
def test_a_single_instant_tells_what_clocks_do_around_it(zone: str, start: str, at: str, answers: list[str]) -> None:
    once = Once(datetime.fromisoformat(at).replace(tzinfo=UTC))
    found = effects(once, zone, datetime.fromisoformat(start).replace(tzinfo=UTC))

    said = [say_effect(effect) for effect in found]
    assert len(said) >= len(answers)
    assert all(text.startswith(answer) for text, answer in zip(said, answers, strict=False))
    assert (said == []) == (answers == [])
    assert all(say_effect(effect, "zh") for effect in found)
    assert warnings(once, NOVEMBER) == []


# -- what is easily misread ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "options", "answer"),
    [
        ("0 9 * * 1-5", {}, []),
        ("0 9 1 * *", {}, []),
        ("*/15 * * * *", {}, []),
        ("0 0 15 * 1", {}, ["day_and_weekday"]),
        ("0 0 15 * 1", {"day_match": "or"}, ["day_or_weekday"]),
        ("0 0 */2 * 1", {}, ["star_and", "uneven_day"]),
        ("*/7 * * * *", {}, ["uneven_minute"]),
        ("*/7 9 * * *", {}, []),
        ("0 */5 * * *", {}, ["uneven_hour"]),
        ("0 0 1 */5 *", {}, ["uneven_month"]),
        ("0 0 * * */2", {}, ["uneven_weekday"]),
        ("* 9 * * *", {}, ["each_minute"]),
        ("* * * * *", {}, ["often"]),
        ("0 0 31 * *", {}, ["absent_days"]),
        ("0 0 L * *", {"lenient": True}, []),
        ("0 0 29 * *", {}, ["leap_days"]),
        ("0 0 29 2 *", {}, ["leap_days", "rare"]),
        ("0 0 9 * * 1-5", {}, ["seconds_first", "sunday_is_zero"]),
        ("@daily", {"lenient": True}, []),
        ("30 2 28 3 0", {"zone": "Europe/Berlin", "gap": "skip"}, ["day_and_weekday", "never"]),
    ],
)
def test_what_is_easily_misread_is_noted(expression: str, options: dict[str, object], answer: list[str]) -> None:
    found = [code for code in codes(expression, **options) if code != "rare" or "rare" in answer]

    assert found == answer


def test_a_fast_interval_is_noted_and_a_slow_one_is_not() -> None:
    assert warnings(Every(10), NOVEMBER) == [Note("often", {"count": 8640})]
    assert warnings(Every(900), NOVEMBER) == []


def test_months_without_the_day_are_named() -> None:
    (note,) = warnings(Cron("0 0 31 1-6 *"), NOVEMBER)

    assert say(note) == "No fire in February, April and June: day 31 does not exist there."
    assert say(note, "zh") == "2月、4月、6月没有 31 日，不会触发。"


def test_the_months_told_as_absent_have_no_fire() -> None:
    rule = Cron("0 0 30 * *")
    (note,) = warnings(rule, NOVEMBER)
    fires = rule.between(NOVEMBER, NOVEMBER + timedelta(days=4 * 366))

    assert not {fire.month for fire in fires} & set(note.values["months"])


# -- languages ---------------------------------------------------------------------------------------------------


def test_both_languages_say_the_same_things_with_the_same_values() -> None:
    def values(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    assert TEXTS["en"].keys() == TEXTS["zh"].keys()
    assert [code for code in TEXTS["en"] if values(TEXTS["en"][code]) != values(TEXTS["zh"][code])] == []


def test_another_language_is_refused() -> None:
    with refused(InvalidInput, "language_unknown"):
        say(Note("never"), "fr")  # type: ignore[arg-type]
