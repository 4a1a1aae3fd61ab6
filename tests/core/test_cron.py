"""The dialect, by example."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horae.core.time.cron import Cron
from horae.errors import HoraeError, InvalidCron, InvalidInput, NeverFires, UnknownZone
from tests.core.cron_oracle import at, fires
from tests.support.cases import cases
from tests.support.refusals import refused


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2030-01-01 00:00:00", "2030-01-01 00:01"),
        ("* * * * *", "2030-01-01 00:00:59.999999", "2030-01-01 00:01"),
        ("*/15 * * * *", "2030-01-01 00:46", "2030-01-01 01:00"),
        ("5-59/15 * * * *", "2030-01-01 00:20", "2030-01-01 00:35"),
        ("0 9 * * 1-5", "2030-01-04 09:00", "2030-01-07 09:00"),
        ("0 0 * * 0", "2030-01-01 00:00", "2030-01-06 00:00"),
        ("59 23 31 12 *", "2030-12-31 23:59", "2031-12-31 23:59"),
        ("0 0 1 1 *", "2030-12-31 23:59:59", "2031-01-01 00:00"),
        ("0 0 29 2 *", "2024-02-29 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),  # 2100 is no leap year
        ("0 0 29 2 1", "2044-02-29 00:00", "2072-02-29 00:00"),
        ("0 0 29 2 1", "2072-02-29 00:00", "2112-02-29 00:00"),  # forty years, the longest wait there is
        ("0 9 15 * 1", "2030-01-01 00:00", "2030-04-15 09:00"),
        ("0 0 31 * *", "2030-01-31 00:00", "2030-03-31 00:00"),
        ("0 0 31 2,4,5 *", "2030-01-01 00:00", "2030-05-31 00:00"),
        ("1,2,3 0 * * *", "2030-01-01 00:02", "2030-01-01 00:03"),
        ("05 07 * * *", "2030-01-01 00:00", "2030-01-01 07:05"),
        ("*/20 * * * * *", "2030-01-01 00:00:40", "2030-01-01 00:01"),
        ("30 0 9 * * *", "2030-01-01 09:00:29.5", "2030-01-01 09:00:30"),
        ("59 59 23 31 12 *", "2030-12-31 23:59:58", "2030-12-31 23:59:59"),
    ],
)
def test_the_next_fire_is(expression: str, after: str, expected: str) -> None:
    assert fires(Cron(expression), after, 1) == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 * JAN MON", "2030-01-07 00:00"),
        ("0 0 * * 7", "2030-01-06 00:00"),
        ("0 0 * * sat-sun", "2030-01-05 00:00"),
        ("0 0 * * 5-7", "2030-01-04 00:00"),
        ("50/5 * * * *", "2030-01-01 00:50"),
        ("@daily", "2030-01-02 00:00"),
        ("@Midnight", "2030-01-02 00:00"),
        ("@hourly", "2030-01-01 01:00"),
        ("@weekly", "2030-01-06 00:00"),
        ("@monthly", "2030-02-01 00:00"),
        ("@yearly", "2031-01-01 00:00"),
        ("@annually", "2031-01-01 00:00"),
        ("0 0 ? * 3", "2030-01-02 00:00"),
        ("0 0 L * ?", "2030-01-31 00:00"),
        ("0 0 L 2 *", "2030-02-28 00:00"),
        ("0 0 LW 3 *", "2030-03-29 00:00"),  # 31 March 2030 is a Sunday
        ("0 0 5W 1 *", "2030-01-04 00:00"),  # the 5th is a Saturday
        ("0 0 6W 1 *", "2030-01-07 00:00"),  # the 6th is a Sunday
        ("0 0 1W 6 *", "2030-06-03 00:00"),  # 1 June is a Saturday: not back into May
        ("0 0 31W 3 *", "2030-03-29 00:00"),  # not on into April
        ("0 0 * * 5L", "2030-01-25 00:00"),
        ("0 0 * * FRI#2", "2030-01-11 00:00"),
        ("0 0 * * 7#1", "2030-01-06 00:00"),
        ("0 0 10,L * *", "2030-01-10 00:00"),
        ("0 0 * 2 MON#5", "2044-02-29 00:00"),
        ("0 0 L-3 * *", "2030-01-28 00:00"),
        ("0 0 l-1,L 2 *", "2030-02-27 00:00"),
        ("0 0 L-29 2-3 *", "2030-03-02 00:00"),  # a month that is too short is left out
        ("0 0 * * FRI-MON", "2030-01-04 00:00"),
        ("0 0 * * 6-2", "2030-01-05 00:00"),
        ("0 0 * * 7-2", "2030-01-06 00:00"),
        ("0 0 * NOV-FEB 3", "2030-01-02 00:00"),
        ("0 22-2 * * *", "2030-01-01 01:00"),
        ("0 22-4/3 1 * *", "2030-01-01 01:00"),  # 22, 1, 4
        ("50-10/10 3 * * *", "2030-01-01 03:00"),
        ("0 0 28-3 * *", "2030-01-02 00:00"),
    ],
)
def test_the_lenient_dialect_reads(expression: str, expected: str) -> None:
    assert fires(Cron(expression, lenient=True), "2030-01-01 00:00", 1) == [expected]


def test_day_and_weekday_must_both_match_unless_or_is_asked_for() -> None:
    assert fires(Cron("0 0 15 * 1"), "2030-01-01", 2) == ["2030-04-15 00:00", "2030-07-15 00:00"]
    assert fires(Cron("0 0 15 * 1", day_match="or"), "2030-01-08", 2) == ["2030-01-14 00:00", "2030-01-15 00:00"]


def test_or_leaves_the_decision_to_the_other_field_when_one_is_a_star() -> None:
    assert fires(Cron("0 0 * * 1", day_match="or"), "2030-01-01", 1) == ["2030-01-07 00:00"]
    assert fires(Cron("0 0 15 * *", day_match="or"), "2030-01-01", 1) == ["2030-01-15 00:00"]


@pytest.mark.parametrize(
    ("days", "weekdays", "expected"),
    [
        ("*,15", "1", ["2030-01-07 00:00", "2030-01-14 00:00"]),
        ("15,*", "1", ["2030-01-07 00:00", "2030-01-14 00:00"]),
        ("15,*/1", "1", ["2030-01-07 00:00", "2030-01-14 00:00"]),
        ("15", "*,1", ["2030-01-15 00:00", "2030-02-15 00:00"]),
        ("15", "1,*", ["2030-01-15 00:00", "2030-02-15 00:00"]),
        ("1-31", "1", ["2030-01-02 00:00", "2030-01-03 00:00"]),
        ("20-31,1-19", "1", ["2030-01-02 00:00", "2030-01-03 00:00"]),
        ("15", "0-6", ["2030-01-02 00:00", "2030-01-03 00:00"]),
    ],
)
def test_or_does_not_depend_on_the_order_of_a_list(days: str, weekdays: str, expected: list[str]) -> None:
    assert fires(Cron(f"0 0 {days} * {weekdays}", day_match="or"), "2030-01-01", 2) == expected


def test_whether_it_is_a_rhythm_does_not_depend_on_the_order_of_a_list() -> None:
    assert not Cron("5,*/30 2 * * *").parsed.fixed_time
    assert not Cron("*/30,5 2 * * *").parsed.fixed_time


def test_a_step_counts_as_a_restriction_for_or() -> None:
    assert fires(Cron("0 0 */10 * 1", day_match="or"), "2030-01-01", 3) == [
        "2030-01-07 00:00",
        "2030-01-11 00:00",
        "2030-01-14 00:00",
    ]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "field", "position", "found"),
    [
        ("60 * * * *", "minute", 1, "60"),
        ("* 24 * * *", "hour", 3, "24"),
        ("* * 0 * *", "day", 5, "0"),
        ("* * 32 * *", "day", 5, "32"),
        ("* * * 13 *", "month", 7, "13"),
        ("* * * * 7", "weekday", 9, "7"),
        ("* * * * MON", "weekday", 9, "MON"),
        ("* * * JAN-MAR *", "month", 7, "JAN"),
        ("  5   x * * *", "hour", 7, "x"),
        ("1,,3 * * * *", "minute", 3, "nothing"),
        ("1,2, * * * *", "minute", 5, "nothing"),
        ("10-5 * * * *", "minute", 1, "10-5"),
        ("0-99 * * * *", "minute", 3, "99"),
        ("*/0 * * * *", "minute", 3, "0"),
        ("*/60 * * * *", "minute", 3, "60"),
        ("* */24 * * *", "hour", 5, "24"),
        ("5/15 * * * *", "minute", 2, "5/15"),
        ("0 0 1,5/2 * *", "day", 8, "5/2"),
        ("-5 * * * *", "minute", 1, "-5"),
        ("+5 * * * *", "minute", 1, "+5"),
        ("1.5 * * * *", "minute", 2, "1.5"),
        ("５ * * * *", "minute", 1, "５"),
        ("** * * * *", "minute", 2, "**"),
        ("*/*/2 * * * *", "minute", 3, "*/*/2"),
        ("1-2-3 * * * *", "minute", 4, "1-2-3"),
        ("99999999999 * * * *", "minute", 1, "99999999999"),
        ("* * L * *", "day", 5, "L"),
        ("* * ? * *", "day", 5, "?"),
        ("* * 15W * *", "day", 7, "15W"),
        ("* * * * 5L", "weekday", 10, "5L"),
        ("* * * * 1#2", "weekday", 10, "1#2"),
        ("60 * * * * *", "second", 1, "60"),
        ("@daily", "expression", 1, '"@daily"'),
        ("* * * *", "expression", 8, "4 fields"),
        ("* * * * * * *", "expression", 13, "7 fields"),
        ("", "expression", 1, "nothing"),
        (" \t ", "expression", 1, "nothing"),
        ("* " * 600, "expression", 1, "1200 characters"),
    ],
)
def test_strict_text_is_refused_with_field_and_position(expression: str, field: str, position: int, found: str) -> None:
    with pytest.raises(InvalidCron) as refusal:
        Cron(expression)

    assert (refusal.value.field, refusal.value.position, refusal.value.found) == (field, position, found)
    assert field in str(refusal.value)
    assert str(position) in str(refusal.value)


@pytest.mark.parametrize(
    ("expression", "position"),
    [
        ("@reboot", 1),
        ("@daily *", 1),
        ("0 0 * * 8", 9),
        ("0 0 * * MON#6", 13),
        ("0 0 * * L", 9),
        ("0 0 32W * *", 5),
        ("0 0 L-0 * *", 7),
        ("0 0 L-31 * *", 7),
        ("0 0 L- * *", 7),
        ("0 0 L-3W * *", 7),
        ("0 0 1,? * *", 7),
        ("? 0 * * *", 1),
        ("L 0 * * *", 1),
        ("0 0 * * 1-5L", 9),
        ("0 0 * FOO *", 7),
        ("H * * * *", 1),
        ("0 0 * * 1-5#2", 9),
    ],
)
def test_lenient_does_not_mean_guessing(expression: str, position: int) -> None:
    with pytest.raises(InvalidCron) as refusal:
        Cron(expression, lenient=True)

    assert refusal.value.position == position


@pytest.mark.parametrize(
    ("expression", "character", "hint"),
    [
        ("H 3 * * *", "'H'", 'give "H" to a schedule'),
        ("H(0-29)/10 3 * * *", "'H'", 'give "H" to a schedule'),
        ("@every 5m", "'@'", "Pass every='5m' instead of cron"),
        ("@reboot", "'@'", "enqueue the job where your application starts"),
        ("@daily", "'@'", 'Write "0 0 * * *", or pass lenient=True'),
        ("CRON_TZ=Europe/Berlin 0 9 * * *", "'C'", 'pass zone="Europe/Berlin"'),
        ("TZ=UTC 0 9 * * *", "'T'", 'pass zone="UTC"'),
        ("MAILTO=me 0 9 * * *", "'M'", "no variables"),
        ("0 9 * * MONDAY", "'M'", "Write 1, or MON with lenient=True."),
        ("0 9 * * Thurs", "'T'", "Write 4, or THU with lenient=True."),
        ("0 9 * september *", "'s'", "Write 9, or SEP with lenient=True."),
        ("0 9 * * MON", "'M'", "Write 1, or pass lenient=True to allow names."),
        ("0 9 * * 7", "'7'", "Sunday is 0; pass lenient=True"),
        ("0 24 * * *", "'2'", "Midnight is hour 0."),
        ("60 9 * * *", "'6'", "The full hour is minute 0."),
        ("0 9 0 * *", "'0'", "The first day is 1."),
        ("9:30 * * * *", "':'", 'Write a time of day as minute and hour: "30 9 * * *".'),
        ("1.5 * * * *", "'.'", ""),
        ("0 9 * * 1 2027", "'2'", "A year field is not known"),
        ("0 9 * * 1-5 * 2027", "'2'", "A year field is not known"),
        ("5m", "end of text", "Pass every='5m' instead of cron"),
        ("0 9 * *", "end of text", "Give minute, hour, day, month and weekday"),
        ("0 9 L-3 * *", "'L'", "Pass lenient=True to allow ?, L, W and #."),
        ("0 9 * * 5-1", "'5'", "write 5-6,0-1, or pass lenient=True"),
        ("0 9 * * 5-", "end of text", ""),
    ],
)
def test_a_refusal_names_the_character_and_hints_at_the_answer(expression: str, character: str, hint: str) -> None:
    with refused(InvalidCron, "cron_unreadable") as refusal:
        Cron(expression)

    assert refusal.value.facts["character"] == character
    assert f"at position {refusal.value.position} ({character})" in str(refusal.value)
    assert hint in refusal.value.advice
    assert refusal.value.in_words("zh")


@settings(max_examples=cases(300))
@given(st.one_of(st.text(), st.text("0123456789*/,-?LW#@ MONJAF", min_size=5)), st.booleans())
def test_any_text_is_read_or_refused_and_nothing_else(expression: str, lenient: bool) -> None:
    try:
        cron = Cron(expression, lenient=lenient)
    except InvalidCron as refusal:
        assert 1 <= refusal.position <= len(expression) + 1  # noqa: PT017  only some texts are refused
    else:
        assert cron == Cron(cron.expression, lenient=lenient)
        assert cron.describe("en")
        assert cron.describe("zh")


@pytest.mark.parametrize("zone", ["\0", "\ud800", "a" * 5000, "Europe/Berlin\n", "zone.tab"])
def test_a_hostile_zone_name_is_refused_like_any_other(zone: str) -> None:
    with pytest.raises(UnknownZone):
        Cron("* * * * *", zone)


def test_a_refusal_is_a_value_error_of_our_family_and_says_what_to_do() -> None:
    with refused(InvalidCron, "cron_unreadable") as refusal:
        Cron("5/15 * * * *")

    assert "5-59/15" in refusal.value.advice
    assert issubclass(InvalidCron, HoraeError)
    assert issubclass(InvalidCron, ValueError)
    assert refusal.value.code == "invalid_cron"
    assert refusal.value.allowed.startswith("0-59")


@pytest.mark.parametrize(
    ("expression", "lenient"),
    [
        ("0 0 30 2 *", False),
        ("0 0 31 4,6 *", False),
        ("0 0 30,31 2 1", False),
        ("0 0 31 2,4,6,9,11 *", False),
        ("0 0 LW * 6", True),
        ("0 0 15W * 0,6", True),
        ("0 0 31W 4 *", True),
        ("0 0 1-7 * 1#2", True),
        ("0 0 1-21 * 5L", True),
        ("0 0 30,31 2 1#5", True),
    ],
)
def test_a_date_that_no_year_has_is_refused(expression: str, lenient: bool) -> None:
    with refused(NeverFires, "cron_unreadable") as refusal:
        Cron(expression, lenient=lenient)

    assert refusal.value.field == "day"
    assert refusal.value.position == 5


def test_or_saves_an_impossible_date_by_its_weekday() -> None:
    assert fires(Cron("0 0 30 2 1", day_match="or"), "2030-01-01", 1) == ["2030-02-04 00:00"]


@pytest.mark.parametrize(
    "zone",
    ["Mars/Olympus", "", "europe/berlin!", "Europe", "../etc/passwd", "/etc/localtime", "localtime", "right/UTC",
     "posix/Europe/Berlin", "posixrules", "Factory", "europe/berlin", "EUROPE/BERLIN", "tzdata.zi", "Europe/Berlin/"],
)  # fmt: skip
def test_an_unknown_zone_is_an_error_and_never_utc(zone: str) -> None:
    with refused(UnknownZone, "zone_unknown", name=zone):
        Cron("* * * * *", zone)


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "US/Eastern"])
def test_a_zone_of_the_list_is_known(zone: str) -> None:
    assert Cron("* * * * *", zone).zone == zone


@pytest.mark.parametrize("option", ["day_match", "gap", "fold"])
def test_an_unknown_option_is_refused_by_name(option: str) -> None:
    with refused(InvalidInput, "choice_unknown", name=option, value="perhaps"):
        Cron("* * * * *", **{option: "perhaps"})  # type: ignore[arg-type]


def test_a_naive_instant_is_refused() -> None:
    with refused(InvalidInput, "zone_missing"):
        Cron("* * * * *").next_after(datetime(2030, 1, 1))  # noqa: DTZ001  the point of the test


# --- values -----------------------------------------------------------------------------------------------------------


def test_equal_schedules_are_equal_values() -> None:
    one, same = Cron("0  9 * * 1-5", "Europe/Berlin"), Cron("0 9 * * 1-5", "Europe/Berlin")

    assert one == same
    assert hash(one) == hash(same)
    assert one != Cron("0 9 * * 1-5")
    assert one != Cron("0 9 * * 1-5", "Europe/Berlin", fold="both")
    assert repr(one).startswith("Cron(expression='0 9 * * 1-5', zone='Europe/Berlin'")


def test_a_schedule_travels_to_another_process() -> None:
    cron = Cron("0 9 L * *", "Europe/Berlin", lenient=True)

    arrived = pickle.loads(pickle.dumps(cron))

    assert arrived == cron
    assert arrived.next_after(at("2030-01-01")) == cron.next_after(at("2030-01-01"))


def test_a_schedule_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Cron("* * * * *").zone = "Europe/Berlin"  # type: ignore[misc]


def test_an_instant_may_come_in_any_zone_and_the_answer_is_utc() -> None:
    instant = datetime(2030, 1, 1, 10, tzinfo=timezone(timedelta(hours=8)))

    assert Cron("0 9 * * *", "Asia/Shanghai").next_after(instant) == at("2030-01-02 01:00")


def test_a_range_is_lazy_open_at_the_start_and_closed_at_the_end() -> None:
    cron = Cron("0 * * * *")

    assert list(cron.between(at("2030-01-01 01:00"), at("2030-01-01 03:00"))) == [
        at("2030-01-01 02:00"),
        at("2030-01-01 03:00"),
    ]
    assert list(cron.between(at("2030-01-01 03:00"), at("2030-01-01 01:00"))) == []
    assert len(list(islice(cron.between(at("2030-01-01"), at("9999-01-01")), 3))) == 3


# --- the ends of the calendar -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York"])
@pytest.mark.parametrize("expression", ["* * * * *", "0 0 1 1 *", "59 23 31 12 *", "0 0 29 2 1"])
def test_after_the_last_fire_of_the_calendar_there_is_none(zone: str, expression: str) -> None:
    cron = Cron(expression, zone)

    assert cron.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert cron.next_after(at("9999-12-31 23:59")) is None
    assert len(list(cron.between(at("9999-12-31 20:00"), datetime.max.replace(tzinfo=UTC)))) <= 240


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_the_first_instants_of_the_calendar_have_a_next_fire(zone: str) -> None:
    start = datetime.min.replace(tzinfo=UTC)

    fire = Cron("0 0 1 1 *", zone).next_after(start)

    assert fire is not None
    assert start < fire < at("0003-01-01")


def test_a_time_that_its_zone_always_skips_ends_in_none_and_not_in_a_hang() -> None:
    always_lost = Cron("0 0 * 4 5L", "Africa/Cairo", gap="skip", lenient=True)  # the night the clocks go forward

    assert always_lost.next_after(at("2025-01-01")) is None
