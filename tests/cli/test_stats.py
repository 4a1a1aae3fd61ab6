"""``horae stats`` and ``horae errors``: what ended, and why it failed."""

from __future__ import annotations

from horae.cli.jobs.stats import sparkline


def test_a_sparkline_shows_shares_of_the_most() -> None:
    assert sparkline([0, 1, 4, 8]) == "·▁▄█"
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "··"
