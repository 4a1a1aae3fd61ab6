"""Quiet hours of owners, through all four senders."""

from __future__ import annotations

import pytest

from horae.errors import Forbidden, InvalidInput, NotFound
from tests.api.conftest import Sent
from tests.support.refusals import refused

ALL_DAY = "00:01-00:00"


def test_an_owners_hours_are_set_listed_shown_and_lifted(rooms: Sent) -> None:
    made = rooms.house.owners.quiet("alice", ALL_DAY, zone="Asia/Shanghai", reason="night")
    listed = rooms.house.owners.list_quiet()
    job = rooms.alice.jobs.enqueue("index")
    rooms.house.schedules.create("quiet-owners", handler="index", cron="30 * * * *")
    why = rooms.alice.jobs.why(job.id)[0]
    rooms.house.owners.lift_quiet("alice")

    assert (made.owner, made.quiet_hours, made.quiet_zone) == ("alice", ALL_DAY, "Asia/Shanghai")
    assert made in listed
    assert why.code == "owner_quiet"
    assert rooms.house.schedules.preview("quiet-owners", count=2).starts == (
        rooms.house.schedules.preview("quiet-owners", count=2).fires
    )
    assert "alice" not in [each.owner for each in rooms.house.owners.list_quiet()]
    with refused(NotFound, "owner_without_hours"):
        rooms.house.owners.lift_quiet("alice")
    rooms.house.schedules.delete("quiet-owners")


def test_previews_and_forecasts_show_when_the_job_of_a_fire_may_start(rooms: Sent) -> None:
    rooms.house.schedules.create("hourly", handler="index", cron="30 * * * *", owner="alice")
    rooms.house.owners.quiet("alice", ALL_DAY)
    ahead = rooms.house.schedules.preview("hourly", count=3, owner="alice")
    shown = rooms.house.schedules.get("hourly", owner="alice")
    fires = [each for each in rooms.house.schedules.forecast(hours=5).fires if each.key == "hourly"]
    rooms.house.owners.lift_quiet("alice")
    rooms.house.schedules.delete("hourly", owner="alice")

    assert [f"{at:%H:%M}" for at in ahead.starts] == ["00:00"] * 3
    assert "owner_quiet" in [each.code for each in shown.why]
    assert {f"{each.starts_at:%H:%M}" for each in fires if each.starts_at is not None} == {"00:00"}


def test_what_cannot_be_kept_is_refused_by_every_door(rooms: Sent) -> None:
    for owner, hours in (("system", "22:00-07:00"), ("alice", "late")):
        with pytest.raises(InvalidInput):
            rooms.house.owners.quiet(owner, hours)
    with refused(Forbidden, "scope_missing"):
        rooms.alice.owners.quiet("alice", "22:00-07:00")
