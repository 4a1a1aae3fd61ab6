"""The hot statements cost the same with ten jobs and with two hundred thousand: no sort, no scan, no walk (S0-38).

Rows and pages examined are compared, never time. Four crowds are loaded: jobs of the far future, an overdue
backlog, running jobs whose leases are fresh, and tenants' jobs that are held for a handler that is not open to tenants.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event, text

from horae.actions.jobs import lists, queries
from horae.actions.jobs.labels import label_jobs
from horae.clock import SystemDice
from horae.core.jobs.filters import narrow, parse_filter
from horae.core.jobs.job import Filter
from horae.core.jobs.labels import DRAWN_WITHIN
from horae.core.time.instants import micros
from horae.ports.claims import Claim
from horae.ports.world import World
from horae.stores.databases.driver import Driver, adapt_placeholders
from horae.stores.databases.postgres import PostgresStore
from horae.stores.databases.postgres_claims import claim_sql
from horae.stores.jobs.hints import HEAD
from horae.stores.store import SqlStore
from horae.stores.transaction import Transaction
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON, VirtualClock
from horae.testing.conformance.support import declare, put
from tests.stores.conftest import KINDS, empty, opened
from tests.support.plans import explain, reads_everything

CROWD = 100_000
CLAIM = Claim("default", 20, "w1", LEASE, "priority")
COLUMNS = (
    "queue, state, held, held_for, band, run_at, planned_at, created_at, handler, owner, max_attempts, payload, "
    "leased_until"
)
Flow = Callable[[SqlStore, Driver], object]
Read = Callable[[Transaction, Filter], object]
Asked = Callable[[Connection, str], list[tuple[str, Any]]]
FLOWS: dict[str, Flow] = {
    "claim": lambda store, driver: store.hot.claim(driver, CLAIM, NOON),
    "a tenant's claim": lambda store, driver: store.hot.claim(driver, replace(CLAIM, owner="alice"), NOON),
    "the claim of a tenant without jobs": lambda store, driver: store.hot.claim(
        driver, replace(CLAIM, owner="bob"), NOON
    ),
    "release": lambda store, driver: store.hot.admission.release(driver, 100),
    "peek": lambda store, driver: store.hot.peek(driver, ["default", "other"], None, "n1", None),
    "reaper": lambda store, driver: store.hot.find_expired(driver, NOON, 100),
}


class RolledBack(Exception):
    """Ends a measurement without leaving a trace."""


class Recording(Driver):
    """Remembers what it was asked, so that it can be explained afterwards."""

    __slots__ = ("asked",)

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.connection, driver.placeholder)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.asked.append((adapt_placeholders(sql, self.placeholder), tuple(parameters)))
        return super().rows(sql, parameters)


def load(
    store: SqlStore, count: int, *, state: str, run_at: int, leased_until: str = "NULL", closed: bool = False
) -> None:
    """Many rows by one statement, spread over the bands and over a day."""
    held, owner, handler = ("'closed', 'wipe'", "alice", "wipe") if closed else ("'', NULL", "system", "greet")
    with store.engine.begin() as connection:
        if store.dialect.insert_ignore[0] == "INSERT IGNORE INTO":
            connection.execute(text("SET SESSION max_recursive_iterations = 1000000"))
        connection.execute(
            text(
                f"INSERT INTO horae_jobs ({COLUMNS}) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                f"WHERE i < {count}) SELECT 'default', '{state}', {held}, i % 3, {run_at} + i * 1000, 0, 0, "
                f"'{handler}', '{owner}', 3, '{{}}', {leased_until} FROM n"
            )
        )


def load_audit(store: SqlStore, count: int) -> None:
    """Sealed audit entries, after which statistics are taken while none is sealed, as a planner may find them."""
    columns = "at, actor, verb, object_type, object_id, owner, state_before, state_after, evidence"
    with store.engine.begin() as connection:
        if store.dialect.insert_ignore[0] == "INSERT IGNORE INTO":
            connection.execute(text("SET SESSION max_recursive_iterations = 1000000"))
        connection.execute(
            text(
                f"INSERT INTO horae_audit ({columns}) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                f"WHERE i < {count}) SELECT 0, 'a', 'v', 't', 'o', 'system', '{{}}', '{{}}', '[]' FROM n"
            )
        )
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE TABLE horae_audit" if store.dialect.name == "mysql" else "ANALYZE"))
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE horae_audit SET chain_seq = id, hash = 'h' WHERE chain_seq IS NULL"))
    if store.dialect.name == "postgresql":
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM (ANALYZE FALSE) horae_audit"))  # as autovacuum does after a few percent


@pytest.fixture(scope="module", params=KINDS)
def crowded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SqlStore, dict[str, int]]]:
    """A crowded store, and what each flow cost while it was nearly empty."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('plans') / 'horae.db'}"
    else:
        url = request.getfixturevalue(f"shared_{request.param}_url")
    store = opened(url)
    empty(store)
    day = micros(timedelta(days=1) + NOON)
    crowd = [
        (CROWD, {"state": "queued", "run_at": day}),
        (CROWD // 2, {"state": "queued", "run_at": micros(NOON - timedelta(days=1))}),
        (CROWD // 10, {"state": "running", "run_at": 0, "leased_until": f"{day} + i"}),
        (CROWD, {"state": "queued", "run_at": micros(NOON - timedelta(days=1)), "closed": True}),
    ]
    declare(store, "report")
    for _, answer in crowd:
        load(store, 60, **answer)  # type: ignore[arg-type]
    load_audit(store, 60)
    quiet = {name: cost(store, flow) for name, flow in FLOWS.items()}
    for count, answer in crowd:
        load(store, count, **answer)  # type: ignore[arg-type]
    load_audit(store, CROWD)
    yield store, quiet
    empty(store)
    store.close()


def rolled_back(store: SqlStore, work: Callable[[Driver], object]) -> None:
    with suppress(RolledBack), store.open_driver() as driver:
        work(driver)
        raise RolledBack


# -- what a flow examines --------------------------------------------------------------------------------------------


def cost(store: SqlStore, flow: Flow) -> int:
    """Steps of SQLite's machine, pages of PostgreSQL, rows of MariaDB: whatever the database counts best."""
    answer: list[int] = []

    def measure(driver: Driver) -> None:
        meter = METERS[store.dialect.name]
        answer.append(meter(store, flow, driver))

    rolled_back(store, measure)
    return answer[0]


def steps(store: SqlStore, flow: Flow, driver: Driver) -> int:
    count = [0]

    def tick() -> None:
        count[0] += 1

    driver.connection.set_progress_handler(tick, 10)
    flow(store, driver)
    driver.connection.set_progress_handler(None, 0)
    return count[0]


def rows_read(store: SqlStore, flow: Flow, driver: Driver) -> int:
    def handled() -> int:
        return sum(int(value) for _, value in driver.rows("SHOW SESSION STATUS LIKE 'Handler_read%%'"))

    before = handled()
    flow(store, driver)
    return handled() - before


def pages(store: SqlStore, flow: Flow, driver: Driver) -> int:
    recording = Recording(driver)
    flow(store, recording)
    return sum(
        node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0)
        for sql, parameters in recording.asked
        for node in [explained(driver.connection, sql, parameters)[0]]
    )


METERS = {"sqlite": steps, "postgresql": pages, "mysql": rows_read}


@pytest.mark.parametrize("flow", FLOWS)
def test_the_cost_stays_flat(crowded: tuple[SqlStore, dict[str, int]], flow: str) -> None:
    store, quiet = crowded

    assert cost(store, FLOWS[flow]) <= 3 * quiet[flow] + 100


# -- what the database plans -------------------------------------------------------------------------------------------


def plans(store: SqlStore, flow: Flow) -> list[str]:
    """The plan of each statement of a flow, as text."""
    answer: list[str] = []

    def explain(driver: Driver) -> None:
        recording = Recording(driver)
        flow(store, recording)
        answer.extend(PLANNERS[store.dialect.name](driver, sql, parameters) for sql, parameters in recording.asked)

    rolled_back(store, explain)
    return answer


def plan_of_sqlite(driver: Driver, sql: str, parameters: tuple[Any, ...]) -> str:
    return "\n".join(row[3] for row in driver.connection.execute("EXPLAIN QUERY PLAN " + sql, parameters))


def plan_of_mysql(driver: Driver, sql: str, parameters: tuple[Any, ...]) -> str:
    cursor = driver.connection.cursor()
    cursor.execute("EXPLAIN " + sql, parameters)
    return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


def plan_of_postgres(driver: Driver, sql: str, parameters: tuple[Any, ...]) -> str:
    return json.dumps(explained(driver.connection, sql, parameters))


PLANNERS = {"sqlite": plan_of_sqlite, "postgresql": plan_of_postgres, "mysql": plan_of_mysql}
BIG = ("horae_jobs", "horae_audit")
SORTS = ("TEMP B-TREE", '"Sort"', '"Incremental Sort"', "filesort")


# Partial indexes: of unsealed entries, and of jobs that wait for a slot.
PARTIAL = (
    "SCAN horae_audit USING COVERING INDEX horae_audit_unsealed",
    "SCAN horae_jobs USING INDEX horae_jobs_slots",
)


def walks(plan: str) -> bool:
    """Whether the table of jobs or the audit is read from one end to the other."""
    lines = [line for line in plan.splitlines() if not line.startswith(PARTIAL)]
    sqlite = any(line == f"SCAN {table}" or line.startswith(f"SCAN {table} ") for line in lines for table in BIG)
    mysql = any(f" {table} ALL " in line or f" {table} index " in line for line in lines for table in BIG)
    postgres = '"Seq Scan"' in plan and any(
        node.get("Node Type") == "Seq Scan" and node.get("Relation Name") in BIG for node in nodes(plan)
    )
    return sqlite or mysql or postgres


def nodes(plan: str) -> list[dict[str, Any]]:
    found, waiting = [], list(json.loads(plan))
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.get("Plans", [])
    return found


@pytest.mark.parametrize("flow", FLOWS)
def test_no_statement_sorts(crowded: tuple[SqlStore, dict[str, int]], flow: str) -> None:
    store, _ = crowded

    assert [plan for plan in plans(store, FLOWS[flow]) if any(word in plan for word in SORTS)] == []


@pytest.mark.parametrize("flow", FLOWS)
def test_no_statement_scans_the_jobs(crowded: tuple[SqlStore, dict[str, int]], flow: str) -> None:
    store, _ = crowded

    assert [plan for plan in plans(store, FLOWS[flow]) if walks(plan)] == []


# -- PostgreSQL's own claim, in one statement, with the generic plan that it runs with -------------------------------


def explained(connection: psycopg.Connection[Any], sql: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    """Run a statement under EXPLAIN as it is run in life: prepared, with one plan for all parameters."""
    numbered, rest = "", sql.replace("%%", "%").split("%s")
    for place, part in enumerate(rest):
        numbered += part + (f"${place + 1}" if place + 1 < len(rest) else "")
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute(("PREPARE explained AS " + numbered).encode())
        given = cursor.mogrify("(" + ", ".join(["%s"] * len(parameters)) + ")", parameters) if parameters else ""
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE explained{given}".encode())
        row = cursor.fetchone()
        cursor.execute("DEALLOCATE explained")
    assert row is not None
    return [row[0][0]["Plan"]]


@pytest.mark.parametrize("crowded", [KINDS[1]], indirect=True)
@pytest.mark.parametrize("limit", [1, 20, 100])
@pytest.mark.parametrize("analysed", [False, True], ids=["without statistics", "with statistics"])
def test_one_claim_in_one_statement_reads_no_more_than_it_takes(
    crowded: tuple[SqlStore, dict[str, int]], limit: int, analysed: bool
) -> None:
    store, _ = crowded
    if analysed:
        with store.engine.begin() as connection:
            connection.execute(text("ANALYZE horae_jobs"))
    at = micros(NOON)
    parameters = ["default", at, "default", at, at, *["default", at, *HEAD] * 3, limit, "w1", at + 30_000_000, at]
    answer: list[dict[str, Any]] = []

    rolled_back(
        store, lambda driver: answer.extend(explained(driver.connection, claim_sql("priority", limit), parameters))
    )

    found = nodes(json.dumps(answer))
    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in found if node["Node Type"].endswith("Index Scan"))
    assert not [node for node in found if "Sort" in node["Node Type"]]
    assert not [node for node in found if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "horae_jobs"]
    assert read <= 3 * limit + 10


@pytest.mark.server
def test_a_look_for_owners_goes_along_their_index_with_statistics_of_an_empty_table(shared_postgres_url: str) -> None:
    """They let it read and sort all waiting jobs for each owner that it found, where sorting was not ruled out."""
    store = opened(shared_postgres_url)
    assert isinstance(store, PostgresStore)
    empty(store)
    jobs = [a_new_job(owner=f"o{number % 40:02}") for number in range(4_000)]
    put(store, *jobs)
    empty(store)
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM (ANALYZE, TRUNCATE FALSE) horae_jobs"))
    put(store, *jobs)

    with store.direct() as direct, direct.transaction():
        sorts = [Driver(direct).rows(f"SHOW {name}") for name in ("enable_sort", "enable_incremental_sort")]
        looked = Recording(Driver(direct))
        store.hot.fair.look(looked, "default", 250, micros(NOON))
        plans = [explained(direct, sql, given) for sql, given in looked.asked]

    found = [node for plan in plans for node in nodes(json.dumps(plan))]
    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in found if "Index" in node["Node Type"])
    store.close()
    assert sorts == [[("off",)], [("off",)]]
    assert not [node for node in found if "Sort" in node["Node Type"]]
    assert 0 < read < 200


