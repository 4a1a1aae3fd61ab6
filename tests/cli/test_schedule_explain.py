"""What a schedule means, explained without a database."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command

IN_NOVEMBER = ("--from", "2026-11-15T12:00:00Z")
BERLIN = ("--tz", "Europe/Berlin")


def test_explain_tells_words_fires_in_both_zones_and_changes_of_clocks(horae: Command) -> None:
    out = horae("schedule", "explain", "30 2 * * *", *BERLIN, *IN_NOVEMBER, "-n", "1").out.splitlines()

    assert out[0] == "At 02:30 every day (Europe/Berlin)"
    assert out[3].startswith("  2026-11-15 01:30:00Z  2026-11-15 02:30:00+01:00 Europe/Berlin  ")
    out = out[3:]
    assert out[3].startswith("  2026-11-16 01:30:00Z  2026-11-16 02:30:00+01:00 Europe/Berlin  ")
    assert out[6].startswith("  2027-03-28 02:00 → 03:00 (2027-03-28 01:00:00Z): clocks go forward by 1 hour")
    assert out[7:] == [
        "    02:30 fires at 03:00 instead (2027-03-28 01:00:00Z).",
        "  2027-10-31 03:00 → 02:00 (2027-10-31 01:00:00Z): clocks go back by 1 hour, 02:00 to 03:00 comes twice.",
        "    02:30 fires once, the first time (2027-10-31 00:30:00Z).",
    ]


def test_explain_in_chinese_is_chinese_throughout(horae: Command) -> None:
    out = horae("schedule", "explain", "0 0 15 * 1", *BERLIN, *IN_NOVEMBER, "--lang", "zh").out

    assert out.startswith("每月15日（若为周一） 00:00（Europe/Berlin）\n")
    for english in ("clocks", "fires", "must", " in ", "next"):
        assert english not in out
    assert "须同时满足" in out
    assert "时钟拨快1小时" in out


def test_the_policy_decides_what_is_told(horae: Command) -> None:
    out = horae("schedule", "explain", "30 2 * * *", *BERLIN, *IN_NOVEMBER, "--gap", "skip", "--fold", "both").out

    assert "02:30 does not fire on that day." in out
    assert "02:30 fires twice (2027-10-31 00:30:00Z and 2027-10-31 01:30:00Z)." in out


def test_a_zone_without_changes_is_told_to_have_none(horae: Command) -> None:
    out = horae("schedule", "explain", "0 9 * * 1-5", "--tz", "Asia/Shanghai").out

    assert "The clocks of Asia/Shanghai do not change within the next 13 months." in out
    assert "good to know" not in out


def test_a_dialect_that_others_read_differently_is_told(horae: Command) -> None:
    out = horae("schedule", "explain", "0 0 */2 * 1").out

    assert "Day */2 with weekday 1 means both" in out


def test_the_json_of_an_explanation_has_the_documented_fields(horae: Command) -> None:
    answer = horae("schedule", "explain", "30 2 * * 1", *BERLIN, *IN_NOVEMBER, "--json").json

    assert set(answer) == {
        "words", "language", "zone", "kind", "expression", "fixed_time", "day_match", "gap", "fold", "lenient",
        "previous", "next", "clocks", "warnings",
    }  # fmt: skip
    assert answer["next"][0] == {"at": "2026-11-16T01:30:00Z", "local": "2026-11-16T02:30:00+01:00"}
    assert answer["previous"] == {"at": "2026-11-09T01:30:00Z", "local": "2026-11-09T02:30:00+01:00"}
    assert set(answer["clocks"][0]) == {
        "at", "kind", "offset_before", "offset_after", "outcome", "readings", "reading_count", "fires", "change",
        "effect",
    }  # fmt: skip
    assert [each["outcome"] for each in answer["clocks"]] == ["untouched", "untouched"]


def test_the_fires_told_are_those_that_preview_tells_of_the_stored_one(horae: Command) -> None:
    rare = "0 9 29 2 *"  # so that none passes between the two commands
    answer = horae("schedule", "next", rare, "--tz", "Asia/Shanghai", "-n", "5", "--json").json
    horae("schedule", "add", "k", "--handler", "h", "--cron", rare, "--tz", "Asia/Shanghai")

    ahead = horae("schedule", "preview", "k", "-n", "5", "--json").json["fires"]
    assert ahead == [each["at"] for each in answer["next"]]


def test_next_prints_one_fire_on_each_line(horae: Command) -> None:
    out = horae("schedule", "next", "0 9 * * 1-5", "--tz", "Asia/Shanghai", "-n", "5", *IN_NOVEMBER).out.splitlines()

    assert len(out) == 5
    assert out[0].startswith("2026-11-16 01:00:00Z  2026-11-16 09:00:00+08:00 Asia/Shanghai  ")


def test_an_interval_begins_at_once(horae: Command) -> None:
    answer = horae("schedule", "explain", "15m", *IN_NOVEMBER, "-n", "2", "--json").json

    assert [fire["at"] for fire in answer["next"]] == ["2026-11-15T12:00:00Z", "2026-11-15T12:15:00Z"]
    assert (answer["kind"], answer["expression"], answer["words"]) == ("every", "900", "Every 15 minutes")


@pytest.mark.parametrize("when", ["15m", "* * * * *"])
def test_the_beginning_of_the_calendar_is_a_beginning_too(horae: Command, when: str) -> None:
    for verb in ("explain", "next"):
        answer = horae("schedule", verb, when, "--from", "0001-01-01T00:00Z", "-n", "1", "--json").json
        assert answer["next"][0]["at"].startswith("0001-01-01T00:")


def test_a_single_instant_says_which_of_two_readings_it_is(horae: Command) -> None:
    instant = horae("schedule", "explain", "2027-10-31T02:30", *BERLIN, *IN_NOVEMBER)

    assert "02:30 comes twice; it fires the first time (2027-10-31 00:30:00Z)." in instant.out
    assert "do not change" not in instant.out


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("@every 5m", "Give --every 5m instead of cron"),
        ("TZ=Asia/Tokyo 0 9 * * *", "add --tz Asia/Tokyo instead"),
        ("0 9 L-3 * *", "Add --lenient to allow"),
    ],
)
def test_advice_names_the_options_of_the_command(horae: Command, text: str, advice: str) -> None:
    assert advice in horae("schedule", "explain", text).err


def test_a_nickname_wants_lenient(horae: Command) -> None:
    strict, lenient = horae("schedule", "explain", "@daily"), horae("schedule", "explain", "@daily", "--lenient")

    assert strict.code == 2
    assert "add --lenient" in strict.err
    assert lenient.out.startswith("At 00:00 every day (UTC)")


def test_an_instant_is_read_in_the_zone(horae: Command) -> None:
    answer = horae("schedule", "explain", "2030-01-07T06:00", "--tz", "Asia/Shanghai", "--json").json

    assert answer["next"] == [{"at": "2030-01-06T22:00:00Z", "local": "2030-01-07T06:00:00+08:00"}]


@pytest.mark.parametrize(
    ("arguments", "reason", "facts"),
    [
        (["0 25 * * *"], "cron_unreadable", {"position": 3, "field": "hour"}),
        (["* * *"], "cron_unreadable", {"found": "3 fields"}),
        ([""], "cron_unreadable", {"found": "nothing"}),
        (["15x"], "duration_unreadable", {"text": "15x"}),
        (["0s"], "interval_too_short", {"name": "period"}),
        (["2030-01-07T06:00"], "reading_zone_missing", {"text": "2030-01-07T06:00"}),
        (["0 9 * * *", "--tz", "Mars/Base"], "zone_unknown", {"name": "Mars/Base"}),
        (["0 9 * * *", "--lang", "fr"], "language_unknown", {"language": "fr"}),
        (["0 9 * * *", "--gap", "jump"], "choice_unknown", {"name": "gap", "value": "jump"}),
        (["15m", "--gap", "skip"], "cron_option_without_cron", {"option": "--gap", "text": "15m"}),
        (["15m", "--tz", "Mars/Base"], "zone_unknown", {"name": "Mars/Base"}),
        (["0 9 * * *", "--tz", ""], "zone_unknown", {"name": ""}),
        (["15m", "--tz", ""], "zone_unknown", {"name": ""}),
        (["0 9 * * *", "--from", "soon"], "instant_unreadable", {"name": "--from", "text": "soon"}),
    ],
)
def test_what_cannot_be_read_is_refused(
    horae: Command, arguments: list[str], reason: str, facts: dict[str, Any]
) -> None:
    for verb in ("explain",) if "--lang" in arguments else ("explain", "next"):
        horae("schedule", verb, *arguments, "--json").assert_refused(2, reason, facts)


@pytest.mark.parametrize(
    ("expression", "column"), [("0 25 * * *", 2), ("0   9 * 13 *", 8), ("0 0 30 2 *", 4), ("0 哈 * * *", 2)]
)
def test_a_caret_stands_under_the_mistake(horae: Command, expression: str, column: int) -> None:
    message, shown, caret = horae("schedule", "explain", expression).err.splitlines()

    assert message.startswith("error: Cron ")
    assert (shown, caret) == (f"  {expression}", f"  {' ' * column}^")


def test_as_json_the_mistake_carries_field_and_position(horae: Command) -> None:
    error = horae("schedule", "explain", "0 25 * * *", "--json").json["error"]

    assert (error["code"], error["field"], error["position"]) == ("invalid_cron", "hour", 3)


def test_nothing_is_made_and_no_database_is_asked(environment: Path, horae: Command) -> None:
    horae("schedule", "explain", "0 9 * * *", "--db", "postgresql://nobody@127.0.0.1:1/nothing")
    horae("schedule", "next", "0 9 * * *")

    assert list(environment.iterdir()) == []


def test_a_real_shell_sees_the_words_and_the_code(environment: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "horae", "schedule", "explain", "0 9 * * 1-5", "--tz", "Asia/Shanghai",
         "--lang", "zh"], capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    refused = subprocess.run(
        [sys.executable, "-m", "horae", "schedule", "next", "0 9 * *"], capture_output=True, text=True, check=False
    )

    assert answer.stdout.splitlines()[0] == "每周一至周五 09:00（Asia/Shanghai）"
    assert answer.returncode == 0
    assert (refused.returncode, refused.stdout) == (2, "")


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["add", "--help"]])
def test_help_imports_neither_database_nor_event_loop(arguments: list[str]) -> None:
    probe = (
        "import contextlib, io, sys\nfrom horae.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    main(['schedule', *{arguments!r}])\n"
        "print(sorted({'alembic', 'asyncio', 'sqlalchemy', 'rich', 'horae.actions'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert answer.stdout == "[]\n"
