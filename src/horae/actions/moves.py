"""Moving virtual shards from one database of a cluster to another, while both work.

A parcel of shards is announced where it goes, packed where it is (which closes the shards and takes their rows out of
their tables), switched in the map by compare-and-set, unpacked (which opens them), and discarded. Before it is packed
nothing has happened; afterwards it can only go on, by the mover or by a caller of :func:`finish`: every step may be
repeated, and at no moment can two databases act on a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from horae.actions import bus, messages
from horae.actions.audit import seal_all
from horae.actions.cluster import copy_map, decide_map, entry_for, known_map, shards_of
from horae.actions.jobs.acts import give_job
from horae.actions.jobs.expectations import judge_open
from horae.actions.moved_events import BACKLOG, CLOSED, wait_until_published
from horae.actions.schedules.calendars import follow_all
from horae.actions.settings.catching_up import catch_up, catch_up_all
from horae.core.cluster.messages import HINT
from horae.core.cluster.moves import (
    ACT_OPEN,
    AT_ONCE,
    Attempt,
    Cargo,
    Parcel,
    drain_moves,
    even_moves,
    next_parcel,
    sources_of,
)
from horae.core.cluster.numbers import VSHARDS
from horae.core.cluster.shard_map import HOME
from horae.core.dataclass import dataclass
from horae.core.jobs.acts import Act, act_number
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.labels import blocks_of
from horae.core.jobs.machinery import MACHINERY
from horae.errors import Conflict, HoraeError, NotAllowed, StoreBusy, StoreUnavailable
from horae.ports.store import Tx
from horae.ports.world import World

SWITCHES = 20  # tries to write the map, each after another change of it
LOOK_AGAIN = 0.2  # seconds between two looks at attempts that are still under way
ACT_RESTS = 60.0  # seconds without progress after which a bulk act is not waited for any longer
LABELLED_AT_ONCE = 400
ID_LENGTH = 24

Progress = Callable[[int, int], None]  # virtual shards moved, of how many


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move has done."""

    vshards: int
    rows: int
    unpublished: int = 0  # events that wait in a database that was drained


def move(
    world: World,
    vshards: Collection[int],
    to: str,
    *,
    wait: timedelta = timedelta(0),
    actor: str = SYSTEM,
    reason: str = "",
    progress: Progress | None = None,
) -> Moved:
    """Move virtual shards to a database, some at once; each is closed to writers only while its rows are on the way.

    *wait* is how long attempts that are under way may take to end there. Those that still are go with their token and
    lease; their worker finds them by the map.
    """
    shard_map = known_map(world)
    target = shard_map.named(to).number
    shard_map.refuse_shardless(target)
    return _move_all(world, [(list(vshards), target)], wait, actor, reason, progress)


def drain(
    world: World,
    name: str,
    *,
    wait: timedelta = timedelta(0),
    actor: str = SYSTEM,
    reason: str = "",
    progress: Progress | None = None,
) -> Moved:
    """Move everything that a database keeps to the others, evenly. What ended there stays readable there.

    Jobs of callers' transactions that wait there are delivered; where a database does not take them, that is said. So
    are events that were not published within a while: processes that publish go on with them there.
    """
    shard_map = known_map(world)
    if len(shard_map.sharded) == 1:
        raise NotAllowed("cluster_drain_last", name=name)
    number = shard_map.named(name).number
    moved = _move_all(world, drain_moves(shard_map, number), wait, actor, reason, progress)
    left = messages.deliver_all(world, number)
    if left:
        raise Conflict("cluster_drain_undelivered", name=name, count=left)
    drained = shards_of(world).whole(world, number)
    seal_all(drained)
    wait_until_published(world, number, range(VSHARDS), CLOSED)
    return replace(moved, unpublished=bus.status(drained).waiting)


def move_even(
    world: World,
    *,
    wait: timedelta = timedelta(0),
    actor: str = SYSTEM,
    reason: str = "",
    progress: Progress | None = None,
) -> Moved:
    """Move so many virtual shards that all databases keep about as many."""
    return _move_all(world, even_moves(known_map(world)), wait, actor, reason, progress)


