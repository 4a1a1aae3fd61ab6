"""The verbs of governed objects: each keeps one planned job, writes its entries, and refuses what is not legal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.audit import seal_all, verify_audit
from horae.actions.governance import decisions, lives, policies, queries, verdicts
from horae.actions.governance import evidence as evidence_verbs
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import Proposed, propose, propose_many
from horae.actions.governance.verdicts import Given
from horae.core.access.callers import Caller
from horae.core.governance.objects import GovernedObject
from horae.core.governance.proposals import Proposal
from horae.errors import (
    Conflict,
    ContentTooLarge,
    Forbidden,
    HoraeError,
    IllegalTransition,
    InvalidInput,
    InvalidName,
    NotAllowed,
    NotFound,
    VersionConflict,
)
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.refusals import refused

OWNER = "alice"
DAY = timedelta(days=1)
BOB = Caller(OWNER, frozenset({"tasks"}), "agent/bob", agent="bob")
CAROL = Caller(OWNER, frozenset({"review"}), "user/carol")


def a_memory(world: World, content: str = "Ann likes tea", **fields: Any) -> GovernedObject:
    return proposed(world, "memory", content, **fields).object


def proposed(world: World, kind: Any, content: str = "Ann likes tea", **fields: Any) -> Proposed:
    given = {"subject": "Ann", "evidence": ["chat:1"]} | fields
    return propose(world, Proposal(kind, content, **given), owner=OWNER, caller=BOB, reason="heard it")


def about(it: GovernedObject, caller: Caller = BOB, **more: Any) -> Given:
    return Given(it.id, OWNER, caller, it.kind, **more)


def confirmed(world: World, it: GovernedObject, **more: Any) -> GovernedObject:
    return verdicts.conclude(world, about(it, CAROL), {"verdict": "confirmed", **more})


def an_active_memory(world: World, **fields: Any) -> GovernedObject:
    return lives.use(world, about(confirmed(world, a_memory(world, **fields))))


def entries(world: World, it: GovernedObject) -> list[Any]:
    return [entry for _, entry in reversed(queries.history(world, it.id, owner=OWNER, kind=it.kind).entries)]


def stored(world: World, it: GovernedObject) -> GovernedObject:
    return queries.get(world, it.id, owner=OWNER, kind=it.kind).object


@pytest.fixture(autouse=True)
def everything_holds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did, one job per object is planned, and the audit leads to the present state."""
    world: World | None = request.getfixturevalue("world") if "world" in request.fixturenames else None
    yield
    if world is not None:
        assert [str(each) for each in check_objects(world)] == []
        seal_all(world)
        assert [each.complaints for each in verify_audit(world) if each.complaints] == []


# -- propose -----------------------------------------------------------------------------------------------------------


def test_a_proposed_memory_has_its_content_evidence_and_one_planned_job(world: World) -> None:
    it = a_memory(world, risk="low")
    view = queries.get(world, it.id, owner=OWNER)
    job = world.store.read(lambda tx: tx.jobs.get(it.job or 0))

    assert it.id.startswith("mem_")
    assert len(it.id) == 16
    assert (view.content, view.evidence, view.usability.usable) == ("Ann likes tea", 1, "caution")
    assert job is not None
    assert (job.handler, job.queue, job.object_type, job.object_id) == ("govern", "governance", "memory", it.id)
    assert (job.action, job.run_at, job.priority) == ("verify", world.clock.now(), "low")
    (entry,) = entries(world, it)
    assert (entry.verb, entry.actor, entry.reason, entry.event_kind) == (
        "proposed", "agent/bob", "heard it", "state_transition"
    )  # fmt: skip
    assert entry.evidence[0].startswith("ev_")


def test_proposing_the_same_again_answers_with_what_is_there(world: World) -> None:
    first = proposed(world, "memory", id="tea")
    again = proposed(world, "memory", id="tea", content="ann  LIKES tea")

    assert (again.object, again.deduplicated) == (first.object, True)
    with refused(Conflict, "object_exists", id="tea"):
        proposed(world, "memory", id="tea", content="Ann likes coffee")


