"""The verbs of reviews: questions to a person, each closed once, by an answer or by its deadline.

A job of Horae's own keeps the deadline. Nothing waits for a review: an object's own time rules go on, and a review that
was not answered in time changes nothing. Objects are locked before their reviews.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

from horae.actions.governance.moves import move_object
from horae.actions.governance.object_writer import By, ObjectWriter
from horae.actions.governance.reasons import private_reason, reason_text
from horae.actions.governance.rollbacks import begin_rollback
from horae.actions.governance.rulings import (
    DECISION,
    cited_by,
    decision_about,
    draft,
    judge,
    lock_cited,
    write_decision,
)
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.governance.decisions import Decision
from horae.core.governance.gates import Ruling
from horae.core.governance.objects import GovernedObject
from horae.core.governance.references import reference
from horae.core.governance.review_rules import answered_event, may_open
from horae.core.governance.reviews import ANSWERED_WITHIN, ANSWERS, Answer, Review, ReviewKind, ReviewState
from horae.core.jobs.job import SYSTEM, NewJob
from horae.core.jobs.machinery import MACHINERY, OWN_NAMES, PERSISTENT, REVIEW
from horae.core.jobs.payloads import encode
from horae.errors import Conflict, Forbidden, InvalidInput, NotAllowed, NotFound
from horae.ports.store import Tx
from horae.ports.world import HasDice, World

PREFIX = "rev_"
ID_LENGTH = 12
MACHINE = "system/reviews"
STATES: tuple[ReviewState, ...] = get_args(ReviewState)
GIVEN: tuple[Answer, ...] = tuple(each for each in ANSWERS if each != "timeout")  # what a person can answer


# -- open --------------------------------------------------------------------------------------------------------------


def ask_review(world: World, about: str, *, owner: str, question: str, actor: str = SYSTEM) -> Review:
    """Ask a person about an object or a decision; where that is asked already, return the open review."""
    asked, text, now = reference(about), reason_text(question), world.clock.now()
    if not text:
        raise InvalidInput("question_missing")

    def write(tx: Tx) -> Review:
        if asked.kind == DECISION:
            decision = tx.decisions.get(owner, asked.id, lock=True)
            if decision is None:
                raise NotFound("decision_unknown", id=asked.id)
            return _open(world, tx, "asked", now, actor, decision=decision, question=text)
        (it,) = lock_cited(tx, owner, [asked])
        known = next(iter(tx.reviews.of([it.number])), None)
        return known or _open(world, tx, "asked", now, actor, it=it, question=text)

    opened = world.route(owner=owner).store.transact(write)
    world.route(owner=owner).store.wake([MACHINERY])
    return opened


def open_for_object(
    world: HasDice, tx: Tx, it: GovernedObject, kind: ReviewKind, now: datetime, *, decision: Decision | None = None
) -> tuple[GovernedObject, Review | None]:
    """Open a review of a locked object without a person asking for it, if it may be.

    Return the object as it is to be saved, which counts the review.
    """
    if not may_open(it, now) or tx.reviews.of([it.number]):
        return it, None
    opened = _open(world, tx, kind, now, MACHINE, it=it, decision=decision, automatic=True)
    return replace(it, reviews=it.reviews + 1, reviewed_at=now), opened


def open_for_decision(
    world: HasDice, tx: Tx, decision: Decision, objects: Sequence[GovernedObject], now: datetime
) -> Review | None:
    """Ask a person about a decision that was escalated; counted with the object that made it uncertain."""
    it = next((each for each in objects if each.standing == "uncertain"), None)
    if it is None:
        return None
    after, opened = open_for_object(world, tx, it, "decision", now, decision=decision)
    if after != it:
        tx.objects.save([(it, after)])
    return opened


def _open(
    world: HasDice,
    tx: Tx,
    kind: ReviewKind,
    now: datetime,
    actor: str,
    *,
    it: GovernedObject | None = None,
    decision: Decision | None = None,
    question: str | None = None,
    automatic: bool = False,
) -> Review:
    about = it or decision
    assert about is not None
    linked = None if decision is None else decision.id
    if it is not None and linked is None:
        linked = decision_about(world, tx, it, "review", now, actor)
    review = Review(
        0, about.owner, PREFIX + world.dice.name(ID_LENGTH), kind, now, actor, now + ANSWERED_WITHIN,
        object=None if it is None else it.number, decision=linked, agent=about.agent, automatic=automatic,
        question=question,
    )  # fmt: skip
    kept = tx.reviews.add(review)
    kept = replace(kept, job=_plan(tx, kept))
    tx.reviews.save(kept)
    facts = {"kind": kind, "deadline": kept.deadline.isoformat()}
    tx.audit.append(_review_entry(world, kept, it, "open_review", now, actor, facts))
    return kept


def _plan(tx: Tx, review: Review) -> int:
    """Plan the job that closes a review at its deadline."""
    new = NewJob(
        handler=REVIEW,
        payload=encode({"owner": review.owner, "review": review.id}),
        queue=MACHINERY,
        band=0,
        run_at=review.deadline,
        planned_at=review.deadline,
        owner=review.owner,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
        unique=f"{OWN_NAMES}review:{review.number}",
    )
    return tx.jobs.insert([new], review.opened_at)[0].number


# -- close -------------------------------------------------------------------------------------------------------------


def answer_review(
    world: World, review_id: str, answer: Answer, *, owner: str, person: Caller, note: str = ""
) -> Review:
    """Answer a review as a person; the first answer counts, and after the deadline none does."""
    person.require_person()
    if answer not in GIVEN:
        raise InvalidInput("choice_unknown", name="answer", value=repr(answer)[:40], choices=GIVEN)
    text = reason_text(note)

    def write(tx: Tx) -> Review:
        review, it, decision = _lock(tx, owner, review_id)
        now = world.clock.now()
        if review.state == "closed":
            raise Conflict("review_answered", id=review.id, answer=review.answer, answered_by=review.answered_by)
        if now >= review.deadline:
            return _time_out(world, tx, review, it, now)
        _refuse_interested(review, it, decision, person.actor)
        closed = replace(
            review, state="closed", answer=answer, answered_at=now, answered_by=person.actor, note=text or None
        )
        tx.audit.append(_review_entry(world, review, it, "answer_review", now, person.actor, {"answer": answer}, text))
        if answer == "approve":
            closed = replace(closed, successor=_approve(world, tx, closed, it, decision, now).id)
        elif it is not None:
            _move(world, tx, closed, it, now)
        tx.reviews.save(closed)
        _forget(tx, review, now)
        return closed

    closed = world.route(owner=owner).store.transact(write)
    if closed.answer == "timeout":
        raise NotAllowed("review_timed_out", id=closed.id, deadline=closed.deadline.isoformat())
    return closed


def _approve(
    world: World, tx: Tx, review: Review, it: GovernedObject | None, decision: Decision | None, now: datetime
) -> Decision:
    """Let an approval move the object, and write the decision that it makes: limited, whatever the risk."""
    actor = review.answered_by or SYSTEM
    moved = None if it is None else _move(world, tx, review, it, now)
    objects = cited_by(tx, decision) if decision is not None else [] if moved is None else [moved]
    first = decision or moved
    assert first is not None
    action = decision.action if decision is not None else f"review {first_reference(moved)}"
    ruling = judge(tx, first.owner, first.agent, objects, first.risk, action)
    if ruling.gates.rollback_open:
        raise NotAllowed("review_during_rollback", id=review.id)
    if ruling.outcome == "abstained":
        raise NotAllowed("review_ground_refuted", id=review.id)
    granted = Ruling("limited", "conservative", f"approved by {actor}; without it: {ruling.outcome}", ruling.gates)
    links = {"review": review.id, "predecessor": None if decision is None else decision.id}
    made = draft(world, first.owner, first.agent, action, first.risk, granted, objects, now, actor, **links)
    kept = write_decision(world, tx, made, objects, reason=review.note or "")
    if decision is not None:
        tx.decisions.save(replace(decision, successor=kept.id))
    return kept


def first_reference(it: GovernedObject | None) -> str:
    return "" if it is None else f"{it.kind}:{it.id}"


def _move(world: World, tx: Tx, review: Review, it: GovernedObject, now: datetime) -> GovernedObject:
    """Move an object as the answer says, or leave it as it is."""
    event = None if review.answer is None else answered_event(it, review.answer)
    if event is None:
        return it
    evidence = (f"review:{review.id}",)
    actor = review.answered_by or SYSTEM
    moved = move_object(world, tx, it, event, now, actor=actor, evidence=evidence)
    if event == "forged":
        begin_rollback(ObjectWriter(world, tx, By(actor), now), moved)
    return moved


def _refuse_interested(review: Review, it: GovernedObject | None, decision: Decision | None, actor: str) -> None:
    """Refuse an answer by the actor who proposed the object or took the decision."""
    interested = {None if it is None else it.proposer, None if decision is None else decision.actor}
    if actor in interested:
        raise Forbidden("review_of_ones_own", id=review.id, actor=actor)


def time_out(world: World, owner: str, review_id: str) -> datetime | None:
    """Close a review whose deadline has come; return the deadline where by this clock it has not."""

    def write(tx: Tx) -> datetime | None:
        found = tx.reviews.get(owner, review_id)
        if found is None or found.state == "closed":
            return None
        review, it, _ = _lock(tx, owner, review_id)
        now = world.clock.now()
        if review.state == "open" and now < review.deadline:
            return review.deadline
        if review.state == "open":
            _time_out(world, tx, review, it, now)
        return None

    return world.route(owner=owner).store.transact(write)


def close_overdue(world: World, *, limit: int = 100) -> int:
    """Close reviews that the job of their deadline did not close, and return how many."""
    late = world.route().store.read(lambda tx: tx.reviews.overdue(world.clock.now() - ANSWERED_WITHIN, limit=limit))
    return sum(time_out(world, each.owner, each.id) is None for each in late)


def _time_out(world: World, tx: Tx, review: Review, it: GovernedObject | None, now: datetime) -> Review:
    closed = replace(review, state="closed", answer="timeout", answered_at=now, answered_by=MACHINE)
    tx.reviews.save(closed)
    tx.audit.append(_review_entry(world, review, it, "close_review", now, MACHINE, {"answer": "timeout"}))
    return closed


def _lock(tx: Tx, owner: str, review_id: str) -> tuple[Review, GovernedObject | None, Decision | None]:
    """Lock a review with the objects it is about, those of its decision included, in their order."""
    found = tx.reviews.get(owner, review_id)
    if found is None:
        raise NotFound("review_unknown", id=review_id)
    decision = None if found.decision is None else tx.decisions.get(owner, found.decision)
    cited = [] if decision is None else [each.object for each in tx.decisions.cites([decision.number])]
    locked = tx.objects.lock([*cited, *([] if found.object is None else [found.object])])
    review = tx.reviews.get(owner, review_id, lock=True)
    assert review is not None
    again = None if found.decision is None else tx.decisions.get(owner, found.decision, lock=True)
    return review, None if found.object is None else locked.get(found.object), again


def _forget(tx: Tx, review: Review, now: datetime) -> None:
    planned = None if review.job is None else tx.jobs.lock(review.job)
    if planned is not None and planned.state == "queued":
        tx.jobs.end_waiting(planned, reason="no longer needed", now=now)


# -- look --------------------------------------------------------------------------------------------------------------


def get_review(world: World, review_id: str, *, owner: str) -> tuple[Review, str | None]:
    """Return a review, and the reference to the object that it is about."""

    def read(tx: Tx) -> tuple[Review, str | None]:
        found = tx.reviews.get(owner, review_id)
        if found is None:
            raise NotFound("review_unknown", id=review_id)
        return _with_references(tx, [found])[0]

    return world.route(owner=owner).store.read(read)


def find_reviews(
    world: World,
    *,
    owner: str | None,
    states: Sequence[str] = (),
    limit: int = 100,
    before: int | None = None,
) -> list[tuple[Review, str | None]]:
    """Return a page of reviews, newest first."""
    page_size(limit)
    unknown = next((each for each in states if each not in STATES), None)
    if unknown is not None:
        raise InvalidInput("choice_unknown", name="state", value=repr(unknown)[:40], choices=STATES)
    return world.route(owner=owner).store.read(
        lambda tx: _with_references(tx, tx.reviews.find(owner=owner, states=states, limit=limit, before=before))
    )


def _with_references(tx: Tx, found: Sequence[Review]) -> list[tuple[Review, str | None]]:
    objects = tx.objects.by_number(each.object for each in found if each.object is not None)
    names = {number: f"{it.kind}:{it.id}" for number, it in objects.items()}
    return [(each, names.get(each.object or 0)) for each in found]


def _review_entry(
    world: HasDice, review: Review, it: GovernedObject | None, verb: str, now: datetime, actor: str,
    after: dict[str, Any], reason: str = "",
) -> Entry:  # fmt: skip
    kind, name = (DECISION, review.decision or "") if it is None else (it.kind, it.id)
    return Entry(
        now, actor, verb, kind, name, review.owner, after={"review": review.id, **after},
        evidence=(f"review:{review.id}",), event_kind="investigation", risk=None if it is None else it.risk,
        decision=review.decision, **private_reason(world, reason),
    )  # fmt: skip
