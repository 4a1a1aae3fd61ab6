"""Log in by a code or a token, be recognised, and end in time."""

from datetime import timedelta

import pytest

from horae.actions.access.sessions import (
    create_code,
    end_session,
    find_sessions,
    log_in,
    recognise_session,
    redeem_code,
)
from horae.actions.access.tokens import create_token, revoke_token
from horae.actions.retention import clean
from horae.core.access.callers import Caller, Token
from horae.core.audit.entries import Entry
from horae.core.retention import Retention
from horae.errors import NotFound, Unauthorized
from horae.ports.world import World
from horae.testing.clock import VirtualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def token(world: World) -> Token:
    return create_token(world, owner="alice", scopes=["tasks"])[0]


def entries_of(world: World) -> list[Entry]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=None, limit=50, before=None))
    return [entry for _, entry in reversed(found)]


def verbs_of(world: World) -> list[tuple[str, str, str]]:
    return [(entry.actor, entry.verb, entry.object_type) for entry in entries_of(world)]


def test_a_code_logs_one_browser_in_once(world: World, token: Token) -> None:
    _, code = create_code(world, token.token_id, actor="cli/ada")
    session, cookie = redeem_code(world, code, address="10.0.0.7")

    found = recognise_session(world, cookie)
    assert (found.caller, found.address) == (token.caller, "10.0.0.7")
    with pytest.raises(Unauthorized):
        redeem_code(world, code)
    me = f"token/{token.token_id}"
    assert verbs_of(world)[1:] == [("cli/ada", "create", "login_code"), (me, "log_in", "session")]
    assert code not in str(entries_of(world))
    assert session.csrf not in cookie


def test_a_code_is_of_no_use_after_ten_minutes(world: World, token: Token, clock: VirtualClock) -> None:
    _, code = create_code(world, token.token_id)
    clock.advance(timedelta(minutes=10))
    with pytest.raises(Unauthorized):
        redeem_code(world, code)


def test_a_code_is_of_no_use_once_its_token_is_revoked(world: World, token: Token) -> None:
    _, code = create_code(world, token.token_id)
    revoke_token(world, token.token_id)
    with pytest.raises(Unauthorized):
        redeem_code(world, code)
    with pytest.raises(NotFound):
        create_code(world, token.token_id)


@pytest.mark.parametrize("text", ["", "0" * 40, "' or 1=1 --", "f" * 64])
def test_a_code_that_was_never_made_is_refused(text: str, world: World) -> None:
    with pytest.raises(Unauthorized):
        redeem_code(world, text)


def test_a_session_dies_with_its_token(world: World, token: Token) -> None:
    _, cookie = log_in(world, token.caller)
    revoke_token(world, token.token_id)
    with pytest.raises(Unauthorized):
        recognise_session(world, cookie)


def test_a_session_ends_after_twelve_idle_hours(world: World, token: Token, clock: VirtualClock) -> None:
    _, cookie = log_in(world, token.caller)
    for _ in range(3):
        clock.advance(11 * HOUR)
        recognise_session(world, cookie)
    clock.advance(12 * HOUR)
    with pytest.raises(Unauthorized):
        recognise_session(world, cookie)


def test_a_session_ends_after_a_week_however_busy_it_is(world: World, token: Token, clock: VirtualClock) -> None:
    _, cookie = log_in(world, token.caller)
    for _ in range(15):
        clock.advance(11 * HOUR)
        recognise_session(world, cookie)
    clock.advance(3 * HOUR)
    with pytest.raises(Unauthorized):
        recognise_session(world, cookie)


def test_a_session_without_a_stored_token_ends_when_its_jwt_does(world: World, clock: VirtualClock) -> None:
    caller = Caller("bob", frozenset({"tasks"}), "user/bob", expires_at=clock.now() + HOUR)
    _, cookie = log_in(world, caller)
    assert recognise_session(world, cookie).caller == caller
    clock.advance(HOUR)
    with pytest.raises(Unauthorized):
        recognise_session(world, cookie)


def test_a_cookie_with_another_secret_is_refused(world: World, token: Token) -> None:
    _, cookie = log_in(world, token.caller)
    forged = cookie[:-1] + ("0" if cookie[-1] != "0" else "1")
    for wrong in (forged, "", cookie.partition(".")[0]):
        with pytest.raises(Unauthorized):
            recognise_session(world, wrong)


def test_a_session_that_is_ended_is_refused_and_written_down(world: World, token: Token) -> None:
    session, cookie = log_in(world, token.caller)
    end_session(world, session.session_id, actor="cli/ada", reason="lost laptop")
    with pytest.raises(Unauthorized):
        recognise_session(world, cookie)
    assert verbs_of(world)[-1] == ("cli/ada", "log_out", "session")
    with pytest.raises(NotFound):
        end_session(world, session.session_id)


def test_sessions_are_listed_by_when_they_were_seen_last(world: World, token: Token, clock: VirtualClock) -> None:
    first, cookie = log_in(world, token.caller)
    clock.advance(HOUR)
    second, _ = log_in(world, create_token(world, owner="bob", scopes=["tasks"])[0].caller)
    clock.advance(HOUR)
    recognise_session(world, cookie)

    assert [each.session_id for each in find_sessions(world)] == [first.session_id, second.session_id]
    assert [each.session_id for each in find_sessions(world, owner="bob")] == [second.session_id]
    page = find_sessions(world, limit=1)
    assert find_sessions(world, limit=1, after=(page[0].seen_at, page[0].session_id))[0].session_id == second.session_id


def test_what_has_ended_is_deleted(world: World, token: Token, clock: VirtualClock) -> None:
    log_in(world, token.caller)
    create_code(world, token.token_id)
    clock.advance(12 * HOUR)
    assert clean(world, Retention())["horae_sessions"] == 2
    assert find_sessions(world) == []
