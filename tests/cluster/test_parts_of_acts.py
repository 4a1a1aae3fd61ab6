"""A bulk act of the house reaches a database that was away, or that its process did not come to, by itself."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

from horae.actions.audit import find_entries
from horae.actions.jobs import acts as verbs
from horae.actions.jobs import jobs
from horae.actions.jobs.act_parts import complete_parts
from horae.core.jobs.acts import Act, ActVerb
from horae.ports.world import World
from horae.runtime.chores.settings import parts_of_acts
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import fill, rooms
from tests.cluster.test_nothing_partial import work_on_acts
from tests.cluster.test_settings import Absence, only_files


def keep(clusters: Clusters, url: str, number: int) -> int:
    """Do what the keeper of one database does about acts."""
    world = clusters.open(url)
    assert world.cluster is not None
    done = parts_of_acts(world).work(world.cluster.whole(world, number))
    assert isinstance(done, int)
    return done


def begin_in_first(world: World, verb: ActVerb = "cancel", delay: timedelta | None = None) -> Act:
    """Begin an act as a process does that dies before it comes to the second database."""
    planned = verbs.plan(world, verb, "handler:mail", delay=delay)
    return verbs.begin(world.shards()[0], replace(planned, databases=("1", "2", "3")))


def test_an_act_whose_process_died_is_brought_to_the_others_by_a_keeper(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 20)
    begun = begin_in_first(world)
    room = rooms(world).acts
    assert room.get(begun.id).incomplete == ("db-2", "db-3")
    assert keep(clusters, urls[0], 1) == 2
    assert keep(clusters, urls[0], 1) == 0
    assert keep(clusters, urls[1], 2) == 0
    assert room.get(begun.id).incomplete == ()
    assert work_on_acts(world) == 3
    ended = room.get(begun.id)
    assert (ended.state, ended.changed, ended.matched) == ("done", 20, 20)


@only_files
def test_an_act_reaches_a_database_that_is_back_but_none_of_its_later_jobs(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 20)
    absence = Absence(urls, 3)
    absence.begin(world, 3)
    world = clusters.open(urls[0])
    begun = rooms(world).acts.start("cancel", "handler:mail")
    assert begun.incomplete == ("db-3",)
    assert keep(clusters, urls[0], 1) == 0  # it is still away
    absence.end()
    clusters.clock.advance(timedelta(minutes=1))
    world = clusters.open(urls[0])
    fill(clusters, world, 20, begin=100)
    assert keep(clusters, urls[1], 2) == 1
    work_on_acts(world)
    ended = rooms(world).acts.get(begun.id)
    assert (ended.state, ended.changed, ended.incomplete) == ("done", 20, ())
    assert len(list(rooms(world).jobs.list(state="queued"))) == 20


def test_two_keepers_at_once_begin_one_part(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 12)
    begun = begin_in_first(world)
    opened = [clusters.open(urls[0]) for _ in range(2)]
    for each in opened:
        each.shards()
    barrier, done = threading.Barrier(2), list[int]()

    def work(everywhere: World) -> None:
        assert everywhere.cluster is not None
        here = everywhere.cluster.whole(everywhere, 1)
        barrier.wait(30)
        done.append(complete_parts(everywhere, here))

    threads = [threading.Thread(target=work, args=(each,)) for each in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    keep(clusters, urls[0], 1)
    assert work_on_acts(world) == 3
    assert rooms(world).acts.get(begun.id).changed == 12
    starts = [each for shard in world.shards() for _, each in find_entries(shard, object_type="act", verb="start")]
    assert len(starts) == 3


def test_a_cancelled_act_goes_nowhere_else_and_ends_everywhere(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 12)
    begun = begin_in_first(world)
    keep(clusters, urls[0], 1)
    verbs.cancel(world.shards()[1], begun.id)  # as by a process that could not reach the others
    assert keep(clusters, urls[0], 1) == 2
    assert {verbs.get(shard, begun.id).state for shard in world.shards()} == {"cancelled"}
    early = begin_in_first(world)
    rooms(world).acts.cancel(early.id)
    assert rooms(world).acts.get(early.id).incomplete == ()
    assert keep(clusters, urls[0], 1) == 0


def test_a_paused_act_arrives_paused_and_goes_on_when_it_is_resumed(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 12)
    begun = begin_in_first(world)
    rooms(world).acts.pause(begun.id)
    assert keep(clusters, urls[0], 1) == 2
    assert rooms(world).acts.get(begun.id).state == "paused"
    rooms(world).acts.resume(begun.id)
    work_on_acts(world)
    assert rooms(world).acts.get(begun.id).changed == 12


def test_what_was_undone_before_it_came_is_not_done_there(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    ids = fill(clusters, world, 12)
    times = {each: jobs.get(world, each).run_at for each in ids}
    begun = begin_in_first(world, "reschedule", delay=timedelta(hours=1))
    work_on_acts(world)
    undone = rooms(world).acts.undo(begun.id)
    assert undone.incomplete == ("db-2", "db-3")
    keep(clusters, urls[0], 1)
    work_on_acts(world)
    assert rooms(world).acts.get(undone.id).incomplete == ()
    assert rooms(world).acts.get(undone.id).state == "done"
    assert {each: jobs.get(world, each).run_at for each in ids} == times


def test_a_part_that_was_deleted_with_the_history_does_not_begin_again(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    fill(clusters, world, 12)
    begun = rooms(world).acts.start("cancel", "handler:mail")
    work_on_acts(world)
    clusters.clock.advance(timedelta(minutes=1))
    second = world.shards()[1]
    second.store.transact(lambda tx: tx.acts.forget(clusters.clock.now(), limit=9))
    fill(clusters, world, 12, begin=50)
    assert keep(clusters, urls[0], 1) == 0
    assert begun.incomplete == ()
