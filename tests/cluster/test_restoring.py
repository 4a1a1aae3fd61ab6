"""A database of a cluster comes back from a copy: nothing runs twice because of it, and no number is given again."""

import json
import subprocess
from collections import Counter
from itertools import count as count_from
from pathlib import Path

import pytest
from sqlalchemy import text

from horae.actions import cluster as verbs
from horae.actions import moves, restore
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.cli.main import main
from horae.clock import SystemDice
from horae.core.cluster.moves import Parcel
from horae.core.cluster.restore import SKIPPED_DRAWS
from horae.core.cluster.shard_map import HOME
from horae.core.jobs.job import Outcome
from horae.errors import ConfigurationError, Conflict, StoreUnavailable
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.stores import backup
from horae.stores.cluster.opening import with_cluster
from horae.stores.opening import create_store_engine, open_store
from tests.cluster.conftest import Clusters
from tests.cluster.mail import deliver, ids, put, run, state, take
from tests.cluster.test_lists import rooms
from tests.cluster.test_working import LEASE
from tests.support.refusals import refused

OWNERS = [f"owner-{n}" for n in range(12)]
sqlite = pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)


class Ground:
    """A cluster of files with a job for each owner, and copies of its files."""

    def __init__(self, clusters: Clusters, count: int = 2) -> None:
        clusters.dice = SystemDice()  # type: ignore[assignment]
        self.clusters = clusters
        self._copies = count_from(1)
        self.world, self.urls = clusters.make(count)
        store_definitions(self.world, [StoredDefinition("mail", "default", tenants=True)])
        self.ids = {owner: self.enqueue(owner) for owner in OWNERS}

    def enqueue(self, owner: str) -> str:
        return jobs.enqueue(self.world, Request("mail", {}, owner=owner)).id

    def file(self, number: int) -> Path:
        return Path(self.urls[number - 1].removeprefix("sqlite:///"))

    def copy(self, number: int) -> Path:
        target = self.file(number).with_suffix(f".copy-{next(self._copies)}")
        backup.back_up(self.file(number), target)
        return target

    def put_back(self, number: int, copy: Path) -> None:
        """Bring a copy back and hold it, as ``horae db restore`` does."""
        backup.exchange(copy, self.file(number))
        alone = self.clusters.open_alone(self.urls[number - 1])
        alone.store.transact(lambda tx: tx.restoring.hold())

    def restore(self, number: int) -> restore.Restored:
        store = open_store(create_store_engine(self.urls[number - 1]))
        plain = World(store, self.clusters.clock, self.clusters.dice, tzdata="2030a")
        world = with_cluster(plain, store, make_clock=lambda _: self.clusters.clock, held_too=True)
        try:
            return restore.restored(world)
        finally:
            world.store.close()

    def anew(self) -> World:
        self.world = self.clusters.open(self.urls[0])
        return self.world

    def vshards(self, number: int) -> list[int]:
        """Return the virtual shards of owners that a database keeps."""
        assert self.world.cluster is not None
        shard_map = self.world.cluster.refresh()
        found = {shard_map.vshard_of(owner=owner) for owner in OWNERS} - {HOME}
        return sorted(each for each in found if shard_map.database_of(each) == number)

    def stored(self) -> Counter[str]:
        return Counter(job.id for shard in self.anew().databases() for job in jobs.find(shard, limit=500))

    def is_whole(self) -> bool:
        """Return whether every job is stored once, every shard is open and nothing is on the way."""
        rows = [
            shard.store.read(lambda tx: tx.connection.execute(text("SELECT count(*) FROM horae_parcels")).scalar())
            for shard in self.anew().databases()
        ]
        for owner in OWNERS:
            self.ids[f"{owner} again"] = self.enqueue(owner)
        return self.stored() == Counter(self.ids.values()) and verbs.look(self.world).is_well and not any(rows)


@sqlite
def test_rows_of_shards_that_have_left_since_the_copy_do_not_run_twice(clusters: Clusters) -> None:
    ground = Ground(clusters)
    copy = ground.copy(2)
    moves.move(ground.world, ground.vshards(2), "first")
    ground.put_back(2, copy)
    done = ground.restore(2)
    assert done.databases["db-2"].strays >= 1
    assert ground.is_whole()
    for job in ground.stored():
        assert jobs.get(ground.world, job).state == "queued"


@sqlite
@pytest.mark.parametrize("number", [1, 2])
def test_a_child_elsewhere_starts_though_the_copy_has_forgotten_what_was_asked_and_answered(
    clusters: Clusters, number: int
) -> None:
    ground = Ground(clusters)
    for shard, job in take(ground.world):
        endings.settle(shard, [(job, Outcome("succeeded"))])
    parent = put(ground.world, 1)
    copies = {1: ground.copy(1)}
    child = put(ground.world, 2, parent)
    deliver(ground.world)
    copies[2] = ground.copy(2)
    if number == 2:
        run(ground.world, parent)
        deliver(ground.world)
    ground.put_back(number, copies[number])
    ground.restore(number)
    world = ground.anew()
    if number == 1:
        run(world, parent)
    deliver(world)
    assert ids(take(world)) == [child.id]


