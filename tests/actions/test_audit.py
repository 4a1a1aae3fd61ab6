"""Security check 19: whoever edits, deletes or moves an entry of the audit in the database is found out."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import event, text

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.actions.audit import (
    Sealed,
    export_audit,
    find_entries,
    has_unsealed,
    seal_all,
    seal_audit,
    verify_audit,
)
from horae.actions.jobs.queues import pause_queue, resume_queue
from horae.api.audit import verify_export
from horae.core.audit.entries import Entry
from horae.core.audit.exports import write_line
from horae.stores.databases import audit_guard


def history(app: Horae) -> None:
    for queue in ("mail", "reports", "mail"):
        pause_queue(app.world, queue, actor="ann", reason="数据库升级")
        resume_queue(app.world, queue, actor="ann")
    create_token(app.world, owner="alice", scopes=["tasks"])
    while seal_audit(app.world, limit=4).more:
        continue


def complaints(app: Horae) -> list[str]:
    return [str(line) for each in verify_audit(app.world) for line in each.complaints]


@pytest.fixture
def app(database_url: str) -> Horae:
    from horae.stores.schema import migrate

    app = Horae(database_url)
    migrate(app.engine)
    return app


def test_a_chain_that_nobody_touched_is_sound(app: Horae) -> None:
    with app:
        history(app)
        assert [(each.owner, each.entries, each.complaints) for each in verify_audit(app.world)] == [
            ("alice", 1, ()),
            ("system", 6, ()),
        ]
        pause_queue(app.world, "mail")
        assert seal_audit(app.world) == Sealed(1, more=False)
        assert complaints(app) == []


@pytest.mark.parametrize(
    ("forged", "named"),
    [
        ("UPDATE horae_audit SET actor = 'bob' WHERE id = 3", "entry 3 was changed"),
        ("UPDATE horae_audit SET reason = NULL WHERE id = 1", "entry 1 was changed"),
        ("DELETE FROM horae_audit WHERE id = 4", "before entry 5: 1 entries are missing"),
        ("DELETE FROM horae_audit WHERE id = 6", "the chain should end at entry 6"),
        ("UPDATE horae_audit SET chain_seq = 9 - chain_seq WHERE id IN (4, 5)", "was changed, or moved"),
    ],
)
def test_an_entry_that_was_touched_is_named(app: Horae, forged: str, named: str) -> None:
    with app:
        history(app)
        with app.engine.begin() as connection:
            audit_guard.remove(connection)
            assert connection.execute(text(forged)).rowcount
        assert any(named in line for line in complaints(app)), complaints(app)


def test_a_batch_says_whether_more_is_left(app: Horae) -> None:
    with app:
        for _ in range(5):
            pause_queue(app.world, "mail")
        assert has_unsealed(app.world)
        assert [seal_audit(app.world, limit=2) for _ in range(4)] == [
            Sealed(2, more=True), Sealed(2, more=True), Sealed(1, more=False), Sealed(0, more=False),
        ]  # fmt: skip
        assert not has_unsealed(app.world)
        assert complaints(app) == []


def test_a_batch_is_one_statement_for_entries_and_one_for_heads_however_many(app: Horae) -> None:
    def count(entries: int) -> list[str]:
        for number in range(entries):
            create_token(app.world, owner=f"tenant{number}", scopes=["tasks"])
        sent: list[str] = []
        event.listen(app.engine, "before_cursor_execute", lambda _c, _k, sql, *_: sent.append(sql))
        assert seal_audit(app.world) == Sealed(entries)
        return [sql for sql in sent if sql.startswith(("UPDATE", "INSERT INTO horae_chains (owner, seq, hash) SELECT"))]

    with app:
        assert [len(count(entries)) for entries in (1, 30)] == [2, 2]
        assert complaints(app) == []


def test_owners_with_any_signs_in_their_names_have_a_chain(app: Horae) -> None:
    owners = ["张伟", "o'brien", 'q"uote', "back\\slash", "per%cent", "😀"]
    with app:
        for owner in owners:
            entry = Entry(app.world.clock.now(), "ann", "pause", "queue", "mail", owner, after={"half": "\ud800"})
            app.world.store.transact(lambda tx, entry=entry: tx.audit.append(entry))  # type: ignore[misc]
        assert seal_all(app.world) == len(owners)
        assert [(each.owner, each.complaints) for each in verify_audit(app.world)] == [
            (name, ()) for name in sorted(owners)
        ]


def test_a_floating_point_number_is_kept_as_text(app: Horae) -> None:
    with app:
        entry = Entry(app.world.clock.now(), "ann", "set", "limit", "x", after={"share": 0.1, "seconds": 90.0})
        app.world.store.transact(lambda tx: tx.audit.append(entry))
        assert find_entries(app.world)[0][1].after == {"share": "0.1", "seconds": 90}


def test_a_chain_whose_head_was_removed_is_still_verified(app: Horae) -> None:
    with app:
        history(app)
        with app.engine.begin() as connection:
            connection.execute(text("DELETE FROM horae_chains WHERE owner = 'alice'"))
        assert complaints(app) == ["the chain should end at entry 0 of this owner; it ends at 1"]


def test_two_entries_at_one_place_are_found_wherever_a_page_ends(app: Horae, monkeypatch: pytest.MonkeyPatch) -> None:
    with app:
        history(app)
        with app.engine.begin() as connection:
            audit_guard.remove(connection)
            connection.execute(text("UPDATE horae_audit SET chain_seq = 2 WHERE id = 3"))
        for page in (1, 2, 3, 100):
            monkeypatch.setattr("horae.actions.audit.PAGE", page)
            assert complaints(app)[0] == "entry 3 is number 2 of the chain, and stands after number 2"


def test_a_head_kept_elsewhere_finds_a_chain_written_anew(app: Horae) -> None:
    with app:
        history(app)
        kept = {each.owner: each.head for each in verify_audit(app.world)}
        pause_queue(app.world, "mail")
        seal_all(app.world)
        assert not [each for each in verify_audit(app.world, heads=kept) if each.complaints]

        with app.engine.begin() as connection:  # all of it, by an intruder who knows how
            audit_guard.remove(connection)
            connection.execute(text("DELETE FROM horae_audit WHERE id IN (5, 6)"))
            connection.execute(text("UPDATE horae_audit SET chain_seq = NULL, hash = NULL"))
            connection.execute(text("DELETE FROM horae_chains"))
        seal_all(app.world)

        assert complaints(app) == []
        found = {each.owner: [line.reason for line in each.complaints] for each in verify_audit(app.world, heads=kept)}
        assert found == {"alice": [], "system": ["kept_head_unknown"]}


def test_an_export_holds_what_was_sealed_when_it_began(app: Horae) -> None:
    with app:
        history(app)
        lines = export_audit(app.world)
        first = next(lines)
        pause_queue(app.world, "late")
        seal_all(app.world)
        text_lines = [write_line(first), *map(write_line, lines)]

        assert (first["chains"], first["entries"]) == (2, 7)
        assert verify_export(text_lines).sound
        assert [json.loads(line)["seq"] for line in text_lines if '"hash"' in line] == [1, 1, 2, 3, 4, 5, 6]
        one = [*map(write_line, export_audit(app.world, owner="alice"))]
        assert [each.owner for each in verify_export(one).chains] == ["alice"]
        assert verify_export(map(write_line, export_audit(app.world, owner="nobody"))).sound


def test_two_sealers_at_once_make_one_chain(app: Horae) -> None:
    from horae.testing.conformance.support import at_once

    with app:
        for _ in range(20):
            pause_queue(app.world, "mail")
        at_once(4, lambda _: seal_audit(app.world, limit=7))
        seal_all(app.world)
        assert [(each.entries, each.complaints) for each in verify_audit(app.world)] == [(20, ())]
