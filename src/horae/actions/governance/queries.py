"""Look at objects: one, a list, what an agent recalls, why one stands as it does, what will become of it.

None of these verbs writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal, cast, get_args

from horae.actions.audit import find_entries
from horae.actions.governance.object_writer import find_one
from horae.actions.governance.policies import policies_of
from horae.actions.governance.surroundings import read_surroundings
from horae.actions.jobs.reasons import why as explain_job
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.governance.decisions import Decision
from horae.core.governance.evidence import Evidence
from horae.core.governance.forecast import Assume, Step
from horae.core.governance.forecast import forecast as steps_of
from horae.core.governance.machines import KINDS, MACHINES, Kind
from horae.core.governance.objects import GovernedObject, ObjectFilter, ObjectVersion, StateCount
from horae.core.governance.openings import open_verbs
from horae.core.governance.policies import RISKS, Policy
from horae.core.governance.proposals import subject_key
from horae.core.governance.recalls import Usability, usability
from horae.core.governance.timers import Planned, next_action
from horae.core.jobs.job import Job, govern_name
from horae.core.jobs.payloads import label
from horae.core.jobs.reasons import Reason
from horae.core.time.instants import aware
from horae.errors import InvalidInput
from horae.ports.store import Tx
from horae.ports.world import World

STATUSES = {
    kind: {status: tuple(state for state in machine.states if state.partition("/")[0] == status)
           for status in dict.fromkeys(state.partition("/")[0] for state in machine.states)}
    for kind, machine in MACHINES.items()
}  # fmt: skip
LONGEST = timedelta(days=3650)
Order = Literal["newest", "due"]
ORDERS: tuple[Order, ...] = get_args(Order)
MOST_COUNTED = 10_000  # objects that a count looks at, the newest
DAY = timedelta(days=1)
LATE = timedelta(minutes=5)  # how long an action may be due before that is worth a word
ASSUMPTIONS: tuple[Assume, ...] = ("none", "confirmed", "inconclusive", "refuted")


@dataclass(frozen=True, slots=True)
class ObjectView:
    """An object with its content, and whether it may be used."""

    object: GovernedObject
    content: str | None
    usability: Usability
    rests_on: tuple[str, ...] = ()
    evidence: int = 0


@dataclass(frozen=True, slots=True)
class Standings:
    """How many objects are in each state; of the newest only, where it is not *complete*."""

    counts: tuple[StateCount, ...]
    looked_at: int
    complete: bool
    late: int
    due_in_a_day: int
    open_reviews: int


@dataclass(frozen=True, slots=True)
class Links:
    """The neighbours of an object: what it rests on, what rests on it, and the decisions that cite it."""

    rests_on: tuple[GovernedObject, ...] = ()
    carries: tuple[GovernedObject, ...] = ()
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an object stands as it does."""

    object: GovernedObject
    policy: Policy
    planned: Planned | None
    job: Job | None
    evidence: tuple[Evidence, ...]
    last: tuple[int, Entry] | None
    usability: Usability
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """What became of an object: entries and versions, newest first."""

    entries: Sequence[tuple[int, Entry]] = ()
    versions: Sequence[ObjectVersion] = ()


def get(world: World, object_id: str, *, owner: str, kind: str | None = None) -> ObjectView:
    """Return an object with its content. Reading moves no clock."""
    now = world.clock.now()
    return world.route(owner=owner).store.read(lambda tx: views(tx, [find_one(tx, owner, object_id, kind)], now)[0])


def to_verify(world: World, object_id: str, *, owner: str, kind: str) -> tuple[ObjectView, list[Evidence]]:
    """Return an object as its verifier sees it: with its content and all its evidence, as of one moment."""
    now = world.clock.now()

    def read(tx: Tx) -> tuple[ObjectView, list[Evidence]]:
        it = find_one(tx, owner, object_id, kind)
        return views(tx, [it], now)[0], tx.evidence.of_many([it.number]).get(it.number, [])

    return world.route(owner=owner).store.read(read)


def has_verifier(world: World, job: Job) -> tuple[bool, bool]:
    """Return whether the object of a job is stored, and whether an application declares a verifier of its kind."""
    kind = job.object_type or ""

    def read(tx: Tx) -> tuple[bool, bool]:
        is_stored = bool(tx.objects.by_name([(job.owner, kind, job.object_id or "")]))
        return is_stored, tx.definitions.get(govern_name(kind)) is not None

    return world.route(owner=job.owner).store.read(read)


