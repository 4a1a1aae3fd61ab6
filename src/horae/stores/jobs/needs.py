"""Jobs that wait for others to succeed, and what becomes of them when one of those never will.

A row of ``horae_needs`` says that a job waits for another, its parent. Its state is a work list, so that whatever one
transaction leaves undone another finds:

    open      the parent may still succeed
    asked     the same of a parent in another shard, which was asked and answers by a message
    failed    the parent is dead or was cancelled, and the child is still to be dealt with
    settled   the child was dealt with: it is cancelled, or goes on waiting because its policy says so
    revived   the parent lives again, and the child is still to be brought back
    met       the parent has succeeded since, and the child is still to be brought back

A child that was cancelled for its parent keeps its rows, and they are how it is found when the parent is revived; a job
that ends in any other way loses them. The transaction that ends or revives a parent deals with up to ``INLINE`` of its
descendants; a chore of the workers does the rest, in transactions of the same size, so that neither a long chain nor
a large family makes a long one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from horae.core.cluster.messages import LIVE, SUCCEEDED
from horae.core.cluster.numbers import job_id
from horae.core.time.instants import micros
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.asks import Asks, numbered_in_cluster
from horae.stores.jobs.batch import BatchEnds
from horae.stores.jobs.cancellations import cancel_waiting
from horae.stores.tables.jobs import ATTEMPT, SNAPSHOT

INLINE = 100
CHUNK = 500
# What a job's row and the last row of its history have in common; the history has no concurrency limit.
KEPT = (
    *(name for name in (*ATTEMPT, *SNAPSHOT) if name not in ("worker_id", "started_at", "cancel_reason")),
    "attempt",
)
STATE = "SELECT state FROM horae_needs"
HOPEFUL = ("open", "asked")
# An answer has come before: the parent is in another shard.
ASK_AGAIN = (
    "UPDATE horae_needs SET state = 'asked' WHERE state = 'open' AND EXISTS (SELECT 1 FROM horae_answers "
    "WHERE horae_answers.job_id = horae_needs.job_id AND horae_answers.parent_id = horae_needs.needed_id)"
)
Row = tuple[Any, ...]


class Needs:
    """The flows; ``driver`` is always inside an open transaction.

    Rows of ``horae_needs`` are locked before the children's own, so that a parent that dies, or is revived, while
    another transaction deals with the same child waits for it and then sees what it did.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._batches = BatchEnds(dialect)
        self.asks = Asks(dialect)

    # -- a parent has succeeded ----------------------------------------------------------------------------------

    def let_go(self, driver: Driver, numbers: Sequence[int]) -> set[str]:
        """Let run what waited for these jobs, and now for nothing else; answers with their queues."""
        if not numbers:
            return set()
        condition = f"needed_id IN ({marks(len(numbers))})"
        rows = driver.rows(f"SELECT job_id, state FROM horae_needs WHERE {condition}", numbers)
        if not rows:
            return set()
        waiting = sorted({row[0] for row in rows})
        there = self._lock_jobs(driver, waiting)
        cancelled = sorted({number for number, state in rows if state == "revived" and number not in there})
        for chunk in _chunks(cancelled):
            sql = f"UPDATE horae_needs SET state = 'met' WHERE {condition} AND job_id IN ({marks(len(chunk))})"
            driver.change(sql, [*numbers, *chunk])
        driver.change(f"DELETE FROM horae_needs WHERE {condition} AND state <> 'met'", numbers)
        return self._free(driver, waiting)

    def _lock_jobs(self, driver: Driver, numbers: Sequence[int]) -> set[int]:
        """Hold the children: two parents that end at once must not each take the other for unfinished."""
        there: set[int] = set()
        for chunk in _chunks(numbers):
            sql = f"SELECT id FROM horae_jobs WHERE id IN ({marks(len(chunk))}) ORDER BY id"
            there |= {row[0] for row in driver.rows(sql + self._dialect.waiting_lock, chunk)}
        return there

    def _free(self, driver: Driver, numbers: Sequence[int]) -> set[str]:
        queues: set[str] = set()
        for chunk in _chunks(numbers):
            free = driver.rows(
                f"SELECT id, queue FROM horae_jobs WHERE id IN ({marks(len(chunk))}) AND held = 'needs' "
                "AND NOT EXISTS (SELECT 1 FROM horae_needs WHERE horae_needs.job_id = horae_jobs.id)",
                chunk,
            )
            if free:
                sql = f"UPDATE horae_jobs SET held = '', held_for = NULL WHERE id IN ({marks(len(free))})"
                driver.change(sql, [row[0] for row in free])
                queues |= {row[1] for row in free}
        return queues

    # -- a parent will not succeed -------------------------------------------------------------------------------

    def fail(self, driver: Driver, numbers: Sequence[int], now: datetime) -> set[str]:
        """Deal with those who wait for jobs that have died or were cancelled; answers with queues to wake."""
        if not self._mark(driver, "failed", numbers, ("open", "revived")):
            return set()
        return self._cascade_failure(driver, numbers, now)

    def settle_new(self, driver: Driver, child: int, now: datetime) -> None:
        """Deal at once with a new job whose parents had ended before it was stored."""
        rows = self._lock_rows(driver, "failed", "AND job_id = %s", [child, CHUNK])
        self._settle(driver, rows, now)

    def _cascade_failure(self, driver: Driver, parents: Sequence[int], now: datetime) -> set[str]:
        """Go from parents to children to grandchildren, until all are dealt with or enough has been done."""
        queues: set[str] = set()
        room = INLINE
        while parents and room > 0:
            rows = self._lock_rows(driver, "failed", f"AND needed_id IN ({marks(len(parents))})", [*parents, room])
            parents, woken = self._settle(driver, rows, now)
            queues |= woken
            room -= len(rows)
        return queues

    def _settle(self, driver: Driver, rows: Sequence[Row], now: datetime) -> tuple[list[int], set[str]]:
        """Do to each child what its policy says; answers with those that were cancelled, and queues to wake."""
        by_policy: dict[str, list[Row]] = {}
        for row in rows:
            by_policy.setdefault(row[2], []).append(row)
        self._change_rows(driver, "UPDATE horae_needs SET state = 'settled'", by_policy.get("wait", []))
        run = by_policy.get("run", [])
        numbers = sorted({row[0] for row in run})
        self._lock_jobs(driver, numbers)
        self._change_rows(driver, "DELETE FROM horae_needs", run)
        cancelled, queues = self._cancel(driver, by_policy.get("cancel", []), now)
        return cancelled, queues | self._free(driver, numbers)

    def _cancel(self, driver: Driver, rows: Sequence[Row], now: datetime) -> tuple[list[int], set[str]]:
        if not rows:
            return [], set()
        children, parents = sorted({row[0] for row in rows}), sorted({row[1] for row in rows})
        sql = f"SELECT id FROM horae_jobs WHERE id IN ({marks(len(children))}) AND state = 'queued' AND held = 'needs' "
        waiting = {row[0] for row in driver.rows(f"{sql}ORDER BY id{self._dialect.waiting_lock}", children)}
        known = self._endings(driver, children, parents)
        cancelled: list[int] = []
        for parent in parents:
            children = sorted({row[0] for row in rows if row[1] == parent and row[0] in waiting} - set(cancelled))
            if children:
                ended = known.get(parent, "was cancelled")
                cancel_waiting(driver, children, f"{job_id(parent)}, which it waited for, {ended}", now)
                cancelled += children
        self._change_rows(driver, "UPDATE horae_needs SET state = 'settled'", rows)
        never, queues = self._batches.settle(driver, [], cancelled, now)
        cancelled += never
        self._mark(driver, "failed", cancelled, ("open", "revived"))
        return cancelled, queues | self.asks.tell(driver, numbered_in_cluster(cancelled), now)

    def _endings(self, driver: Driver, children: Sequence[int], parents: Sequence[int]) -> dict[int, str]:
        """Return in words what became of parents that were not cancelled."""
        sql = f"SELECT id FROM horae_jobs WHERE id IN ({marks(len(parents))})"
        known = {row[0]: "is dead" for row in driver.rows(sql, parents)}
        if numbered_in_cluster(children):
            sql = f"SELECT parent_id, state FROM horae_answers WHERE job_id IN ({marks(len(children))}) "
            answers = driver.rows(f"{sql}AND parent_id IN ({marks(len(parents))})", [*children, *parents])
            words = {"dead": "is dead", "unknown": "is not known"}
            known |= {parent: words[state] for parent, state in answers if state in words}
        return known

    # -- a parent in another shard -------------------------------------------------------------------------------

    def hear(self, driver: Driver, child: int, parent: int, state: str, now: datetime) -> set[str]:
        """Act on how a parent in another shard stands now; answers with queues to wake.

        Whatever was heard before, the same follows as if the parent had come to this state here.
        """
        pair = [child, parent]
        rows = driver.rows(f"{STATE} WHERE job_id = %s AND needed_id = %s{self._dialect.waiting_lock}", pair)
        if not rows:
            return set()
        [(before,)], own = rows, "WHERE job_id = %s AND needed_id = %s"
        one = f"AND job_id = {int(child)} AND needed_id = {int(parent)}"
        if state == SUCCEEDED:
            if before in ("failed", "settled", "revived", "met") and not self._lock_jobs(driver, [child]):
                driver.change(f"UPDATE horae_needs SET state = 'met' {own}", pair)
                return self.settle_met(driver, self._lock_rows(driver, "met", one, [1]), now)
            self._lock_jobs(driver, [child])
            driver.change(f"DELETE FROM horae_needs {own}", pair)
            return self._free(driver, [child])
        if state == LIVE:
            if before not in ("failed", "settled"):
                return set()
            driver.change(f"UPDATE horae_needs SET state = 'revived' {own}", pair)
            back, hints = self._bring_back(driver, self._lock_rows(driver, "revived", one, [1]), now)
            return hints | self._cascade_revival(driver, back, INLINE, now)
        if before not in ("asked", "open", "revived"):
            return set()
        driver.change(f"UPDATE horae_needs SET state = 'failed' {own}", pair)
        cancelled, queues = self._settle(driver, self._lock_rows(driver, "failed", one, [1]), now)
        return queues | self._cascade_failure(driver, cancelled, now)

    def settle_met(self, driver: Driver, rows: Sequence[Row], now: datetime) -> set[str]:
        """Bring back children whose parents have succeeded since they were cancelled for them."""
        hints = self._bring_back(driver, rows, now)[1]
        self._change_rows(driver, "DELETE FROM horae_needs", rows)
        return hints | self._free(driver, sorted({row[0] for row in rows}))

    # -- a parent lives again ------------------------------------------------------------------------------------

    def revive(self, driver: Driver, numbers: Sequence[int], now: datetime) -> set[str]:
        """Bring back the children that were cancelled for these jobs, and let others wait for them as before.

        Return hints for those in other shards.
        """
        if not self._mark(driver, "revived", numbers, ("failed", "settled")):
            return set()
        return self._cascade_revival(driver, numbers, INLINE, now)

    def _cascade_revival(self, driver: Driver, parents: Sequence[int], room: int, now: datetime) -> set[str]:
        hints: set[str] = set()
        while parents and room > 0:
            rows = self._lock_rows(driver, "revived", f"AND needed_id IN ({marks(len(parents))})", [*parents, room])
            parents, remote = self._bring_back(driver, rows, now)
            hints |= remote
            room -= len(rows)
        return hints

    def _bring_back(self, driver: Driver, rows: Sequence[Row], now: datetime) -> tuple[list[int], set[str]]:
        """Restore cancelled children, unless another parent of theirs is still lost; answers with their numbers, and
        hints for those elsewhere who wait for them.
        """
        if not rows:
            return [], set()
        self._change_rows(driver, "UPDATE horae_needs SET state = 'open'", rows)
        children = sorted({row[0] for row in rows})
        condition = f"({marks(len(children))})"
        there = {row[0] for row in driver.rows(f"SELECT id FROM horae_jobs WHERE id IN {condition}", children)}
        # All rows of a child are locked: two parents that are revived at once must not each take the other for lost.
        sql = f"SELECT job_id, state FROM horae_needs WHERE job_id IN {condition} ORDER BY job_id, needed_id"
        lost = {row[0] for row in driver.rows(sql + self._dialect.waiting_lock, children) if row[1] not in HOPEFUL}
        limits = {row[0]: row[3] for row in rows}
        wanted = [number for number in children if number not in there and number not in lost]
        back = [number for number in wanted if self._restore(driver, number, limits[number], now)]
        self._mark(driver, "revived", back, ("failed", "settled"))
        if numbered_in_cluster(children):
            driver.change(f"{ASK_AGAIN} AND job_id IN {condition}", children)
        return back, self.asks.tell(driver, numbered_in_cluster(back), now)

    def _restore(self, driver: Driver, number: int, limit: int, now: datetime) -> bool:
        """Make a cancelled job wait again, from the last row of its history; not if its unique name is taken."""
        ended = driver.rows(
            "SELECT token, owner, unique_key FROM horae_runs WHERE job_id = %s AND state = 'cancelled'", [number]
        )
        if not ended or not self._takes_name(driver, number, ended[0][1], ended[0][2], now):
            driver.change("DELETE FROM horae_needs WHERE job_id = %s", [number])  # it can never come back
            return False
        kept, token = ", ".join(KEPT), ended[0][0]
        parents = driver.rows("SELECT needed_id FROM horae_needs WHERE job_id = %s ORDER BY needed_id", [number])
        names = ", ".join(job_id(row[0]) for row in parents)[:255]
        driver.change(
            f"INSERT INTO horae_jobs (id, token, state, held, held_for, linked, concurrency_limit, last_error, {kept}) "
            f"SELECT job_id, token, 'queued', 'needs', %s, 1, %s, error, {kept} FROM horae_runs "
            "WHERE job_id = %s AND token = %s",
            [names, limit, number, token],
        )
        driver.change("UPDATE horae_runs SET state = NULL WHERE job_id = %s AND token = %s", [number, token])
        self._batches.reopen(driver, [number])
        return True

    def _takes_name(self, driver: Driver, number: int, owner: str, name: str | None, now: datetime) -> bool:
        if name is None:
            return True
        before, behind = self._dialect.insert_ignore
        columns = "horae_keys (scope, owner, name, job_id, request_hash, created_at)"
        sql = f"{before} {columns} VALUES ('unique', %s, %s, %s, '', %s) {behind}"
        return driver.change(sql, [owner, name, number, micros(now)]) == 1

    # -- what was left undone ------------------------------------------------------------------------------------

    def settle_pending(self, driver: Driver, now: datetime, limit: int) -> tuple[int, set[str]]:
        """Settle up to *limit* children that are still open; return how many, and queues to wake."""
        failed = self._lock_rows(driver, "failed", "", [limit], self._dialect.locking)
        _, queues = self._settle(driver, failed, now)
        revived = self._lock_rows(driver, "revived", "", [limit], self._dialect.locking)
        queues |= self._bring_back(driver, revived, now)[1]
        met = self._lock_rows(driver, "met", "", [limit], self._dialect.locking)
        queues |= self.settle_met(driver, met, now)
        return len(failed) + len(revived) + len(met), queues

    def find_lost(self, driver: Driver) -> int:
        """Mark jobs that wait for a dead or missing job and were not marked when it ended: a safety net."""
        return driver.change(
            "UPDATE horae_needs SET state = 'failed' WHERE state = 'open' AND NOT EXISTS (SELECT 1 FROM horae_jobs "
            "WHERE horae_jobs.id = horae_needs.needed_id AND horae_jobs.state IN ('queued', 'running')) "
            "AND EXISTS (SELECT 1 FROM horae_jobs WHERE horae_jobs.id = horae_needs.job_id)"
        )

    # -- the parts -----------------------------------------------------------------------------------------------

    def _mark(self, driver: Driver, state: str, parents: Iterable[int], before: Sequence[str]) -> int:
        """Note that something became of these parents; how many wait for them."""
        changed = 0
        words = ", ".join(f"'{word}'" for word in before)
        for chunk in _chunks(sorted(parents)):
            sql = f"UPDATE horae_needs SET state = %s WHERE needed_id IN ({marks(len(chunk))}) AND state IN ({words})"
            changed += driver.change(sql, [state, *chunk])
        return changed

    def _lock_rows(
        self, driver: Driver, state: str, narrowed: str, parameters: Sequence[Any], lock: str | None = None
    ) -> list[Row]:
        """Lock and return rows in this state: child, parent, policy, and the child's concurrency limit."""
        sql = (
            f"SELECT job_id, needed_id, policy, concurrency_limit FROM horae_needs WHERE state = '{state}' {narrowed} "
        )
        lock = self._dialect.waiting_lock if lock is None else lock
        return driver.rows(f"{sql}ORDER BY job_id, needed_id LIMIT %s{lock}", parameters)

    def _change_rows(self, driver: Driver, verb: str, rows: Sequence[Row]) -> None:
        if rows:
            driver.many(f"{verb} WHERE job_id = %s AND needed_id = %s", [row[:2] for row in rows])


def _chunks(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    return (numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK))
