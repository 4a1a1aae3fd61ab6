"""The hot statements and the flows they make up: claim, settle, renew, lose, note, peek.

Written once for all databases against ``Driver``; a store overrides a step where its database can do it in
fewer round trips. Every write to a running job is guarded by its token.
"""

# size: the flows of one job from claim to settlement, which share their statements

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from horae.core.jobs.job import CLOSED, Job, Lease, Order, Settlement
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import instant, micros
from horae.ports.claims import Claim, PutBack, Renewed
from horae.ports.workers import Node, Open, Upcoming
from horae.stores.codecs import to_micros
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.admission import Admission
from horae.stores.jobs.asks import ASKED
from horae.stores.jobs.cancellations import cancel_waiting
from horae.stores.jobs.claimed import COLUMNS, read_claimed
from horae.stores.jobs.fair import Fair, QueueTurns, first_part, turn_size
from horae.stores.jobs.links import Ended, Links
from horae.stores.jobs.slots import Slots
from horae.stores.tables.audit import AUDIT
from horae.stores.tables.jobs import ATTEMPT, COUNTED, ENDING, JOBS, SNAPSHOT, ending_row
from horae.stores.tables.queues import NODES

BANDS = (0, 1, 2)
# How many candidates each round of a claim looks at, at least: a long line of held jobs is passed in a few steps.
REACHES = (1, 4, 16, 64, 256, *[1000] * 15)
CHUNK = 500  # rows named in one IN list
SKIP_FIRE = (
    "UPDATE horae_fires SET verdict = 'skipped', reason = %s "
    "WHERE schedule_id = %s AND kind = 'schedule' AND fire_at = %s AND job_id = %s"
)
PUT_BACK = (
    "UPDATE horae_jobs SET state = 'queued', token = token + 1, run_at = %s, last_error = COALESCE(%s, last_error), "
    "worker_id = NULL, leased_until = NULL, started_at = NULL WHERE id = %s"
)
# These jobs are all in the first band, and their queue cannot be paused.
NEXT_MACHINERY = (
    f"(SELECT run_at FROM horae_jobs WHERE queue = '{MACHINERY}' AND state = 'queued' AND held = '' AND band = 0 "
    "ORDER BY run_at LIMIT 1)"
)
DRAIN = "(SELECT drain FROM horae_nodes WHERE id = %s)"
BEATEN = ("seen_at", "state", "busy", "loop_lag", "memory")  # columns that a heartbeat writes anew
UNSETTLED = "(SELECT 1 FROM horae_needs WHERE state IN ('failed', 'revived', 'met') LIMIT 1)"
# In the order of the index, so that no statistics can talk a planner into reading the table.
UNSEALED = "(SELECT id FROM horae_audit{} WHERE chain_seq IS NULL ORDER BY id LIMIT 1)"
# An ending that is not in the statistics yet: one look at the end of an index. NULL while all are.
UNROLLED = (
    "(SELECT finished_at FROM horae_runs WHERE finished_at >= COALESCE((SELECT rolled_until FROM horae_roll_up "
    "WHERE id = 1), 0) ORDER BY finished_at LIMIT 1)"
)
# Jobs that the map of labels has to take up; what has ended already is noticed by UNROLLED.
UNLABELLED = (
    "(CASE WHEN EXISTS (SELECT 1 FROM horae_labelling WHERE labelled < seen) OR EXISTS (SELECT 1 FROM horae_jobs "
    "WHERE id >= COALESCE((SELECT seen FROM horae_labelling WHERE id = 1), 1)) THEN 1 END)"
)
# What a repair looks after is there at all: without it there is nothing to repair, and an idle store hears nothing.
OPEN: dict[Open, str] = {
    "acts": "(SELECT 1 FROM horae_acts WHERE state = 'running' LIMIT 1)",
    "reservations": "(SELECT 1 FROM horae_reservations WHERE state IN ('reserved', 'waiting') LIMIT 1)",
    "needs": "(SELECT 1 FROM horae_needs WHERE state = 'open' LIMIT 1)",
    "batches": "(SELECT 1 FROM horae_batches WHERE state = 'open' LIMIT 1)",
    "outbox": "(SELECT 1 FROM horae_outbox LIMIT 1)",
    "lanes": "(SELECT 1 FROM horae_lanes LIMIT 1)",
    # A review of a decision that cites nothing is about no object.
    "governed": (
        "(CASE WHEN EXISTS (SELECT 1 FROM horae_objects) "
        "OR EXISTS (SELECT 1 FROM horae_reviews WHERE state = 'open') THEN 1 END)"
    ),
}
NEXT_OBJECT = "(SELECT next_action_at FROM horae_objects WHERE next_action_at > 0 ORDER BY next_action_at LIMIT 1)"
# Where a candidate has what a claim asks for.
CONCURRENCY_KEY, HELD, RUN_AT, BAND, HELD_FOR, LINKED = map(
    COLUMNS.index, ("concurrency_key", "held", "run_at", "band", "held_for", "linked")
)


