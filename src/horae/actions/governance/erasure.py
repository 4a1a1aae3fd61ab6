"""Erase what an owner keeps about a person: objects by id or by subject, and whatever repeats them.

An erased object is retracted and stays as a row without content, so that links, entries and counts remain true. The
audit holds digests alone, so its chain stays valid; rows of attention are changed through their lanes, so that their
journals go on to fold to the tables.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from horae.actions.attention.lanes import K, LaneWriter, in_known_lane
from horae.actions.governance.object_writer import By, Change, ObjectWriter, find_one
from horae.actions.governance.rulings import DECISION
from horae.actions.jobs.jobs import cancel as cancel_job
from horae.actions.jobs.on_the_way import refuse_owner_on_the_way
from horae.actions.schedules import schedules
from horae.core.access.callers import Caller
from horae.core.attention.lanes import Event, Kept, StoredFact, Task, TaskWait
from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.governance.objects import GovernedObject, ObjectFilter
from horae.core.governance.proposals import subject_key
from horae.core.governance.transitions import walk
from horae.core.jobs.agent_words import AGENT_WORDS
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.errors import Conflict, InvalidInput, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

AT_ONCE = 100  # objects of one call
ROWS = 1000  # rows of attention that are looked at in one pass
SHORTEST = 4  # characters of a text that is looked for inside others; a shorter one would be found everywhere
LONGEST = 2000
EMPTY: dict[type[Any], dict[str, Any]] = {  # what is left of a row of attention
    Task: {"payload": "{}", "context": None, "note": None, "intent": None, "result": None, "reason": None},
    TaskWait: {"intent": None},
    Event: {"data": "{}", "reason": None},
    StoredFact: {"data": "{}", "about": "{}"},
}


@dataclass(frozen=True, slots=True)
class Erased:
    """How much was erased, and whether to call again."""

    objects: int = 0
    jobs: int = 0
    attention: int = 0
    conversations: int = 0  # threads of checkpoints, sessions and documents of agent frameworks
    unreadable: int = 0  # threads that are encrypted: what they repeat is not known
    more: bool = False


def erase(
    world: World,
    *,
    owner: str,
    caller: Caller,
    object_id: str | None = None,
    subject: str | None = None,
    kind: str | None = None,
    reason: str = "",
) -> Erased:
    """Erase one object, or all objects about a subject; erasing twice is not an error."""
    if (object_id is None) == (subject is None):
        raise InvalidInput("erase_one_of")
    refuse_owner_on_the_way(world, owner)
    about = None if subject is None else label(subject, "subject", 200)
    found, more = _find(world, owner, object_id, kind, about)
    if any(each.risk == "high" for each in found):
        caller.require_person()
    done, texts = Erased(more=more), [] if about is None else [about]
    subjects = list[str]()
    for each in found:
        contents, jobs = _erase_everywhere(world, each, caller, reason, about)
        done = replace(done, objects=done.objects + 1, jobs=done.jobs + jobs)
        texts += [f"{each.kind}:{each.id}", *contents]
        subjects.append(each.subject)
    done = replace(done, attention=_erase_attention(world, owner, [f'"{each.id}"' for each in found], texts + subjects))
    return erase_words(world, owner, texts, done, actor=caller.actor)


@dataclass(frozen=True, slots=True)
class _Traces:
    """What is to be found of an object where its tenant was before it moved."""

    names: Sequence[tuple[str, str]]  # types and ids of what entries are about
    needles: Sequence[str]  # texts that histories of agents' jobs repeat
    jobs: Sequence[int]  # that were about it, wherever their last attempt was


def _traces_of(world: World, it: GovernedObject, about: str | None) -> _Traces:
    def read(tx: Tx) -> _Traces:
        contents = [each.content for each in tx.objects.versions(it.number) if each.content]
        cited = tx.decisions.by_number(each.decision for each in tx.decisions.citing([it.number]))
        names = [(it.kind, it.id), *((DECISION, each.id) for each in cited)]
        texts = [f"{it.kind}:{it.id}", *contents, *([] if about is None else [about])]
        return _Traces(names, _needles(texts), ())

    found = world.route(owner=it.owner).store.read(read)
    jobs = [
        shard.route().store.read(lambda tx: tx.erasures.jobs_about(it.owner, it.kind, it.id))
        for shard in world.databases()
    ]
    return replace(found, jobs=sorted({number for each in jobs for number in each}))


def _erase_everywhere(
    world: World, it: GovernedObject, caller: Caller, reason: str, about: str | None
) -> tuple[list[str], int]:
    """Erase an object, and first what its tenant has left in other databases: reasons of entries, words of runs.

    The object alone knows what to look for, so it comes last: where a database does not answer that is an error, the
    object is as it was, and the call is to be repeated. One that moved meanwhile has left something at its last place.
    """
    if world.cluster is None:
        return _erase_object(world, it, caller, reason)
    traces, place = _traces_of(world, it, about), _place_of(world, it.owner)
    _erase_left_behind(world, it, traces)
    erased = _erase_object(world, it, caller, reason, traces.jobs)
    if _place_of(world, it.owner) != place:
        _erase_left_behind(world, it, traces)
    return erased


def _place_of(world: World, owner: str) -> int:
    assert world.cluster is not None
    shard_map = world.cluster.refresh()
    return shard_map.database_of(shard_map.vshard_of(owner=None if owner == SYSTEM else owner))


def _erase_left_behind(world: World, it: GovernedObject, traces: _Traces) -> None:
    here = world.within(owner=it.owner)[0].route().store
    for shard in world.databases():
        if shard.route().store is here:
            continue
        shard.route().store.transact(lambda tx: tx.audit.erase_reasons(it.owner, traces.names))
        shard.route().store.transact(lambda tx: tx.erasures.jobs(traces.jobs))
        if not traces.needles:
            continue
        shard.route().store.transact(lambda tx: tx.erasures.steps_of_jobs(it.owner, traces.needles))
        while shard.route().store.transact(partial(_empty_history, it.owner, traces.needles)):
            continue


def _empty_history(owner: str, needles: Sequence[str], tx: Tx) -> int:
    return tx.erasures.empty_history(owner, sorted(AGENT_WORDS), needles, limit=AT_ONCE)


def _needles(texts: Sequence[str]) -> list[str]:
    """Return texts that are long enough to be looked for, as people write them and as they stand in JSON."""
    plain = sorted({each for each in texts if SHORTEST <= len(each) <= LONGEST})
    return sorted({*plain, *map(_as_stored, plain)})


def _find(
    world: World, owner: str, name: str | None, kind: str | None, subject: str | None
) -> tuple[list[GovernedObject], bool]:
    def read(tx: Tx) -> tuple[list[GovernedObject], bool]:
        if name is not None:
            return [find_one(tx, owner, name, kind)], False
        wanted = ObjectFilter(owner, kind, subject_key=subject_key(subject or ""))
        found = tx.objects.find(wanted, limit=AT_ONCE + 1, before=None)
        return found[:AT_ONCE], len(found) > AT_ONCE

    return world.route(owner=owner).store.read(read)


def _erase_object(
    world: World, it: GovernedObject, caller: Caller, reason: str, jobs: Sequence[int] = ()
) -> tuple[list[str], int]:
    return world.route(owner=it.owner).store.transact(lambda tx: _erase(world, tx, it, caller, reason, jobs))


def _erase(
    world: World, tx: Tx, it: GovernedObject, caller: Caller, reason: str, jobs: Sequence[int]
) -> tuple[list[str], int]:
    """Erase one object with all that is stored about it; return what it said, and how many jobs were about it."""
    writer = ObjectWriter(world, tx, By.caller(caller, reason), world.clock.now())
    locked = tx.objects.lock([it.number])[it.number]
    contents = [each.content for each in tx.objects.versions(it.number) if each.content]
    cited = tx.decisions.by_number(each.decision for each in tx.decisions.citing([it.number]))
    decided = [each.id for each in cited]
    tx.audit.erase_reasons(it.owner, [(it.kind, it.id), *((DECISION, each) for each in decided)])
    if locked.erased_at is None:
        events = () if locked.is_final else ("retracted",)
        done = walk(
            locked, events, writer.policy(locked), writer.now, erased_at=writer.now, subject="", subject_key="",
            fingerprint=None, source="", opinions=(), contested=False,
        )  # fmt: skip
        writer.save(Change(locked, done, "erased"))
    tx.erasures.object(it.number)
    tx.erasures.decisions([each.number for each in cited])
    tx.erasures.reviews(it.owner, it.number, decided)
    numbers = sorted({*jobs, *tx.erasures.jobs_about(it.owner, it.kind, it.id)})
    tx.erasures.jobs(numbers)
    return contents, len(numbers)


# -- what agents keep of conversations --------------------------------------------------------------------------------


def erase_words(world: World, owner: str, texts: Sequence[str], done: Erased, *, actor: str) -> Erased:
    """Delete what agents of an owner keep that repeats one of these texts: conversations, goals, results of steps.

    A thread or a session goes as a whole. A schedule by which an agent told itself something is deleted, and its jobs
    are cancelled; of one that runs now nothing is erased, and ``more`` says so.
    """
    needles = _needles(texts)
    store = world.route(owner=owner).store
    unreadable = store.read(lambda tx: tx.conversations.count_encrypted(owner))
    done = replace(done, unreadable=unreadable)
    if not needles:
        return done
    gone = 0
    while count := store.transact(lambda tx: tx.conversations.delete_threads(owner, needles, limit=AT_ONCE)):
        gone += count
    while count := store.transact(lambda tx: tx.conversations.delete_sessions(owner, needles, limit=AT_ONCE)):
        gone += count
    gone += store.transact(lambda tx: tx.conversations.delete_documents(owner, needles))
    store.transact(lambda tx: tx.conversations.delete_stray_writes(needles))
    store.transact(lambda tx: tx.erasures.steps_of_jobs(owner, needles))
    jobs, running = _erase_goals(world, owner, needles, actor)
    return replace(done, conversations=gone, jobs=done.jobs + jobs, more=done.more or running)


def _erase_goals(world: World, owner: str, needles: Sequence[str], actor: str) -> tuple[int, bool]:
    """Erase schedules and jobs that carry an agent's own words; return how many jobs, and whether one runs."""
    store, handlers, reason = world.route(owner=owner).store, sorted(AGENT_WORDS), "what it says was erased"
    for key in store.read(lambda tx: tx.erasures.schedules_repeating(owner, handlers, needles)):
        with suppress(NotFound):
            schedules.delete(world, key, owner=owner, actor=actor, reason=reason)
    live = store.read(lambda tx: tx.erasures.jobs_repeating(owner, handlers, needles))
    for number, state in live:
        if state == "queued":
            with suppress(NotFound, Conflict):
                cancel_job(world, job_id(number), actor=actor, reason=reason, owner=owner)
    erased = 0
    while count := store.transact(lambda tx: tx.erasures.empty_history(owner, handlers, needles, limit=AT_ONCE)):
        erased += count
    return erased, any(state == "running" for _, state in live)


