"""The verbs of secrets: put, rotate, list, delete, open, reseal.

Values are sealed before they are stored, come out only for an outgoing call, and are in no audit entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

from horae.core.access.secrets import secret_name, secret_text
from horae.core.audit.entries import Entry
from horae.core.jobs.job import SYSTEM
from horae.core.outgoing.signatures import PREFIX, SigningSecret
from horae.core.time.instants import iso, later
from horae.errors import InvalidInput, NotAllowed, NotFound, QuotaExceeded
from horae.ports.access import Sealed, Sealer
from horae.ports.store import Tx
from horae.ports.world import World

MOST = 100  # for each tenant
OVERLAP = timedelta(days=1)
LONGEST_OVERLAP = timedelta(days=90)
PAGE = 500
RANDOM_DIGITS = 64  # hexadecimal: 32 bytes


def put_secret(
    world: World,
    sealer: Sealer,
    name: str,
    text: str,
    *,
    owner: str,
    keep_previous_for: timedelta = timedelta(0),
    actor: str = SYSTEM,
    reason: str = "",
) -> Sealed:
    """Store a secret under a name; the previous one stays valid for signatures for *keep_previous_for*."""
    secret_name(name)
    secret_text(text)
    if text.startswith(PREFIX):
        SigningSecret.read(text)
    overlap = _overlap(keep_previous_for)
    act = partial(Entry, actor=actor, verb="put", reason=reason or None)
    return world.route(owner=owner).store.transact(lambda tx: _put(world, tx, sealer, name, text, owner, overlap, act))


def rotate_secret(
    world: World,
    sealer: Sealer,
    name: str,
    *,
    owner: str,
    keep_previous_for: timedelta = OVERLAP,
    actor: str = SYSTEM,
    reason: str = "",
) -> tuple[Sealed, str]:
    """Replace a signing secret and return it with its text, this once; messages are signed by both for a while."""
    overlap, text = _overlap(keep_previous_for), new_signing_text(world)
    act = partial(Entry, actor=actor, verb="rotate", reason=reason or None)

    def write(tx: Tx) -> Sealed:
        before = _get(tx, owner, name)
        if not sealer.open(owner, name, before.text).startswith(PREFIX):
            raise NotAllowed("secret_not_generated", name=name)
        return _put(world, tx, sealer, name, text, owner, overlap, act)

    return world.route(owner=owner).store.transact(write), text


def find_secrets(world: World, *, owner: str) -> list[Sealed]:
    """Return a tenant's secrets by name, sealed as they are stored."""
    return world.route(owner=owner).store.read(lambda tx: tx.secrets.names(owner))


def delete_secret(world: World, name: str, *, owner: str, actor: str = SYSTEM, reason: str = "") -> None:
    """Delete a secret and the previous one; deliveries that name it fail from now on."""

    def write(tx: Tx) -> None:
        _get(tx, owner, name)
        tx.secrets.remove(owner, name)
        tx.audit.append(Entry(world.clock.now(), actor, "delete", "secret", name, owner, reason or None))

    world.route(owner=owner).store.transact(write)


def open_secret(world: World, sealer: Sealer, name: str, *, owner: str) -> tuple[str, ...]:
    """Return the current text, then the previous one while it is valid; for the worker, just before a call."""
    sealed = world.route(owner=owner).store.read(lambda tx: tx.secrets.get(owner, name))
    if sealed is None:
        return ()
    still = sealed.previous_until is not None and world.clock.now() < sealed.previous_until
    texts = (sealed.text, sealed.previous if still else None)
    return tuple(sealer.open(owner, name, each) for each in texts if each is not None)


def reseal_secrets(world: World, sealer: Sealer, *, actor: str = SYSTEM, reason: str = "") -> int:
    """Seal every secret with the current key, so that older keys can be dropped; return how many were resealed."""
    done = 0
    for shard in world.shards():
        for owner in _owners(shard):  # with the shard of its owner, so that none is resealed while it is being moved
            done += world.route(owner=owner).store.transact(partial(_reseal, world, sealer, owner, actor, reason))
    return done


def new_signing_text(world: World) -> str:
    """Return a new signing secret, ``whsec_…``."""
    return SigningSecret(bytes.fromhex(world.dice.name(RANDOM_DIGITS))).reveal()


def _put(
    world: World,
    tx: Tx,
    sealer: Sealer,
    name: str,
    text: str,
    owner: str,
    overlap: timedelta,
    act: Callable[..., Entry],
) -> Sealed:
    now = world.clock.now()
    tx.owners.lock(owner, now)
    before = tx.secrets.get(owner, name)
    if before is None and len(tx.secrets.names(owner)) >= MOST:
        raise QuotaExceeded("secrets", MOST, "too_many_secrets")
    kept = before is not None and overlap > timedelta(0)
    after = Sealed(
        name=name,
        text=sealer.seal(owner, name, text),
        previous=before.text if before is not None and kept else None,
        previous_until=later(now, overlap) if kept else None,
        created_at=now if before is None else before.created_at,
        updated_at=now,
    )
    tx.secrets.put(owner, after)
    details = {"previous_until": None if after.previous_until is None else iso(after.previous_until)}
    tx.audit.append(act(at=now, object_type="secret", object_id=name, owner=owner, after=details))
    return after


def _reseal(world: World, sealer: Sealer, owner: str, actor: str, reason: str, tx: Tx) -> int:
    now = world.clock.now()
    tx.owners.lock(owner, now)
    done = 0
    for each in tx.secrets.names(owner):
        texts = [text for text in (each.text, each.previous) if text is not None]
        if all(sealer.is_current(text) for text in texts):
            continue
        anew = [sealer.seal(owner, each.name, sealer.open(owner, each.name, text)) for text in texts]
        previous = anew[1] if len(anew) > 1 else None
        tx.secrets.put(owner, replace(each, text=anew[0], previous=previous))
        tx.audit.append(Entry(now, actor, "reseal", "secret", each.name, owner, reason or None))
        done += 1
    return done


def _owners(world: World) -> Iterator[str]:
    """Yield all tenants that may have a secret: each has a row, because a secret is stored behind its lock."""

    def after(last: str | None) -> list[str]:
        return world.route().store.read(lambda tx: tx.owners.all(limit=PAGE, after=last))

    page = after(None)
    while page:
        yield from page
        page = after(page[-1])


def _get(tx: Tx, owner: str, name: str) -> Sealed:
    found = tx.secrets.get(owner, secret_name(name))
    if found is None:
        raise NotFound("secret_unknown", name=name)
    return found


def _overlap(given: timedelta) -> timedelta:
    if not timedelta(0) <= given <= LONGEST_OVERLAP:
        raise InvalidInput("overlap_too_long", most_days=LONGEST_OVERLAP.days)
    return given