class Hot:
    """The flows; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.slots = Slots(dialect)
        self.admission = Admission(dialect, self.slots)
        self.links = Links(dialect)
        self.fair = Fair(dialect)
        self.job_columns = JOBS.sql(dialect)
        candidate = f"{JOBS.sql(dialect, COLUMNS)}, concurrency_limit"
        waiting = f"SELECT {candidate} FROM horae_jobs WHERE queue = %s AND state = 'queued' "
        due, first = "AND band = %s AND run_at <= %s", f"ORDER BY run_at, id LIMIT %s{dialect.locking}"
        self.candidate_sql = f"{waiting} AND held = '' {due} {first}"
        # Two scans and not `held IN (…)`: each follows an index in order, where the list would be sorted, and locked.
        # Without partial indexes one index holds a tenant's jobs in order, whatever they are held for.
        helds = (f"= '{held}'" for held in ("", CLOSED)) if dialect.partial_indexes else (f"IN ('', '{CLOSED}')",)
        tenants = waiting.replace("horae_jobs", f"horae_jobs{dialect.owned_index}")
        self.owned_sql = tuple(
            f"{tenants} AND held {held} {due} AND owner = %s AND owner <> 'system' {first}" for held in helds
        )
        copied = ", ".join(("job_id", "token", *ATTEMPT, *ENDING, "state", "finished_at"))
        source = ", ".join(("id", "token", *ATTEMPT))
        self.run_sql = (
            f"INSERT INTO horae_runs ({copied}) SELECT {source}, {marks(len(ENDING) + 2)} FROM horae_jobs WHERE id "
        )
        self.final_run_sql = (
            f"INSERT INTO horae_runs ({copied}, {', '.join(SNAPSHOT)}) "
            f"SELECT {source}, {marks(len(ENDING) + 2)}, {', '.join(SNAPSHOT)} FROM horae_jobs WHERE id "
        )

    # -- claim -------------------------------------------------------------------------------------------------

    def claim(self, driver: Driver, claim: Claim, now: datetime) -> list[Job]:
        """Lease due jobs of one queue to one worker, in the queue's order, within every limit."""
        own = claim.queue == MACHINERY  # Horae's own jobs can be neither paused nor limited
        order, paused, fair = ("priority", False, None) if own else self._read_queue(driver, claim, now)
        limits = {} if own else self.slots.limits(driver)
        taken: list[tuple[Any, ...]] = []
        placed: set[int] = set()
        known = self.fair.look(driver, claim.queue, claim.limit, micros(now)) if fair and claim.owner is None else None
        if fair is None:
            self.fair.forget(claim.queue)
        if known is not None and not paused:
            paused = not self._take_turns(driver, claim, known, order, limits, now, taken, placed)
        for reach in REACHES:
            room = claim.limit - len(taken)
            if paused or room < 1:
                break
            rows = self._candidates(driver, claim, order, max(room, reach), micros(now))
            granted, again = self._grant(driver, claim, rows, room, limits, now, placed)
            taken += granted
            if known is not None:
                known.charge({}, rows, granted)
            if not again:
                break  # nothing was held back, so nothing else can take its place
        self._link(driver, sorted(placed))
        if placed or claim.owner is not None:
            taken = [_as_taken(row, row[0] in placed) for row in taken]
        until, at = micros(now + claim.lease), micros(now)
        return read_claimed(taken, claim.queue, claim.worker_id, until, at, raised=1)

    def _grant(
        self,
        driver: Driver,
        claim: Claim,
        rows: list[tuple[Any, ...]],
        room: int,
        limits: dict[str, int],
        now: datetime,
        placed: set[int],
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Lease those candidates that no limit and no closed handler holds; return them, and whether others may follow.

        Those that hold a slot now are added to *placed*.
        """
        refused = False
        if claim.owner is None and claim.queue != MACHINERY:  # a tenant's own worker runs whatever that tenant asks for
            rows, refused = self.admission.admit(driver, rows, micros(now))
        elif claim.owner is not None and rows:
            rows, refused = self.admission.keep_quiet(driver, rows, micros(now))
        granted, holding, again = rows[:room], set[int](), False
        if limits or any(row[CONCURRENCY_KEY] is not None for row in rows):
            granted, holding, again = self.slots.take(driver, claim.queue, rows, limits, room)
        self._lease(driver, [row[0] for row in granted], claim, now)
        self.admission.take_back(driver, [row[0] for row in granted if row[HELD] == CLOSED])
        placed |= holding
        return granted, again or (refused and len(granted) < room)

    def _take_turns(
        self,
        driver: Driver,
        claim: Claim,
        known: QueueTurns,
        order: Order,
        limits: dict[str, int],
        now: datetime,
        taken: list[tuple[Any, ...]],
        placed: set[int],
    ) -> bool:
        """Take jobs of the owners whose turn it is; return whether there may be room for others.

        Where jobs of many owners are at the head of the queue, most are taken from there, because that costs no look at
        each owner; the first part of a claim is for those whose turn it is in any case.
        """
        size, mixed = turn_size(claim.limit), known.is_mixed
        if len(known.turns) < 2:
            return True
        for number, reach in enumerate(REACHES):
            room = claim.limit - len(taken)
            if room < 1:
                return False
            given: dict[str, int] = {}
            is_all = False
            if mixed and number == known.turns_first:
                found = self._candidates(driver, claim, order, room, micros(now))
                is_all = len(found) < room
                rows = found if is_all else known.admit(found, size)
            else:
                part = first_part(claim.limit) if mixed and number == 0 else max(room, reach)
                given = known.share(part, size)
                if not given and (number or not mixed):
                    break
                rows = self.fair.read(driver, known, claim.queue, given, order, micros(now)) if given else []
            granted, again = self._grant(driver, claim, rows, room, limits, now, placed)
            known.charge(given, rows, granted)
            taken += granted
            if is_all and not again:
                known.forget_owners()
            if (is_all or len(granted) < min(len(rows), room)) and not again:
                return False  # the queue has no more due jobs, or is full
        return True

    def _read_queue(self, driver: Driver, claim: Claim, now: datetime) -> tuple[Order, bool, str | None]:
        """Return the queue's order, whether it may not be served, and between whom it is shared fairly.

        It may not while it is paused, or has quiet hours on which no process has acted yet.
        """
        sql = "SELECT sorting, paused_at, quiet_at, fair FROM horae_queues WHERE name = %s"
        found = driver.rows(sql, [claim.queue])
        if not found:
            return claim.order or "priority", False, None
        sorting, paused_at, quiet_at, fair = found[0]
        is_quiet = quiet_at is not None and quiet_at <= micros(now)
        return claim.order or sorting, paused_at is not None or is_quiet, fair

    def _candidates(self, driver: Driver, claim: Claim, order: Order, room: int, now: int) -> list[tuple[Any, ...]]:
        """Read candidates by one bounded range scan for each band, joined or merged."""
        found: list[tuple[Any, ...]] = []
        for band in BANDS:
            wanted = room - len(found) if order == "priority" else room
            if wanted > 0:
                found += self._due(driver, claim, band, wanted, now)
        if order == "run_at":
            found.sort(key=lambda row: (row[RUN_AT], row[BAND], row[0]))
        return found[:room]

    def _due(self, driver: Driver, claim: Claim, band: int, wanted: int, now: int) -> list[tuple[Any, ...]]:
        if claim.owner is None:
            return driver.rows(self.candidate_sql, [claim.queue, band, now, wanted])
        parameters = [claim.queue, band, now, claim.owner, wanted]
        rows = [row for sql in self.owned_sql for row in driver.rows(sql, parameters)]
        return sorted(rows, key=lambda row: (row[RUN_AT], row[0]))[:wanted]

    def _lease(self, driver: Driver, numbers: Sequence[int], claim: Claim, now: datetime) -> None:
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            driver.change(
                "UPDATE horae_jobs SET state = 'running', token = token + 1, worker_id = %s, leased_until = %s, "
                f"started_at = %s WHERE id IN ({marks(len(chunk))})",
                [claim.worker_id, micros(claim.until(now)), micros(now), *chunk],
            )

    def _link(self, driver: Driver, numbers: Sequence[int]) -> None:
        """Note that the end of these jobs concerns others."""
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            driver.change(f"UPDATE horae_jobs SET linked = linked | 1 WHERE id IN ({marks(len(chunk))})", chunk)

    # -- settle ------------------------------------------------------------------------------------------------

    def settle(self, driver: Driver, settlements: Sequence[Settlement], now: datetime) -> tuple[set[int], set[str]]:
        """Write endings; answers with the rejected numbers and the queues that may have work again."""
        accepted, linked, asked = self._check_tokens(driver, settlements)
        finished = [s for s in accepted if s.change.state in ("succeeded", "cancelled")]
        again = [s for s in accepted if s.change.state == "queued"]
        dead = [s for s in accepted if s.change.state == "dead"]
        self.write_runs(driver, finished, now, final=True)
        self.write_runs(driver, again + dead, now, final=False)
        self._write_lines(driver, [s for s in accepted if s.outcome.lines is not None], now)
        self._record_skipped(driver, finished)
        self.remove(driver, [s.number for s in finished])
        self._requeue(driver, again)
        self._bury(driver, dead, now)
        self._free_names(driver, [s.number for s in finished + dead if s.unique])
        self._append_entries(driver, accepted)
        queues = self.slots.give_back(driver, sorted(linked))
        ended = [s for s in finished + dead if s.number in linked]
        concerned = [Ended(s.number, linked[s.number], s.change.state == "succeeded", s.number in asked) for s in ended]
        queues |= self.links.settle(driver, concerned, now)
        return {s.number for s in settlements} - {s.number for s in accepted}, queues

    def _check_tokens(
        self, driver: Driver, settlements: Sequence[Settlement]
    ) -> tuple[list[Settlement], dict[int, int | None], set[int]]:
        """Return whose token is still current, which of these jobs concern others, with their schedule, and about which
        of them jobs in other shards ask.

        Wait for locked rows, except when all settlements are lost leases: one process that froze with a row locked must
        not keep the reaper from handing on the others.
        """
        lost = all(s.expired_before is not None for s in settlements)
        lock = self.dialect.locking if lost else self.dialect.waiting_lock
        current: dict[int, tuple[int, int]] = {}
        linked: dict[int, int | None] = {}
        asked: set[int] = set()
        ordered = sorted(settlements, key=lambda s: s.number)
        for start in range(0, len(ordered), CHUNK):
            numbers = [s.number for s in ordered[start : start + CHUNK]]
            sql = "SELECT id, token, leased_until, linked, schedule_id FROM horae_jobs "
            sql += f"WHERE id IN ({marks(len(numbers))}) "
            for number, token, until, concerns, schedule_id in driver.rows(
                sql + "AND state = 'running' ORDER BY id" + lock, numbers
            ):
                current[number] = (token, until)
                if concerns:
                    linked[number] = schedule_id
                    if concerns & ASKED:
                        asked.add(number)
        holding = [s for s in ordered if _still_holds(s, current.get(s.number))]
        first = {s.number: s for s in reversed(holding)}  # an ending that comes twice in one batch counts once
        accepted = [s for s in holding if first[s.number] is s]
        return accepted, {s.number: linked[s.number] for s in accepted if s.number in linked}, asked

    def write_runs(self, driver: Driver, settlements: Sequence[Settlement], now: datetime, *, final: bool) -> None:
        """Write run rows, in one statement for all that ended alike, as most of a batch did."""
        sql, at = self.final_run_sql if final else self.run_sql, micros(now)
        alike: dict[tuple[Any, ...], list[int]] = {}
        for done in settlements:
            alike.setdefault((*ending_row(done), done.change.state if final else None, at), []).append(done.number)
        for ending, numbers in alike.items():
            for start in range(0, len(numbers), CHUNK):
                chunk = numbers[start : start + CHUNK]
                driver.change(f"{sql} IN ({marks(len(chunk))})", [*ending, *chunk])

    def _write_lines(self, driver: Driver, settlements: Sequence[Settlement], now: datetime) -> None:
        """Write what handlers have logged; most log nothing, and cost nothing."""
        if settlements:
            from horae.stores.jobs.lines import encode

            driver.many(
                "INSERT INTO horae_lines (job_id, token, attempt, content, dropped, finished_at) "
                "VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    (s.number, s.token, s.change.attempt + (s.outcome.ending not in COUNTED), encode(kept.lines),
                     kept.dropped, micros(now))
                    for s in settlements if (kept := s.outcome.lines) is not None
                ],
            )  # fmt: skip

    def _record_skipped(self, driver: Driver, finished: Sequence[Settlement]) -> None:
        """Correct the fire records of occurrences that became a job and then did not run at all."""
        skipped = [s for s in finished if s.outcome.ending == "skipped" and s.change.attempt == 0]
        for done in skipped:
            found = driver.rows("SELECT schedule_id, fire_at FROM horae_jobs WHERE id = %s", [done.number])
            for schedule_id, fire_at in found:
                driver.change(SKIP_FIRE, [done.outcome.error, schedule_id, fire_at, done.number])

    def remove(self, driver: Driver, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            driver.change(f"DELETE FROM horae_jobs WHERE id IN ({marks(len(chunk))})", chunk)

    def drop(self, driver: Driver, numbers: Sequence[int], reason: str, now: datetime) -> None:
        """End waiting jobs as cancelled: their rows move to the history, their names are free again."""
        linked = f"SELECT id, schedule_id, linked FROM horae_jobs WHERE linked > 0 AND id IN ({marks(len(numbers))}) "
        ended = driver.rows(linked + "AND state = 'queued'", numbers)
        cancel_waiting(driver, numbers, reason, now)
        self.links.settle(
            driver, [Ended(number, schedule, False, bool(linked & ASKED)) for number, schedule, linked in ended], now
        )

    def _requeue(self, driver: Driver, settlements: Sequence[Settlement]) -> None:
        """Put jobs back into the queue with a raised token, so that the old holder can write no more."""
        if settlements:
            driver.many(
                "UPDATE horae_jobs SET state = 'queued', token = token + 1, attempt = %s, run_at = %s, "
                "last_error = %s, held_for = %s, worker_id = NULL, leased_until = NULL, started_at = NULL "
                "WHERE id = %s",
                [
                    (s.change.attempt, micros(s.change.run_at), s.change.error, s.change.waits_for, s.number)
                    for s in settlements
                ],
            )

    def put_back(self, driver: Driver, returned: Sequence[PutBack]) -> tuple[set[int], set[str]]:
        """Queue claimed jobs again; answers with those that were not, and the queues that may have work again.

        There is no run and no attempt, because none began. A slot that the claim took is free again.
        """
        wanted = {each.number: each for each in returned}
        found = self._running(driver, sorted(wanted), self.dialect.waiting_lock)
        kept = [number for number, (token, stop) in found.items() if token == wanted[number].token and stop is None]
        if kept:
            driver.many(PUT_BACK, [_put_back_row(wanted[number]) for number in kept])
        queues = self.slots.give_back(driver, sorted(kept))
        return set(wanted) - set(kept), queues

    def lock_held(self, driver: Driver, leases: Iterable[Lease]) -> set[int]:
        """Lock jobs that are still held with these tokens; answers with their numbers."""
        tokens = {lease.job_number: lease.token for lease in leases}
        found = self._running(driver, sorted(tokens), self.dialect.waiting_lock)
        return {number for number, (token, _) in found.items() if token == tokens[number]}

    def _bury(self, driver: Driver, settlements: Sequence[Settlement], now: datetime) -> None:
        if settlements:
            driver.many(
                "UPDATE horae_jobs SET state = 'dead', token = token + 1, attempt = %s, last_error = %s, "
                "leased_until = NULL, finished_at = %s WHERE id = %s",
                [(s.change.attempt, s.change.error, micros(now), s.number) for s in settlements],
            )

    def _free_names(self, driver: Driver, numbers: Sequence[int]) -> None:
        """Free the unique names of ended jobs."""
        if numbers:
            driver.change(
                f"DELETE FROM horae_keys WHERE scope = 'unique' AND job_id IN ({marks(len(numbers))})", numbers
            )

    def _append_entries(self, driver: Driver, settlements: Sequence[Settlement]) -> None:
        entries = [AUDIT.values(s.entry) for s in settlements if s.entry is not None]
        if entries:
            names = AUDIT.written
            driver.many(f"INSERT INTO horae_audit ({', '.join(names)}) VALUES ({marks(len(names))})", entries)

    # -- leases ------------------------------------------------------------------------------------------------

    def renew(self, driver: Driver, leases: Sequence[Lease], until: datetime, *, patient: bool = False) -> Renewed:
        """Extend what is still held; the rest has been handed on.

        Skip rows that a transaction has locked, or wait for them briefly where *patient*: one handler that stays in its
        transaction for long must not cost all other jobs of its worker their leases.
        """
        newest = sorted(leases, key=lambda lease: lease.token)  # of two attempts at one job the newer can hold it
        tokens = {lease.job_number: lease.token for lease in newest}
        numbers = sorted(tokens)
        lock = self.dialect.locking
        if patient:
            lock = self.dialect.brief_lock
            for setting in self.dialect.brief_lock_settings:
                driver.change(setting)
        found = self._running(driver, numbers, lock)
        held = [number for number, (token, _) in found.items() if tokens[number] == token]
        for start in range(0, len(held), CHUNK):
            chunk = held[start : start + CHUNK]
            driver.change(
                f"UPDATE horae_jobs SET leased_until = %s WHERE id IN ({marks(len(chunk))})", [micros(until), *chunk]
            )
        missing = [number for number in numbers if number not in found]
        unseen = self._running(driver, missing, "") if missing and lock else {}
        busy = [number for number, (token, _) in unseen.items() if tokens[number] == token]
        cancelled = [number for number in (*held, *busy) if (found | unseen)[number][1] is not None]
        return Renewed(frozenset((*held, *busy)), frozenset(cancelled), frozenset(busy))

    def _running(self, driver: Driver, numbers: Sequence[int], lock: str) -> dict[int, tuple[int, str | None]]:
        """Read token and cancel reason of those of these jobs that are running."""
        found: dict[int, tuple[int, str | None]] = {}
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            sql = f"SELECT id, token, cancel_reason FROM horae_jobs WHERE id IN ({marks(len(chunk))}) "
            for number, token, reason in driver.rows(sql + "AND state = 'running' ORDER BY id" + lock, chunk):
                found[number] = (token, reason)
        return found

    def find_expired(self, driver: Driver, now: datetime, limit: int) -> list[Job]:
        """Read running jobs whose lease has run out, skipping locked rows; nothing is changed."""
        sql = f"SELECT {self.job_columns} FROM horae_jobs WHERE state = 'running' AND leased_until < %s "
        sql += f"ORDER BY leased_until LIMIT %s{self.dialect.locking}"
        return [JOBS.read(row) for row in driver.rows(sql, [micros(now), limit])]

    def read_running(self, driver: Driver, numbers: Sequence[int]) -> list[Job]:
        """Read those of these jobs that still run."""
        sql = f"SELECT {self.job_columns} FROM horae_jobs WHERE id IN ({marks(len(numbers))}) AND state = 'running'"
        return [JOBS.read(row) for row in driver.rows(sql, numbers)]

    def note(
        self, driver: Driver, lease: Lease, progress: str | None, checkpoint: str | None, now: datetime | None
    ) -> bool:
        """Write progress or a checkpoint, if the lease is still the current one."""
        given = {"progress": progress, "checkpoint": checkpoint, "progressed_at": to_micros(now)}
        named = {name: value for name, value in given.items() if value is not None}
        sets = ", ".join(f"{name} = %s" for name in named) or "token = token"
        sql = f"UPDATE horae_jobs SET {sets} WHERE id = %s AND token = %s AND state = 'running'"
        return driver.change(sql, [*named.values(), lease.job_number, lease.token]) == 1

    # -- look --------------------------------------------------------------------------------------------------

    def peek(
        self, driver: Driver, queues: Sequence[str], node: Node | None, node_id: str | None, worker_id: str | None
    ) -> Upcoming:
        """Return what a sleeping process wants to know, in one statement; with a node, also its heartbeat."""
        opening, parameters = ("", []) if node is None else self.beat(driver, node)
        parts = []
        for queue in queues:
            for band in BANDS:
                parts.append(
                    "(SELECT run_at FROM horae_jobs WHERE queue = %s AND state = 'queued' AND held = '' AND band = %s "
                    "AND NOT EXISTS (SELECT 1 FROM horae_queues WHERE name = %s AND paused_at IS NOT NULL) "
                    "ORDER BY run_at LIMIT 1)"
                )
                parameters += [queue, band, queue]
        parts.append(NEXT_MACHINERY)
        parts.append(
            "(SELECT leased_until FROM horae_jobs WHERE state = 'running' AND leased_until > 0 "
            "ORDER BY leased_until LIMIT 1)"
        )
        parts.append("(SELECT next_due_at FROM horae_schedules WHERE next_due_at > 0 ORDER BY next_due_at LIMIT 1)")
        parts += (UNSETTLED, UNSEALED.format(self.dialect.unsealed_index), self.dialect.unsealed_line)
        parts += (
            *OPEN.values(),
            self.dialect.held_for_slot,
            NEXT_OBJECT,
            UNROLLED,
            UNLABELLED,
            self.dialect.time_micros,
            "NULL" if node_id is None else DRAIN,
        )
        parameters += [] if node_id is None else [node_id]
        found = driver.rows(f"{opening}SELECT {', '.join(parts)}", parameters)[0]
        *dues, machinery, expiry, fire, unsettled, unsealed, line = found[: -len(OPEN) - 6]
        *under_way, slots, next_object, unrolled, unlabelled, time, drain = found[-len(OPEN) - 6 :]
        seen = {name: value for name, value in zip((*OPEN, "slots"), (*under_way, slots), strict=True) if value}
        due = min((value for value in dues if value is not None), default=None)
        stopping: frozenset[int] = frozenset()
        if worker_id is not None:
            sql = "SELECT id FROM horae_jobs WHERE state = 'running' AND worker_id = %s AND cancel_reason IS NOT NULL"
            stopping = frozenset(row[0] for row in driver.rows(sql, [worker_id]))
        return Upcoming(
            next_due_at=None if due is None else instant(due),
            next_expiry_at=None if expiry is None else instant(expiry),
            next_fire_at=None if fire is None else instant(fire),
            next_machinery_at=None if machinery is None else instant(machinery),
            store_time=None if time is None else instant(int(time)),
            cancelled=stopping,
            unsealed=unsealed is not None,
            unsealed_lines=line is not None,
            unrolled=bool(unrolled),
            unlabelled=unlabelled is not None,
            next_object_at=None if next_object is None else instant(next_object),
            open=frozenset(seen),
            unsettled=unsettled is not None,
            drain=drain,
        )

    def beat(self, driver: Driver, node: Node) -> tuple[str, list[Any]]:
        """Write that the node is alive, or answer with a clause that makes the look itself do so."""
        row = NODES.row(node)
        sql = f"UPDATE horae_nodes SET {', '.join(f'{name} = %s' for name in BEATEN)} WHERE id = %s"
        if driver.change(sql, [*(row[name] for name in BEATEN), row["id"]]) == 0:
            before, behind = self.dialect.insert_ignore
            values = f"horae_nodes ({', '.join(row)}) VALUES ({marks(len(row))})"
            driver.change(f"{before} {values} {behind}", list(row.values()))
        return "", []


def _still_holds(settlement: Settlement, current: tuple[int, int] | None) -> bool:
    if current is None or current[0] != settlement.token:
        return False
    expired_before = to_micros(settlement.expired_before)
    return expired_before is None or current[1] < expired_before


def _put_back_row(returned: PutBack) -> tuple[Any, ...]:
    return micros(returned.run_at), returned.reason, returned.number


def _as_taken(row: tuple[Any, ...], holds_slot: bool) -> tuple[Any, ...]:
    """Return a candidate as its claim leaves it: it may hold a slot now, and is held for nothing any more."""
    values = list(row)
    values[LINKED] = int(holds_slot or values[LINKED])
    if values[HELD] == CLOSED:
        values[HELD_FOR] = None
    return tuple(values)
