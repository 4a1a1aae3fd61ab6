"""Virtual shards move to another database: nothing is lost, nothing is doubled, ids stay valid."""

from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select

from horae.actions import cluster as verbs
from horae.actions import moves
from horae.actions.access import owners, tokens
from horae.actions.adapters import documents
from horae.actions.jobs import acts, claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.labels import label_jobs
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.core.access.owners import OwnerSettings
from horae.core.cluster.moves import AT_ONCE, Parcel, drain_moves, even_moves, read_vshards
from horae.core.cluster.numbers import birthplace, first_draw, vshard_in
from horae.core.cluster.shard_map import HOME, ShardMap
from horae.core.jobs.job import Job, Lease, Outcome
from horae.core.jobs.labels import Label
from horae.errors import Conflict, InvalidInput, NotAllowed, StoreBusy, StoreError
from horae.ports.definitions import StoredDefinition
from horae.ports.store import Tx
from horae.ports.world import World
from horae.runtime.sources.store import StoreSource
from horae.stores.cluster.classes import CLASSES, Moves
from horae.stores.metadata import metadata
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import rooms
from tests.cluster.test_nothing_partial import work_on_acts
from tests.support.refusals import refused

LEASE = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)


def map_of(world: World) -> ShardMap:
    assert world.cluster is not None
    return world.cluster.refresh()


def vshard_of(world: World, owner: str) -> int:
    return map_of(world).vshard_of(owner=owner)


def filled(clusters: Clusters, count: int = 12) -> tuple[World, dict[str, str]]:
    """Return a cluster of two, and the jobs of some tenants who live in the first database, by owner."""
    world, _ = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    here = [f"owner-{n}" for n in range(200) if map_of(world).database_of(vshard_of(world, f"owner-{n}")) == 1]
    return world, {o: jobs.enqueue(world, Request("mail", {}, owner=o, key=f"key-{o}")).id for o in here[:count]}


def shards_of(world: World, owners: Collection[str]) -> list[int]:
    return sorted({vshard_of(world, owner) for owner in owners} - {HOME})


def take(world: World) -> list[tuple[World, Job]]:
    return [
        (shard, job)
        for shard in world.databases()
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)
    ]


def count_rows(world: World, table: str) -> list[int]:
    """Return how many rows each database has."""
    query = select(func.count()).select_from(metadata.tables[table])
    return [each.store.read(lambda tx: tx.connection.execute(query).scalar_one()) for each in world.databases()]


def test_every_table_is_classified() -> None:
    assert set(CLASSES) == set(metadata.tables), "say in stores/cluster/classes.py what becomes of its rows in a move"
    for name, kind in CLASSES.items():
        if isinstance(kind, Moves):
            assert kind.column in metadata.tables[name].c


def test_lists_of_virtual_shards_are_read_and_the_home_is_refused() -> None:
    assert read_vshards("17-19,99") == [17, 18, 19, 99]
    for wrong in ("", "x", "5-3", "4096", "1-", "-1"):
        with pytest.raises(InvalidInput):
            read_vshards(wrong)
    with pytest.raises(NotAllowed):
        read_vshards("0-3")


def test_moved_jobs_have_the_same_ids_and_are_done_once(clusters: Clusters) -> None:
    world, ids = filled(clusters)
    assert count_rows(world, "horae_jobs") == [12, 0]
    done = moves.move(world, shards_of(world, ids), "db-2", reason="more room")
    assert done.rows >= 24  # jobs and keys at least
    assert count_rows(world, "horae_jobs") == [0, 12]
    assert count_rows(world, "horae_keys") == [0, 12]
    assert {jobs.get(world, each).owner for each in ids.values()} == set(ids)
    owner = next(iter(ids))
    again = jobs.enqueue(world, Request("mail", {}, owner=owner, key=f"key-{owner}"))
    assert (again.id, again.deduplicated) == (ids[owner], True)
    taken = take(world)
    assert sorted(job.id for _, job in taken) == sorted(ids.values())
    for shard, job in taken:
        assert endings.settle(shard, [(job, Outcome("succeeded"))])[job.id] is not None
    assert {jobs.get(world, each).state for each in ids.values()} == {"succeeded"}
    assert verbs.look(world).is_well
    assert moves.open_parcels(world) == []


