"""Jobs of governed objects: gates at the start, and one transaction for an ending and its object (S0-13 to S0-16)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from horae.actions.governance import evidence as evidence_verbs
from horae.actions.governance import lives, queries, verdicts
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.keeper import do_unclaimed
from horae.actions.governance.personas import set_persona
from horae.actions.governance.plans import plan_missing, replan
from horae.actions.governance.policies import set_policy
from horae.actions.governance.proposals import propose, propose_many
from horae.actions.governance.verdicts import Given
from horae.actions.jobs import acts, claims, endings, jobs
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.queues import pause_queue, resume_queue
from horae.actions.jobs.requests import Request
from horae.actions.rules import job_rules
from horae.core.access.callers import Caller
from horae.core.governance.objects import GovernedObject
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.payloads import encode
from horae.errors import LeaseLost, NotAllowed
from horae.ports.store import Tx
from horae.ports.world import World
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.refusals import refused
from tests.support.templates import open_in_memory

OWNER = "alice"
DAY = timedelta(days=1)
LEASE = timedelta(seconds=30)
BOB = Caller(OWNER, frozenset({"tasks"}), "agent/bob", agent="bob")
CAROL = Caller(OWNER, frozenset({"review"}), "user/carol")


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    """A world whose jobs of objects go through their rule; whatever a test does, the invariants hold at its end."""
    store, dice = open_in_memory(), LoadedDice()
    made = World(store, clock, dice, rules=job_rules(dice))
    yield made
    assert [str(each) for each in check_objects(made)] == []
    store.close()


def a_memory(world: World, content: str = "Ann likes tea", kind: Any = "memory", **fields: Any) -> GovernedObject:
    given = {"subject": "Ann", "evidence": ["chat:1"]} | fields
    return propose(world, Proposal(kind, content, **given), owner=OWNER, caller=BOB).object


def taken(world: World, *, worker: str = "w1", queue: str = "governance") -> list[Job]:
    return claims.claim(world, queue, 100, worker_id=worker, lease=LEASE)


def take_one(world: World) -> Job:
    (job,) = taken(world)
    return job


def now_of(world: World, it: GovernedObject) -> GovernedObject:
    return queries.get(world, it.id, owner=OWNER, kind=it.kind).object


def entries(world: World, it: GovernedObject) -> list[Any]:
    return [entry for _, entry in reversed(queries.history(world, it.id, owner=OWNER, kind=it.kind).entries)]


def verbs_of(world: World, it: GovernedObject) -> list[str]:
    return [each.verb for each in entries(world, it)]


def active(world: World, **fields: Any) -> GovernedObject:
    it = a_memory(world, **fields)
    endings.ack(world, take_one(world).id, 1)
    return lives.use(world, Given(it.id, OWNER, BOB))


# -- endings -----------------------------------------------------------------------------------------------------------


def test_an_ack_moves_the_object_and_plans_its_next_job_in_the_same_transaction(world: World) -> None:
    """S0-14 to S0-16: the state, the next action and the link to the caller's own event."""
    it = a_memory(world)
    job = take_one(world)
    endings.ack(world, job.id, job.token, result="succeeded", audit_event_id="aud_789")
    after = now_of(world, it)
    planned = jobs.get(world, f"job_{after.job}")

    assert (after.state, after.next_action) == ("verified", "revalidate")
    assert (planned.action, planned.run_at) == ("revalidate", world.clock.now() + 14 * DAY)
    assert planned.id != job.id
    assert jobs.get(world, job.id).state == "succeeded"
    assert verbs_of(world, it) == ["proposed", "admitted", "verified"]
    last = entries(world, it)[-1]
    assert (last.job, last.after["audit_event_id"], last.actor) == (job.id, "aud_789", "worker/w1")


def test_the_caller_s_next_action_at_is_written_back_and_planned(world: World) -> None:
    """S0-15."""
    it = a_memory(world)
    job = take_one(world)
    at = world.clock.now() + 3 * DAY
    endings.ack(world, job.id, job.token, next_action_at=at)

    assert now_of(world, it).next_action_at == at
    assert jobs.get(world, f"job_{now_of(world, it).job}").run_at == at


