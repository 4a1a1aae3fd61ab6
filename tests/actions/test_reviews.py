"""The verbs of reviews: a person answers once, before the deadline, and never about their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from horae.actions.governance.decisions import decide, get_decision
from horae.actions.governance.reviews import (
    answer_review,
    ask_review,
    close_overdue,
    find_reviews,
    get_review,
    open_for_object,
)
from horae.actions.jobs.jobs import get
from horae.actions.jobs.machinery import serve_due
from horae.core.access.callers import Caller
from horae.core.governance.reviews import Review
from horae.errors import Conflict, Forbidden, InvalidInput, NotAllowed, NotFound
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.support.governed import CAROL, OWNER, PLANNER, entries, keep, now_of
from tests.support.refusals import refused
from tests.support.repairs import repair

HOUR = timedelta(hours=1)
DAVE = Caller(OWNER, frozenset({"review"}), "user/dave")


def opened(world: World, state: str = "quarantine", **fields: Any) -> Review:
    """Open a review of a memory, as a quarantine does."""
    (it,) = keep(world, "mem_1", **{"state": state, "risk": "low", **fields})

    def write(tx: Any) -> Review:
        after, review = open_for_object(world, tx, it, "quarantine", world.clock.now())
        tx.objects.save([(it, after)])
        assert review is not None
        return review

    return world.store.transact(write)


def test_a_review_is_opened_with_a_deadline_that_a_job_keeps(world: World, clock: VirtualClock) -> None:
    review = opened(world)

    assert (review.state, review.automatic, review.deadline) == ("open", True, clock.now() + HOUR)
    assert get_review(world, review.id, owner=OWNER) == (review, "memory:mem_1")
    job = get(world, f"job_{review.job}")
    assert (job.queue, job.run_at) == ("horae", review.deadline)
    (entry,) = entries(world, verb="open_review")
    assert (entry.object_type, entry.object_id, entry.event_kind) == ("memory", "mem_1", "investigation")


def test_a_review_that_nobody_answers_is_deferred_and_changes_nothing(world: World, clock: VirtualClock) -> None:
    review = opened(world)
    clock.advance(HOUR)

    serve_due(world, "w")

    closed, _ = get_review(world, review.id, owner=OWNER)
    assert (closed.state, closed.answer) == ("closed", "timeout")
    (it,) = world.store.read(lambda tx: tx.objects.named(OWNER, "mem_1"))
    assert it.state == "quarantine"
    with refused(Conflict, "review_answered", id=review.id, answer="timeout"):
        answer_review(world, review.id, "approve", owner=OWNER, person=CAROL)


def test_an_answer_after_the_deadline_does_not_count(world: World, clock: VirtualClock) -> None:
    review = opened(world)
    clock.advance(HOUR)

    with refused(NotAllowed, "review_timed_out", id=review.id):
        answer_review(world, review.id, "approve", owner=OWNER, person=CAROL)

    assert get_review(world, review.id, owner=OWNER)[0].answer == "timeout"


def test_a_review_whose_job_is_gone_is_closed_all_the_same(world: World, clock: VirtualClock) -> None:
    review = opened(world)
    clock.advance(2 * HOUR)
    assert close_overdue(world) == 1
    assert get_review(world, review.id, owner=OWNER)[0].answer == "timeout"


def test_a_review_of_a_decision_about_no_object_is_closed_without_its_job(world: World, clock: VirtualClock) -> None:
    decided = decide(world, owner=OWNER, action="pay the bill").decision
    review = ask_review(world, f"decision:{decided.id}", owner=OWNER, question="really?")
    clock.advance(timedelta(days=400))
    assert repair(world) == 1
    assert get_review(world, review.id, owner=OWNER)[0].answer == "timeout"


@pytest.mark.parametrize(
    ("answer", "state"), [("approve", "verified"), ("reject", "rejected_poisoned"), ("ask_more", "quarantine")]
)
def test_a_persons_answer_clears_or_condemns_what_is_in_quarantine(world: World, answer: Any, state: str) -> None:
    review = opened(world)

    closed = answer_review(world, review.id, answer, owner=OWNER, person=CAROL, note="I called them")

    (it,) = world.store.read(lambda tx: tx.objects.named(OWNER, "mem_1"))
    assert (it.state, closed.state, closed.answer, closed.answered_by) == (state, "closed", answer, "user/carol")
    entry = next(each for each in entries(world, verb="answer_review"))
    assert (entry.reason, entry.after["answer"]) == ("I called them", answer)
    assert (closed.successor is not None) == (answer == "approve")
    with refused(Conflict, "review_answered", answer=answer):
        answer_review(world, review.id, "approve", owner=OWNER, person=CAROL)


def test_an_approval_makes_a_limited_successor(world: World) -> None:
    keep(world, "mem_1", state="stale", risk="high")
    made = decide(world, owner=OWNER, action="pay", cites=["memory:mem_1"], actor="token/6f1c", agent="planner")
    assert (made.decision.outcome, made.review is not None) == ("escalated", True)

    closed = answer_review(world, str(made.review), "approve", owner=OWNER, person=CAROL)

    first = get_decision(world, made.decision.id, owner=OWNER).decision
    second = get_decision(world, str(closed.successor), owner=OWNER)
    assert (first.successor, first.outcome) == (second.decision.id, "escalated")
    assert (second.decision.outcome, second.decision.predecessor, second.decision.review) == (
        "limited", first.id, closed.id,
    )  # fmt: skip
    assert (second.decision.action, [str(each) for each in second.cites]) == ("pay", ["memory:mem_1"])


@pytest.mark.parametrize("caller", [PLANNER, Caller(OWNER, frozenset({"tasks"}), "user/erin")])
def test_who_is_no_person_does_not_answer(world: World, caller: Caller) -> None:
    review = opened(world)
    with refused(Forbidden, "person_needed"):
        answer_review(world, review.id, "approve", owner=OWNER, person=caller)
    assert get_review(world, review.id, owner=OWNER)[0].state == "open"


def test_the_proposer_does_not_answer_about_their_own(world: World) -> None:
    review = opened(world)
    with refused(Forbidden, "review_of_ones_own", actor="user/dave"):
        answer_review(world, review.id, "approve", owner=OWNER, person=DAVE)


def test_who_decided_does_not_approve_it(world: World) -> None:
    keep(world, "mem_1", state="stale", risk="high", proposer="user/erin")
    made = decide(world, owner=OWNER, action="pay", cites=["memory:mem_1"], actor="user/dave")
    with refused(Forbidden, "review_of_ones_own"):
        answer_review(world, str(made.review), "approve", owner=OWNER, person=DAVE)


def test_at_most_three_open_by_themselves_then_one_in_thirty_days(world: World, clock: VirtualClock) -> None:
    keep(world, "mem_1", state="stale", risk="high")
    asked: Any = {"owner": OWNER, "action": "pay", "cites": ["memory:mem_1"], "actor": "token/6f1c"}
    found = []
    for _ in range(5):
        found.append(decide(world, **asked).review)
        clock.advance(2 * HOUR)
        serve_due(world, "w")

    assert [each is not None for each in found] == [True, True, True, False, False]
    clock.advance(timedelta(days=30))
    assert [decide(world, **asked).review is not None for _ in range(2)] == [True, False]


def test_only_one_review_of_an_object_is_open_at_a_time(world: World) -> None:
    review = opened(world)
    again = ask_review(world, "memory:mem_1", owner=OWNER, question="Is it so?", actor="user/erin")
    assert again == review


def test_anybody_may_ask_about_an_object_or_a_decision(world: World) -> None:
    (it,) = keep(world, "exp_1", state="needs_review")
    made = decide(world, owner=OWNER, action="pay").decision
    first = ask_review(world, "experience:exp_1", owner=OWNER, question="Is it so?", actor="token/6f1c")
    second = ask_review(world, f"decision:{made.id}", owner=OWNER, question="Was it right?", actor="token/6f1c")

    answer_review(world, first.id, "approve", owner=OWNER, person=CAROL)
    answer_review(world, second.id, "reject", owner=OWNER, person=CAROL)

    assert now_of(world, it).state == "active"
    assert [review.id for review, _ in find_reviews(world, owner=OWNER)] == [second.id, first.id]
    assert find_reviews(world, owner=OWNER, states=["open"]) == []
    with refused(InvalidInput, "question_missing"):
        ask_review(world, "experience:exp_1", owner=OWNER, question=" ")
    with refused(NotFound, "review_unknown"):
        answer_review(world, "rev_0", "approve", owner=OWNER, person=CAROL)
    with refused(InvalidInput, "choice_unknown"):
        answer_review(world, second.id, "timeout", owner=OWNER, person=CAROL)


def test_nothing_is_approved_on_refuted_ground(world: World) -> None:
    keep(world, "mem_1", state="rejected_poisoned")
    made = decide(world, owner=OWNER, action="pay", cites=["memory:mem_1"], actor="token/6f1c").decision
    review = ask_review(world, f"decision:{made.id}", owner=OWNER, question="May I?", actor="token/6f1c")
    with refused(NotAllowed, "review_ground_refuted"):
        answer_review(world, review.id, "approve", owner=OWNER, person=CAROL)
    assert get_review(world, review.id, owner=OWNER)[0].state == "open"


def test_every_entry_about_high_risk_links_a_decision(world: World) -> None:
    review = opened(world, risk="high")
    answer_review(world, review.id, "approve", owner=OWNER, person=CAROL)

    about = [each for each in entries(world) if each.risk == "high"]
    assert len(about) >= 4
    assert [each.verb for each in about if each.decision is None] == []
