"""Who may call, and how a refusal sounds."""

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from horae.actions.tokens import create_token, find_tokens, recognise, revoke_token
from horae.core.access import masked, parse_token
from horae.errors import InvalidInput, NotFound, Unauthorized
from horae.ports import World
from horae.testing.clock import VirtualClock


def test_health_answers_without_a_token(nobody: TestClient) -> None:
    assert nobody.get("/healthz").json() == {"status": "ok"}


def test_an_unknown_address_is_a_problem_that_says_where_to_look(nobody: TestClient) -> None:
    answer = nobody.get("/nowhere")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"


def test_a_token_is_recognised_and_its_use_is_noted(world: World, clock: VirtualClock) -> None:
    token, text = create_token(world, owner="alice", scopes=["tasks", "worker"], title="laptop")
    caller = recognise(world, text, address="192.0.2.7")
    assert (caller.owner, caller.scopes, caller.sees) == ("alice", frozenset({"tasks", "worker"}), "alice")
    (found,) = find_tokens(world, owner="alice")
    assert (found.token_id, found.used_at, found.used_from) == (token.token_id, clock.now(), "192.0.2.7")


def test_the_secret_is_nowhere_in_the_database(world: World) -> None:
    """Security check 4: only a digest is stored."""
    _, text = create_token(world, owner="alice", scopes=["tasks"])
    parsed = parse_token(text)
    assert parsed is not None
    (found,) = find_tokens(world)
    assert parsed[1] not in repr(found)
    assert text not in masked(f"Authorization: Bearer {text}")


@pytest.mark.parametrize("change", ["expired", "revoked", "tampered", "unknown", "empty"])
def test_a_token_that_is_not_valid_is_refused_in_the_same_words(change: str, world: World, clock: VirtualClock) -> None:
    token, text = create_token(world, owner="alice", scopes=["tasks"], expires_in=timedelta(hours=1))
    if change == "expired":
        clock.advance(timedelta(hours=1))
    elif change == "revoked":
        revoke_token(world, token.token_id)
    elif change == "tampered":
        text = text[:-9] + ("0" if text[-9] != "0" else "1") + text[-8:]
    else:
        text = "" if change == "empty" else "horae_000000000000_" + "0" * 72
    with pytest.raises(Unauthorized, match="unknown, expired or revoked"):
        recognise(world, text)


def test_revoking_a_foreign_token_finds_nothing(world: World) -> None:
    token, text = create_token(world, owner="alice", scopes=["tasks"])
    with pytest.raises(NotFound):
        revoke_token(world, token.token_id, owner="bob")
    assert recognise(world, text).owner == "alice"


def test_an_unknown_scope_is_refused_with_the_known_ones(world: World) -> None:
    with pytest.raises(InvalidInput, match="tasks, worker, read, admin"):
        create_token(world, owner="alice", scopes=["everything"])