def test_a_next_action_beyond_the_end_of_uncertainty_does_not_hold(world: World) -> None:
    it = a_memory(world, kind="cognition")
    job = take_one(world)
    endings.ack(
        world, job.id, job.token, result={"verdict": "inconclusive"}, next_action_at=world.clock.now() + 90 * DAY
    )

    assert now_of(world, it).next_action_at == world.clock.now() + 7 * DAY


@pytest.mark.parametrize(("verdict", "state"), [
    ({"verdict": "confirmed", "evidence": ["web:1"], "confidence": 0.9}, "verified"),
    ({"verdict": "refuted", "evidence": ["web:2"]}, "quarantine"), ({"verdict": "inconclusive"}, "candidate"),
    ({"verdict": "unknowable", "note": "nobody was there"}, "candidate"),
])  # fmt: skip
def test_a_verdict_in_the_result_decides(world: World, verdict: dict[str, Any], state: str) -> None:
    it = a_memory(world)
    job = take_one(world)
    endings.ack(world, job.id, job.token, result=verdict)

    assert now_of(world, it).state == state
    last = next(each for each in reversed(entries(world, it)) if "verdict" in each.after)
    assert (last.after["verdict"], last.after["verifier"]) == (verdict["verdict"], "worker/w1")


def test_without_a_verdict_the_stored_evidence_decides(world: World) -> None:
    bare = a_memory(world, evidence=[])
    job = take_one(world)
    endings.ack(world, job.id, job.token, result={"pages": 12})

    assert (now_of(world, bare).state, now_of(world, bare).inconclusives) == ("candidate", 1)
    assert verbs_of(world, bare)[-1] == "unchanged"


def test_a_failure_is_tried_again_and_a_dead_letter_leaves_the_object_stalled_but_planned(
    world: World, clock: VirtualClock
) -> None:
    """S0-18 to S0-20, and decision 6: a dying verifier never stops ageing."""
    it = a_memory(world)
    for _ in range(2):
        job = take_one(world)
        after = endings.fail(world, job.id, job.token, "Ann's registry is down")
        assert now_of(world, it).next_action_at == after.run_at
        clock.move_to(after.run_at)
    job = take_one(world)
    after = endings.fail(world, job.id, job.token, "Ann's registry is down")

    kept = now_of(world, it)
    assert (after.state, kept.stalled, kept.next_action) == ("dead", True, "verify")
    assert kept.next_action_at == clock.now() + 7 * DAY
    assert kept.job != job.number
    assert verbs_of(world, it) == ["proposed", "admitted", "failed", "admitted", "failed", "admitted", "dead"]
    assert entries(world, it)[-1].reason == "Ann's registry is down"
    (death,) = [each for _, each in find_jobs_entries(world, job)]
    assert death.reason is None  # it may speak of a person, and could not be erased here


def find_jobs_entries(world: World, job: Job) -> list[Any]:
    return world.store.read(lambda tx: tx.audit.find(object_id=job.id, limit=10, before=None, object_type="job"))


