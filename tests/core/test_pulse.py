"""Marks: compared, carried by a reader that comes back, never trusted."""

import pytest

from horae.core.pulse import LONGEST, PARTS, changed_parts, mark, marks_from, marks_text

MARKS: dict[str, str] = {part: mark([part]) for part in PARTS}


def test_equal_values_have_equal_marks_and_others_do_not() -> None:
    assert mark([1, None]) == mark([1, None])
    assert mark([1, None]) != mark([1, 0])


def test_what_differs_is_named_in_the_order_of_the_parts() -> None:
    after = {**MARKS, "workers": "x", "jobs": "y"}
    assert changed_parts(MARKS, after) == ("jobs", "workers")
    assert changed_parts(MARKS, MARKS) == ()
    assert changed_parts({}, MARKS) == PARTS


def test_a_reader_that_comes_back_brings_its_marks() -> None:
    assert marks_from(marks_text(MARKS)) == MARKS
    assert len(marks_text(MARKS)) <= LONGEST


@pytest.mark.parametrize("text", [None, "", "12", "jobs", "kitchen=1", "jobs=1,kitchen=2", "jobs=" + "x" * LONGEST])
def test_what_is_not_ours_begins_anew(text: str | None) -> None:
    found = marks_from(text)
    assert found is None or found == {"jobs": ""}