@sqlite
def test_a_child_of_a_parent_that_is_lost_with_its_database_is_dealt_with_by_its_policy(clusters: Clusters) -> None:
    ground = Ground(clusters)
    copy = ground.copy(1)
    parent = put(ground.world, 1)
    child = put(ground.world, 2, parent, on_parent_dead="cancel")
    deliver(ground.world)
    ground.put_back(1, copy)
    ground.restore(1)
    deliver(ground.anew())
    assert state(ground.world, child) == ("cancelled", "")


@sqlite
def test_a_calendar_that_comes_with_a_parcel_replaces_none_that_is_newer(clusters: Clusters) -> None:
    ground = Ground(clusters)
    rooms(ground.world).calendars.set("holidays", ["2030-01-08"])
    moves.pack(ground.world, Parcel("p", 1, 2, tuple(ground.vshards(1))))
    rooms(ground.world).calendars.set("holidays", ["2030-01-09"])
    ground.put_back(2, ground.copy(2))
    assert ground.restore(2).parcels == 1
    stores = [shard.store for shard in ground.anew().databases()]
    assert [each.read(lambda tx: [one.days for one in tx.calendars.all()]) for each in stores] == [
        [("2030-01-09",)]
    ] * 2
    assert ground.is_whole()


@sqlite
def test_it_serves_nothing_while_it_is_held(clusters: Clusters) -> None:
    ground = Ground(clusters)
    ground.put_back(2, ground.copy(2))
    world = ground.anew()
    assert world.cluster is not None
    assert world.cluster.further(world)() == []
    with refused(ConfigurationError, "cluster_member_restored"):
        jobs.enqueue(world, Request("mail", {}, owner=_owner_in(world, 2)))
    with refused(ConfigurationError, "cluster_member_restored"):
        clusters.open(ground.urls[1])
    assert jobs.enqueue(world, Request("mail", {}, owner=_owner_in(world, 1))).id
    assert [each.problem is None for each in verbs.look(world).members] == [True, False]


@sqlite
@pytest.mark.parametrize("is_switched", [False, True])
def test_what_is_on_the_way_to_it_arrives_though_the_copy_does_not_know_of_it(
    clusters: Clusters, is_switched: bool
) -> None:
    ground = Ground(clusters)
    copy, parcel = ground.copy(2), Parcel("p", 1, 2, tuple(ground.vshards(1)))
    moves.pack(ground.world, parcel)
    if is_switched:
        moves.switch(ground.world, parcel)
    ground.put_back(2, copy)
    assert ground.restore(2).parcels == 1
    assert ground.is_whole()


@sqlite
def test_what_it_had_packed_is_sent_from_the_copy_where_the_target_waits_for_it(clusters: Clusters) -> None:
    ground = Ground(clusters)
    copy, parcel = ground.copy(2), Parcel("p", 2, 1, tuple(ground.vshards(2)))
    moves.pack(ground.world, parcel)
    moves.switch(ground.world, parcel)
    ground.put_back(2, copy)  # and the parcel is gone
    assert ground.restore(2).databases["db-2"].sent >= 1
    assert ground.is_whole()


@sqlite
def test_what_was_packed_in_the_copy_and_came_back_since_is_put_back(clusters: Clusters) -> None:
    ground = Ground(clusters)
    vshards = tuple(ground.vshards(2))
    parcel = Parcel("p", 2, 1, vshards)
    moves.pack(ground.world, parcel)
    copy = ground.copy(2)
    moves.advance(ground.world, parcel)
    moves.move(ground.world, vshards, "db-2")
    ground.put_back(2, copy)
    ground.restore(2)
    assert ground.is_whole()


@sqlite
def test_what_was_announced_in_the_copy_and_arrived_since_keeps_no_shard_closed(clusters: Clusters) -> None:
    ground = Ground(clusters)
    vshards = tuple(ground.vshards(1))
    parcel = Parcel("p", 1, 2, vshards)
    moves.pack(ground.world, parcel)
    copy = ground.copy(2)
    moves.advance(ground.world, parcel)
    moves.move(ground.world, vshards, "first")
    ground.put_back(2, copy)
    ground.restore(2)
    assert ground.is_whole()


@sqlite
@pytest.mark.parametrize("named", [1, 2])
def test_of_two_that_come_back_one_sends_what_the_other_lacks(clusters: Clusters, named: int) -> None:
    ground = Ground(clusters, 3)
    copies = {number: ground.copy(number) for number in (1, 2)}
    assert ground.world.cluster is not None
    moves.move(ground.world, ground.vshards(2), "first")
    for number, copy in copies.items():
        ground.put_back(number, copy)
    # Of these three only the third knows the newest map.
    done = ground.restore(named)
    assert set(done.databases) == {"first", "db-2"}
    assert done.databases["db-2"].sent >= 1
    assert ground.is_whole()


