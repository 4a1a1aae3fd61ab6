"""A database that has fallen silent, while every kernel on the way goes on acknowledging: nobody waits for ever."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from horae import Horae
from horae.core.jobs.job import Lease
from horae.core.timeouts import Timeouts
from horae.errors import ConfigurationError, StoreBusy, StoreUnavailable
from horae.settings import Settings
from horae.stores.databases.postgres import PostgresStore
from horae.stores.opening import create_store_engine, open_store, store_on
from horae.stores.schema import LOCK, inspect_schema, migrate
from horae.stores.store import SqlStore
from horae.stores.transaction import Transaction
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once, put, take
from tests.stores.conftest import url_of
from tests.support.proxy import Deaf, Proxy
from tests.support.refusals import refused
from tests.support.servers import MariaDBServer, PostgresServer, Server
from tests.support.templates import put_tables

SHORT = Timeouts(
    connect=timedelta(seconds=1),
    hot=timedelta(seconds=1),
    statement=timedelta(seconds=1.2),
    silence=timedelta(seconds=3),
    idle=timedelta(seconds=2),
)
LIMIT = 20.0  # seconds: what enqueue promises with the limits that apply when nobody sets any; these are shorter
SERVERS = ["postgres", "mysql"]


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.server) for kind in SERVERS])
def url(request: pytest.FixtureRequest) -> str:
    """A server's database, with its tables, which are empty."""
    return url_of(request.param, request)


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy(url) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: Proxy) -> Iterator[SqlStore]:
    """A store behind the proxy, all of whose limits are short."""
    with closing(open_store(create_store_engine(proxy.url, timeouts=SHORT), SHORT)) as store:
        yield store


def expect_unavailable(limit: float, act: Callable[[], object]) -> StoreUnavailable:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable) as answer:
        act()
    assert time.monotonic() - began < limit
    return answer.value


VERBS: dict[str, Callable[[SqlStore], object]] = {
    "enqueue": lambda store: put(store, a_new_job()),
    "enqueue with a key": lambda store: put(store, a_new_job(key="k")),
    "enqueue many": lambda store: put(store, a_new_job(), a_new_job()),
    "claim": take,
    "renew": lambda store: store.renew([Lease(1, 1)], until=NOON),
    "look": lambda store: store.peek(["default"]),
    "expired": lambda store: store.find_expired(now=NOON, limit=10),
    "time": lambda store: store.read_time(),
    "read": lambda store: store.read(lambda tx: tx.jobs.get(1)),
    "transact": lambda store: store.transact(lambda tx: tx.queues.all()),
}


def test_every_verb_gives_up_on_a_silent_database_and_works_again_when_it_is_back(
    store: SqlStore, proxy: Proxy
) -> None:
    every = list(VERBS.values())
    at_once(len(every), lambda place: every[place](store))  # connections are open, and resting in their pools
    proxy.swallow()

    for _ in range(2):  # the second time where new connections are needed
        at_once(len(every), lambda place: expect_unavailable(LIMIT, lambda: every[place](store)))
    proxy.let_through()

    at_once(len(every), lambda place: every[place](store))


@pytest.mark.parametrize("verb", ["enqueue", "enqueue with a key", "read"])
def test_a_database_that_cannot_even_be_connected_to_is_given_up_in_time(url: str, verb: str) -> None:
    with Deaf(url) as deaf, closing(open_later(deaf.url)) as store:
        problem = expect_unavailable(LIMIT, lambda: VERBS[verb](store))

    assert not problem.outcome_unknown
    assert "Nothing was written" in str(problem)


def open_later(url: str) -> SqlStore:
    return store_on(create_store_engine(url, timeouts=SHORT), SHORT)


def test_an_application_on_a_database_that_never_answers_is_told_so_in_time(url: str) -> None:
    with Proxy(url) as proxy, Horae(proxy.url, timeouts=SHORT) as app:
        proxy.swallow()
        problem = expect_unavailable(LIMIT, lambda: app.world)

    assert not problem.outcome_unknown


# -- what became of it -------------------------------------------------------------------------------------------------


def test_an_enqueue_whose_statement_was_sent_says_that_its_outcome_is_unknown(store: SqlStore, proxy: Proxy) -> None:
    def act() -> None:
        with store.open_driver() as driver:
            proxy.swallow()  # the connection was good when it was handed out
            store.add_plain(driver, [a_new_job()], NOON)

    problem = expect_unavailable(LIMIT, lambda: store.run_with_retry(act))

    assert problem.outcome_unknown
    assert "Outcome unknown" in str(problem)
    assert "same key" in str(problem)


