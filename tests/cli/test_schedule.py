"""Schedules from a shell: make, see, change, steer, fire by hand."""

import json
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from horae.api.schedules.values import ScheduleDetail
from horae.core.schedules.status import ScheduleStatus
from tests.cli.conftest import Command, Process

WEEKDAYS = ("--cron", "0 9 * * 1-5", "--tz", "Asia/Shanghai")


@pytest.fixture
def digest(horae: Command) -> dict[str, Any]:
    """A stored schedule, nine o'clock on working days in Shanghai."""
    made = horae("schedule", "add", "digest", "--handler", "send-digest", *WEEKDAYS, "--json")
    assert made.code == 0, made.err
    schedule: dict[str, Any] = made.json
    return schedule


def shown(horae: Command, key: str = "digest") -> dict[str, Any]:
    answer: dict[str, Any] = horae("schedule", "show", key, "--json").json
    return answer


# -- add ---------------------------------------------------------------------------------------------------------


def test_a_schedule_is_added_with_its_next_fire_and_its_zone(digest: dict[str, Any]) -> None:
    assert digest["status"] == "active"
    assert digest["next_fire_at"].endswith("T01:00:00Z")
    assert digest["zone"] == "Asia/Shanghai"
    assert digest["words"] == "At 09:00, Monday to Friday (Asia/Shanghai)"


def test_a_second_one_with_the_same_key_is_a_conflict(horae: Command, digest: dict[str, Any]) -> None:
    again = horae("schedule", "add", "digest", "--handler", "other", "--every", "15m")

    assert again.code == 5
    assert "already a schedule 'digest'" in again.err


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["--every", "15m"], {"kind": "every", "expression": "900"}),
        (["--every", "250ms"], {"kind": "every", "expression": "0.25"}),
        (["--every", "1d", "--anchor", "finish", "--initial-delay", "2h"], {"anchor": "finish", "initial_delay": 7200}),
        (["--once", "2030-01-07T06:00:00Z"], {"kind": "once", "expression": "2030-01-07T06:00:00Z"}),
        (["--once", "2030-01-07T06:00", "--tz", "Asia/Shanghai"], {"expression": "2030-01-06T22:00:00Z"}),
        (["--cron", "@daily", "--lenient"], {"lenient": True, "expression": "@daily"}),
        (["--every", "1h", "--catch-up", "3"], {"misfire": "catch_up", "catch_up": 3}),
        (["--every", "1h", "--misfire", "skip", "--overlap", "queue_one"], {"misfire": "skip", "overlap": "queue_one"}),
        (["--every", "1h", "--jitter", "90s", "--max-fires", "5"], {"jitter": 90, "max_fires": 5}),
        (["--every", "1h", "--payload", '{"n": 1}', "--queue", "mail", "--priority", "high"], {"payload": {"n": 1}}),
        (["--every", "1h", "--starts-at", "2030-01-01T00:00Z"],
         {"starts_at": "2030-01-01T00:00:00Z", "next_fire_at": "2030-01-01T00:00:00Z"}),
        (["--every", "1h", "--disabled"], {"enabled": False, "status": "disabled", "next_fire_at": None}),
        (["--every", "1h", "--misfire", "skip", "--spread", "5m", "--grace", "2m"], {"spread": 300, "grace": 120}),
        (["--every", "1h", "--timeout", "10m", "--stale-timeout", "5m", "--lock-ttl", "90s"],
         {"timeout": 600, "stale_timeout": 300, "lock_ttl": 90}),
        (["--every", "1h", "--mode", "ALL_NODES", "--timeout", "none"], {"mode": "ALL_NODES", "timeout": None}),
        (["--cron", "0 0 15 * 1", "--day-match", "or", "--gap", "skip", "--fold", "both"], {"day_match": "or"}),
    ],
)  # fmt: skip
def test_every_option_arrives_in_the_store(horae: Command, options: list[str], fields: dict[str, Any]) -> None:
    made = horae("schedule", "add", "key", "--handler", "h", *options)
    stored = shown(horae, "key")["schedule"]

    assert made.code == 0, made.err
    assert {name: stored[name] for name in fields} == fields


