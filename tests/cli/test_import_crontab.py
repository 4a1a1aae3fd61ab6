"""`horae import crontab`: what becomes of each line, and what a repetition does."""

from pathlib import Path
from typing import Any

import pytest

from horae.cli.imports.crontab import host_zone, read_crontab
from tests.cli.conftest import Command, Ended

CRONTAB = """\
# what the machine does
SHELL=/bin/bash
MAILTO="ops@example.org"
CRON_TZ=Europe/Berlin
30 2 * * *      /usr/local/bin/backup.sh --all
0 0 1,15 * 1    report  %line one%50\\% done
0 9 * * mon-fri mail
@reboot         start-me
"""


def entries(ended: Ended) -> dict[str, Any]:
    return {each["key"].rpartition("-")[0]: each for each in ended.json["entries"]}


def codes(entry: Any) -> list[str]:
    return [each["code"] for each in entry["notes"]]


def test_a_dry_run_says_what_each_line_becomes_and_makes_no_database(horae: Command, environment: Path) -> None:
    (environment / "my.cron").write_text(CRONTAB)

    ended = horae("import", "crontab", "my.cron", "--json")

    found = entries(ended)
    assert (ended.code, ended.json["dry_run"]) == (7, True)
    assert ended.json["counts"] == {"new": 3, "changed": 0, "unchanged": 0, "refused": 1}
    assert found["backup.sh"]["words"] == "At 02:30 every day (Europe/Berlin)"
    assert codes(found["backup.sh"]) == ["missed_skip", "overlap_allow", "command", "environment", "mail"]
    assert codes(found["report"])[0] == "day_or"
    assert found["report"]["schedule"]["day_match"] == "or"
    assert found["report"]["schedule"]["payload"] == {
        "command": "report  ", "environment": {"SHELL": "/bin/bash"}, "input": "line one\n50% done\n",
    }  # fmt: skip
    assert "lenient" in codes(found["mail"])
    assert found["mail"]["schedule"]["lenient"]
    assert found["start-me"]["problem"]["code"] == "reboot"
    assert not list(environment.glob("**/*.db"))


def test_a_repeated_import_changes_only_what_changed(horae: Command, environment: Path) -> None:
    file = environment / "my.cron"
    file.write_text(CRONTAB)
    first = horae("import", "crontab", "my.cron", "--apply", "--disabled", "--group", "old", "--json")
    again = horae("import", "crontab", "my.cron", "--apply", "--group", "old", "--json")
    file.write_text(CRONTAB.replace("30 2 ", "45 2 "))
    later = horae("import", "crontab", "my.cron", "--apply", "--group", "old", "--reason", "moved", "--json")

    key = entries(later)["backup.sh"]["key"]
    stored = horae("schedule", "show", key, "--json").json
    assert (first.code, again.code, later.code) == (6, 6, 6)  # @reboot needs a person
    assert (first.json["counts"]["new"], again.json["counts"]["unchanged"]) == (3, 3)
    assert later.json["counts"] == {"new": 0, "changed": 1, "unchanged": 2, "refused": 1}
    assert entries(later)["backup.sh"]["changes"] == ["expression"]
    assert stored["schedule"]["expression"] == "45 2 * * *"
    assert (stored["schedule"]["enabled"], stored["schedule"]["group"]) == (False, "old")
    assert [(each["verb"], each["reason"]) for each in stored["versions"]] == [("change", "moved"), ("create", None)]


def test_a_file_is_brought_in_words_and_in_chinese(horae: Command, environment: Path) -> None:
    (environment / "my.cron").write_text("0 3 * * 7 tidy\n")

    english = horae("import", "crontab", "my.cron", "--tz", "UTC")
    chinese = horae("import", "crontab", "my.cron", "--tz", "UTC", "--lang", "zh")

    assert "1 new; nothing is stored yet: add --apply" in english.out
    assert "  - dialect: read with names, 7 for Sunday" in english.out
    assert "每周日 03:00" in chinese.out
    assert "错过的运行" in chinese.out


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ("0 0 1 * 1", "or"),
        ("0 0 */2 * 1", "and"),  # Debian: a field that begins with a star
        ("0 0 1 * *", "and"),
        ("0 0 * * 1", "and"),
        ("@weekly", "and"),
    ],
)
def test_day_and_weekday_are_joined_as_cron_joins_them(fields: str, match: str) -> None:
    (found,) = read_crontab(f"{fields} do", zone="UTC", handler="run", has_user=False)

    assert found.timing["day_match"] == match


@pytest.mark.parametrize(
    "line", ["1 2 3", "*/60 * * * * do", "0 0 30 2 * do", "0 25 * * * do", "@every 5m", "nonsense"]
)
def test_a_line_that_cannot_be_brought_is_refused_alone(line: str) -> None:
    bad, good = read_crontab(f"{line}\n0 1 * * * do", zone="UTC", handler="run", has_user=False)

    assert bad.refusal is not None
    assert good.refusal is None


def test_a_system_crontab_names_the_user_of_each_command() -> None:
    (found,) = read_crontab("5 4 * * * root  tidy --all", zone="UTC", handler="run", has_user=True)

    assert found.timing["payload"] == {"command": "tidy --all"}
    assert {"user": "root"} in [each.values for each in found.notes]


def test_the_same_command_at_two_times_is_two_schedules_and_shows_no_argument() -> None:
    text = "5 4 * * * login -pSECRET\n6 5 * * * login -pSECRET\n"
    first, second = read_crontab(text, zone="UTC", handler="run", has_user=False)

    assert second.key == f"{first.key}-2"
    assert "SECRET" not in first.key


def test_without_a_zone_it_is_that_of_the_host_and_is_named(tmp_path: Path) -> None:
    zoneinfo = tmp_path / "zoneinfo" / "Asia"
    zoneinfo.mkdir(parents=True)
    (zoneinfo / "Tokyo").touch()
    (tmp_path / "localtime").symlink_to(zoneinfo / "Tokyo")

    assert host_zone({"TZ": ":Europe/Paris"}) == "Europe/Paris"
    assert host_zone({}, tmp_path / "localtime") == "Asia/Tokyo"
    assert host_zone({}, tmp_path / "none") == "UTC"
    (found,) = read_crontab("5 4 * * * tidy", zone=None, handler="run", has_user=False)
    assert found.notes[0].code == "zone_of_host"


def test_a_missing_file_and_bytes_that_are_no_text_are_refused(horae: Command, environment: Path) -> None:
    (environment / "bytes").write_bytes(b"\xff\xfe")

    horae("import", "crontab", "none", "--json").assert_refused(3, "import_missing", {"path": "none"})
    horae("import", "crontab", "bytes", "--json").assert_refused(2, "import_unreadable", {"path": "bytes"})


def test_a_schedule_that_code_declares_is_not_overwritten(horae: Command, environment: Path) -> None:
    (environment / "shop.py").write_text(
        'from horae import Horae\napp = Horae("sqlite:///app.db")\n'
        '@app.job("tidy", every="1h")\ndef tidy() -> None: ...\n'
    )
    (environment / "beat.json").write_text('{"tidy": {"task": "tidy", "schedule": 60}}')
    assert horae("reload", "shop:app").code == 0

    ended = horae("import", "celery", "beat.json", "--apply", "--db", "sqlite:///app.db", "--json")

    assert ended.code == 6
    assert ended.json["entries"][0]["problem"]["code"] == "declared"
