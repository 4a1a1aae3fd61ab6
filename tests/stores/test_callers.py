"""Enqueueing inside the caller's own transaction: if it rolls back, the job never existed."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from horae.errors import KeyConflict, StoreBusy
from horae.ports.jobs import Placed
from horae.stores.databases.sqlite import prepare_sqlite
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import put, take
from tests.stores.conftest import KINDS
from tests.support.refusals import refused

ASYNC_DRIVERS = {
    "sqlite": ["sqlite+aiosqlite"],
    "postgresql": ["postgresql+psycopg_async", "postgresql+asyncpg"],
    "mysql": ["mysql+aiomysql"],
}
SERVERS = pytest.mark.parametrize("store_url", KINDS[1:], indirect=True)  # a writer of SQLite is alone
ONLY_SQLITE = pytest.mark.parametrize("store_url", KINDS[:1], indirect=True)  # elsewhere writers do not wait
KEYS = pytest.mark.parametrize("key", [None, "k"], ids=["plain", "keyed"])


@pytest.fixture
def theirs(store: SqlStore, store_url: str) -> Iterator[Engine]:
    """The application's own engine on the same database, made in its own way."""
    engine = create_engine(store_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS orders"))
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    yield engine
    engine.dispose()


def order_and_enqueue(connection: Connection, store: SqlStore, key: str | None) -> list[Placed]:
    connection.execute(text("INSERT INTO orders VALUES (1)"))
    jobs = [a_new_job({"n": place}, key=key and f"{key}{place}") for place in range(3)]
    return store.insert_on(connection, jobs, now=NOON)


def left(store: SqlStore, engine: Engine) -> tuple[int, int]:
    with engine.connect() as connection:
        orders = connection.execute(text("SELECT COUNT(*) FROM orders")).scalar_one()
        keys = connection.execute(text("SELECT COUNT(*) FROM horae_keys")).scalar_one()
    assert keys in (0, 3)
    return orders, len(take(store))


@KEYS
def test_a_connection_that_commits_brings_the_jobs(store: SqlStore, theirs: Engine, key: str | None) -> None:
    with theirs.begin() as connection:
        order_and_enqueue(connection, store, key)

    assert left(store, theirs) == (1, 3)


@KEYS
def test_a_connection_that_rolls_back_brings_nothing(store: SqlStore, theirs: Engine, key: str | None) -> None:
    with theirs.connect() as connection:
        order_and_enqueue(connection, store, key)
        connection.rollback()

    assert left(store, theirs) == (0, 0)


@KEYS
def test_a_session_that_commits_brings_the_jobs(store: SqlStore, theirs: Engine, key: str | None) -> None:
    with Session(theirs) as session:
        order_and_enqueue(session.connection(), store, key)
        session.commit()

    assert left(store, theirs) == (1, 3)


@KEYS
def test_a_session_that_rolls_back_brings_nothing(store: SqlStore, theirs: Engine, key: str | None) -> None:
    with Session(theirs) as session:
        order_and_enqueue(session.connection(), store, key)
        session.rollback()

    assert left(store, theirs) == (0, 0)


def async_urls(url: str) -> list[str]:
    kind, _, rest = url.partition("://")
    return [f"{driver}://{rest}" for driver in ASYNC_DRIVERS[kind.partition("+")[0]]]


@pytest.fixture(params=[0, 1], ids=["first driver", "second driver"])
async def asynchronous(request: pytest.FixtureRequest, store_url: str) -> AsyncIterator[AsyncEngine]:
    urls = async_urls(store_url)
    if request.param >= len(urls):
        pytest.skip("this database has one asynchronous driver")
    engine = create_async_engine(urls[request.param])
    yield engine
    await engine.dispose()


@KEYS
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
async def test_an_async_session_decides_too(
    store: SqlStore, theirs: Engine, asynchronous: AsyncEngine, key: str | None, commits: bool
) -> None:
    async with AsyncSession(asynchronous) as session:
        await session.run_sync(lambda inner: order_and_enqueue(inner.connection(), store, key))
        await (session.commit() if commits else session.rollback())

    assert left(store, theirs) == ((1, 3) if commits else (0, 0))


def test_a_job_is_invisible_until_the_caller_commits(store: SqlStore, theirs: Engine) -> None:
    with theirs.connect() as connection:
        order_and_enqueue(connection, store, None)
        with store.engine.connect() as other:
            seen = other.execution_options(horae_reading=True).execute(text("SELECT COUNT(*) FROM horae_jobs")).scalar()
        connection.commit()

    assert seen == 0


@SERVERS
def test_a_key_taken_after_the_callers_first_look_is_still_known(store: SqlStore, theirs: Engine) -> None:
    """MariaDB's default isolation shows a caller the past; its insert must not make a second job all the same."""
    with theirs.connect() as connection:
        connection.execute(text("SELECT COUNT(*) FROM horae_keys")).scalar()
        [first] = put(store, a_new_job(key="k", request_hash="h"))
        [placed] = store.insert_on(connection, [a_new_job(key="k", request_hash="h")], now=NOON)
        connection.commit()

    assert placed == Placed(first, deduplicated=True, request_hash="h")
    assert len(take(store)) == 1


@SERVERS
def test_a_conflict_found_late_leaves_nothing_in_the_callers_transaction(store: SqlStore, theirs: Engine) -> None:
    with theirs.connect() as connection:
        connection.execute(text("SELECT COUNT(*) FROM horae_keys")).scalar()
        put(store, a_new_job(key="k", request_hash="h"))
        with pytest.raises(KeyConflict):
            store.insert_on(connection, [a_new_job(), a_new_job(key="k", request_hash="other")], now=NOON)
        connection.commit()

    assert len(take(store)) == 1


@ONLY_SQLITE
def test_a_caller_inside_our_transaction_is_told_to_join_it(store: SqlStore) -> None:
    """On SQLite the thread would wait for itself."""

    def enqueue_inside(_: Any) -> None:
        put(store, a_new_job())

    with refused(StoreBusy, "transaction_nested"):
        store.transact(enqueue_inside)


@ONLY_SQLITE
def test_a_callers_engine_can_be_prepared_to_queue_up(store: SqlStore, store_url: str) -> None:
    engine = prepare_sqlite(create_engine(store_url))

    with engine.begin() as connection:
        modes = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "busy_timeout")]
        store.insert_on(connection, [a_new_job()], now=NOON)

    assert modes == ["wal", 30_000]
    assert len(take(store)) == 1
    engine.dispose()