def find(
    world: World,
    *,
    owner: str | None,
    kind: str | None = None,
    status: str | None = None,
    agent: str | None = None,
    subject: str | None = None,
    risk: str | None = None,
    contested: bool | None = None,
    stalled: bool | None = None,
    due_before: datetime | None = None,
    limit: int = 100,
    before: int | None = None,
    order: Order = "newest",
    after: tuple[datetime, int] | None = None,
) -> list[GovernedObject]:
    """Return a page of objects, newest first, or those that are due first and come due at all."""
    page_size(limit)
    if order not in ORDERS:
        raise InvalidInput("choice_unknown", name="order", value=repr(order)[:40], choices=ORDERS)
    for name, value, choices in (("kind", kind, KINDS), ("risk", risk, RISKS)):
        if value is not None and value not in choices:
            raise InvalidInput("choice_unknown", name=name, value=repr(value)[:40], choices=choices)
    wanted = ObjectFilter(
        owner,
        kind,
        _states(kind, status),
        agent,
        None if subject is None else subject_key(subject),
        risk,
        contested,
        stalled,
        None if due_before is None else aware(due_before, "due_before"),
    )

    def read(tx: Tx) -> list[GovernedObject]:
        if order == "due":
            return tx.objects.find_due(wanted, limit=limit, after=after)
        return tx.objects.find(wanted, limit=limit, before=before)

    return world.route(owner=owner).store.read(read)


def overview(world: World, *, owner: str | None) -> Standings:
    """Count objects by state, those that are due, and open reviews; each count is bounded."""
    now = world.clock.now()

    def read(tx: Tx) -> Standings:
        counts = tx.objects.count_states(owner, most=MOST_COUNTED + 1)
        looked_at = sum(each.count for each in counts)
        return Standings(
            tuple(sorted(counts, key=lambda each: (KINDS.index(cast(Kind, each.kind)), each.state))),
            min(looked_at, MOST_COUNTED),
            looked_at <= MOST_COUNTED,
            tx.objects.count_due(owner, now - LATE, most=MOST_COUNTED + 1),
            tx.objects.count_due(owner, now + DAY, most=MOST_COUNTED + 1),
            tx.reviews.count_open(owner=owner, most=MOST_COUNTED + 1),
        )

    return world.route(owner=owner).store.read(read)


def links(world: World, object_id: str, *, owner: str, kind: str | None = None, limit: int = 100) -> Links:
    """Return what an object rests on, what rests on it, and the decisions that cite it, the newest of each."""
    page_size(limit)

    def read(tx: Tx) -> Links:
        it = find_one(tx, owner, object_id, kind)
        lower, upper = tx.objects.neighbours(it.number, limit=limit)
        return Links(tuple(lower), tuple(upper), tuple(tx.decisions.citing_one(it.number, limit=limit)))

    return world.route(owner=owner).store.read(read)


def versions(
    world: World, object_id: str, *, owner: str, kind: str | None = None, limit: int = 100, before: int | None = None
) -> list[ObjectVersion]:  # fmt: skip
    """Return the versions of an object, the newest first."""
    page_size(limit)

    def read(tx: Tx) -> list[ObjectVersion]:
        it = find_one(tx, owner, object_id, kind)
        return tx.objects.versions(it.number, limit=limit, before=before)

    return world.route(owner=owner).store.read(read)


def _states(kind: str | None, status: str | None) -> tuple[str, ...]:
    if status is None:
        return ()
    kinds = KINDS if kind is None else (kind,)
    found = tuple(state for each in kinds for state in STATUSES[each].get(status, ()))
    if not found:
        known = sorted({name for each in kinds for name in STATUSES[each]})
        raise InvalidInput("choice_unknown", name="status", value=repr(status)[:40], choices=known)
    return tuple(dict.fromkeys(found))


def recall(
    world: World,
    subject: str,
    *,
    owner: str,
    agent: str | None = None,
    strict: bool = False,
    limit: int = 50,
) -> list[ObjectView]:
    """Return what is remembered about a subject, the most usable first; *strict* leaves out what needs caution.

    Nothing is written: recalling a memory does not make it last.
    """
    page_size(limit, 200)
    key, now = subject_key(label(subject, "subject", 200)), world.clock.now()

    def read(tx: Tx) -> list[ObjectView]:
        wanted = ObjectFilter(owner, subject_key=key, agent=agent)
        found = views(tx, tx.objects.find(wanted, limit=1000, before=None), now)
        fit = [each for each in found if each.usability.usable in (("yes",) if strict else ("yes", "caution"))]
        return sorted(fit, key=_by_usefulness)[:limit]

    return world.route(owner=owner).store.read(read)


def _by_usefulness(view: ObjectView) -> tuple[int, float, int]:
    it = view.object
    checked = it.verified_at or it.created_at
    return ("yes", "caution", "no").index(view.usability.usable), -checked.timestamp(), -it.number


