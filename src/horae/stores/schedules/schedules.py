"""Schedules on the control plane: reading, writing, history. SQLAlchemy Core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, get_args

from sqlalchemy import (
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from horae.core.jobs.locks import LOCK
from horae.core.schedules.schedule import Fire, FireKind, Schedule, ScheduleResult, Unfinished
from horae.core.time.instants import instant, micros
from horae.errors import Conflict, VersionConflict
from horae.ports.schedules import FiredQuarter, ScheduleFilter, Tally
from horae.stores.cluster.numbered import NUMBER, NumberedRows, with_numbers
from horae.stores.codecs import at
from horae.stores.databases.bulk import AT_ONCE, by_column, find_by, insert_drawing, insert_rows
from horae.stores.databases.dialects import BY_NAME
from horae.stores.jobs.filters import contains
from horae.stores.jobs.totals import HANDLER, SCHEDULE, tallies
from horae.stores.tables.jobs import jobs, runs
from horae.stores.tables.messages import followers as far
from horae.stores.tables.schedules import (
    FIRE_COLUMNS,
    FIRES,
    SCHEDULES,
    fire_row,
    fires,
    follows,
    run_totals,
    schedules,
)

RESULT_TIMES = ("finished_at", "started_at", "fire_at")
JUDGED = ("expected_since", "succeeded_at", "missed_at", "check_job")
ARMS = 200  # selects in one union; SQLite takes 500
FIRE_KINDS = get_args(FireKind)
QUARTER = 15 * 60 * 1_000_000  # microseconds


class Schedules(NumberedRows):
    """The schedule rows of one transaction."""

    def get(self, key: str, owner: str, *, lock: bool = False) -> Schedule | None:
        query = select(*SCHEDULES.select).where(schedules.c.schedule_key == key, schedules.c.owner == owner)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else SCHEDULES.read(row)

    def by_keys(self, keys: Collection[str], owner: str, *, lock: bool = False) -> dict[str, Schedule]:
        """Return the schedules of these keys; locked in the order of their keys, so that two processes never cross."""
        query = select(*SCHEDULES.select).where(schedules.c.owner == owner).order_by(schedules.c.schedule_key)
        query = query.with_for_update() if lock else query
        wanted, found = sorted(keys), {}
        for start in range(0, len(wanted), AT_ONCE):
            some = query.where(schedules.c.schedule_key.in_(wanted[start : start + AT_ONCE]))
            found.update({each.key: each for each in map(SCHEDULES.read, self.connection.execute(some))})
        return found

    def by_number(self, numbers: Iterable[int]) -> dict[int, Schedule]:
        query = select(*SCHEDULES.select).where(schedules.c.id.in_(list(numbers)))
        found = (SCHEDULES.read(row) for row in self.connection.execute(query))
        return {schedule.number: schedule for schedule in found}

    def find(self, wanted: ScheduleFilter, *, limit: int, after: Schedule | str | None) -> list[Schedule]:
        """Return a page of schedules, by key."""
        query = _filtered(wanted).order_by(schedules.c.schedule_key, schedules.c.id).limit(limit)
        if isinstance(after, Schedule):  # several owners may use the same key
            further = and_(schedules.c.schedule_key == after.key, schedules.c.id > after.number)
            query = query.where(or_(schedules.c.schedule_key > after.key, further))
        elif after is not None:
            query = query.where(schedules.c.schedule_key > after)
        return [SCHEDULES.read(row) for row in self.connection.execute(query)]

    def find_by_next(
        self, wanted: ScheduleFilter, *, limit: int, after: tuple[datetime | None, int] | None
    ) -> list[Schedule]:
        """Return a page of schedules by when they are due next; those without a next fire come last."""
        due, number = schedules.c.next_due_at, schedules.c.id
        query = _filtered(wanted).order_by(due.is_(None), due, number).limit(limit)
        if after is not None and after[0] is not None:
            at = micros(after[0])
            query = query.where(or_(due > at, and_(due == at, number > after[1]), due.is_(None)))
        elif after is not None:
            query = query.where(due.is_(None), number > after[1])
        return [SCHEDULES.read(row) for row in self.connection.execute(query)]

    def count_enabled(self, owner: str) -> int:
        """Count an owner's schedules that may still fire; one that has fired as often as it may is left out."""
        is_on = func.coalesce(schedules.c.toggled, schedules.c.enabled) == 1
        is_spent = and_(schedules.c.max_fires.is_not(None), schedules.c.fire_count >= schedules.c.max_fires)
        query = select(func.count()).where(schedules.c.owner == owner, is_on, not_(is_spent))
        return int(self.connection.execute(query).scalar_one())

    def add(self, new: Sequence[Schedule]) -> list[int]:
        """Store new schedules of one owner and return their numbers in the same order."""
        rows = [SCHEDULES.values(schedule) for schedule in new]
        try:
            if self.entrance is not None:
                number, connection = self.entrance.number, self.connection
                own = [number(connection, each.owner, key=each.key)[0] for each in new]
                insert_rows(connection, schedules, (NUMBER, *SCHEDULES.written), with_numbers(own, rows))
                return own
            drawn = insert_drawing(self.connection, schedules, SCHEDULES.written, rows, schedules.c.id)
            if drawn is not None:
                return drawn
            self.connection.execute(insert(schedules), by_column(SCHEDULES.written, rows))
        except IntegrityError as problem:
            raise Conflict("schedule_just_made", key=new[0].key) from problem
        wanted = select(schedules.c.schedule_key, schedules.c.id).where(schedules.c.owner == new[0].owner)
        keys = [schedule.key for schedule in new]
        numbers = dict(tuple(row) for row in find_by(self.connection, wanted, schedules.c.schedule_key, keys))
        return [numbers[key] for key in keys]

    def put(self, schedule: Schedule, *, expected_version: int) -> None:
        """Write a changed schedule; refuse if another transaction changed it since it was read."""
        guard = (schedules.c.id == schedule.number, schedules.c.version == expected_version)
        done = self.connection.execute(update(schedules).where(*guard).values(SCHEDULES.row(schedule)))
        if done.rowcount != 1:
            raise VersionConflict("schedule_just_changed", key=schedule.key)

    def remove(self, number: int) -> None:
        self.connection.execute(delete(fires).where(fires.c.schedule_id == number))
        either = or_(follows.c.schedule_id == number, follows.c.followed_id == number)
        self.connection.execute(delete(follows).where(either))
        of_schedule = and_(run_totals.c.scope == SCHEDULE, run_totals.c.name == str(number))
        self.connection.execute(delete(run_totals).where(of_schedule))
        self.connection.execute(delete(schedules).where(schedules.c.id == number))

    def follow(self, number: int, followed: Iterable[int]) -> None:
        """Say whom a schedule follows, anew."""
        self.connection.execute(delete(follows).where(follows.c.schedule_id == number))
        rows = [{"schedule_id": number, "followed_id": parent} for parent in sorted(set(followed))]
        if rows:
            self.connection.execute(insert(follows), rows)

    def followers(self, number: int) -> list[str]:
        """Return the keys of the schedules that follow this one."""
        followers = select(follows.c.schedule_id).where(follows.c.followed_id == number)
        near = select(schedules.c.schedule_key).where(schedules.c.id.in_(followers))
        elsewhere = select(far.c.name).where(far.c.followed_id == number, far.c.is_on == 1)  # in a cluster
        return sorted(self.connection.execute(near.union_all(elsewhere)).scalars())

    def unfinished(self, number: int) -> Unfinished:
        columns = (
            jobs.c.id, jobs.c.state, jobs.c.attempt, jobs.c.run_at, jobs.c.started_at, jobs.c.progressed_at,
            jobs.c.held_for,
        )  # fmt: skip
        query = select(*columns).where(jobs.c.schedule_id == number, jobs.c.state.in_(("queued", "running")))
        return unfinished_from(self.connection.execute(query).all())

    def awaited(self, number: int) -> bool:
        live = (jobs.c.schedule_id == number, jobs.c.state.in_(("queued", "running")), jobs.c.linked > 0)
        return self.connection.execute(select(jobs.c.id).where(*live).limit(1)).first() is not None

    def without_fire(self, now: datetime, *, limit: int) -> list[Schedule]:
        """Return schedules that are on, have no next fire, and no unfinished job whose end would give them one."""
        c = schedules.c
        awaited = select(jobs.c.id).where(
            jobs.c.schedule_id == c.id, jobs.c.state.in_(("queued", "running")), jobs.c.linked > 0
        )
        is_on = func.coalesce(c.toggled, c.enabled) == 1
        silent = (c.next_due_at.is_(None), c.paused_at.is_(None), c.inactive.is_(None), c.mode == "SINGLE_NODE")
        goes_on = (
            c.kind.in_(("cron", "every")),
            or_(c.ends_at.is_(None), c.ends_at > micros(now)),
            or_(c.max_fires.is_(None), c.fire_count < c.max_fires),
        )
        query = select(*SCHEDULES.select).where(*silent, is_on, *goes_on, ~awaited.exists()).order_by(c.id).limit(limit)
        return [SCHEDULES.read(row) for row in self.connection.execute(query)]

    def note_expectation(self, schedule: Schedule) -> None:
        row = SCHEDULES.row(schedule)
        judged = {name: row[name] for name in JUDGED}
        self.connection.execute(update(schedules).where(schedules.c.id == schedule.number).values(judged))

    def without_check(self, *, limit: int) -> list[Schedule]:
        c = schedules.c
        live = (jobs.c.id == c.check_job, jobs.c.state.in_(("queued", "running")))
        is_on = (func.coalesce(c.toggled, c.enabled) == 1, c.paused_at.is_(None), c.inactive.is_(None))
        lacks = or_(c.check_job.is_(None), ~select(jobs.c.id).where(*live).exists())
        query = select(*SCHEDULES.select).where(c.expect.is_not(None), *is_on, lacks).order_by(c.id).limit(limit)
        return [SCHEDULES.read(row) for row in self.connection.execute(query)]

    # -- fires ---------------------------------------------------------------------------------------------------

    def record(self, number: int, fire: Fire, job_id: int | None, now: datetime) -> None:
        row = dict(zip(FIRE_COLUMNS, fire_row(number, fire, job_id, micros(now)), strict=True))
        if fire.kind == "manual":  # two hands within one microsecond are still two fires
            by_hand = (fires.c.schedule_id == number, fires.c.kind == "manual")
            last = self.connection.execute(select(func.max(fires.c.fire_at)).where(*by_hand)).scalar()
            row["fire_at"] = max(row["fire_at"], (last or 0) + 1)
        self.connection.execute(insert(fires), row)

    def recorded(self, number: int, start: datetime, end: datetime) -> set[datetime]:
        """Return the instants in a range that already have become a job."""
        query = select(fires.c.fire_at).where(
            fires.c.schedule_id == number,
            fires.c.fire_at.between(micros(start), micros(end)),
            fires.c.verdict == "ran",
            fires.c.kind != "manual",
        )
        found = (at(row.fire_at) for row in self.connection.execute(query))
        return {moment for moment in found if moment is not None}

    def was_fired(self, number: int, fire_at: datetime, job_id: int) -> bool:
        own_fire = (fires.c.schedule_id == number, fires.c.kind == "schedule", fires.c.fire_at == micros(fire_at))
        query = select(fires.c.job_id).where(*own_fire, fires.c.job_id == job_id)
        return self.connection.execute(query).first() is not None

    def has_fired_since(self, number: int, fire_at: datetime, since: datetime) -> bool:
        later = (fires.c.schedule_id == number, fires.c.kind == "schedule", fires.c.fire_at > micros(fire_at))
        query = select(fires.c.job_id).where(*later, fires.c.verdict == "ran", fires.c.recorded_at > micros(since))
        return self.connection.execute(query.limit(1)).first() is not None

    def history(self, number: int, *, limit: int, before: datetime | None) -> list[tuple[Fire, int | None]]:
        """Return what became of each due fire, newest first; all records of the last instant, even beyond the limit."""
        query = (
            select(*FIRES.select, fires.c.job_id)
            .where(fires.c.schedule_id == number)
            .order_by(fires.c.fire_at.desc(), fires.c.kind)
        )
        page = query if before is None else query.where(fires.c.fire_at < micros(before))
        rows = self.connection.execute(page.limit(limit)).all()
        if len(rows) == limit:  # the next page begins before the last instant of this one
            last = rows[-1].fire_at
            rows = [row for row in rows if row.fire_at > last]
            rows += self.connection.execute(query.where(fires.c.fire_at == last)).all()
        return [(FIRES.read(row), row.job_id) for row in rows]

    def skipped(self, numbers: Iterable[int]) -> set[int]:
        """Return those whose last fire led to no run: another was running, or the lock was not to be had."""
        latest = [
            select(func.max(fires.c.fire_at))
            .where(fires.c.schedule_id == schedules.c.id, fires.c.kind == kind)
            .scalar_subquery()
            for kind in FIRE_KINDS
        ]
        asked = select(schedules.c.id, *latest).where(schedules.c.id.in_(list(numbers)))
        spots = []
        for number, *moments in self.connection.execute(asked):
            fired = [(moment, kind) for moment, kind in zip(moments, FIRE_KINDS, strict=True) if moment is not None]
            if fired:
                moment, kind = max(fired)
                spots.append((number, kind, moment))
        if not spots:
            return set()
        condition = tuple_(fires.c.schedule_id, fires.c.kind, fires.c.fire_at).in_(spots)
        found = self.connection.execute(select(fires.c.schedule_id).where(condition, fires.c.verdict == "skipped"))
        return set(found.scalars())

    def next_due(self, owner: str | None, queues: Collection[str], *, limit: int) -> list[Schedule]:
        query = select(*SCHEDULES.select).where(schedules.c.next_due_at > 0, *SCHEDULES.equal({"owner": owner}))
        if queues:
            query = query.where(schedules.c.queue.in_(sorted(queues)))
        query = query.order_by(schedules.c.next_due_at, schedules.c.id).limit(limit)
        return [SCHEDULES.read(row) for row in self.connection.execute(query)]

    def fired_by_quarter(
        self, since: datetime, *, owner: str | None, queues: Collection[str], most: int
    ) -> tuple[list[FiredQuarter], datetime | None]:
        """Count fires since an instant by quarter of an hour and verdict, from the *most* newest records."""
        newest = self._fired(owner, queues).where(
            fires.c.fire_at >= micros(since), fires.c.recorded_at >= micros(since)
        )
        part = newest.order_by(fires.c.recorded_at.desc()).limit(most).subquery("part")
        quarter = (part.c.fire_at - part.c.fire_at % QUARTER).label("quarter")
        query = select(
            quarter, part.c.verdict, func.sum(part.c.fire_count), func.count(), func.min(part.c.recorded_at)
        ).group_by(quarter, part.c.verdict)
        rows = self.connection.execute(query).all()
        found = [FiredQuarter(instant(int(at)), verdict, int(count)) for at, verdict, count, _, _ in rows]
        is_cut = sum(int(row[3]) for row in rows) >= most
        return found, instant(min(int(row[4]) for row in rows)) if is_cut else None

    def fired_between(
        self, begin: datetime, end: datetime, recorded_before: datetime, *, owner: str | None, queues: Collection[str],
        most: int, limit: int,
    ) -> list[tuple[Schedule, int, int]]:  # fmt: skip
        """Return schedules that fired in a span, how often they ran and how often not, the busiest first."""
        times = (fires.c.fire_at >= micros(begin), fires.c.fire_at < micros(end))
        recorded = (fires.c.recorded_at >= micros(begin), fires.c.recorded_at < micros(recorded_before))
        part = self._fired(owner, queues).where(*times, *recorded).limit(most).subquery("part")
        ran = func.sum(case((part.c.verdict == "ran", part.c.fire_count), else_=0))
        whole = func.sum(part.c.fire_count)
        busiest = select(part.c.schedule_id, ran, whole).group_by(part.c.schedule_id)
        rows = self.connection.execute(busiest.order_by(whole.desc(), part.c.schedule_id).limit(limit)).all()
        known = self.by_number(number for number, _, _ in rows)
        return [(known[number], int(ran), int(all_) - int(ran)) for number, ran, all_ in rows if number in known]

    def _fired(self, owner: str | None, queues: Collection[str]) -> Select[Any]:
        """Select the records of fires that schedules made by themselves, of these owners and queues."""
        columns = [fires.c[name] for name in ("schedule_id", "fire_at", "verdict", "fire_count", "recorded_at")]
        query = select(*columns).where(fires.c.kind == "schedule")
        if owner is None and not queues:
            return query
        query = query.join(schedules, schedules.c.id == fires.c.schedule_id).where(*SCHEDULES.equal({"owner": owner}))
        return query.where(schedules.c.queue.in_(sorted(queues))) if queues else query

    def results(self, numbers: Collection[int], *, limit: int) -> dict[int, list[ScheduleResult]]:
        """Return the last results of each of these schedules, the newest first: for each one walk along an index."""
        found: dict[int, list[ScheduleResult]] = {number: [] for number in numbers}
        if not found:
            return found
        columns = [runs.c[name] for name in ("schedule_id", "job_id", "token", "outcome", *RESULT_TIMES)]
        newest = (runs.c.job_id.desc(), runs.c.token.desc())
        queries: list[Any] = []
        if BY_NAME[self.connection.dialect.name].lateral:
            lines = select(*columns).where(runs.c.schedule_id == schedules.c.id).order_by(*newest).limit(limit)
            beside = lines.lateral("line")
            queries.append(
                select(*beside.c).select_from(schedules.join(beside, true())).where(schedules.c.id.in_(sorted(found)))
            )
        else:
            arms = [
                select(select(*columns).where(runs.c.schedule_id == number).order_by(*newest).limit(limit).subquery())
                for number in found
            ]
            queries += [union_all(*arms[start : start + ARMS]) for start in range(0, len(arms), ARMS)]
        for number, job, token, outcome, finished, started, fired in (
            row for query in queries for row in self.connection.execute(query)
        ):
            found[number].append(ScheduleResult(job, token, outcome, instant(finished), at(started), at(fired)))
        for results in found.values():  # the parts of a union have an order, their union has none
            results.sort(key=lambda each: (each.job_number, each.token), reverse=True)
        return found

    def tallies(self, numbers: Iterable[int]) -> dict[int, Tally]:
        """Return runs and failures of schedules, those removed from the history too, and how the last one went."""
        return tallies(self.connection, SCHEDULE, list(numbers))

    def handler_tallies(self, handlers: Iterable[str]) -> dict[str, Tally]:
        """Return tallies of runs without a schedule, by handler; reads the whole history of such runs."""
        return tallies(self.connection, HANDLER, list(handlers))


