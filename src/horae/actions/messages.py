"""Deliver what the databases of a cluster have to tell each other.

Any process takes due messages of a database for a while, hands them over, and deletes them: in this order, so that a
process that dies leaves a message that is delivered again, which changes nothing. Each destination is served by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from horae.actions.jobs.on_the_way import is_on_the_way
from horae.actions.shards import AWAY
from horae.core.cluster.messages import (
    LIVE,
    UNKNOWN,
    UNPLACED,
    Answer,
    Message,
    by_destination,
    followings,
    pause_after,
)
from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.errors import ConfigurationError, HoraeError, StaleMap, StoreBusy, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from horae.core.cluster.messages import Following
    from horae.core.schedules.schedule import Schedule
    from horae.ports.cluster import Shards
    from horae.ports.store import Store, Tx
    from horae.ports.world import World

log = logging.getLogger("horae.messages")
AT_ONCE = 100  # messages in one transaction
ROUNDS = 1000  # of deliveries before a drain says what is left
FORGOTTEN = 1000  # rows that are deleted at once
NOT_ANSWERING = (StoreUnavailable, StoreBusy, StoreFull, ConfigurationError)  # for all messages, not for one of them
SHORTEST_MARK = timedelta(days=7)  # a job that arrived is known again for at least so long
HELD = timedelta(seconds=10)  # so long a process that died keeps others from delivering what it took


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be delivered: virtual shards by database, and when there is more."""

    now: dict[int, list[int]]
    next_at: datetime | None
    unanswered: bool


@dataclass(slots=True)
class Handed:
    """What became of messages that were taken."""

    delivered: list[Message] = field(default_factory=list)
    left: list[Message] = field(default_factory=list)  # their shard was on the way, or a database is away
    moved: list[tuple[Message, int]] = field(default_factory=list)  # with the virtual shard to send them on to


def find_due(world: World, shards: Shards) -> Due:
    """Look what a database has to deliver, by destination."""
    due, unanswered = world.route().store.read(lambda tx: (tx.messages.due(), tx.messages.has_unanswered()))
    now = world.clock.now()
    ripe = {vshard: at for vshard, at in due.items() if at <= now}
    later = [at for at in due.values() if at > now]
    return Due(by_destination(shards.shard_map, ripe), min(later, default=None), unanswered)


def deliver(world: World, everywhere: World, number: int, vshards: Sequence[int], *, limit: int = AT_ONCE) -> int:
    """Deliver some of the messages of a database to another; return how many were taken.

    Where that one does not answer they are given back at once, and its error is raised.
    """
    taken = take(world, vshards, limit=limit)
    if not taken:
        return 0
    try:
        handed = hand_over(everywhere, number, taken)
    except Exception:
        now = world.clock.now()
        world.route().store.transact(lambda tx: tx.messages.postpone([(each, now) for each in taken]))
        raise
    finish(world, handed)
    return len(taken)


def deliver_all(everywhere: World, number: int) -> int:
    """Deliver what one database has to tell others, as far as they answer; return how much is left."""
    shards = _shards_of(everywhere)
    world = shards.whole(everywhere, number)
    for _ in range(ROUNDS):
        settle_asks(world)
        taken = 0
        for target, vshards in find_due(world, shards).now.items():
            with suppress(*AWAY):
                taken += deliver(world, everywhere, target, vshards)
        if not taken:
            break
    return sum(each.count for each in world.route().store.read(lambda tx: tx.messages.waiting()))


def take(world: World, vshards: Sequence[int], *, limit: int = AT_ONCE) -> list[Message]:
    """Take due messages to these virtual shards; other processes leave them alone for a while."""
    now = world.clock.now()
    return world.route().store.transact(lambda tx: tx.messages.take(vshards, now=now, until=now + HELD, limit=limit))


