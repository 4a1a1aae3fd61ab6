"""The verbs of access tokens: create, recognise, list, revoke."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from horae.core.access.callers import (
    ID_LENGTH,
    SECRET_LENGTH,
    Caller,
    Token,
    digest_of,
    is_secret_of,
    parse_token,
    scopes_from,
    token_text,
)
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import label, name
from horae.core.time.instants import iso, later
from horae.errors import InvalidInput, NotFound, StoreFull, Unauthorized
from horae.ports.store import Tx
from horae.ports.world import World

DEFAULT_LIFE = timedelta(days=90)
SHORTEST_LIFE = timedelta(minutes=1)
USED_EVERY = timedelta(minutes=1)  # precision of "last used", so that not every call writes


def create_token(
    world: World,
    *,
    owner: str,
    scopes: Iterable[str],
    title: str = "",
    queues: Iterable[str] = (),
    agent: str | None = None,
    expires_in: timedelta | None = DEFAULT_LIFE,
    actor: str = SYSTEM,
    reason: str = "",
) -> tuple[Token, str]:
    """Create a token and return it with its text, this once. With *expires_in* None it is valid until revoked.

    With *agent* it is held by that agent, and never counts as a person.
    """
    if expires_in is not None and expires_in < SHORTEST_LIFE:
        raise InvalidInput("token_life_too_short", expires_in=expires_in.total_seconds())
    now = world.clock.now()
    secret = world.dice.name(SECRET_LENGTH)
    token = Token(
        token_id=world.dice.name(ID_LENGTH),
        digest=digest_of(secret),
        owner=label(owner, "owner"),
        name=label(title, "token name") if title else "",
        scopes=scopes_from(scopes),
        queues=tuple(sorted({queue_name(queue) for queue in queues})),
        created_at=now,
        created_by=actor,
        expires_at=None if expires_in is None else later(now, expires_in),
        agent=None if agent is None else name(agent, "agent"),
    )

    def write(tx: Tx) -> None:
        tx.tokens.add(token)
        details = {
            "scopes": list(token.scopes),
            "queues": list(token.queues),
            "expires_at": None if token.expires_at is None else iso(token.expires_at),
            **({} if token.agent is None else {"agent": token.agent}),
        }
        entry = Entry(now, actor, "create", "token", token.token_id, token.owner, reason or None, after=details)
        tx.audit.append(entry)

    world.route().store.transact(write)
    return token, token_text(token.token_id, secret)


def recognise(world: World, text: str, *, address: str | None = None) -> Caller:
    """Return the caller of a token; an invalid one is refused without saying why."""
    parsed = parse_token(text)
    token = None if parsed is None else world.route().store.read(lambda tx: tx.tokens.get(parsed[0]))
    now = world.clock.now()
    if parsed is None or token is None or not is_secret_of(token, parsed[1]) or token.state(now) != "valid":
        raise Unauthorized("token_invalid")
    if token.used_at is None or now - token.used_at >= USED_EVERY:
        with suppress(StoreFull):  # reads must work while the disk is full
            world.route().store.transact(lambda tx: tx.tokens.mark_used(token.token_id, address=address, now=now))
    return token.caller


def find_invalid(world: World, callers: Sequence[Caller]) -> list[Caller]:
    """Return those callers whose token has been revoked, has expired or is gone since they were recognised."""
    now = world.clock.now()
    named = {caller.token_id for caller in callers if caller.token_id is not None}
    valid = world.route().store.read(lambda tx: tx.tokens.valid(named, now)) if named else set[str]()
    return [
        caller
        for caller in callers
        if (caller.token_id is not None and caller.token_id not in valid)
        or (caller.expires_at is not None and caller.expires_at <= now)
    ]


def check_valid(world: World, caller: Caller) -> None:
    """Refuse a caller whose token has become invalid since it was recognised."""
    if find_invalid(world, [caller]):
        raise Unauthorized("token_invalid")


def find_tokens(
    world: World, *, owner: str | None = None, limit: int = 100, after: tuple[datetime, str] | None = None
) -> list[Token]:
    """Return tokens without their secrets, newest first; *after* is created_at and id of the last one before."""
    page_size(limit)
    return world.route().store.read(lambda tx: tx.tokens.find(owner, limit=limit, after=after))


def revoke_token(
    world: World, token_id: str, *, owner: str | None = None, actor: str = SYSTEM, reason: str = ""
) -> Token:
    """Revoke a token; revoking twice is not an error."""
    now = world.clock.now()

    def write(tx: Tx) -> Token:
        token = tx.tokens.get(token_id)
        if token is None or (owner is not None and token.owner != owner):
            raise NotFound("token_unknown", id=token_id)
        if tx.tokens.revoke(token_id, actor=actor, now=now):
            entry = Entry(now, actor, "revoke", "token", token_id, owner=token.owner, reason=reason or None)
            tx.audit.append(entry)
        return tx.tokens.get(token_id) or token

    return world.route().store.transact(write)