def unfinished_from(rows: Iterable[Sequence[Any]]) -> Unfinished:
    """Sort rows of (number, state, attempt, run_at, started_at, progressed_at, held_for).

    A queued job that waits for its lock, or that has failed before and waits for its retry, yields to a new
    occurrence.
    """
    running, waiting, locked_out = list[int](), list[int](), list[int]()
    retrying: dict[int, datetime] = {}
    seen: dict[int, datetime] = {}
    for number, state, attempt, run_at, started_at, progressed_at, held_for in rows:
        if state == "running":
            running.append(number)
        elif held_for == LOCK:
            locked_out.append(number)
        elif attempt > 0:
            retrying[number] = instant(run_at)
        else:
            waiting.append(number)
        latest = at(max((moment for moment in (started_at, progressed_at) if moment is not None), default=None))
        if latest is not None:
            seen[number] = latest
    return Unfinished(tuple(running), tuple(waiting), retrying, tuple(locked_out), seen)


def _filtered(wanted: ScheduleFilter) -> Select[Any]:
    """Return a query for the schedules that a filter wants."""
    query = select(*SCHEDULES.select).where(*SCHEDULES.equal(wanted, leave_out=("enabled", "toggled")))
    if wanted.queues:
        query = query.where(schedules.c.queue.in_(wanted.queues))
    if wanted.not_tzdata is not None:
        query = query.where(schedules.c.tzdata != wanted.not_tzdata)
    if wanted.enabled is not None:
        query = query.where(func.coalesce(schedules.c.toggled, schedules.c.enabled) == int(wanted.enabled))
    if wanted.toggled is not None:
        query = query.where(schedules.c.toggled.is_not(None) if wanted.toggled else schedules.c.toggled.is_(None))
    if wanted.text is not None:
        named = (schedules.c.schedule_key, schedules.c.title, schedules.c.handler)
        query = query.where(or_(*(contains(func.lower(column), wanted.text.lower()) for column in named)))
    return query
