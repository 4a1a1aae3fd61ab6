"""How a schedule stands, and why it does not fire."""

from datetime import timedelta
from typing import Any

import pytest

from horae.core.schedules.schedule import Schedule
from horae.core.schedules.status import schedule_status, why_silent
from horae.testing.clock import NOON

LATER = NOON + timedelta(hours=1)


def a_schedule(**fields: Any) -> Schedule:
    given: dict[str, Any] = {"kind": "cron", "expression": "0 13 * * *", "next_fire_at": LATER, "next_due_at": LATER}
    return Schedule(key="digest", handler="digest", **(given | fields))


def test_a_schedule_that_will_fire_has_nothing_to_excuse() -> None:
    assert schedule_status(a_schedule()) == "active"
    assert why_silent(a_schedule(), NOON) == ()


@pytest.mark.parametrize(
    ("fields", "word", "code", "said"),
    [
        ({"enabled": False, "sources": {"enabled": "file"}}, "disabled", "disabled", "by file"),
        ({"inactive": "no longer declared in code"}, "inactive", "inactive", "no longer declared"),
        ({"paused_at": NOON, "paused_by": "ada", "pause_reason": "moving"}, "paused", "paused", "by ada at"),
        ({"kind": "after", "expression": "", "after": ("load",)}, "follows", "follows", "after load succeeded"),
        ({"mode": "ALL_NODES"}, "local", "local", "timer of its own"),
        ({"max_fires": 3, "fire_count": 3}, "ended", "spent", "3 of at most 3"),
        ({"kind": "once", "expression": "2020-01-01T00:00:00Z"}, "ended", "passed", "2020-01-01"),
        ({"kind": "every", "expression": "60", "anchor": "finish"}, "resting", "resting", "end of its job"),
        ({"ends_at": NOON}, "ended", "ended", "no fire is left before that"),
        ({}, "ended", "ended", "no fire is left"),
    ],
)
def test_a_silent_schedule_says_why(fields: dict[str, Any], word: str, code: str, said: str) -> None:
    silent = a_schedule(**({"next_fire_at": None, "next_due_at": None} | fields))
    (reason,) = why_silent(silent, NOON)

    assert schedule_status(silent) == word
    assert reason.code == code
    assert said in reason.text


def test_every_reason_is_told_the_strongest_first() -> None:
    silent = a_schedule(enabled=False, inactive="unknown handler", paused_at=NOON, next_fire_at=None)

    assert [reason.code for reason in why_silent(silent, NOON)] == ["inactive", "disabled", "paused"]
    assert schedule_status(silent) == "inactive"


def test_one_that_nobody_fires_says_since_when_it_is_due() -> None:
    (reason,) = why_silent(a_schedule(next_due_at=NOON - timedelta(hours=1)), NOON)

    assert reason.code == "due"


def test_one_that_has_just_come_due_blames_nobody() -> None:
    assert why_silent(a_schedule(next_due_at=NOON - timedelta(seconds=1)), NOON) == ()


def test_one_that_begins_later_says_when() -> None:
    (reason,) = why_silent(a_schedule(starts_at=LATER), NOON)

    assert reason.code == "not_yet"
