"""The filter language: what it reads, what it means, and where it says a mistake stands."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.jobs.filters import FIELDS, LONGEST, AnyOf, Between, JobQuery, Text, holds, narrow, parse_filter
from horae.core.jobs.job import Filter
from horae.errors import InvalidFilter
from horae.testing.builders import a_job
from tests.support.refusals import refused

NOW = datetime(2030, 1, 7, 12, 0, tzinfo=UTC)
JOB = replace(
    a_job(),
    queue="mail", handler="mail.send", tags=("vip", "eu"), last_error="TimeoutError: no answer in 30 s",
    object_type="memory", object_id="m1", attempt=2, created_at=NOW - timedelta(hours=5), run_at=NOW,
)  # fmt: skip


def parsed(text: str, zone: str = "UTC") -> JobQuery:
    return parse_filter(text, now=NOW, zone=zone)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("queue:mail", True),
        ("queue:sms", False),
        ("-queue:sms", True),
        ("-queue:mail", False),
        ("queue:sms,mail", True),
        ("-queue:sms,mail", False),
        ("queue:ma*", True),
        ("queue:mail handler:mail.*", True),
        ("queue:mail handler:sms.*", False),
        ("state:queued", True),
        ("-state:dead,cancelled", True),
        ("tag:vip tag:eu", True),
        ("tag:vip -tag:eu", False),
        ("error:Timeout", True),
        ('error:"no answer"', True),
        ("error:Refused", False),
        ("object:memory", True),
        ("object:memory/m1", True),
        ("object:memory/m2", False),
        ("priority:high,low", False),
        ("attempt:2", True),
        ("attempt:>2", False),
        ("attempt:>=2", True),
        ("attempt:1..3", True),
        ("attempt:<2", False),
        ("attempt:<=2", True),
        ("created:>-6h", True),
        ("created:>-4h", False),
        ("created:2030-01-07", True),
        ("created:2030-01-01..2030-01-06", False),
        ("created:<2030-01-07T07:00:00Z", False),
        ("created:<=2030-01-07T07:00:00Z", True),
        ("due:<=now", True),
        ("due:>now", False),
        ("due:<+1m", True),
        ("ended:>-7d", False),
        ("-ended:>-7d", True),
    ],
)
def test_a_filter_means_what_it_says(text: str, fits: bool) -> None:
    assert holds(parsed(text), JOB) is fits


def test_a_term_without_a_value_in_the_job_does_not_hold() -> None:
    bare = replace(JOB, last_error=None, object_type=None, object_id=None, key=None)
    assert not holds(parsed("error:x"), bare)
    assert not holds(parsed("object:memory"), bare)
    assert holds(parsed("-key:k"), bare)


def test_a_date_is_a_day_of_the_readers_zone() -> None:
    (term,) = parsed("created:2030-01-07", "Asia/Shanghai").terms
    assert str(term) == "created:2030-01-06T16:00:00Z..2030-01-07T15:59:59.999999Z"


def test_a_day_that_skips_midnight_begins_with_its_first_instant() -> None:
    (term,) = parsed("created:>=2018-11-04", "America/Sao_Paulo").terms
    assert str(term) == "created:>=2018-11-04T03:00:00Z"


def test_relative_times_are_fixed_when_a_filter_is_read() -> None:
    assert str(parsed("ended:>=-2h queue:a")) == "ended:>=2030-01-07T10:00:00Z queue:a"


@pytest.mark.parametrize(
    ("text", "position", "reason", "facts"),
    [
        ("mail", 1, "filter_term_unreadable", {"found": "mail"}),
        ("queue:a mail", 9, "filter_term_unreadable", {"found": "mail"}),
        ("-", 1, "filter_term_unreadable", {"found": "-"}),
        ("Queue:a", 1, "filter_term_unreadable", {"found": "Queue:a"}),
        ("quue:a", 1, "filter_field_unknown", {"field": "quue"}),
        ("-quue:a", 2, "filter_field_unknown", {"field": "quue"}),
        ("queue:", 7, "filter_value_missing", {"field": "queue"}),
        ("queue:a,", 9, "filter_value_missing", {"field": "queue"}),
        ('queue:""', 7, "filter_value_missing", {"field": "queue"}),
        ("queue:*", 7, "filter_value_missing", {"field": "queue"}),
        ("ended:", 7, "filter_value_missing", {"field": "ended"}),
        ("ended:>", 7, "filter_value_missing", {"field": "ended"}),
        ('error:"no end', 7, "filter_quote_open", {}),
        ("queue:a*b", 9, "filter_sign_unexpected", {"found": "b"}),
        ('queue:a"b"', 8, "filter_sign_unexpected", {"found": '"'}),
        ("state:done", 7, "filter_choice_unknown", {"field": "state", "found": "done"}),
        ("state:dead,de*", 12, "filter_choice_unknown", {"field": "state", "found": "de*"}),
        ("attempt:many", 9, "filter_number_unreadable", {"found": "many"}),
        ("attempt:1..x", 12, "filter_number_unreadable", {"found": "x"}),
        ("attempt:>-1", 10, "filter_number_unreadable", {"found": "-1"}),
        ("attempt:5..1", 9, "filter_range_empty", {"found": "5..1"}),
        ("ended:yesterday", 7, "filter_time_unreadable", {"found": "yesterday"}),
        ("ended:2030-02-30", 7, "filter_time_unreadable", {"found": "2030-02-30"}),
        ("ended:>2030-01-07T06:00", 8, "filter_time_unreadable", {"found": "2030-01-07T06:00"}),
        ("ended:-999999999w", 7, "filter_time_unreadable", {"found": "-999999999w"}),
        ("ended:9999-12-31", 7, "filter_time_unreadable", {"found": "9999-12-31"}),
        ("queue:" + ",".join("a" * 51), 107, "filter_values_too_many", {"count": 51}),
        ("queue:a " * 21, 1, "filter_terms_too_many", {"count": 21}),
        ("x" * (LONGEST + 1), 1, "filter_too_long", {"most": LONGEST}),
    ],
)
def test_a_mistake_is_refused_with_its_position(text: str, position: int, reason: str, facts: dict[str, Any]) -> None:
    with refused(InvalidFilter, reason, position=position, **facts):
        parsed(text)


texts = st.builds(Text, st.text(min_size=1, max_size=20), st.booleans())
free = [name for name, kind in FIELDS.items() if kind == "text"]
any_of = st.builds(AnyOf, st.sampled_from(free), st.lists(texts, min_size=1, max_size=3).map(tuple), st.booleans())
between = st.builds(
    lambda field, low, span, is_excluded, form: Between(
        field, None if form == "below" else low, None if form == "least" else low + 1 + span, is_excluded
    ),
    st.just("attempt"), st.integers(0, 10**8), st.integers(0, 10**8), st.booleans(),
    st.sampled_from(["both", "least", "below"]),
)  # fmt: skip
moments = st.integers(0, 7_000_000_000_000_000)  # microseconds: into the year 2191
times = st.builds(
    lambda field, low, span: Between(field, low, low + 1 + span),
    st.sampled_from(["created", "due", "ended"]), moments, st.integers(0, 10**15),
)  # fmt: skip


@given(st.lists(any_of | between | times, max_size=8).map(tuple))
def test_a_filter_that_is_written_back_reads_the_same(terms: tuple[Any, ...]) -> None:
    query = JobQuery(terms)
    assert parsed(str(query)) == query


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_is_refused_within_its_bounds(text: str) -> None:
    try:
        parsed(text)
    except InvalidFilter as problem:
        refusal = problem
    else:
        return
    assert isinstance(position := refusal.facts["position"], int)
    assert 1 <= position <= len(text) + 1
    assert str(refusal)


def test_a_filter_uses_the_fields_that_tables_are_indexed_by() -> None:
    wanted = narrow(Filter(), parsed("queue:mail state:dead,queued owner:t1 tag:vip handler:a* -key:k"))
    assert (wanted.queue, wanted.states, wanted.owner, wanted.handler) == ("mail", ("dead", "queued"), "t1", None)
    assert [str(term) for term in wanted.terms] == ["tag:vip", "handler:a*", "-key:k"]


def test_what_is_said_twice_must_hold_twice() -> None:
    wanted = narrow(Filter(queue="sms"), parsed("queue:mail"))
    assert (wanted.queue, [str(term) for term in wanted.terms]) == ("sms", ["queue:mail"])
