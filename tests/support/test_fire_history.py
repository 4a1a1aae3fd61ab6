"""The judge of fires hears every kind of lie."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import micros
from tests.support.fire_history import FireRecord, Fires, complaints

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
UNTIL = NOON + 5 * SECOND
SCHEDULE = Schedule("s", "h", "every", "1", number=1, created_at=NOON, last_fire_at=UNTIL)


def ran(second: int) -> FireRecord:
    at = micros(NOON + second * SECOND)
    return FireRecord(at, None, 1, "ran", None, 10 + second, at + 5)


MERGED = FireRecord(micros(NOON + 2 * SECOND), micros(NOON + 4 * SECOND), 3, "merged", "misfire", None, micros(UNTIL))
TRUE = Fires(
    SCHEDULE,
    [ran(0), ran(1), MERGED, ran(5)],
    {10: [micros(NOON) + 9], 11: [micros(NOON + SECOND) + 9], 15: [micros(UNTIL) + 9, micros(UNTIL) + 99]},
)


def test_a_true_history_has_no_complaints() -> None:
    assert complaints(TRUE, UNTIL) == []


@pytest.mark.parametrize(
    ("lie", "word"),
    [
        (replace(TRUE, records=[ran(0), MERGED, ran(5)]), "gap"),
        (replace(TRUE, records=[ran(0), ran(0), ran(1), MERGED, ran(5)]), "double"),
        (replace(TRUE, records=[ran(0), ran(1), replace(MERGED, count=2), ran(5)]), "gap"),
        (replace(TRUE, records=[ran(0), ran(1), MERGED]), "untold"),
        (replace(TRUE, records=[ran(0), ran(1), MERGED, replace(ran(5), job_id=11)]), "shared"),
        (replace(TRUE, records=[ran(0), ran(1), MERGED, replace(ran(5), job_id=None)]), "job"),
        (replace(TRUE, starts={**TRUE.starts, 15: []}), "never run"),
        (replace(TRUE, starts={**TRUE.starts, 99: [1]}), "orphan"),
        (replace(TRUE, starts={**TRUE.starts, 15: [micros(UNTIL) - 1]}), "early"),
        (replace(TRUE, records=[*TRUE.records[:3], replace(ran(5), recorded_at=micros(UNTIL) - 1)]), "early"),
    ],
)
def test_a_lie_is_heard(lie: Fires, word: str) -> None:
    assert any(word in complaint for complaint in complaints(lie, UNTIL))
