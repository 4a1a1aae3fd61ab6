"""New jobs in SQLite, one or many at once. The only writer draws consecutive numbers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.job import NewJob
from horae.stores.databases.driver import Driver, marks
from horae.stores.tables.jobs import INSERT_COLUMNS, given_values, new_job_row, shared_row

INSERT = f"INSERT INTO horae_jobs ({', '.join(INSERT_COLUMNS)}) VALUES ({marks(len(INSERT_COLUMNS))})"
HAS_JSON = sqlite3.sqlite_version_info >= (3, 38)  # from then on it is a part of SQLite


def insert_jobs(driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
    """Insert jobs without names; return their numbers, in order."""
    if len(jobs) == 1:
        return [int(driver.connection.execute(*insert_one(jobs[0], now)).lastrowid)]
    if type(jobs) is AlikeJobs and HAS_JSON:
        given = shared_row(jobs.shared, now)
        driver.change(_insert_alike(tuple(given)), [*given.values(), json.dumps(jobs.payloads, ensure_ascii=False)])
    else:
        driver.many(INSERT, [new_job_row(job, now) for job in jobs])
    [(last,)] = driver.rows("SELECT last_insert_rowid()")
    return list(range(last - len(jobs) + 1, last + 1))


def insert_one(job: NewJob, now: datetime) -> tuple[str, list[Any]]:
    """Return the statement that inserts a job, with its values."""
    given, values = given_values(job, now)
    return _insert_given(given), values


@lru_cache(maxsize=256)
def _insert_given(given: tuple[str, ...]) -> str:
    return f"INSERT INTO horae_jobs ({', '.join(given)}, state) VALUES ({'?, ' * len(given)}'queued')"


@lru_cache(maxsize=64)
def _insert_alike(given: tuple[str, ...]) -> str:
    """Return the SQL that inserts a job for each payload of an array; all else is given once, and NULL not at all.

    With a parameter for every value of every job, binding them took most of the time of a bulk enqueue.
    """
    return f"INSERT INTO horae_jobs ({', '.join(given)}, payload) SELECT {marks(len(given))}, value FROM json_each(%s)"
