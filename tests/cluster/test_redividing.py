"""Limits and budgets of the house are divided anew by themselves when databases begin or cease to keep something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from horae.actions import cluster as cluster_verbs
from horae.actions import moves
from horae.actions.budgets import budgets
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.actions.settings.catching_up import catch_up, catch_up_all, catch_up_here
from horae.actions.settings.shares import is_divided
from horae.core.cluster.settings import Division, GivenUp, Portion, divide_freed, portion_of, read_portion
from horae.ports.world import World
from horae.stores.store import SqlStore
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import rooms
from tests.cluster.test_settings import Absence, only_files, shards

WHOLE = 10
MONEY = 100


class Died(BaseException):
    """The process ended here."""


class Watch:
    """Looks at every database after each transaction, and can end the process before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch, check: Callable[[], None]) -> None:
        self.count, self.dies_at, self.is_looking = 0, -1, False
        real = SqlStore.transact

        def transact(store: SqlStore, work: Any, *, hot: bool = False) -> Any:
            if self.is_looking:
                return real(store, work, hot=hot)
            self.count += 1
            if self.count == self.dies_at:
                raise Died
            done = real(store, work, hot=hot)
            with self._looking():
                check()
            return done

        patch.setattr(SqlStore, "transact", transact)

    @contextmanager
    def _looking(self) -> Iterator[None]:
        self.is_looking = True
        try:
            yield
        finally:
            self.is_looking = False


def limits_in(world: World) -> list[int | None]:
    return [each.store.read(lambda tx: tx.queues.limits()).get("global") for each in shards(world)]


def capacities(world: World) -> list[int | None]:
    return [budgets.get(each, "llm", "tokens").period.capacity for each in shards(world)]


def check_sums(alone: Callable[[], list[World]]) -> None:
    """Databases that keep something never may run, or spend, more than the whole together."""
    worlds = alone()
    shard_map = worlds[0].store.read(lambda tx: tx.cluster.read_map())
    assert shard_map is not None
    running = spent = 0
    for member, world in zip(shard_map.members, worlds, strict=False):
        limits, found = world.store.read(
            lambda tx: (tx.queues.limits(), tx.budgets.find(owner=None, name=None, limit=9))
        )
        if shard_map.counts[member.number]:
            running += limits["global"]
            assert [each.name for each in found] == ["llm"]
        views = [budgets.get(world, "llm", "tokens").period for _ in found]
        spent += sum(max(each.capacity or 0, each.settled) for each in views if shard_map.counts[member.number])
        spent += sum(each.settled for each in views if not shard_map.counts[member.number])
    assert running <= WHOLE
    assert spent <= MONEY


def spend(world: World, number: int, amount: int) -> None:
    budgets.adjust(shards(world)[number - 1], "llm", "tokens", amount, reason="spent")


def begin(clusters: Clusters, count: int) -> tuple[World, list[str]]:
    """Make a cluster with rows, a limit and a budget."""
    world, urls = clusters.make(count)
    for index in range(20):
        jobs.enqueue(world, Request("mail", {}, owner=f"owner-{index}"))
    rooms(world).limits.set("global", WHOLE)
    rooms(world).budgets.set("llm", "tokens", MONEY, period="day")
    return world, urls


def test_a_third_database_gets_its_share_and_the_others_less(clusters: Clusters) -> None:
    world, urls = begin(clusters, 2)
    assert (limits_in(world), capacities(world)) == ([5, 5], [50, 50])
    [url] = clusters.urls(3)[2:]
    clusters.add(world, url, "db-3", urls[0])
    assert (limits_in(world), capacities(world)) == ([5, 5, 0], [50, 50, 0])
    moves.move_even(world)
    assert (limits_in(world), capacities(world)) == ([4, 3, 3], [34, 33, 33])
    moves.drain(world, "db-3")
    assert (limits_in(world)[:2], capacities(world)) == ([5, 5], [50, 50, 0])
    assert rooms(world).limits.list()[0].max_running == WHOLE
    assert all(is_divided(world, number) for number in (1, 2, 3))


def test_what_was_spent_stays_spent_and_the_others_get_what_is_left(clusters: Clusters) -> None:
    world, urls = begin(clusters, 2)
    spend(world, 1, 46)
    [url] = clusters.urls(3)[2:]
    clusters.add(world, url, "db-3", urls[0])
    moves.move_even(world)
    assert capacities(world) == [46, 33, 21]
    spend(world, 3, 20)
    moves.drain(world, "db-3")
    assert capacities(world) == [47, 33, 20]
    seen = rooms(world).budgets.get("llm", "tokens")
    assert (seen.capacity, seen.settled, seen.left) == (MONEY, 66, 34)
    [listed] = rooms(world).budgets.list()
    assert (listed.capacity, listed.settled) == (MONEY, 66)
    clusters.clock.advance(clusters.clock.now().replace(hour=23) - clusters.clock.now())
    clusters.clock.advance(clusters.clock.now().replace(hour=23) - clusters.clock.now().replace(hour=1))
    assert capacities(world) == [50, 50, 0]  # of the next day


