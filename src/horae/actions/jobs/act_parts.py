"""The parts of a bulk act of the house: each database of a cluster that it is for has one.

The process that begins an act may die between two databases, and one of them may be away. The keepers of those that
have a part bring it to those that have none, and let all parts end where one was cancelled. Both may be done twice and
by two at once: a part has the number of its act, and what was cancelled stays so.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from horae.actions.jobs.acts import WORKER, append_start, cancel, count_matching, give_job
from horae.actions.shards import AWAY, ask_each
from horae.core.jobs.acts import Act, ActState
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import MACHINERY
from horae.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from horae.ports.store import Tx
    from horae.ports.world import World

RECENT = timedelta(days=7)  # so long an act is brought to a database that was away
AT_ONCE = 200  # acts that one look is about, the newest


def complete_parts(everywhere: World, world: World) -> int:
    """Bring recent acts of one database to those that lack them; return how many parts were begun or cancelled."""
    since = world.clock.now() - RECENT
    found = world.route().store.read(lambda tx: tx.acts.in_parts(since, limit=AT_ONCE))
    numbers = [act.number for act in found]
    wanted = {int(number) for act in found for number in act.databases}
    parts, _ = ask_each(everywhere, lambda shard, _: (shard, _parts_in(shard, numbers)), wanted)
    undone = {act.undoes for act in found if act.undoes is not None}
    done = 0
    for act in reversed(found):  # the oldest first: what undoes an act comes after it
        known = [there[act.number] for _, there in parts.values() if act.number in there]
        is_cancelled = any(part.state == "cancelled" for part in known)
        for number in sorted({int(each) for each in act.databases} & parts.keys()):
            shard, there = parts[number]
            part = there.get(act.number)
            with suppress(*AWAY):  # one that does not answer is left to the next look
                if part is None:
                    begin = act if act.number not in undone else replace(act, state="cancelled")
                    done += _begin_part(shard, begin, is_cancelled)
                elif is_cancelled and not part.is_over:
                    done += _cancel_part(shard, act)
    return done


def _parts_in(shard: World, numbers: list[int]) -> dict[int, Act]:
    found = shard.route().store.read(lambda tx: [tx.acts.get(each) for each in numbers])
    return {each.number: each for each in found if each is not None}


def _begin_part(shard: World, act: Act, is_cancelled: bool) -> bool:
    """Begin an act in a database that it did not reach, for the jobs that were there when it began elsewhere."""
    if is_cancelled:
        return False  # it ends where it is, and nothing is left to be reached
    blank = replace(
        act, position=0, job=None, matched=0, more=False, changed=0, skipped=0, kept=0, skipped_for={}, sample={},
        finished_at=None,
    )  # fmt: skip

    def write(tx: Tx) -> bool:
        now = shard.clock.now()
        if tx.acts.get(act.number) is not None or tx.acts.was_begun(act.number):  # begun by another, or forgotten since
            return False
        part = _frozen(tx, blank, now)
        if part is None or not tx.acts.add_part(part):
            return False
        append_start(tx, part, now)
        if part.state == "running":
            give_job(tx, part, now)
        return True

    begun = shard.route().store.transact(write)
    shard.route().store.wake([MACHINERY])
    return begun


def _frozen(tx: Tx, act: Act, now: datetime) -> Act | None:
    """Return the part of an act in one database; None where it cannot begin yet.

    What was undone elsewhere before it came here is not done here, and undoing what never came here is done at once.
    """
    if act.state == "cancelled":
        return replace(act, finished_at=now)
    state: ActState = "paused" if act.state == "paused" else "running"
    if act.undoes is None:
        return count_matching(tx, replace(act, state=state), before=act.created_at)
    undone = tx.acts.get(act.undoes)
    if undone is None or undone.state == "cancelled":
        return replace(act, state="done", finished_at=now)
    if not undone.is_over:
        return None
    return replace(act, state=state, highest=undone.highest, matched=undone.kept)


def _cancel_part(shard: World, act: Act) -> bool:
    try:
        cancel(shard, act.id, actor=WORKER, reason=f"{act.id} was cancelled", owner=SYSTEM)
    except (NotAllowed, NotFound):  # it has just ended
        return False
    return True