def test_the_meters_notice_a_walk(crowded: tuple[SqlStore, dict[str, int]]) -> None:
    """Each meter must be able to fail: a statement that does walk the table is caught."""
    store, quiet = crowded

    def walk(_: SqlStore, driver: Driver) -> None:
        driver.rows("SELECT COUNT(*) FROM horae_jobs WHERE handler <> %s", [""])

    answer = plans(store, walk)

    assert cost(store, walk) > 3 * max(quiet.values()) + 100
    assert any(walks(plan) for plan in answer)


# -- a page of a list --------------------------------------------------------------------------------------------------


PAGES = {
    "no filter": "",
    "an error": "error:nowhere",
    "a key": "key:nowhere",
    "a tag": "tag:nowhere",
    "a handler": "handler:nowhere",
    "a queue": "queue:nowhere",
    "an owner": "owner:nobody",
    "an object": "object:memory/m1",
    "a kind of object": "object:memory",
    "succeeded": "state:succeeded",
    "cancelled": "state:cancelled",
    "dead": "state:dead",
    "ended": "ended:>-1h",
    "ended with an error": "ended:>-1h error:nowhere",
    "a common queue": "queue:default",
    "a common handler": "handler:greet",
    "a handler and a tag": "handler:greet tag:nowhere",
}
LED = ("a tag", "a handler", "a queue", "an owner", "an object", "a kind of object", "cancelled", "dead", "ended")