def test_a_producer_with_the_old_map_follows_the_shard(clusters: Clusters) -> None:
    world, ids = filled(clusters)
    owner = next(iter(ids))
    number = map_of(world).database_of(vshard_of(world, owner))
    assert number == 1
    moves.move(world, shards_of(world, ids), "db-2")
    stored = jobs.enqueue(world, Request("mail", {}, owner=owner))
    assert vshard_in(stored.number) == vshard_of(world, owner)
    assert jobs.get(world, stored.id).owner == owner
    assert count_rows(world, "horae_jobs") == [0, 13]


def test_an_attempt_under_way_moves_with_token_and_lease_and_its_worker_follows(clusters: Clusters) -> None:
    world, ids = filled(clusters, 4)
    taken = take(world)
    assert len(taken) == 4
    source = StoreSource(taken[0][0], world)
    leases = [Lease(job.number, job.token) for _, job in taken]
    source.progress(leases[0], 1)
    moves.move(world, shards_of(world, ids), "db-2")
    assert count_rows(world, "horae_jobs") == [0, 4]
    assert take(world) == []  # they are held
    assert source.renew(leases, lease=LEASE).held == {each.job_number for each in leases}
    source.progress(leases[0], 2)
    assert source.once(leases[0], "step", lambda _: 7) == 7
    assert source.once(leases[0], "step", lambda _: 8) == 7
    settled = source.settle([(job, Outcome("succeeded")) for _, job in taken])
    assert all(change is not None and change.state == "succeeded" for change in settled.values())
    assert len(settled) == 4
    assert source.settle([(taken[0][1], Outcome("succeeded"))]) == {taken[0][1].id: None}
    assert [run.outcome for run in jobs.runs(world, taken[0][1].id)] == ["succeeded"]


def test_a_running_attempt_that_ends_within_the_wait_ends_where_it_began(clusters: Clusters) -> None:
    world, ids = filled(clusters, 2)
    [(source, job), (_, longer)] = take(world)
    looks = iter(range(3))

    def end_later(seconds: float) -> None:
        clusters.clock.advance(timedelta(seconds=seconds))
        if next(looks, None) is None:
            for each in (job, longer):
                endings.settle(source, [(each, Outcome("succeeded"))])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters.clock, "pause", end_later)
        began = clusters.clock.now()
        moves.move(world, shards_of(world, ids), "db-2", wait=MINUTE)
    assert clusters.clock.now() - began < timedelta(seconds=2)
    assert count_rows(world, "horae_runs") == [2, 0]
    assert {jobs.get(world, each).state for each in ids.values()} == {"succeeded"}


def test_a_running_attempt_moves_along_after_the_wait_and_others_are_not_waited_for_again(clusters: Clusters) -> None:
    world, _ = filled(clusters, 4)
    taken = take(world)
    began = clusters.clock.now()
    everything = [each for each in map_of(world).owned_by(1) if each != HOME]
    sizes = list[int]()
    moves.move(world, everything, "db-2", wait=MINUTE, progress=lambda done, _: sizes.append(done))
    waited = clusters.clock.now() - began
    assert (len(sizes) > 1, MINUTE <= waited < 1.1 * MINUTE) == (True, True)
    assert count_rows(world, "horae_jobs") == [0, 4]
    settled = StoreSource(taken[0][0], world).settle([(job, Outcome("succeeded")) for _, job in taken])
    assert {change.state for change in settled.values() if change is not None} == {"succeeded"}


def test_where_nothing_runs_nothing_is_waited_for(clusters: Clusters) -> None:
    world, ids = filled(clusters, 2)
    began = clusters.clock.now()
    moves.move(world, shards_of(world, ids), "db-2", wait=MINUTE)
    assert clusters.clock.now() == began


def test_an_ending_that_comes_while_the_rows_are_on_the_way_is_to_be_repeated(clusters: Clusters) -> None:
    world, ids = filled(clusters, 2)
    taken = take(world)
    source = StoreSource(taken[0][0], world)
    leases = [Lease(job.number, job.token) for _, job in taken]
    parcel = Parcel("p", 1, 2, tuple(shards_of(world, ids)))
    moves.pack(world, parcel)
    for is_switched in (False, True):
        if is_switched:
            moves.switch(world, parcel)
        assert source.settle([(job, Outcome("succeeded")) for _, job in taken]) == {}
        assert source.renew(leases, lease=LEASE).busy == {each.job_number for each in leases}
        with pytest.raises(StoreBusy):
            source.progress(leases[0], 1)
        with pytest.raises(StoreBusy):
            jobs.enqueue(world, Request("mail", {}, owner=taken[0][1].owner))
    moves.advance(world, parcel)
    settled = source.settle([(job, Outcome("succeeded")) for _, job in taken])
    assert [change and change.state for change in settled.values()] == ["succeeded", "succeeded"]


