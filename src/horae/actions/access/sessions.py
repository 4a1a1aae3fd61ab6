"""The verbs of the console's sessions: make a login code, log in, recognise, log out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from horae.actions.access.token_places import find_token
from horae.actions.access.tokens import is_valid
from horae.core.access.callers import Caller, Token, digest_of
from horae.core.access.sessions import (
    CODE_LENGTH,
    CODE_LIFE,
    ID_LENGTH,
    LONGEST,
    SECRET_LENGTH,
    SEEN_EVERY,
    LoginCode,
    Session,
    cookie_text,
    is_code,
    is_secret_of,
    parse_cookie,
)
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import iso
from horae.errors import NotFound, StoreFull, Unauthorized
from horae.ports.store import Tx
from horae.ports.world import World

FORGOTTEN = 100  # sessions and codes that have ended, deleted at each log-in


def create_code(world: World, token_id: str, *, actor: str = SYSTEM, reason: str = "") -> tuple[LoginCode, str]:
    """Create a code that logs one browser in with a token; return it with its text, this once."""
    now, text = world.clock.now(), world.dice.name(CODE_LENGTH)
    code = LoginCode(digest_of(text), token_id, now, now + CODE_LIFE)
    elsewhere = _find_elsewhere(world, token_id)

    def write(tx: Tx) -> None:
        token = tx.tokens.get(token_id) if world.cluster is None else elsewhere
        if token is None or token.state(now) != "valid":
            raise NotFound("token_unknown", id=token_id)
        tx.sessions.add_code(code)
        details = {"token": token_id, "expires_at": iso(code.expires_at)}
        tx.audit.append(
            Entry(
                now, actor, "create", "login_code", code.digest[:ID_LENGTH], token.owner, reason or None, after=details
            )
        )

    world.route().store.transact(write)
    return code, text


def redeem_code(world: World, text: str, *, address: str | None = None) -> tuple[Session, str]:
    """Log a browser in with a code, which is then gone; return the session and the text of its cookie."""
    if not is_code(text):
        raise Unauthorized("code_invalid")
    now, digest = world.clock.now(), digest_of(text)
    elsewhere = None
    if world.cluster is not None:  # the code is taken after that: it is not lost where the token's database is away
        known = world.route().store.read(lambda tx: tx.sessions.get_code(digest))
        elsewhere = None if known is None else _find_elsewhere(world, known.token_id)

    def write(tx: Tx) -> tuple[Session, str]:
        code = tx.sessions.take_code(digest)
        token = None if code is None else tx.tokens.get(code.token_id) if world.cluster is None else elsewhere
        if code is None or code.expires_at <= now or token is None or token.state(now) != "valid":
            raise Unauthorized("code_invalid")
        return _begin(world, tx, token.caller, address, now)

    return world.route().store.transact(write)


def log_in(world: World, caller: Caller, *, address: str | None = None) -> tuple[Session, str]:
    """Log a browser in as a caller that was recognised by its token; return the session and its cookie's text."""
    now = world.clock.now()
    return world.route().store.transact(lambda tx: _begin(world, tx, caller, address, now))


def recognise_session(world: World, cookie: str) -> Session:
    """Return the session of a cookie; one that has ended, or whose token has, is refused."""
    parsed = parse_cookie(cookie)
    now = world.clock.now()

    def read(tx: Tx) -> tuple[Session | None, bool]:
        found = None if parsed is None else tx.sessions.get(parsed[0])
        token = None if found is None or world.cluster is not None else found.token_id
        return found, token is None or token in tx.tokens.valid({token}, now)

    session, has_token = world.route().store.read(read)
    if parsed is None or session is None or not is_secret_of(session, parsed[1]):
        raise Unauthorized("session_ended")
    if world.cluster is not None and session.token_id is not None:
        has_token = is_valid(world, session.token_id)
    if not has_token or session.ends_at <= now:
        raise Unauthorized("session_ended")
    if now - session.seen_at < SEEN_EVERY:
        return session
    with suppress(StoreFull):  # reads must work while the disk is full
        world.route().store.transact(lambda tx: tx.sessions.mark_seen(parsed[0], now))
    return replace(session, seen_at=now)


def find_sessions(
    world: World, *, owner: str | None = None, limit: int = 100, after: tuple[datetime, str] | None = None
) -> list[Session]:
    """Return sessions that have not ended, those seen last first; *after* is seen_at and id of the last one before."""
    page_size(limit)
    now = world.clock.now()
    return world.route().store.read(lambda tx: tx.sessions.find(owner, now, limit=limit, after=after))


def end_session(
    world: World, session_id: str, *, owner: str | None = None, actor: str = SYSTEM, reason: str = ""
) -> None:
    """Log a browser out; its next request is refused."""
    now = world.clock.now()

    def write(tx: Tx) -> None:
        session = tx.sessions.get(session_id)
        if session is None or (owner is not None and session.owner != owner):
            raise NotFound("session_unknown", id=session_id)
        if tx.sessions.remove(session_id):
            tx.audit.append(Entry(now, actor, "log_out", "session", session_id, session.owner, reason or None))

    world.route().store.transact(write)


def _find_elsewhere(world: World, token_id: str) -> Token | None:
    """Return a token in a cluster, where sessions are in the home and tokens with their owner."""
    found = None if world.cluster is None else find_token(world, token_id)
    return None if found is None else found.token


def _begin(world: World, tx: Tx, caller: Caller, address: str | None, now: datetime) -> tuple[Session, str]:
    secret = world.dice.name(SECRET_LENGTH)
    latest = now + LONGEST
    session = Session(
        session_id=world.dice.name(ID_LENGTH),
        digest=digest_of(secret),
        csrf=world.dice.name(SECRET_LENGTH),
        owner=caller.owner,
        scopes=tuple(sorted(caller.scopes)),
        actor=caller.actor,
        created_at=now,
        seen_at=now,
        expires_at=latest if caller.expires_at is None else min(latest, caller.expires_at),
        queues=tuple(sorted(caller.queues)),
        token_id=caller.token_id,
        address=address,
    )
    tx.sessions.forget(now, limit=FORGOTTEN)
    tx.sessions.add(session)
    details = {"token": caller.token_id, "from": address, "expires_at": iso(session.expires_at)}
    tx.audit.append(Entry(now, caller.actor, "log_in", "session", session.session_id, caller.owner, after=details))
    return session, cookie_text(session.session_id, secret)
