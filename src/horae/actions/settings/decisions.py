"""Decide about a setting of the house in a cluster: in one database first, then in all others that answer.

The first database that answers decides: it gives the version and changes what follows from the setting, both in one
transaction behind the setting's lock. Each other database takes the decision over in the same way, unless it has one of
a higher rank. A process that dies in between leaves copies that are behind; the keepers' chore finds and applies what
they lack (``catching_up.py``), and so it does in a database that was away. A single database knows nothing of this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from horae.actions.settings.divisions import Redivided, lock_division, read_division
from horae.actions.shards import AWAY, members
from horae.core.cluster.settings import PENDING, SHARED, Kind, Portion, SharedSetting, next_version, portion_of
from horae.core.dataclass import dataclass
from horae.core.time.instants import micros
from horae.errors import HoraeError, NotFound, StaleMap, StoreBusy

if TYPE_CHECKING:
    from horae.ports.cluster import Shards
    from horae.ports.store import Store, Tx
    from horae.ports.world import World

T = TypeVar("T")
log = logging.getLogger("horae.settings")
Value = Mapping[str, Any]
Apply = Callable[["World", SharedSetting, Portion], Any]
TRIES = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """A decision that has no version yet; a value may be read in the transaction that decides."""

    kind: Kind
    name: str
    value: Value | Callable[[Tx], Value]
    actor: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decided(Generic[T]):
    """The answers of the databases that have it, the one that decided first, and the names of those that have not."""

    answers: list[Any]
    away: tuple[str, ...]
    databases: int  # that should have it


class AlreadyKnown(Exception):
    """A copy has this decision, or a later one; the transaction that was to write it is given up."""


@dataclass
class NotingStore:
    """A store whose first transaction also writes the copy of a setting, before anything else."""

    kept: Store
    note: Callable[[Tx], None]
    is_noted: bool = field(default=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)

    def transact(self, work: Callable[[Tx], T], *, hot: bool = False) -> T:
        if self.is_noted:
            return self.kept.transact(work, hot=hot)

        def both(tx: Tx) -> T:
            self.note(tx)
            return work(tx)

        done = self.kept.transact(both, hot=hot)
        self.is_noted = True
        return done


def decide(world: World, draft: Draft, act: Callable[[World, Portion], T]) -> Decided[T]:
    """Decide by *act*, which changes one database, and let all others follow; name those that have to follow later.

    What the first that answers refuses is refused; what is unknown there may be known in another.
    """
    setting, number, answer, away = _decide_somewhere(world, draft, act)
    answers: list[Any] = [answer]
    keeping = members(world)
    for member in keeping:
        if member.number == number or member.name in away:
            continue
        try:
            copied = apply_setting(world, member.number, setting)
            answers += [] if copied.answer is None else [copied.answer]
            away += [member.name] if copied.is_refused else []
        except AWAY as missing:
            log.info("database %s follows later with %s %s: %s", member.name, setting.kind, setting.name, missing)
            away.append(member.name)
    return Decided(answers, tuple(away), len(keeping))


def _decide_somewhere(
    world: World, draft: Draft, act: Callable[[World, Portion], T]
) -> tuple[SharedSetting, int, T, list[str]]:
    away, problem, unknown = list[str](), None, None
    for member in members(world):
        try:
            setting, answer = _decide_in(world, member.number, draft, act)
            return setting, member.number, answer, away
        except AWAY as missing:
            away.append(member.name)
            problem = problem or missing
        except NotFound as missing:
            unknown = unknown or missing
    raise unknown or problem or AssertionError("a cluster has a database that keeps something")


def _decide_in(world: World, number: int, draft: Draft, act: Callable[[World, Portion], T]) -> tuple[SharedSetting, T]:
    def once() -> tuple[SharedSetting, T]:
        shard, portion = shard_of(world, number, draft.kind)
        made: list[SharedSetting] = []
        store = NotingStore(shard.route().store, lambda tx: made.append(_decided(tx, shard, draft, number, portion)))
        answer = act(replace(shard, store=cast("Store", store)), portion)
        if not store.is_noted:  # nothing had to be changed for it
            store.transact(lambda tx: None)
        return made[-1], answer

    return _repeated(once)


def _repeated(once: Callable[[], T]) -> T:
    """Do something again while shares are divided anew under it, which happens once for each change of the map."""
    for _ in range(TRIES):
        with suppress(Redivided):
            return once()
    raise StoreBusy("cluster_map_busy")


def _check_portion(tx: Tx, kind: Kind, portion: Portion) -> None:
    """Keep the shares from being divided anew until the transaction ends; refuse where they just were."""
    if kind in SHARED:
        division = lock_division(tx)
        if division is not None and division.portion != portion:
            raise Redivided


def _decided(tx: Tx, shard: World, draft: Draft, number: int, portion: Portion) -> SharedSetting:
    """Write a decision in the database that decides, and return it."""
    _check_portion(tx, draft.kind, portion)
    known = tx.settings.lock(draft.kind, [draft.name])[draft.name]
    value = draft.value(tx) if callable(draft.value) else draft.value
    version = next_version(known.version, micros(shard.clock.now()))
    made = SharedSetting(draft.kind, draft.name, version, number, value, draft.actor, draft.reason)
    made = replace(made, applied=portion.mark(draft.kind))
    tx.settings.put(made)
    return made


# -- copies ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of a copy: the answer of the verb, None where there was nothing to do; or it was refused for now."""

    answer: Any = None
    is_refused: bool = False


