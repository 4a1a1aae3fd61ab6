"""Lists over several databases: whole, in order, exact while rows come, and honest about a database that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.api.here import Here, house, tenant
from horae.api.jobs.room import Job
from horae.api.operation import Page, Sender
from horae.api.rooms import Rooms
from horae.api.senders.local import Local
from horae.api.values import to_json
from horae.core.access.callers import Caller
from horae.core.cluster.positions import read_positions, write_positions
from horae.core.error_groups import ErrorGroup
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.testing.clock import NOON
from tests.cluster.conftest import Clusters


def rooms(world: World, caller: Caller | None = None) -> Rooms[Sender]:
    here = Here(world, caller or house("ann"))
    return Rooms(Local(lambda: here))


def fill(clusters: Clusters, world: World, count: int, begin: int = 0) -> list[str]:
    """Store jobs of as many owners, a second apart; return their ids, the newest first."""
    ids = []
    for index in range(begin, begin + count):
        clusters.clock.advance(timedelta(seconds=1))
        ids.append(jobs.enqueue(world, Request("mail", {"n": index}, owner=f"owner-{index}")).id)
    return ids[::-1]


def walk(page_at: Callable[[str | None], Page[Job]]) -> list[Page[Job]]:
    pages = [page_at(None)]
    while pages[-1].next_cursor is not None:
        pages.append(page_at(pages[-1].next_cursor))
    return pages


def lose(world: World, urls: list[str], number: int) -> None:
    """Let a file of the cluster become unreadable."""
    path = Path(urls[number - 1].removeprefix("sqlite:///"))
    assert world.cluster is not None
    world.cluster.store_of(number).close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pages_of_a_list_are_merged_in_its_order(clusters: Clusters, size: int) -> None:
    world, _ = clusters.make(3)
    ids = fill(clusters, world, 20)
    listing = rooms(world).jobs.list()
    pages = walk(lambda cursor: listing.page(cursor, limit=size))
    assert [job.id for page in pages for job in page.items] == ids
    assert all(len(page.items) == size for page in pages[:-1])
    assert [job.id for job in listing] == ids


def test_a_page_shows_nothing_twice_and_leaves_nothing_out_while_rows_come(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    ids = fill(clusters, world, 20)
    listing, seen, cursor, begin = rooms(world).jobs.list(), list[str](), None, 100
    while True:
        page = listing.page(cursor, limit=3)
        seen += [job.id for job in page.items]
        fill(clusters, world, 2, begin)
        begin, cursor = begin + 2, page.next_cursor
        if cursor is None or begin > 160:
            break
    assert len(seen) == len(set(seen))
    assert [each for each in seen if each in ids] == ids


def test_a_page_is_exact_while_others_insert_at_the_same_time(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    ids = fill(clusters, world, 20)
    ends, made, problems = threading.Event(), list[str](), list[BaseException]()

    def insert(producer: int) -> None:
        own, index = clusters.open(urls[producer]), 0
        try:
            while not ends.is_set() or index < 20:
                index += 1
                made.append(jobs.enqueue(own, Request("mail", {}, owner=f"new-{producer}-{index}")).id)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=insert, args=(producer,)) for producer in range(2)]
    for thread in threads:
        thread.start()
    try:
        shown = [job.id for page in walk_down(rooms(world), 3, ids[-1]) for job in page.items]
    finally:
        ends.set()
        for thread in threads:
            thread.join(60)
    assert problems == []
    assert len(made) >= 40
    assert len(shown) == len(set(shown))
    assert [each for each in shown if each in ids] == ids
    listed = [job.id for page in walk(lambda cursor: rooms(world).jobs.list().page(cursor, limit=50)) for job in
              page.items]  # fmt: skip
    assert sorted(listed) == sorted({*ids, *made})


def walk_down(house: Rooms[Sender], size: int, last: str) -> list[Page[Job]]:
    """Walk until a row was shown; new ones may come for ever."""
    pages, cursor = list[Page[Job]](), None
    while True:
        pages.append(house.jobs.list().page(cursor, limit=size))
        cursor = pages[-1].next_cursor
        if cursor is None or any(job.id == last for job in pages[-1].items):
            return pages


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_that_goes_away_between_two_pages_joins_again_where_it_stopped(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    ids = fill(clusters, world, 36)
    listing = rooms(world).jobs.list()
    pages = [listing.page(limit=6)]
    file = Path(urls[2].removeprefix("sqlite:///"))
    away = file.with_suffix(".away")
    assert world.cluster is not None
    world.cluster.store_of(3).close()
    file.rename(away)
    file.mkdir()
    pages += [listing.page(pages[-1].next_cursor, limit=6)]
    there = [owner for owner in (f"new-{index}" for index in range(20)) if _database_of(world, owner) != 3]
    new = [jobs.enqueue(world, Request("mail", {}, owner=owner)).id for owner in there]
    pages += [listing.page(pages[-1].next_cursor, limit=6)]
    file.rmdir()
    away.rename(file)
    while pages[-1].next_cursor is not None:
        pages.append(listing.page(pages[-1].next_cursor, limit=6))
    assert [page.incomplete for page in pages[:3]] == [(), ("db-3",), ("db-3",)]
    assert {page.incomplete for page in pages[3:]} == {()}
    shown = [job.id for page in pages for job in page.items]
    assert len(shown) == len(set(shown))
    assert set(ids) <= set(shown) <= {*ids, *new}


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_file_that_is_gone_is_named_and_not_made_anew(clusters: Clusters) -> None:
    _, urls = clusters.make(2)
    file = Path(urls[1].removeprefix("sqlite:///"))
    file.rename(file.with_suffix(".away"))
    assert rooms(clusters.open(urls[0])).jobs.list().page().incomplete == ("db-2",)
    assert not file.exists()


def _database_of(world: World, owner: str) -> int:
    assert world.cluster is not None
    return world.cluster.shard_map.database_of(world.cluster.shard_map.vshard_of(owner=owner))


def test_a_filtered_list_is_merged_as_well(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    ids = fill(clusters, world, 12)
    for job in ids[::2]:
        jobs.cancel(world, job, actor="ann")
    found = [job.id for job in rooms(world).jobs.list(state="cancelled")]
    assert found == ids[::2]
    by_end = [job.id for job in rooms(world).jobs.list(where="ended:>-1h")]
    assert sorted(by_end) == sorted(ids[::2])


def test_a_list_of_a_tenant_has_its_rows_alone(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 6)
    page = rooms(world, tenant("owner-3", "owner-3")).jobs.list().page()
    assert [job.owner for job in page.items] == ["owner-3"]
    named = rooms(world).jobs.list(owner="owner-3").page()
    assert [job.owner for job in named.items] == ["owner-3"]


def test_a_single_database_says_nothing_about_others(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    world = clusters.open(url)
    jobs.enqueue(world, Request("mail", {}))
    page = rooms(world).jobs.list().page()
    assert page.incomplete == ()
    assert "incomplete" not in to_json(page)


def test_a_cursor_of_another_kind_is_refused(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    for cursor in ("nonsense", "WzFd", "WyJzaGFyZHMiLDFd", "WyJzaGFyZHMiLCJ4IixudWxsXQ"):
        with pytest.raises(InvalidInput):
            rooms(world).jobs.list().page(cursor)
    assert read_positions(write_positions({2: None, 1: "x"})) == {1: "x", 2: None}


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_that_is_away_is_named(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    ids = fill(clusters, world, 30)
    lose(world, urls, 3)
    world = clusters.open(urls[0])
    pages = walk(lambda cursor: rooms(world).jobs.list().page(cursor, limit=4))
    assert all(page.incomplete == ("db-3",) for page in pages)
    assert to_json(pages[0])["incomplete"] == ["db-3"]
    shown = [job.id for page in pages for job in page.items]
    there = [each for each in ids if world.route(id=each).cluster is None and _is_in(world, each, {1, 2})]
    assert shown == there


def _is_in(world: World, job_id: str, numbers: set[int]) -> bool:
    from horae.core.cluster.numbers import vshard_of_id

    vshard = vshard_of_id(job_id)
    assert world.cluster is not None
    assert vshard is not None
    return world.cluster.shard_map.database_of(vshard) in numbers


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_where_no_database_answers_that_is_an_error(clusters: Clusters) -> None:
    world, urls = clusters.make(1)
    lose(world, urls, 1)
    with pytest.raises(Exception, match="database"):
        rooms(world).jobs.list().page()


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_joined_list_goes_on_while_a_database_whose_rows_have_ended_is_away(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    put_groups(world, 3, {"z": 0})
    put_groups(world, 1, {"a": 1, "c": 3, "e": 5})
    put_groups(world, 2, {"b": 2, "d": 4, "f": 6})
    first = rooms(world).error_groups.list().page(limit=2)
    assert first.next_cursor is not None
    assert sorted(read_positions(first.next_cursor)) == [1, 2]
    lose(world, urls, 3)
    seen = rooms(clusters.open(urls[0])).error_groups.list()
    second = seen.page(first.next_cursor, limit=2)
    third = seen.page(second.next_cursor)
    assert [each.fingerprint for page in (first, second, third) for each in page.items] == list("zabcdef")
    assert [page.incomplete for page in (first, second, third)] == [(), ("db-3",), ("db-3",)]
    assert third.next_cursor is None


def put_groups(world: World, database: int, groups: dict[str, int]) -> None:
    """Store groups of errors of the house in a database, each seen so many minutes ago."""
    assert world.cluster is not None
    store = world.cluster.whole(world, database).store
    for fingerprint, ago in groups.items():
        first, last = NOON - timedelta(hours=1), NOON - timedelta(minutes=ago)
        group = ErrorGroup("system", fingerprint, "mail", "OSError", "no route", "", "", 1, first, last, 1, 1)
        store.transact(lambda tx, group=group: tx.error_groups.put(group))  # type: ignore[misc]