@sqlite
def test_a_worker_that_still_has_the_newer_rows_is_refused(clusters: Clusters) -> None:
    ground = Ground(clusters)
    copy = ground.copy(2)
    shard = ground.world.databases()[1]
    taken = claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)
    assert taken
    running = ground.copy(2)
    for each, expected in ((copy, 0), (running, len(taken))):
        ground.put_back(2, each)
        assert ground.restore(2).databases["db-2"].running == expected
        shard = ground.anew().databases()[1]
        settled = endings.settle(shard, [(job, Outcome("succeeded")) for job in taken])
        assert set(settled.values()) == {None}
    assert ground.is_whole()


@sqlite
def test_numbers_begin_above_all_that_any_database_knows(clusters: Clusters) -> None:
    ground = Ground(clusters)
    copy, owner = ground.copy(2), _owner_in(ground.world, 2)
    later = [jobs.enqueue(ground.world, Request("mail", {}, owner=owner)) for _ in range(5)]
    vshard = ground.world.cluster.shard_map.vshard_of(owner=owner)  # type: ignore[union-attr]
    moves.move(ground.world, [vshard], "first")
    ground.put_back(2, copy)
    ground.restore(2)
    moves.move(ground.anew(), [vshard], "db-2")
    new = jobs.enqueue(ground.world, Request("mail", {}, owner=owner))
    assert new.number >> 12 > (max(each.number for each in later) >> 12) + SKIPPED_DRAWS
    ground.ids |= {each.id: each.id for each in (*later, new)}
    assert ground.is_whole()


@sqlite
def test_every_other_database_must_answer(clusters: Clusters) -> None:
    ground = Ground(clusters, 3)
    ground.put_back(2, ground.copy(2))
    ground.file(3).rename(ground.file(3).with_suffix(".away"))
    with refused(StoreUnavailable, "cluster_restore_needs_all"):
        ground.restore(2)
    ground.file(3).with_suffix(".away").rename(ground.file(3))
    ground.restore(2)
    assert ground.is_whole()


@sqlite
def test_an_older_map_of_the_first_database_does_not_win(clusters: Clusters) -> None:
    """Brought back without a word to Horae, as by a snapshot of a disk."""
    ground = Ground(clusters)
    copy = ground.copy(1)
    moves.move(ground.world, ground.vshards(1), "db-2")
    newest = verbs.known_map(ground.world)
    backup.exchange(copy, ground.file(1))
    world = ground.anew()
    assert verbs.look(world).version == newest.version
    assert not verbs.look(world).is_well
    with refused(Conflict, "cluster_map_older", name="db-2"):
        moves.move(world, ground.vshards(2)[:1], "first")
    state = verbs.check(world, repair=True)
    assert [each.version for each in state.members] == [newest.version] * 2
    assert verbs.known_map(ground.anew()).places == newest.places
    assert ground.restore(1).databases["first"].strays >= 1  # what the copy still had of the shards that left
    assert ground.is_whole()


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("clusters", ["postgres"], indirect=True)
def test_postgresql_is_copied_and_comes_back_in_another_database(
    clusters: Clusters,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ground = Ground(clusters)
    monkeypatch.setenv("HORAE_DATABASE_URL", ground.urls[0])
    assert main(["db", "backup", str(tmp_path / "monday")]) == 0
    known = json.loads((tmp_path / "monday" / "map.json").read_text())
    assert [each["file"] for each in known["databases"]] == ["first.dump", "db-2.dump"]
    moves.move(ground.world, ground.vshards(2)[:1], "first")
    later = ground.enqueue(_owner_in(ground.world, 1))
    lost = ground.enqueue(_owner_in(ground.world, 2))
    [restored] = clusters.urls(len(ground.urls) + 1)[-1:]
    _empty(restored)
    target = restored.replace("postgresql+psycopg", "postgresql")
    subprocess.run(
        ["pg_restore", "--single-transaction", f"--dbname={target}", str(tmp_path / "monday" / "db-2.dump")], check=True
    )
    capsys.readouterr()
    assert main(["cluster", "restored", "--db", restored, "--here", "--json"]) == 4  # the old one still answers
    assert "still answers" in capsys.readouterr().out
    ground.world.store.close()
    _empty(ground.urls[1])
    assert main(["cluster", "restored", "--db", restored, "--here", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)["restored"]
    assert done["databases"]["db-2"]["strays"] >= 1
    ground.urls[1] = restored
    ground.ids |= {"later": later}
    assert lost not in ground.stored()
    assert ground.is_whole()


def _empty(url: str) -> None:
    """Let nothing answer there any more; the fixture gives the database itself back."""
    engine = create_store_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()


def _owner_in(world: World, number: int) -> str:
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    return next(owner for owner in OWNERS if shard_map.database_of(shard_map.vshard_of(owner=owner)) == number)
