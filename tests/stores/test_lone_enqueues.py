"""One job at a time, the way most jobs come: one statement that is its own transaction, on every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from horae.core.jobs.payloads import encode
from horae.stores.databases.postgres import PostgresStore
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import read_job

LARGE = {"text": "große Fracht, 大货 " * 40_000}  # more than a socket takes at once


def test_a_large_job_is_stored_as_it_is(store: SqlStore) -> None:
    [placed] = store.insert([replace(a_new_job(), payload=encode(LARGE))], now=NOON)

    assert read_job(store, placed.number).payload == LARGE


def test_what_most_jobs_leave_as_it_is_can_be_given(store: SqlStore) -> None:
    job = a_new_job(handler="Ärzte", concurrency_key="c%s:$1", concurrency_limit=7)
    job = replace(job, timeout=timedelta(seconds=9), tags=encode(["a"]), trace_id="t", has_dependents=True)

    [placed] = store.insert([job], now=NOON)

    found = read_job(store, placed.number)
    assert (found.handler, found.concurrency_key, found.timeout) == ("Ärzte", "c%s:$1", timedelta(seconds=9))
    assert (found.tags, found.trace_id, found.has_dependents, found.state) == (("a",), "t", True, "queued")


def test_statements_are_not_prepared_where_a_pooler_could_not_keep_them(store: SqlStore) -> None:
    if not isinstance(store, PostgresStore):
        pytest.skip("only PostgreSQL has such poolers")
    with store.direct() as connection:
        connection.prepare_threshold = None

    [first] = store.insert([a_new_job(1)], now=NOON)
    [second] = store.insert([a_new_job(2)], now=NOON)

    assert [read_job(store, each.number).payload for each in (first, second)] == [1, 2]
    with store.direct() as connection:
        assert connection.prepare_threshold is None
        assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
