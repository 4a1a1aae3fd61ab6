"""Calendars and quiet hours on their pages: looked at, made, changed and deleted (S3-54)."""

from datetime import UTC, datetime

import pytest

from horae import Horae
from horae.actions.schedules import schedules
from horae.core.schedules.schedule import Schedule
from horae.ports.world import World
from tests.console.conftest import Browser, LogIn
from tests.console.test_batches import said


def test_a_calendar_is_made_and_says_which_of_its_days_come_next(operator: Browser, app: Horae) -> None:
    assert "No calendar yet." in operator.open("/calendars")
    answer = operator.post("/calendars", name="bank", title="Bank holidays", days="2030-01-08\nsat, sun", follow=True)
    assert app.calendars.get("bank").days == ("2030-01-08", "sat", "sun")
    assert "Tomorrow is the next of its days." in answer.text
    assert "Tuesday, 8 January 2030" in answer.text
    assert "Bank holidays" in operator.open("/calendars")


@pytest.mark.parametrize(
    ("days", "complaint"),
    [("2030-02-30", "2030-02-30"), ("", "number of days"), ("mon tue wed thu fri sat sun", "day")],
)
def test_a_day_that_cannot_be_read_is_said_and_what_was_written_stays(
    days: str, complaint: str, operator: Browser, app: Horae
) -> None:
    answer = operator.post("/calendars", name="bank", days=days)
    assert answer.status_code == 422
    assert complaint in answer.text
    assert days in answer.text
    assert app.calendars.list() == ()


def test_a_calendar_of_the_same_name_is_not_replaced_by_a_new_one(operator: Browser, app: Horae) -> None:
    app.calendars.set("bank", ["sat"])
    answer = operator.post("/calendars", name="bank", days="sun")
    assert answer.status_code == 422
    assert "There is a calendar bank already" in answer.text
    assert app.calendars.get("bank").days == ("sat",)


def test_who_changes_an_old_version_is_told_and_loses_nothing(operator: Browser, app: Horae) -> None:
    app.calendars.set("bank", ["sat"])
    app.calendars.set("bank", ["sat", "2030-12-25"])
    answer = operator.post("/calendars/bank", days="sun", version="1")
    assert answer.status_code == 409
    assert "Somebody else has changed it meanwhile" in answer.text
    assert ">sun</textarea>" in answer.text
    assert app.calendars.get("bank").version == 2
    for version in ("", "-1", "2.0", "٢", "9" * 30):
        assert operator.post("/calendars/bank", days="sun", version=version).status_code == 409
    assert operator.post("/calendars/bank", days="sun", version="2").status_code == 303
    assert app.calendars.get("bank").days == ("sun",)


def test_schedules_follow_a_changed_calendar_and_lead_to_it(operator: Browser, app: Horae) -> None:
    app.calendars.set("bank", ["2030-01-08"])
    app.schedules.create("report", handler="report", cron="0 9 * * *", calendar="bank")
    assert 'href="/console/calendars/bank"' in operator.open("/schedules/report")
    assert 'href="/console/schedules?text=report"' in operator.open("/calendars/bank")
    before = app.schedules.get("report").next_fire_at
    operator.post("/calendars/bank", days="2030-01-08 2030-01-09", version="1", reason="a strike")
    after = app.schedules.get("report").next_fire_at
    assert before is not None
    assert after is not None
    assert (after - before).days == 1
    assert "a strike" in operator.open("/audit")


def test_a_calendar_that_is_followed_is_not_deleted(operator: Browser, app: Horae) -> None:
    app.calendars.set("bank", ["sat"])
    app.schedules.create("report", handler="report", cron="0 9 * * *", calendar="bank")
    assert "/calendars/bank/delete" not in operator.open("/calendars/bank")
    assert operator.post("/calendars/bank/delete", reason="old").status_code == 409
    app.schedules.delete("report")
    assert "bank is deleted." in operator.post("/calendars/bank/delete", reason="old", follow=True).text
    assert app.calendars.list() == ()


def test_a_tenant_reads_calendars_without_the_schedules_of_others_or_a_form(
    log_in: LogIn, app: Horae, world: World
) -> None:
    app.calendars.set("shared", ["sun"])
    schedules.create(world, Schedule("own", "h", "cron", "0 9 * * *", owner="alice", calendar="shared"))
    schedules.create(world, Schedule("ours", "h", "cron", "0 9 * * *", calendar="shared"))
    alice = log_in("alice", "read")
    page = alice.open("/calendars/shared")
    assert "own" in said(page)
    assert "ours" not in said(page)
    for shown in (page, alice.open("/calendars")):
        assert "<form" not in shown[shown.index('id="content"') :].partition("<dialog")[0]
    assert log_in("alice", "tasks").get("/calendars").status_code == 403


def test_quiet_hours_of_a_queue_are_set_shown_and_lifted(operator: Browser, app: Horae) -> None:
    app.jobs.enqueue("greet", {}, queue="mail")
    answer = operator.post("/queues/mail/quiet", quiet_hours="22:00-07:00", zone="Asia/Shanghai", follow=True)
    assert "Quiet hours 22:00-07:00 (Asia/Shanghai): no job starts then." in answer.text
    assert "quiet 22:00-07:00" in operator.open("/queues")
    for hours, zone in (("25:00-26:00", "UTC"), ("22:00-07:00", "Mars/Olympus")):
        assert operator.post("/queues/mail/quiet", quiet_hours=hours, zone=zone).status_code == 422
    assert app.queues.get("mail").quiet_hours == "22:00-07:00"
    operator.post("/queues/mail/quiet", quiet_hours="", zone="")
    assert app.queues.get("mail").quiet_hours is None


def test_a_pause_ends_by_itself_at_the_instant_on_the_readers_clock(operator: Browser, app: Horae) -> None:
    app.schedules.create("report", handler="report", cron="0 9 * * *")
    operator.http.cookies.set("horae_tz", "Asia/Shanghai")
    operator.post("/queues/mail/pause", until="2030-01-09T08:00", reason="the office moves")
    operator.post("/schedules/report/pause", until="2030-01-09T08:00")
    until = datetime(2030, 1, 9, tzinfo=UTC)
    assert app.queues.get("mail").paused_until == until
    assert app.schedules.get("report").paused_until == until
    assert "ends by itself" in said(operator.open("/queues/mail"))
    assert "until" in said(operator.open("/queues"))
    assert "UTC+8" in said(operator.open("/schedules"))
    assert operator.post("/queues/orders/pause", until="tomorrow").status_code == 422
    assert operator.post("/queues/orders/pause", until="2020-01-01T00:00").status_code == 422
