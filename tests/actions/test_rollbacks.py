"""A forged memory takes back what rests on it, and nothing is left out."""

from __future__ import annotations

from typing import Any

import pytest

from horae.actions.governance.decisions import decide, get_decision
from horae.actions.governance.reviews import answer_review, ask_review
from horae.actions.governance.rollbacks import get_rollback, plan_again, preview_rollback, roll_back
from horae.actions.governance.verdicts import Given, reject
from horae.actions.jobs.machinery import serve_due
from horae.errors import Forbidden, NotAllowed, NotFound
from horae.ports.world import World
from tests.support.governed import CAROL, OWNER, PLANNER, entries, keep, link, now_of
from tests.support.refusals import refused


def state_of(world: World, it: Any) -> str:
    return now_of(world, it).state


def test_what_rests_on_a_forged_memory_is_taken_back(world: World) -> None:
    forged, sound = keep(world, "mem_1", state="quarantine") + keep(world, "mem_2")
    first, second, other = keep(world, "exp_1", "exp_2", "exp_3")
    lonely, held, apart = keep(world, "cog_1", "cog_2", "cog_3")
    link(world, (first, forged), (second, forged), (other, sound), (lonely, first))
    link(world, (held, first), (held, other), (apart, other))
    relied = decide(world, owner=OWNER, action="a", cites=["cognition:cog_2"], risk="low").decision
    direct = decide(world, owner=OWNER, action="b", cites=["memory:mem_1"], risk="low").decision
    safe = decide(world, owner=OWNER, action="c", cites=["cognition:cog_3"], risk="low").decision

    done = roll_back(world, "mem_1", owner=OWNER, person=CAROL, reason="made up")

    assert (done.state, done.found, done.moved, done.final) == ("done", 6, 6, 0)
    assert [state_of(world, each) for each in (forged, first, second, other)] == [
        "rejected_poisoned", "invalidated", "invalidated", "active",
    ]  # fmt: skip
    assert [state_of(world, each) for each in (lonely, held, apart)] == [
        "refuted/refuted", "needs_revalidate/uncertain", "active/supported",
    ]  # fmt: skip
    for decision in (relied, direct):
        after = get_decision(world, decision.id, owner=OWNER).decision
        assert after.rolled_back_at is not None
        successor = get_decision(world, str(after.successor), owner=OWNER).decision
        assert (successor.outcome, successor.predecessor) == ("abstained", decision.id)
    assert get_decision(world, safe.id, owner=OWNER).decision == safe
    told = [each for each in entries(world) if each.event_kind == "rollback"]
    assert sorted(each.object_id for each in told if each.verb != "finish_rollback") == sorted(
        ["exp_1", "exp_2", "cog_1", "cog_2", relied.id, direct.id]
    )
    (whole,) = [each for each in told if each.verb == "finish_rollback"]
    assert (whole.object_id, whole.after["found"], whole.after["complete"]) == ("mem_1", 6, True)


def test_what_is_final_already_is_found_and_stays(world: World) -> None:
    (forged,) = keep(world, "mem_1", state="quarantine")
    gone = keep(world, "exp_1", state="archived") + keep(world, "exp_2", state="invalidated")
    (candidate,) = keep(world, "exp_3", state="candidate")
    link(world, *((each, forged) for each in (*gone, candidate)))

    done = roll_back(world, "mem_1", owner=OWNER, person=CAROL)

    assert (done.found, done.moved, done.final) == (3, 1, 2)
    assert [state_of(world, each) for each in (*gone, candidate)] == ["archived", "invalidated", "invalidated"]


def test_a_dry_run_counts_and_changes_nothing(world: World) -> None:
    (forged,) = keep(world, "mem_1", state="quarantine")
    (experience,) = keep(world, "exp_1")
    link(world, (experience, forged))
    made = decide(world, owner=OWNER, action="a", cites=["experience:exp_1"], risk="low").decision

    found = preview_rollback(world, "mem_1", owner=OWNER)

    assert (found.experiences, found.cognitions, found.decisions) == (1, 0, 1)
    assert found.first == ("experience:exp_1", f"decision:{made.id}")
    assert state_of(world, experience) == "active"
    with refused(NotFound, "object_unknown"):
        preview_rollback(world, "mem_9", owner=OWNER)


def test_only_a_person_other_than_the_proposer_rolls_back_what_is_suspected(world: World) -> None:
    keep(world, "mem_1", state="quarantine", proposer="user/carol")
    keep(world, "mem_2", state="active")
    with refused(Forbidden, "person_needed"):
        roll_back(world, "mem_1", owner=OWNER, person=PLANNER)
    with refused(Forbidden, "object_of_ones_own"):
        roll_back(world, "mem_1", owner=OWNER, person=CAROL)
    with pytest.raises(NotAllowed):
        roll_back(world, "mem_2", owner=OWNER, person=CAROL)


def test_more_than_500_are_taken_back_by_a_job_that_keeps_its_place(world: World) -> None:
    """Decision 10."""
    (forged,) = keep(world, "mem_1", state="quarantine")
    experiences = keep(world, *(f"exp_{n}" for n in range(505)))
    cognitions = keep(world, *(f"cog_{n}" for n in range(4)))
    link(world, *((each, forged) for each in experiences))
    link(world, *zip(cognitions, experiences, strict=False))
    pay: Any = {"owner": OWNER, "action": "pay", "agent": "planner"}
    for n in range(4):
        decide(world, cites=[f"cognition:cog_{n}"], risk="low", **pay)

    begun = roll_back(world, "mem_1", owner=OWNER, person=CAROL)

    assert (begun.state, begun.found, state_of(world, forged)) == ("open", 0, "rejected_poisoned")
    assert decide(world, risk="high", **pay).decision.outcome == "blocked"

    def lose_job(tx: Any) -> None:
        tx.jobs.end_waiting(tx.jobs.lock(begun.job), reason="lost", now=world.clock.now())

    world.store.transact(lose_job)
    assert (plan_again(world), plan_again(world)) == (1, 0)
    found = []
    for _ in range(4):
        assert serve_due(world, "w") == 1
        found.append(get_rollback(world, begun.id, owner=OWNER)[1].found)
    about, done = get_rollback(world, begun.id, owner=OWNER)
    assert about == "memory:mem_1"
    assert (found, done.state) == ([500, 505, 509, 513], "done")
    assert (done.found, done.moved, done.final) == (513, 513, 0)
    assert {state_of(world, each) for each in experiences[::100]} == {"invalidated"}
    assert {state_of(world, each) for each in cognitions} == {"refuted/refuted"}
    assert decide(world, risk="high", **pay).decision.outcome == "limited"
    (whole,) = entries(world, verb="finish_rollback")
    assert whole.after["complete"] is True


def test_a_memory_that_a_person_rejects_takes_back_what_rests_on_it(world: World) -> None:
    """Forged starts the rollback, by whichever door."""
    first, second = keep(world, "mem_1", "mem_2", state="quarantine")
    above = keep(world, "exp_1", "exp_2")
    link(world, *zip(above, (first, second), strict=True))

    reject(world, Given("mem_1", OWNER, CAROL, reason="made up"))
    review = ask_review(world, "memory:mem_2", owner=OWNER, question="Is it so?", actor="user/erin")
    answer_review(world, review.id, "reject", owner=OWNER, person=CAROL)

    assert [state_of(world, each) for each in above] == ["invalidated", "invalidated"]
    assert len(entries(world, verb="finish_rollback")) == 2