def _move_all(
    world: World,
    plan: Iterable[tuple[list[int], int]],
    wait: timedelta,
    actor: str,
    reason: str,
    progress: Progress | None,
) -> Moved:
    from horae.actions.restore import refuse_older_first  # which imports this module

    refuse_older_first(world)
    finish(world, actor=actor)
    planned = list(plan)
    if any(HOME in vshards for vshards, _ in planned):
        raise NotAllowed("vshard_home_stays")
    total, done, rows = sum(len(vshards) for vshards, _ in planned), 0, 0
    ends: dict[Attempt, float] = {}
    in_order = True  # until events were not published in time: then the bus is away, and no further ones are waited for
    for vshards, to in planned:
        shard_map = known_map(world)
        catch_up(world, to)  # what was paused stays so where its jobs go
        was_empty = not shard_map.counts[to]
        done += sum(shard_map.database_of(each) == to for each in vshards)
        for source, left in sources_of(shard_map, vshards, to):
            known = _count_rows(world, source) if len(left) > AT_ONCE else {}
            while left:
                few = next_parcel(left, known)
                left = left[len(few) :]
                _wait_for_attempts(world, source, few, wait, ends)
                parcel = Parcel(world.dice.name(ID_LENGTH), source, to, tuple(few))
                in_order = in_order and wait_until_published(world, source, few, BACKLOG)
                parcel, packed = _pack_between_acts(world, parcel)
                in_order = in_order and wait_until_published(world, source, few, CLOSED)
                advance(world, parcel, actor=actor, reason=reason)
                if was_empty:  # it has no share of limits until then; what plans a job could not be applied before, too
                    catch_up_all(world)
                    was_empty = False
                done, rows = done + len(few), rows + packed
                if progress is not None:
                    progress(done, total)
    catch_up_all(world)  # shares of limits follow from who keeps something
    return Moved(done, rows)


def _count_rows(world: World, source: int) -> Mapping[int, int]:
    shard_map = known_map(world)
    return shards_of(world).store_of(source).read(lambda tx: tx.parcels.rows_of(shard_map), unbounded=True)


def _wait_for_attempts(
    world: World, source: int, vshards: Collection[int], wait: timedelta, ends: dict[Attempt, float]
) -> None:
    """Wait until the attempts that are under way have ended, each for as long as it is given.

    That begins when the mover first sees it, in whatever shard: *ends* has the instants. Those that begin meanwhile are
    not waited for, or a busy shard would never leave.
    """
    store, cargo, clock = shards_of(world).store_of(source), Cargo(known_map(world), vshards), world.clock
    waits_for: set[Attempt] | None = None
    while wait:
        running, now = store.read(lambda tx: tx.parcels.running()), clock.monotonic()
        for each in running:
            ends.setdefault(each, now + wait.total_seconds())
        here = {each for each in running if cargo.has_job(each.number, each.owner)}
        waits_for = here if waits_for is None else waits_for & here
        if not any(ends[each] > now for each in waits_for):
            return
        clock.pause(LOOK_AGAIN)


def _pack_between_acts(world: World, parcel: Parcel) -> tuple[Parcel, int]:
    """Pack a parcel as soon as no act of the house walks its database: what it had not reached would be left out.

    Wait for as long as the act goes on; refuse where it rests, because it is paused or no worker serves it. Each try
    has a name of its own: a repair may be about to drop the announcement of the try before.
    """
    store, clock = shards_of(world).store_of(parcel.source), world.clock
    seen: Act | None = None
    since = clock.monotonic()
    while True:
        try:
            return parcel, pack(world, parcel)
        except NotAllowed as refused:
            if refused.reason != ACT_OPEN:
                raise
            number = act_number(str(refused.facts["id"]))
            act = store.read(lambda tx: tx.acts.get(number))  # noqa: B023 - called at once
            if act != seen:
                seen, since = act, clock.monotonic()
            if act is not None and (act.state == "paused" or clock.monotonic() - since > ACT_RESTS):
                raise
            clock.pause(LOOK_AGAIN)
            parcel = replace(parcel, id=world.dice.name(ID_LENGTH))


# -- the steps ---------------------------------------------------------------------------------------------------------