def test_a_stalled_object_recovers_with_the_next_verdict(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    job = take_one(world)
    endings.fail(world, job.id, job.token, "broken", final=True)
    clock.advance(7 * DAY)
    again = take_one(world)
    endings.ack(world, again.id, again.token, result={"verdict": "confirmed"})

    assert (now_of(world, it).state, now_of(world, it).stalled) == ("verified", False)


def test_a_lost_job_comes_back_with_its_object(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    take_one(world)
    clock.advance(2 * LEASE)
    ((_, dead),) = endings.lose_expired(world)

    assert (dead, verbs_of(world, it)[-1]) == (False, "lost")
    assert now_of(world, it).next_action_at == clock.now()


def test_a_zombie_s_ack_changes_nothing(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    old = take_one(world)
    clock.advance(2 * LEASE)
    endings.lose_expired(world)
    take_one(world)
    before = now_of(world, it)

    with pytest.raises(LeaseLost):
        endings.ack(world, old.id, old.token, result={"verdict": "refuted"})
    assert now_of(world, it) == before


def test_evidence_during_a_verification_overtakes_its_verdict(world: World) -> None:
    it = a_memory(world)
    job = take_one(world)
    evidence_verbs.add_evidence(world, it.id, ["web:9"], owner=OWNER, caller=BOB)
    endings.ack(world, job.id, job.token, result={"verdict": "refuted"})
    after = now_of(world, it)

    assert (after.state, after.new_evidence, after.next_action_at) == ("candidate", 1, world.clock.now())
    assert verbs_of(world, it)[-1] == "overtaken"


def test_using_a_memory_does_not_overtake_its_verification(world: World, clock: VirtualClock) -> None:
    it = active(world)
    clock.advance(14 * DAY)
    job = take_one(world)
    lives.use(world, Given(it.id, OWNER, BOB))
    endings.ack(world, job.id, job.token, result={"verdict": "confirmed"})

    assert (now_of(world, it).state, now_of(world, it).stability) == ("active", 28 * DAY)


def test_an_object_that_was_retracted_meanwhile_takes_no_verdict(world: World) -> None:
    it = a_memory(world)
    job = take_one(world)
    lives.retract(world, Given(it.id, OWNER, BOB))
    endings.ack(world, job.id, job.token, result={"verdict": "confirmed"})

    assert (now_of(world, it).state, now_of(world, it).next_action) == ("retracted", None)
    assert taken(world) == []


@pytest.mark.parametrize("answer", [
    {"verdict": "yes"}, {"verdict": None}, {"verdict": "confirmed", "evidence": [""]}, {"verdict": "confirmed", "x": 1},
    {"verdict": "confirmed", "confidence": 7}, {"verdict": "refuted", "cost": {"calls": -1}},
])  # fmt: skip
def test_an_unreadable_verdict_is_a_failed_attempt_and_in_the_end_a_dead_letter(
    world: World, clock: VirtualClock, answer: dict[str, Any]
) -> None:
    it = a_memory(world)
    for _ in range(3):
        job = take_one(world)
        endings.settle(world, [(job, Outcome("succeeded", result=as_json(answer)))])
        clock.advance(timedelta(hours=1))

    assert (jobs.get(world, f"job_{it.job}").state, now_of(world, it).state, now_of(world, it).stalled) == (
        "dead", "candidate", True
    )  # fmt: skip


def as_json(value: Any) -> str:
    import json

    return json.dumps(value)


def test_neighbours_in_one_batch_do_not_suffer_from_a_bad_one(world: World) -> None:
    good, bad = a_memory(world), a_memory(world, "Ann likes milk")
    batch = {job.object_id: job for job in taken(world)}
    endings.settle(world, [
        (batch[good.id], Outcome("succeeded", result=as_json({"verdict": "confirmed"}))),
        (batch[bad.id], Outcome("succeeded", result=as_json({"verdict": "maybe"}))),
    ])  # fmt: skip

    assert (now_of(world, good).state, now_of(world, bad).state) == ("verified", "candidate")


def test_a_memory_and_what_rests_on_it_may_end_in_one_batch(world: World) -> None:
    """The experience is judged as it was looked at, and then questioned, because its ground is suspected."""
    ground = active(world)
    above = a_memory(world, "Tea calms Ann", kind="experience", id="exp_1", rests_on=[f"memory:{ground.id}"])
    verdicts.verify_now(world, Given(ground.id, OWNER, CAROL))
    refuted = Outcome("succeeded", result=encode({"verdict": "refuted", "evidence": ["web:1"]}))
    confirmed = Outcome("succeeded", result=encode({"verdict": "confirmed", "evidence": ["web:2"]}))
    held = taken(world)
    endings.settle(world, [(job, refuted if job.object_id == ground.id else confirmed) for job in held])

    assert {job.object_id for job in held} == {ground.id, above.id}
    assert now_of(world, ground).state == "quarantine"
    assert now_of(world, above).state == "needs_review"
    assert "suspected" in verbs_of(world, ground)
    assert verbs_of(world, above)[-2:] == ["promoted", "questioned"]


def test_a_batch_of_a_hundred_and_one_archives_stops_at_the_cap_of_the_day(world: World, clock: VirtualClock) -> None:
    """G9: the rest goes into the archive on the next day."""
    expiry = clock.now() + timedelta(hours=1)
    many = [Proposal("memory", f"fact {number}", expires_at=expiry) for number in range(101)]
    propose_many(world, many, owner=OWNER, caller=BOB)
    clock.advance(timedelta(hours=1))
    for _ in range(3):
        endings.settle(world, [(job, Outcome("succeeded")) for job in taken(world)])

    def count(status: str) -> int:
        return len(queries.find(world, owner=OWNER, status=status, limit=1000))

    assert (count("archived"), count("candidate")) == (100, 1)
    clock.advance(DAY)
    endings.settle(world, [(job, Outcome("succeeded")) for job in taken(world)])
    assert count("archived") == 101


def test_two_verifiers_decide_about_a_suspected_memory(world: World, clock: VirtualClock) -> None:
    it = a_memory(world, tamper=0.9)
    for name in ("one", "two"):
        (job,) = taken(world, worker=name)
        endings.ack(world, job.id, job.token, result={"verdict": "refuted", "evidence": [f"web:{name}"]})
        clock.advance(DAY)

    assert now_of(world, it).state == "rejected_poisoned"


# -- gates -------------------------------------------------------------------------------------------------------------


def test_a_gate_puts_a_high_risk_job_back_ever_later_and_then_asks_a_person(world: World, clock: VirtualClock) -> None:
    """S0-34: read fresh, not as it was when the job was planned."""
    it = a_memory(world, "the password is tea", risk="high")
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])
    waits = []
    for _ in range(4):
        assert taken(world) == []
        kept = now_of(world, it)
        assert kept.next_action_at is not None
        waits.append(kept.next_action_at - clock.now())
        clock.move_to(kept.next_action_at)

    assert waits == [timedelta(hours=1), timedelta(hours=4), DAY, DAY]
    assert (jobs.get(world, f"job_{it.job}").attempt, jobs.runs(world, f"job_{it.job}")) == (0, [])
    assert [each.kind for each in world.store.read(lambda tx: tx.reviews.of([it.number]))] == ["gate"]
    assert [each.event_kind for each in entries(world, it) if each.verb == "put_back"] == ["decision_gate"] * 4


def test_a_job_that_was_put_back_is_asked_about_at_once_when_the_gate_changes(world: World) -> None:
    it = a_memory(world, "the password is tea", risk="high")
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])
    assert taken(world) == []
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["lies"])
    serve_due(world, "keeper")

    assert now_of(world, it).next_action_at == world.clock.now()
    assert len(taken(world)) == 1


