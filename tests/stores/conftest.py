"""An open store of each kind, empty, for each test.

A database of its own costs a server a second; so the tests of one module share one, which is emptied before each, and
modules hand it on to each other.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from tests.support.prepared import Prepared, delete_rows
from tests.support.templates import put_tables

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.server), pytest.param("mysql", marks=pytest.mark.server)]


def opened(url: str) -> SqlStore:
    """A store with its tables, as an application opens it."""
    engine = create_store_engine(url)
    migrate(engine)
    return open_store(engine)


def empty(store: SqlStore) -> None:
    with store.engine.begin() as connection:
        delete_rows(connection)


@pytest.fixture(scope="module")
def shared_postgres_url(prepared_postgres: Prepared) -> Iterator[str]:
    with prepared_postgres.lend() as url:
        yield url


@pytest.fixture(scope="module")
def shared_mysql_url(prepared_mysql: Prepared) -> Iterator[str]:
    with prepared_mysql.lend() as url:
        yield url


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest) -> str:
    """A database of each kind in turn, whose tables are there and empty."""
    return url_of(request.param, request)


def url_of(kind: str, request: pytest.FixtureRequest) -> str:
    """A database of one kind, with its tables, which are empty."""
    if kind == "sqlite":
        return put_tables(request.getfixturevalue("tmp_path") / "horae.db")
    url: str = request.getfixturevalue(f"shared_{kind}_url")
    prepared: Prepared = request.getfixturevalue(f"prepared_{kind}")
    prepared.empty(url)
    return url


@pytest.fixture
def open_another(store_url: str) -> Iterator[Callable[[], SqlStore]]:
    """Open the same database again, as another process would."""
    with ExitStack() as ending:

        def open_it() -> SqlStore:
            store = open_store(create_store_engine(store_url))
            ending.callback(store.close)
            return store

        yield open_it


@pytest.fixture
def store(open_another: Callable[[], SqlStore]) -> SqlStore:
    return open_another()
