"""Objects and what is decided about them, as three databases keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.audit import find_entries, seal_all, verify_audit
from horae.actions.governance import exports
from horae.core.audit.entries import Entry, PrivateReason
from horae.core.governance.decisions import Cite, Decision
from horae.core.governance.evidence import Evidence, reference_key
from horae.core.governance.gates import Boundary
from horae.core.governance.objects import (
    GovernedObject,
    Link,
    ObjectFilter,
    ObjectVersion,
    Opinion,
)
from horae.core.governance.personas import Persona
from horae.core.governance.policies import StoredPolicy
from horae.core.governance.reviews import Review
from horae.core.governance.rollbacks import Rollback
from horae.errors import Conflict, HoraeError
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.clock import NOON, LoadedDice, VirtualClock

DAY = timedelta(days=1)


def an_object(id: str = "mem_1", **fields: Any) -> GovernedObject:  # noqa: A002
    made: dict[str, Any] = {"owner": "alice", "kind": "memory", "state": "candidate"} | fields
    return GovernedObject(0, id=id, created_at=NOON, state_since=NOON, proposer="alice", **made)


def added(tx: Tx, *new: GovernedObject) -> list[GovernedObject]:
    numbers = tx.objects.add(new)
    return [replace(each, number=number) for each, number in zip(new, numbers, strict=True)]


def test_an_object_is_read_as_it_was_stored(store: SqlStore) -> None:
    """Every field with a value of its own, so that no column is mistaken for another."""
    full = an_object(
        state="quarantine", agent="writer", subject="Ann 鸮", category="event", version=7, risk="high",
        impact="critical", confidence=123_456, tamper=700_000, contested=True, protected=True, stalled=True,
        unknown_type="multipath", mode="explore", superseded_by="mem_2", stability=28 * DAY, verified_at=NOON + DAY,
        checked_at=NOON + 2 * DAY,
        review_due_at=NOON + 3 * DAY, used_at=NOON + 4 * DAY, reinforced_at=NOON + 5 * DAY, stale_since=NOON + 6 * DAY,
        uncertain_until=NOON + 7 * DAY, expires_at=NOON + 8 * DAY, kept_until=NOON + 9 * DAY,
        rejected=True, needs_person=True,
        asked_action="archive", asked_at=NOON + 10 * DAY, verify_used=1, reinforcements=2, new_evidence=3,
        reinstate_signal=True, inconclusives=4, reinstate_checks=5, next_action="verify",
        next_action_at=NOON + 11 * DAY, job=12, queue="scheduler", admitted_version=6, put_backs=8, reviews=9,
        reviewed_at=NOON + 12 * DAY, source_type="chat", source="chat:1", subject_key="k" * 64, fingerprint="f" * 64,
        opinions=(Opinion("judge", "confirmed", ("a", "b")),), decision="dec_1", erased_at=NOON + 13 * DAY,
    )  # fmt: skip
    (kept,) = store.transact(lambda tx: added(tx, full))

    assert store.read(lambda tx: tx.objects.by_number([kept.number])) == {kept.number: kept}
    assert store.read(lambda tx: tx.objects.named("alice", "mem_1")) == [kept]
    assert store.read(lambda tx: tx.objects.named("bob", "mem_1")) == []


def test_an_id_may_be_used_once_for_each_owner_and_kind(store: SqlStore) -> None:
    store.transact(lambda tx: added(tx, an_object(), an_object(kind="experience"), an_object(owner="bob")))

    with pytest.raises(HoraeError):
        store.transact(lambda tx: tx.objects.add([an_object()]))
    assert len(store.read(lambda tx: tx.objects.named("alice", "mem_1"))) == 2


def test_numbers_come_back_in_the_order_of_the_objects(store: SqlStore) -> None:
    kept = store.transact(lambda tx: added(tx, *(an_object(f"mem_{place}") for place in reversed(range(1200)))))
    found = store.read(lambda tx: tx.objects.by_name(("alice", "memory", each.id) for each in kept))

    assert [found["alice", "memory", each.id].number for each in kept] == [each.number for each in kept]


def test_a_change_is_written_only_over_the_version_that_it_was_made_from(store: SqlStore) -> None:
    (kept,) = store.transact(lambda tx: added(tx, an_object()))
    moved = replace(kept, state="verified", version=2)
    store.transact(lambda tx: tx.objects.save([(kept, moved)]))

    with pytest.raises(Conflict):
        store.transact(lambda tx: tx.objects.save([(kept, replace(kept, state="stale", version=2))]))
    assert store.read(lambda tx: tx.objects.by_number([kept.number]))[kept.number] == moved


def test_of_many_changes_one_of_an_old_version_refuses_all_and_is_named(store: SqlStore) -> None:
    kept = store.transact(lambda tx: added(tx, *(an_object(f"mem_{place}") for place in range(120))))
    moved = [replace(each, state="verified", version=2, subject=f"{each.id}'s") for each in kept]
    store.transact(lambda tx: tx.objects.save(list(zip(kept, moved, strict=True))))
    assert list(store.read(lambda tx: tx.objects.by_number(each.number for each in kept)).values()) == moved

    later = [replace(each, state="stale", version=3) for each in moved]
    known = [*moved[:70], kept[70], *moved[71:]]
    with pytest.raises(Conflict) as refused:
        store.transact(lambda tx: tx.objects.save(list(zip(known, later, strict=True))))
    assert "mem_70" in str(refused.value)
    assert list(store.read(lambda tx: tx.objects.by_number(each.number for each in kept)).values()) == moved


def test_objects_are_found_by_what_is_asked_for_newest_first(store: SqlStore) -> None:
    def write(tx: Tx) -> list[GovernedObject]:
        return added(
            tx,
            an_object("a", state="active", agent="writer", next_action_at=NOON),
            an_object("b", state="stale", risk="high"),
            an_object("c", kind="experience", state="active", contested=True, subject_key="s"),
            an_object("d", owner="bob", state="active"),
        )

    store.transact(write)

    def found(**wanted: Any) -> list[str]:
        page = store.read(lambda tx: tx.objects.find(ObjectFilter(**wanted), limit=10, before=None))
        return [each.id for each in page]

    assert found() == ["d", "c", "b", "a"]
    assert found(owner="alice", states=("active", "stale"), kind="memory") == ["b", "a"]
    assert found(agent="writer") == found(due_before=NOON) == ["a"]
    assert (found(risk="high"), found(contested=True), found(subject_key="s")) == (["b"], ["c"], ["c"])
    (second,) = store.read(lambda tx: tx.objects.named("alice", "b"))
    older = store.read(lambda tx: tx.objects.find(ObjectFilter(), limit=10, before=second.number))
    assert [each.id for each in older] == ["a"]


def test_content_lives_in_versions_and_can_be_erased(store: SqlStore) -> None:
    (kept,) = store.transact(lambda tx: added(tx, an_object()))
    first = ObjectVersion(
        "alice", kept.number, 1, NOON, "proposed", "candidate", {"risk": "low"}, "Ann likes tea", "k", "d"
    )
    second = ObjectVersion("alice", kept.number, 2, NOON, "verified", "verified", {"risk": "low"})
    store.transact(lambda tx: tx.objects.add_versions([first, second]))

    assert store.read(lambda tx: tx.objects.contents([kept.number])) == {kept.number: first}
    assert store.read(lambda tx: tx.objects.versions(kept.number)) == [second, first]
    store.transact(lambda tx: tx.objects.erase_content(kept.number))
    assert store.read(lambda tx: tx.objects.contents([kept.number])) == {}
    assert store.read(lambda tx: tx.objects.versions(kept.number))[1].digest == "d"


def test_an_export_is_of_one_moment_and_pages_through_many_versions(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "VERSIONS", 2)
    kept = store.transact(lambda tx: added(tx, an_object(), an_object("mem_2"), an_object("mem_3", owner="bob")))

    def versions(*numbers: int) -> list[ObjectVersion]:
        return [ObjectVersion("alice", it.number, each, NOON, "x", "y", {}) for it in kept[:2] for each in numbers]

    store.transact(lambda tx: tx.objects.add_versions(versions(1, 2, 3)))

    def use(parts: Iterator[exports.Part]) -> list[exports.Part]:
        first = next(parts)
        store.transact(lambda tx: tx.objects.add_versions(versions(4)))
        return [first, *parts]

    world = World(store, VirtualClock(NOON), LoadedDice())
    objects = [exports.WithLinks(each) for each in kept[:2]]
    read = exports.read_whole(world, use, owner="alice")
    assert read == [
        *objects,
        *((it, each) for it in kept[:2] for each in versions(1, 2, 3) if each.object == it.number),
    ]
    assert len(exports.read_whole(world, list)) == 3 + 8


def test_links_are_walked_both_ways(store: SqlStore) -> None:
    def write(tx: Tx) -> list[Link]:
        below, above = added(tx, an_object(), an_object("exp_1", kind="experience"))
        link = Link("alice", above.number, below.number, NOON)
        tx.objects.add_links([link])
        return [*tx.objects.rests_on([above.number]), *tx.objects.resting_on([below.number])]

    first, second = store.transact(write)

    assert first == second


def test_a_reference_is_known_again(store: SqlStore) -> None:
    (kept,) = store.transact(lambda tx: added(tx, an_object()))
    piece = Evidence("ev_1", "alice", kept.number, "https://example.org/" + "x" * 400, "counterexample", NOON, "ann",
                     "web", True, True, "a note")  # fmt: skip
    store.transact(lambda tx: tx.evidence.add([piece]))

    known = store.read(lambda tx: tx.evidence.known(kept.number, [piece.reference_key, reference_key("other")]))
    assert known == {piece.reference_key: piece}
    assert store.read(lambda tx: tx.evidence.of_many([kept.number])) == {kept.number: [piece]}
    with pytest.raises(HoraeError):
        store.transact(lambda tx: tx.evidence.add([replace(piece, id="ev_2")]))
    store.transact(lambda tx: tx.evidence.erase_notes(kept.number))
    assert store.read(lambda tx: tx.evidence.of(kept.number)) == [replace(piece, note=None)]


def test_the_highest_version_of_a_policy_holds(store: SqlStore) -> None:
    first = StoredPolicy("alice", "*", "memory", 1, {"verify_budget": 3}, NOON, "ann")
    second = replace(first, version=2, settings={"verify_budget": 4})
    other = replace(first, agent="writer")
    for each in (first, second, other):
        store.transact(lambda tx, each=each: tx.policies.add(each))  # type: ignore[misc]

    assert store.read(lambda tx: tx.policies.current(["alice"])) == [second, other]
    assert store.read(lambda tx: tx.policies.history("alice", "*", "memory")) == [second, first]
    with pytest.raises(HoraeError):
        store.transact(lambda tx: tx.policies.add(second))


def test_a_persona_is_kept_with_its_boundaries(store: SqlStore) -> None:
    persona = Persona("alice", "writer", NOON, "ann", (Boundary("密码", "limit"), Boundary("share")), ("honest",))
    store.transact(lambda tx: tx.personas.put(persona))
    changed = replace(persona, version=2, archived=True)
    store.transact(lambda tx: tx.personas.put(changed))

    assert store.read(lambda tx: tx.personas.get("alice", "writer")) == changed
    assert store.read(lambda tx: tx.personas.find(["alice", "bob"])) == [changed]


def a_decision(**fields: Any) -> Decision:
    made: dict[str, Any] = {"risk": "high", "outcome": "limited"} | fields
    return Decision(0, "alice", "dec_1", "send it", mode="conservative", reason="high", standing="supported",
                    decided_at=NOON, actor="ann", gates={"risk": "limit"}, **made)  # fmt: skip


def test_a_decision_is_kept_with_what_it_cites(store: SqlStore) -> None:
    (kept,) = store.transact(lambda tx: added(tx, an_object()))
    cited = Cite(0, kept.number, "alice", 1, "candidate")
    made = store.transact(lambda tx: tx.decisions.add(a_decision(), [cited]))
    rolled_back = replace(made, rolled_back_at=NOON, successor="dec_2")
    store.transact(lambda tx: tx.decisions.save(rolled_back))

    assert store.read(lambda tx: tx.decisions.get("alice", "dec_1")) == rolled_back
    assert store.read(lambda tx: tx.decisions.citing([kept.number])) == [replace(cited, decision=made.number)]
    assert store.read(lambda tx: tx.decisions.cites([made.number])) == [replace(cited, decision=made.number)]
    assert store.read(lambda tx: tx.decisions.find(owner="alice", outcome="limited", limit=5)) == [rolled_back]


def test_the_database_refuses_a_high_risk_decision_that_was_executed(store: SqlStore) -> None:
    """Governance.md 1.7: by a CHECK, whatever code writes it."""
    with pytest.raises(HoraeError):
        store.transact(lambda tx: tx.decisions.add(a_decision(outcome="executed")))
    store.transact(lambda tx: tx.decisions.add(a_decision(outcome="executed", risk="medium")))


def test_the_outcome_of_a_decision_is_never_written_again(store: SqlStore) -> None:
    made = store.transact(lambda tx: tx.decisions.add(a_decision()))
    store.transact(lambda tx: tx.decisions.save(replace(made, outcome="blocked", risk="low")))

    assert store.read(lambda tx: tx.decisions.get("alice", "dec_1")) == made


def test_a_review_is_closed_once(store: SqlStore) -> None:
    review = Review(0, "alice", "rev_1", "gate", NOON, "ann", NOON + DAY, object=7, automatic=True, question="why?")
    opened = store.transact(lambda tx: tx.reviews.add(review))

    assert store.read(lambda tx: tx.reviews.of([7])) == [opened]
    assert store.read(lambda tx: tx.reviews.overdue(NOON + DAY, limit=5)) == [opened]
    closed = replace(opened, state="closed", answer="approve", answered_at=NOON, answered_by="ben")
    store.transact(lambda tx: tx.reviews.save(closed))
    with pytest.raises(Conflict):
        store.transact(lambda tx: tx.reviews.save(replace(closed, answer="reject")))
    assert store.read(lambda tx: tx.reviews.get("alice", "rev_1")) == closed
    assert store.read(lambda tx: tx.reviews.of([7])) == []


def test_an_open_rollback_is_seen_by_its_agent(store: SqlStore) -> None:
    made = store.transact(lambda tx: tx.rollbacks.add(Rollback(0, "alice", "rbk_1", 7, NOON, "ann", "writer")))

    def is_open(agent: str) -> bool:
        return store.read(lambda tx: tx.rollbacks.is_open("alice", agent))

    assert (is_open("writer"), is_open("reader"), is_open("*")) == (True, False, True)
    store.transact(lambda tx: tx.rollbacks.save(replace(made, state="done", found=3, moved=2, final=1)))
    assert not is_open("writer")


def test_removals_are_counted_by_one_transaction_at_a_time(store: SqlStore) -> None:
    def count(tx: Tx) -> int:
        counted = tx.objects.lock_removals("alice", NOON)
        tx.objects.put_removals(replace(counted, removed=counted.removed + 1, live=9))
        return counted.removed

    assert [store.transact(count) for _ in range(3)] == [0, 1, 2]


# -- reasons that can be erased ----------------------------------------------------------------------------------------


def test_a_private_reason_is_read_beside_its_entry_and_its_erasure_leaves_the_chain_whole(store: SqlStore) -> None:
    """Governance.md 1.8: the chain holds a keyed digest of the reason."""
    world = World(store, VirtualClock(NOON), LoadedDice())
    reason = PrivateReason("Ann told me", "k1")
    entry = Entry(NOON, "ann", "contest", "memory", "mem_1", "alice", event_kind="investigation", risk="high")
    linked = replace(entry, decision="dec_1", job="job_1", correlation="c")
    private = replace(linked, reason_digest=reason.digest, private_reason=reason)
    store.transact(lambda tx: tx.audit.append_many([private, replace(linked, object_id="mem_2")]))
    seal_all(world)

    def read() -> list[str | None]:
        return [each.reason for _, each in find_entries(world, object_id="mem_1")]

    assert read() == ["Ann told me"]
    assert store.transact(lambda tx: tx.audit.erase_reasons("alice", [("memory", "mem_1")])) == 1
    assert read() == [None]
    assert [each.complaints for each in verify_audit(world)] == [()]


@pytest.mark.parametrize("column", ["risk", "event_kind", "decision", "job", "correlation", "reason_digest"])
def test_the_guard_covers_the_new_fields_of_entries(store: SqlStore, column: str) -> None:
    store.transact(lambda tx: tx.audit.append(Entry(NOON, "ann", "used", "memory", "mem_1", "alice")))

    with pytest.raises(Exception, match="append-only"), store.engine.begin() as connection:
        connection.execute(text(f"UPDATE horae_audit SET {column} = 'x'"))


def test_two_transactions_do_not_hold_the_same_object(open_another: Callable[[], SqlStore], store: SqlStore) -> None:
    """The second waits until the first has committed, and sees what it wrote."""
    (kept,) = store.transact(lambda tx: added(tx, an_object()))

    def raise_version(tx: Tx) -> int:
        known = tx.objects.lock([kept.number])[kept.number]
        tx.objects.save([(known, replace(known, version=known.version + 1))])
        return known.version

    assert [store.transact(raise_version), open_another().transact(raise_version)] == [1, 2]