def test_a_gate_that_closes_while_the_job_runs_lets_nothing_through(world: World, clock: VirtualClock) -> None:
    it = a_memory(world, "the password is tea", risk="high")
    job = take_one(world)
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])
    after = endings.ack(world, job.id, job.token, result={"verdict": "confirmed"})

    assert (after.state, after.attempt, after.run_at) == ("queued", 0, clock.now() + timedelta(hours=1))
    assert (now_of(world, it).state, now_of(world, it).put_backs) == ("candidate", 1)


def test_a_refuted_cognition_closes_the_gate_of_what_it_rests_on(world: World) -> None:
    it = a_memory(world, risk="high")
    rule = a_memory(world, "Tea it is", kind="cognition", rests_on=[f"memory:{it.id}"])
    verdicts.reject(world, Given(rule.id, OWNER, CAROL))

    assert {job.object_id for job in taken(world)}.isdisjoint({it.id})


def test_lower_risk_passes_no_gate(world: World) -> None:
    a_memory(world, "the password is tea")
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])

    assert len(taken(world)) == 1


def test_an_approved_review_opens_the_gate_once(world: World, clock: VirtualClock) -> None:
    from horae.actions.governance.reviews import answer_review

    it = a_memory(world, "the password is tea", risk="high")
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])
    for _ in range(3):
        assert taken(world) == []
        clock.move_to(now_of(world, it).next_action_at or clock.now())
    clock.advance(timedelta(0))
    (review,) = world.store.read(lambda tx: tx.reviews.of([it.number], only_open=False))
    if review.state == "open" and clock.now() < review.deadline:
        answer_review(world, review.id, "approve", owner=OWNER, person=CAROL)
        assert len(taken(world)) == 1


# -- document 000's door -----------------------------------------------------------------------------------------------


def asked(object_id: str, action: str, run_at: datetime, **more: Any) -> Request:
    about: Any = {"object_type": "memory", "object_id": object_id, "action": action, "run_at": run_at}
    return Request("govern", queue="scheduler", owner=OWNER, **about, **more)


