"""The shipped suite on our own stores: C-33, the same contract for each."""

from collections.abc import Iterator

import pytest

from horae.stores.store import SqlStore
from horae.testing.conformance import StoreConformance
from tests.support.templates import open_in_memory


class TestSqliteInMemory(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        store = open_in_memory()
        yield store
        store.close()


@pytest.mark.slow
class TestEachDatabase(StoreConformance):
    """With the fixture ``store`` of this folder: a SQLite file, PostgreSQL, MariaDB."""
