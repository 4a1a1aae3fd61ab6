"""The caller's transaction in a cluster: stored where its database keeps the shard, else sent from there."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, text

from horae.actions import cluster as verbs
from horae.actions import messages, moves, shards
from horae.actions.jobs import jobs, reasons
from horae.actions.jobs.on_the_way import refuse_owner_on_the_way
from horae.actions.jobs.requests import Enqueued, Request, new_jobs
from horae.core.cluster.numbers import birthplace, vshard_in
from horae.core.cluster.sent_jobs import ON_THE_WAY, read_job, write_job
from horae.core.jobs.gathered_jobs import Debounce
from horae.core.jobs.job import SYSTEM
from horae.errors import ConfigurationError, Conflict, NotFound, StoreBusy
from horae.ports.world import World
from horae.stores.store import SqlStore
from tests.cluster.conftest import Clusters
from tests.cluster.mail import deliver, ids, keys_in, map_of, put, run, state, take, waiting

T = TypeVar("T")
GUEST = 3  # the number of the database that keeps no shards


def make(clusters: Clusters) -> World:
    """Make a cluster of two databases that keep everything, and one that keeps nothing."""
    return clusters.make(2, guest=True)[0]


def joined(world: World, database: int, work: Callable[[Connection], T]) -> T:
    """Do something in a transaction of a database, as a caller does."""
    assert world.cluster is not None
    store = world.cluster.store_of(database)
    assert isinstance(store, SqlStore)
    with store.engine.begin() as connection:
        return work(connection)


def send(world: World, database: int, **fields: Any) -> Enqueued:
    """Enqueue a job in a transaction of a database."""
    request = Request("mail", fields.pop("payload", {}), **fields)
    return joined(world, database, lambda connection: jobs.enqueue(world, request, connection=connection))


def far(world: World, prefix: str = "far") -> str:
    return keys_in(world, 2, prefix=prefix)[0]


# -- where a job goes ----------------------------------------------------------------------------------------------


def test_a_job_whose_shard_is_elsewhere_gets_its_id_at_once_and_arrives_under_it(clusters: Clusters) -> None:
    world = make(clusters)
    key = far(world)
    job = send(world, 1, key=key, payload={"to": "ada"})
    assert birthplace(job.number) == 1
    assert vshard_in(job.number) == map_of(world).vshard_of(key=key)
    assert take(world) == []
    assert deliver(world) == 1
    assert ids(take(world)) == [job.id]
    found = jobs.get(world, job.id)
    assert (found.payload, found.key, found.created_at) == ({"to": "ada"}, key, clusters.clock.now())
    assert waiting(world) == 0


def test_a_job_whose_shard_is_in_the_callers_database_is_stored_there(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, 2, key=far(world))
    assert waiting(world) == 0
    assert ids(take(world)) == [job.id]
    assert jobs.enqueue(world, Request("mail", {}, key=far(world))).number == job.number


@pytest.mark.parametrize("database", [1, 2])
def test_a_job_without_a_key_stays_in_the_callers_database(clusters: Clusters, database: int) -> None:
    world = make(clusters)
    job = send(world, database)
    assert map_of(world).database_of(vshard_in(job.number) or 0) == database
    assert waiting(world) == 0
    assert ids(take(world)) == [job.id]


def test_a_database_without_shards_sends_everything_on(clusters: Clusters) -> None:
    world = make(clusters)
    sent = [send(world, GUEST), send(world, GUEST, key=far(world)), send(world, GUEST, owner="ada")]
    assert {birthplace(each.number) for each in sent} == {GUEST}
    assert deliver(world) == 3
    assert sorted(jobs.get(world, each.id).id for each in sent) == sorted(each.id for each in sent)
    assert waiting(world) == 0


def test_many_jobs_of_one_call_go_where_each_belongs(clusters: Clusters) -> None:
    world = make(clusters)
    requests = [Request("mail", {"n": n}, key=key) for n, key in enumerate([*keys_in(world, 1, 2), far(world)])]
    requests += [Request("mail", {"n": 3}), Request("mail", {"n": 4})]
    placed = joined(world, 1, lambda connection: jobs.enqueue_many(world, requests, connection=connection))
    assert deliver(world) == 1
    assert [jobs.get(world, each.id).payload["n"] for each in placed] == [0, 1, 2, 3, 4]
    assert vshard_in(placed[3].number) == vshard_in(placed[4].number)


def test_a_transaction_that_is_rolled_back_sends_nothing(clusters: Clusters) -> None:
    world = make(clusters)

    def fail(connection: Connection) -> None:
        jobs.enqueue(world, Request("mail", {}, key=far(world)), connection=connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        joined(world, GUEST, fail)
    assert deliver(world) == 0
    assert take(world) == []


def test_a_database_outside_the_cluster_is_refused_in_words(clusters: Clusters) -> None:
    world = make(clusters)
    [url] = clusters.urls(4)[3:]
    other = clusters.open_alone(url).store
    assert isinstance(other, SqlStore)
    with other.engine.begin() as connection, pytest.raises(ConfigurationError) as refused:
        jobs.enqueue(world, Request("mail", {}), connection=connection)
    assert refused.value.reason == "connection_outside_cluster"


def test_a_job_in_all_its_parts_is_read_as_it_was_written(clusters: Clusters) -> None:
    world = make(clusters)
    request = Request(
        "mail",
        {"a": "ä"},
        key="k",
        delay=timedelta(seconds=5),
        timeout=timedelta(seconds=9),
        tags=("x",),
        after=("job_7",),
        expect="within 10m",
    )
    job = new_jobs(world, [request], clusters.clock.now())[0]
    assert read_job(write_job(job), 42).number == 42
    again = read_job(write_job(job), 42)
    assert write_job(again) == write_job(job)
    assert again.expect == job.expect
    assert (again.run_at, again.timeout, again.after) == (job.run_at, job.timeout, job.after)


# -- on the way ----------------------------------------------------------------------------------------------------


def test_a_job_on_the_way_is_found_and_says_so(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world), payload={"n": 1})
    found = jobs.get(world, job.id)
    assert (found.state, found.held, found.payload) == ("queued", ON_THE_WAY, {"n": 1})
    assert [each.reason for each in reasons.why(world, found)] == ["on_the_way"]
    deliver(world)
    assert state(world, job) == ("queued", "")


def test_a_job_on_the_way_is_refused_for_a_moment_and_unknown_to_other_tenants(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world))
    for verb in (jobs.cancel, jobs.reschedule, jobs.rerun):
        with pytest.raises(StoreBusy) as refused:
            verb(world, job.id)
        assert refused.value.reason == "job_on_the_way"
    with pytest.raises(NotFound):
        jobs.cancel(world, job.id, owner="eve")
    with pytest.raises(NotFound):
        jobs.get(world, job.id, owner="eve")
    deliver(world)
    assert jobs.cancel(world, job.id).state == "cancelled"


def test_a_job_that_never_was_is_unknown(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world))
    for number in (job.number + (1 << 12), job.number + (9 << 48)):
        with pytest.raises(NotFound):
            jobs.get(world, f"job_{vshard_in(number)}x{number}")
        with pytest.raises(NotFound):
            jobs.cancel(world, f"job_{vshard_in(number)}x{number}")


def test_jobs_wait_for_jobs_that_are_on_the_way(clusters: Clusters) -> None:
    world = make(clusters)
    parent = send(world, GUEST, key=far(world))
    child = put(world, 1, parent)
    grandchild = send(world, GUEST, after=(child.id,))
    deliver(world, without=GUEST)
    assert state(world, child) == ("queued", "needs")
    clusters.clock.advance(timedelta(minutes=2))
    deliver(world)
    for job in (parent, child, grandchild):
        run(world, job)
        clusters.clock.advance(timedelta(minutes=2))
        deliver(world)
    assert state(world, grandchild)[0] == "succeeded"


# -- names that are taken ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [{}, {"other": 1}])
def test_a_job_whose_key_was_taken_meanwhile_ends_as_cancelled_and_names_the_holder(
    clusters: Clusters, payload: dict[str, int]
) -> None:
    world = make(clusters)
    late = send(world, GUEST, key=far(world), payload=payload)
    holder = jobs.enqueue(world, Request("mail", {}, key=far(world)))
    deliver(world)
    assert ids(take(world)) == [holder.id]
    found = jobs.get(world, late.id)
    assert found.state == "cancelled"
    [reason] = reasons.why(world, found)
    assert holder.id in str(reason.facts["because"])
    assert jobs.enqueue(world, Request("mail", {}, key=far(world))).number == holder.number


def test_of_two_jobs_with_a_unique_name_the_second_ends_as_cancelled(clusters: Clusters) -> None:
    world = make(clusters)
    first, second = (send(world, GUEST, unique=far(world)) for _ in range(2))
    deliver(world)
    assert ids(take(world)) == [first.id]
    assert first.id in (jobs.get(world, second.id).cancel_reason or "")


def test_a_deadline_is_looked_after_in_the_shard_of_the_job(clusters: Clusters) -> None:
    world = make(clusters)
    send(world, GUEST, key=far(world), expect="within 10m")
    deliver(world)
    rows = joined(world, 2, lambda c: list(c.execute(text("SELECT id FROM horae_jobs WHERE queue <> 'x'")).scalars()))
    assert len(rows) >= 2
    assert {vshard_in(row) for row in rows[-2:]} == {map_of(world).vshard_of(key=far(world))}


def test_calls_that_are_debounced_join_where_they_arrive(clusters: Clusters) -> None:
    world = make(clusters)
    calls = [send(world, GUEST, payload={"n": n}, debounce=Debounce(5, key="doc"), shard_key="doc") for n in range(3)]
    deliver(world)
    clusters.clock.advance(timedelta(seconds=6))
    [(_, job)] = take(world)
    assert job.id == calls[0].id
    assert job.payload == {"n": 2}
    assert [jobs.get(world, each.id).state for each in calls[1:]] == ["cancelled", "cancelled"]


# -- once ------------------------------------------------------------------------------------------------------------


def test_a_job_that_is_delivered_again_changes_nothing_even_after_its_end(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world))
    repeat = copy_messages(world)
    deliver(world)
    run(world, job)
    repeat()
    assert deliver(world) == 1
    assert take(world) == []
    assert state(world, job)[0] == "succeeded"
    assert waiting(world) == 0


def test_two_who_deliver_the_same_jobs_at_once_store_each_once(clusters: Clusters) -> None:
    world = make(clusters)
    sent = [send(world, GUEST, key=key) for key in keys_in(world, 2, 20)]
    assert world.cluster is not None
    guest = world.cluster.whole(world, GUEST)
    taken = messages.take(guest, sorted({vshard_in(each.number) or 0 for each in sent}))
    with ThreadPoolExecutor(2) as threads:
        handed = list(threads.map(lambda _: messages.hand_over(world, 2, taken), range(2)))
    assert [len(each.delivered) for each in handed] == [20, 20]
    assert sorted(ids(take(world))) == sorted(each.id for each in sent)


def test_a_job_that_is_delivered_again_after_its_shard_has_moved_changes_nothing(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world))
    repeat = copy_messages(world)
    deliver(world)
    run(world, job)
    moves.move(world, [vshard_in(job.number) or 0], "first")
    repeat()
    assert deliver(world) == 1
    assert take(world) == []


def test_a_job_follows_its_shard_that_moves_meanwhile(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world))
    moves.move(world, [vshard_in(job.number) or 0], "first")
    deliver(world)
    [(shard, taken)] = take(world)
    assert taken.id == job.id
    assert world.cluster is not None
    assert shard.store is world.cluster.store_of(1)


def test_a_job_whose_shard_comes_to_its_own_database_and_leaves_again_arrives_once(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, 1, key=far(world))
    for name in ("first", "db-2"):
        moves.move(world, [vshard_in(job.number) or 0], name)
    assert waiting(world) == 1
    deliver(world)
    assert ids(take(world)) == [job.id]


def test_that_a_job_arrived_is_forgotten_only_when_its_source_has_it_no_more(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, GUEST, key=far(world))
    repeat = copy_messages(world)
    deliver(world)
    run(world, job)
    clusters.clock.advance(timedelta(days=40))
    assert world.cluster is not None
    target = world.cluster.whole(world, 2)
    repeat()
    assert messages.forget_arrivals(target, world) == 0
    deliver(world)
    assert take(world) == []
    assert messages.forget_arrivals(target, world) == 1


def copy_messages(world: World) -> Callable[[], None]:
    """Return what puts the messages of the database without shards back, as if they had not been deleted."""
    columns = "kind, sender, receiver, vshard, version, content, created_at, due_at, tries"
    rows = joined(world, GUEST, lambda c: list(c.execute(text(f"SELECT {columns} FROM horae_messages")).mappings()))
    names = ", ".join(f":{name.strip()}" for name in columns.split(","))
    sql = text(f"INSERT INTO horae_messages ({columns}) VALUES ({names})")

    def put_back(connection: Connection) -> None:
        for row in rows:
            connection.execute(sql, dict(row))

    return lambda: joined(world, GUEST, put_back)


# -- a database that is away ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_job_is_sent_found_and_delivered_later_while_its_destination_is_away(
    clusters: Clusters, tmp_path: Path
) -> None:
    world, urls = clusters.make(2, guest=True)
    near, key = keys_in(world, 1, prefix="near")[0], far(world)
    (tmp_path / "1.db").rename(tmp_path / "away.db")
    alone = clusters.open(urls[2])
    jobs_sent = [send(alone, GUEST, key=key), send(alone, GUEST, key=near)]
    assert jobs.get(alone, jobs_sent[0].id).held == ON_THE_WAY
    assert alone.cluster is not None
    assert messages.deliver_all(alone, GUEST) == 1
    assert jobs.get(alone, jobs_sent[1].id).held == ""
    (tmp_path / "away.db").rename(tmp_path / "1.db")
    clusters.clock.advance(timedelta(minutes=2))
    assert messages.deliver_all(alone, GUEST) == 0
    assert jobs.get(alone, jobs_sent[0].id).held == ""


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_without_shards_that_is_away_makes_nothing_incomplete(clusters: Clusters, tmp_path: Path) -> None:
    _, urls = clusters.make(2, guest=True)
    (tmp_path / "2.db").rename(tmp_path / "away.db")
    world = clusters.open(urls[0])
    made = put(world, 1)
    run(world, made)
    assert [each.outcome for each in jobs.runs(world, made.id)] == ["succeeded"]
    assert [len(world.shards()), len(world.databases())] == [2, 2]
    assert shards.ask_each(world, lambda shard, _: jobs.counts(shard))[1] == ()


# -- operating -------------------------------------------------------------------------------------------------------


def test_the_list_of_databases_tells_what_is_on_the_way(clusters: Clusters) -> None:
    world = make(clusters)
    send(world, GUEST, key=far(world))
    clusters.clock.advance(timedelta(seconds=90))
    guest = verbs.look(world).members[2]
    [left] = guest.undelivered
    assert (left.to, left.count, left.jobs, left.age) == ("db-2", 1, 1, 90.0)
    assert not guest.takes_shards


def test_a_database_without_shards_gets_none(clusters: Clusters) -> None:
    world = make(clusters)
    assert verbs.look(world).empty == ()
    moves.move_even(world)
    with pytest.raises(Exception, match="no-shards"):
        moves.move(world, [4000], "shop")
    moves.drain(world, "db-2")
    assert [each.vshards for each in verbs.look(world).members] == [4096, 0, 0]
    assert moves.drain(world, "shop").vshards == 0


def test_draining_a_database_delivers_its_jobs_or_says_what_is_left(clusters: Clusters) -> None:
    world = make(clusters)
    job = send(world, 2, key=keys_in(world, 1, prefix="near")[0])
    assert world.cluster is not None
    messages.take(world.cluster.whole(world, 2), range(4096))  # as a process that has died since with the job in hand

    with pytest.raises(Conflict) as refused:
        moves.drain(world, "db-2")
    clusters.clock.advance(2 * messages.HELD)
    moves.drain(world, "db-2")

    assert (refused.value.reason, refused.value.facts["count"]) == ("cluster_drain_undelivered", 1)
    assert waiting(world) == 0
    assert ids(take(world)) == [job.id]


def test_what_must_reach_all_jobs_of_a_tenant_waits_for_those_on_the_way(clusters: Clusters) -> None:
    world = make(clusters)
    send(world, GUEST, owner="ada")
    send(world, GUEST)
    refuse_owner_on_the_way(world, "eve")
    for owner in ("ada", SYSTEM):
        with pytest.raises(StoreBusy):
            refuse_owner_on_the_way(world, owner)
    deliver(world)
    refuse_owner_on_the_way(world, "ada")
