"""Jobs of many owners over several databases: each is stored, found and ended where its owner lives (S0-37)."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from horae.actions import cluster as verbs
from horae.actions.jobs import jobs
from horae.actions.jobs.labels import label_jobs
from horae.actions.jobs.requests import Request
from horae.core.cluster.numbers import birthplace, vshard_in, vshard_of_id
from horae.core.cluster.shard_map import HOME
from horae.core.jobs.labels import Label
from horae.errors import (
    Conflict,
    HoraeError,
    InvalidInput,
    KeyConflict,
    NotAllowed,
    NotFound,
    PartlyStored,
    StaleMap,
    StoreBusy,
)
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.mail import keys_in
from tests.support.refusals import refused


def owners(count: int) -> list[str]:
    return [f"owner-{index}" for index in range(count)]


def enqueue_for(world: World, owner: str, **given: object) -> str:
    return jobs.enqueue(world, Request("mail", {"to": owner}, owner=owner, **given)).id  # type: ignore[arg-type]


def members(world: World) -> list[int]:
    assert world.cluster is not None
    return [each.number for each, _ in world.cluster.worlds(world)]


def test_a_single_database_is_its_own_world(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    world = clusters.open(url)
    assert world.cluster is None
    assert world.route(owner="ann") is world
    assert world.shards() == [world]
    assert jobs.enqueue(world, Request("mail", {})).id == "job_1"


def test_one_database_becomes_the_first_shard_without_a_copy(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    before = clusters.open(url)
    old = jobs.enqueue(before, Request("mail", {"n": 1}, owner="ann"))
    verbs.init(before, name="first", address=url)
    world = clusters.open(url)
    assert jobs.get(world, old.id).owner == "ann"
    new = enqueue_for(world, "ann")
    assert vshard_of_id(new) == world.cluster.shard_map.vshard_of(owner="ann")  # type: ignore[union-attr]
    assert jobs.get(world, new).id == new


def test_a_process_from_before_the_cluster_stores_nothing_any_more(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    before = clusters.open(url)
    verbs.init(clusters.open(url), name="first", address=url)
    with pytest.raises(HoraeError):
        jobs.enqueue(before, Request("mail", {}))
    with pytest.raises(HoraeError):
        jobs.enqueue(before, Request("mail", {}, key="once"))


def test_a_cluster_is_made_once(clusters: Clusters) -> None:
    world, _ = clusters.make(1)
    with pytest.raises(Conflict):
        verbs.init(world.shards()[0], name="again", address="x")


def test_new_databases_share_what_is_empty_evenly(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    state = verbs.look(world)
    assert state.is_well
    assert sorted(each.vshards for each in state.members) == [1365, 1365, 1366]
    assert world.cluster is not None
    assert world.cluster.shard_map.database_of(HOME) == 1


def test_jobs_of_many_owners_spread_and_are_found_by_their_ids(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    ids = {owner: enqueue_for(world, owner) for owner in owners(60)}
    assert len(set(ids.values())) == 60
    assert {jobs.get(world, each).owner for each in ids.values()} == set(ids)
    counts = [each.store.read(lambda tx: tx.connection.execute(text("select count(*) from horae_jobs")).scalar())
              for each in world.shards()]  # fmt: skip
    assert sum(counts) == 60
    assert all(counts)


def test_numbers_are_unique_and_name_their_birthplace(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    stored = [jobs.enqueue(world, Request("mail", {}, owner=owner)) for owner in owners(40)]
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    for each in stored:
        vshard = vshard_in(each.number)
        assert vshard is not None
        assert birthplace(each.number) == shard_map.database_of(vshard)
    assert len({each.number for each in stored}) == 40


def test_a_job_of_the_house_without_a_key_is_drawn(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    stored = [jobs.enqueue(world, Request("mail", {})) for _ in range(4)]
    assert len({vshard_in(each.number) for each in stored}) > 1
    assert all(jobs.get(world, each.id).owner == "system" for each in stored)


def test_a_key_is_known_again_in_the_shard_that_it_leads_to(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    first = [jobs.enqueue(world, Request("mail", {}, key=f"k{index}")) for index in range(20)]
    again = [jobs.enqueue(world, Request("mail", {}, key=f"k{index}")) for index in range(20)]
    assert [each.id for each in again] == [each.id for each in first]
    assert all(each.deduplicated for each in again)


def test_two_kinds_of_key_are_refused_and_nothing_is_stored(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    with refused(InvalidInput, "shard_key_needed"):
        jobs.enqueue(world, Request("mail", {}, key="a", unique="b"))
    assert jobs.enqueue(world, Request("mail", {}, key="a", unique="b", owner="ann")).id


def test_many_jobs_in_one_call_go_to_their_owners(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    asked = [Request("mail", {"n": index}, owner=f"owner-{index % 7}") for index in range(50)]
    stored = jobs.enqueue_many(world, asked)
    assert [jobs.get(world, each.id).payload["n"] for each in stored] == list(range(50))
    assert [jobs.get(world, each.id).owner for each in stored] == [each.owner for each in asked]


def test_jobs_of_the_house_without_keys_in_one_call_stay_together(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    stored = jobs.enqueue_many(world, [Request("mail", {"n": index}) for index in range(10)])
    assert len({vshard_in(each.number) for each in stored}) == 1


def test_a_call_over_several_shards_is_answered_for_each_job_by_itself(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    [taken], [free], [other] = (keys_in(world, number) for number in (1, 2, 3))
    jobs.enqueue(world, Request("mail", {"to": "somebody"}, key=taken))
    asked = [Request("mail", {"to": "ada"}, key=key) for key in (free, taken, other)]
    with pytest.raises(PartlyStored) as caught:
        jobs.enqueue_many(world, asked)
    first, refused, last = caught.value.answers
    assert isinstance(refused, KeyConflict)
    assert caught.value.ids == (first, last)
    assert [jobs.get(world, str(each)).key for each in (first, last)] == [free, other]
    again = [request for request, answer in zip(asked, caught.value.answers, strict=True) if isinstance(answer, str)]
    assert [each.deduplicated for each in jobs.enqueue_many(world, again)] == [True, True]


def test_an_unknown_id_is_unknown_wherever_it_leads(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    for name in ("job_99", "job_5x281474976714757", str(2**60), "job_0"):
        with pytest.raises(NotFound):
            jobs.get(world, name)


def test_a_job_is_cancelled_where_it_lives(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for owner in owners(10):
        name = enqueue_for(world, owner)
        assert jobs.cancel(world, name, actor="ann").state == "cancelled"
        assert jobs.get(world, name).state == "cancelled"


def test_a_stale_producer_is_refused_reads_the_map_again_and_stores(clusters: Clusters) -> None:
    world, urls = clusters.make(1)
    stale = clusters.open(urls[0])
    [second] = clusters.urls(2)[1:]
    clusters.add(world, second, "second", urls[0])
    assert stale.cluster is not None
    assert stale.cluster.shard_map.version == 1
    ids = [enqueue_for(stale, owner) for owner in owners(20)]
    assert stale.cluster.shard_map.version == 3
    assert {birthplace(jobs.get(stale, each).number) for each in ids} == {1, 2}


def test_a_shard_refuses_what_it_does_not_keep(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    foreign = shard_map.owned_by(2)[0]
    with pytest.raises(StaleMap):
        world.cluster.store_of(1).transact(lambda tx: tx.bind(foreign, shard_map.version))
    with pytest.raises(StaleMap):
        world.cluster.store_of(2).transact(lambda tx: tx.bind(foreign, shard_map.version - 1))
    world.cluster.store_of(2).transact(lambda tx: tx.bind(foreign, shard_map.version))


def test_nothing_is_written_into_a_shard_that_is_being_moved(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    assert world.cluster is not None
    vshard = world.cluster.shard_map.vshard_of(owner="ann")
    store = world.cluster.store_of(world.cluster.shard_map.database_of(vshard))
    store.transact(lambda tx: tx.cluster.mark([vshard], "moving"))
    with pytest.raises(StoreBusy):
        enqueue_for(world, "ann")
    store.transact(lambda tx: tx.cluster.mark([vshard], "owned"))
    assert jobs.get(world, enqueue_for(world, "ann")).owner == "ann"


def test_of_two_changes_to_the_map_one_wins(clusters: Clusters) -> None:
    world, _ = clusters.make(1)
    assert world.cluster is not None
    store, shard_map = world.cluster.store_of(1), world.cluster.shard_map
    one, other = shard_map.add("one", "a"), shard_map.add("other", "b")
    assert store.transact(lambda tx: tx.cluster.replace_map(one, expected=shard_map.version))
    assert not store.transact(lambda tx: tx.cluster.replace_map(other, expected=shard_map.version))
    assert world.cluster.refresh().members[-1].name == "one"


def test_a_database_with_rows_of_its_own_cannot_join(clusters: Clusters) -> None:
    world, urls = clusters.make(1)
    [second] = clusters.urls(2)[1:]
    jobs.enqueue(clusters.open(second), Request("mail", {}))
    with pytest.raises(NotAllowed):
        clusters.add(world, second, "second", urls[0])
    assert len(verbs.look(world).members) == 1


def test_adding_the_same_database_again_changes_nothing(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    before = verbs.look(world)
    assert clusters.add(world, urls[1], "db-2", urls[0]) == before


def test_a_database_that_joins_one_with_rows_keeps_nothing_yet(clusters: Clusters) -> None:
    world, urls = clusters.make(1)
    enqueue_for(world, "ann")
    [second] = clusters.urls(2)[1:]
    state = clusters.add(world, second, "second", urls[0])
    assert [each.vshards for each in state.members] == [4096, 0]
    assert state.is_well
    assert enqueue_for(world, "ben")


def test_a_copy_that_was_not_written_is_repaired(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    assert world.cluster is not None
    newer = world.cluster.shard_map.add("third", "c")
    world.cluster.store_of(1).transact(
        lambda tx: tx.cluster.replace_map(newer, expected=world.cluster.shard_map.version)  # type: ignore[union-attr]
    )
    assert [each.version for each in verbs.look(world).members[:2]] == [4, 3]
    assert [each.version for each in verbs.check(world, repair=True).members[:2]] == [4, 4]


def test_each_act_on_the_cluster_has_an_entry(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    [first, *_] = world.shards()
    rows = first.store.read(
        lambda tx: tx.connection.execute(text("select verb from horae_audit where object_type = 'cluster'")).scalars()
        .all()
    )  # fmt: skip
    assert sorted(rows) == ["add_to_cluster", "init_cluster", "share_cluster"]


def test_the_map_of_labels_crosses_the_gap_between_numbers(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    before = clusters.open(url)
    jobs.enqueue(before, Request("mail", {}, tags=("old",)))
    verbs.init(before, name="first", address=url)
    world = clusters.open(url)
    new = jobs.enqueue(world, Request("mail", {}, tags=("new",)))
    [shard] = world.shards()
    for _ in range(6):
        while label_jobs(shard):
            continue
        clusters.clock.advance(timedelta(seconds=10))
    found = shard.store.read(lambda tx: tx.labels.members(Label("tag", "new"), before=None, limit=5))
    assert found == [new.number]