def test_a_job_asked_for_a_stored_object_is_its_one_job_moved(world: World, clock: VirtualClock) -> None:
    it = active(world)
    at = clock.now() + DAY
    made = jobs.enqueue(world, asked(it.id, "archive", at), actor="token/x")
    again = jobs.enqueue(world, asked(it.id, "archive", at), actor="token/x")
    after = now_of(world, it)

    assert (made.number, made.deduplicated, again.deduplicated) == (it.job, False, True)
    assert (made.job.action, made.job.run_at, made.job.queue) == ("archive", at, "scheduler")
    assert (after.next_action, after.next_action_at, after.queue) == ("archive", at, "scheduler")
    clock.move_to(at)
    (job,) = taken(world, queue="scheduler")
    endings.ack(world, job.id, job.token)
    assert now_of(world, it).state == "archived"  # asked for, so that it needs neither crossing nor expiry


def test_a_job_about_an_object_that_is_stored_nowhere_is_a_plain_job_with_entries(
    world: World, clock: VirtualClock
) -> None:
    made = jobs.enqueue(world, asked("cg_1", "verify", clock.now()), actor="token/x")
    (job,) = taken(world, queue="scheduler")
    endings.ack(world, job.id, job.token, next_action_at=clock.now() + DAY, audit_event_id="aud_1")
    found = world.store.read(lambda tx: tx.audit.find(object_id="cg_1", limit=10, before=None, owner=OWNER))

    assert [each.verb for _, each in reversed(found)] == ["planned", "admitted", "acknowledged"]
    assert {each.job for _, each in found} == {made.id}
    assert [each.actor for _, each in reversed(found)] == ["token/x", "worker/w1", "worker/w1"]


def test_every_end_of_a_plain_job_about_an_object_leaves_an_entry(world: World, clock: VirtualClock) -> None:
    jobs.enqueue(world, asked("cg_1", "verify", clock.now()))
    (job,) = taken(world, queue="scheduler")
    endings.fail(world, job.id, job.token, "no", retry_delay=timedelta(0))
    (job,) = taken(world, queue="scheduler")
    clock.advance(2 * LEASE)
    endings.lose_expired(world)
    (job,) = taken(world, queue="scheduler")
    endings.fail(world, job.id, job.token, "no", final=True)
    found = world.store.read(lambda tx: tx.audit.find(object_id="cg_1", limit=20, before=None, owner=OWNER))

    assert [each.verb for _, each in reversed(found)] == [
        "planned", "admitted", "failed", "admitted", "lost", "admitted", "dead",
    ]  # fmt: skip


# -- a person's verbs --------------------------------------------------------------------------------------------------


def test_a_reschedule_moves_the_object_too(world: World, clock: VirtualClock) -> None:
    it = active(world)
    at = clock.now() + 2 * DAY
    moved = jobs.reschedule(world, f"job_{it.job}", run_at=at, actor="user/carol", reason="later")

    assert (moved.run_at, now_of(world, it).next_action_at) == (at, at)
    with refused(NotAllowed, "object_job_priority"):
        jobs.reschedule(world, f"job_{it.job}", priority="high")


def test_cancelling_or_reviving_the_job_of_an_object_is_refused_with_advice(world: World) -> None:
    it = a_memory(world)
    with refused(NotAllowed, "job_of_object", object_id=it.id):
        jobs.cancel(world, f"job_{it.job}")
    job = take_one(world)
    endings.fail(world, job.id, job.token, "no", final=True)
    with refused(NotAllowed, "job_of_object"):
        jobs.revive(world, job.id)


def test_a_bulk_act_leaves_the_jobs_of_objects_alone(world: World) -> None:
    it = a_memory(world)
    jobs.enqueue(world, Request("mail", queue="governance", owner=OWNER))
    act = acts.start(world, "cancel", "queue:governance")
    while acts.get(world, act.id).state == "running":
        serve_due(world, "keeper")
    done = acts.get(world, act.id)

    assert (done.changed, done.skipped_for) == (1, {"object": 1})
    assert jobs.get(world, f"job_{it.job}").state == "queued"