def apply_setting(world: World, number: int, setting: SharedSetting, act: Apply | None = None) -> Copied:
    """Take a decision over in one database, unless it has that one or a later one; safe to repeat and to do at once.

    Where the verb refuses it, the copy is noted as pending and tried again by the chore: as long as a schedule there
    uses a calendar that was deleted, or a pause needs a job for its end and the database keeps no shard yet. *act*
    applies it otherwise than its kind does.
    """
    return _repeated(lambda: _apply_once(world, number, setting, act))


def _apply_once(world: World, number: int, setting: SharedSetting, act: Apply | None) -> Copied:
    from horae.actions.settings.kinds import APPLY

    shard, portion = shard_of(world, number, setting.kind)
    mark = portion.mark(setting.kind)

    def note(tx: Tx, applied: str = mark) -> None:
        _check_portion(tx, setting.kind, portion)
        known = tx.settings.lock(setting.kind, [setting.name])[setting.name]
        if known.rank > setting.rank or (known.rank == setting.rank and known.applied in (mark, applied)):
            raise AlreadyKnown
        tx.settings.put(replace(setting, applied=applied))

    store = NotingStore(shard.route().store, note)
    try:
        answer = (act or APPLY[setting.kind])(replace(shard, store=cast("Store", store)), setting, portion)
        if not store.is_noted:
            store.transact(lambda tx: None)
        return Copied(answer)
    except AlreadyKnown:
        return Copied()
    except HoraeError as refused:
        if isinstance(refused, AWAY) and not isinstance(refused, StaleMap):
            raise
        return _note_pending(shard, setting, note, refused)


def _note_pending(shard: World, setting: SharedSetting, note: Callable[[Tx, str], None], refused: HoraeError) -> Copied:
    if not isinstance(refused, NotFound):  # a group of errors that this database has not seen is muted when it comes
        log.warning("%s %s cannot be applied yet: %s", setting.kind, setting.name, refused)
    try:
        shard.route().store.transact(lambda tx: note(tx, PENDING))
    except AlreadyKnown:
        return Copied()
    return Copied(is_refused=not isinstance(refused, NotFound))


def shard_of(world: World, number: int, kind: Kind) -> tuple[World, Portion]:
    """Return the plain world of a database, and its portion in force of what is shared out."""
    shard = cluster_of(world).whole(world, number)
    division = shard.route().store.read(read_division) if kind in SHARED else None
    return shard, portion_of(number, keeping(world)) if division is None else division.portion


def keeping(world: World) -> list[int]:
    """Return the numbers of the databases that keep something."""
    return [each.number for each in members(world)]


def cluster_of(world: World) -> Shards:
    assert world.cluster is not None
    return world.cluster
