"""Every operation of tokens, owners and secrets, through all four senders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from horae.actions.access import sessions
from horae.api.access import room
from horae.api.access.values import LoginCode, Owner, Secret, SecretMade, Session, Token, TokenMade
from horae.core.access import callers as core
from horae.core.access.owners import OwnerSettings
from horae.errors import Forbidden, InvalidInput, NotAllowed, NotFound, SecretsLocked
from horae.ports.access import Sealed
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"tenant{number}" for number in count())
WHSEC = "whsec_"


@pytest.fixture
def name() -> str:
    """A tenant, or a secret, of this test alone."""
    return next(names)


def last_act(rooms: Sent, object_id: str) -> Any:
    return next(iter(rooms.house.audit.list(object_id=object_id, limit=1)))


def test_a_token_is_made_listed_and_revoked(rooms: Sent, name: str) -> None:
    made = rooms.house.tokens.create(
        name, ["tasks", "worker"], name="laptop", queues=["mail"], expires_in=timedelta(days=1), reason="new desk"
    )
    (listed,) = rooms.house.tokens.list(owner=name)
    act = last_act(rooms, made.id)
    revoked = rooms.house.tokens.revoke(made.id, reason="lost")

    assert isinstance(made, TokenMade)
    assert core.parse_token(made.token) is not None
    assert made.token not in repr(made)
    assert type(listed) is Token
    assert (listed.id, listed.state, listed.scopes, listed.queues) == (made.id, "valid", ("tasks", "worker"), ("mail",))
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == timedelta(days=1)
    assert (act.verb, act.reason) == ("create", "new desk")
    assert (revoked.state, revoked.revoked_by is not None) == ("revoked", True)


def test_a_token_may_be_held_by_an_agent(rooms: Sent, name: str) -> None:
    made = rooms.house.tokens.create(name, ["tasks", "review"], agent="planner")
    (listed,) = rooms.house.tokens.list(owner=name)

    assert (made.agent, listed.agent, made.scopes) == ("planner", "planner", ("tasks", "review"))
    assert last_act(rooms, made.id).after["agent"] == "planner"
    with pytest.raises(InvalidInput):
        rooms.house.tokens.create(name, ["tasks"], agent="two words")


def test_tokens_come_page_by_page(rooms: Sent, name: str) -> None:
    made = {rooms.house.tokens.create(name, ["read"], expires_in=None).id for _ in range(3)}
    listing = rooms.house.tokens.list(owner=name)
    first = listing.page(limit=2)
    rest = listing.page(first.next_cursor, limit=2)

    assert {each.id for each in first.items + rest.items} == made
    assert rest.next_cursor is None
    assert len(list(rooms.house.tokens.list(owner=name, limit=2))) == 2


def test_a_token_that_makes_no_sense_is_refused(rooms: Sent, name: str) -> None:
    with pytest.raises(InvalidInput):
        rooms.house.tokens.create(name, ["everything"])
    with pytest.raises(InvalidInput):
        rooms.house.tokens.create(name, ["tasks"], expires_in=1)
    with pytest.raises(InvalidInput):
        list(rooms.house.tokens.list().page("nonsense").items)
    with pytest.raises(NotFound):
        rooms.house.tokens.revoke("0" * 12)


def test_no_tenant_sees_tokens_or_tenants(rooms: Sent, name: str) -> None:
    acts: list[Callable[[], object]] = [
        lambda: rooms.alice.tokens.list().page(),
        lambda: rooms.alice.tokens.create(name, ["tasks"]),
        lambda: rooms.alice.owners.list().page(),
        lambda: rooms.alice.owners.get("alice"),
        lambda: rooms.alice.owners.put("alice"),
        lambda: rooms.alice.secrets.reseal(),
    ]
    for act in acts:
        with pytest.raises(Forbidden):
            act()


def test_the_operator_decides_about_a_tenant(rooms: Sent, name: str) -> None:
    decided = rooms.house.owners.put(
        name, allow_networks=["10.1.0.0/16"], allow_http=True, ports=[8080], max_enabled_tasks=3, reason="pilot"
    )
    act = last_act(rooms, name)
    seen = rooms.house.owners.get(name)
    listed = {each.owner: each for each in rooms.house.owners.list()}
    again = rooms.house.owners.put(name)

    assert seen == listed[name] == decided
    assert decided == Owner(
        owner=name, allow_networks=("10.1.0.0/16",), allow_http=True, ports=(8080,), max_enabled_tasks=3
    )
    assert again == Owner(owner=name)
    assert (act.verb, act.reason) == ("set", "pilot")
    with pytest.raises(InvalidInput):
        rooms.house.owners.put(name, allow_networks=["0.0.0.0/0"])


def test_a_secret_is_kept_rotated_and_forgotten(rooms: Sent, name: str) -> None:
    kept = rooms.alice.secrets.put(name, "Bearer 5f3a9c1e77d0")
    made = rooms.alice.secrets.put(f"{name}.signing")
    turned = rooms.alice.secrets.rotate(f"{name}.signing", keep_previous_for=60, reason="leaked")
    act = last_act(rooms, f"{name}.signing")
    listed = {each.name: each for each in rooms.alice.secrets.list()}

    assert isinstance(made, SecretMade)
    assert made.value is not None
    assert (kept.value, made.value[:6], turned.value[:6]) == (None, WHSEC, WHSEC)
    assert made.value not in repr(made)
    assert type(listed[name]) is Secret
    assert turned.previous_until - turned.updated_at == timedelta(seconds=60)
    assert (act.verb, act.reason) == ("rotate", "leaked")
    assert rooms.house.secrets.reseal().resealed == 0  # they are sealed with the current key already
    assert rooms.alice.secrets.delete(name) is None
    assert name not in [each.name for each in rooms.alice.secrets.list()]


def test_a_secret_that_is_none_is_refused_without_repeating_it(rooms: Sent, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        rooms.alice.secrets.put(name, "CANARY")
    assert "CANARY" not in str(refused.value)
    with pytest.raises(NotFound):
        rooms.alice.secrets.rotate(f"{name}-never")
    with pytest.raises(NotFound):
        rooms.alice.secrets.delete(f"{name}-never")
    rooms.alice.secrets.put(name, "Bearer 5f3a9c1e77d0")
    with pytest.raises(NotAllowed):
        rooms.alice.secrets.rotate(name)


def test_without_a_key_no_secret_is_kept(keyless: Sent, name: str) -> None:
    with pytest.raises(SecretsLocked):
        keyless.alice.secrets.put(name)
    assert name not in [each.name for each in keyless.alice.secrets.list()]


def test_every_stored_field_is_public_or_hidden() -> None:
    def names_of(kind: Any) -> set[str]:
        return {each.name for each in fields(kind)}

    assert names_of(core.Token) - room.HIDDEN - {"token_id"} == names_of(Token) - {"id", "state"}
    assert names_of(OwnerSettings) == names_of(Owner) - {"owner"}
    assert names_of(Sealed) - {"text", "previous"} == names_of(Secret)


def test_a_browser_is_logged_in_by_a_code_listed_and_logged_out(rooms: Sent, served: Served, name: str) -> None:
    code = rooms.house.sessions.create_code(owner=name, scopes=["read"], name="desk", reason="a visit")
    session, _ = sessions.redeem_code(served.world, code.code, address="10.0.0.1")

    (listed,) = rooms.house.sessions.list(owner=name)

    assert isinstance(code, LoginCode)
    assert isinstance(listed, Session)
    assert (listed.id, listed.owner, listed.scopes) == (session.session_id, name, ("read",))
    assert (listed.token_id, listed.address) == (code.token_id, "10.0.0.1")
    assert rooms.house.sessions.end(listed.id, reason="gone") is None
    assert list(rooms.house.sessions.list(owner=name)) == []
    with refused(NotFound, "session_unknown", id=listed.id):
        rooms.house.sessions.end(listed.id)
    with pytest.raises(Forbidden):
        list(rooms.alice.sessions.list())