def test_an_enqueue_that_found_no_connection_says_that_nothing_was_written(store: SqlStore, proxy: Proxy) -> None:
    proxy.swallow()
    expect_unavailable(LIMIT, lambda: put(store, a_new_job()))

    problem = expect_unavailable(LIMIT, lambda: put(store, a_new_job()))  # there is no old connection left to try

    assert not problem.outcome_unknown
    assert "Nothing was written" in str(problem)


def test_a_look_at_a_silent_database_leaves_nothing_unknown(store: SqlStore, proxy: Proxy) -> None:
    def look(tx: Transaction) -> object:
        proxy.swallow()
        return tx.jobs.get(1)

    assert not expect_unavailable(LIMIT, lambda: store.read(look)).outcome_unknown


def test_a_listener_that_hears_nothing_keeps_its_connection(postgres_database_url: str) -> None:
    """Or it would connect again every other second, and a sleeping worker would be woken each time."""
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    with closing(open_store(engine)) as store:
        assert isinstance(store, PostgresStore)
        with store.open_direct() as connection:
            store.limit(connection, timedelta(milliseconds=100))

            assert list(connection.notifies(timeout=0.5)) == []
            assert connection.execute("SELECT 1").fetchone() == (1,)


# -- pools -------------------------------------------------------------------------------------------------------------


def test_one_silent_connection_is_enough_to_throw_all_idle_ones_away(store: SqlStore, proxy: Proxy) -> None:
    """Or each of them would have to be found out by another caller, one after the other."""
    several_at_once(store)
    proxy.swallow()
    expect_unavailable(LIMIT, lambda: put(store, a_new_job()))
    proxy.let_through()

    for _ in range(8):
        put(store, a_new_job())  # none of these meets an old connection
        put(store, a_new_job(key=None, unique=None), a_new_job())
        store.read(lambda tx: tx.jobs.get(1))


def several_at_once(store: SqlStore) -> None:
    """Leave several idle connections in every pool."""
    at_once(4, lambda _: put(store, a_new_job(), a_new_job()))
    at_once(4, lambda _: store.read(lambda tx: tx.jobs.get(1)))


def test_handlers_that_use_up_the_pool_keep_nobody_from_renewing(store: SqlStore) -> None:
    put(store, a_new_job())
    [job] = take(store)
    lent = [store.engine.connect() for _ in range(25)]
    try:
        renewed = store.renew([Lease(job.number, job.token)], until=NOON)
        with refused(StoreBusy, "pool_exhausted"):
            store.read(lambda tx: tx.jobs.get(1))
    finally:
        for connection in lent:
            connection.close()

    assert renewed.held == {job.number}


# -- whose limits hold -------------------------------------------------------------------------------------------------

SLEEPS = {"postgresql": "SELECT pg_sleep({})", "mysql": "SELECT SLEEP({})"}


def sleeps(store: SqlStore, seconds: float) -> str:
    return SLEEPS[store.dialect.name].format(seconds)


def test_a_statement_of_ours_that_takes_too_long_is_stopped(store: SqlStore) -> None:
    with pytest.raises((StoreBusy, StoreUnavailable)):
        store.transact(lambda tx: tx.connection.execute(text(sleeps(store, 30))))


def test_a_statement_on_a_lent_connection_may_take_as_long_as_its_job_may(store: SqlStore) -> None:
    def write(tx: Transaction) -> object:
        with tx.lend_connection(timedelta(seconds=30)) as connection:
            return connection.execute(text(sleeps(store, 2))).scalar()  # longer than a statement of ours may

    store.transact(write)


def test_a_statement_on_a_lent_connection_ends_with_its_jobs_time_limit(store: SqlStore) -> None:
    def write(tx: Transaction) -> object:
        with tx.lend_connection(timedelta(seconds=0.5)) as connection:
            return connection.execute(text(sleeps(store, 30))).scalar()

    with pytest.raises((StoreBusy, StoreUnavailable)):
        store.transact(write)


def test_our_own_limits_hold_again_when_a_connection_was_lent(store: SqlStore) -> None:
    def lend(tx: Transaction) -> None:
        with tx.lend_connection() as connection:
            connection.execute(text("SELECT 1"))

    store.transact(lend)
    with pytest.raises((StoreBusy, StoreUnavailable)):
        store.transact(lambda tx: tx.connection.execute(text(sleeps(store, 30))))


