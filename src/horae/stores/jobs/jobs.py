"""Jobs on the control plane: reading, finding, counting, and the manual acts. SQLAlchemy Core, any connection.

Live and dead jobs are in ``horae_jobs``; finished ones live on as their final row in ``horae_runs``. Readers see
one list.
"""

# size: one room, one class; every way to read and change jobs by hand, on any connection

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)

from horae.core.cluster.messages import HINT
from horae.core.cluster.numbers import job_id
from horae.core.jobs.batch import HELD_BY_BATCH
from horae.core.jobs.job import CLOSED, JOB, SYSTEM, Filter, Job, Lease, NewJob, Run, Settlement
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import MICROSECOND, micros
from horae.stores.databases.bulk import find_by
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.databases.driver import Driver
from horae.stores.declaration import Reader
from horae.stores.tables.jobs import ATTEMPT, FINISHED_JOBS, JOBS, RUNS, SNAPSHOT, jobs, keys, needs, running_run, runs

if TYPE_CHECKING:
    from horae.core.jobs.parents import ParentResult
    from horae.core.jobs.reasons import Parent
    from horae.ports.claims import PutBack
    from horae.ports.jobs import End, Placed
    from horae.ports.queues import DueBacklog
    from horae.stores.cluster.shard import Entrance
    from horae.stores.databases.hot import Hot

FINISHED = ("succeeded", "cancelled")  # what lives on only in the history
MOST_OF_OWNER = 10_000  # an owner's live jobs that are counted
MOST_RATED = 1_000  # of the newest live jobs, for the rate of those that were tried again
MOST_ENDED_OF_OWNER = 200  # and its finished ones: each is looked up by its number in every day of the history
ENDED = {
    "succeeded": runs.c.state == "succeeded",
    "finished": runs.c.state.is_not(None),
    "finished_after_retry": and_(runs.c.state.is_not(None), runs.c.attempt > 0),
}


