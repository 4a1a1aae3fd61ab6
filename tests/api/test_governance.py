"""The report on governance and the published schemas, through all four senders."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.api.governance.report import GovernanceReport
from horae.errors import InvalidInput, NotFound
from tests.api.conftest import Sent


def test_the_report_is_read_by_the_house_and_by_a_tenant(rooms: Sent) -> None:
    made = rooms.alice.objects.propose("memory", "Ann likes tea", subject="Ann", evidence=["chat:1"])

    hers = rooms.alice.governance.report()

    assert isinstance(hers, GovernanceReport)
    assert (hers.grain, len(hers.series), hers.complete) == ("day", 7, True)
    assert hers.events["proposed"] == sum(each.events.get("proposed", 0) for each in hers.series) >= 1
    assert {each.kind for each in hers.objects} == {"memory"}
    assert hers.lines[0].text.startswith("Governance from")
    assert rooms.house.governance.report(owner="alice").events == hers.events
    assert rooms.house.governance.report(owner="nobody").objects == ()
    weeks = rooms.house.governance.report(period=timedelta(weeks=12))
    assert (weeks.grain, len(weeks.series)) == ("week", 12)
    rooms.house.objects.retract(made.id, owner="alice", reason="a test")


def test_a_report_beyond_what_is_kept_or_of_others_is_refused(rooms: Sent) -> None:
    with pytest.raises(InvalidInput):
        rooms.house.governance.report(period=timedelta(days=1000))
    with pytest.raises(NotFound):
        rooms.alice.governance.report(owner="bob")
