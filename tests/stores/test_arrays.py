"""Array literals are quoted by us: whatever a job says must arrive as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from horae.core.jobs.batches import AlikeJobs
from horae.errors import StoreError
from horae.stores.databases.arrays import arrays
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from tests.stores.conftest import opened
from tests.support.copied import postgres_database_url as postgres_database_url

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
def store(postgres_database_url: str) -> Iterator[SqlStore]:
    store = opened(postgres_database_url)
    yield store
    store.close()


@pytest.mark.server
@pytest.mark.parametrize("together", [len(HOSTILE), 2], ids=["all different", "alike"])
def test_hostile_text_comes_back_as_it_was(store: SqlStore, together: int) -> None:
    texts = [text for text in HOSTILE for _ in range(1 if together > 2 else 2)]
    for start in range(0, len(texts), together):
        batch = texts[start : start + together]
        store.insert([a_new_job(payload={"text": text}, tags=(f"t{text}",)) for text in batch], now=NOON)

    found = store.read(lambda tx: [tx.jobs.get(number) for number in range(1, len(texts) + 1)])

    assert [job and (job.payload["text"], job.tags) for job in found] == [(text, (f"t{text}",)) for text in texts]


@pytest.mark.server
def test_a_piece_that_the_server_refuses_undoes_the_whole_batch(store: SqlStore) -> None:
    """The pieces are sent without waiting for answers; the last of these three is stored by none."""
    payloads = ['{"n":1}'] * 2_500 + ["no JSON"]

    with pytest.raises(StoreError):
        store.insert(AlikeJobs(a_new_job(), payloads), now=NOON)

    assert store.read(lambda tx: tx.jobs.counts(None, None, now=NOON)) == {}
    assert len(store.insert(AlikeJobs(a_new_job(), payloads[:-1]), now=NOON)) == 2_500