def test_an_id_may_stand_for_one_object_of_each_kind(world: World) -> None:
    a_memory(world, id="tea")
    proposed(world, "cognition", id="tea")

    with refused(InvalidInput, "object_ambiguous"):
        queries.get(world, "tea", owner=OWNER)
    assert queries.get(world, "cognition:tea", owner=OWNER).object.kind == "cognition"


@pytest.mark.parametrize(("fields", "problem"), [
    ({"kind": "dream"}, InvalidInput), ({"risk": "none"}, InvalidInput), ({"content": " "}, InvalidInput),
    ({"content": "x" * 300_000}, ContentTooLarge), ({"confidence": 1.5}, InvalidInput), ({"id": "a b"}, InvalidName),
    ({"evidence": [""]}, InvalidInput), ({"evidence": ["x" * 501]}, InvalidInput), ({"evidence": "a"}, InvalidInput),
    ({"evidence": [{"kind": "supports"}]}, InvalidInput), ({"subject": "x" * 201}, InvalidName),
    ({"rests_on": ["memory:none"], "kind": "experience"}, NotFound), ({"rests_on": ["nothing"]}, InvalidInput),
    ({"rests_on": ["cognition:c"]}, InvalidInput), ({"content": "a\x00b"}, InvalidInput),
    ({"evidence": [{"reference": "a", "survived": True}]}, InvalidInput),
])  # fmt: skip
def test_what_cannot_be_an_object_is_refused_and_changes_nothing(
    world: World, fields: dict[str, Any], problem: type[HoraeError]
) -> None:
    given = {"kind": "memory", "content": "Ann likes tea"} | fields
    with pytest.raises(problem):
        propose_many(world, [Proposal("memory", "fine"), Proposal(**given)], owner=OWNER, caller=BOB)

    assert queries.find(world, owner=OWNER) == []
    assert world.store.read(lambda tx: tx.jobs.counts(None, None, now=world.clock.now())) == {}


def test_ten_megabytes_of_content_are_refused(world: World) -> None:
    with refused(ContentTooLarge, "content_too_large"):
        a_memory(world, content="鸮" * 3_500_000)


def test_a_critical_impact_raises_the_risk(world: World) -> None:
    assert a_memory(world, impact="critical", risk="low").risk == "high"


def test_a_link_goes_upwards_only(world: World) -> None:
    below = a_memory(world)
    upper = proposed(world, "experience", "She drank it", rests_on=[f"memory:{below.id}"]).object

    assert queries.get(world, upper.id, owner=OWNER).rests_on == (f"memory:{below.id}",)
    with refused(InvalidInput, "link_downwards"):
        a_memory(world, rests_on=[f"experience:{upper.id}"])


def test_many_objects_are_stored_at_once_and_verified_one_after_the_other(world: World) -> None:
    many = [Proposal("memory", f"fact {number}", subject="facts", evidence=["book:1"]) for number in range(250)]
    made = propose_many(world, many, owner=OWNER, caller=BOB)
    due = [each.object.next_action_at for each in made]

    assert len({each.object.id for each in made}) == 250
    assert all(at is not None and timedelta(0) <= at - world.clock.now() < timedelta(minutes=10) for at in due)
    assert len(set(due)) > 200


def test_a_trusted_source_verifies_at_once_but_never_high_risk(world: World) -> None:
    policies.set_policy(world, "memory", {"trusted_sources": ["registry"]}, owner=OWNER, caller=CAROL)

    assert a_memory(world, source_type="registry").state == "verified"
    assert a_memory(world, source_type="registry", risk="high", content="other").state == "candidate"


def test_a_tampered_memory_is_quarantined_and_a_person_is_asked(world: World) -> None:
    it = a_memory(world, tamper=0.7)

    assert (it.state, it.contested, it.reviews) == ("quarantine", True, 1)
    assert [each.kind for each in world.store.read(lambda tx: tx.reviews.of([it.number]))] == ["quarantine"]
    assert a_memory(world, tamper=0.69, content="fine").state == "candidate"


def test_the_caller_s_next_action_at_wins(world: World) -> None:
    at = world.clock.now() + 3 * DAY

    assert a_memory(world, next_action_at=at).next_action_at == at


# -- use and evidence --------------------------------------------------------------------------------------------------