def finish(world: World, handed: Handed) -> None:
    """Delete messages that have had their effect; let the others be tried again."""
    now = world.clock.now()

    def write(tx: Tx) -> None:
        tx.messages.forget(handed.delivered)
        tx.messages.postpone([(each, now + pause_after(each.tries)) for each in handed.left])
        for message, vshard in handed.moved:
            tx.messages.readdress(message, vshard, now)

    world.route().store.transact(write)


def hand_over(everywhere: World, number: int, taken: Sequence[Message]) -> Handed:
    """Let a database do what messages say, all in one transaction where none is refused."""
    shards, handed = _shards_of(everywhere), Handed()
    here: list[Message] = []
    for each in sorted(taken, key=lambda message: (message.receiver, message.sender)):
        vshard = shards.forward(job_id(each.receiver)) if each.vshard == UNPLACED else None
        if vshard is None:
            here.append(each)
        else:
            handed.moved.append((each, vshard))
    for each in _hand_over(everywhere, number, here, handed):
        _answer_for(everywhere, number, each, handed)
    return handed


def _hand_over(everywhere: World, number: int, messages: Sequence[Message], handed: Handed) -> list[Message]:
    """Return those that ask about jobs which are not known there."""
    if not messages:
        return []
    try:
        unknown = _receive(everywhere, number, messages)
    except NOT_ANSWERING:
        raise
    except Exception as problem:
        if isinstance(problem, StaleMap):
            with suppress(HoraeError):  # the known map does while the first database is away
                _shards_of(everywhere).refresh()
        if len(messages) > 1:  # one that is refused must not hold up the others
            return [each for one in messages for each in _hand_over(everywhere, number, [one], handed)]
        if not isinstance(problem, StaleMap):
            log.exception("a message to %s could not be delivered; it is tried again", job_id(messages[0].receiver))
        handed.left += messages
        return []
    handed.delivered += [each for each in messages if each not in unknown]
    return unknown


def _receive(everywhere: World, number: int, messages: Sequence[Message]) -> list[Message]:
    shards = _shards_of(everywhere)
    version, world = shards.shard_map.version, shards.whole(everywhere, number)
    vshards, now = {each.vshard for each in messages} - {UNPLACED}, world.clock.now()

    def write(tx: Tx) -> list[Message]:
        tx.enter(vshards, version)
        return [each for each in messages if not tx.messages.receive(each, now=now)]

    return world.route().store.transact(write)


def _answer_for(everywhere: World, number: int, ask: Message, handed: Handed) -> None:
    """Answer an ask about a job that its shard does not know: it may have ended where the shard was before."""
    shards = _shards_of(everywhere)
    try:
        answer = _find_elsewhere(everywhere, ask.receiver)
        world = shards.whole(everywhere, number)
        version, now = shards.shard_map.version, world.clock.now()

        def write(tx: Tx) -> None:
            tx.enter({ask.vshard} - {UNPLACED}, version)
            tx.messages.receive(ask, now=now, found=answer)

        world.route().store.transact(write)
    except AWAY as problem:
        log.debug("%s is not known, and not every database can be asked: %s", job_id(ask.receiver), problem)
        handed.left.append(ask)
    else:
        handed.delivered.append(ask)


def _find_elsewhere(everywhere: World, number: int) -> Answer:
    """Ask every database how a job ended; all of them must answer. One that has not arrived is asked for later."""
    if is_on_the_way(everywhere, number):
        raise StaleMap("stale_map", vshard=0, version=0)
    for world in everywhere.databases():
        found = world.route().store.read(lambda tx: tx.messages.find_final(number))
        if found is not None:
            if found.state == LIVE:  # it has moved between two looks
                raise StaleMap("stale_map", vshard=0, version=0)
            return found
    return Answer(UNKNOWN)


def settle_asks(world: World, *, limit: int = AT_ONCE) -> int:
    """Write answers that a transaction left to be written; return how many."""
    now = world.clock.now()
    return world.route().store.transact(lambda tx: tx.messages.settle_asks(now=now, limit=limit))


