"""A database that keeps an answer waiting for nothing: only one answer in a while waits for it."""

from datetime import timedelta

import pytest

from horae.actions.shards import SPARED_FOR, ask_each
from horae.errors import StoreUnavailable
from horae.ports.world import World
from tests.cluster.conftest import Clusters


class Asks:
    """Asks three databases, of which the second may be away; remembers which were asked."""

    def __init__(self, clusters: Clusters) -> None:
        self.world, _ = clusters.make(3)
        self.clock = clusters.clock
        self.away_after: float | None = None  # seconds until its error; None: it answers
        self.asked: list[int] = []

    def __call__(self, *, spares: bool = True) -> tuple[list[int], tuple[str, ...]]:
        self.asked.clear()
        found, away = ask_each(self.world, self._ask, spares=spares)
        return list(found), away

    def _ask(self, _: World, number: int) -> int:
        self.asked.append(number)
        if number == 2 and self.away_after is not None:
            self.clock.advance(timedelta(seconds=self.away_after))
            raise StoreUnavailable("database_unreachable", problem="it says nothing")
        return number


@pytest.fixture
def asks(sqlite_clusters: Clusters) -> Asks:
    return Asks(sqlite_clusters)


def test_after_one_answer_has_waited_for_a_silent_database_others_name_it_at_once(asks: Asks) -> None:
    asks.away_after = 5.0
    assert asks() == ([1, 3], ("db-2",))
    assert asks.asked == [1, 2, 3]

    assert asks() == ([1, 3], ("db-2",))
    assert asks.asked == [1, 3]

    asks.away_after = None
    asks.clock.advance(timedelta(seconds=SPARED_FOR))
    assert asks() == ([1, 2, 3], ())


def test_who_must_know_asks_a_silent_database_all_the_same(asks: Asks) -> None:
    asks.away_after = 5.0
    asks()
    asks.away_after = None
    assert asks(spares=False) == ([1, 2, 3], ())
    assert asks() == ([1, 2, 3], ())  # and whoever asks next knows that it is back


def test_a_database_that_refuses_at_once_is_asked_each_time(asks: Asks) -> None:
    asks.away_after = 0.0
    assert asks() == ([1, 3], ("db-2",))
    asks.away_after = None
    assert asks() == ([1, 2, 3], ())
