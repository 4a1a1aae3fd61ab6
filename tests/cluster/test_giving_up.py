"""A mover that gives up, or dies before it has packed anything, leaves nothing behind that counts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from horae.actions import cluster as verbs
from horae.actions import moves
from horae.actions.access import tokens
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.core.access.callers import token_text
from horae.core.cluster.moves import Cargo, Parcel
from horae.core.timeouts import Timeouts
from horae.errors import Conflict, StoreBusy, Unauthorized
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.cluster.parcels import Parcels
from horae.stores.store import SqlStore
from tests.cluster.conftest import Clusters
from tests.cluster.test_moving import count_rows, filled, map_of, shards_of

UNKNOWN = token_text("0123456789ab", "5" * 64)  # of the form that tokens had before there was a cluster
SHORT = Timeouts(statement=timedelta(seconds=1))  # how long a mover tries again after a lock timeout


def source_of(world: World) -> SqlStore:
    assert world.cluster is not None
    store = world.cluster.store_of(1)
    assert isinstance(store, SqlStore)
    return store


@contextmanager
def open_insert(world: World, owner: str) -> Iterator[str]:
    """Enqueue in a transaction that stays open for the block; yield the id of the job, which has entered its shard."""
    with source_of(world).engine.begin() as connection:
        yield jobs.enqueue(world, Request("mail", {}, owner=owner), connection=connection).id


@pytest.mark.server
@pytest.mark.slow
def test_nothing_commits_behind_a_copy_and_a_mover_that_waits_too_long_leaves_nothing(
    postgres_clusters: Clusters,
) -> None:
    world, ids = filled(postgres_clusters, 4)
    owner, vshards, source = next(iter(ids)), shards_of(world, ids), source_of(world)
    source.timeouts, began = SHORT, time.monotonic()
    with open_insert(world, owner) as late:
        with pytest.raises(StoreBusy):
            moves.move(world, vshards, "db-2")
        assert time.monotonic() - began < 60
        assert count_rows(world, "horae_parcels") == count_rows(world, "horae_parcel_rows") == [0, 0]
        with pytest.raises(Unauthorized):
            tokens.recognise(world, UNKNOWN)
    assert count_rows(world, "horae_jobs") == [5, 0]
    assert moves.move(world, vshards, "db-2").vshards == len(vshards)
    assert count_rows(world, "horae_jobs") == [0, 5]
    assert jobs.get(world, late).owner == owner
    assert verbs.look(world).is_well


def test_an_announcement_of_a_mover_that_died_before_packing_is_dropped_by_repair(clusters: Clusters) -> None:
    world, ids = filled(clusters, 4)
    assert world.cluster is not None
    parcel = Parcel("p", 1, 2, tuple(shards_of(world, ids)))
    world.cluster.store_of(2).transact(lambda tx: tx.parcels.expect(parcel))
    with pytest.raises(StoreBusy):
        tokens.recognise(world, UNKNOWN)
    assert not verbs.check(world).is_well
    assert verbs.look(world).members[1].moving == len(parcel.vshards)

    assert verbs.check(world, repair=True).is_well
    version = map_of(world).version
    assert verbs.check(world, repair=True).version == version  # repeated, it changes nothing

    with pytest.raises(Unauthorized):
        tokens.recognise(world, UNKNOWN)
    assert count_rows(world, "horae_parcels") == [0, 0]
    moves.move(world, parcel.vshards, "db-2")
    assert count_rows(world, "horae_jobs") == [0, 4]


def test_a_mover_that_comes_after_the_repair_cannot_pack_by_its_old_plan(clusters: Clusters) -> None:
    world, ids = filled(clusters, 4)
    assert world.cluster is not None
    shard_map, parcel = map_of(world), Parcel("p", 1, 2, tuple(shards_of(world, ids)))
    world.cluster.store_of(2).transact(lambda tx: tx.parcels.expect(parcel))
    verbs.check(world, repair=True)

    def pack(tx: Tx) -> int:
        return tx.parcels.pack(parcel, Cargo(shard_map, parcel.vshards), version=shard_map.version)

    with pytest.raises(Conflict):
        world.cluster.store_of(1).transact(pack)
    assert count_rows(world, "horae_jobs") == [4, 0]


def test_repair_leaves_a_parcel_that_was_packed_meanwhile_and_brings_it_to_its_end(clusters: Clusters) -> None:
    world, ids = filled(clusters, 4)
    moves.pack(world, Parcel("p", 1, 2, tuple(shards_of(world, ids))))
    assert verbs.check(world, repair=True).is_well
    assert count_rows(world, "horae_jobs") == [0, 4]


@pytest.mark.server
def test_a_mover_that_packs_while_the_version_is_raised_is_waited_for(postgres_clusters: Clusters) -> None:
    world, ids = filled(postgres_clusters, 4)
    assert world.cluster is not None
    shard_map, parcel = map_of(world), Parcel("p", 1, 2, tuple(shards_of(world, ids)))
    world.cluster.store_of(2).transact(lambda tx: tx.parcels.expect(parcel))
    with source_of(world).engine.begin() as connection:
        packed = Parcels(connection).pack(parcel, Cargo(shard_map, parcel.vshards), version=shard_map.version)
        assert packed >= 4
        source_of(world).timeouts = SHORT
        verbs.check(world, repair=True)  # it cannot say whether the parcel will be packed, so it leaves it
        assert world.cluster.store_of(2).read(lambda tx: tx.parcels.expected()) == [parcel]
    assert verbs.check(world, repair=True).is_well
    assert count_rows(world, "horae_jobs") == [0, 4]
