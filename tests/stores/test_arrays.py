"""Array literals are quoted by us: whatever a job says must arrive as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from horae.stores.databases.arrays import arrays
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from tests.stores.conftest import opened
from tests.support.servers import PostgresServer

HOSTILE = (
    "",
    '"',
    "\\",
    '\\"',
    "{}",
    "{,}",
    "a,b",
    "NULL",
    "null",
    " ",
    "\t",
    "\n",
    "'",
    "%s",
    "é",
    "行",
    "\U0001f600",
    '{"a": "\\\\"}',
)


def test_a_column_of_nothing_is_null() -> None:
    assert arrays([(1, None), (2, None)]) == ["{1,2}", None]


def test_only_what_is_null_is_null() -> None:
    assert arrays([(1, None), (2, "NULL")])[1] == '{NULL,"NULL"}'


@pytest.fixture
def store(postgres_server: PostgresServer) -> Iterator[SqlStore]:
    url = postgres_server.create_database()
    store = opened(url)
    yield store
    store.close()
    postgres_server.release_database(url)


@pytest.mark.server
@pytest.mark.parametrize("together", [len(HOSTILE), 2], ids=["all different", "alike"])
def test_hostile_text_comes_back_as_it_was(store: SqlStore, together: int) -> None:
    texts = [text for text in HOSTILE for _ in range(1 if together > 2 else 2)]
    for start in range(0, len(texts), together):
        batch = texts[start : start + together]
        store.insert([a_new_job(payload={"text": text}, tags=(f"t{text}",)) for text in batch], now=NOON)

    found = store.read(lambda tx: [tx.jobs.get(number) for number in range(1, len(texts) + 1)])

    assert [job and (job.payload["text"], job.tags) for job in found] == [(text, (f"t{text}",)) for text in texts]
