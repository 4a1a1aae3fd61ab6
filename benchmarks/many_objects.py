"""Many governed objects in one PostgreSQL: how quickly they are proposed, and how many rows the due ones read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Table, text

from horae.actions.governance.keeper import do_unclaimed
from horae.actions.governance.plans import plan_missing
from horae.actions.governance.proposals import propose_many
from horae.actions.jobs import claims, endings
from horae.actions.rules import job_rules
from horae.clock import SystemClock, SystemDice
from horae.core.access.callers import Caller
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Outcome
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.tables.governance import objects
from horae.stores.tables.jobs import jobs

OWNER = "ada"
AGENT = Caller(OWNER, frozenset({"tasks"}), "agent/aria", agent="aria")
AT_ONCE = 1000
DUE = 1000
LATER = timedelta(days=30)
LEASE = timedelta(minutes=5)
# Rows that scans of tables and indexes returned: what grows when a statement goes through all of them.
ROWS = text("SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_user_tables")


LOOKS = 10
COPIED_AT_ONCE = 10_000
ORIGINAL = "mem_original"
NEW_JOB = {"object_id": "'mem_copy_' || n", "idempotency_key": "'copy:' || n", "run_at": "o.run_at + n * 1000"}
NEW_OBJECT = {
    "object_id": "made.object_id", "job_id": "made.id", "next_action_at": "made.run_at",
    "fingerprint": "md5(made.object_id)",
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """What doing the due actions took."""

    due: int
    rows: int
    done: float  # actions a second


@contextmanager
def opened(url: str) -> Iterator[World]:
    engine = create_store_engine(url)
    migrate(engine)
    store, dice = open_store(engine), SystemDice()
    try:
        yield World(store, SystemClock(), dice, rules=job_rules(dice))
    finally:
        store.close()


def measure_proposing(url: str, count: int) -> float:
    """Propose so many objects, whose first look is far away, and return how many a second."""
    with opened(url) as world:
        later = world.clock.now() + LATER
        batches = [
            [_proposal(number, next_action_at=later) for number in range(begin, min(begin + AT_ONCE, count))]
            for begin in range(0, count, AT_ONCE)
        ]
        began = time.monotonic()
        for batch in batches:
            propose_many(world, batch, owner=OWNER, caller=AGENT)
        return count / (time.monotonic() - began)


def _proposal(number: int, **fields: object) -> Proposal:
    evidence = (f"chat:{number}",)
    return Proposal("memory", f"fact {number}", f"mem_{number:08}", f"thing {number}", evidence=evidence, **fields)  # type: ignore[arg-type]


def multiply(url: str, count: int) -> None:
    """Let there be so many objects, each with its job, as copies of one, made inside the server within a minute."""
    with opened(url) as world:
        later = world.clock.now() + LATER
        first_one = Proposal("memory", "a fact", ORIGINAL, "a thing", evidence=("chat:1",), next_action_at=later)
        propose_many(world, [first_one], owner=OWNER, caller=AGENT)
        copies = text(
            f"WITH made AS (INSERT INTO horae_jobs ({_names(jobs)}) SELECT {_names(jobs, **NEW_JOB)} "
            f"FROM horae_jobs o, generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n "
            f"WHERE o.object_id = '{ORIGINAL}' RETURNING id, object_id, run_at) "
            f"INSERT INTO horae_objects ({_names(objects)}) SELECT {_names(objects, **NEW_OBJECT)} "
            f"FROM horae_objects o, made WHERE o.object_id = '{ORIGINAL}'"
        )
        for first in range(0, count, COPIED_AT_ONCE):
            with world.store.engine.begin() as connection:  # type: ignore[attr-defined]
                last = min(first + COPIED_AT_ONCE, count) - 1
                connection.execute(copies, {"first": first, "last": last})
        _analyze(world)


def _names(table: Table, **fresh: str) -> str:
    """Return the columns of a copied row, some with a value of its own."""
    return ", ".join(fresh.get(each.name, f"o.{each.name}" if fresh else each.name) for each in list(table.columns)[1:])


def measure_looking(url: str) -> int:
    """Return the rows that an idle claim, an idle look of the keeper and a peek read."""
    with opened(url) as world:
        before = _rows_read(world)
        for _ in range(LOOKS):
            claims.claim(world, "governance", 100, worker_id="bench", lease=LEASE)
            do_unclaimed(world)
            plan_missing(world)
        return _rows_read(world) - before


def measure_reading(url: str) -> Reading:
    """Let a thousand more objects come due, do what is due, and return how many rows that read."""
    with opened(url) as world:
        propose_many(world, [_proposal(10**8 + number) for number in range(99)], owner=OWNER, caller=AGENT)
        for begin in range(99, DUE, 99):
            some = range(begin, min(begin + 99, DUE))
            propose_many(world, [_proposal(10**8 + number) for number in some], owner=OWNER, caller=AGENT)
        _analyze(world)
        before, began, done = _rows_read(world), time.monotonic(), 0
        while due := claims.claim(world, "governance", 100, worker_id="bench", lease=LEASE):
            endings.settle(world, [(job, Outcome("succeeded")) for job in due])
            done += len(due)
        took = time.monotonic() - began
        return Reading(done, _rows_read(world) - before, done / took)


def _analyze(world: World) -> None:
    with world.store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:  # type: ignore[attr-defined]
        connection.execute(text("VACUUM ANALYZE"))


def _rows_read(world: World) -> int:
    """Return the rows that were read so far; the server writes its counters down a moment after a transaction."""
    with world.store.engine.connect() as connection:  # type: ignore[attr-defined]
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        connection.commit()
        time.sleep(1.1)
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        return int(connection.execute(ROWS).scalar_one())