@pytest.fixture(scope="module")
def labelled(crowded: tuple[SqlStore, dict[str, int]]) -> SqlStore:
    """The crowded store after the chore that labels jobs."""
    store, _ = crowded
    clock = VirtualClock()
    world = World(store, clock, SystemDice())
    for _ in range(2):
        clock.advance(DRAWN_WITHIN)
        while label_jobs(world):
            continue
    return store


def wanted_by(words: str) -> Filter:
    return narrow(Filter(), parse_filter(words, now=NOON))


def page_of(connection: Connection, words: str) -> list[tuple[str, Any]]:
    """Read one page of a list; return the statements that it took."""

    def read(tx: Transaction, wanted: Filter) -> object:
        return lists.page_by_end(tx, wanted, 50, None) if lists.is_by_end(wanted) else lists.page(tx, wanted, 50, None)

    return asked_by(connection, words, read)


def counts_of(connection: Connection, words: str) -> list[tuple[str, Any]]:
    """Count the jobs of a list by group; return the statements that it took."""
    return asked_by(connection, words, queries.read_groups)


def asked_by(connection: Connection, words: str, read: Read) -> list[tuple[str, Any]]:
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, sql: str, values: Any, *_: Any) -> None:
        asked.append((sql, values))

    event.listen(connection, "before_cursor_execute", note)
    read(Transaction(connection), wanted_by(words))
    event.remove(connection, "before_cursor_execute", note)
    return asked


