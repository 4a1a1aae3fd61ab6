"""The benchmark says what must be reached and whether it was; what was not measured decides nothing."""

from benchmarks.cases import Row
from benchmarks.musts import judge
from benchmarks.soak_through import EDGES, percentile


def rows(**rates: float) -> list[Row]:
    return [Row("drain, one worker", name.replace("_", "-"), {"jobs/s": rate}) for name, rate in rates.items()]


def test_a_ratio_is_taken_to_the_best_peer_that_was_measured() -> None:
    (verdict,) = judge(rows(horae=3000.0, awa=1000.0, pgqueuer=1600.0))

    assert (verdict.rival, verdict.value, verdict.is_met) == ("pgqueuer", 1.875, False)
    assert str(verdict).endswith("must ≥ 2  NOT MET")


def test_a_peer_that_is_missing_decides_nothing() -> None:
    missing = Row("drain, one worker", "pgqueuer", missing="not installed")

    (verdict,) = judge([*rows(horae=3000.0, awa=1000.0), missing])
    assert (verdict.rival, verdict.is_met) == ("awa", True)
    assert list(judge([*rows(horae=3000.0), missing])) == []


def test_a_figure_of_our_own_must_stay_below_its_bound() -> None:
    slow = [Row("10,000 schedules", "horae", {"last of a burst, s": 1.6, "first start, s": 1.9})]

    assert {verdict.must.figure: verdict.is_met for verdict in judge(slow)} == {
        "first start, s": True,
        "last of a burst, s": False,
    }


def test_a_percentile_of_a_histogram_is_the_edge_below_which_the_share_lies() -> None:
    counts = [0] * (len(EDGES) + 1)
    counts[10], counts[50] = 998, 2

    assert percentile(counts, 0.5) == EDGES[10]
    assert percentile(counts, 0.999) == EDGES[50]
