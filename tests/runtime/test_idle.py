"""What an idle database hears from a worker: at most two statements a minute, chores and the clock included.

Counted on the wire on PostgreSQL and by SQLite's own trace, for one idle hour: a look each minute, every chore as often
as its rhythm says, taken and given back. MariaDB sends no hints, so that a worker has to look each second.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

from horae.actions import chores as turns
from horae.actions.chores import HeldChore
from horae.actions.jobs.claims import peek
from horae.actions.retention import Retention
from horae.clock import StoreClock, SystemDice, clock_of
from horae.ports.workers import Node, Upcoming
from horae.ports.world import World
from horae.runtime.chores.janitor import CHORES, LEASE, Chore, cleaning
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from tests.stores.test_costs import ROUNDS, trace
from tests.support.traffic import Count, Traffic

HOUR = timedelta(hours=1)
LOOKS = 60
MOST = {"postgresql": 2, "sqlite": 6}  # SQLite: BEGIN, heartbeat, look and COMMIT, which reach no server
ALL = (cleaning(Retention()), *CHORES)


@dataclass
class Idle:
    """An idle store, and how many statements it has heard."""

    world: World
    count: Callable[[], Count]
    node: Node
    dialect: str

    def cost(self, act: Callable[[], object]) -> int:
        """How many statements something costs, once drivers have prepared what they prepare."""
        for _ in range(ROUNDS):
            act()
        before = self.count().statements
        act()
        return self.count().statements - before

    def look(self) -> Upcoming:
        return peek(self.world, ["default"], node=self.node)

    def do(self, chore: Chore) -> None:
        held = turns.take(self.world, chore.name, holder="w", every=timedelta(0), lease=LEASE)
        assert isinstance(held, HeldChore)
        assert not chore.work(self.world), "there is nothing to do on an idle store"
        assert turns.end(self.world, held, every=timedelta(0), is_done=True)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def idle(request: pytest.FixtureRequest) -> Iterator[Idle]:
    url: str = request.getfixturevalue(f"{request.param}_database_url")
    plain = create_store_engine(url)
    migrate(plain)
    plain.dispose()
    traffic = None if request.param == "sqlite" else Traffic(url)
    engine = create_store_engine(url if traffic is None else traffic.proxy.url)
    count = trace(engine) if traffic is None else traffic.count
    with closing(open_store(engine)) as store:
        clock = clock_of(store)
        world = World(store, clock, SystemDice())
        node = Node("n", "h", 1, "", clock.now(), clock.now(), {"default": 1})
        yield Idle(world, count, node, store.dialect.name)
    if traffic is not None:
        traffic.proxy.close()


def test_an_idle_hour_is_at_most_two_statements_a_minute(idle: Idle) -> None:
    look = idle.cost(idle.look)
    upcoming = idle.look()
    asked_for = [chore for chore in ALL if chore.when is None or chore.when(upcoming)]
    chores = {chore.name: idle.cost(partial(idle.do, chore)) * (HOUR / chore.every) for chore in asked_for}

    assert look * LOOKS + sum(chores.values()) <= MOST[idle.dialect] * LOOKS, (look, chores)


def test_a_look_each_minute_sets_the_clock_so_that_it_asks_nothing_itself(idle: Idle) -> None:
    clock = idle.world.clock
    if not isinstance(clock, StoreClock):
        pytest.skip("only a clock that follows a server asks")
    following = StoreClock(idle.world.store.read_time, every=0.0)
    following.now()
    before = idle.count().statements
    following.follow(clock.now(), clock.monotonic())
    assert abs(following.now() - clock.now()) < timedelta(seconds=1)
    assert idle.count().statements == before


def test_an_answer_that_was_long_on_its_way_does_not_set_the_clock(idle: Idle) -> None:
    clock = StoreClock(lambda: None)
    now = clock.now()
    clock.follow(now - HOUR, clock.monotonic() - 5)
    assert clock.now() >= now


def test_nothing_that_is_asked_for_by_a_look_is_done_on_an_idle_store(idle: Idle) -> None:
    upcoming = idle.look()
    assert [chore.name for chore in ALL if chore.when is not None and chore.when(upcoming)] == []
