"""What else an owner has moves with its shard: batches, calendars, expectations, lanes, and numbers stay unique."""

from collections.abc import Collection
from datetime import timedelta

import pytest

from horae.actions import cluster as verbs
from horae.actions import looks, moves
from horae.actions.attention import events, inbox, journal, lanes, queries, turns, waits
from horae.actions.attention.lanes import Drive
from horae.actions.jobs import acts, batch, claims, endings, jobs, machinery
from horae.actions.jobs.batch import BatchRequest
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.actions.schedules import schedules
from horae.core.attention.directives import Act, Done, Wait
from horae.core.attention.task import Control, Policy
from horae.core.cluster.moves import Parcel
from horae.core.cluster.numbers import birthplace, vshard_in
from horae.core.cluster.shard_map import HOME, ShardMap
from horae.core.jobs.job import Job, Lease, Outcome
from horae.errors import Conflict, LaneLost, LeaseLost, NotFound, StaleMap, StoreBusy
from horae.ports.definitions import StoredDefinition
from horae.ports.store import Tx
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import rooms

LEASE = timedelta(seconds=30)


def map_of(world: World) -> ShardMap:
    assert world.cluster is not None
    return world.cluster.refresh()


def owner_in(world: World, database: int, *, but: Collection[str] = ()) -> str:
    """Return a tenant who lives in a database."""
    shard_map = map_of(world)
    names = (f"owner-{n}" for n in range(500))
    return next(
        each
        for each in names
        if each not in but and (vshard := shard_map.vshard_of(owner=each)) and shard_map.database_of(vshard) == database
    )


def vshard_of(world: World, owner: str) -> int:
    return map_of(world).vshard_of(owner=owner)


def key_in(world: World, database: int) -> str:
    shard_map = map_of(world)
    names = (f"key-{n}" for n in range(500))
    return next(
        each for each in names if (v := shard_map.vshard_of(key=each)) != HOME and shard_map.database_of(v) == database
    )


def take(world: World) -> list[tuple[World, Job]]:
    return [
        (shard, job)
        for shard in world.databases()
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)
    ]


def end_all(world: World) -> list[str]:
    """Run everything that is due until nothing is left; return the handlers."""
    done: list[str] = []
    while taken := take(world):
        for shard, job in taken:
            assert endings.settle(shard, [(job, Outcome("succeeded"))])[job.id] is not None
            done.append(job.handler)
    return done


def two(clusters: Clusters) -> World:
    world, _ = clusters.make(2)
    store_definitions(world, [StoredDefinition(name, "default", tenants=True) for name in ("mail", "report")])
    return world


# -- batches -----------------------------------------------------------------------------------------------------------


def a_batch(owner: str, key: str | None = None) -> BatchRequest:
    jobs_of = [Request("mail", {"n": n}, owner=owner) for n in range(3)]
    return BatchRequest(jobs_of, owner=owner, key=key, callbacks={"on_success": Request("report", {}, owner=owner)})


