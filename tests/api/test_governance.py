"""The report on governance and the published schemas, through all four senders."""

from __future__ import annotations

import json
from datetime import timedelta

import jsonschema
import pytest

from horae.api.governance.report import GovernanceReport
from horae.api.values import to_json
from horae.errors import InvalidInput, NotFound
from tests.api.conftest import Sent
from tests.support.refusals import refused


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
    with refused(InvalidInput, "report_period_unfit"):
        rooms.house.governance.report(period=timedelta(days=1000))
    with refused(NotFound, "tenant_unknown"):
        rooms.alice.governance.report(owner="bob")


def test_many_objects_are_proposed_as_mappings(rooms: Sent) -> None:
    given = [{"kind": "memory", "content": f"fact {n}", "subject": "bulk", "evidence": ["chat:1"]} for n in range(3)]

    made = rooms.alice.objects.propose_many(given)

    assert [(each.kind, each.status, each.subject) for each in made] == [("memory", "candidate", "bulk")] * 3
    with refused(InvalidInput, "choice_unknown"):
        rooms.alice.objects.propose_many([{"kind": "memory", "content": "a", "colour": "red"}])
    with refused(InvalidInput, "choice_unknown"):
        rooms.alice.objects.propose_many([{"content": "without a kind"}])


def test_reviews_rollbacks_and_reports_are_what_their_schemas_say(rooms: Sent) -> None:
    schemas = rooms.alice.objects.schemas()
    made = rooms.alice.objects.propose("memory", "the bank has moved", tamper=0.9, risk="high", evidence=["mail:1"])
    asked = rooms.alice.reviews.ask(f"memory:{made.id}", "Is it true?")
    taken_back = rooms.house.objects.rollback(made.id, dry_run=True, owner="alice")
    report = rooms.alice.governance.report()

    for name, value in (("review", asked), ("rollback", taken_back), ("report", report)):
        jsonschema.validate(json.loads(json.dumps(to_json(value))), schemas[name])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**to_json(value), "stranger": 1}, schemas[name])