def find_lost_asks(world: World) -> int:
    """Find asks about jobs that have ended without an answer: a safety net; return how many."""
    lost = world.route().store.transact(lambda tx: tx.messages.find_lost_asks())
    if lost:
        log.warning("repaired %s asks about jobs which had already ended", lost)
    return lost


def forget_old(world: World) -> int:
    """Delete what was asked and answered about jobs that are gone, once their runs are not kept either."""
    store, before = world.route().store, world.clock.now() - world.retention.runs
    return sum(store.forget(table, before, FORGOTTEN) for table in ("horae_answers", "horae_asks"))


def forget_arrivals(world: World, everywhere: World) -> int:
    """Forget jobs that arrived long ago, once the database that they came from has them no more; return how many.

    As long as it has one, or does not answer, that job may come again.
    """
    store, before = world.route().store, world.clock.now() - max(world.retention.runs, SHORTEST_MARK)
    shards, gone = _shards_of(everywhere), list[int]()
    for member in shards.shard_map.members:
        with suppress(*AWAY):
            gone += _find_gone(store, shards, member.number, before)
    if gone:
        store.transact(lambda tx: tx.sent_jobs.forget_arrivals(gone))
    return len(gone)


def _find_gone(store: Store, shards: Shards, source: int, before: datetime) -> list[int]:
    numbers = store.read(lambda tx: tx.sent_jobs.arrived_from(source, before, FORGOTTEN))
    waiting = shards.store_of(source).read(lambda tx: tx.sent_jobs.waiting(numbers)) if numbers else set[int]()
    return [number for number in numbers if number not in waiting]


def ask_again(world: World) -> None:
    """Repeat the asks of all databases that answer: one that was restored from a copy has forgotten some.

    A schedule whose leader has heard of a later version than there is, because it was restored, gets a version above
    that: whatever it said until then would count as old.
    """
    from horae.actions.schedules.schedules import iterate
    from horae.ports.schedules import ScheduleFilter

    shards, heard = _shards_of(world), dict[int, int]()
    for member in shards.shard_map.members:
        with suppress(*AWAY):
            found = shards.store_of(member.number).read(lambda tx: tx.messages.heard_of_followers())
            heard |= {number: max(version, heard.get(number, 0)) for number, version in found.items()}
    for member in shards.shard_map.members:
        position: tuple[int, int] | None = (0, 0)
        with suppress(*AWAY):
            shard = shards.whole(world, member.number)
            while position is not None:
                position = _ask_again(shard, position)
            for schedule in iterate(shard, ScheduleFilter(owner=SYSTEM)):
                if schedule.version < heard.get(schedule.number, 0):
                    schedule = _outdo(shard, schedule, heard[schedule.number])
                wanted = followings(shards.shard_map, schedule.owner, schedule.key, schedule.after)
                if wanted:
                    _follow_again(shard, schedule, wanted)


def _ask_again(shard: World, position: tuple[int, int]) -> tuple[int, int] | None:
    now = shard.clock.now()
    return shard.route().store.transact(lambda tx: tx.messages.ask_again(after=position, now=now))


def _outdo(shard: World, schedule: Schedule, heard: int) -> Schedule:
    """Give a schedule a version above one that others have heard of; what it says stays the same."""

    def write(tx: Tx) -> Schedule:
        before = tx.schedules.get(schedule.key, schedule.owner, lock=True)
        if before is None or before.version >= heard:
            return before or schedule
        after = replace(before, version=heard + 1, updated_at=shard.clock.now())
        tx.schedules.put(after, expected_version=before.version)
        return after

    return shard.route().store.transact(write)


def _follow_again(shard: World, schedule: Schedule, wanted: Sequence[Following]) -> None:
    now = shard.clock.now()
    shard.route().store.transact(lambda tx: tx.messages.follow(schedule.number, schedule.version, wanted, now))


def _shards_of(world: World) -> Shards:
    assert world.cluster is not None
    return world.cluster
