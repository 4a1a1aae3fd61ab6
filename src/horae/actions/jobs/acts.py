"""The verbs of bulk acts, and the batches in which a job of Horae's own works on one.

A batch is looked up first, without a lock; then one transaction locks the act and those jobs, looks at each again,
changes what still fits, and writes position and counts. So a process that dies in the middle has changed nothing, and
of two processes at the same batch the second finds that the position has moved and leaves it. Between two batches the
job goes back to its queue, so that claims and other writers come in.
"""

# size: one bulk act from its beginning to its end, so that its transactions are read together

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs.jobs import entry_of, truncate
from horae.actions.jobs.leases import with_wall_lease
from horae.core.audit.entries import Entry
from horae.core.cluster.numbers import job_id
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.jobs import machinery
from horae.core.jobs.acts import (
    ACT,
    BATCH,
    FIRST_FEW,
    MOST_COUNTED,
    MOST_KEPT,
    MOST_LOOKED_AT,
    WINDOW,
    Act,
    ActVerb,
    act_number,
    advance,
    check_act,
    why_skipped,
)
from horae.core.jobs.filters import computed, holds, parse_filter
from horae.core.jobs.job import SYSTEM, Job, NewJob
from horae.core.jobs.machinery import MACHINERY, PERSISTENT
from horae.core.jobs.payloads import encode
from horae.core.time.instants import aware, iso
from horae.errors import InvalidInput, NotAllowed, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

WORKER = "system/acts"
BAND = 0  # the only one in which a worker looks for jobs of Horae's own


@dataclass(frozen=True, slots=True)
class Preview:
    """How many jobs an act would reach now, counted up to a bound, and the first of them."""

    filter: str
    matched: int
    more: bool
    first: tuple[Job, ...]


# -- begin -------------------------------------------------------------------------------------------------------------


def preview(
    world: World, verb: ActVerb, where: str, *, owner: str | None = None, queues: Collection[str] = ()
) -> Preview:
    """Count what an act would reach now, and change nothing."""
    now = world.clock.now()
    draft = _draft(verb, where, now, run_at=now if verb == "reschedule" else None, owner=owner, queues=queues)

    def look(tx: Tx) -> Preview:
        numbers, act = _count(tx, draft)
        first = [with_wall_lease(world, job) for job in tx.jobs.some(numbers[:FIRST_FEW])]
        return Preview(act.filter, act.matched, act.more, tuple(sorted(first, key=lambda job: job.number)))

    return world.route(owner=owner).store.read(look)