def test_what_ended_before_a_move_stays_readable(clusters: Clusters) -> None:
    world, ids = filled(clusters, 3)
    for shard, job in take(world):
        endings.settle(shard, [(job, Outcome("succeeded"))])
    moves.move(world, shards_of(world, ids), "db-2")
    assert count_rows(world, "horae_runs") == [3, 0]
    for owner, each in ids.items():
        assert jobs.get(world, each).state == "succeeded"
        assert jobs.get(world, each, owner=owner).state == "succeeded"
        assert [run.outcome for run in jobs.runs(world, each)] == ["succeeded"]
        assert jobs.enqueue(world, Request("mail", {}, owner=owner, key=f"key-{owner}")).id == each


def test_attempts_before_and_after_a_move_are_one_history(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    [(shard, job)] = take(world)
    endings.settle(shard, [(job, Outcome("failed", error="no", delay=timedelta(0)))])
    moves.move(world, shards_of(world, ids), "db-2")
    clusters.clock.advance(timedelta(hours=1))
    [(shard, again)] = take(world)
    assert again.token > job.token
    endings.settle(shard, [(again, Outcome("succeeded"))])
    assert [run.outcome for run in jobs.runs(world, job.id)] == ["failed", "succeeded"]


def test_jobs_from_before_the_cluster_move_and_keep_their_ids(clusters: Clusters) -> None:
    first, second = clusters.urls(2)
    before = clusters.open(first)
    old = {f"owner-{n}": jobs.enqueue(before, Request("mail", {}, owner=f"owner-{n}")).id for n in range(3)}
    keyed = jobs.enqueue(before, Request("mail", {}, key="alone")).id
    plain = jobs.enqueue(before, Request("mail", {})).id
    verbs.init(before, name="first", address=first)
    world = clusters.open(first)
    clusters.add(world, second, "db-2", first)
    assert verbs.look(world).empty == ("db-2",)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    wanted = {*shards_of(world, old), map_of(world).vshard_of(key="alone")} - {HOME}
    moves.move(world, wanted, "db-2")
    assert count_rows(world, "horae_jobs") == [1, 4]
    assert jobs.enqueue(world, Request("mail", {}, key="alone")).id == keyed
    for url in (first, second):
        other = clusters.open(url)
        for owner, each in old.items():
            assert jobs.get(other, each).owner == owner
            assert jobs.get(other, each, owner=owner).id == each
        assert jobs.get(other, keyed).id == keyed
        assert jobs.get(other, plain).id == plain
    owner, each = next(iter(old.items()))
    assert jobs.cancel(world, each).state == "cancelled"
    taken = take(world)
    assert sorted(job.id for _, job in taken) == sorted({*old.values(), keyed, plain} - {each})
    for shard, job in taken:
        assert StoreSource(shard, world).settle([(job, Outcome("succeeded"))])[job.id] is not None


def test_schedules_move_with_their_fires_and_fire_once(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    made = [schedules.create(world, a_schedule(f"s{index}")) for index in range(12)]

    def fire_all() -> None:
        clusters.clock.advance(timedelta(days=1))
        for shard in world.databases():
            while fires.fire_due(shard):
                continue

    fire_all()
    before = {each.key: len(list(schedules.history(world, each.key))) for each in made}
    wanted = {map_of(world).vshard_of(key=each.key) for each in made} - {HOME}
    moves.move(world, [each for each in wanted if map_of(world).database_of(each) == 1], "db-2")
    assert count_rows(world, "horae_schedules") == [0, 12]
    assert {each.key: len(list(schedules.history(world, each.key))) for each in made} == before
    fire_all()
    for each in made:
        history = list(schedules.history(world, each.key))
        assert len(history) == 2 * before[each.key]  # a day is a day
        assert all(name is None or jobs.get(world, name).handler for _, name in history)


def test_settings_and_documents_of_an_owner_move(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    [owner] = ids
    owners.set_owner(world, owner, OwnerSettings(max_enabled_tasks=7))
    documents.put(world, owner, "note", "a", {"text": "b"})
    moves.move(world, shards_of(world, ids), "db-2")
    assert count_rows(world, "horae_owners") == [0, 1]
    assert owners.get_owner(world, owner).max_enabled_tasks == 7
    assert documents.get(world, owner, "note", "a") == {"text": "b"}


def _members(label: Label, tx: Tx) -> list[int]:
    return tx.labels.members(label, before=None, limit=10)


def test_labels_of_moved_jobs_lead_to_them(clusters: Clusters) -> None:
    world, ids = filled(clusters, 3)
    for shard in world.databases():
        while label_jobs(shard):
            continue
    moves.move(world, shards_of(world, ids), "db-2")
    there = world.databases()[1].store
    for owner, each in ids.items():
        label = Label("owner", owner)
        found = there.read(partial(_members, label))
        assert [f"job_{vshard_in(number)}x{number}" for number in found] == [each]


def test_a_job_that_waits_for_a_slot_does_not_wait_for_ever(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    keys = [f"k{n}" for n in range(50) if map_of(world).database_of(map_of(world).vshard_of(key=f"k{n}")) == 1][:2]
    for key in keys * 2:
        jobs.enqueue(world, Request("mail", {}, concurrency_key=key))
    running = take(world)
    assert len(running) == 2
    assert take(world) == []
    moves.move(world, {map_of(world).vshard_of(key=key) for key in keys} - {HOME}, "db-2")
    assert take(world) == []  # the slots came along
    for shard, job in running:
        assert StoreSource(shard, world).settle([(job, Outcome("succeeded"))])[job.id] is not None
    assert len(take(world)) == 2


def test_a_tenants_act_that_is_not_over_goes_along_and_goes_on_there(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    [owner] = ids
    act = acts.start(world, "cancel", "handler:mail", owner=owner)
    assert act.matched > 0
    moves.move(world, shards_of(world, ids), "db-2")
    assert verbs.look(world).is_well
    assert work_on_acts(world) == 1
    ended = acts.get(world, act.id, owner=owner)
    assert (ended.state, ended.changed) == ("done", act.matched)


def test_an_act_of_the_house_is_waited_for_and_the_error_names_one_that_rests(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    act = rooms(world).acts.start("cancel", "handler:mail")
    room = rooms(world)
    room.acts.pause(act.id)
    with refused(NotAllowed, "vshard_act_open", id=act.id, state="paused"):
        moves.move(world, shards_of(world, ids), "db-2")
    assert count_rows(world, "horae_parcels") == [0, 0]
    room.acts.resume(act.id)
    before = clusters.clock.now()
    with refused(NotAllowed, "vshard_act_open", state="running"):  # no worker serves it
        moves.move(world, shards_of(world, ids), "db-2")
    assert timedelta(minutes=1) <= clusters.clock.now() - before < timedelta(minutes=2)
    looks = iter(range(3))

    def work_later(_: float) -> None:
        if next(looks, None) is None:
            work_on_acts(world)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters.clock, "pause", work_later)
        assert moves.move(world, shards_of(world, ids), "db-2").vshards == 1
    assert rooms(world).acts.get(act.id).state == "done"


def test_two_movers_cannot_both_win(clusters: Clusters) -> None:
    world, ids = filled(clusters, 2)
    vshards = tuple(shards_of(world, ids))
    moves.pack(world, Parcel("a", 1, 2, vshards))
    with pytest.raises(Conflict):
        moves.pack(world, Parcel("b", 1, 2, vshards))
    assert moves.finish(world) == 1
    assert count_rows(world, "horae_jobs") == [0, 2]
    with pytest.raises(Conflict):
        moves.pack(world, Parcel("c", 1, 2, vshards))
    assert count_rows(world, "horae_parcels") == [0, 0]


def test_shards_go_and_come_back(clusters: Clusters) -> None:
    world, ids = filled(clusters)
    vshards = shards_of(world, ids)
    for to in ("db-2", "first", "db-2"):
        moves.move(world, vshards, to)
    assert count_rows(world, "horae_jobs") == [0, 12]
    assert {jobs.get(world, each).owner for each in ids.values()} == set(ids)


def test_a_database_is_drained_and_a_new_one_gets_its_share(clusters: Clusters) -> None:
    world, ids = filled(clusters)
    assert moves.drain(world, "db-2").vshards == 2048
    assert verbs.look(world).empty == ("db-2",)
    moves.move_even(world)
    assert {each.vshards for each in verbs.look(world).members} == {2048}
    assert {jobs.get(world, each).owner for each in ids.values()} == set(ids)
    with pytest.raises(NotAllowed):
        drain_moves(map_of(world), 1)  # it keeps the home
    assert even_moves(map_of(world)) == []


def test_shards_with_few_rows_go_in_large_parcels_and_one_with_many_rows_with_few_others(clusters: Clusters) -> None:
    world, ids = filled(clusters, 3)
    large = next(iter(ids))
    for _ in range(6):
        jobs.enqueue_many(world, [Request("mail", {}, owner=large)] * 100)
    moved, sizes = [each for each in map_of(world).owned_by(1) if each != HOME], list[int]()
    moves.move(world, moved, "db-2", progress=lambda done, _: sizes.append(done - sum(sizes)))
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    with_large = next(size for size, end in zip(sizes, ends, strict=True) if moved.index(vshard_of(world, large)) < end)
    assert (sum(sizes), len(sizes) < 7) == (2047, True)
    assert with_large <= AT_ONCE
    assert count_rows(world, "horae_jobs") == [0, 603]


STEPS: list[Callable[[World, Parcel], Any]] = [moves.pack, moves.switch, moves.unpack]


@pytest.mark.parametrize("done", range(1, 4))
def test_a_move_that_stopped_after_any_step_is_finished_by_repair(clusters: Clusters, done: int) -> None:
    world, ids = filled(clusters, 4)
    [(shard, held), *_] = take(world)
    parcel = Parcel("p", 1, 2, tuple(shards_of(world, ids)))
    for step in STEPS[:done]:
        step(world, parcel)
    for _ in range(2):  # repeated, it changes nothing
        assert verbs.check(world, repair=True).is_well
    assert count_rows(world, "horae_jobs") == [0, 4]
    assert count_rows(world, "horae_parcels") == count_rows(world, "horae_parcel_rows") == [0, 0]
    assert {jobs.get(world, each).owner for each in ids.values()} == set(ids)
    assert StoreSource(shard, world).settle([(held, Outcome("succeeded"))])[held.id] is not None


def test_a_database_never_draws_the_numbers_of_another(clusters: Clusters) -> None:
    world, ids = filled(clusters, 1)
    [owner] = ids
    last = first_draw(2) - 2
    set_drawn = {
        "sqlite": f"UPDATE horae_cluster SET drawn = {last}",
        "postgresql": f"SELECT setval('horae_numbers', {last})",
    }
    world.databases()[0].store.transact(
        lambda tx: tx.connection.exec_driver_sql(set_drawn[tx.connection.dialect.name]) and None
    )
    assert birthplace(jobs.enqueue(world, Request("mail", {}, owner=owner)).number) == 1
    with refused(StoreError, "cluster_draws_used_up"):
        jobs.enqueue(world, Request("mail", {}, owner=owner))
    moves.move(world, shards_of(world, ids), "db-2")
    assert birthplace(jobs.enqueue(world, Request("mail", {}, owner=owner)).number) == 2


def test_a_tenant_s_token_is_known_wherever_the_tenant_lives(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    owners_of_two = {map_of(world).database_of(vshard_of(world, f"owner-{n}")): f"owner-{n}" for n in range(50)}

    for owner in owners_of_two.values():
        _, text = tokens.create_token(world, owner=owner, scopes=["tasks"])
        assert tokens.recognise(world, text).owner == owner
        assert [each.owner for each in tokens.find_tokens(world, owner=owner)] == [owner]
    assert len(owners_of_two) == 2


@pytest.mark.parametrize("is_switched", [False, True])
@pytest.mark.parametrize("is_empty", [False, True])
def test_shards_that_are_on_the_way_stay_closed_when_a_database_is_added(
    clusters: Clusters, is_switched: bool, is_empty: bool
) -> None:
    world, urls = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    [third] = clusters.urls(3)[2:]
    shard_map = map_of(world)
    given = shard_map.add("db-3", "").share_for(3)[-500:]  # the highest of the second, in the first they would go, too
    owner = next(each for each in (f"owner-{n}" for n in range(999)) if vshard_of(world, each) in given)
    made = [] if is_empty else [jobs.enqueue(world, Request("mail", {}, owner=owner)).id]
    parcel = Parcel("p", 2, 1, (vshard_of(world, owner),))
    moves.pack(world, parcel)
    if is_switched:
        moves.switch(world, parcel)
    clusters.add(world, third, "db-3", urls[0])
    with pytest.raises(StoreBusy):
        jobs.enqueue(world, Request("mail", {}, owner=owner))
    moves.advance(world, parcel)
    assert map_of(world).database_of(vshard_of(world, owner)) == 1
    made.append(jobs.enqueue(world, Request("mail", {}, owner=owner)).id)
    assert sorted(job.id for _, job in take(world)) == sorted(made)
    assert verbs.look(world).is_well
