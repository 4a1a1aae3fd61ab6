"""Security check 19: whoever edits, deletes or moves an entry of the audit in the database is found out."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.actions.audit import Sealed, seal_audit, verify_audit
from horae.actions.jobs.queues import pause_queue, resume_queue
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


def test_two_sealers_at_once_make_one_chain(app: Horae) -> None:
    from horae.testing.conformance.support import at_once

    with app:
        for _ in range(20):
            pause_queue(app.world, "mail")
        at_once(4, lambda _: seal_audit(app.world))
        assert [(each.entries, each.complaints) for each in verify_audit(app.world)] == [(20, ())]