def test_use_makes_a_verified_memory_active_and_using_again_moves_only_the_clock_of_use(
    world: World, clock: VirtualClock
) -> None:
    first = an_active_memory(world)
    clock.advance(DAY)
    again = lives.use(world, about(first))

    assert (first.state, again.used_at, again.version) == ("active", clock.now(), first.version)
    assert again.verified_at == first.verified_at


def test_reading_moves_no_clock_and_writes_nothing(world: World, clock: VirtualClock) -> None:
    it = an_active_memory(world)
    count = len(entries(world, it))
    clock.advance(DAY)
    queries.recall(world, "ann", owner=OWNER)
    queries.explain(world, it.id, owner=OWNER)
    queries.forecast(world, it.id, owner=OWNER)

    assert stored(world, it) == it
    assert len(entries(world, it)) == count


def test_use_of_what_is_not_usable_is_illegal(world: World) -> None:
    with refused(IllegalTransition, "event_illegal", state="candidate", event="used"):
        lives.use(world, about(a_memory(world)))


def test_a_known_reference_is_not_new_evidence(world: World) -> None:
    it = a_memory(world)
    added = evidence_verbs.add_evidence(world, it.id, ["chat:1"], owner=OWNER, caller=BOB)

    assert (added.new, len(added.known), added.object) == ((), 1, it)


def test_evidence_from_the_object_itself_corroborates_nothing(world: World) -> None:
    it = a_memory(world, evidence=[])
    upper = proposed(world, "experience", "She drank it", rests_on=[f"memory:{it.id}"]).object
    added = evidence_verbs.add_evidence(
        world, it.id, [f"memory:{it.id}", f"experience:{upper.id}"], owner=OWNER, caller=BOB
    )

    assert [each.derived for each in added.new] == [True, True]
    assert added.object.new_evidence == 0


def test_new_evidence_brings_an_archived_memory_back_as_uncertain(world: World) -> None:
    it = lives.archive(world, about(an_active_memory(world)))
    after = evidence_verbs.add_evidence(world, it.id, ["chat:2"], owner=OWNER, caller=BOB).object

    assert (after.state, after.next_action, after.next_action_at) == (
        "stale_uncertain", "reinstate-check", world.clock.now()
    )  # fmt: skip
    assert [each.verb for each in entries(world, it)][-3:] == ["decayed", "archived", "reinstated"]


def test_new_evidence_lets_what_counted_as_unknowable_be_looked_at_once_more(world: World) -> None:
    it = verdicts.conclude(world, about(an_active_memory(world), CAROL), "unknowable")
    assert it.is_unknowable
    after = evidence_verbs.add_evidence(world, it.id, ["chat:2"], owner=OWNER, caller=BOB).object

    assert (after.unknown_type, after.next_action) == ("out_of_scope", "reinstate-check")
    assert after.next_action_at == world.clock.now()


# -- verdicts, contests and people -------------------------------------------------------------------------------------


def test_a_verdict_moves_the_object_and_plans_its_next_look(world: World) -> None:
    it = confirmed(world, a_memory(world), evidence=["web:1"], confidence=0.8)

    assert (it.state, it.confidence, it.next_action) == ("verified", 800_000, "revalidate")
    assert it.next_action_at == it.review_due_at == world.clock.now() + 14 * DAY
    last = entries(world, it)[-1]
    assert (last.verb, last.after["verdict"], len(last.evidence)) == ("verified", "confirmed", 1)


def test_a_contest_quarantines_a_memory_and_questions_what_rests_on_it(world: World) -> None:
    below = an_active_memory(world)
    upper = proposed(world, "experience", "She drank it", rests_on=[f"memory:{below.id}"]).object
    upper = confirmed(world, upper)
    assert upper.state == "active"

    after = verdicts.contest(world, about(below, evidence=["web:7"], reason="she said no"))

    assert (after.state, after.contested) == ("quarantine", True)
    assert stored(world, upper).state == "needs_review"
    assert entries(world, upper)[-1].evidence == (f"memory:{below.id}",)


def test_what_is_contested_is_looked_at_at_once_until_somebody_has_decided(world: World) -> None:
    later = world.clock.now() + 5 * DAY
    it = verdicts.conclude(world, about(a_memory(world), CAROL), {"verdict": "confirmed"}, next_action_at=later)
    assert (it.checked_at, it.next_action_at) == (world.clock.now(), later)

    suspected = verdicts.contest(world, about(it))
    assert (suspected.next_action, suspected.next_action_at) == ("verify", world.clock.now())
    assert suspected.checked_at == suspected.state_since

    cleared = verdicts.clear(world, about(suspected, CAROL))
    assert (cleared.next_action, cleared.next_action_at) == ("revalidate", world.clock.now() + 14 * DAY)


