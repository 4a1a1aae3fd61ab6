"""Settings of the house in a cluster: decided once, copied to all, and brought to a database that was away."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from horae.actions import cluster as cluster_verbs
from horae.actions import error_groups, moves
from horae.actions.audit import find_entries
from horae.actions.jobs import jobs, queues, running_limits
from horae.actions.jobs.definitions import find_definitions, store_definitions
from horae.actions.jobs.requests import Request
from horae.actions.schedules.calendars import list_calendars
from horae.actions.settings.catching_up import catch_up, catch_up_all, find_lagging
from horae.actions.settings.decisions import Draft, apply_setting, decide
from horae.api.values import to_json
from horae.core.cluster.settings import Rank, SharedSetting
from horae.core.error_groups import ErrorGroup
from horae.core.jobs.job import Order
from horae.core.jobs.running_limits import LimitSource
from horae.errors import Conflict, HoraeError, NotFound, StoreBusy
from horae.ports.cluster import Shards
from horae.ports.definitions import StoredDefinition
from horae.ports.queues import Queue
from horae.ports.world import World
from horae.testing.clock import NOON
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import rooms
from tests.cluster.test_losing_a_database import findings
from tests.cluster.test_walk import Shop
from tests.support.waiting import wait_until

only_files = pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)


class Absence:
    """Takes a file of the cluster away and brings it back as it was."""

    def __init__(self, urls: list[str], number: int) -> None:
        self.path = Path(urls[number - 1].removeprefix("sqlite:///"))
        self.kept = self.path.with_suffix(".kept")

    def begin(self, world: World, number: int) -> None:
        assert world.cluster is not None
        world.cluster.store_of(number).close()
        for suffix in ("", "-wal", "-shm"):
            if Path(f"{self.path}{suffix}").exists():
                shutil.move(f"{self.path}{suffix}", f"{self.kept}{suffix}")
        self.path.mkdir()

    def end(self) -> None:
        self.path.rmdir()
        for suffix in ("", "-wal", "-shm"):
            if Path(f"{self.kept}{suffix}").exists():
                shutil.move(f"{self.kept}{suffix}", f"{self.path}{suffix}")


def shards(world: World) -> list[World]:
    assert world.cluster is not None
    return [world.cluster.whole(world, each.number) for each in world.cluster.shard_map.members]


def paused(world: World, queue: str = "mail") -> list[bool]:
    """Return of each database whether it hands out jobs of a queue no more."""
    found = [shard.store.read(lambda tx: tx.queues.get(queue)) for shard in shards(world)]
    return [each is not None and each.paused_at is not None for each in found]


def ranks(world: World) -> list[dict[tuple[str, str], Rank]]:
    found = [shard.store.read(lambda tx: tx.settings.heads()) for shard in shards(world)]
    return [{(kind, name): head.rank for (kind, name), head in each.items()} for each in found]


# -- one that was away -------------------------------------------------------------------------------------------------


@only_files
def test_a_database_that_was_away_gets_the_pause_without_being_told_again(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    absence = Absence(urls, 3)
    absence.begin(world, 3)
    world = clusters.open(urls[0])
    answer = rooms(world).queues.pause("mail", reason="a fire")
    assert answer.incomplete == ("db-3",)
    assert answer.databases == 3
    assert to_json(answer)["databases"] == 3
    absence.end()
    world = clusters.open(urls[0])
    assert paused(world) == [True, True, False]
    assert find_lagging(world) == {"db-3": 1}
    catch_up(world, 3)
    assert paused(world) == [True, True, True]
    [(_, entry)] = find_entries(shards(world)[2], object_type="queue")
    assert (entry.actor, entry.reason) == ("ann", "a fire")
    assert catch_up_all(world) == 0
    assert find_lagging(world) == {}


@only_files
def test_the_home_may_be_the_one_that_was_away(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    rooms(world).queues.pause("mail")
    absence = Absence(urls, 1)
    absence.begin(world, 1)
    world = clusters.open(urls[1])
    clusters.clock.advance(timedelta(seconds=5))
    assert rooms(world).queues.resume("mail").incomplete == ("first",)
    absence.end()
    world = clusters.open(urls[1])
    catch_up_all(world)
    assert paused(world) == [False, False, False]


@only_files
def test_the_later_of_two_changes_wins_although_the_first_knew_more_versions(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    second = Absence(urls, 2)
    second.begin(world, 2)
    alone = clusters.open(urls[0])
    for _ in range(3):
        rooms(alone).queues.pause("mail")
    second.end()
    first = Absence(urls, 1)
    first.begin(alone, 1)
    clusters.clock.advance(timedelta(seconds=5))
    other = clusters.open(urls[1])
    rooms(other).queues.resume("mail")
    first.end()
    world = clusters.open(urls[0])
    catch_up_all(world)
    assert paused(world) == [False, False]
    assert ranks(world)[0] == ranks(world)[1]


@only_files
def test_what_was_deleted_does_not_come_back_with_a_database_that_was_away(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    rooms(world).calendars.set("holidays", ["12-25"])
    rooms(world).admin.set_retention("3d", queue="mail")
    rooms(world).limits.set("global", 4)
    assert [len(list_calendars(each)) for each in shards(world)] == [1, 1]
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    world = clusters.open(urls[0])
    rooms(world).calendars.delete("holidays")
    rooms(world).admin.set_retention(None, queue="mail")
    rooms(world).limits.reset("global")
    absence.end()
    world = clusters.open(urls[0])
    catch_up_all(world)
    for shard in shards(world):
        assert list_calendars(shard) == []
        assert shard.store.read(lambda tx: tx.retention.all()) == []
        assert running_limits.list_limits(shard) == []


@only_files
def test_a_pause_that_ended_while_a_database_was_away_ends_there_at_once(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    world = clusters.open(urls[0])
    rooms(world).queues.pause("mail", until=clusters.clock.now() + timedelta(minutes=1))
    clusters.clock.advance(timedelta(hours=1))
    absence.end()
    world = clusters.open(urls[0])
    catch_up_all(world)
    found = shards(world)[1].store.read(lambda tx: tx.queues.get("mail"))
    assert found is not None
    assert found.paused_until == clusters.clock.now() + timedelta(seconds=1)


def test_a_resume_leaves_alone_what_has_been_paused_since(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    rooms(world).queues.resume("mail")
    [setting] = shards(world)[0].store.read(lambda tx: tx.settings.find([("queue.pause", "mail")]))
    clusters.clock.advance(timedelta(seconds=5))
    queues.pause_queue(shards(world)[1], "mail", actor="system/quiet")
    later = SharedSetting("queue.pause", "mail", setting.version + 1, 1, setting.value)
    apply_setting(world, 2, later)
    assert paused(world) == [False, True]


# -- one that is new ---------------------------------------------------------------------------------------------------


def test_a_database_that_is_added_gets_what_was_set_before_there_was_a_cluster(clusters: Clusters) -> None:
    urls = clusters.urls(2)
    alone = clusters.open(urls[0])
    here = rooms(alone)
    here.queues.pause("mail", reason="before")
    here.queues.order("mail", "run_at")
    here.queues.share("mail", "owner")
    here.queues.quiet("night", "22:00-07:00")
    here.calendars.set("holidays", ["12-25"], title="Holidays")
    here.admin.set_retention("3d", queue="mail", outcome="failed")
    here.limits.set("global", 6)
    running_limits.declare_limits(alone, "shop", {"group:etl": LimitSource("group:etl", "shop", "code", 4)})
    store_definitions(alone, [StoredDefinition("mail", "mail", tenants=True, sensitive=("to",))], app="shop")
    cluster_verbs.init(alone, name="first", address="sqlite:///first.db")
    world = clusters.open(urls[0])
    clusters.add(world, urls[1], "second", urls[0])
    world = clusters.open(urls[0])
    first, second = shards(world)
    ours, theirs = (each.store.read(lambda tx: tx.queues.get("mail")) for each in (first, second))
    assert ours is not None
    assert theirs is not None
    assert (theirs.order, theirs.fair, theirs.paused_at is not None) == ("run_at", "owner", True)
    quiet = second.store.read(lambda tx: tx.queues.get("night"))
    assert quiet is not None
    assert quiet.quiet_hours == "22:00-07:00"
    assert [(each.name, each.days, each.title) for each in list_calendars(second)] == [
        ("holidays", ("12-25",), "Holidays")
    ]
    assert [each.keep for each in second.store.read(lambda tx: tx.retention.all())] == [timedelta(days=3)]
    assert [each.tenants for each in find_definitions(second)] == [True]
    assert find_definitions(second)[0].sensitive == ("to",)
    for shard in (first, second):  # shares follow from who keeps something
        assert {each.name: each.max_running for each in running_limits.list_limits(shard)} == {
            "global": 3, "group:etl": 2,
        }  # fmt: skip


def test_shares_follow_when_a_database_gets_its_first_shards(clusters: Clusters) -> None:
    world, urls = clusters.make(1)
    jobs.enqueue(world, Request("mail", {}, owner="ada"))
    rooms(world).limits.set("global", 9)
    rooms(world).queues.pause("mail", until=clusters.clock.now() + timedelta(hours=1))
    [added] = clusters.urls(2)[1:]
    clusters.add(world, added, "second", urls[0])
    world = clusters.open(urls[0])
    limits = [shard.store.read(lambda tx: tx.queues.limits()) for shard in shards(world)]
    assert limits[0] == {"global": 9}
    moves.move(world, range(2000, 2100), "second")
    world = clusters.open(urls[0])
    limits = [shard.store.read(lambda tx: tx.queues.limits()) for shard in shards(world)]
    assert limits == [{"global": 5}, {"global": 4}]
    assert paused(world) == [True, True]
    assert rooms(world).limits.list()[0].max_running == 9


# -- definitions and declared limits -----------------------------------------------------------------------------------


@only_files
def test_a_worker_starts_although_a_database_is_away_which_learns_the_definitions_later(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    world = clusters.open(urls[0])
    many = [StoredDefinition(f"job-{index}", "default", tenants=True) for index in range(1200)]
    assert len(store_definitions(world, many, app="shop")) == 1200
    assert store_definitions(world, many, app="shop") == []
    absence.end()
    world = clusters.open(urls[0])
    assert catch_up(world, 2) == 1200
    assert [len(find_definitions(each)) for each in shards(world)] == [1200, 1200]


def test_a_handler_that_is_closed_is_closed_in_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("mail", "mail", tenants=True)])
    store_definitions(world, [StoredDefinition("mail", "mail", tenants=False)])
    assert [find_definitions(each)[0].tenants for each in shards(world)] == [False, False, False]


def test_limits_of_an_application_are_shared_out_and_go_with_its_code(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    declared = {"global": LimitSource("global", "shop", "code", 7)}
    assert running_limits.declare_limits(world, "shop", declared) == ["global"]
    assert running_limits.declare_limits(world, "shop", declared) == []
    found = [shard.store.read(lambda tx: tx.queues.limits()) for shard in shards(world)]
    assert found == [{"global": 3}, {"global": 2}, {"global": 2}]
    assert running_limits.declare_limits(world, "shop", {}) == ["global"]
    assert [shard.store.read(lambda tx: tx.queues.limits()) for shard in shards(world)] == [{}, {}, {}]


# -- calendars and mutes -----------------------------------------------------------------------------------------------


def group(fingerprint: str) -> ErrorGroup:
    return ErrorGroup("system", fingerprint, "mail", "OSError", "no route", "", "", 1, NOON, NOON, 1, 1)


def test_a_group_of_errors_is_muted_also_where_it_is_seen_later(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    first, second = shards(world)
    first.store.transact(lambda tx: tx.error_groups.put(group("aa")))
    answer = rooms(world).error_groups.mute("aa", reason="known")
    assert answer.muted
    assert answer.incomplete == ()
    assert catch_up_all(world) == 0
    second.store.transact(lambda tx: tx.error_groups.put(group("aa")))
    catch_up_all(world)
    assert error_groups.get_group(second, "aa").is_muted
    rooms(world).error_groups.unmute("aa")
    assert not error_groups.get_group(second, "aa").is_muted
    with pytest.raises(NotFound):
        rooms(world).error_groups.mute("bb", reason="unknown")


def test_a_calendar_is_of_one_version_everywhere_and_shows_the_schedules_of_all(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    here = rooms(world)
    assert here.calendars.set("holidays", ["12-25"], version=0).version == 1
    assert here.calendars.set("holidays", ["12-25", "12-26"], version=1).version == 2
    with pytest.raises(Conflict):
        here.calendars.set("holidays", ["01-01"], version=1)
    assert [each.version for shard in shards(world) for each in list_calendars(shard)] == [2, 2, 2]
    for index in range(8):
        here.schedules.create(
            f"s-{index}", handler="mail", cron="0 3 * * *", calendar="holidays", owner=f"owner-{index}"
        )
    assert len(here.calendars.get("holidays").schedules) == 8
    with pytest.raises(Conflict):
        here.calendars.delete("holidays")
    for index in range(8):
        here.schedules.delete(f"s-{index}", owner=f"owner-{index}")
    here.calendars.delete("holidays")
    assert here.calendars.list() == ()


@only_files
def test_a_calendar_that_a_schedule_still_uses_stays_in_that_database_until_it_does_not(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    here = rooms(world)
    here.calendars.set("holidays", ["12-25"])
    owner = next(f"owner-{index}" for index in range(99) if _database_of(world, f"owner-{index}") == 2)
    here.schedules.create("s", handler="mail", cron="0 3 * * *", calendar="holidays", owner=owner)
    absence = Absence(urls, 2)
    absence.begin(world, 2)
    rooms(clusters.open(urls[0])).calendars.delete("holidays")
    absence.end()
    world = clusters.open(urls[0])
    catch_up_all(world)
    assert [len(list_calendars(each)) for each in shards(world)] == [0, 1]
    rooms(world).schedules.delete("s", owner=owner)
    catch_up_all(world)
    assert [len(list_calendars(each)) for each in shards(world)] == [0, 0]


def _database_of(world: World, owner: str) -> int:
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    return shard_map.database_of(shard_map.vshard_of(owner=owner))


# -- at once, twice, in the middle -------------------------------------------------------------------------------------


def test_two_who_change_the_same_through_different_databases_end_with_one_value(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    orders: tuple[Order, Order] = ("priority", "run_at")
    begin, endings = threading.Barrier(4), list[Exception | None]()

    def change(url: str, first: int) -> None:
        here = rooms(clusters.open(url))
        begin.wait(30)
        for index in range(10):
            try:
                here.queues.order("mail", orders[(first + index) % 2])
            except Exception as problem:
                endings.append(problem)
            else:
                endings.append(None)

    threads = [threading.Thread(target=change, args=(urls[index % 3], index)) for index in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert len(endings) == 40
    assert None in endings
    assert {type(each) for each in endings} <= {type(None), StoreBusy}  # SQLite has one writer at a time
    catch_up_all(world)
    found = {shard.store.read(lambda tx: tx.queues.get("mail") or Queue("mail")).order for shard in shards(world)}
    assert len(found) == 1
    assert ranks(world)[0] == ranks(world)[1] == ranks(world)[2]


def test_of_two_decisions_the_same_wins_in_whatever_order_they_arrive(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    one = SharedSetting("queue.order", "mail", 7, 2, {"order": "run_at"})
    other = SharedSetting("queue.order", "mail", 7, 3, {"order": "priority"})
    for number, order in ((1, (one, other)), (2, (other, one)), (3, (one, other, one))):
        for each in order:
            apply_setting(world, number, each)
    assert ranks(world) == [{("queue.order", "mail"): Rank(7, 3)}] * 3
    found = {shard.store.read(lambda tx: tx.queues.get("mail") or Queue("mail")).order for shard in shards(world)}
    assert found == {"priority"}


def test_a_process_that_dies_after_deciding_leaves_a_decision_that_the_keeper_carries_on(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    assert world.cluster is not None
    real: Shards = world.cluster

    class Died(BaseException):
        """The process ended here."""

    def act(shard: World, _: object) -> Queue:
        return queues.pause_queue(shard, "mail", actor="ann")

    def die(*_: object) -> None:
        raise Died

    calls = iter([None, None])

    class Dying:
        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def whole(self, given: World, number: int) -> World:
            if next(calls, "over") == "over" or number != 1:
                die()
            return real.whole(given, number)

    with pytest.raises(Died):
        decide(replace(world, cluster=Dying()), Draft("queue.pause", "mail", {"paused": True, "until": None}), act)  # type: ignore[arg-type]
    assert paused(world) == [True, False, False]
    catch_up(world, 2)
    catch_up(world, 3)
    assert paused(world) == [True, True, True]


def test_what_the_deciding_database_refuses_is_written_nowhere(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    with pytest.raises(HoraeError):
        rooms(world).queues.quiet("mail", "99:00-07:00")
    with pytest.raises(HoraeError):
        rooms(world).queues.pause("mail", until=NOON - timedelta(days=1))
    assert ranks(world) == [{}, {}]


def test_a_single_database_writes_no_copy(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    world = clusters.open(url)
    rooms(world).queues.pause("mail")
    store_definitions(world, [StoredDefinition("mail", "mail")])
    assert world.store.read(lambda tx: tx.settings.heads()) == {}


# -- from the command line ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_command_says_how_many_have_applied_it_and_a_worker_brings_it_to_the_rest(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.make_cluster()
    path, kept = tmp_path / "c.db", tmp_path / "c.kept"
    shutil.move(path, kept)
    path.mkdir()
    command = [sys.executable, "-m", "horae", "queue", "pause", "mail", "--reason", "a fire"]
    ended = subprocess.run(command, cwd=tmp_path, env=shop.environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "2 of 3 applied: c did not answer. The rest follows by itself." in ended.stderr
    path.rmdir()
    shutil.move(kept, path)
    assert any("c lacks 1 settings" in each for each in findings(shop))
    worker = shop.worker()
    try:
        wait_until(lambda: _paused_in(path), "the pause in the database that was away", within=90.0)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


def _paused_in(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        query = "SELECT count(*) FROM horae_queues WHERE paused_at IS NOT NULL"
        return bool(connection.execute(query).fetchone()[0])
    finally:
        connection.close()