@only_files
def test_a_mover_that_dies_anywhere_leaves_no_more_than_the_whole(clusters: Clusters) -> None:
    """Killed before each of its transactions in turn; then the keeper of one database goes on."""
    world, urls = begin(clusters, 2)
    spend(world, 1, 45)
    [url] = clusters.urls(3)[2:]
    opened: dict[str, World] = {}

    def alone() -> list[World]:
        for each in [*urls, url]:
            if each not in opened:
                opened[each] = clusters.open_alone(each)
        return [opened[each] for each in [*urls, url]]

    few = range(4000, 4004)
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch, lambda: check_sums(alone))
        clusters.add(world, url, "db-3", urls[0])
        dies_at = 0
        acts: tuple[Callable[[World], Any], ...] = (
            lambda each: moves.move(each, few, "db-3"),
            lambda each: moves.drain(each, "db-3"),
        )
        for act in acts:
            is_over = False
            while not is_over:
                dies_at += 1
                watch.count, watch.dies_at = 0, dies_at
                try:
                    act(clusters.open(urls[0]))
                    is_over, dies_at = True, 0
                except Died:
                    pass
                watch.dies_at = -1
                again = clusters.open(urls[1])
                assert again.cluster is not None
                catch_up_here(again, again.cluster.whole(again, 2))
                cluster_verbs.check(clusters.open(urls[0]), repair=True)
    assert dies_at == 0
    world = clusters.open(urls[0])
    assert (limits_in(world)[:2], capacities(world)) == ([5, 5], [50, 50, 0])


@only_files
def test_one_that_is_away_keeps_the_new_one_from_its_share_until_it_is_back(clusters: Clusters) -> None:
    world, urls = begin(clusters, 2)
    [url] = clusters.urls(3)[2:]
    clusters.add(world, url, "db-3", urls[0])
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    world = clusters.open(urls[0])
    assert world.cluster is not None
    first = [vshard for vshard in world.cluster.shard_map.owned_by(1) if vshard][:8]
    moves.move(world, first, "db-3")
    here = {1: world.cluster.whole(world, 1), 3: world.cluster.whole(world, 3)}
    found = {number: each.store.read(lambda tx: tx.queues.limits())["global"] for number, each in here.items()}
    assert found == {1: 4, 3: 0}
    absence.end()
    world = clusters.open(urls[2] if len(urls) > 2 else url)
    assert world.cluster is not None
    catch_up_here(world, world.cluster.whole(world, 3))
    catch_up_here(world, world.cluster.whole(world, 1))
    assert limits_in(world) == [4, 3, 3]
    assert capacities(world) == [34, 33, 33]


def test_a_process_with_an_older_map_raises_nothing(clusters: Clusters) -> None:
    world, urls = begin(clusters, 2)
    [url] = clusters.urls(3)[2:]
    clusters.add(world, url, "db-3", urls[0])
    late = clusters.open(urls[1])
    assert late.cluster is not None
    moves.move_even(clusters.open(urls[0]))
    late.cluster.refresh = lambda: late.cluster.shard_map  # type: ignore[method-assign, union-attr]
    catch_up(late, 1)
    catch_up(late, 2)
    assert limits_in(world) == [4, 3, 3]
    rooms(late).limits.set("global", 2 * WHOLE)  # a decision goes by the shares in force, too
    assert sum(each or 0 for each in limits_in(world)) <= 2 * WHOLE


def test_a_budget_that_was_set_while_shares_were_divided_is_whole_in_the_end(clusters: Clusters) -> None:
    world, urls = begin(clusters, 2)
    [url] = clusters.urls(3)[2:]
    clusters.add(world, url, "db-3", urls[0])
    real = catch_up_all
    with pytest.MonkeyPatch.context() as patch:  # the mover dies before it divides
        patch.setattr(moves, "catch_up_all", lambda _: 0)
        moves.move(world, range(4000, 4004), "db-3")
    rooms(world).budgets.set("llm", "tokens", 3 * MONEY, period="day")
    rooms(world).limits.set("global", 3 * WHOLE)
    assert sum(each or 0 for each in capacities(world)) <= 3 * MONEY
    real(world)
    assert capacities(world) == [MONEY, MONEY, MONEY]
    assert limits_in(world) == [WHOLE, WHOLE, WHOLE]


# -- the rules ---------------------------------------------------------------------------------------------------------


def test_a_portion_on_its_way_is_the_least_of_both() -> None:
    two, three = portion_of(1, [1, 2]), portion_of(1, [1, 2, 3])
    lowered = two.towards(three)
    assert [each.share(10) for each in (two, three, lowered)] == [5, 4, 4]
    assert lowered.is_interim
    assert read_portion(lowered.text) == lowered
    assert three.towards(two).share(10) == 4
    new = Portion(-1).towards(portion_of(3, [1, 2, 3]))
    assert (new.share(10), new.final.share(10), new.share(None)) == (0, 3, None)
    assert three.towards(three).is_interim
    crowded = lowered.towards(Portion(77, 1000)).towards(Portion(78, 1001)).towards(Portion(79, 1002))
    assert len(crowded.text) <= 20
    assert crowded.share(10_000) == 0


def test_a_division_is_lowered_and_then_raised() -> None:
    known = Division(3, (1, 2), portion_of(1, [1, 2]))
    lowered = known.lowered(1, 5, [1, 2, 3])
    assert (lowered.version, lowered.keepers, lowered.portion.share(9)) == (5, (1, 2, 3), 3)
    assert lowered.raised() == Division(5, (1, 2, 3), portion_of(1, [1, 2, 3]))


@pytest.mark.parametrize("had", [(50, 50, 0), (100, 0, 0), (34, 33, 33), (1, 0, 0)])
@pytest.mark.parametrize("used", [(0, 0, 0), (45, 0, 0), (50, 50, 0), (1, 33, 0)])
def test_what_is_given_up_is_given_once(had: tuple[int, ...], used: tuple[int, ...]) -> None:
    wanted = dict(zip((1, 2, 3), (34, 33, 33), strict=True))
    pins = {
        number: GivenUp(
            had[number - 1], max(min(had[number - 1], wanted[number]), min(had[number - 1], used[number - 1]))
        )
        for number in wanted
    }
    found = divide_freed(wanted, pins)
    assert sum(found.values()) <= sum(had)
    assert all(found[number] >= pins[number].kept for number in wanted)
    assert all(found[number] <= max(wanted[number], pins[number].kept) for number in wanted)