def test_a_policy_for_failures_is_given_by_its_fields_or_as_none(horae: Command) -> None:
    policy = '{"kind": "exponential", "attempts": 4, "delay": "10s"}'
    horae("schedule", "add", "key", "--handler", "h", "--every", "1h", "--retry", policy)
    first = shown(horae, "key")["schedule"]["retry"]
    horae("schedule", "change", "key", "--retry", "none")

    assert (first["kind"], first["attempts"], first["delay"]) == ("exponential", 4, 10)
    assert shown(horae, "key")["schedule"]["retry"]["kind"] == "none"


@pytest.mark.parametrize(
    ("options", "reason", "facts"),
    [
        ([], "timing_ambiguous", {}),
        (["--every", "15m", "--cron", "* * * * *"], "timing_ambiguous", {}),
        (["--every", "soon"], "duration_unreadable", {"text": "soon", "what": "span"}),
        (["--every", "0"], "interval_too_short", {"name": "period"}),
        (["--once", "2030-01-07T06:00:00"], "reading_zone_missing", {"name": "--once"}),
        (["--once", "2027-03-28T02:30", "--tz", "Europe/Berlin"], "reading_skipped", {"zone": "Europe/Berlin"}),
        (["--every", "1h", "--ends-at", "2030-01-01T00:00:00"], "reading_zone_missing", {"name": "--ends-at"}),
        (["--every", "1h", "--max-fires", "many"], "max_fires_unreadable", {"text": "many"}),
        (["--every", "1h", "--misfire", "hope"], "choice_unknown", {"name": "misfire", "value": "hope"}),
        (["--every", "1h", "--priority", "urgent"], "choice_unknown", {"name": "priority", "value": "urgent"}),
        (["--every", "1h", "--payload", "[1]"], "arguments_no_object", {}),
        (["--every", "1h", "--retry", '{"attempts": 3}'], "file_value_not_a_retry", {}),
        (["--every", "1h", "--retry", '{"kind": "fixed", "tries": 3}'], "file_retry_key_unknown", {"key": "tries"}),
        (["--every", "1h", "--timeout", "long"], "duration_unreadable", {"text": "long", "what": "timeout"}),
        (["--every", "1h", "--payload", "{"], "arguments_unreadable", {}),
        (["--cron", "0 9 * * 1", "--tz", "Mars/Base"], "zone_unknown", {"name": "Mars/Base"}),
        (["--cron", "0 0 30 2 *"], "cron_unreadable", {"field": "day", "position": 5}),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_stored(
    horae: Command, options: list[str], reason: str, facts: dict[str, Any]
) -> None:
    horae("db", "migrate")
    ended = horae("schedule", "add", "key", "--handler", "h", *options, "--json")

    ended.assert_refused(2, reason, facts)
    assert horae("schedule", "list").out == "No schedules yet.\n"


def test_a_mistake_in_cron_is_pointed_at(horae: Command) -> None:
    ended = horae("schedule", "add", "key", "--handler", "h", "--cron", "0 9 * * MON-FRI")

    assert ended.code == 2
    assert ended.err.splitlines()[1:] == ["  0 9 * * MON-FRI", "          ^"]
    assert "add --lenient" in ended.err


def test_one_that_follows_says_whom_and_a_circle_is_refused(horae: Command, digest: dict[str, Any]) -> None:
    follows = horae("schedule", "add", "send", "--handler", "h", "--after", "digest")
    circle = horae("schedule", "change", "digest", "--after", "send")

    assert "runs after digest succeeded" in follows.out
    assert circle.code == 5
    assert "digest → send → digest" in circle.err


# -- look --------------------------------------------------------------------------------------------------------


def test_the_list_shows_the_next_fire_relative_in_utc_and_where_it_is_meant(
    horae: Command, digest: dict[str, Any]
) -> None:
    header, row = horae("schedule", "list").out.splitlines()

    assert header.split() == ["KEY", "STANDING", "HANDLER", "GROUP", "NEXT", "UTC", "LOCAL", "WORDS"]
    assert "in " in row
    assert "01:00:00Z" in row
    assert "09:00:00+08:00 Asia/Shanghai" in row
    assert row.endswith("At 09:00, Monday to Friday (Asia/Shanghai)")


def test_the_list_can_be_narrowed_and_turned_page_by_page(horae: Command) -> None:
    for number in range(3):
        horae("schedule", "add", f"k{number}", "--handler", f"h{number % 2}", "--every", "1h", "--group", f"g{number}")

    def keys(*options: str) -> list[str]:
        return [each["key"] for each in horae("schedule", "list", *options, "--json").json["items"]]

    assert keys("--handler", "h0") == ["k0", "k2"]
    assert keys("--group", "g1") == ["k1"]
    assert keys("--owner", "somebody") == []
    first = horae("schedule", "list", "-n", "2", "--json").json
    assert keys("-n", "2", "--cursor", first["next_cursor"]) == ["k2"]


def test_a_schedule_of_an_owner_is_seen_with_that_owner_only(horae: Command) -> None:
    horae("schedule", "add", "mine", "--handler", "h", "--every", "1h", "--owner", "ada")

    assert horae("schedule", "show", "mine").code == 3
    assert horae("schedule", "show", "mine", "--owner", "ada").code == 0


def test_show_tells_each_value_with_its_source(horae: Command, digest: dict[str, Any]) -> None:
    lines = [line.split() for line in horae("schedule", "show", "digest").out.splitlines()]

    assert ["zone", "Asia/Shanghai", "api"] in lines
    assert ["overlap", "skip", "default"] in lines
    assert ["rule", "cron", "0", "9", "*", "*", "1-5", "(api)"] in lines


def test_show_tells_by_whom_and_why_it_is_paused(
    horae: Command, digest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORAE_ACTOR", "ada")
    horae("schedule", "pause", "digest", "--reason", "holiday")

    page = horae("schedule", "show", "digest").out

    assert "silent because it was paused by ada at" in page
    assert ": holiday" in page
    assert [reason["code"] for reason in shown(horae)["schedule"]["why"]] == ["paused"]


def test_the_json_of_a_schedule_has_the_fields_of_the_room(horae: Command, digest: dict[str, Any]) -> None:
    answer = shown(horae)

    assert set(answer) == {"schedule", "history", "versions"}
    assert set(answer["schedule"]) == {each.name for each in fields(ScheduleDetail)}
    assert answer["schedule"]["status"] in ScheduleStatus.__args__  # type: ignore[attr-defined]


def test_preview_tells_as_many_fires_as_asked_and_no_more_than_there_are(horae: Command) -> None:
    horae("schedule", "add", "few", "--handler", "h", "--every", "1h", "--max-fires", "3")

    assert len(horae("schedule", "preview", "few", "-n", "2", "--json").json["fires"]) == 2
    assert len(horae("schedule", "preview", "few", "--json").json["fires"]) == 3


def test_preview_of_a_paused_one_says_that_it_is_paused(horae: Command, digest: dict[str, Any]) -> None:
    horae("schedule", "pause", "digest")
    ended = horae("schedule", "preview", "digest", "-n", "1")

    assert "09:00:00+08:00 Asia/Shanghai" in ended.out
    assert "it was paused by" in ended.out


def test_an_unknown_key_is_not_found(horae: Command) -> None:
    horae("db", "migrate")
    for verb in ("show", "history", "preview", "pause", "resume", "trigger", "delete"):
        assert horae("schedule", verb, "nothing").code == 3, verb


# -- change ------------------------------------------------------------------------------------------------------


def test_a_change_keeps_the_rest_and_is_on_record(horae: Command, digest: dict[str, Any]) -> None:
    horae("schedule", "change", "digest", "--cron", "30 8 * * 1-5", "--reason", "earlier")
    answer = shown(horae)

    assert answer["schedule"]["zone"] == "Asia/Shanghai"
    assert answer["schedule"]["next_fire_at"].endswith("T00:30:00Z")
    assert answer["schedule"]["version"] == 2
    assert (answer["versions"][0]["verb"], answer["versions"][0]["reason"]) == ("change", "earlier")


def test_a_change_of_another_version_is_refused(horae: Command, digest: dict[str, Any]) -> None:
    ended = horae("schedule", "change", "digest", "--queue", "mail", "--version", "7")

    assert ended.code == 5
    assert "at version 1, not 7" in ended.err


def test_none_lifts_a_bound(horae: Command) -> None:
    horae("schedule", "add", "k", "--handler", "h", "--every", "1h", "--max-fires", "3", "--group", "g")
    horae("schedule", "change", "k", "--max-fires", "none", "--group", "none")
    stored = shown(horae, "k")["schedule"]

    assert (stored["max_fires"], stored["group"]) == (None, None)


def test_a_time_without_an_offset_is_read_in_the_zone_of_the_schedule(horae: Command, digest: dict[str, Any]) -> None:
    horae("schedule", "change", "digest", "--ends-at", "2030-01-07T06:00:00")

    assert shown(horae)["schedule"]["ends_at"] == "2030-01-06T22:00:00Z"


def test_a_zone_that_nobody_named_is_not_guessed(horae: Command) -> None:
    horae("schedule", "add", "k", "--handler", "h", "--every", "1h")

    assert horae("schedule", "change", "k", "--ends-at", "2030-01-07T06:00:00").code == 2


def test_a_disabled_one_is_enabled_again(horae: Command, digest: dict[str, Any]) -> None:
    horae("schedule", "change", "digest", "--disabled")
    off = shown(horae)["schedule"]
    horae("schedule", "change", "digest", "--enabled")

    assert off["next_fire_at"] is None
    assert shown(horae)["schedule"]["next_fire_at"] is not None


def test_a_change_of_nothing_is_a_mistake(horae: Command, digest: dict[str, Any]) -> None:
    assert horae("schedule", "change", "digest").code == 2


# -- pause, resume, delete ---------------------------------------------------------------------------------------


def test_a_group_is_paused_and_resumed_together(horae: Command) -> None:
    for key in ("a", "b"):
        horae("schedule", "add", key, "--handler", "h", "--every", "1h", "--group", "night")
    horae("schedule", "add", "c", "--handler", "h", "--every", "1h")

    paused = horae("schedule", "pause", "--group", "night", "--json").json
    status = {each["key"]: each["status"] for each in horae("schedule", "list", "--json").json["items"]}
    resumed = horae("schedule", "resume", "--group", "night")

    assert paused == {"group": "night", "changed": ["a", "b"]}
    assert status == {"a": "paused", "b": "paused", "c": "active"}
    assert resumed.out.splitlines()[0] == "2 schedules of group night resumed"


@pytest.mark.parametrize("words", [[], ["digest", "--group", "g"]])
def test_pause_wants_one_schedule_or_one_group(horae: Command, words: list[str]) -> None:
    assert horae("schedule", "pause", *words).code == 2


def test_delete_only_tells_unless_it_is_meant(horae: Command, digest: dict[str, Any]) -> None:
    asked = horae("schedule", "delete", "digest")
    still = horae("schedule", "show", "digest").code
    meant = horae("schedule", "delete", "digest", "--yes")

    assert asked.out.startswith("would delete digest")
    assert asked.out.endswith("; add --yes\n")
    assert asked.code == 7, "a script must not take it for done"
    assert (still, meant.code, horae("schedule", "show", "digest").code) == (0, 0, 3)


# -- fire by hand ------------------------------------------------------------------------------------------------


def test_trigger_prints_the_job_and_gives_it_the_arguments(horae: Command) -> None:
    horae("schedule", "add", "k", "--handler", "h", "--every", "1h", "--payload", '{"a": 1, "b": 2}')
    job_id = horae("schedule", "trigger", "k", "--arg", "b=3").out.strip()

    assert horae("job", "show", job_id, "--json").json["job"]["payload"] == {"a": 1, "b": 3}


def test_a_trigger_while_one_is_unfinished_is_skipped_with_code_5(horae: Command, digest: dict[str, Any]) -> None:
    horae("schedule", "trigger", "digest")
    again = horae("schedule", "trigger", "digest")
    answer = horae("schedule", "trigger", "digest", "--json")

    assert again.code == 5
    assert again.out == "skipped: a job of digest is unfinished, and its overlap is skip\n"
    assert (answer.code, answer.json["job_id"], answer.json["fire"]["reason"]) == (5, None, "running")


def test_the_history_tells_what_became_of_each_fire(horae: Command, digest: dict[str, Any]) -> None:
    job_id = horae("schedule", "trigger", "digest").out.strip()
    horae("schedule", "trigger", "digest")
    fires = horae("schedule", "history", "digest", "--json").json["items"]

    assert [(each["kind"], each["verdict"], each["reason"], each["job_id"]) for each in fires] == [
        ("manual", "skipped", "running", None),
        ("manual", "ran", None, job_id),
    ]
    assert "VERDICT" in horae("schedule", "history", "digest").out


def test_the_history_goes_on_where_a_page_ended(horae: Command, digest: dict[str, Any]) -> None:
    for _ in range(3):
        horae("schedule", "trigger", "digest")
    first = horae("schedule", "history", "digest", "-n", "2", "--json").json
    rest = horae("schedule", "history", "digest", "-n", "2", "--cursor", first["next_cursor"], "--json").json

    assert (len(first["items"]), len(rest["items"]), rest["next_cursor"]) == (2, 1, None)


def test_a_backfill_counts_first_and_acts_only_when_told(horae: Command, digest: dict[str, Any]) -> None:
    week = ("schedule", "backfill", "digest", "--from", "2024-01-08", "--to", "2024-01-15")
    asked = horae(*week)
    meant = horae(*week, "--yes", "--spread", "10m", "--json")
    again = horae(*week)

    assert (asked.out, asked.code) == ("would enqueue 5 jobs; add --yes\n", 7)
    assert len(meant.json["job_ids"]) == 5
    assert meant.json["fires"][0] == "2024-01-08T01:00:00Z"
    assert again.out == "would enqueue 0 jobs (5 fires of the range became a job already)\n"
    assert again.code == 0, "there is nothing to confirm"


def test_a_backfill_of_one_that_only_follows_is_refused(horae: Command, digest: dict[str, Any]) -> None:
    horae("schedule", "add", "send", "--handler", "h", "--after", "digest")

    assert horae("schedule", "backfill", "send", "--from", "2024-01-08", "--to", "2024-01-15").code == 2


# -- as a real command -------------------------------------------------------------------------------------------


def ended(process: Process) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(process.ended().out)
    return answer


@pytest.fixture
def at_once(project: Path, horae: Command) -> str:
    horae("schedule", "add", "sum", "--handler", "add", "--queue", "sums", "--every", "1h",
          "--payload", '{"left": 20, "right": 22}', "--db", "sqlite:///app.db")  # fmt: skip
    return "sqlite:///app.db"


def test_what_a_shell_schedules_a_worker_fires(at_once: str, start: Any) -> None:
    worker = start("worker", "tasks:app", "--db", at_once)
    worker.until_it_says("job.done")
    worker.started.send_signal(signal.SIGTERM)
    worker.ended()
    answer = ended(start("schedule", "show", "sum", "--db", at_once, "--json"))

    assert [fire["verdict"] for fire in answer["history"]] == ["ran"]
    runs = answer["schedule"]["runs"]
    assert (runs["run_count"], runs["last_outcome"]) == (1, "succeeded")


def test_the_timetable_counts_fires_by_hour(horae: Command, digest: dict[str, Any]) -> None:
    table = horae("schedule", "timetable", "--days", "7", "--zone", "Asia/Shanghai")
    seen = horae("schedule", "timetable", "--days", "7", "--hour", digest["next_fire_at"], "--json").json

    lines = table.out.splitlines()
    assert lines[0].split() == ["HOUR", "TO", "FIRE", "RAN", "NOT", "RUN"]
    assert len(lines) == 6
    assert all("T09:00:00" in line or " 09:00:00" in line for line in lines[1:])
    assert [(each["key"], each["fires"]) for each in seen["entries"]] == [("digest", 1)]
    assert (seen["schedules"], seen["complete"]) == (1, True)
