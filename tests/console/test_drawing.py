"""The band of time: what is past is solid and left of the now line, what comes is hollow and right of it."""

import re
from datetime import timedelta
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from horae.console import series
from horae.console.drawing import Shape, Size, Window, band, strip
from horae.testing.clock import NOON

HOUR = timedelta(hours=1)
DAY = Window(NOON - 12 * HOUR, NOON + 12 * HOUR, NOON)


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def test_now_is_where_past_and_future_meet() -> None:
    assert (DAY.x(NOON), DAY.x(NOON - 12 * HOUR), DAY.x(NOON + 12 * HOUR), DAY.x(NOON - 24 * HOUR)) == (50, 0, 100, 0)
    (line,) = [each for each in parsed(band(DAY, [], name="a day")) if each.get("class") == "now"]
    assert (line.get("x1"), line.get("x2")) == ("50%", "50%")


def test_what_comes_is_hollow() -> None:
    shapes = [Shape(NOON - HOUR, NOON, "done"), Shape(NOON + HOUR, NOON + 2 * HOUR, "fire")]
    classes = [each.get("class") for each in parsed(band(DAY, shapes, name="a day")) if each.tag == "rect"]
    assert classes == ["done", "fire ahead"]


def test_failures_go_up_and_the_rest_goes_down() -> None:
    shapes = [Shape(NOON, NOON + HOUR, "failed", side="up"), Shape(NOON, NOON + HOUR, "done", side="down")]
    picture = parsed(band(DAY, shapes, name="a day", size=Size(40, 60)))
    base = float(next(each for each in picture if each.get("class") == "base").get("y1", "0"))
    up, down = (float(each.get("y", "0")) for each in picture if each.tag == "rect")
    assert up < base < down


def test_what_took_no_time_is_still_seen() -> None:
    picture = parsed(band(DAY, [Shape(NOON, None, "failed", side="up", level=0.0)], name="a day"))
    (rect,) = [each for each in picture if each.tag == "rect"]
    assert float(rect.get("width", "0%").rstrip("%")) > 0
    assert float(rect.get("height", "0")) >= 3


@pytest.mark.parametrize("hours", [0.0001, 0.01, 0.5, 3, 24, 24 * 14, 24 * 400])
def test_the_scale_has_a_few_round_marks_at_any_length(hours: float) -> None:
    window = Window(NOON - hours * HOUR, NOON, NOON)
    assert 1 <= len(window.marks()) <= 10


def test_the_scale_stands_on_round_hours_of_the_readers_clock() -> None:
    window = Window(NOON - 12 * HOUR, NOON + 12 * HOUR, NOON, ZoneInfo("Asia/Kolkata"))
    assert all(label.endswith(":00") for _, label in window.marks())


def test_names_and_titles_are_text() -> None:
    picture = band(DAY, [Shape(NOON, None, "done", title="<script>")], name='"><b>')
    assert "<script>" not in picture
    assert parsed(picture).get("aria-label") == '"><b>'


def test_no_picture_has_a_style_of_its_own() -> None:
    picture = band(DAY, [Shape(NOON, None, "done")], name="x") + strip([("done", "a"), ("dead", "b")], name="y")
    assert not re.search(r"style=|fill=|stroke=|#[0-9a-f]{3}", picture)


def test_a_strip_shows_the_last_results_with_the_newest_at_the_right() -> None:
    results = [("done", str(number)) for number in range(25)] + [("dead", "last")]
    rects = list(parsed(strip(results, name="results")))
    assert len(rects) == 20
    assert rects[-1][0].text == "last"
    assert float(rects[0].get("x", "0")) < float(rects[-1].get("x", "0"))


def test_bars_collect_what_falls_into_them() -> None:
    found = series.collect(NOON, NOON + 2 * HOUR, HOUR, [NOON, NOON + HOUR, NOON + 3 * HOUR], lambda at: at)
    assert [len(each) for each in found] == [1, 1]
    assert series.level(0, 10) == 0
    assert series.level(10, 10) == 1
    assert series.level(3, 0) == 0
