"""What the hot verbs cost: statements, round trips, rows written. A change of these figures is a decision.

Statements and round trips are counted on the wire, rows by triggers, so nothing that a verb does can hide. SQLite is
a library: it has statements and no round trips.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from horae.actions.schedules import fires as firing
from horae.actions.schedules.schedules import with_next_fire
from horae.core.jobs.job import Ending, Job, Outcome, settlement
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job, a_schedule
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import lease_of, put, take
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url
from tests.support.traffic import Count, Traffic

TEN = 10
ROUNDS = 8  # drivers prepare a statement when they have seen it a few times; what is measured comes after
MINUTE = timedelta(minutes=1)
ECHOES = {"sqlite": 2}  # how often SQLite repeats a statement to its listener for each trigger that it sets off
OPERATIONS = {"INSERT": "+", "UPDATE": "~", "DELETE": "-"}


@dataclass
class Ground:
    """A store whose costs are counted."""

    store: SqlStore
    world: World
    clock: VirtualClock
    count: Callable[[], Count]

    def written(self) -> Counter[str]:
        """Rows written since the last look, as `jobs +`, `jobs ~`, `jobs -`."""
        with self.store.engine.begin() as connection:
            found = Counter(str(row[0]) for row in connection.execute(text("SELECT what FROM written")))
            connection.execute(text("DELETE FROM written"))
        return found


def count_rows(engine: Engine) -> None:
    """Let every row that is written leave a mark."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE written (what VARCHAR(80) NOT NULL)"))
        for table in metadata.tables:
            for operation, sign in OPERATIONS.items():
                mark = f"INSERT INTO written (what) VALUES ('{table.removeprefix('horae_')} {sign}')"
                name = f"count_{table}_{operation.lower()}"
                head = f"CREATE TRIGGER {name} AFTER {operation} ON {table} FOR EACH ROW"
                if engine.dialect.name == "postgresql":
                    connection.exec_driver_sql(
                        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                        f"$$ BEGIN {mark}; RETURN NULL; END $$"
                    )
                    connection.exec_driver_sql(f"{head} EXECUTE FUNCTION {name}()")
                else:
                    body = f"BEGIN {mark}; END" if engine.dialect.name == "sqlite" else mark
                    connection.exec_driver_sql(f"{head} {body}")


def trace(engine: Engine) -> Callable[[], Count]:
    """Count what a SQLite engine's connections execute."""
    answer: list[str] = []

    @event.listens_for(engine, "connect")
    def listen(connection: Any, _: Any) -> None:
        connection.set_trace_callback(answer.append)

    return lambda: Count(len(answer), 0)


@pytest.fixture
def ground(database_url: str) -> Iterator[Ground]:
    plain = create_store_engine(database_url)
    migrate(plain)
    count_rows(plain)
    plain.dispose()
    traffic = None if database_url.startswith("sqlite") else Traffic(database_url)
    engine = create_store_engine(database_url if traffic is None else traffic.proxy.url)
    count = trace(engine) if traffic is None else traffic.count
    clock = VirtualClock()
    with closing(open_store(engine)) as store:
        put(store, a_new_job(queue="warm"))
        if traffic is not None and store.dialect.name == "postgresql":
            traffic.wait_for_hints()  # its connection is open from now on, and is not counted
        yield Ground(store, World(store, clock, LoadedDice(1), tzdata="2030a"), clock, count)
    if traffic is not None:
        traffic.proxy.close()


Act = Callable[[], object]


def enqueue(ground: Ground, count: int = 1, **fields: Any) -> Act:
    jobs = [a_new_job({"n": place}, **fields) for place in range(count)]
    return lambda: put(ground.store, *jobs)


def enqueue_keyed(ground: Ground) -> Act:
    key = ground.clock.now().isoformat()
    ground.clock.advance(MINUTE)
    return enqueue(ground, key=key)


def claim(ground: Ground, count: int = 1) -> Act:
    put(ground.store, *(a_new_job() for _ in range(count)))
    return lambda: taken(ground, count)


def taken(ground: Ground, count: int) -> list[Job]:
    jobs = take(ground.store, count)
    assert len(jobs) == count
    return jobs


def settle(ground: Ground, count: int = 1, ending: Ending = "succeeded") -> Act:
    put(ground.store, *(a_new_job() for _ in range(count)))
    endings = [settlement(job, Outcome(ending, error="no"), now=NOON, roll=0.5) for job in taken(ground, count)]
    return lambda: ground.store.settle(endings, now=NOON)


