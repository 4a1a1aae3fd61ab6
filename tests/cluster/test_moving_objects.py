"""Governed objects move with all that was decided about them; what stays behind is read, checked and erased there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import inspect, text

from horae.actions import moves
from horae.actions.attention import inbox, journal
from horae.actions.audit import export_audit, find_entries, seal_all, verify_audit
from horae.actions.governance import queries
from horae.actions.governance.decisions import decide, get_decision
from horae.actions.governance.erasure import erase
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.personas import get_persona, persona_history, set_persona
from horae.actions.governance.proposals import propose
from horae.actions.governance.reviews import answer_review, find_reviews
from horae.actions.governance.rule import ObjectRule
from horae.actions.governance.verdicts import Given, contest
from horae.actions.jobs import claims, endings, machinery
from horae.core.access.callers import Caller
from horae.core.cluster.numbers import birthplace
from horae.core.cluster.shard_map import ShardMap
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Job, Outcome
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from tests.cluster.conftest import Clusters

CANARY = "Zaphod-Q7"
LEASE = timedelta(minutes=1)
VERDICT = '{"verdict": "confirmed", "evidence": ["web:1"], "counterexample": "survived"}'


class Place:
    """A cluster of two, and a tenant whose shard begins in the first database."""

    def __init__(self, clusters: Clusters) -> None:
        world, _ = clusters.make(2)
        self.world: World = replace(world, rules=(ObjectRule(clusters.dice),))
        self.clock = clusters.clock
        shard_map = self.map
        self.owner = next(
            each
            for each in (f"owner-{n}" for n in range(100))
            if (vshard := shard_map.vshard_of(owner=each)) and shard_map.database_of(vshard) == 1
        )
        self.app = Caller(self.owner, frozenset({"tasks", "admin"}), "app/shop")
        self.carol = Caller(self.owner, frozenset({"review", "admin"}), "user/carol")

    @property
    def map(self) -> ShardMap:
        assert self.world.cluster is not None
        return self.world.cluster.refresh()

    def move(self, to: str) -> None:
        self.clock.advance(timedelta(seconds=1))  # entries of two databases are told apart by their time
        moves.move(self.world, [self.map.vshard_of(owner=self.owner)], to)

    def propose(self, name: str, **fields: Any) -> None:
        proposal = Proposal("memory", f"{CANARY} likes tea", id=name, subject=f"person {CANARY}", agent="a", **fields)
        propose(self.world, proposal, owner=self.owner, caller=self.app, reason=f"{CANARY} told me")

    def take(self) -> tuple[World, Job]:
        for shard in self.world.databases():
            for job in claims.claim(shard, "governance", 1, worker_id="w", lease=LEASE):
                return shard, job
        raise AssertionError("no object is due")

    def state(self, name: str) -> str:
        return queries.get(self.world, name, owner=self.owner).object.state

    def residue(self) -> list[str]:
        """Return every table of every database in which the word is found."""
        found = set[str]()
        for number, shard in enumerate(self.world.databases(), 1):
            with shard.store.engine.connect() as connection:  # type: ignore[attr-defined]
                for table in inspect(connection).get_table_names():
                    for row in connection.execute(text(f"SELECT * FROM {table}")).mappings():
                        found |= {f"{number}:{table}.{name}" for name, value in row.items() if CANARY in str(value)}
        return sorted(found)


@pytest.fixture
def place(clusters: Clusters) -> Place:
    return Place(clusters)


def test_an_object_is_verified_after_its_shard_has_moved_and_every_rule_still_holds(place: Place) -> None:
    place.propose("tea", evidence=[{"reference": "chat:1"}])
    before = place.state("tea")
    place.move("db-2")
    assert place.state("tea") == before
    shard, job = place.take()
    change = endings.settle(shard, [(job, Outcome("succeeded", result=VERDICT))])[job.id]
    assert change is not None
    assert len(queries.history(place.world, "tea", owner=place.owner).versions) > 1
    place.move("first")
    assert [each.rule for each in check_objects(place.world, owner=place.owner)] == []
    entries = queries.history(place.world, "tea", owner=place.owner).entries
    assert {birthplace(number) for number, _ in entries} == {1, 2}
    assert len({number for number, _ in entries}) == len(entries)
    assert queries.explain(place.world, "tea", owner=place.owner).last is not None


def test_the_ending_of_an_object_s_job_that_was_held_during_the_move_counts_once(place: Place) -> None:
    place.propose("tea")
    shard, job = place.take()
    source = StoreSource(shard, place.world)
    place.move("db-2")
    verdict = Outcome("succeeded", result=VERDICT)
    assert source.settle([(job, verdict)])[job.id] is not None
    assert source.settle([(job, verdict)])[job.id] is None
    versions = queries.history(place.world, "tea", owner=place.owner).versions
    assert len({each.version for each in versions}) == len(versions)
    assert check_objects(place.world, owner=place.owner) == []


def test_decisions_reviews_and_personas_are_found_and_answered_after_a_move(place: Place) -> None:
    place.propose("tea")
    set_persona(place.world, owner=place.owner, person=place.carol, agent="a", boundaries=["lie"])
    decided = decide(
        place.world, owner=place.owner, action="greet", cites=["memory:tea"], actor="app/shop", risk="high", reason="r"
    )
    contest(place.world, Given("tea", place.owner, place.app, reason="no"))
    place.move("db-2")
    assert get_decision(place.world, decided.decision.id, owner=place.owner).decision == decided.decision
    assert get_persona(place.world, owner=place.owner, agent="a").boundaries
    assert persona_history(place.world, owner=place.owner, agent="a")
    found = find_reviews(place.world, owner=place.owner, states=["open"])
    assert found
    for review, _ in found:
        answer_review(place.world, review.id, "ask_more", owner=place.owner, person=place.carol, note="why?")


def test_erasing_after_a_move_leaves_no_word_in_any_database_and_every_chain_holds(place: Place) -> None:
    place.propose("tea", evidence=[{"reference": f"chat:{CANARY}", "note": f"{CANARY} said so"}])
    shard, job = place.take()
    endings.settle(shard, [(job, Outcome("failed", error=f"cannot reach {CANARY}"))])
    decide(place.world, owner=place.owner, action=f"greet {CANARY}", cites=["memory:tea"], actor="app/x", reason=CANARY)
    inbox.add(place.world, "desk", "greet", {"who": f"person {CANARY}"}, owner=place.owner)
    assert any(each.startswith("1:horae_runs") for each in place.residue())
    place.move("db-2")
    contest(place.world, Given("tea", place.owner, place.app, reason=f"{CANARY} denies it"))
    assert any(each.startswith("1:horae_audit_reasons") for each in place.residue())
    erased = erase(place.world, owner=place.owner, caller=place.carol, subject=f"person {CANARY}")
    assert erased.objects == 1
    assert place.residue() == []
    seal_all(place.world)
    chains = verify_audit(place.world, owner=place.owner)
    assert len(chains) == 2
    assert [each.complaints for each in chains] == [(), ()]
    assert journal.verify(place.world, "desk", owner=place.owner).is_sound


def test_the_entries_of_a_tenant_that_has_moved_are_paged_through_all_databases(place: Place) -> None:
    for index, to in enumerate(("db-2", "first", "db-2")):
        place.propose(f"m{index}")
        place.move(to)
    place.propose("last")
    paged: list[int] = []
    before: int | None = None
    while page := find_entries(place.world, limit=2, before=before, owner=place.owner):
        paged += [number for number, _ in page]
        before = page[-1][0]
    here = [
        number for shard in place.world.databases() for number, _ in find_entries(shard, limit=100, owner=place.owner)
    ]
    assert sorted(paged) == sorted(here)
    assert len(paged) == len(set(paged)) >= 4
    seal_all(place.world)
    lines = list(export_audit(place.world, owner=place.owner))
    assert len([line for line in lines if "hash" in line]) == len(paged)


def test_the_jobs_that_objects_wait_for_come_due_after_a_move(place: Place) -> None:
    place.propose("tea")
    place.move("db-2")
    for _ in range(3):
        place.clock.advance(timedelta(days=200))
        for shard in place.world.databases():
            while machinery.serve_due(shard, "m"):
                continue
            for job in claims.claim(shard, "governance", 10, worker_id="w", lease=LEASE):
                endings.settle(shard, [(job, Outcome("succeeded"))])
    assert check_objects(place.world, owner=place.owner) == []
