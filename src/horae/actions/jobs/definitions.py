"""Stored definitions of jobs: they decide what tenants may run, independent of which workers are alive."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from operator import attrgetter

from horae.core.audit.entries import Entry
from horae.core.jobs.job import OPEN_HANDLERS, SYSTEM
from horae.core.jobs.payloads import label, name
from horae.errors import InvalidInput
from horae.ports.definitions import StoredDefinition
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.definitions")
MOST = 10_000  # definitions with one call
MOST_NAMES = 100  # of sensitive arguments
CONTENT = attrgetter(  # of a definition: all but who stored it and when
    *(each.name for each in fields(StoredDefinition) if each.name not in ("app", "stored_at", "stored_by"))
)
RELEASED_AT_ONCE = 1000  # jobs in one transaction, so that opening a handler blocks no other transaction for long


def store_definitions(
    world: World, definitions: Iterable[StoredDefinition], *, app: str = "", actor: str = SYSTEM, reason: str = ""
) -> list[StoredDefinition]:
    """Store the definitions that a worker can run, and return those that changed.

    The newest stored one counts, whichever worker or application stored it. What is opened or closed to tenants is
    audited. Jobs held for a handler that is open now are released, in small transactions: if this process dies between
    two of them, the next process that stores the same releases the rest, and so does the janitor.
    """
    now = world.clock.now()
    wanted = {each.name: _check(replace(each, app=app, stored_at=now, stored_by=actor)) for each in definitions}
    if len(wanted) > MOST:
        raise InvalidInput("too_many_definitions", count=len(wanted), most=MOST)
    if world.cluster is not None:
        from horae.actions.settings.definitions import decide_definitions  # a single database does not need it

        changed = decide_definitions(world, wanted, reason)
    else:
        differ = find_changed(wanted.values(), find_definitions(world))
        changed = _write(world, wanted, reason) if differ else []
    for definition in changed:
        is_usual = definition.tenants == (definition.name in OPEN_HANDLERS)
        level = logging.DEBUG if is_usual else logging.INFO
        log.log(level, "%s is %s to tenants", definition.name, "open" if definition.tenants else "not open")
    if any(definition.tenants for definition in wanted.values()) and world.cluster is None:
        release_held(world)
    return changed


def _write(world: World, wanted: Mapping[str, StoredDefinition], reason: str) -> list[StoredDefinition]:
    """Store and audit the definitions that differ, behind the lock; return them."""

    def write(tx: Tx) -> list[StoredDefinition]:
        tx.definitions.lock()
        stored = tx.definitions.all()
        return put_definitions(tx, find_changed(wanted.values(), stored), stored, reason)

    return world.route().store.transact(write)


def put_definitions(
    tx: Tx, changed: list[StoredDefinition], stored: Iterable[StoredDefinition], reason: str
) -> list[StoredDefinition]:
    """Store definitions over the *stored* ones and audit what is opened or closed; the caller has the lock."""
    known = {each.name: each for each in stored}
    tx.definitions.put(*changed)
    pairs = ((each, known.get(each.name)) for each in changed)
    tx.audit.append_many(
        _entry(each, was, reason) for each, was in pairs if each.tenants != (was is not None and was.tenants)
    )
    return changed


def release_held(world: World) -> int:
    """Release the jobs held for handlers that are open now; return how many."""
    total = 0
    while True:
        count, queues = world.route().store.transact(lambda tx: tx.definitions.release(RELEASED_AT_ONCE))
        world.route().store.wake(queues)
        total += count
        if count < RELEASED_AT_ONCE:
            return total


def find_definitions(world: World) -> list[StoredDefinition]:
    """Return every stored definition, by name."""
    return world.route().store.read(lambda tx: tx.definitions.all())


def refuse_closed(tx: Tx, handler: str, owner: str) -> None:
    """Refuse to schedule a closed handler for a tenant. One that is not stored yet is held when it fires."""
    if owner == SYSTEM:
        return
    stored = tx.definitions.get(handler)
    if stored is not None and not stored.tenants:
        raise InvalidInput("handler_not_for_tenants", handler=handler, owner=owner)


def find_changed(wanted: Iterable[StoredDefinition], stored: Iterable[StoredDefinition]) -> list[StoredDefinition]:
    """Return the definitions that differ from the stored ones, by name."""
    known = {each.name: CONTENT(each) for each in stored}
    differ = [each for each in wanted if known.get(each.name) != CONTENT(each)]
    return sorted(differ, key=lambda each: each.name)


def _check(definition: StoredDefinition) -> StoredDefinition:
    name(definition.name, "handler", 200)
    name(definition.queue, "queue")
    if definition.app:
        label(definition.app, "application")
    for each in definition.sensitive[: MOST_NAMES + 1]:
        label(each, "sensitive name", 200)
    if len(definition.sensitive) > MOST_NAMES:
        raise InvalidInput("too_many_sensitive_names", count=len(definition.sensitive), most=MOST_NAMES)
    return definition


def _entry(definition: StoredDefinition, was: StoredDefinition | None, reason: str) -> Entry:
    return Entry(
        at=definition.stored_at,  # type: ignore[arg-type]  # set by store_definitions
        actor=definition.stored_by,
        verb="open" if definition.tenants else "close",
        object_type="definition",
        object_id=definition.name,
        owner=SYSTEM,
        reason=reason or None,
        before={} if was is None else {"tenants": was.tenants, "queue": was.queue, "app": was.app},
        after={"tenants": definition.tenants, "queue": definition.queue, "app": definition.app},
    )