# -- attention ---------------------------------------------------------------------------------------------------------


def _erase_attention(world: World, owner: str, quoted: Sequence[str], texts: Sequence[str]) -> int:
    """Erase rows of an owner's lanes that repeat an object: its reference, its subject or its content."""
    needles = [*quoted, *(_as_stored(each) for each in texts if SHORTEST <= len(each) <= LONGEST)]
    if not needles:
        return 0
    erased, store = 0, world.route(owner=owner).store
    needles = sorted(set(needles))
    store.transact(lambda tx: tx.erasures.steps_of_tasks(owner, needles))
    while rows := store.read(lambda tx: tx.erasures.attention(owner, needles, limit=ROWS)):
        lanes = sorted({row.lane for row in rows})
        changed = sum(_empty_in_lane(world, owner, lane, [row for row in rows if row.lane == lane]) for lane in lanes)
        erased += changed
        if not changed:
            break
    return erased


def _empty_in_lane(world: World, owner: str, lane: int, rows: Sequence[Kept]) -> int:
    return in_known_lane(world, lane, lambda writer: _empty(writer, rows), owner=owner)


def _as_stored(text: str) -> str:
    """Return a text as it stands inside stored JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _empty(writer: LaneWriter, rows: Sequence[Kept]) -> int:
    """Empty rows of one lane, and say so in its journal; a step that is under way keeps its intent until it ends."""
    changed = 0
    for row in rows:
        current = _current(writer, row)
        nothing = dict(EMPTY[type(row)])
        if isinstance(current, Task) and current.phase == "act":
            nothing.pop("intent")
        changed += _save(writer, cast(Any, current), nothing)
    tasks = [row.number for row in rows if isinstance(row, Task)]
    if tasks:
        writer.tx.erasures.steps_of_tasks(writer.lane.owner, (), tasks)
    if changed:
        writer.line("erased", rows=changed)
    return changed


def _save(writer: LaneWriter, row: K, nothing: dict[str, Any]) -> bool:
    after = replace(row, **nothing)
    return after != row and writer.save(row, after) is after


def _current(writer: LaneWriter, row: Kept) -> Kept:
    read: dict[type[Any], Any] = {
        Task: writer.tx.attention.task, TaskWait: writer.tx.attention.wait, Event: writer.tx.attention.event,
    }  # fmt: skip
    found = read[type(row)](row.number) if type(row) in read else row
    return found or row