def test_an_export_may_take_longer_than_a_statement_of_ours(store: SqlStore) -> None:
    store.read(lambda tx: tx.connection.execute(text(sleeps(store, 2))).scalar(), unbounded=True)


# -- a server that stands still ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PostgresServer, MariaDBServer], ids=SERVERS)
def test_a_stopped_server_is_given_up_and_found_again(kind: type[Server], own_server: Callable[..., Server]) -> None:
    server = own_server(kind)
    url = server.create_database()  # type: ignore[attr-defined]
    engine = create_store_engine(url)
    migrate(engine)
    engine.dispose()
    with closing(open_store(create_store_engine(url, timeouts=SHORT), SHORT)) as store:
        put(store, a_new_job())
        stop_all(server, signal.SIGSTOP)
        try:
            expect_unavailable(LIMIT, lambda: put(store, a_new_job(key="k")))
            expect_unavailable(LIMIT, lambda: put(store, a_new_job()))
        finally:
            stop_all(server, signal.SIGCONT)
        put(store, a_new_job(key="k"))


def stop_all(server: Server, number: signal.Signals) -> None:
    """The server and, on PostgreSQL, the processes that serve its connections."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for pid in (server.pid, *map(int, children)):
        os.kill(pid, number)


# -- who is exempt, and who shares -------------------------------------------------------------------------------------

HOLDS = {
    "postgresql": ["BEGIN", f"SELECT pg_advisory_xact_lock({LOCK})", "SELECT pg_sleep(2.5)", "COMMIT"],
    "mysql": [f"SELECT GET_LOCK('{LOCK}', 10)", "SELECT SLEEP(2.5)", f"SELECT RELEASE_LOCK('{LOCK}')"],
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.server) for kind in SERVERS])
def test_a_migration_waits_for_another_one_longer_than_any_statement_may(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{kind}_database_url")
    holding, taken = threading.Event(), create_engine(url, isolation_level="AUTOCOMMIT")

    def hold() -> None:
        with taken.connect() as connection:
            first, *rest = HOLDS[connection.dialect.name]
            connection.exec_driver_sql(first)
            for statement in rest:
                if "SLEEP" in statement.upper():
                    holding.set()
                connection.exec_driver_sql(statement)

    other = threading.Thread(target=hold)
    other.start()
    assert holding.wait(LIMIT)
    engine = create_store_engine(url, timeouts=SHORT)
    try:
        migrate(engine)
        assert inspect_schema(engine).is_current
    finally:
        other.join()
        engine.dispose()
        taken.dispose()


def test_threads_that_open_an_application_at_once_wait_together_and_not_one_after_the_other(url: str) -> None:
    with Proxy(url) as proxy, Horae(proxy.url, timeouts=SHORT) as app:
        proxy.swallow()
        at_once(16, lambda _: expect_unavailable(LIMIT, lambda: app.world))
        proxy.let_through()

        assert app.world is app.world


def test_a_write_waits_for_a_transaction_of_its_own_process_and_gives_up(tmp_path: Path) -> None:
    """On SQLite, where one handler that is long in its ledger keeps every other writer of its process waiting."""
    url = put_tables(tmp_path / "horae.db")
    with closing(open_store(create_store_engine(url), SHORT)) as store, store.writing():
        waiting = ThreadPoolExecutor(2)
        tries = [waiting.submit(put, store, a_new_job()), waiting.submit(store.transact, lambda tx: tx.queues.all())]

        for each in tries:
            with refused(StoreBusy, "transaction_waited"):
                each.result(LIMIT)
        waiting.shutdown()


def test_the_limits_can_be_set_from_outside() -> None:
    given = {"HORAE_CONNECT_TIMEOUT": "2s", "HORAE_HOT_TIMEOUT": "500ms", "HORAE_STATEMENT_TIMEOUT": "1m",
             "HORAE_SILENCE_TIMEOUT": "9", "HORAE_IDLE_TIMEOUT": "2m"}  # fmt: skip
    limits = Settings.read(given).timeouts

    assert [each.total_seconds() for each in (limits.connect, limits.hot, limits.statement)] == [2, 0.5, 60]
    assert [each.total_seconds() for each in (limits.silence, limits.idle)] == [9, 120]
    with refused(ConfigurationError, "timeout_too_short", name="hot"):
        _ = Settings.read({"HORAE_HOT_TIMEOUT": "0s"}).timeouts
