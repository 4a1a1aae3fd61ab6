"""What code declares and what the store keeps, brought in line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from horae.actions.schedules import CHANGEABLE, MAX_PAGE, checked, entry_for, find, locked, note_follows, timed, written
from horae.core.fires import Schedule
from horae.ports import ScheduleFilter, Tx, World

CHUNK = 200  # schedules written in one transaction


def declare(world: World, declared: Sequence[Schedule], *, seed: bool = False) -> list[Schedule]:
    """Bring the store in line with what code (and file) declare; what somebody changed through a verb stays.

    With *seed*, only insert what is not there yet (document 004's defaults). What is already as declared costs one
    read for a thousand of them.
    """
    known = _stored(world, declared)
    told: list[Schedule] = []
    waiting: list[Schedule] = []
    for schedule in declared:
        checked(world, schedule)
        before = known.get((schedule.owner, schedule.key))
        if before is not None and (seed or _same(before, _wanted(before, schedule))):
            told.append(before)
        else:
            waiting.append(schedule)
    for start in range(0, len(waiting), CHUNK):
        chunk = waiting[start : start + CHUNK]
        told += world.store.transact(lambda tx, chunk=chunk: [_declared(world, tx, each, seed) for each in chunk])  # type: ignore[misc]
    world.store.wake(["*"] if waiting else [])
    return told


def _stored(world: World, declared: Sequence[Schedule]) -> dict[tuple[str, str], Schedule]:
    found: dict[tuple[str, str], Schedule] = {}
    for owner in sorted({schedule.owner for schedule in declared}):
        after: str | None = None
        while page := find(world, ScheduleFilter(owner=owner), limit=MAX_PAGE, after=after):
            found |= {(owner, schedule.key): schedule for schedule in page}
            after = page[-1].key
    return found


def retire(world: World, keys: Iterable[str]) -> list[str]:
    """Declared schedules that no code declares any more become inactive, with the reason visible."""
    known = set(keys)
    gone = [each for each in find(world, ScheduleFilter(declared=True), limit=MAX_PAGE) if each.key not in known]
    for schedule in gone:
        set_inactive(world, schedule, "no longer declared in code")
    return [schedule.key for schedule in gone]


def set_inactive(world: World, schedule: Schedule, reason: str | None) -> None:
    """Keep a schedule from firing and say why; None lets it fire again."""
    if schedule.inactive == reason:
        return

    def write(tx: Tx) -> None:
        before = locked(tx, schedule.key, schedule.owner)
        verb = "activate" if reason is None else "deactivate"
        written(world, tx, before, replace(before, inactive=reason), verb, "system/start", reason or "")

    world.store.transact(write)


def _wanted(before: Schedule, schedule: Schedule) -> Schedule:
    """The stored schedule as code and file want it, where no verb has overridden them."""
    kept = {field for field, source in before.sources.items() if source == "api"}
    wanted = {field: getattr(schedule, field) for field in CHANGEABLE if field not in kept}
    sources = {**schedule.sources, **dict.fromkeys(kept, "api")}
    return replace(before, **wanted, sources=sources, declared=True, inactive=None)


def _declared(world: World, tx: Tx, schedule: Schedule, seed: bool) -> Schedule:
    before = tx.schedules.get(schedule.key, schedule.owner, lock=True)
    if before is None:
        now = world.clock.now()
        made = replace(schedule, created_at=now, updated_at=now, tzdata=world.tzdata, declared=not seed)
        made = timed(world, made, now)
        made = replace(made, number=tx.schedules.add(made))
        note_follows(tx, made)
        tx.audit.append(entry_for(now, "declare", made, "system/start", "", before={}))
        return made
    after = _wanted(before, schedule)
    if seed or _same(before, after):
        return before
    return written(world, tx, before, after, "declare", "system/start", "")


def _same(before: Schedule, after: Schedule) -> bool:
    return all(
        getattr(before, field) == getattr(after, field) for field in (*CHANGEABLE, "sources", "declared", "inactive")
    )
