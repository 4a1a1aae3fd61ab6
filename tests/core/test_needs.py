"""What needs a person: the worst first, in two languages, with where to look."""

from typing import Any

import pytest

from horae.actions.overview import Overview
from horae.core.jobs.filters import parse_filter
from horae.core.needs import MOST, health_of, needs_of
from horae.testing.clock import NOON

NOTHING: dict[str, Any] = {
    "at": NOON, "running": 0, "due": 0, "late": 0, "dead": 0, "stuck": 0, "workers": 1, "unserved": (), "paused": (),
    "overdue_schedules": (), "missed_schedules": (), "missed_jobs": (), "inactive_schedules": (), "new_errors": (),
    "confirmations": 0, "reviews": 0, "has_jobs": True,
}  # fmt: skip
ALL = {
    "late": 3, "dead": 2, "stuck": 1, "unserved": ("mail",), "paused": ("sms",), "overdue_schedules": ("nightly",),
    "missed_schedules": ("daily",), "missed_jobs": ("job_7",), "inactive_schedules": ("gone",), "confirmations": 4, "reviews": 5,
}  # fmt: skip


def seen(**values: Any) -> Overview:
    return Overview(**{**NOTHING, **values})


def test_nothing_needs_a_person_where_all_is_well() -> None:
    well, ready = seen(), seen(has_jobs=False)

    assert (well.needs, well.health.code) == ((), "well")
    assert (ready.health.code, ready.health.text) == ("ready", "Ready; nothing has run yet.")


def test_the_worst_comes_first_and_each_says_where_to_look() -> None:
    needs = needs_of(seen(**ALL))

    assert [each.why.code for each in needs] == [
        "unserved", "stuck", "overdue", "missed", "missed", "dead", "inactive", "confirmations", "reviews", "paused"
    ]  # fmt: skip
    assert {each.level for each in needs} == {"problem", "question", "warning"}
    for each in needs:
        if each.room == "jobs":
            parse_filter(each.filter, now=NOON)


def test_late_jobs_are_told_where_their_queues_are_served() -> None:
    assert [each.why.code for each in needs_of(seen(late=3))] == ["late"]


@pytest.mark.parametrize(
    ("values", "code", "text"),
    [
        ({"paused": ("a",)}, "needs_you", "One thing needs you."),
        ({"dead": 1, "late": 1}, "trouble", "2 things need you."),
    ],
)
def test_health_is_one_sentence(values: dict[str, Any], code: str, text: str) -> None:
    health = seen(**values).health
    assert (health.code, health.text) == (code, text)


def test_every_need_has_words_in_both_languages() -> None:
    for each in needs_of(seen(**ALL)):
        assert each.why.in_words("en").endswith(".")
        assert each.why.in_words("zh").endswith("。")


def test_a_count_beyond_the_limit_says_more() -> None:
    [need] = needs_of(seen(dead=MOST + 1))
    assert need.why.text == "Jobs that failed for good: 10,000+."


def test_health_follows_from_the_needs_given() -> None:
    assert health_of(seen(), ()).code == "well"