def test_an_experience_is_not_promoted_before_the_memories_it_rests_on(world: World) -> None:
    below = a_memory(world)
    upper = proposed(world, "experience", "She drank it", rests_on=[f"memory:{below.id}"]).object

    assert confirmed(world, upper).state == "candidate"
    confirmed(world, below)
    assert confirmed(world, upper).state == "active"


def test_an_experience_that_hits_the_persona_is_questioned(world: World) -> None:
    from horae.actions.governance.personas import set_persona

    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])
    it = proposed(world, "experience", "I read her Password aloud").object

    assert confirmed(world, it).state == "needs_review"


def test_only_a_person_who_did_not_propose_it_clears_or_rejects(world: World) -> None:
    it = verdicts.contest(world, about(an_active_memory(world)))

    with refused(Forbidden, "person_needed"):
        verdicts.clear(world, about(it, BOB))
    own = propose(world, Proposal("memory", "mine", tamper=0.9), owner=OWNER, caller=CAROL).object
    with refused(Forbidden, "object_of_ones_own"):
        verdicts.clear(world, about(own, CAROL))
    assert verdicts.clear(world, about(it, CAROL)).state == "verified"
    again = verdicts.contest(world, about(it))
    assert (verdicts.reject(world, about(again, CAROL)).state, stored(world, it).rejected) == (
        "rejected_poisoned",
        True,
    )


def test_two_independent_verdicts_clear_a_suspected_memory_and_one_does_not(world: World) -> None:
    it = verdicts.contest(world, about(an_active_memory(world)))
    dave, erin = replace(CAROL, actor="token/dave"), replace(CAROL, actor="token/erin")

    def judge(caller: Caller, *references: str) -> str:
        return verdicts.conclude(world, about(it, caller), {"verdict": "confirmed", "evidence": references}).state

    assert judge(dave, "web:1") == judge(dave, "web:2") == "quarantine"
    assert judge(erin, "web:2") == "quarantine"  # shared evidence
    assert judge(erin, f"memory:{it.id}") == "quarantine"  # derived from the object
    assert judge(erin, "book:3") == "verified"


def test_two_independent_verdicts_do_not_decide_about_high_risk(world: World) -> None:
    it = verdicts.contest(world, about(a_memory(world, risk="high")))
    for name in ("dave", "erin"):
        caller = replace(CAROL, actor=f"user/{name}")
        it = verdicts.conclude(world, about(it, caller), {"verdict": "refuted", "evidence": [f"web:{name}"]})

    assert it.state == "quarantine"


def test_a_rejected_value_does_not_come_back_under_another_id(world: World) -> None:
    it = verdicts.contest(world, about(a_memory(world, id="first")))
    verdicts.reject(world, about(it, CAROL))
    again = a_memory(world, id="second", content="ANN  likes\ttea")

    assert (again.state, again.needs_person) == ("quarantine", True)
    for name in ("dave", "erin"):  # verdicts do not clear it
        caller = replace(CAROL, actor=f"token/{name}")
        verdicts.conclude(world, about(again, caller), {"verdict": "confirmed", "evidence": [f"web:{name}"]})
    assert stored(world, again).state == "quarantine"
    assert verdicts.clear(world, about(again, CAROL)).state == "verified"


def test_what_was_refuted_does_not_come_back_as_cognition_either(world: World) -> None:
    it = proposed(world, "cognition", "Tea cures all", id="c1").object
    verdicts.reject(world, about(it, CAROL))
    again = proposed(world, "cognition", "tea cures ALL", id="c2").object

    assert (again.contested, again.needs_person) == (True, True)
    assert confirmed(world, again, counterexample="survived").state == "candidate/uncertain"


def test_verify_now_moves_the_one_job(world: World) -> None:
    it = an_active_memory(world)
    asked = verdicts.verify_now(world, about(it))
    job = world.store.read(lambda tx: tx.jobs.get(asked.job or 0))

    assert asked.job == it.job
    assert job is not None
    assert (job.action, job.run_at) == ("verify", world.clock.now())


