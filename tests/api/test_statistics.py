"""Every operation of statistics, through all four senders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from sqlalchemy import insert

from horae.actions.roll_up import roll_up
from horae.api.statistics import Figures
from horae.core.time.instants import micros
from horae.errors import Forbidden, InvalidInput
from horae.stores.tables.jobs import runs
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

numbers = count(5_000_000)
names = (f"line{number}" for number in count())


def ended(served: Served, at: datetime, queue: str, *, owner: str = "system", took: float = 2) -> None:
    """Write an attempt that ended at an instant that has passed."""
    end = micros(at)
    row = {
        "job_id": next(numbers), "token": 1, "outcome": "succeeded", "state": "succeeded", "attempt": 0, "queue": queue,
        "handler": "h", "owner": owner, "started_at": end - int(took * 1e6), "run_at": end - int(took * 1e6) - 500_000,
        "finished_at": end,
    }  # fmt: skip
    served.world.store.transact(lambda tx: tx.connection.execute(insert(runs), row))


def catch_up(served: Served) -> None:
    while roll_up(served.world):
        continue


def test_figures_are_read_by_name_and_over_time(rooms: Sent, served: Served) -> None:
    queue, now = next(names), served.world.clock.now()
    ended(served, now - timedelta(minutes=10), queue)
    ended(served, now - timedelta(minutes=10), queue, took=8)
    ended(served, now - timedelta(minutes=70), queue)
    catch_up(served)

    listed = {each.name: each for each in rooms.house.statistics.list("queue")}
    hours = rooms.house.statistics.series("queue", queue, since=now - timedelta(hours=5))
    minutes = rooms.house.statistics.series("queue", queue, grain="minute", since=now - timedelta(hours=5))
    days = rooms.house.statistics.series("queue", queue, grain="day")

    found = listed[queue]
    assert isinstance(found, Figures)
    assert (found.runs, found.succeeded, found.failed, found.depth) == (3, 3, 0, None)
    assert found.duration_mean == timedelta(seconds=4)
    assert found.duration_p50 is not None
    assert timedelta(seconds=2) <= found.duration_p50 <= timedelta(seconds=2.4)
    assert found.delay_p95 is not None
    assert timedelta(seconds=0.5) <= found.delay_p95 <= timedelta(seconds=0.6)
    assert sorted(each.runs for each in hours) in ([1, 2], [3])
    assert sorted(each.runs for each in minutes) == [1, 2]
    assert sum(each.runs for each in days) == 3
    assert hours[0].at.tzinfo is not None


def test_a_window_that_cannot_be_is_refused(rooms: Sent) -> None:
    year = datetime(2020, 1, 1, tzinfo=UTC)
    with refused(InvalidInput, "window_empty"):
        rooms.house.statistics.series("total", since=year, until=year)
    with refused(InvalidInput, "too_many_points"):
        rooms.house.statistics.series("total", grain="minute", since=year)
    with refused(InvalidInput, "choice_unknown"):
        rooms.house.statistics.list("colour")


def test_tenants_see_their_own_figures_only(rooms: Sent, served: Served) -> None:
    at = served.world.clock.now() - timedelta(minutes=10)
    ended(served, at, "q", owner="alice")
    ended(served, at, "q", owner="bob")
    catch_up(served)

    assert [each.name for each in rooms.alice.statistics.list("owner")] == ["alice"]
    assert {each.name for each in rooms.alice.statistics.series("owner")} == {"alice"}
    assert {"alice", "bob"} <= {each.name for each in rooms.house.statistics.list("owner")}
    with refused(Forbidden, "statistics_of_others"):
        rooms.alice.statistics.list("queue")
    with refused(Forbidden, "statistics_of_others"):
        rooms.alice.statistics.series("total")
    with refused(Forbidden, "statistics_of_others"):
        rooms.alice.statistics.series("owner", "bob")
