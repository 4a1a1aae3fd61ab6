"""The shipped suite on our own stores: C-33, the same contract for each."""

from collections.abc import Iterator

import pytest

from horae.stores.store import SqlStore
from horae.testing.conformance import StoreConformance
from tests.stores.conftest import opened


class TestSqliteInMemory(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        store = opened("sqlite://")
        yield store
        store.close()


class TestSqlite(StoreConformance):
    @pytest.fixture
    def store(self, sqlite_database_url: str) -> Iterator[SqlStore]:
        store = opened(sqlite_database_url)
        yield store
        store.close()


class TestPostgres(StoreConformance):
    @pytest.fixture
    def store(self, postgres_database_url: str) -> Iterator[SqlStore]:
        store = opened(postgres_database_url)
        yield store
        store.close()


class TestMysql(StoreConformance):
    @pytest.fixture
    def store(self, mysql_database_url: str) -> Iterator[SqlStore]:
        store = opened(mysql_database_url)
        yield store
        store.close()
