"""The verbs of access tokens: create, recognise, list, revoke."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from horae.actions.access.token_places import database_of_token, find_token, write_token
from horae.actions.shards import AWAY
from horae.core.access.callers import (
    ID_LENGTH,
    SECRET_LENGTH,
    Caller,
    Token,
    digest_of,
    is_secret_of,
    parse_token,
    scopes_from,
    token_id_for,
    token_text,
)
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import label, name
from horae.core.time.instants import iso, later
from horae.errors import HoraeError, InvalidInput, NotFound, StoreFull, Unauthorized
from horae.ports.store import Tx
from horae.ports.world import World

DEFAULT_LIFE = timedelta(days=90)
SHORTEST_LIFE = timedelta(minutes=1)
LONGEST_LIFE = timedelta(days=3650)
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
    if expires_in is not None and expires_in > LONGEST_LIFE:
        raise InvalidInput("token_life_too_long", expires_in=expires_in.total_seconds(), most_days=LONGEST_LIFE.days)
    now = world.clock.now()
    secret = world.dice.name(SECRET_LENGTH)
    owner, shard_map = label(owner, "owner"), world.shard_map
    vshard = None if shard_map is None else shard_map.vshard_of(owner=None if owner == SYSTEM else owner)
    token = Token(
        token_id=token_id_for(vshard, world.dice.name(ID_LENGTH)),
        digest=digest_of(secret),
        owner=owner,
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

    world.route(owner=owner).store.transact(write)
    return token, token_text(token.token_id, secret)


def recognise(world: World, text: str, *, address: str | None = None) -> Caller:
    """Return the caller of a token; an invalid one is refused without saying why.

    In a cluster a token whose database is away is an error of the store.
    """
    parsed = parse_token(text)
    found = None if parsed is None else find_token(world, parsed[0])
    now = world.clock.now()
    if parsed is None or found is None or not is_secret_of(found.token, parsed[1]):
        raise Unauthorized("token_invalid")
    shard, token = found
    if token.state(now) != "valid":
        raise Unauthorized("token_invalid")
    if token.used_at is None or now - token.used_at >= USED_EVERY:
        with suppress(StoreFull):  # reads must work while the disk is full
            shard.route().store.transact(lambda tx: tx.tokens.mark_used(token.token_id, address=address, now=now))
    return token.caller


def is_valid(world: World, token_id: str) -> bool:
    """Return whether a token is neither revoked nor expired."""
    found = find_token(world, token_id)
    return found is not None and found.token.state(world.clock.now()) == "valid"


def find_invalid(world: World, callers: Sequence[Caller]) -> list[Caller]:
    """Return those callers whose token or session has ended since they were recognised.

    In a cluster nothing is said about those whose database does not answer; where none does, that is an error.
    """
    now = world.clock.now()
    named = {caller.token_id for caller in callers if caller.token_id is not None}
    browsers = {caller.session_id for caller in callers if caller.session_id is not None}
    open_ones = world.route().store.read(lambda tx: tx.sessions.open(browsers, now)) if browsers else set[str]()
    unknown = set[str]()
    if world.cluster is not None:
        valid, unknown, problem = find_valid(world, named)
        if problem is not None and unknown == named:
            raise problem
    else:
        valid = world.route().store.read(lambda tx: tx.tokens.valid(named, now)) if named else set[str]()
    return [
        caller
        for caller in callers
        if (caller.token_id is not None and caller.token_id not in valid | unknown)
        or (caller.session_id is not None and caller.session_id not in open_ones)
        or (caller.expires_at is not None and caller.expires_at <= now)
    ]


def check_valid(world: World, caller: Caller) -> None:
    """Refuse a caller whose token has become invalid since it was recognised."""
    if find_invalid(world, [caller]):
        raise Unauthorized("token_invalid")


def find_valid(world: World, token_ids: Collection[str]) -> tuple[set[str], set[str], HoraeError | None]:
    """Return which tokens are valid in a cluster, which could not be asked about, and the first problem with that.

    Each database is asked once for all of its own. What it does not have as valid is looked for by itself: it may have
    been moved since.
    """
    assert world.cluster is not None
    now, valid, unknown, problem = world.clock.now(), set[str](), set[str](), None
    by_database: dict[int | None, set[str]] = {}
    for each in token_ids:
        by_database.setdefault(database_of_token(world, each), set()).add(each)
    for number, some in by_database.items():
        try:
            if number is not None:
                valid |= world.cluster.store_of(number).read(lambda tx: tx.tokens.valid(some, now))  # noqa: B023 - called at once
        except AWAY as missing:
            problem, unknown = problem or missing, unknown | some
    for each in set(token_ids) - valid - unknown:
        try:
            valid |= {each} if is_valid(world, each) else set()
        except AWAY as missing:
            problem, unknown = problem or missing, unknown | {each}
    return valid, unknown, problem


def find_tokens(
    world: World, *, owner: str | None = None, limit: int = 100, after: tuple[datetime, str] | None = None
) -> list[Token]:
    """Return tokens without their secrets, newest first; *after* is created_at and id of the last one before."""
    page_size(limit)
    if world.cluster is None or owner is None:
        return world.route().store.read(lambda tx: tx.tokens.find(owner, limit=limit, after=after))
    found: dict[str, Token] = {}
    for shard in (
        world.route(owner=owner),
        world.route(),
    ):  # at home are those from when clusters kept all of them there
        some = shard.route().store.read(lambda tx: tx.tokens.find(owner, limit=limit, after=after))
        found |= {each.token_id: each for each in some}
    newest = sorted(found.values(), key=lambda each: each.token_id)
    return sorted(newest, key=lambda each: each.created_at, reverse=True)[:limit]


def revoke_token(
    world: World, token_id: str, *, owner: str | None = None, actor: str = SYSTEM, reason: str = ""
) -> Token:
    """Revoke a token; revoking twice is not an error."""
    now = world.clock.now()

    def write(tx: Tx) -> Token | None:
        token = tx.tokens.get(token_id)
        if token is None:
            return None
        if owner is not None and token.owner != owner:
            raise NotFound("token_unknown", id=token_id)
        if tx.tokens.revoke(token_id, actor=actor, now=now):
            entry = Entry(now, actor, "revoke", "token", token_id, owner=token.owner, reason=reason or None)
            tx.audit.append(entry)
        after = tx.tokens.get(token_id)
        return None if after is None or after.revoked_at is None else after  # it was moved while this waited for it

    revoked = write_token(world, token_id, write)
    if revoked is None:
        raise NotFound("token_unknown", id=token_id)
    return revoked
