"""What stands around an object when an action concludes: evidence, grounds, persona, citations, the cap on removals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import boundaries_of
from horae.core.governance.evidence import Evidence
from horae.core.governance.gates import persona_gate
from horae.core.governance.machines import status_of
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.governance.transitions import Around
from horae.ports.store import Tx

FLOOR = 100  # removals of a day that are always allowed
SHARE = 100  # one in so many live objects, where that is more
SPREAD = timedelta(hours=1)  # over which those that have to wait come back on the next day
LEVELS = 2  # from a memory over an experience to a piece of cognition
DOUBTED = ("stale_uncertain", "quarantine", "rejected_poisoned", "retracted")
HOLDING = ("verified", "active")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was read about some objects at once."""

    evidence: dict[int, list[Evidence]]
    grounds: dict[int, list[GovernedObject]]  # the memories that an experience rests on
    cognitions: dict[int, list[GovernedObject]]  # that rest on an object, directly or not
    persona_hits: frozenset[int]

    def of(self, it: GovernedObject, *, verifier: str = "", is_automatic: bool = True) -> Around:
        found = self.evidence.get(it.number, [])
        grounds = self.grounds.get(it.number, [])
        return Around(
            persona_hit=it.number in self.persona_hits,
            grounds_hold=all(each.state in HOLDING for each in grounds),
            grounds_doubted=any(each.state in DOUBTED for each in grounds),
            evidence=sum(each.counts for each in found),
            survived=any(each.survived and not each.derived for each in found),
            verifier=verifier,
            is_automatic=is_automatic,
        )


def read_surroundings(tx: Tx, objects: Sequence[GovernedObject]) -> Surroundings:
    """Read what stands around objects; experiences need their grounds and the persona, the others little."""
    experiences = [each for each in objects if each.kind == "experience"]
    links = tx.objects.rests_on(each.number for each in experiences) if experiences else []
    lower = tx.objects.by_number(each.rests_on for each in links)
    grounds: dict[int, list[GovernedObject]] = {}
    for each in links:
        ground = lower.get(each.rests_on)
        if ground is not None and ground.kind == "memory":
            grounds.setdefault(each.object, []).append(ground)
    archived = [each for each in objects if each.next_action == "archive" and each.kind != "cognition"]
    return Surroundings(
        tx.evidence.of_many(each.number for each in objects),
        grounds,
        cognitions_above(tx, archived),
        _persona_hits(tx, experiences),
    )


def cognitions_above(tx: Tx, objects: Iterable[GovernedObject]) -> dict[int, list[GovernedObject]]:
    """Return the cognitions that rest on objects, through experiences or not."""
    roots = {each.number: {each.number} for each in objects}
    found: dict[int, list[GovernedObject]] = {}
    for _ in range(LEVELS):
        if not roots:
            break
        links = tx.objects.resting_on(roots)
        upper = tx.objects.by_number(each.object for each in links)
        above: dict[int, set[int]] = {}
        for each in links:
            above.setdefault(each.object, set()).update(roots[each.rests_on])
        for number, below in above.items():
            it = upper.get(number)
            if it is not None and it.kind == "cognition":
                for root in below:
                    found.setdefault(root, []).append(it)
        roots = {number: below for number, below in above.items() if upper[number].kind != "cognition"}
    return found


def _persona_hits(tx: Tx, objects: Sequence[GovernedObject]) -> frozenset[int]:
    """Return the objects in whose content a boundary of their agent's persona is found that blocks."""
    if not objects:
        return frozenset()
    personas = tx.personas.find(sorted({each.owner for each in objects}))
    if not personas:
        return frozenset()
    contents = tx.objects.contents(each.number for each in objects)
    hits = set()
    for each in objects:
        kept = contents.get(each.number)
        boundaries = boundaries_of([one for one in personas if one.owner == each.owner], each.agent)
        if kept is not None and kept.content and persona_gate(boundaries, kept.content, each.subject)[0] == "block":
            hits.add(each.number)
    return frozenset(hits)


# -- removals ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """An object that may not be archived before a time: it is cited, or the removals of the day are used up."""

    until: datetime
    is_cited: bool


def why_kept(tx: Tx, it: GovernedObject, around: Surroundings, policy: Policy, now: datetime) -> Kept | None:
    """Return why an object may not be archived now; None where it may. Then the cap counts it."""
    if any(status_of(each.state) == "active" for each in around.cognitions.get(it.number, [])):
        return Kept(now + policy.recheck_every, is_cited=True)
    return None if take_removal(tx, it, now) else Kept(_tomorrow(it, now), is_cited=False)


def take_removal(tx: Tx, it: GovernedObject, now: datetime) -> bool:
    """Count one more removal of the owner's day, if the cap allows it."""
    counted = tx.objects.lock_removals(it.owner, _day(now))
    if counted.removed >= FLOOR:
        live = tx.objects.count_live(it.owner) if counted.live is None else counted.live
        if counted.removed >= max(FLOOR, live // SHARE):
            tx.objects.put_removals(replace(counted, live=live))
            return False
        counted = replace(counted, live=live)
    tx.objects.put_removals(replace(counted, removed=counted.removed + 1))
    return True


def _day(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _tomorrow(it: GovernedObject, now: datetime) -> datetime:
    """Return when an object comes back that was not removed today, spread by a hash of its id."""
    share = int.from_bytes(hashlib.sha256(f"{it.kind}:{it.id}".encode()).digest()[:4], "big") / 2**32
    return _day(now) + timedelta(days=1) + SPREAD * share
