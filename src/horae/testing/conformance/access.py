"""What every store must keep about callers: tokens, tenants, sealed secrets."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from horae.core.access.callers import Token, digest_of
from horae.core.access.sessions import IDLE, LONGEST, LoginCode, Session
from horae.ports.access import Sealed
from horae.ports.store import Store, Tx
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once

MINUTE = timedelta(minutes=1)


def a_token(token_id: str = "a1", owner: str = "alice", **fields: Any) -> Token:
    known: dict[str, Any] = {"name": "laptop", "scopes": ("tasks",), "created_at": NOON, "created_by": "system"}
    return Token(token_id, digest_of(token_id), owner, **{**known, **fields})


def a_session(session_id: str = "s1", owner: str = "alice", **fields: Any) -> Session:
    known: dict[str, Any] = {"scopes": ("tasks",), "actor": "token/a1", "created_at": NOON, "seen_at": NOON}
    secrets = (digest_of(session_id), digest_of(owner))
    return Session(session_id, *secrets, owner, **{**known, "expires_at": NOON + LONGEST, **fields})


class AccessConformance:
    """Tokens, tenants and secrets come back as they were written, each to its owner."""

    def test_a_token_comes_back_as_it_was_written(self, store: Store) -> None:
        token = a_token(queues=("mail",), expires_at=NOON + MINUTE)
        store.transact(lambda tx: tx.tokens.add(token))

        assert store.read(lambda tx: (tx.tokens.get("a1"), tx.tokens.get("A1"))) == (token, None)

    def test_tokens_are_found_by_owner_newest_first(self, store: Store) -> None:
        old, new, foreign = a_token("a1"), a_token("a2", created_at=NOON + MINUTE), a_token("b1", "bob")

        def write(tx: Tx) -> None:
            for token in (old, new, foreign):
                tx.tokens.add(token)

        store.transact(write)

        assert store.read(lambda tx: tx.tokens.find("alice", limit=10)) == [new, old]
        assert len(store.read(lambda tx: tx.tokens.find(None, limit=2))) == 2

    def test_tokens_are_found_page_by_page(self, store: Store) -> None:
        made = [a_token("a1"), a_token("a2"), a_token("a3"), a_token("a4", created_at=NOON + MINUTE)]

        def write(tx: Tx) -> None:
            for token in (*made, a_token("b1", "bob")):
                tx.tokens.add(token)

        store.transact(write)

        def page(last: Token | None = None) -> list[Token]:
            after = None if last is None else (last.created_at, last.token_id)
            return store.read(lambda tx: tx.tokens.find("alice", limit=2, after=after))

        first = page()
        second = page(first[-1])
        assert page(second[-1]) == []
        assert [each.token_id for each in first + second] == ["a4", "a1", "a2", "a3"]

    def test_only_tokens_that_are_neither_revoked_nor_expired_are_valid(self, store: Store) -> None:
        made = [a_token("a1"), a_token("a2", expires_at=NOON + MINUTE), a_token("a3", expires_at=NOON), a_token("a4")]

        def write(tx: Tx) -> None:
            for token in made:
                tx.tokens.add(token)
            tx.tokens.revoke("a4", actor="op", now=NOON)

        store.transact(write)
        asked = ["a1", "a2", "a3", "a4", "a5", *(f"x{number}" for number in range(1200))]

        assert store.read(lambda tx: tx.tokens.valid(asked, NOON)) == {"a1", "a2"}
        assert store.read(lambda tx: tx.tokens.valid([], NOON)) == set()

    def test_a_token_is_revoked_once(self, store: Store) -> None:
        store.transact(lambda tx: tx.tokens.add(a_token()))
        verdicts = [store.transact(lambda tx: tx.tokens.revoke("a1", actor="op", now=NOON)) for _ in range(2)]

        assert verdicts == [True, False]
        assert store.read(lambda tx: tx.tokens.get("a1")) == a_token(revoked_at=NOON, revoked_by="op")

    def test_the_last_use_of_a_token_is_noted(self, store: Store) -> None:
        store.transact(lambda tx: tx.tokens.add(a_token()))
        store.transact(lambda tx: tx.tokens.mark_used("a1", address="192.0.2.1", now=NOON + MINUTE))

        assert store.read(lambda tx: tx.tokens.get("a1")) == a_token(used_at=NOON + MINUTE, used_from="192.0.2.1")

    def test_a_tenant_has_no_settings_until_somebody_gives_it_some(self, store: Store) -> None:
        assert store.read(lambda tx: tx.owners.settings("alice")) == {}
        store.transact(lambda tx: tx.owners.put("alice", {"max_enabled_tasks": 3}, NOON))

        assert store.transact(lambda tx: tx.owners.lock("alice", NOON)) == {"max_enabled_tasks": 3}
        assert store.read(lambda tx: tx.owners.all(limit=10, after=None)) == ["alice"]
        assert store.read(lambda tx: tx.owners.all(limit=10, after="alice")) == []

    def test_what_is_counted_behind_a_tenants_lock_is_counted_by_one_at_a_time(self, store: Store) -> None:
        """I11: a locked row cannot be read by a transaction that would change it too."""

        def raise_by_one(_: int) -> None:
            def write(tx: Tx) -> None:
                count = tx.owners.lock("alice", NOON).get("count", 0)
                tx.owners.put("alice", {"count": count + 1}, NOON)

            store.transact(write)

        at_once(8, raise_by_one)

        assert store.read(lambda tx: tx.owners.settings("alice")) == {"count": 8}

    def test_a_secret_belongs_to_its_owner_and_name(self, store: Store) -> None:
        sealed = Sealed("smtp", "unreadable", "older", NOON + MINUTE, NOON, NOON)
        store.transact(lambda tx: tx.secrets.put("alice", sealed))

        assert store.read(lambda tx: (tx.secrets.get("alice", "smtp"), tx.secrets.get("bob", "smtp"))) == (sealed, None)
        assert store.read(lambda tx: tx.secrets.names("alice")) == [sealed]

    def test_a_secret_is_replaced_and_removed(self, store: Store) -> None:
        first = Sealed("smtp", "one", None, None, NOON, NOON)
        second = replace(first, text="two", updated_at=NOON + MINUTE)
        store.transact(lambda tx: tx.secrets.put("alice", first))
        store.transact(lambda tx: tx.secrets.put("alice", second))
        assert store.read(lambda tx: tx.secrets.get("alice", "smtp")) == second

        assert [store.transact(lambda tx: tx.secrets.remove("alice", "smtp")) for _ in range(2)] == [True, False]

    def test_a_session_comes_back_as_it_was_written(self, store: Store) -> None:
        session = a_session(queues=("mail",), token_id="a1", address="10.0.0.7")
        store.transact(lambda tx: tx.sessions.add(session))

        assert store.read(lambda tx: (tx.sessions.get("s1"), tx.sessions.get("S1"))) == (session, None)
        assert store.transact(lambda tx: tx.sessions.remove("s1")) is True
        assert store.transact(lambda tx: tx.sessions.remove("s1")) is False

    def test_sessions_are_found_by_when_they_were_seen(self, store: Store) -> None:
        made = [a_session("s1"), a_session("s2", seen_at=NOON + MINUTE), a_session("s3"), a_session("s4", owner="bob")]

        def write(tx: Tx) -> None:
            for session in made:
                tx.sessions.add(session)
            tx.sessions.mark_seen("s3", NOON + 2 * MINUTE)

        store.transact(write)

        def find(**options: Any) -> list[str]:
            return [each.session_id for each in store.read(lambda tx: tx.sessions.find(**options))]

        assert find(owner="alice", now=NOON, limit=9) == ["s3", "s2", "s1"]
        assert find(owner=None, now=NOON, limit=2, after=(NOON + MINUTE, "s2")) == ["s1", "s4"]
        assert store.transact(lambda tx: tx.sessions.forget(NOON + IDLE + MINUTE, limit=9)) == 3
        assert find(owner=None, now=NOON, limit=9) == ["s3"]

    def test_a_login_code_is_taken_once_by_whoever_comes_first(self, store: Store) -> None:
        code = LoginCode(digest_of("c"), "a1", NOON, NOON + MINUTE)
        store.transact(lambda tx: tx.sessions.add_code(code))

        taken = at_once(4, lambda _: store.transact(lambda tx: tx.sessions.take_code(code.digest)))

        assert sorted(taken, key=repr) == sorted([code, None, None, None], key=repr)