def pack(world: World, parcel: Parcel) -> int:
    """Announce a parcel where it goes and pack it where it is; return how many rows it has."""
    shards, shard_map = shards_of(world), known_map(world)
    source, target = shards.store_of(parcel.source), shards.store_of(parcel.target)
    cargo = Cargo(shard_map, parcel.vshards)
    judge_open(shards.whole(world, parcel.source))
    source.transact(lambda tx: tx.cluster.copy_map(shard_map))
    target.transact(lambda tx: tx.parcels.expect(parcel))
    try:
        return source.transact(lambda tx: tx.parcels.pack(parcel, cargo, version=shard_map.version))
    except HoraeError as problem:
        if not (isinstance(problem, StoreUnavailable) and problem.outcome_unknown):  # else it may have been packed
            with suppress(HoraeError):  # `check --repair` drops what is left
                target.transact(lambda tx: tx.parcels.discard(parcel))
        raise


def advance(world: World, parcel: Parcel, *, actor: str = SYSTEM, reason: str = "") -> None:
    """Bring a packed parcel to its end, from wherever it is."""
    shards = shards_of(world)
    source, target = shards.store_of(parcel.source), shards.store_of(parcel.target)
    if parcel in target.read(lambda tx: tx.parcels.expected()):
        switch(world, parcel, actor=actor, reason=reason)
        unpack(world, parcel)
    source.transact(lambda tx: tx.parcels.discard(parcel))


def switch(world: World, parcel: Parcel, *, actor: str = SYSTEM, reason: str = "") -> None:
    """Give the shards of a packed parcel to the database that it goes to, whatever else changes the map meanwhile."""
    for _ in range(SWITCHES):
        shard_map = known_map(world)
        if {shard_map.database_of(each) for each in parcel.vshards} == {parcel.target}:
            break
        name, given = shard_map.member(parcel.target).name, _ranges(parcel.vshards)
        entry = entry_for(world, "move_vshards", name, actor, reason, vshards=given,
                       source=shard_map.member(parcel.source).name)  # fmt: skip
        with suppress(Conflict):
            decide_map(world, shard_map, shard_map.move(parcel.vshards, parcel.target), entry)
            break
    else:
        raise StoreBusy("cluster_map_busy")
    shard_map = known_map(world)
    shards_of(world).store_of(parcel.target).transact(lambda tx: tx.cluster.copy_map(shard_map))
    copy_map(world, shard_map)


def unpack(world: World, parcel: Parcel) -> None:
    """Write the rows of a parcel where it goes, once."""
    shards = shards_of(world)
    content = shards.store_of(parcel.source).read(lambda tx: tx.parcels.content(parcel), unbounded=True)
    now = shards.whole(world, parcel.target).clock.now()

    def write(tx: Tx) -> None:
        numbers = tx.parcels.unpack(parcel, content) or []
        follow_all(shards.whole(world, parcel.target), tx)
        for start in range(0, len(numbers), LABELLED_AT_ONCE):
            found = tx.labels.read_numbered(numbers[start : start + LABELLED_AT_ONCE])
            tx.labels.add(blocks_of(found))
            tx.wake({each.queue for each in found})
        for act in tx.acts.without_job(limit=LABELLED_AT_ONCE):  # their jobs stayed, and find nothing there
            give_job(tx, act, now)
        tx.wake({HINT, MACHINERY})  # messages and acts that came with them go on from here

    shards.store_of(parcel.target).transact(write)


def finish(world: World, *, actor: str = SYSTEM) -> int:
    """Bring every parcel that was left on the way to its end; return how many there were."""
    found, in_order = open_parcels(world), True
    for parcel in found:
        in_order = in_order and wait_until_published(world, parcel.source, parcel.vshards, CLOSED)
        advance(world, parcel, actor=actor)
    return len(found)


def open_parcels(world: World) -> list[Parcel]:
    """Return the parcels that are packed and not discarded; a database that does not answer is passed over."""
    found: list[Parcel] = []
    for member in known_map(world).members:
        with suppress(HoraeError):
            found += shards_of(world).store_of(member.number).read(lambda tx: tx.parcels.packed())
    return found


def _ranges(vshards: Collection[int]) -> str:
    """Write 17-40,99."""
    runs: list[list[int]] = []
    for vshard in sorted(vshards):
        if runs and runs[-1][1] == vshard - 1:
            runs[-1][1] = vshard
        else:
            runs.append([vshard, vshard])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
