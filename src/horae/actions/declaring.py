"""What code declares and what the store keeps, brought in line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from horae.actions.schedules import CHANGEABLE, MAX_PAGE, checked, entry_for, find, locked, note_follows, timed, written
from horae.core.fires import Schedule
from horae.ports import ScheduleFilter, Tx, World


def declare(world: World, declared: Sequence[Schedule], *, seed: bool = False) -> list[Schedule]:
    """Bring the store in line with what code (and file) declare; what somebody changed through a verb stays.

    With *seed*, only insert what is not there yet (document 004's defaults).
    """
    return [_declared(world, schedule, seed) for schedule in declared]


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


def _declared(world: World, schedule: Schedule, seed: bool) -> Schedule:
    checked(world, schedule)
    now = world.clock.now()

    def write(tx: Tx) -> Schedule:
        before = tx.schedules.get(schedule.key, schedule.owner, lock=True)
        if before is None:
            made = replace(schedule, created_at=now, updated_at=now, tzdata=world.tzdata, declared=not seed)
            made = timed(world, made, now)
            made = replace(made, number=tx.schedules.add(made))
            note_follows(tx, made)
            tx.audit.append(entry_for(now, "declare", made, "system/start", "", before={}))
            return made
        if seed:
            return before
        kept = {field for field, source in before.sources.items() if source == "api"}
        wanted = {field: getattr(schedule, field) for field in CHANGEABLE if field not in kept}
        sources = {**schedule.sources, **dict.fromkeys(kept, "api")}
        after = replace(before, **wanted, sources=sources, declared=True, inactive=None)
        if _same(before, after):
            return before
        return written(world, tx, before, after, "declare", "system/start", "")

    return world.store.transact(write)


def _same(before: Schedule, after: Schedule) -> bool:
    return all(
        getattr(before, field) == getattr(after, field) for field in (*CHANGEABLE, "sources", "declared", "inactive")
    )
