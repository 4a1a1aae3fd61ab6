"""Many governed objects in one PostgreSQL: how quickly they are proposed, and how many rows the due ones read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import text

from horae.actions.governance.proposing import propose_many
from horae.actions.jobs import claims, endings
from horae.actions.rules import job_rules
from horae.clock import SystemClock, SystemDice
from horae.core.access.callers import Caller
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Outcome
from horae.ports import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate

OWNER = "ada"
AGENT = Caller(OWNER, frozenset({"tasks"}), "agent/aria", agent="aria")
AT_ONCE = 1000
DUE = 1000
LATER = timedelta(days=30)
LEASE = timedelta(minutes=5)
# Rows that scans of tables and indexes returned: what grows when a statement goes through all of them.
ROWS = text("SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_user_tables")


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