def page_cost(store: SqlStore, words: str, ask: Asked = page_of) -> int:
    """Return what one page, or what is asked instead, costs, as :func:`cost` counts."""
    with store.reading() as connection:
        driver = Driver(connection.connection.driver_connection, store.dialect.placeholder)
        if store.dialect.name != "postgresql":
            return METERS[store.dialect.name](store, lambda *_: ask(connection, words), driver)
        pages = 0
        for sql, values in ask(connection, words):
            answer = connection.exec_driver_sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, values).scalar()
            plan = answer[0]["Plan"]  # type: ignore[index]
            pages += plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)
        return pages


def everything(store: SqlStore) -> int:
    """Return what it costs to look at every job."""

    def look(_: SqlStore, driver: Driver) -> None:
        driver.rows("SELECT COUNT(*) FROM horae_jobs WHERE last_error = %s", [""])

    return cost(store, look)


@pytest.mark.parametrize("words", PAGES)
def test_a_page_of_a_list_looks_at_a_bounded_number_of_rows(
    labelled: SqlStore, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing to find, a look without a bound would read every row."""
    monkeypatch.setattr(lists, "LOOK_BACK", 1000)
    monkeypatch.setattr(lists, "LOOK_ALONG", 1000)

    assert page_cost(labelled, PAGES[words]) * 3 < everything(labelled)


@pytest.mark.parametrize("words", ["no filter", "an error", "a tag", "a common queue", "a handler and a tag", "dead"])
def test_counts_look_at_a_bounded_number_of_rows(
    labelled: SqlStore, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LOOK_BACK", 1000)

    assert page_cost(labelled, PAGES[words], counts_of) * 3 < everything(labelled)


@pytest.mark.parametrize("words", LED)
def test_what_a_label_or_an_index_leads_to_costs_the_same_however_many_jobs_there_are(
    labelled: SqlStore, words: str
) -> None:
    """Nothing is found, so that reading past other jobs would show; no bound is what keeps it from that."""
    assert page_cost(labelled, PAGES[words]) <= 300


@pytest.mark.parametrize("words", PAGES)
def test_no_page_of_a_list_scans_or_sorts(labelled: SqlStore, words: str) -> None:
    with labelled.reading() as connection:
        asked = page_of(connection, PAGES[words])

    plans = [(sql, plan) for sql, values in asked for plan in [explain(labelled, sql, values)]]
    assert len(plans) > 0
    assert [(sql, plan) for sql, plan in plans if reads_everything(plan, sql)] == []
