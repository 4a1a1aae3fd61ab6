"""The verbs by which objects come to be: propose one, or many at once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from horae.actions.governance.evidence import new_evidence
from horae.actions.governance.object_writer import By, ObjectWriter, facts_of, insert_jobs, snapshot_of
from horae.actions.governance.quarantine import open_reviews
from horae.actions.governance.rulings import decision_about
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.governance.evidence import Evidence
from horae.core.governance.objects import GOVERNANCE, GovernedObject, Link, ObjectVersion, changed
from horae.core.governance.proposals import (
    ID_LENGTH,
    KEY_LENGTH,
    Checked,
    Proposal,
    check,
    content_digest,
)
from horae.core.governance.proposals import (
    propose as first_edges,
)
from horae.core.governance.references import Reference
from horae.core.governance.transitions import Concluded
from horae.errors import Conflict, InvalidInput, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

MOST = 1000  # of one call
SPREAD = timedelta(minutes=10)  # over which the first verifications of a bulk import are spread
SPREAD_FROM = 100  # objects of one call: fewer are verified at once


@dataclass(frozen=True, slots=True)
class Proposed:
    """An object, and whether it was there before: same id, same content."""

    object: GovernedObject
    deduplicated: bool = False


def propose(
    world: World,
    proposal: Proposal,
    *,
    owner: str,
    caller: Caller,
    reason: str = "",
    decision: str | None = None,
    correlation: str | None = None,
    queue: str = GOVERNANCE,
) -> Proposed:
    """Store a proposed object with its content and evidence, and plan its first verification."""
    return propose_many(
        world, [proposal], owner=owner, caller=caller, reason=reason, decision=decision, correlation=correlation,
        queue=queue,
    )[0]  # fmt: skip


def propose_many(
    world: World,
    proposals: Sequence[Proposal],
    *,
    owner: str,
    caller: Caller,
    reason: str = "",
    decision: str | None = None,
    correlation: str | None = None,
    queue: str = GOVERNANCE,
) -> list[Proposed]:
    """Store many objects in one transaction: all of them or, when one is refused, none."""
    if len(proposals) > MOST:
        raise InvalidInput("too_many_objects", count=len(proposals), most=MOST)
    now = world.clock.now()
    checked = [
        check(each, owner=owner, proposer=caller.actor, fresh=world.dice.name(ID_LENGTH), now=now, queue=queue)
        for each in proposals
    ]
    by = By.caller(caller, reason, decision=decision, correlation=correlation)

    def write(tx: Tx, *, all_new: bool = False) -> list[Proposed]:
        return _Proposing(ObjectWriter(world, tx, by, now), owner).write(checked, all_new=all_new)

    store = world.route(owner=owner).store
    try:  # many are taken for new at first: the index finds one that is not, without a look at each
        return store.transact(lambda tx: write(tx, all_new=len(checked) >= SPREAD_FROM))
    except Conflict as problem:
        if problem.reason != "object_exists":
            raise
        return store.transact(write)  # some are known, or another caller proposed the same at the same moment


@dataclass(frozen=True, slots=True)
class _Kept:
    """The digest of an object's content, and its key."""

    key: str
    digest: str