def test_a_person_s_reschedule_during_a_put_back_wins(world: World, clock: VirtualClock) -> None:
    it = a_memory(world, "the password is tea", risk="high")
    set_persona(world, owner=OWNER, person=CAROL, boundaries=["password"])
    assert taken(world) == []
    at = clock.now() + 3 * DAY
    jobs.reschedule(world, f"job_{it.job}", run_at=at)

    assert now_of(world, it).next_action_at == at


# -- plans -------------------------------------------------------------------------------------------------------------


def test_a_new_policy_is_followed_at_once_by_a_replan(world: World, clock: VirtualClock) -> None:
    it = active(world)
    set_policy(world, "memory", {"stability": 14 * 86_400, "target": 0.95}, owner=OWNER, caller=CAROL)
    would = replan(world, owner=OWNER)
    assert (len(would.moved), now_of(world, it)) == (1, it)
    replan(world, owner=OWNER, dry_run=False, reason="checked less often")
    after = now_of(world, it)
    written = world.store.read(lambda tx: tx.audit.find(object_id=it.id, limit=10, before=None))

    assert ("replanned", "checked less often") in [(entry.verb, entry.reason) for _, entry in written]
    assert after.next_action_at is not None
    assert clock.now() < after.next_action_at < clock.now() + 6 * DAY
    assert replan(world, owner=OWNER).moved == ()


def test_an_object_without_its_job_gets_another_one_when_it_is_due(world: World, clock: VirtualClock) -> None:
    """After a table was edited by hand, or an older copy of some tables was restored."""
    it = a_memory(world)
    later = a_memory(world, next_action_at=clock.now() + DAY)

    def lose_them(tx: Tx) -> None:
        for job in tx.jobs.lock_many([it.job or 0, later.job or 0]):
            tx.jobs.end_waiting(job, reason="by hand", now=world.clock.now())

    world.store.transact(lose_them)
    assert len(check_objects(world)) >= 2
    assert plan_missing(world) == 1
    assert plan_missing(world) == 0
    clock.advance(DAY)
    assert plan_missing(world) == 1
    assert check_objects(world) == []


@pytest.mark.parametrize("kind", ["memory", "experience", "cognition"])
@pytest.mark.parametrize("assume", ["none", "confirmed", "inconclusive", "refuted"])
def test_a_forecast_equals_the_same_days_lived_through(
    world: World, clock: VirtualClock, kind: str, assume: Any
) -> None:
    """Governance.md 4: if nothing new arrives."""
    it = a_memory(world, kind=kind)
    until = clock.now() + 400 * DAY
    foreseen = queries.forecast(world, it.id, owner=OWNER, kind=kind, until=until, assume=assume)
    lived = []
    while (kept := now_of(world, it)).next_action_at is not None and kept.next_action_at <= until:
        clock.move_to(kept.next_action_at)
        job = take_one(world)
        looks = job.action in ("verify", "revalidate", "reinstate-check") and job.payload["look"]
        result = {"verdict": assume} | ({"counterexample": "survived"} if assume == "confirmed" else {})
        endings.ack(world, job.id, job.token, result=result if looks and assume != "none" else None)
        lived.append((clock.now(), job.action, now_of(world, it).state))

    assert lived == [(step.at, step.action, step.state) for step in foreseen]


# -- the keeper --------------------------------------------------------------------------------------------------------


def test_an_action_that_nobody_claims_for_an_hour_is_done_by_the_keeper(world: World, clock: VirtualClock) -> None:
    """Decision 6: document 000's queue without a worker never stops ageing."""
    it = a_memory(world)
    clock.advance(timedelta(minutes=59))
    assert do_unclaimed(world) == 0
    clock.advance(timedelta(minutes=1))

    assert do_unclaimed(world) == 1
    assert (now_of(world, it).state, entries(world, it)[-1].actor) == ("verified", "worker/keeper")
    assert entries(world, it)[-1].after["verifier"] == "built-in"
    assert do_unclaimed(world) == 0


def test_the_keeper_leaves_a_paused_queue_and_running_jobs_alone(world: World, clock: VirtualClock) -> None:
    a_memory(world)
    pause_queue(world, "governance", actor="user/carol")
    clock.advance(timedelta(hours=2))

    assert do_unclaimed(world) == 0
    resume_queue(world, "governance", actor="user/carol")
    take_one(world)
    assert do_unclaimed(world) == 0
