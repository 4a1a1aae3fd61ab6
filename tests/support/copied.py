"""Databases that have their tables already, for tests that change more than rows: partitions, walls between tenants.

No other test gets such a database; for rows alone, `tests.support.prepared` is cheaper.
"""

from collections.abc import Iterator

import pytest

from tests.support.prepared import Prepared


@pytest.fixture
def postgres_database_url(prepared_postgres: Prepared) -> Iterator[str]:
    url = prepared_postgres.copy()
    yield url
    prepared_postgres.server.drop_database(url)
