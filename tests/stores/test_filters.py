"""A filter finds in the tables exactly those jobs for which it holds, live and finished, on each database."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horae import Horae
from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.core.jobs.filters import AnyOf, Between, JobQuery, Text, holds, parse_filter
from horae.core.jobs.fingerprints import fingerprint
from horae.core.jobs.job import Filter
from horae.stores.schema import migrate
from horae.testing import VirtualClock
from horae.testing.builders import a_request
from tests.support.cases import cases
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url

BEGIN = datetime(2030, 1, 7, 12, 0, tzinfo=UTC)
WORDS = ["a", "b", "ab", "A", "a.b", "ä", "a%", "a_b", 'a"b', "a\\b"]
MINUTE = timedelta(minutes=1)


def fields_of(number: int) -> dict[str, Any]:
    """Return the values of one job; every word, queue, priority and object occurs."""
    word = WORDS[number % len(WORDS)]
    fields: dict[str, Any] = {
        "handler": f"h.{'abAx'[number % 4]}", "queue": ("mail", "sms")[number % 2],
        "tags": (word, WORDS[(number + 3) % len(WORDS)]), "key": f"{word}-{number}" if number % 5 else None,
        "priority": ("high", "medium", "low")[number % 3], "delay": number % 7 * MINUTE,
    }  # fmt: skip
    governed = {"object_type": "memory", "object_id": word, "action": "verify"}
    return fields | (governed if number % 4 == 0 else {})


@pytest.fixture
def app(database_url: str) -> Iterator[Horae]:
    """Forty jobs with all kinds of values: waiting, running, dead, cancelled, succeeded."""
    clock = VirtualClock(BEGIN)
    with Horae(database_url, clock=clock) as app:
        migrate(app.engine)
        for number in range(40):
            verbs.enqueue(app.world, a_request(**fields_of(number)))
            clock.advance(MINUTE / 2)
        clock.advance(10 * MINUTE)
        held = claims.pull(app.world, queues=["mail", "sms"], worker_id="w", limit=24)
        for number, job in enumerate(held[:18]):
            clock.advance(MINUTE)
            match number % 3:
                case 0:
                    endings.ack(app.world, job.id, job.token)
                case 1:
                    endings.fail(app.world, job.id, job.token, f"Timeout: {WORDS[number % 10]}", final=True)
                case 2:
                    endings.fail(app.world, job.id, job.token, f"Refused {WORDS[number % 10]}")
        for job in verbs.find(app.world, Filter(states=("queued",)), limit=3):
            verbs.cancel(app.world, job.id)
        yield app


def found(app: Horae, query: JobQuery) -> set[str]:
    return {job.id for job in verbs.find(app.world, Filter(terms=query.terms), limit=1000)}


def expected(app: Horae, query: JobQuery) -> set[str]:
    return {job.id for job in verbs.find(app.world, Filter(), limit=1000) if holds(query, job)}


texts = st.builds(Text, st.sampled_from([*WORDS, "h.a", "h.", "mail", "m", "Timeout", "a-", "memory"]), st.booleans())
words = st.builds(
    AnyOf, st.sampled_from(["queue", "handler", "tag", "key", "error", "owner"]),
    st.lists(texts, min_size=1, max_size=3).map(tuple), st.booleans(),
)  # fmt: skip
PRINTS = [fingerprint(f"h.{letter}", f"Timeout: {word}").hash for letter in "abA" for word in WORDS[:2]]
prints = st.builds(
    lambda mark, length, is_excluded: AnyOf("fingerprint", (Text(mark[:length], length < 32),), is_excluded),
    st.sampled_from(PRINTS), st.sampled_from([1, 32]), st.booleans(),
)  # fmt: skip
objects = st.builds(
    lambda word, is_prefix, is_excluded: AnyOf("object", (Text(word, is_prefix),), is_excluded),
    st.sampled_from(["memory", "mem", "memory/a", "memory/", "experience", *(f"memory/{word}" for word in WORDS)]),
    st.booleans(), st.booleans(),
)  # fmt: skip
choices = st.builds(
    lambda field_and_value, is_excluded: AnyOf(field_and_value[0], (Text(field_and_value[1]),), is_excluded),
    st.sampled_from(
        [("state", word) for word in ("queued", "running", "succeeded", "dead", "cancelled")]
        + [("priority", word) for word in ("high", "medium", "low")]
        + [("id", word) for word in ("job_1", "job_17", "job_999", "17", "job_x", "job_²")]
    ),
    st.booleans(),
)
start = round((BEGIN - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
spans = st.builds(
    lambda field, least, below, is_excluded: Between(
        field,
        None if least is None else start + least * 30_000_000,
        start + below * 30_000_000 if below is not None or least is not None else start,
        is_excluded,
    )
    if below is not None
    else Between(field, start + (least or 0) * 30_000_000, None, is_excluded),
    st.sampled_from(["created", "due", "ended"]), st.none() | st.integers(0, 60), st.none() | st.integers(0, 90),
    st.booleans(),
)  # fmt: skip
attempts = st.builds(
    lambda least, is_excluded: Between("attempt", least, None, is_excluded), st.integers(0, 3), st.booleans()
)
queries = st.lists(words | prints | objects | choices | spans | attempts, min_size=1, max_size=3).map(
    lambda terms: JobQuery(tuple(terms))
)


def test_the_tables_answer_as_the_filter_says(app: Horae) -> None:
    """Forty jobs are stored once and asked for often, because storing them is what takes time."""

    jobs = verbs.find(app.world, Filter(), limit=1000)

    @settings(max_examples=cases(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(queries)
    def agree(query: JobQuery) -> None:
        assert found(app, query) == {job.id for job in jobs if holds(query, job)}

    agree()


WRITTEN = [
    "state:dead", "-state:dead,cancelled", "tag:a_b", "tag:b", 'tag:"a\\"b"', "tag:a%", "error:Timeout -state:queued",
    "key:b-*", "object:memory/ab", "ended:>=2030-01-07T12:00:00Z", "-ended:>=2030-01-07", "attempt:>0",
    "priority:high queue:mail",
]  # fmt: skip


def test_what_people_write_finds_some_jobs_and_leaves_out_others(app: Horae) -> None:
    for text in WRITTEN:
        query = parse_filter(text, now=BEGIN)
        assert found(app, query) == expected(app, query), text
        assert 0 < len(found(app, query)) < 40, text