def views(tx: Tx, found: Sequence[GovernedObject], now: datetime) -> list[ObjectView]:
    """Add contents, grounds and usability to objects."""
    numbers = [each.number for each in found]
    contents = tx.objects.contents(numbers)
    links = tx.objects.rests_on(numbers)
    lower = tx.objects.by_number(each.rests_on for each in links)
    grounds: dict[int, list[str]] = {}
    for each in links:
        ground = lower.get(each.rests_on)
        if ground is not None:
            grounds.setdefault(each.object, []).append(f"{ground.kind}:{ground.id}")
    evidence = tx.evidence.of_many(numbers)
    policies = policies_of(tx, {each.owner for each in found})
    return [
        ObjectView(
            it,
            contents[it.number].content if it.number in contents else None,
            usability(it, policies.of(it), now),
            tuple(grounds.get(it.number, ())),
            len(evidence.get(it.number, ())),
        )
        for it in found
    ]


def object_about(world: World, job: Job) -> GovernedObject | None:
    """Return the stored object that a job names."""
    name = (job.owner, job.object_type or "", job.object_id or "")
    return world.route(owner=job.owner).store.read(lambda tx: tx.objects.by_name([name])).get(name)


def last_entry_about(world: World, job: Job) -> int | None:
    """Return the number of the last entry about the object of a job that links this job."""
    found = find_entries(world, limit=20, object_id=job.object_id, object_type=job.object_type, owner=job.owner)
    return next((number for number, entry in found if entry.job == job.id), None)


def explain(
    world: World, object_id: str, *, owner: str, kind: str | None = None, caller: Caller | None = None
) -> Explanation:  # fmt: skip
    """Return why an object stands as it does: what moved it last, what it waits for, and by which rule.

    With a *caller* also the verbs that it is open to.
    """
    now = world.clock.now()

    def read(tx: Tx) -> Explanation:
        it = find_one(tx, owner, object_id, kind)
        policy = policies_of(tx, {owner}).of(it)
        entries = tx.audit.find(object_id=it.id, object_type=it.kind, owner=owner, limit=1, before=None)
        job = None if it.job is None else tx.jobs.get(it.job)
        return Explanation(
            it, policy, next_action(it, policy, now), job, tuple(tx.evidence.of(it.number, limit=100)),
            entries[0] if entries else None, usability(it, policy, now),
            () if caller is None else open_verbs(it, policy, now, caller),
        )  # fmt: skip

    explained = world.route(owner=owner).store.read(read)
    if explained.last is None and world.cluster is not None:  # it has just moved, and the last one is elsewhere
        it = explained.object
        last = find_entries(world, limit=1, object_id=it.id, object_type=it.kind, owner=owner)
        explained = replace(explained, last=next(iter(last), None))
    return explained


def waits(world: World, explained: Explanation, *, owner: str | None) -> tuple[Reason, ...]:
    """Return for what the next action of an object waits; where no worker serves its queue, also what to do."""
    if explained.job is None:
        return ()
    return tuple(
        Reason(each.code, "no_worker_judges", each.facts) if each.code == "no_worker" else each
        for each in explain_job(world, explained.job, owner=owner)
    )


def history(
    world: World, object_id: str, *, owner: str, kind: str | None = None, limit: int = 100, before: int | None = None
) -> History:  # fmt: skip
    """Return the entries about an object, newest first, and its versions."""
    page_size(limit)

    def read(tx: Tx) -> tuple[GovernedObject, History]:
        it = find_one(tx, owner, object_id, kind)
        entries = tx.audit.find(object_id=it.id, object_type=it.kind, owner=owner, limit=limit, before=before)
        return it, History(entries, tx.objects.versions(it.number, limit=limit))

    it, found = world.route(owner=owner).store.read(read)
    if world.cluster is None:
        return found
    entries = find_entries(world, limit=limit, before=before, object_id=it.id, object_type=it.kind, owner=owner)
    return replace(found, entries=entries)


def forecast(
    world: World,
    object_id: str,
    *,
    owner: str,
    kind: str | None = None,
    until: datetime | None = None,
    assume: Assume = "none",
) -> list[Step]:
    """Return what becomes of an object if nothing new arrives; *assume* says what every verification will find."""
    if assume not in ASSUMPTIONS:
        raise InvalidInput("choice_unknown", name="assume", value=repr(assume)[:40], choices=ASSUMPTIONS)
    now = world.clock.now()
    end = now + timedelta(days=365) if until is None else aware(until, "until")
    if not now <= end <= now + LONGEST:
        raise InvalidInput("forecast_too_far", most_days=LONGEST.days)

    def read(tx: Tx) -> list[Step]:
        it = find_one(tx, owner, object_id, kind)
        around = read_surroundings(tx, [it]).of(it)
        policy = policies_of(tx, {owner}).of(it)
        return list(steps_of(it, policy, now, end, assume=assume, around=around))

    return world.route(owner=owner).store.read(read)