def test_an_uncertain_object_is_not_verified_beyond_its_budget_unless_a_person_asks(
    world: World, clock: VirtualClock
) -> None:
    """S0-35."""
    it = proposed(world, "cognition", "Tea calms").object
    for _ in range(2):
        clock.advance(DAY)
        it = world_conclude(world, it, "inconclusive")
    assert it.verify_used == 2

    with refused(NotAllowed, "verify_budget_used"):
        verdicts.verify_now(world, about(it))
    assert verdicts.verify_now(world, about(it, CAROL)).next_action == "verify"


def world_conclude(world: World, it: GovernedObject, verdict: str) -> GovernedObject:
    """Conclude as an automatic verification does."""
    from horae.actions.governance.object_writer import By, Change, ObjectWriter
    from horae.core.governance.transitions import conclude
    from horae.core.governance.verdicts import finding_from

    def write(tx: Tx) -> GovernedObject:
        writer = ObjectWriter(world, tx, By("worker/1"), world.clock.now())
        known = tx.objects.lock([it.number])[it.number]
        finding = finding_from({"verdict": verdict})
        return writer.save(
            Change(known, conclude(known, "verify", finding, writer.policy(known), writer.now), "unchanged")
        )

    return world.store.transact(write)


# -- ends --------------------------------------------------------------------------------------------------------------


def test_an_archived_memory_comes_back_as_uncertain_never_straight_to_active(world: World) -> None:
    it = lives.archive(world, about(an_active_memory(world)))
    assert (it.state, it.next_action) == ("archived", "reinstate-check")

    assert lives.reinstate(world, about(it, reason="cited again")).state == "stale_uncertain"
    with refused(IllegalTransition, "event_illegal"):
        lives.reinstate(world, about(it))


def test_a_rejected_memory_comes_back_only_by_a_person(world: World) -> None:
    it = verdicts.reject(world, about(verdicts.contest(world, about(a_memory(world))), CAROL))
    it = lives.archive(world, about(it))
    assert it.next_action is None

    with refused(Forbidden, "person_needed"):
        lives.reinstate(world, about(it))
    assert lives.reinstate(world, about(it, CAROL)).state == "stale_uncertain"


def test_what_is_protected_cited_or_suspected_is_not_archived(world: World) -> None:
    kept = an_active_memory(world, protected=True)
    with refused(NotAllowed, "object_protected"):
        lives.archive(world, about(kept))
    ground = an_active_memory(world, content="other")
    rule = proposed(world, "cognition", "Tea it is", rests_on=[f"memory:{ground.id}"]).object
    confirmed(world, rule, counterexample="survived")
    with refused(NotAllowed, "object_cited"):
        lives.archive(world, about(ground))
    suspected = verdicts.contest(world, about(a_memory(world, content="third")))
    with refused(IllegalTransition, "event_illegal"):
        lives.archive(world, about(suspected))


def test_removals_of_a_day_are_capped(world: World, clock: VirtualClock) -> None:
    """G9."""
    many = [Proposal("memory", f"fact {number}") for number in range(101)]
    made = [each.object for each in propose_many(world, many, owner=OWNER, caller=BOB)]
    for it in made[:100]:
        lives.archive(world, about(it))

    with refused(NotAllowed, "removals_used_up"):
        lives.archive(world, about(made[100]))
    clock.advance(DAY)
    assert lives.archive(world, about(made[100])).state == "archived"


def test_a_superseded_object_is_archived_and_names_its_successor(world: World) -> None:
    old = an_active_memory(world)
    new = an_active_memory(world, content="Ann likes coffee")
    after = lives.supersede(world, about(old), new.id)

    assert (after.state, after.superseded_by, after.next_action) == ("archived", new.id, None)
    assert queries.recall(world, "ANN", owner=OWNER)[0].object.id == new.id
    for it, by in ((new, old), (new, new)):
        with refused(InvalidInput, "supersede_cycle"):
            lives.supersede(world, about(it), by.id)


