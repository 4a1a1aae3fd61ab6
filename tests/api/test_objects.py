"""Every operation of objects and policies, through all four senders."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count
from typing import Any

import jsonschema
import pytest

from horae.api.application import Acting
from horae.api.governance.object_values import GovernedObject, ProposedObject, RecalledObject
from horae.api.here import Here, house
from horae.api.values import to_json
from horae.core.governance.proposals import Proposal
from horae.errors import (
    ContentTooLarge,
    Forbidden,
    IllegalTransition,
    InvalidInput,
    NotFound,
    VersionConflict,
)
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

numbers = count()


@pytest.fixture
def subject() -> str:
    return f"Ann {next(numbers)}"


@pytest.fixture
def carol(served: Served) -> Any:
    """A person of the house, in this process."""
    return Acting(lambda: Here(served.world, house("user/carol")))


def a_memory(rooms: Sent, subject: str, content: str = "likes tea", **fields: Any) -> ProposedObject:
    given = {"evidence": ["chat:1"]} | fields
    made: ProposedObject = rooms.alice.objects.propose("memory", content, subject=subject, **given)
    return made


def test_an_object_is_proposed_read_and_found(rooms: Sent, subject: str) -> None:
    made = a_memory(rooms, subject, confidence=0.123456, evidence=["chat:1", {"reference": "web:2", "note": "n"}])
    found = rooms.alice.objects.get(made.id)

    assert isinstance(made, ProposedObject)
    assert isinstance(found, RecalledObject)
    assert (made.status, made.version, made.confidence, made.deduplicated) == ("candidate", 1, 0.123456, False)
    assert (found.content, found.usable, found.why, found.evidence) == ("likes tea", "caution", "not_verified", 2)
    assert [each.id for each in rooms.alice.objects.list(subject=subject)] == [made.id]
    assert [each.id for each in rooms.alice.objects.recall(subject.upper())] == [made.id]
    assert rooms.alice.objects.recall(subject, strict=True) == ()
    again = rooms.alice.objects.propose("memory", "likes tea", subject=subject, id=made.id)
    assert (again.deduplicated, again.id) == (True, made.id)


def test_the_queue_follows_the_door(rooms: Sent, subject: str, request: pytest.FixtureRequest) -> None:
    made = a_memory(rooms, subject)

    assert made.queue == ("scheduler" if "http" in request.node.callspec.params["rooms"] else "governance")


def test_why_says_who_would_serve_the_queue_that_no_worker_serves(rooms: Sent, subject: str) -> None:
    made = a_memory(rooms, subject)
    (waits,) = rooms.alice.objects.why(made.id).waits

    assert (waits.code, waits.reason, waits.facts) == ("no_worker", "no_worker_judges", {"queue": made.queue})
    assert f"--queues {made.queue}=10" in waits.text


def test_many_are_proposed_at_once_and_listed_page_by_page(rooms: Sent, subject: str) -> None:
    made = rooms.alice.objects.propose_many(Proposal("memory", f"fact {each}", subject=subject) for each in range(5))
    listed = rooms.alice.objects.list(subject=subject)
    first = listed.page(None, limit=3)
    rest = listed.page(first.next_cursor, limit=3)

    assert [each.id for each in (*first.items, *rest.items)] == [each.id for each in reversed(made)]


def test_a_life_by_its_verbs(rooms: Sent, subject: str, carol: Any) -> None:
    made = a_memory(rooms, subject)
    verified = rooms.alice.objects.conclude(made.id, "confirmed", evidence=["web:1"], confidence=0.9)
    used = rooms.alice.objects.use(made.id, reason="needed it")
    added = rooms.alice.objects.evidence(made.id, ["web:9", "chat:1"])
    asked = rooms.alice.objects.verify_now(made.id)
    contested = rooms.alice.objects.contest(made.id, evidence=["web:8"], reason="she said no")

    assert isinstance(verified, GovernedObject)
    assert (verified.status, used.status, asked.next_action) == ("verified", "active", "verify")
    assert (len(added.new), len(added.known), added.object.version) == (1, 1, 4)
    assert (contested.status, contested.contested) == ("quarantine", True)
    cleared = carol.objects.clear(made.id, owner="alice", reason="asked her")
    assert (cleared.status, cleared.contested) == ("verified", False)
    archived = rooms.alice.objects.archive(made.id)
    assert (archived.status, rooms.alice.objects.reinstate(made.id).status) == ("archived", "stale_uncertain")
    other = a_memory(rooms, subject, "likes coffee")
    assert rooms.alice.objects.supersede(made.id, other.id).superseded_by == other.id
    assert rooms.alice.objects.retract(other.id).status == "retracted"
    verbs = [each.verb for each in rooms.alice.objects.history(made.id)]
    assert verbs[-2:] == ["verified", "proposed"]
    assert [each.verb for each in rooms.alice.objects.history(made.id).page(None, limit=2).items] == verbs[:2]


def test_a_person_says_that_a_suspected_memory_is_forged(rooms: Sent, subject: str, carol: Any) -> None:
    made = a_memory(rooms, subject)
    rooms.alice.objects.conclude(made.id, "confirmed", evidence=["web:1"], confidence=0.9)
    rooms.alice.objects.contest(made.id, evidence=["web:8"], reason="she said no")
    with refused(Forbidden, "scope_missing", needed=["review"]):
        rooms.alice.objects.reject(made.id)

    rejected = carol.objects.reject(made.id, owner="alice", reason="forged")

    assert isinstance(rejected, GovernedObject)
    assert rooms.alice.objects.get(made.id).status == rejected.status == "rejected_poisoned"


def test_why_and_forecast_say_what_comes(rooms: Sent, subject: str) -> None:
    made = a_memory(rooms, subject)
    why = rooms.alice.objects.why(made.id)
    steps = rooms.alice.objects.forecast(made.id, assume="confirmed")

    assert (why.rule, why.policy, why.last.verb, len(why.evidence)) == ("first", 0, "proposed", 1)
    assert [(each.action, each.status) for each in steps[:2]] == [("verify", "verified"), ("revalidate", "verified")]


def test_what_is_wrong_is_refused_alike(rooms: Sent, subject: str) -> None:
    made = a_memory(rooms, subject)

    with refused(VersionConflict, "object_version_old"):
        rooms.alice.objects.contest(made.id, expected_version=7)
    with refused(IllegalTransition, "event_illegal"):
        rooms.alice.objects.use(made.id)
    with refused(NotFound, "object_unknown"):
        rooms.alice.objects.get("mem_none")
    with refused(ContentTooLarge, "content_too_large"):
        a_memory(rooms, subject, "x" * 300_000)
    with refused(InvalidInput, "choice_unknown"):
        rooms.alice.objects.propose("dream", "x")
    with refused(InvalidInput, "evidence_without_reference"):
        rooms.alice.objects.evidence(made.id, [""])
    with refused(Forbidden, "scope_missing"):
        rooms.alice.objects.clear(made.id)


def test_policies_are_set_by_an_operator_and_followed_by_a_replan(rooms: Sent, subject: str) -> None:
    kinds = [each.kind for each in rooms.alice.policies.list() if each.version == 0]
    agent = f"agent-{next(numbers)}"
    changed = rooms.house.policies.set("memory", {"verify_budget": 5}, agent=agent, owner="alice", reason="careful")
    found = rooms.alice.policies.get("memory", agent=agent)

    assert kinds == ["memory", "experience", "cognition"]
    assert (changed.version, changed.changed, found) == (1, ("verify_budget",), changed)
    assert (found.settings["verify_budget"], found.settings["stability"]) == (5, 14 * 86_400)
    with refused(VersionConflict, "policy_version_old"):
        rooms.house.policies.set("memory", {}, agent=agent, owner="alice", expected_version=9)
    with refused(InvalidInput, "policy_field_unknown"):
        rooms.house.policies.set("memory", {"colour": 1}, agent=agent, owner="alice")
    with refused(Forbidden, "scope_missing"):
        rooms.alice.policies.set("memory", {})
    done = rooms.house.policies.replan(owner="alice", reason="careful")
    assert (done.dry_run, done.looked_at >= 0) == (True, True)


def test_the_published_schemas_describe_what_the_doors_return(rooms: Sent, subject: str) -> None:
    made = a_memory(rooms, subject, risk="high")
    schemas = rooms.alice.objects.schemas()
    found = rooms.alice.objects.get(made.id)
    why = rooms.alice.objects.why(made.id)
    entries = list(rooms.alice.objects.history(made.id))
    decision = rooms.alice.decisions.get(found.decision)
    steps = rooms.alice.objects.forecast(made.id)

    told = [
        ("recalled_object", found), ("object", why.object), ("evidence", why.evidence[0]), ("decision", decision),
        *(("entry", each) for each in entries), *(("forecast_step", each) for each in steps),
    ]  # fmt: skip
    for name, value in told:
        jsonschema.validate(json.loads(json.dumps(to_json(value))), schemas[name])
    assert set(schemas) == {
        "object", "recalled_object", "evidence", "decision", "entry", "forecast_step", "review", "rollback", "report",
    }  # fmt: skip


def test_an_agent_s_token_proposes_and_acts_for_its_agent_alone(served: Served, subject: str) -> None:
    import horae
    from horae.actions.access.tokens import create_token

    _, text = create_token(served.world, owner="alice", scopes=("tasks",), agent="planner")
    with horae.Client(served.url, text) as planner:
        mine = planner.objects.propose("memory", "x", subject=subject)
        with refused(Forbidden, "agent_of_token"):
            planner.objects.propose("memory", "y", subject=subject, agent="writer")
        near = Acting(lambda: Here(served.world, house("app/test"))).for_owner("alice")
        other = near.objects.propose("memory", "z", subject=subject, agent="writer")
        with refused(Forbidden, "agent_of_token"):
            planner.objects.contest(other.id)
        assert [each.id for each in planner.objects.recall(subject)] == [mine.id]

    assert mine.agent == "planner"


def test_an_object_shows_what_it_rests_on_what_rests_on_it_and_what_cites_it(rooms: Sent, subject: str) -> None:
    ground = a_memory(rooms, subject)
    lesson = rooms.alice.objects.propose(
        "experience", "offer tea first", subject=subject, rests_on=[f"memory:{ground.id}"]
    )  # fmt: skip
    decision = rooms.alice.decisions.decide("offer tea", cites=[f"memory:{ground.id}"])

    up, down = rooms.alice.objects.links(ground.id), rooms.alice.objects.links(lesson.id)
    assert (up.rests_on, [each.id for each in up.carries]) == ((), [lesson.id])
    assert [(each.id, each.outcome, each.action) for each in up.decisions] == [
        (decision.id, decision.outcome, "offer tea")
    ]
    assert ([each.id for each in down.rests_on], down.carries, down.decisions) == ([ground.id], (), ())
    assert (up.more, rooms.alice.objects.links(ground.id, limit=1).more) == (False, True)
    with refused(NotFound, "object_unknown"):
        rooms.alice.objects.links("mem_unknown")


def test_versions_come_newest_first_and_page_by_page(rooms: Sent, subject: str) -> None:
    made = a_memory(rooms, subject)
    rooms.alice.objects.contest(made.id, reason="I doubt it")
    whole = tuple(rooms.alice.objects.versions(made.id))
    assert [(each.status, each.content) for each in whole] == [("quarantine", None), ("candidate", "likes tea")]
    first = rooms.alice.objects.versions(made.id).page(limit=1)
    rest = rooms.alice.objects.versions(made.id).page(first.next_cursor, limit=1)
    assert (*first.items, *rest.items) == whole


def test_what_is_due_comes_first_page_by_page(rooms: Sent, subject: str) -> None:
    later, sooner = a_memory(rooms, subject), a_memory(rooms, subject, "likes cake")
    assert sooner.next_action_at is not None
    rooms.alice.objects.verify_now(later.id, at=sooner.next_action_at + timedelta(days=365))
    rest = a_memory(rooms, subject, "likes jam")
    rooms.alice.objects.retract(rest.id)
    due = rooms.alice.objects.list(subject=subject, order="due")
    assert {each.id for each in due} == {sooner.id, later.id}
    first = due.page(limit=1)
    assert first.items[0].next_action_at <= due.page(first.next_cursor, limit=1).items[0].next_action_at


def test_objects_are_counted_by_state(rooms: Sent, subject: str) -> None:
    before = {(each.kind, each.status): each.count for each in rooms.alice.objects.overview().counts}
    made = a_memory(rooms, subject)
    rooms.alice.objects.contest(made.id)
    seen = rooms.alice.objects.overview()
    now = {(each.kind, each.status): each for each in seen.counts}
    suspected = now["memory", "quarantine"]
    assert suspected.count == before.get(("memory", "quarantine"), 0) + 1
    assert suspected.contested == suspected.count
    assert (seen.complete, seen.looked_at) == (True, sum(each.count for each in seen.counts))
    assert seen.open_reviews >= 1


def test_an_object_says_what_its_caller_may_do_with_it(rooms: Sent, carol: Any, subject: str) -> None:
    made = a_memory(rooms, subject, risk="high")
    own = set(rooms.alice.objects.why(made.id).verbs)
    assert {"evidence", "verify_now", "contest", "archive"} <= own
    assert own.isdisjoint({"use", "clear", "reject", "reinstate", "retract", "erase"})  # of high risk, and her own
    rooms.alice.objects.contest(made.id)
    judged = set(carol.objects.why(made.id, owner="alice").verbs)
    assert {"clear", "reject", "retract", "erase"} <= judged
    assert judged.isdisjoint({"use", "contest", "reinstate"})
    carol.objects.retract(made.id, owner="alice", reason="forged")
    assert carol.objects.why(made.id, owner="alice").verbs == ("erase",)


# -- exports -----------------------------------------------------------------------------------------------------------


def test_an_export_holds_objects_whole_and_nothing_that_was_erased(rooms: Sent, subject: str) -> None:
    canary = f"canary {subject}"
    below = a_memory(rooms, subject, evidence=[{"reference": "chat:1", "note": f"{canary} in a note"}])
    upper = rooms.alice.objects.propose("experience", canary, subject=subject, rests_on=[f"memory:{below.id}"])
    rooms.alice.objects.contest(upper.id, evidence=["web:2"])

    lines = list(rooms.alice.objects.export())
    facts = {each["object"]["id"]: each["object"] for each in lines if "object" in each}
    hers = [each for each in lines if each.get("of") == f"experience:{upper.id}"]
    assert (lines[0]["export"], lines[0]["owner"]) == ("horae.objects", "alice")
    assert {each["owner"] for each in facts.values()} == {"alice"}
    assert facts[upper.id]["rests_on"] == [f"memory:{below.id}"]
    assert [each["version"]["verb"] for each in hers if "version" in each] == ["proposed", "questioned"]
    assert [each["version"]["content"] for each in hers if "version" in each] == [canary, None]
    assert [each["evidence"]["reference"] for each in hers if "evidence" in each] == ["web:2"]
    assert canary in json.dumps(lines)
    counted = {name: sum(name in each for each in lines[1:-1]) for name in ("object", "evidence", "version")}
    assert lines[-1] == {"end": True, "objects": counted["object"], "evidence": counted["evidence"],
                         "versions": counted["version"]}  # fmt: skip

    rooms.house.objects.erase(subject=subject, owner="alice", reason="asked for it")
    again = list(rooms.house.objects.export(owner="alice"))
    assert len(again) >= len(lines)
    assert canary not in json.dumps(again)


def test_a_tenant_exports_its_own_objects_only(rooms: Sent, subject: str) -> None:
    a_memory(rooms, subject)
    rooms.house.objects.propose("memory", "the house is warm", subject=subject)

    owners = {each["object"]["owner"] for each in rooms.house.objects.export() if "object" in each}
    assert {"alice", "system"} <= owners
    with refused(NotFound, "tenant_unknown"):
        list(rooms.alice.objects.export(owner="system"))
