"""The gates before a job on an object of high risk: its persona and the cognitions linked to it, read fresh (S0-34)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from horae.actions.governance.rulings import draft, write_decision
from horae.actions.governance.surroundings import cognitions_above
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import boundaries_of
from horae.core.governance.gates import Gates, Ruling, cognition_gate, persona_gate, risk_gate, worst_standing
from horae.core.governance.objects import GovernedObject
from horae.core.jobs.job import NewJob
from horae.core.jobs.machinery import GATE, MACHINERY
from horae.core.jobs.payloads import encode
from horae.ports.store import Tx
from horae.ports.world import HasDice

DELAYS = (timedelta(hours=1), timedelta(hours=4), timedelta(hours=24))
ASK_AFTER = 3  # put-backs, before a person is asked


@dataclass(frozen=True, slots=True)
class Gated:
    """What the gates say about the jobs of some objects."""

    rulings: dict[int, Ruling]  # of objects of high risk, by number
    approved: frozenset[int]  # those that a person has approved since the last question

    def blocks(self, it: GovernedObject) -> bool:
        ruling = self.rulings.get(it.number)
        return ruling is not None and ruling.outcome == "blocked" and it.number not in self.approved


def read_gates(tx: Tx, objects: Sequence[GovernedObject]) -> Gated:
    """Read the gates of objects of high risk. Only what others say counts: a look is how an object's own doubt ends."""
    risky = [each for each in objects if each.risk == "high"]
    if not risky:
        return Gated({}, frozenset())
    personas = tx.personas.find(sorted({each.owner for each in risky}))
    contents = tx.objects.contents(each.number for each in risky) if personas else {}
    above = cognitions_above(tx, risky)
    rulings = {}
    for it in risky:
        boundaries = boundaries_of([each for each in personas if each.owner == it.owner], it.agent)
        kept = contents.get(it.number)
        persona, hits = persona_gate(boundaries, (kept.content or "") if kept else "", it.subject)
        linked = [each for each in above.get(it.number, ()) if each.status not in ("archived", "retracted")]
        cognition = cognition_gate(worst_standing(linked))
        gates = Gates(persona, cognition, risk_gate(it.standing, it.risk), hits)
        if persona == "block":
            rulings[it.number] = Ruling("blocked", "abstain", f"a boundary of the persona: {', '.join(hits)}", gates)
        elif cognition == "block":
            rulings[it.number] = Ruling("blocked", "abstain", "a cognition linked to it is refuted", gates)
        else:
            rulings[it.number] = Ruling("limited", "conservative", "the risk is high", gates)
    return Gated(rulings, _approved(tx, risky))


def _approved(tx: Tx, objects: Sequence[GovernedObject]) -> frozenset[int]:
    """Return the objects whose last review a person has approved since it was put back."""
    asked = {each.number: each for each in objects if each.put_backs > 0}
    approved: set[int] = set()
    for review in tx.reviews.of(asked, only_open=False) if asked else ():
        it = asked.get(review.object or 0)
        if it is not None and review.answer == "approve" and review.answered_at is not None:
            since = it.reviewed_at or it.state_since
            (approved.add if review.answered_at >= since else approved.discard)(it.number)
    return frozenset(approved)


def put_back_until(it: GovernedObject, now: datetime) -> datetime:
    """Return when a job that a gate has stopped comes back: later each time."""
    return now + DELAYS[min(it.put_backs, len(DELAYS) - 1)]


def gate_decision(world: HasDice, tx: Tx, it: GovernedObject, action: str, ruling: Ruling, now: datetime) -> str:
    """Write down what the gates said about a job on an object of high risk; return the id of the decision."""
    made = draft(
        world, it.owner, it.agent, f"{action} {it.kind}:{it.id}", it.risk, ruling, [it], now, "system/governance"
    )
    return write_decision(world, tx, made, [it]).id


def gate_changed(tx: Tx, owner: str, agent: str | None, now: datetime) -> None:
    """Let the jobs that a gate has put back be asked about again at once: a job of Horae's own moves them.

    A job, because objects must be locked in their order, and a caller that changes a gate holds others already.
    """
    if not tx.objects.put_back(owner, agent, limit=1):
        return
    new = NewJob(
        handler=GATE,
        payload=encode({"owner": owner, "agent": agent}),
        queue=MACHINERY,
        band=0,
        run_at=now,
        planned_at=now,
        owner=owner,
    )
    tx.jobs.insert([new], now)
    tx.wake([MACHINERY])