def test_a_retracted_object_is_final_and_its_job_ends(world: World) -> None:
    it = lives.retract(world, about(an_active_memory(world)))

    assert (it.state, it.next_action, it.job) == ("retracted", None, None)
    assert world.store.read(lambda tx: tx.jobs.counts("governance", None, now=world.clock.now())) == {
        ("governance", "cancelled"): 1
    }
    for verb in (lives.use, lives.archive, verdicts.contest, verdicts.verify_now, lives.retract):
        with pytest.raises(IllegalTransition):
            verb(world, about(it))
    with refused(IllegalTransition, "object_is_final"):
        evidence_verbs.add_evidence(world, it.id, ["x"], owner=OWNER, caller=BOB)


def test_high_risk_is_retracted_only_by_a_person_and_every_entry_links_a_decision(world: World) -> None:
    it = a_memory(world, risk="high")
    with refused(Forbidden, "person_needed"):
        lives.retract(world, about(it))
    lives.retract(world, about(it, CAROL))

    found = entries(world, it)
    assert [each.verb for each in found] == ["proposed", "retracted"]
    assert all(each.decision and each.decision.startswith("dec_") for each in found)


# -- versions, tenants, queries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [lives.use, lives.archive, lives.retract, verdicts.contest, verdicts.verify_now])
def test_a_stale_version_is_refused(world: World, verb: Any) -> None:
    it = an_active_memory(world)

    with refused(VersionConflict, "object_version_old", version=it.version):
        verb(world, about(it, expected_version=1))
    verb(world, about(it, expected_version=it.version))


def test_what_belongs_to_another_tenant_is_not_found(world: World) -> None:
    it = a_memory(world)

    with refused(NotFound, "object_unknown"):
        lives.use(world, Given(it.id, "mallory", BOB))
    assert queries.find(world, owner="mallory") == []
    assert queries.recall(world, "Ann", owner="mallory") == []


def test_a_given_decision_is_linked_and_must_exist(world: World) -> None:
    with refused(NotFound, "decision_unknown"):
        verdicts.contest(world, about(a_memory(world), decision="dec_none"))


def test_recall_tells_how_usable_each_memory_is_and_strict_leaves_out_the_doubtful(world: World) -> None:
    sure = an_active_memory(world)
    doubtful = a_memory(world, content="Ann likes coffee")
    lives.archive(world, about(a_memory(world, content="Ann likes milk")))

    found = queries.recall(world, "ann", owner=OWNER)
    assert [(each.object.id, each.usability.usable) for each in found] == [(sure.id, "yes"), (doubtful.id, "caution")]
    assert [each.object.id for each in queries.recall(world, "ANN", owner=OWNER, strict=True)] == [sure.id]


def test_age_is_a_reason_for_caution_and_never_a_verdict(world: World, clock: VirtualClock) -> None:
    it = an_active_memory(world)
    clock.advance(15 * DAY)

    (found,) = queries.recall(world, "ann", owner=OWNER)
    assert (found.usability.usable, found.usability.why, found.object.state) == ("caution", "due_for_a_look", it.state)


def test_a_list_is_filtered_by_what_is_indexed(world: World) -> None:
    active = an_active_memory(world)
    other = Proposal("memory", "other", subject="Ann", evidence=["chat:1"], risk="high", agent="planner")
    made = propose(world, other, owner=OWNER, caller=CAROL, reason="heard it").object
    contested = verdicts.contest(world, about(made, CAROL))

    def ids(**wanted: Any) -> list[str]:
        return [each.id for each in queries.find(world, owner=OWNER, **wanted)]

    assert ids() == [contested.id, active.id]
    assert ids(status="active") == ids(agent=active.agent) == [active.id]
    assert ids(contested=True) == ids(risk="high") == ids(kind="memory", status="quarantine") == [contested.id]
    assert ids(subject="ANN", limit=1) == [contested.id]
    for wanted in ({"status": "happy"}, {"kind": "dream"}, {"limit": 0}):
        with pytest.raises(InvalidInput):
            ids(**wanted)


