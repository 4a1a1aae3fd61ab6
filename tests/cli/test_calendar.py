"""`horae calendar …`, and what schedules do with it."""

from __future__ import annotations

from tests.cli.conftest import Command


def test_a_calendar_is_made_used_shown_and_deleted(horae: Command) -> None:
    made = horae("calendar", "set", "bank", "2030-12-25", "sat", "sun", "--title", "Bank holidays")
    added = horae(
        "schedule", "add", "digest", "--handler", "h", "--cron", "0 9 * * *", "--calendar", "bank",
        "--calendar-rule", "move", "--quiet-hours", "22:00-07:00",
    )  # fmt: skip

    assert made.out.strip() == "bank has 3 days, version 1"
    assert "on days of the calendar bank, on the next day that is not one" in added.out
    assert "bank" in horae("calendar", "list").out
    assert "used by digest, version 1" in horae("calendar", "show", "bank").out
    shown = horae("schedule", "show", "digest").out
    assert "22:00-07:00" in shown
    assert "move" in shown


def test_a_calendar_in_use_is_not_deleted_and_says_by_which_schedule(horae: Command) -> None:
    horae("calendar", "set", "bank", "sat")
    horae("schedule", "add", "digest", "--handler", "h", "--cron", "0 9 * * *", "--calendar", "bank")

    refused = horae("calendar", "delete", "bank")
    assert refused.code != 0
    assert "is used by digest" in refused.err
    assert horae("schedule", "change", "digest", "--calendar", "none").code == 0
    assert horae("calendar", "delete", "bank", "--json").json == {"name": "bank", "deleted": True}
    assert horae("calendar", "list").out.strip() == "No calendars yet."


def test_a_day_that_cannot_be_read_says_how_to_write_it(horae: Command) -> None:
    refused = horae("calendar", "set", "bank", "monday")

    assert refused.code == 2
    assert "write 2030-12-25" in refused.err


def test_a_pause_may_end_by_itself_and_a_queue_may_be_quiet(horae: Command) -> None:
    horae("schedule", "add", "digest", "--handler", "h", "--cron", "0 9 * * *")
    until = ("--until", "2099-01-01T00:00:00Z")

    assert horae("schedule", "pause", "digest", *until, "--json").json["paused_until"] == "2099-01-01T00:00:00Z"
    assert "the pause ends by itself at 2099-01-01T00:00:00Z" in horae("schedule", "show", "digest").out
    assert "mail is paused until 2099-01-01 00:00:00Z" in horae("queue", "pause", "mail", *until).out
    assert horae("queue", "quiet", "sms", "22:00-07:00").out.strip() == "sms is quiet 22:00-07:00 (UTC)"
    assert horae("queue", "quiet", "sms", "none").out.strip() == "sms has no quiet hours"
    assert "which has passed" in horae("queue", "pause", "mail", "--until", "2000-01-01T00:00:00Z").err


def test_an_owner_may_be_quiet(horae: Command) -> None:
    horae("calendar", "set", "bank", "sat")  # which makes the database
    made = horae("owner", "quiet", "acme", "22:00-07:00", "--tz", "Europe/Berlin")

    assert made.out.strip() == "acme is quiet 22:00-07:00 (Europe/Berlin)"
    assert horae("owner", "list", "--quiet-hours", "--json").json["items"][0]["owner"] == "acme"
    assert horae("owner", "quiet", "acme", "none").out.strip() == "acme has no quiet hours"
    assert horae("owner", "quiet", "acme", "none").code != 0
    assert horae("owner", "list", "--quiet-hours").out.strip() == "No owner is quiet."