class _Proposing:
    """New objects of one transaction."""

    def __init__(self, writer: ObjectWriter, owner: str) -> None:
        self.writer = writer
        self.tx = writer.tx
        self.owner = owner
        self.now = writer.now

    def write(self, checked: Sequence[Checked], *, all_new: bool = False) -> list[Proposed]:
        """Store what is new; with *all_new* nothing is looked up, and what is known makes it a conflict."""
        names = [(self.owner, each.object.kind, each.object.id) for each in checked]
        known = {} if all_new else self.tx.objects.by_name(names)
        fresh: dict[tuple[str, str, str], Checked] = {}
        for name, each in zip(names, checked, strict=True):
            there = known.get(name) or (fresh[name].object if name in fresh else None)
            if there is not None and there.fingerprint != each.object.fingerprint:
                raise Conflict("object_exists", kind=each.object.kind, id=each.object.id)
            if there is None:
                fresh[name] = each
        made = self._add(list(fresh.values()))
        new = dict(zip(fresh, made, strict=True))
        seen: set[tuple[str, str, str]] = set()
        answers = []
        for name in names:
            answers.append(Proposed(new.get(name) or known[name], name in known or name in seen))
            seen.add(name)
        return answers

    def _add(self, checked: Sequence[Checked]) -> list[GovernedObject]:
        if not checked:
            return []
        grounds = self._lock_grounds(checked)
        rejected = self._rejected({each.object.fingerprint or "" for each in checked})
        bulk = len(checked) >= SPREAD_FROM
        done = [self._first(each, each.object.fingerprint in rejected, bulk) for each in checked]
        plans = [each.object for each in done]
        jobs = insert_jobs(self.writer, [each for each in plans if each.next_action is not None])
        waiting = iter(jobs)
        plans = [changed(it, job=None if it.next_action is None else next(waiting)) for it in plans]
        numbers = self.tx.objects.add(plans)
        made = [changed(it, number=number) for it, number in zip(plans, numbers, strict=True)]
        evidence = [new_evidence(self.writer, it, each.evidence) for it, each in zip(made, checked, strict=True)]
        keys = [self.writer.world.dice.name(KEY_LENGTH) for _ in made]
        kept = [_Kept(key, content_digest(key, each.content)) for key, each in zip(keys, checked, strict=True)]
        self.tx.evidence.add([piece for pieces in evidence for piece in pieces])
        self._link(made, checked, grounds)
        made = self._decide(made)
        self._write_versions(made, done, checked, kept)
        entries: list[Entry] = []
        for it, edges, each, pieces, content in zip(made, done, checked, evidence, kept, strict=True):
            entries += self._entries(it, edges, each, pieces, content)
        self.tx.audit.append_many(entries)
        return open_reviews(self.writer, made)

    def _first(self, each: Checked, known_as_rejected: bool, bulk: bool) -> Concluded:
        it = each.object
        at = each.next_action_at
        if at is None and bulk:
            at = _spread(self.now, it.id)
        policy = self.writer.policy(it)
        return first_edges(it, policy, self.now, known_as_rejected=known_as_rejected, asked_at=at)

    def _rejected(self, prints: Collection[str]) -> set[str]:
        """Return which of these say again what was once rejected."""
        return self.tx.objects.rejected_prints(self.owner, prints)

    def _lock_grounds(self, checked: Sequence[Checked]) -> dict[Reference, GovernedObject]:
        """Lock what the new objects rest on, so that none of it is taken back meanwhile."""
        wanted = {ground for each in checked for ground in each.rests_on}
        if not wanted:
            return {}
        found = self.tx.objects.by_name((self.owner, each.kind, each.id) for each in wanted)
        missing = next((each for each in sorted(wanted) if (self.owner, each.kind, each.id) not in found), None)
        if missing is not None:
            raise NotFound("object_unknown", kind=missing.kind, id=missing.id)
        locked = self.tx.objects.lock(each.number for each in found.values())
        by_reference = {Reference(each.kind, each.id): each for each in locked.values()}
        gone = next((each for each in by_reference.values() if each.is_final), None)
        if gone is not None:
            raise Conflict("ground_retracted", kind=gone.kind, id=gone.id)
        return by_reference

    def _link(
        self, made: Sequence[GovernedObject], checked: Sequence[Checked], grounds: dict[Reference, GovernedObject]
    ) -> None:
        links = [
            Link(it.owner, it.number, grounds[ground].number, self.now)
            for it, each in zip(made, checked, strict=True)
            for ground in each.rests_on
        ]
        self.tx.objects.add_links(links)

    def _decide(self, made: Sequence[GovernedObject]) -> list[GovernedObject]:
        """Give each object of high risk its first decision."""
        decided, given = [], self.writer.by.decision
        for it in made:
            if it.risk != "high":
                decided.append(it)
                continue
            linked = given or decision_about(self.writer.world, self.tx, it, "propose", self.now, self.writer.by.actor)
            after = changed(it, decision=linked)
            self.tx.objects.save([(it, after)])
            decided.append(after)
        return decided

    def _write_versions(
        self,
        made: Sequence[GovernedObject],
        done: Sequence[Concluded],
        checked: Sequence[Checked],
        kept: Sequence[_Kept],
    ) -> None:
        versions = []
        for it, edges, each, content in zip(made, done, checked, kept, strict=True):
            for index, edge in enumerate(edges.moves):
                first = (each.content, content.key, content.digest) if index == 0 else ()
                after = edge.after
                versions.append(
                    ObjectVersion(it.owner, it.number, after.version, self.now, edge.event, after.state,
                                  snapshot_of(after), *first)
                )  # fmt: skip
        self.tx.objects.add_versions(versions)

    def _entries(
        self, it: GovernedObject, done: Concluded, each: Checked, pieces: Sequence[Evidence], content: _Kept
    ) -> list[Entry]:
        ids = tuple(piece.id for piece in pieces)
        entries = []
        for index, edge in enumerate(done.moves):
            after = facts_of(edge.after) | {"policy": self.writer.policy(it).version}
            before: dict[str, Any] = {}
            if index == 0:
                after |= {"content_digest": content.digest, "queue": it.queue}
                if each.rests_on:
                    after["rests_on"] = [str(ground) for ground in each.rests_on]
            else:
                before = facts_of(edge.before)
            entries.append(
                self.writer.entry(it, edge.event, "state_transition", before=before, after=after, evidence=ids)
            )
        return entries


def _spread(now: datetime, object_id: str) -> datetime:
    """Return when the first verification of one of many objects is due."""
    return now + SPREAD * (int.from_bytes(hashlib.sha256(object_id.encode()).digest()[:4], "big") / 2**32)