def test_a_policy_is_kept_in_versions_and_named_by_entries(world: World) -> None:
    first = policies.set_policy(world, "memory", {"stability": 86_400}, owner=OWNER, caller=CAROL)
    it = confirmed(world, a_memory(world))

    assert (first.version, it.next_action_at) == (1, world.clock.now() + DAY)
    assert entries(world, it)[-1].after["policy"] == 1
    with refused(VersionConflict, "policy_version_old"):
        policies.set_policy(world, "memory", {}, owner=OWNER, caller=CAROL, expected_version=7)
    again = policies.set_policy(world, "memory", {"stability": 86_400}, owner=OWNER, caller=CAROL)
    assert again.version == 1
    mine = policies.set_policy(world, "memory", {"verify_budget": 5}, owner=OWNER, caller=CAROL, agent="planner")
    assert policies.get_policy(world, "memory", owner=OWNER, agent="planner") == mine
    assert policies.get_policy(world, "cognition", owner=OWNER).version == 0
    assert len(policies.find_policies(world, owner=OWNER)) == 5


@pytest.mark.parametrize("settings", [
    {"stability": 0}, {"stability": "long"}, {"target": 1.0}, {"verify_budget": -1}, {"colour": "red"},
    {"half_lives": {"dream": 1}}, {"mode": "wild"}, {"reinstate_after": 3}, {"trusted_sources": [7]}, "nothing",
])  # fmt: skip
def test_an_unreadable_policy_is_refused(world: World, settings: Any) -> None:
    with pytest.raises(InvalidInput):
        policies.set_policy(world, "memory", settings, owner=OWNER, caller=CAROL)


# -- on three databases ------------------------------------------------------------------------------------------------


def test_a_life_on_every_database(database_url: str) -> None:
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    clock = VirtualClock()
    world = World(store, clock, LoadedDice())
    below = an_active_memory(world)
    upper = proposed(world, "experience", "She drank it", rests_on=[f"memory:{below.id}"]).object
    confirmed(world, upper)
    clock.advance(DAY)
    evidence_verbs.add_evidence(world, below.id, ["web:2"], owner=OWNER, caller=BOB)
    verdicts.contest(world, about(below))
    verdicts.clear(world, about(below, CAROL))
    lives.archive(world, about(below))
    lives.reinstate(world, about(below))
    propose_many(world, [Proposal("memory", f"fact {each}") for each in range(120)], owner=OWNER, caller=BOB)

    assert [str(each) for each in check_objects(world)] == []
    assert len(entries(world, below)) >= 9
    assert_seen(world, clock, below, upper)
    store.close()


def assert_seen(world: World, clock: VirtualClock, below: GovernedObject, upper: GovernedObject) -> None:
    """Counts, neighbours, versions and the order by due time are the same on every database."""
    decided = decisions.decide(world, owner=OWNER, action="bring tea", cites=[f"memory:{below.id}"], actor="agent/bob")
    seen = queries.overview(world, owner=OWNER)
    assert (seen.looked_at, seen.complete, seen.late) == (122, True, 0)
    assert {each.state: each.count for each in seen.counts if each.kind == "memory"}["candidate"] == 120
    assert queries.overview(world, owner="bob").counts == ()
    found = queries.links(world, below.id, owner=OWNER)
    assert ([each.id for each in found.carries], found.rests_on) == ([upper.id], ())
    assert [each.id for each in found.decisions] == [decided.decision.id]
    whole = queries.versions(world, below.id, owner=OWNER)
    assert len(whole) > 5
    assert [each.version for each in whole] == sorted((each.version for each in whole), reverse=True)
    assert queries.versions(world, below.id, owner=OWNER, before=whole[2].version) == whole[3:]
    due = queries.find(world, owner=OWNER, order="due", limit=200)
    assert len(due) == 122
    assert [(each.next_action_at, each.number) for each in due] == sorted(
        (each.next_action_at, each.number) for each in due
    )
    third = due[2]
    rest = queries.find(world, owner=OWNER, order="due", limit=200, after=(third.next_action_at, third.number))  # type: ignore[arg-type]
    assert rest == due[3:]
    clock.advance(DAY)
    assert queries.overview(world, owner=OWNER).late > 100


def test_no_count_goes_beyond_its_bound(world: World) -> None:
    propose_many(world, [Proposal("memory", f"fact {each}") for each in range(9)], owner=OWNER, caller=BOB)
    (seen,) = world.store.read(lambda tx: tx.objects.count_states(OWNER, most=5))
    assert (seen.state, seen.count) == ("candidate", 5)
    assert world.store.read(lambda tx: tx.objects.count_due(None, world.clock.now() + DAY, most=4)) == 4
