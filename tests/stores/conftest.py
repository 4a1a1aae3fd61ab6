"""An open store of each kind, empty, for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

pytest.register_assert_rewrite("horae.testing")

from horae.stores.opening import create_store_engine, open_store  # noqa: E402
from horae.stores.schema import migrate  # noqa: E402
from horae.stores.store import SqlStore  # noqa: E402


def opened(url: str) -> SqlStore:
    """A store with its tables, as an application opens it."""
    engine = create_store_engine(url)
    migrate(engine)
    return open_store(engine)


@pytest.fixture
def open_another(database_url: str) -> Iterator[Callable[[], SqlStore]]:
    """Open the same database again, as another process would."""
    with ExitStack() as closing:

        def open_it() -> SqlStore:
            store = opened(database_url)
            closing.callback(store.close)
            return store

        yield open_it