def renew(ground: Ground, count: int = 1) -> Act:
    put(ground.store, *(a_new_job() for _ in range(count)))
    leases = [lease_of(job) for job in taken(ground, count)]
    return lambda: ground.store.renew(leases, until=NOON + MINUTE)


def fire(ground: Ground, count: int = 1) -> Act:
    """Fire schedules of which nothing is unfinished, so that each becomes a job."""
    remove_schedules(ground)
    ground.store.transact(lambda tx: add_schedules(ground, tx, count))
    ground.clock.advance(MINUTE)
    return lambda: firing.fire_due(ground.world)


def add_schedules(ground: Ground, tx: Tx, count: int) -> None:
    now: datetime = ground.clock.now()
    for place in range(count):
        rule = replace(a_schedule(f"s{place}"), created_at=now, updated_at=now)
        tx.schedules.add([with_next_fire(ground.world, rule, now)])


def remove_schedules(ground: Ground) -> None:
    with ground.store.engine.begin() as connection:
        for table in ("horae_schedules", "horae_fires", "horae_jobs"):
            connection.execute(text(f"DELETE FROM {table}"))


# verb, what makes it ready, the rows that it writes
VERBS: dict[str, tuple[Callable[[Ground], Act], dict[str, int]]] = {
    "enqueue": (enqueue, {"jobs +": 1}),
    "enqueue ten": (lambda ground: enqueue(ground, TEN), {"jobs +": 10}),
    "enqueue with a key": (enqueue_keyed, {"jobs +": 1, "keys +": 1}),
    "claim": (claim, {"jobs ~": 1}),
    "claim ten": (lambda ground: claim(ground, TEN), {"jobs ~": 10}),
    "settle": (settle, {"jobs -": 1, "runs +": 1}),
    "settle ten": (lambda ground: settle(ground, TEN), {"jobs -": 10, "runs +": 10}),
    "settle a failure": (lambda ground: settle(ground, ending="failed"), {"jobs ~": 1, "runs +": 1}),
    "renew": (renew, {"jobs ~": 1}),
    "renew ten": (lambda ground: renew(ground, TEN), {"jobs ~": 10}),
    "fire": (fire, {"jobs +": 1, "fires +": 1, "schedules ~": 1}),
    "fire ten": (lambda ground: fire(ground, TEN), {"jobs +": 10, "fires +": 10, "schedules ~": 10}),
}
# verb: statements and round trips on each database; transactions are begun and ended by statements of their own
COSTS: dict[str, dict[str, tuple[int, int]]] = {
    "sqlite": {
        "enqueue": (1, 0),
        "enqueue ten": (13, 0),
        "enqueue with a key": (6, 0),
        "claim": (7, 0),
        "claim ten": (7, 0),
        "settle": (6, 0),  # a savepoint more and a look less than the endings that differ
        "settle ten": (6, 0),
        "settle a failure": (5, 0),
        "renew": (4, 0),
        "renew ten": (4, 0),
        "fire": (9, 0),
        "fire ten": (37, 0),
    },
    "postgresql": {
        "enqueue": (1, 1),
        "enqueue ten": (1, 1),
        "enqueue with a key": (6, 6),
        "claim": (1, 1),
        "claim ten": (1, 1),
        "settle": (1, 1),
        "settle ten": (1, 1),
        "settle a failure": (5, 5),
        "renew": (4, 4),
        "renew ten": (4, 4),
        "fire": (9, 9),
        "fire ten": (9, 9),
    },
    "mysql": {
        "enqueue": (3, 4),
        "enqueue ten": (3, 4),
        "enqueue with a key": (5, 6),
        "claim": (7, 8),
        "claim ten": (7, 8),
        "settle": (5, 6),
        "settle ten": (5, 6),
        "settle a failure": (5, 6),
        "renew": (4, 5),
        "renew ten": (4, 5),
        "fire": (9, 10),
        "fire ten": (9, 10),
    },
}


def test_hot_verbs_cost_what_they_have_always_cost(ground: Ground) -> None:
    measured = {verb: measure(ground, prepare) for verb, (prepare, _) in VERBS.items()}

    costs = COSTS[ground.store.dialect.name]
    assert measured == {verb: (costs[verb], rows) for verb, (_, rows) in VERBS.items()}


def measure(ground: Ground, prepare: Callable[[Ground], Act]) -> tuple[tuple[int, int], dict[str, int]]:
    for _ in range(ROUNDS):
        prepare(ground)()
    act = prepare(ground)
    ground.written()
    before = ground.count()
    act()
    after = ground.count()
    rows = ground.written()
    triggered = ECHOES.get(ground.store.dialect.name, 0) * rows.total()
    return (after.statements - before.statements - triggered, after.trips - before.trips), dict(rows)