class Jobs:
    """The job rows of one transaction."""

    def __init__(
        self,
        connection: Connection,
        hot: Hot | None = None,
        woken: set[str] | None = None,
        entrance: Entrance | None = None,
    ) -> None:
        self.connection = connection
        self._hot = hot
        self._entrance = entrance
        self._woken = set[str]() if woken is None else woken

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, number: int) -> Job | None:
        row = self.connection.execute(select(*JOBS.select).where(jobs.c.id == number)).first()
        if row is not None:
            return JOBS.read(row)
        final = select(*FINISHED_JOBS.select).where(runs.c.job_id == number, runs.c.state.is_not(None))
        ended = self.connection.execute(final).first()
        return None if ended is None else FINISHED_JOBS.read(ended)

    def some(self, numbers: Iterable[int]) -> list[Job]:
        """Return those of these jobs that have not ended."""
        query = select(*JOBS.select).where(jobs.c.id.in_(sorted(numbers)))
        return [JOBS.read(row) for row in self.connection.execute(query)]

    def tokens(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the tokens of those of these jobs that have not ended."""
        rows = find_by(self.connection, select(jobs.c.id, jobs.c.token), jobs.c.id, list(numbers), each=True)
        return {row.id: row.token for row in rows}

    def lock(self, number: int) -> Job | None:
        """Return the live or dead job, kept from changing until the transaction ends."""
        row = self.connection.execute(select(*JOBS.select).where(jobs.c.id == number).with_for_update()).first()
        return None if row is None else JOBS.read(row)

    def lock_many(self, numbers: Iterable[int]) -> list[Job]:
        """Return those of these jobs that are live or dead, kept from changing, in the order of their numbers."""
        query = select(*JOBS.select).where(jobs.c.id.in_(sorted(numbers))).order_by(jobs.c.id).with_for_update()
        return [JOBS.read(row) for row in self.connection.execute(query)]

    def look_back(self, rows: int, *, before: int | None, least: int = 0) -> int | None:
        """Return the number down to which a look over so many live and so many ended rows reaches; None: to *least*.

        Both walks read a key alone, so that they cost little beside the look itself.
        """
        reached = []
        for column in (jobs.c.id, runs.c.job_id):
            walk = select(column).where(column >= least).order_by(column.desc()).offset(rows).limit(1)
            walk = walk if before is None else walk.where(column < before)
            reached.append(self.connection.execute(walk).scalar())
        return max((int(number) for number in reached if number is not None), default=None)

    def find(self, wanted: Filter, *, limit: int, before: int | None, least: int | None = None) -> list[Job]:
        """Return a page of jobs, live and finished together, newest first; none below the number *least*."""
        found: dict[int, Job] = {}
        if not wanted.states or set(wanted.states) - set(FINISHED):
            live = apply_filter(select(*JOBS.select), JOBS, wanted).order_by(jobs.c.id.desc()).limit(limit)
            live = live if before is None else live.where(jobs.c.id < before)
            live = live if least is None else live.where(jobs.c.id >= least)
            found |= {row[0]: JOBS.read(row) for row in self.connection.execute(live)}
        if not wanted.states or set(wanted.states) & set(FINISHED):
            ended = apply_filter(select(*FINISHED_JOBS.select).where(runs.c.state.is_not(None)), FINISHED_JOBS, wanted)
            ended = ended.order_by(runs.c.job_id.desc()).limit(limit)
            ended = ended if before is None else ended.where(runs.c.job_id < before)
            ended = ended if least is None else ended.where(runs.c.job_id >= least)
            for row in self.connection.execute(ended):  # one that ended between the looks is found twice
                found[row.job_id] = FINISHED_JOBS.read(row)
        return [found[number] for number in sorted(found, reverse=True)[:limit]]

    def find_among(self, wanted: Filter, numbers: Sequence[int]) -> list[Job]:
        """Return those of these jobs that a filter wants, the newest first."""
        found: dict[int, Job] = {}
        if not wanted.states or set(wanted.states) - set(FINISHED):
            live = apply_filter(select(*JOBS.select).where(jobs.c.id.in_(numbers)), JOBS, wanted)
            found |= {row[0]: JOBS.read(row) for row in self.connection.execute(live)}
        if not wanted.states or set(wanted.states) & set(FINISHED):
            gone = self._gone(numbers)  # for none of them MariaDB would read everything
            ended = select(*FINISHED_JOBS.select).where(runs.c.job_id.in_(gone), runs.c.state.is_not(None))
            ended = self._by_number(apply_filter(ended, FINISHED_JOBS, wanted))
            for row in self.connection.execute(ended) if gone else ():
                found[row.job_id] = FINISHED_JOBS.read(row)
        return [found[number] for number in sorted(found, reverse=True)]

    def _by_number(self, query: Select[Any]) -> Select[Any]:
        """Look runs up by the numbers of their jobs; else MariaDB may read all that succeeded."""
        return self._forcing("PRIMARY", runs, query)

    def _forcing(self, index: str, table: Table, query: Select[Any]) -> Select[Any]:
        """Name the index to use to a database that guesses badly how many rows there are."""
        hint = BY_NAME[self.connection.dialect.name].forced_index
        return query.with_hint(table, hint.format(index=index)) if hint else query

    def _gone(self, numbers: Sequence[int]) -> list[int]:
        """Return those of these numbers that no live job has: only they are looked up in every day of the history."""
        alive = set(self.connection.execute(select(jobs.c.id).where(jobs.c.id.in_(numbers))).scalars())
        return [number for number in numbers if number not in alive]

    def look_back_ends(self, rows: int, since: int, *, before: End | None) -> int | None:
        """Return the end down to which a look over so many endings since an instant reaches; None: over all of them."""
        walk = select(runs.c.finished_at).where(runs.c.finished_at >= since, *_ended_before(runs, before))
        walk = walk.order_by(runs.c.finished_at.desc()).offset(rows).limit(1)
        found = self.connection.execute(walk).scalar()
        return None if found is None else int(found)

    def find_by_end(self, wanted: Filter, *, limit: int, before: End | None, least: int | None) -> list[Job]:
        """Return a page of finished and dead jobs, those that ended last first; none that ended before *least*."""
        found: list[tuple[End, Job]] = []
        for reader, states in ((JOBS, ("dead",)), (FINISHED_JOBS, FINISHED)):
            if wanted.states and not set(wanted.states) & set(states):
                continue
            number, end, state = reader["number"], reader["finished_at"], reader["state"]
            query = apply_filter(select(*reader.select), reader, wanted)
            query = query.where(state == "dead" if reader is JOBS else state.is_not(None))
            query = query.where(*_ended_before(reader.table, before), *([] if least is None else [end >= least]))
            query = self._forcing("horae_jobs_died", jobs, query) if reader is JOBS else query
            rows = self.connection.execute(query.order_by(end.desc(), number.desc()).limit(limit))
            found += [((row.finished_at, row[0]), reader.read(row)) for row in rows]
        return [job for _, job in sorted(found, key=lambda each: each[0], reverse=True)[:limit]]

    def count_groups(self, wanted: Filter, *, least: int | None, most: int) -> dict[tuple[str, str, str], int]:
        """Count jobs by state, queue and handler; running ones whatever their number, of dead ones the newest *most*.

        Queued and finished jobs below the number *least* are left out.
        """
        newest_dead = select(jobs.c.id).where(jobs.c.state == _literal("dead")).order_by(jobs.c.id.desc())
        dead_from = self.connection.execute(newest_dead.offset(most - 1).limit(1)).scalar()
        found: Counter[tuple[str, str, str]] = Counter()
        for states, lowest in (("queued",), least), (("running",), None), (("dead",), dead_from), (FINISHED, least):
            number = (FINISHED_JOBS if states is FINISHED else JOBS)["number"]
            found += self._count_states(wanted, states, [] if lowest is None else [number >= lowest])
        return dict(found)

    def count_among(self, wanted: Filter, numbers: Sequence[int]) -> dict[tuple[str, str, str], int]:
        """Count those of these jobs that are queued or finished, by state, queue and handler."""
        gone = self._gone(numbers)
        found = self._count_states(wanted, ("queued",), [jobs.c.id.in_(numbers)]) if numbers else Counter()
        found += self._count_states(wanted, FINISHED, [runs.c.job_id.in_(gone)]) if gone else Counter()
        return dict(found)

    def _count_states(
        self, wanted: Filter, states: Sequence[str], among: Sequence[ColumnElement[bool]]
    ) -> Counter[tuple[str, str, str]]:
        reader = FINISHED_JOBS if states is FINISHED else JOBS
        by = [reader[name] for name in ("state", "queue", "handler")]
        query = apply_filter(select(*by, func.count()), reader, wanted).where(_in_state(reader, states), *among)
        query = self._by_number(query) if reader is FINISHED_JOBS and among else query
        rows = self.connection.execute(query.group_by(*by))
        return Counter({(state, queue, handler): int(count) for state, queue, handler, count in rows})

    def runs(self, number: int) -> list[Run]:
        """Return every attempt, the oldest first; the one under way comes last."""
        job = self.get(number)
        query = select(*RUNS.select).where(runs.c.job_id == number).order_by(runs.c.token)
        ended = [RUNS.read(row) for row in self.connection.execute(query)]
        under_way = job is not None and job.state == "running" and job.token not in {run.token for run in ended}
        return [*ended, running_run(job)] if job is not None and under_way else ended

    def counts(
        self,
        queue: str | None,
        owner: str | None,
        machinery: bool = False,
        ended_since: datetime | None = None,
        *,
        now: datetime,
    ) -> dict[tuple[str, str], int]:
        """Return how many jobs are in which (queue, state); those of the history only from *ended_since* on.

        Where there are many live jobs, they are as they were counted last. Of an owner's jobs a bounded number counts.
        """
        found: dict[tuple[str, str], int] = {}
        parts = (
            [self._count_all(ended_since, now)] if owner is None else [self._count_live(owner), self._count_of(owner)]
        )
        for name, state, count in (row for part in parts for row in part):
            if name == queue if queue is not None else machinery or name != MACHINERY:
                found[name, state] = found.get((name, state), 0) + int(count)
        return found

    def _count_all(self, ended_since: datetime | None, now: datetime) -> Iterator[tuple[str, str, int]]:
        from horae.stores.jobs.depths import Depths

        for (queue, state), depth in Depths(self.connection).read(now).items():
            yield queue, state, depth.jobs
        query = select(runs.c.queue, runs.c.state, func.count()).where(runs.c.state.is_not(None))
        query = query if ended_since is None else query.where(runs.c.finished_at >= micros(ended_since))
        for queue, state, count in self.connection.execute(query.group_by(runs.c.queue, runs.c.state)):
            yield queue, state, count

    def _count_live(self, owner: str) -> Iterator[tuple[str, str, int]]:
        some = select(jobs.c.queue, jobs.c.state).where(*_owned_by(owner)).limit(MOST_OF_OWNER).subquery()
        query = select(some.c.queue, some.c.state, func.count()).group_by(some.c.queue, some.c.state)
        yield from ((queue, state, count) for queue, state, count in self.connection.execute(query))

    def _count_of(self, owner: str) -> Iterator[tuple[str, str, int]]:
        """Count an owner's finished jobs among the newest of its jobs that the map of labels knows, and newer ones."""
        from horae.core.jobs.labels import Label
        from horae.stores.jobs.labels import Labels

        labels = Labels(self.connection)
        labelled = labels.state().labelled
        numbers = labels.members(Label.of("owner", owner), before=labelled, limit=MOST_ENDED_OF_OWNER)
        least = self.look_back(MOST_OF_OWNER, before=None, least=labelled) or labelled
        gone = self._gone(numbers)[:MOST_ENDED_OF_OWNER]
        theirs = select(runs.c.queue, runs.c.state).where(runs.c.owner == owner, runs.c.state.is_not(None))
        looked_up = self._by_number(
            theirs.where(runs.c.job_id.in_(gone))
        )  # counted here: few, and MariaDB would sort them
        found = Counter((queue, state) for queue, state in self.connection.execute(looked_up)) if gone else Counter()
        yield from ((queue, state, count) for (queue, state), count in found.items())
        newer = theirs.add_columns(func.count()).where(runs.c.job_id >= least).group_by(runs.c.queue, runs.c.state)
        yield from ((queue, state, count) for queue, state, count in self.connection.execute(self._by_number(newer)))

    def metrics(
        self, *, now: datetime, since: datetime, owner: str | None, ended_since: datetime | None = None
    ) -> dict[str, Any]:
        """Return the raw figures behind S0-29 to S0-33; finished jobs count from *since*, or *ended_since*, on."""
        due_count, oldest, dead = self._due_and_dead(now, owner)
        rates = self.rates(since=since, owner=owner, ended_since=ended_since)
        return {"due": due_count, "oldest_due": oldest, "dead": dead, **rates}

    def rates(self, *, since: datetime, owner: str | None, ended_since: datetime | None = None) -> dict[str, int]:
        """Return of the raw figures those of a window."""
        instants = {"since": micros(since), "ended_since": micros(ended_since or since)}
        owned = {} if owner is None else {"owner": owner}
        query = _rates(owned=owner is not None, tenant=owner not in (None, SYSTEM))
        found = self.connection.execute(query, instants | owned).mappings().one()
        return {name: int(number or 0) for name, number in found.items()}

    def _due_and_dead(self, now: datetime, owner: str | None) -> tuple[int, int | None, int]:
        """Return how many jobs are due, since when the first, and how many are dead; an owner's up to a bound."""
        if owner is None:
            from horae.stores.jobs.depths import Depths

            depths = Depths(self.connection)
            found = {key: each for key, each in depths.read(now).items() if key[0] != MACHINERY}
            waiting, dead = (
                depths.waiting(now, found),
                sum(each.jobs for key, each in found.items() if key[1] == "dead"),
            )
            oldest = min((micros(each.since) for each in waiting.values()), default=None)
            return sum(each.count for each in waiting.values()), oldest, dead
        theirs = (*_owned_by(owner), jobs.c.queue != MACHINERY)
        due = (jobs.c.state == "queued", jobs.c.held == "", jobs.c.run_at <= micros(now))
        some = select(jobs.c.run_at).where(*due, *theirs).limit(MOST_OF_OWNER).subquery()
        count, first = self.connection.execute(select(func.count(), func.min(some.c.run_at))).one()
        lost = select(jobs.c.id).where(jobs.c.state == "dead", *theirs).limit(MOST_OF_OWNER).subquery()
        return count, first, int(self.connection.execute(select(func.count()).select_from(lost)).scalar_one())

    def died(self, since: datetime, *, limit: int) -> list[Job]:
        """Return jobs that have been dead since an instant or later, the newest first."""
        dead = (jobs.c.state == "dead", jobs.c.finished_at >= micros(since), jobs.c.queue != MACHINERY)
        query = select(*JOBS.select).where(*dead)
        return [JOBS.read(row) for row in self.connection.execute(query.order_by(jobs.c.id.desc()).limit(limit))]

    def waiting(self, due_before: datetime, *, not_in: Iterable[str]) -> list[DueBacklog]:
        """Queues, other than these, with jobs that were due before an instant while none of theirs is running."""
        from horae.ports.queues import DueBacklog
        from horae.stores.jobs.depths import Depths

        busy = {queue for (queue,) in self.connection.execute(
            select(jobs.c.queue).where(jobs.c.state == "running").distinct())}  # fmt: skip
        found = Depths(self.connection).waiting(due_before - MICROSECOND)
        others = set(found) - busy - set(not_in)
        return [DueBacklog(queue, found[queue].count, found[queue].since) for queue in sorted(others)]

    # -- jobs that wait for others -----------------------------------------------------------------------------

    def parents(self, number: int) -> list[Parent]:
        """Return the jobs that one waits for, in order."""
        from horae.core.jobs.reasons import Parent

        lost = {row.parent: row.root for row in self.connection.execute(_lost_above(number))}
        query = select(needs.c.needed_id, needs.c.policy, jobs.c.state)
        query = query.outerjoin(jobs, jobs.c.id == needs.c.needed_id).where(needs.c.job_id == number)
        found = self.connection.execute(query.order_by(needs.c.needed_id)).all()
        ended = select(runs.c.job_id, runs.c.state).where(
            runs.c.job_id.in_([row.needed_id for row in found if row.state is None]), runs.c.state.is_not(None)
        )
        history = {row.job_id: row.state for row in self.connection.execute(ended)}
        if self._entrance is not None:
            from horae.stores.jobs.parents import read_remote_states

            history |= read_remote_states(self.connection, number)
        return [
            Parent(
                job_id(parent),
                state or history.get(parent),
                policy,
                job_id(lost[parent]) if parent in lost else None,
            )
            for parent, policy, state in found
        ]

    def parent_results(self, number: int, *, most_bytes: int) -> tuple[list[ParentResult], int]:
        """Return the jobs that one was enqueued after with what they returned, and the size of all results."""
        from horae.stores.jobs.parents import read_results

        return read_results(self.connection, number, most_bytes, in_cluster=self._entrance is not None)

    def enqueued_after(self, number: int, *, limit: int) -> list[int]:
        """Return the first jobs that one was enqueued after, in that order, also those that have ended."""
        from horae.stores.jobs.parents import read_numbers

        return read_numbers(self.connection, number, limit)

    def children(self, number: int, *, limit: int) -> list[int]:
        """Return jobs that wait, or waited, for one, by number."""
        query = select(needs.c.job_id).where(needs.c.needed_id == number).order_by(needs.c.job_id).limit(limit)
        return list(self.connection.execute(query).scalars())

    def waits_for_ever(self, queues: Iterable[str] | None, *, limit: int) -> list[tuple[int, int]]:
        """Return jobs that wait for one that will never succeed, through others or not, each with that one."""
        lost = _lost()
        query = select(lost.c.id, func.min(lost.c.root)).join(jobs, jobs.c.id == lost.c.id).group_by(lost.c.id)
        if queues is not None:
            query = query.where(jobs.c.queue.in_(sorted(queues)))
        return [(job, root) for job, root in self.connection.execute(query.order_by(lost.c.id).limit(limit))]

    def may_move(self, queues: Iterable[str]) -> bool:
        """Return whether any of these queues holds a job that runs, or will run without manual help."""
        live = [jobs.c.queue.in_(sorted(queues)), jobs.c.state.in_(("queued", "running")), jobs.c.held != CLOSED]
        moving = select(jobs.c.id).where(*live, jobs.c.held.not_in(("needs", HELD_BY_BATCH))).limit(1)
        if self.connection.execute(moving).first() is not None:
            return True
        stuck = select(_lost().c.id)
        waiting = select(jobs.c.id).where(*live, jobs.c.id.not_in(stuck)).limit(1)
        return self.connection.execute(waiting).first() is not None

    # -- manual acts -------------------------------------------------------------------------------------------

    def requeue(self, job: Job, *, run_at: datetime, attempt: int, band: int | None, now: datetime) -> bool:
        """Put a waiting or dead job (back) into the queue at another time, guarded by what was read."""
        values: dict[str, Any] = {"state": "queued", "run_at": micros(run_at), "attempt": attempt, "finished_at": None}
        if band is not None:
            values["band"] = band
        if job.state == "dead":
            values |= {"token": jobs.c.token + 1, "worker_id": None, "started_at": None, "cancel_reason": None}
            if job.holds_name and not self._takes_name(job, now):
                return False
        if job.held in ("", "slot", CLOSED):
            values |= {"held": "", "held_for": None}  # its turn is decided again when its new time has come
        changed = self._update_guarded(job, values)
        if changed and job.state == "dead" and job.has_dependents:
            from horae.stores.jobs.links import Links

            asked = self._entrance is not None
            self._woken |= Links(self._dialect).revive(self._driver(), job.number, now, asked=asked)
        self._let_next_in(job)
        return changed

    def _let_next_in(self, job: Job) -> None:
        """Let the next job in when a waiting one leaves the line with its turn unused."""
        lines = (("key", job.concurrency_key), ("group", job.group))
        names = [f"{kind}:{name}" for kind, name in lines if name is not None]
        if names:
            from horae.stores.jobs.slots import Slots

            driver, slots = self._driver(), Slots(self._dialect)
            slots.lock(driver, names)
            slots.let_in(driver, names)

    @property
    def _dialect(self) -> Dialect:
        return BY_NAME[self.connection.dialect.name]

    def _driver(self) -> Driver:
        """Return a driver in this transaction, for flows that the hot statements share."""
        return Driver(self.connection.connection.driver_connection, self._dialect.placeholder)

    # -- endings in a transaction of the caller's ----------------------------------------------------------------

    def settle(self, settlements: Sequence[Settlement], now: datetime) -> set[int]:
        """Write endings in this transaction; return the numbers of the jobs whose token was no longer current."""
        if not settlements:
            return set()
        rejected, queues = self._flows.settle(self._driver(), settlements, now)
        self._woken |= queues
        return rejected

    def put_back(self, returned: Sequence[PutBack]) -> set[int]:
        """Queue claimed jobs again with a raised token; return the numbers of those that were not put back."""
        if not returned:
            return set()
        rejected, queues = self._flows.put_back(self._driver(), returned)
        self._woken |= queues
        return rejected

    def lock_held(self, leases: Iterable[Lease]) -> set[int]:
        """Keep these jobs from changing hands until the transaction ends; return the numbers of those still held."""
        return self._flows.lock_held(self._driver(), leases)

    @property
    def _flows(self) -> Hot:
        from horae.stores.databases.hot import Hot

        return self._hot or Hot(self._dialect)

    def _takes_name(self, job: Job, now: datetime) -> bool:
        """Take the unique name of a revived job again; another job may have it by now."""
        row = {"scope": "unique", "owner": job.owner, "name": job.unique, "job_id": job.number, "request_hash": ""}
        from horae.stores.jobs.insertion import Insertion

        return Insertion(self.connection).take_names([row | {"created_at": micros(now)}]) == 1

    def end_waiting(self, job: Job, *, reason: str | None, now: datetime) -> bool:
        """Finish a job that is not running: its row moves to the history as cancelled."""
        self._copy_cancelled(_guard(job), reason or "", now)
        if self.connection.execute(delete(jobs).where(*_guard(job))).rowcount != 1:
            return False
        self.connection.execute(delete(keys).where(keys.c.scope == "unique", keys.c.job_id == job.number))
        if job.held == "needs":  # it is not cancelled for a parent, so no parent brings it back
            self.connection.execute(delete(needs).where(needs.c.job_id == job.number))
        self._let_next_in(job)
        if job.has_dependents:
            from horae.stores.jobs.links import Ended, Links

            ended = Ended(job.number, job.schedule_id, False, asked=self._entrance is not None)
            self._woken |= Links(self._dialect).settle(self._driver(), [ended], now)
        return True

    def _copy_cancelled(self, which: Sequence[ColumnElement[bool]], reason: str, now: datetime) -> None:
        """Write the final rows of jobs that are cancelled while they wait."""
        copied = [jobs.c[name] for name in (*ATTEMPT, *SNAPSHOT) if name != "cancel_reason"]
        row = select(
            jobs.c.id, jobs.c.token + 1, literal("cancelled"), literal("cancelled"), jobs.c.attempt,
            literal(micros(now)), literal(reason), jobs.c.last_error, *copied,
        ).where(*which)  # fmt: skip
        names = ["job_id", "token", "outcome", "state", "attempt", "finished_at", "cancel_reason", "error"]
        names += [column.name for column in copied]
        self.connection.execute(insert(runs).from_select(names, row))

    # -- the same for many, whose rows are locked: one statement for all that concern no other job ---------------

    def requeue_many(self, chosen: Sequence[Job], *, run_at: datetime, revive: bool, now: datetime) -> set[int]:
        """Put jobs (back) into the queue, with *revive* with all their attempts; return those that are refused."""
        refused, plain = set(), []
        for job in chosen:
            if _stands_alone(job) and not (revive and (job.unique is not None or job.has_dependents)):
                plain.append(job.number)
            elif not self.requeue(job, run_at=run_at, attempt=0 if revive else job.attempt, band=None, now=now):
                refused.add(job.number)
        values: dict[str, Any] = {"run_at": micros(run_at), "held": "", "held_for": None}
        if revive:
            values |= {"state": "queued", "attempt": 0, "finished_at": None, "token": jobs.c.token + 1}
            values |= {"worker_id": None, "started_at": None, "cancel_reason": None}
        if plain:
            self.connection.execute(update(jobs).where(jobs.c.id.in_(plain)).values(values))
        return refused

    def end_waiting_many(self, chosen: Sequence[Job], *, reason: str, now: datetime) -> set[int]:
        """Finish jobs that are not running; return those that are refused."""
        plain = [job for job in chosen if _stands_alone(job) and not job.has_dependents]
        numbers = [job.number for job in plain]
        rest = [job for job in chosen if job.number not in set(numbers)]
        if numbers:
            self._copy_cancelled([jobs.c.id.in_(numbers)], reason, now)
            self.connection.execute(delete(jobs).where(jobs.c.id.in_(numbers)))
        named = [job.number for job in plain if job.unique is not None]
        if named:
            self.connection.execute(delete(keys).where(keys.c.scope == "unique", keys.c.job_id.in_(named)))
        return {job.number for job in rest if not self.end_waiting(job, reason=reason, now=now)}

    def ask_to_cancel(self, job: Job, *, reason: str) -> bool:
        """Ask a running job to stop; its worker obeys at the next safe moment."""
        return self._update_guarded(job, {"cancel_reason": reason})

    def move(self, job: Job, queue: str) -> bool:
        """Put a waiting or dead job into another queue."""
        self._label(job, queue)
        return self._update_guarded(job, {"queue": queue})

    def replan(self, job: Job, new: NewJob) -> bool:
        """Let the waiting job of an object stand for another action, at another time; it begins anew."""
        self._label(job, new.queue)
        at = micros(new.run_at)
        values = {"action": new.action, "run_at": at, "planned_at": at, "band": new.band, "queue": new.queue}
        values |= {"payload": new.payload, "budget": new.budget, "checkpoint": None}
        return self._update_guarded(job, values | {"attempt": 0, "held": "", "held_for": None})

    def keep_checkpoint(self, job: Job, checkpoint: str | None) -> bool:
        """Write the checkpoint of a job that its holder is about to end; False where it has another holder."""
        return self._update_guarded(job, {"checkpoint": checkpoint})

    def _label(self, job: Job, queue: str) -> None:
        """Let lists find a job in its new queue, too, where the map of labels has reached it already."""
        if queue != job.queue:
            from horae.core.jobs.labels import BLOCK, LONGEST
            from horae.stores.jobs.labels import Labels

            block, place = divmod(job.number, BLOCK)
            Labels(self.connection).add({("queue", queue[:LONGEST], block): 1 << place})

    def _update_guarded(self, job: Job, values: dict[str, Any]) -> bool:
        return self.connection.execute(update(jobs).where(*_guard(job)).values(values)).rowcount == 1

    # -- new ones -----------------------------------------------------------------------------------------------

    def insert(self, new: Sequence[NewJob], now: datetime) -> list[Placed]:
        from horae.stores.jobs.insertion import Insertion

        placed = Insertion(self.connection, self._entrance).insert(new, now)
        if self._entrance is not None and any(job.after for job in new):
            self._woken.add(HINT)
        return placed

    def start(self, number: int, *, worker_id: str, until: datetime, now: datetime) -> None:
        """Mark a job as running, held by the process that stored it."""
        held = {"worker_id": worker_id, "leased_until": micros(until), "started_at": micros(now)}
        self.connection.execute(update(jobs).where(jobs.c.id == number).values(state="running", token=1, **held))

    def take(self, job: Job, *, worker_id: str, until: datetime, now: datetime) -> Job | None:
        """Claim one waiting job by its number; None where another process has it by now."""
        held = {"worker_id": worker_id, "leased_until": micros(until), "started_at": micros(now)}
        if not self._update_guarded(job, {"state": "running", "token": jobs.c.token + 1, **held}):
            return None
        claimed = replace(job, state="running", token=job.token + 1, worker_id=worker_id)
        return replace(claimed, leased_until=until, started_at=now)

    def unfinished(self, owner: str, at_most: int) -> int:
        """Return how many jobs of an owner wait or run, counting up to *at_most*."""
        live = (jobs.c.owner == owner, jobs.c.state.in_(("queued", "running")), jobs.c.queue != MACHINERY)
        conditions = select(jobs.c.id).where(*live)
        return int(
            self.connection.execute(select(func.count()).select_from(conditions.limit(at_most).subquery())).scalar_one()
        )

    def holders(self, concurrency_key: str) -> list[Job]:
        """Return the running jobs that hold the places of a concurrency key."""
        from horae.stores.tables.queues import slots

        holders = select(slots.c.job_id).where(slots.c.name == f"key:{concurrency_key}", slots.c.job_id.is_not(None))
        query = select(*JOBS.select).where(jobs.c.id.in_(holders), jobs.c.state == "running")
        return [JOBS.read(row) for row in self.connection.execute(query)]


def _lost() -> CTE:
    """Return every waiting job that waits for a lost one, and that one: also through others that wait themselves."""
    child = jobs.alias("child")
    first = select(needs.c.job_id.label("id"), needs.c.needed_id.label("root"))
    lost = first.join(child, child.c.id == needs.c.job_id).where(needs.c.state == "settled").cte("lost", recursive=True)
    others = select(needs.c.job_id, lost.c.root).join(lost, needs.c.needed_id == lost.c.id)
    return lost.union(others.join(child, child.c.id == needs.c.job_id))


def _lost_above(number: int) -> Select[tuple[int, int]]:
    """Return the parents of a job that wait for a lost one themselves, each with that one."""
    via = needs.c.needed_id.label("parent")
    up = select(via, needs.c.needed_id.label("id")).where(needs.c.job_id == number).cte("up", recursive=True)
    up = up.union(select(up.c.parent, needs.c.needed_id).join(up, needs.c.job_id == up.c.id))
    child = jobs.alias("child")
    found = select(up.c.parent, func.min(needs.c.needed_id).label("root")).join(needs, needs.c.job_id == up.c.id)
    found = found.join(child, child.c.id == needs.c.job_id)
    return found.where(needs.c.state == "settled").group_by(up.c.parent)


@cache
def _rates(*, owned: bool, tenant: bool) -> Select[Any]:
    """Return the statement of the rates, of all or of one owner; made once, because a scrape needs it each time."""
    ours = [jobs.c.queue != MACHINERY, *([jobs.c.owner == bindparam("owner")] if owned else [])]
    ours += [jobs.c.owner != SYSTEM] if tenant else []  # as in _owned_by
    died = select(func.count()).where(_in_state(JOBS, ("dead",)), jobs.c.finished_at >= bindparam("ended_since"), *ours)
    recent = [runs.c.finished_at >= bindparam("ended_since")]
    recent += [runs.c.owner == bindparam("owner")] if owned else []
    is_visible = runs.c.queue != MACHINERY
    figures = [func.sum(case((and_(is_visible, each), 1), else_=0)).label(name) for name, each in ENDED.items()]
    ended = select(*figures, func.max(runs.c.job_id).label("last_ended")).where(*recent).subquery()
    newest = select(jobs.c.attempt, jobs.c.created_at).where(*ours).order_by(jobs.c.id.desc())
    some = newest.limit(literal_column(str(MOST_RATED))).subquery()
    retried = func.sum(case((some.c.attempt > 0, 1), else_=0))
    alive = select(func.count().label("live"), retried.label("live_after_retry"))
    live = alive.where(some.c.created_at >= bindparam("since")).subquery()
    last = select(func.max(jobs.c.id)).scalar_subquery().label("last_live")
    dead = died.scalar_subquery().label("dead_recently")
    return select(dead, last, ended, live).select_from(ended.join(live, true()))


def _owned_by(owner: str) -> list[ColumnElement[bool]]:
    """Name an owner's jobs so that the index of tenants' jobs, which leaves out the house's, can be used."""
    return [jobs.c.owner == owner, *([] if owner == SYSTEM else [jobs.c.owner != SYSTEM])]


def apply_filter(query: Select[Any], reader: Reader[Job], wanted: Filter) -> Select[Any]:
    """Keep what the filter wants: by equal values where it has a field of the job's, else as said here."""
    query = query.where(*reader.equal(wanted))
    if wanted.queue is None and not wanted.machinery:
        query = query.where(reader["queue"] != MACHINERY)
    if wanted.states:
        query = query.where(_in_state(reader, wanted.states))
    if wanted.states == ("dead",) and reader is JOBS:  # always so; MariaDB's index of leases has them in order then
        query = query.where(jobs.c.leased_until.is_(None))
    if wanted.queues:
        query = query.where(reader["queue"].in_(wanted.queues))
    if wanted.not_held and reader is JOBS:
        query = query.where(reader["held"].not_in(wanted.not_held))
    if wanted.tag is not None:
        from horae.stores.jobs.filters import holds_tag

        query = query.where(holds_tag(reader["tags"], wanted.tag))
    if wanted.created_after is not None:
        query = query.where(reader["created_at"] >= micros(wanted.created_after))
    if wanted.created_before is not None:
        query = query.where(reader["created_at"] < micros(wanted.created_before))
    if wanted.terms:
        from horae.stores.jobs.filters import conditions

        query = query.where(*conditions(reader, wanted.terms))
    return query


def _ended_before(table: Table, before: End | None) -> list[ColumnElement[bool]]:
    """Keep what ended before a place in the order of ends; not by comparing pairs, which MariaDB does not index."""
    if before is None:
        return []
    number, end = (table.c.id if table is jobs else table.c.job_id), table.c.finished_at
    return [end <= before[0], or_(end < before[0], number < before[1])]


def _in_state(reader: Reader[Job], states: Sequence[str]) -> ColumnElement[bool]:
    """Name states in the text of the statement, so that the indexes of dead, running and cancelled jobs can be used."""
    names = [_literal(state) for state in states]
    state: ColumnElement[str] = reader["state"]
    return state == names[0] if len(names) == 1 else state.in_(names)


def _literal(state: str) -> ColumnElement[str]:
    return literal_column(f"'{JOB.states[JOB.states.index(state)]}'")


def _stands_alone(job: Job) -> bool:
    """Return whether a waiting or dead job neither holds up another one nor waits for one."""
    return job.concurrency_key is None and job.group is None and job.held in ("", CLOSED)


def _guard(job: Job) -> tuple[ColumnElement[bool], ...]:
    return (jobs.c.id == job.number, jobs.c.token == job.token, jobs.c.state == job.state)