def test_the_callbacks_of_a_batch_run_once_after_its_shard_has_moved(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    made, _ = batch.create(world, a_batch(owner, "k"))
    [(shard, first), *others] = take(world)
    endings.settle(shard, [(first, Outcome("succeeded"))])
    moves.move(world, [vshard_of(world, owner)], "db-2")
    for who in (None, owner):  # an operator knows the id alone
        found = batch.get(world, made.id, owner=who)
        assert (found.succeeded, found.open) == (1, 2)
    assert batch.create(world, a_batch(owner, "k"))[0].id == made.id
    there = world.databases()[1]
    for _, job in others:
        assert endings.settle(there, [(job, Outcome("succeeded"))])[job.id] is not None
    assert end_all(world) == ["report"]
    assert batch.get(world, made.id).state == "succeeded"


def test_a_batch_of_the_house_lives_and_moves_by_its_key(clusters: Clusters) -> None:
    world = two(clusters)
    key = key_in(world, 1)
    asked = BatchRequest([Request("mail", {})], key=key, callbacks={"on_end": Request("report", {})})
    made, _ = batch.create(world, asked)
    assert vshard_in(made.number) == map_of(world).vshard_of(key=key)
    moves.move(world, [map_of(world).vshard_of(key=key)], "db-2")
    assert batch.get(world, made.id).open == 1
    assert batch.create(world, asked)[0].id == made.id
    assert end_all(world) == ["mail", "report"]


def test_a_batch_from_before_the_cluster_is_found_by_its_old_id_after_a_move(clusters: Clusters) -> None:
    first, second = clusters.urls(2)
    before = clusters.open(first)
    made, _ = batch.create(before, BatchRequest([Request("mail", {}, owner="ada")], owner="ada"))
    agent = inbox.add(before, "desk", "note", owner="ada").task
    verbs.init(before, name="first", address=first)
    world = clusters.open(first)
    clusters.add(world, second, "db-2", first)
    assert made.id == "batch_1"
    parcel = Parcel("p", 1, 2, (vshard_of(world, "ada"),))
    moves.pack(world, parcel)
    with pytest.raises(StoreBusy):
        batch.get(world, made.id)
    moves.advance(world, parcel)
    assert batch.get(world, made.id).owner == "ada"
    assert batch.get(world, made.id, owner="ada").open == 1
    with pytest.raises(NotFound):
        batch.get(world, "batch_2")
    assert queries.get_task(world, "desk", agent.id, owner="ada").kind == "note"
    assert batch.cancel(world, made.id).state == "failed"


# -- calendars and expectations ----------------------------------------------------------------------------------------


def test_schedules_with_a_calendar_move_and_follow_its_changes(clusters: Clusters) -> None:
    world = two(clusters)
    key, house = key_in(world, 1), rooms(world).calendars
    house.set("holidays", ["2030-01-08"])
    schedules.create(world, a_schedule(key, calendar="holidays"))
    parcel = Parcel("p", 1, 2, (map_of(world).vshard_of(key=key),))
    moves.pack(world, parcel)
    house.set("holidays", ["2030-01-09"])  # it is on the way and hears of it when it comes
    moves.advance(world, parcel)
    assert schedules.get(world, key).calendar_days == ("2030-01-09",)
    house.set("holidays", ["2030-01-10"])
    assert schedules.get(world, key).calendar_days == ("2030-01-10",)
    assert house.get("holidays").schedules == (key,)
    with pytest.raises(Conflict):
        house.delete("holidays")
    schedules.delete(world, key)
    house.delete("holidays")
    assert [shard.store.read(lambda tx: tx.calendars.all()) for shard in world.databases()] == [[], []]


def missing(world: World, state: str) -> list[str]:
    def read(tx: Tx) -> list[str]:
        return [str(each.job) for each in tx.expectations.find(state=state, limit=10)]

    return [each for shard in world.databases() for each in shard.store.read(read)]


def serve(world: World) -> None:
    for shard in world.databases():
        while machinery.serve_due(shard, "m"):
            continue


def test_a_job_that_something_is_expected_of_moves_and_its_miss_is_found(clusters: Clusters) -> None:
    world = two(clusters)
    owner, key = owner_in(world, 1), key_in(world, 1)
    tenant = jobs.enqueue(world, Request("mail", {}, owner=owner, expect="within 10m")).id
    house = jobs.enqueue(world, Request("mail", {}, key=key, expect="within 10m")).id
    moves.move(world, [vshard_of(world, owner), map_of(world).vshard_of(key=key)], "db-2")
    assert missing(world, "waiting")
    clusters.clock.advance(timedelta(minutes=11))
    serve(world)
    assert sorted(missing(world, "open")) == sorted([tenant, house])
    for shard, job in take(world):
        endings.settle(shard, [(job, Outcome("succeeded"))])
    moves.move(world, [vshard_of(world, owner), map_of(world).vshard_of(key=key)], "first")
    assert sorted(missing(world, "recovered")) == sorted([tenant, house])  # its run stays behind: judged before it left


def test_an_act_that_is_over_moves_and_can_be_undone_there(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    later = clusters.clock.now() + timedelta(hours=1)
    job = jobs.enqueue(world, Request("mail", {}, owner=owner, run_at=later)).id
    act = acts.start(world, "reschedule", "handler:mail", delay=timedelta(hours=5), owner=owner)
    serve(world)
    assert jobs.get(world, job).run_at > later
    moves.move(world, [vshard_of(world, owner)], "db-2")
    assert acts.get(world, act.id, owner=owner).state == "done"
    acts.undo(world, act.id, owner=owner)
    moves.move(world, [vshard_of(world, owner)], "first")
    serve(world)
    assert jobs.get(world, job).run_at == later


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_a_database_draws_its_own_numbers_whatever_rows_have_come_to_it(clusters: Clusters) -> None:
    world = two(clusters)
    there, here = owner_in(world, 2), owner_in(world, 1)
    first = inbox.add(world, "desk", "note", owner=there).task
    assert birthplace(first.number) == 2
    moves.move(world, [vshard_of(world, there)], "first")
    made = [inbox.add(world, "desk", "note", owner=owner).task for owner in (there, here)]
    assert [birthplace(each.number) for each in made] == [1, 1]
    assert [vshard_in(each.number) for each in made] == [vshard_of(world, there), vshard_of(world, here)]
    moves.move(world, [vshard_of(world, there), vshard_of(world, here)], "db-2")
    found = [inbox.add(world, "desk", "note", owner=owner).task for owner in (there, here)]
    assert len({each.number for each in [first, *made, *found]}) == 5


def test_a_process_from_before_the_cluster_cannot_make_rows_that_name_no_shard(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    before = clusters.open(url)
    inbox.add(before, "desk", "note", owner="ada")
    verbs.init(clusters.open(url), name="first", address=url)
    for attempt in (
        lambda: inbox.add(before, "desk", "note", owner="ada"),
        lambda: inbox.add(before, "other", "note", owner="ada"),
        lambda: batch.create(before, a_batch("ada")),
    ):
        with pytest.raises(Exception, match=r"cluster|null"):
            attempt()
    task = inbox.add(clusters.open(url), "desk", "note", owner="ada").task
    assert vshard_in(task.number) == vshard_of(clusters.open(url), "ada")


# -- lanes -------------------------------------------------------------------------------------------------------------


def drive_of(world: World, owner: str) -> Drive:
    drive = lanes.acquire(world, "desk", "d1", owner=owner, lease=LEASE)
    assert drive is not None
    return drive


def next_work(world: World, drive: Drive) -> turns.Work | None:
    return turns.next_work(world, drive, Control(), Policy())


def commit(world: World, drive: Drive, work: turns.Work | None, directive: Act | Done | Wait) -> turns.Work | None:
    assert isinstance(work, turns.Think)
    return turns.commit_turn(world, drive, work, directive, policy=Policy(), effects={"send": "idempotent"})


def test_a_lane_moves_with_its_driver_journal_and_waits(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    task = inbox.add(world, "desk", "note", {"text": "a"}, owner=owner).task
    drive = drive_of(world, owner)
    thinking = next_work(world, drive)
    moves.move(world, [vshard_of(world, owner)], "db-2")
    lanes.renew(world, drive, LEASE)
    assert lanes.acquire(world, "desk", "d2", owner=owner, lease=LEASE) is None
    commit(world, drive, thinking, Wait(["answer"], timeout=timedelta(hours=1)))
    assert queries.get_task(world, "desk", task.id, owner=owner).state == "waiting"
    moves.move(world, [vshard_of(world, owner)], "first")
    events.post(world, "desk", "answer", {"yes": 1}, owner=owner)
    commit(world, drive, next_work(world, drive), Done({"well": True}))
    assert queries.get_task(world, "desk", task.id, owner=owner).state == "completed"
    verified = journal.verify(world, "desk", owner=owner)
    assert verified.is_sound, verified.complaints
    assert journal.head(world, "desk", owner=owner).seq == verified.lines
    assert journal.at(world, "desk", verified.lines, owner=owner)


def test_a_driver_is_told_to_try_again_while_its_lane_is_on_the_way_and_no_other_can_take_it(
    clusters: Clusters,
) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    inbox.add(world, "desk", "note", owner=owner)
    drive = drive_of(world, owner)
    thinking = next_work(world, drive)
    parcel = Parcel("p", 1, 2, (vshard_of(world, owner),))
    moves.pack(world, parcel)
    for is_switched in (False, True):
        if is_switched:
            moves.switch(world, parcel)
        with pytest.raises(StoreBusy):
            lanes.renew(world, drive, LEASE)
        with pytest.raises(StoreBusy):
            commit(world, drive, thinking, Done())
        with pytest.raises(StoreBusy):
            lanes.acquire(world, "desk", "d2", owner=owner, lease=LEASE)
    moves.advance(world, parcel)
    assert commit(world, drive, thinking, Done()) is None
    clusters.clock.advance(LEASE + timedelta(seconds=1))
    other = lanes.acquire(world, "desk", "d2", owner=owner, lease=LEASE)
    assert other is not None
    with pytest.raises(LaneLost):
        lanes.renew(world, drive, LEASE)


def test_a_verb_on_the_database_that_a_tenant_has_left_writes_nothing_there(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    here = world.databases()[0]
    moves.move(world, [vshard_of(world, owner)], "db-2")
    with pytest.raises(StaleMap):
        inbox.add(here, "desk", "note", owner=owner)
    with pytest.raises(StaleMap):
        batch.create(here, a_batch(owner))
    assert here.store.read(lambda tx: tx.attention.lanes(None, limit=1, after=0)) == []
    assert batch.find(here) == ([], None)


def test_a_service_with_an_old_map_follows_what_its_workers_hold_with_one_look(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    owner, key = owner_in(world, 1), key_in(world, 1)
    for _ in range(5):
        jobs.enqueue(world, Request("mail", {}, owner=owner))
    jobs.enqueue(world, Request("mail", {}, key=key))
    taken = [job for _, job in take(world)]
    leases = [Lease(job.number, job.token) for job in taken]
    vshards = [vshard_of(world, owner), map_of(world).vshard_of(key=key)]
    held = {job.number for job in taken}
    for index, to in enumerate(("db-2", "first", "db-2", "first")):
        late = clusters.open(urls[0])
        moves.move(world, vshards, to)
        if index == 0:
            assert claims.renew(late, leases, lease=LEASE).held == held
            assert looks.look(late, held) == looks.Look(map_of(world).version, frozenset())
        elif index == 1:
            claims.progress(late, leases[0], 1)
            with pytest.raises(LeaseLost):
                claims.progress(late, Lease(leases[0].job_number, 99), 1)
        elif index == 2:
            assert endings.ack(late, taken[0].id, taken[0].token).state == "succeeded"
        else:
            settled = endings.settle(late, [(job, Outcome("succeeded")) for job in taken[1:]])
            assert len([change for change in settled.values() if change is not None]) == 5
    assert endings.settle(world, [(taken[0], Outcome("succeeded"))]) == {taken[0].id: None}


def test_what_was_missed_counts_as_on_the_way_where_the_map_has_changed_since_the_look(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    number = jobs.enqueue(world, Request("mail", {}, owner=owner)).number
    before = looks.look(world, [number])
    assert looks.left_since(world, before, [number]) == frozenset()
    moves.move(world, [vshard_of(world, owner)], "db-2")
    assert looks.left_since(world, before, [number]) == {number}
    moves.pack(world, Parcel("p", 2, 1, (vshard_of(world, owner),)))
    assert looks.look(world, [number]).away == {number}


def test_a_wait_that_was_opened_before_a_move_times_out_after_it(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    task = inbox.add(world, "desk", "note", owner=owner).task
    drive = drive_of(world, owner)
    commit(world, drive, next_work(world, drive), Wait(["answer"], timeout=timedelta(minutes=5)))
    moves.move(world, [vshard_of(world, owner)], "db-2")
    clusters.clock.advance(timedelta(minutes=6))
    serve(world)
    assert queries.get_task(world, "desk", task.id, owner=owner).state == "ready"
    assert journal.verify(world, "desk", owner=owner).is_sound


def test_an_operator_answers_a_confirmation_by_its_number_after_a_move(clusters: Clusters) -> None:
    world = two(clusters)
    owner = owner_in(world, 1)
    inbox.add(world, "desk", "note", owner=owner)
    drive = drive_of(world, owner)
    thinking = next_work(world, drive)
    assert isinstance(thinking, turns.Think)
    careful = turns.Think(thinking.task, thinking.facts, thinking.consumed, Control(confirm_everything=True))
    commit(world, drive, careful, Act("send", {"to": "a"}))
    [asked] = queries.find_waits(world, "desk", owner=owner, kind="confirm")
    moves.move(world, [vshard_of(world, owner)], "db-2")
    found, lane = queries.confirmation(world, asked.wait.number)
    assert (found.wait.number, lane.owner) == (asked.wait.number, owner)
    assert waits.confirm(world, lane.name, asked.wait.number, approve=True, actor="p", owner=lane.owner).grant