def start(
    world: World,
    verb: ActVerb,
    where: str,
    *,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Act:
    """Begin an act on every job that fits; a job of Horae's own works on it.

    Filter and highest job number are frozen now. *owner* and *queues* limit whose jobs it reaches.
    """
    return begin(
        world,
        plan(world, verb, where, run_at=run_at, delay=delay, actor=actor, reason=reason, owner=owner, queues=queues),
    )


def plan(
    world: World,
    verb: ActVerb,
    where: str,
    *,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Act:
    """Return an act as it is to begin, with its filter frozen; nothing is written yet."""
    now = world.clock.now()
    if run_at is not None and delay is not None:
        raise InvalidInput("run_at_and_delay")
    when = aware(run_at, "run_at") if run_at is not None else None if delay is None else now + delay
    draft = _draft(verb, where, now, run_at=when, owner=owner, queues=queues)
    return replace(draft, actor=actor, reason=truncate(reason))


def begin(world: World, planned: Act) -> Act:
    """Begin a planned act in one database; one with a number has begun in another of the cluster."""
    counted = world.route(owner=planned.owner).store.read(lambda tx: _count(tx, planned)[1])
    return _begin(world, counted)


def undo(
    world: World,
    act_id: str,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
    number: int = 0,
    created_at: datetime | None = None,
) -> Act:
    """Begin an act that moves what a reschedule moved back to its former time, where it was not moved since.

    *number* and *created_at* are given where it has begun in another database of the cluster.
    """
    undone = get(world, act_id, owner=owner, queues=queues)
    check_undoable(undone)
    act = Act(
        number, "undo", "running", "", undone.highest, 0, created_at or world.clock.now(), actor,
        owner=undone.owner, queues=undone.queues, reason=truncate(reason), undoes=undone.number, matched=undone.kept,
        more=undone.changed > undone.kept, databases=undone.databases,
    )  # fmt: skip
    return _begin(world, act)


def check_undoable(act: Act) -> None:
    """Refuse to undo what cannot be, or what still goes on."""
    if act.verb != "reschedule":
        raise NotAllowed("act_not_undoable", id=act.id, verb=act.verb)
    if act.state == "running":
        raise NotAllowed("act_still_running", id=act.id)


def _draft(
    verb: ActVerb, where: str, now: datetime, *, run_at: datetime | None, owner: str | None, queues: Collection[str]
) -> Act:
    query = parse_filter(where, now=now)
    check_act(verb, query, run_at)
    return Act(
        0, verb, "running", str(query), 0, 0, now, SYSTEM,
        owner=owner or SYSTEM, queues=tuple(sorted(queues)), run_at=run_at,
    )  # fmt: skip


def count_matching(tx: Tx, draft: Act, *, before: datetime) -> Act:
    """Return an act that has begun elsewhere, with what fits here of the jobs that were made before an instant."""
    return _count(tx, draft, before=before)[1]


def _count(tx: Tx, draft: Act, *, before: datetime | None = None) -> tuple[list[int], Act]:
    """Return the first jobs that fit, and the act with its highest number and how many fit."""
    highest = tx.acts.highest(before=before)
    limit = MOST_COUNTED + 1
    numbers, seen = tx.acts.window(draft.wanted, after=0, highest=highest, rows=MOST_LOOKED_AT, limit=limit)
    more = len(numbers) == limit or seen < highest
    numbers = _fitting(tx, draft, numbers)
    return numbers, replace(draft, highest=highest, matched=min(len(numbers), MOST_COUNTED), more=more)


def _begin(world: World, act: Act) -> Act:
    def write(tx: Tx) -> Act:
        made = give_job(tx, replace(act, number=tx.acts.add(act)), act.created_at)
        append_start(tx, made, act.created_at)
        return made

    begun = world.route(owner=act.owner).store.transact(write)
    world.route(owner=act.owner).store.wake([MACHINERY])
    return begun


def append_start(tx: Tx, act: Act, now: datetime) -> None:
    """Write the audit entry of an act that begins."""
    facts = {"verb": act.verb, "filter": act.filter, "highest": job_id(act.highest)}
    more = {"run_at": _iso(act.run_at), "undoes": None if act.undoes is None else f"act_{act.undoes}"}
    facts |= {name: value for name, value in more.items() if value is not None}
    tx.audit.append(_entry(now, "start", act, act.actor, act.reason, facts))


def give_job(tx: Tx, act: Act, now: datetime) -> Act:
    """Give an act a new job that works on it; an earlier one finds that it is no longer the one, and ends."""
    new = NewJob(
        handler=machinery.ACT,
        payload=encode({"act": act.number}),
        queue=MACHINERY,
        band=BAND,
        run_at=now,
        planned_at=now,
        owner=SYSTEM,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
    )
    planned = replace(act, job=tx.jobs.insert([new], now)[0].number)
    tx.acts.put(planned)
    return planned


# -- look and steer ----------------------------------------------------------------------------------------------------


def get(world: World, act_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Act:
    """Return one act; with *owner* only one of that tenant, with *queues* only one that is limited to some of them."""
    number = act_number(act_id)
    return _check_reach(
        world.route(owner=owner).store.read(lambda tx: tx.acts.get(number)), act_id, owner=owner, queues=queues
    )


def some(world: World, numbers: Iterable[int], *, owner: str | None = None, queues: Collection[str] = ()) -> list[Act]:
    """Return those of the acts that there are, within what the caller sees."""
    found = world.route(owner=owner).store.read(lambda tx: [tx.acts.get(number) for number in numbers])
    return [act for act in found if act is not None and _is_in_reach(act, owner, queues)]


def find(
    world: World,
    *,
    owner: str | None = None,
    queues: Collection[str] = (),
    states: Collection[str] = (),
    limit: int = 50,
    before: int | None = None,
) -> tuple[list[Act], int | None]:
    """Return a page of acts, the newest first, and the number before which the next one begins."""
    page_size(limit)
    unknown = sorted(set(states) - set(ACT.states))
    if unknown:
        raise InvalidInput("choice_unknown", name="state", value=unknown[0], choices=list(ACT.states))
    found = world.route(owner=owner).store.read(
        lambda tx: tx.acts.find(owner=owner, states=states, limit=limit, before=before)
    )
    further = found[-1].number if len(found) == limit else None
    return [act for act in found if _is_in_reach(act, owner, queues)], further


def pause(world: World, act_id: str, *, actor: str = SYSTEM, reason: str = "", **reach: Any) -> Act:
    """Let an act rest after the batch under way."""
    return _steer(world, act_id, "pause", actor, reason, reach)


def resume(world: World, act_id: str, *, actor: str = SYSTEM, reason: str = "", **reach: Any) -> Act:
    """Let a paused act go on where it stopped."""
    resumed = _steer(world, act_id, "resume", actor, reason, reach)
    world.route().store.wake([MACHINERY])
    return resumed


def cancel(world: World, act_id: str, *, actor: str = SYSTEM, reason: str = "", **reach: Any) -> Act:
    """End an act after the batch under way; what it has changed stays changed."""
    return _steer(world, act_id, "cancel", actor, reason, reach)


def _steer(world: World, act_id: str, verb: str, actor: str, reason: str, reach: Mapping[str, Any]) -> Act:
    number = act_number(act_id)

    def write(tx: Tx) -> Act:
        before = _check_reach(tx.acts.get(number, lock=True), act_id, **reach)
        now = world.clock.now()
        after = replace(before, state=ACT.after(before.state, verb))
        after = replace(after, finished_at=now if after.is_over else None)
        if verb == "resume":
            after = give_job(tx, after, now)
        tx.acts.put(after)
        tx.audit.append(_entry(now, verb, after, actor, reason, _counts(after)))
        return after

    return world.route(owner=reach.get("owner")).store.transact(write)


def _check_reach(act: Act | None, act_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Act:
    if act is None or not _is_in_reach(act, owner, queues):
        raise NotFound("act_unknown", id=act_id)
    return act


def _is_in_reach(act: Act, owner: str | None, queues: Collection[str]) -> bool:
    is_within = not queues or (bool(act.queues) and set(act.queues) <= set(queues))
    return is_within and (owner is None or act.owner == owner)


# -- work --------------------------------------------------------------------------------------------------------------


def run_batch(world: World, job: Job) -> bool:
    """Do the next batch of the act that a job works on; return whether there is more to do."""
    number = job.payload["act"] if isinstance(job.payload, Mapping) else 0
    store = world.route().store
    act, numbers, end = store.read(lambda tx: _next_batch(tx, number, job))
    if act is None:
        return False

    def write(tx: Tx) -> tuple[Act | None, set[str]]:
        now = world.clock.now()
        held = tx.acts.get(number, lock=True)
        if held is None or not _works_on(job, held) or held.position != act.position:
            return held, set()
        return _do_batch(world, tx, held, numbers, end, now)

    after, queues = store.transact(write)
    if queues:
        store.wake(sorted(queues))
    return after is not None and _works_on(job, after)


def _works_on(job: Job, act: Act) -> bool:
    return act.state == "running" and act.job == job.number


def _next_batch(tx: Tx, number: int, job: Job) -> tuple[Act | None, list[int], int]:
    """Return the act, the jobs to look at, and the number up to which that is all."""
    act = tx.acts.get(number)
    if act is None or not _works_on(job, act):
        return None, [], 0
    if act.undoes is not None:
        kept = sorted(tx.acts.kept(act.undoes, after=act.position, limit=BATCH))
        return act, kept, kept[-1] if len(kept) == BATCH else act.highest
    numbers, end = tx.acts.window(act.wanted, after=act.position, highest=act.highest, rows=WINDOW, limit=BATCH)
    return act, _fitting(tx, act, numbers), end


def _fitting(tx: Tx, act: Act, numbers: list[int]) -> list[int]:
    """Return those of the jobs that were found that fit also by what the tables cannot answer."""
    query = computed(act.query.terms)
    if not query:
        return numbers
    chunks = (numbers[begin : begin + BATCH] for begin in range(0, len(numbers), BATCH))
    return sorted(job.number for chunk in chunks for job in tx.jobs.some(chunk) if holds(query, job))


def _do_batch(world: World, tx: Tx, act: Act, numbers: list[int], end: int, now: datetime) -> tuple[Act, set[str]]:
    live = {job.number: job for job in tx.jobs.lock_many(numbers)}
    skipped = {number: why for number in numbers if (why := why_skipped(act, live.get(number))) is not None}
    skipped |= dict.fromkeys(_of_objects(tx, [job for job in live.values() if job.number not in skipped]), "object")
    chosen = [job for number, job in live.items() if number not in skipped]
    times = {job.number: job.run_at for job in chosen}
    if act.undoes is not None:
        skipped |= _move_back(tx, act, chosen, now)
    else:
        skipped |= dict.fromkeys(_change(tx, act, chosen, now), "unique_name_taken")
    done = [job for job in chosen if job.number not in skipped]
    kept = done[: max(0, MOST_KEPT - act.kept)] if act.verb == "reschedule" else []
    tx.acts.keep(act.number, {job.number: times[job.number] for job in kept})
    after = advance(
        act,
        position=end,
        changed=len(done),
        kept=len(kept),
        skipped={job_id(number): why for number, why in sorted(skipped.items())},
        is_last=end >= act.highest,
    )
    after = replace(after, finished_at=now if after.is_over else None)
    tx.acts.put(after)
    facts = {"act": act.id, "run_at": _iso(act.run_at)}
    entries = [entry_of(world, act.verb, job, act.actor, act.reason, **facts) for job in done]
    if after.is_over:
        entries.append(_entry(now, "finish", after, WORKER, "", _counts(after)))
    tx.audit.append_many(entries)
    return after, {"*"} if any(job.has_dependents for job in done) else {job.queue for job in done}


def _of_objects(tx: Tx, jobs: list[Job]) -> list[int]:
    """Return the numbers of jobs that stored objects have planned: their objects move them, no act does."""
    names = {(job.owner, job.object_type, job.object_id or ""): job for job in jobs if job.object_type is not None}
    known = tx.objects.by_name((owner, kind or "", name) for owner, kind, name in names)
    return [
        job.number
        for job in jobs
        if job.object_type is not None and (job.owner, job.object_type, job.object_id or "") in known
    ]


def _change(tx: Tx, act: Act, chosen: list[Job], now: datetime) -> set[int]:
    """Do the verb to locked jobs that fit; return the numbers of those that refuse it."""
    if act.verb == "cancel":
        why = act.reason or f"by {act.actor} ({act.id})"
        for job in chosen:
            if job.state == "running":
                tx.jobs.ask_to_cancel(job, reason=why)
        return tx.jobs.end_waiting_many([job for job in chosen if job.state != "running"], reason=why, now=now)
    run_at = now if act.run_at is None else act.run_at
    return tx.jobs.requeue_many(chosen, run_at=run_at, revive=act.verb == "revive", now=now)


def _move_back(tx: Tx, act: Act, chosen: list[Job], now: datetime) -> dict[int, str]:
    """Give jobs their former time again, unless they were moved since; return those that were."""
    undone = tx.acts.get(act.undoes or 0)
    moved_to = None if undone is None else undone.run_at
    former = tx.acts.kept(act.undoes or 0, after=act.position, limit=BATCH)
    skipped = {}
    for job in chosen:
        if job.run_at != moved_to or job.number not in former:
            skipped[job.number] = "changed"
        else:
            tx.jobs.requeue(job, run_at=former[job.number], attempt=job.attempt, band=None, now=now)
    return skipped


def restart_lost(world: World, *, limit: int = BATCH) -> int:
    """Give acts on which no job works any more a new one, and return how many: the net under every act."""

    def write(tx: Tx) -> int:
        lost = tx.acts.without_job(limit=limit)
        for act in lost:
            held = tx.acts.get(act.number, lock=True)
            if held is not None and held.state == "running" and held.job == act.job:
                give_job(tx, held, world.clock.now())
        return len(lost)

    if not world.route().store.read(lambda tx: tx.acts.without_job(limit=1)):
        return 0
    done = world.route().store.transact(write)
    world.route().store.wake([MACHINERY])
    return done


# -- the audit ---------------------------------------------------------------------------------------------------------


def _entry(now: datetime, verb: str, act: Act, actor: str, reason: str, after: Mapping[str, Any]) -> Entry:
    return Entry(now, actor, verb, "act", act.id, owner=act.owner, reason=truncate(reason) or None, after=after)


def _counts(act: Act) -> dict[str, Any]:
    return {"state": act.state, "changed": act.changed, "skipped": act.skipped}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
