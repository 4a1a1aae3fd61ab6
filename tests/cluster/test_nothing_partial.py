"""What is about the house reaches every database of a cluster, and names one that is away."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from horae.actions import roll_up
from horae.actions.error_groups import unmute
from horae.actions.jobs import acts as verbs
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.quiet_owners import quiet_owner
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.api.here import tenant
from horae.core.jobs import machinery
from horae.core.jobs.job import Outcome
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.retry import Retry
from horae.errors import NotAllowed, NotFound
from horae.ports.definitions import StoredDefinition
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters, fire_all
from tests.cluster.test_lists import fill, lose, rooms, walk

LEASE = timedelta(seconds=30)


def kill_jobs(clusters: Clusters, world: World, count: int) -> None:
    """Let so many jobs of the house fail for good, all for the same cause, and count them."""
    for index in range(count):
        jobs.enqueue(world, Request("mail", {"n": index}, key=f"k{index}", retry=Retry.none()))
    for shard in world.shards():
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE):
            clusters.clock.advance(timedelta(seconds=1))
            endings.settle(shard, [(job, Outcome("failed", error="ValueError: no such address"))])
    clusters.clock.advance(timedelta(minutes=5))
    for shard in world.shards():
        roll_up.keep_up(shard)


def work_on_acts(world: World) -> int:
    """Do what the jobs of bulk acts would do, in every database; return how many such jobs there were."""
    found = 0
    for shard in world.shards():
        for job in claims.claim(shard, MACHINERY, 100, worker_id="m", lease=LEASE):
            if job.handler == machinery.ACT:
                found += 1
                while verbs.run_batch(shard, job):
                    continue
                endings.settle(shard, [(job, Outcome("succeeded"))])
    return found


# -- bulk acts ---------------------------------------------------------------------------------------------------------


def test_a_bulk_act_is_one_act_with_a_job_in_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    ids = fill(clusters, world, 20)
    acts = rooms(world).acts
    seen = acts.preview("cancel", "handler:mail")
    assert (seen.matched, seen.more, len(seen.first)) == (20, False, 20)
    begun = acts.start("cancel", "handler:mail", reason="spring")
    assert (begun.state, begun.matched, begun.incomplete) == ("running", 20, ())
    assert [each.id for each in acts.list()] == [begun.id]
    assert work_on_acts(world) == 3
    ended = acts.get(begun.id)
    assert (ended.state, ended.changed, ended.skipped) == ("done", 20, 0)
    assert ended.finished_at is not None
    assert {jobs.get(world, each).state for each in ids} == {"cancelled"}
    assert [(each.id, each.changed) for each in acts.list()] == [(begun.id, 20)]


def test_several_acts_are_listed_once_each_page_by_page(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 6)
    acts, begun = rooms(world).acts, list[str]()
    for index in range(7):
        clusters.clock.advance(timedelta(seconds=1))
        begun.insert(0, acts.start("cancel", f"handler:other-{index}").id)
    listing = acts.list()
    pages = [listing.page(limit=2)]
    while pages[-1].next_cursor is not None:
        pages.append(listing.page(pages[-1].next_cursor, limit=2))
    assert [act.id for page in pages for act in page.items] == begun


def test_an_act_is_paused_resumed_and_cancelled_in_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 12)
    acts = rooms(world).acts
    begun = acts.start("cancel", "handler:mail")
    assert acts.pause(begun.id).state == "paused"
    assert work_on_acts(world) == 3
    assert acts.get(begun.id).changed == 0
    assert acts.resume(begun.id).state == "running"
    assert acts.cancel(begun.id).state == "cancelled"
    with pytest.raises(NotAllowed):
        acts.resume(begun.id)
    with pytest.raises(NotFound):
        acts.get("act_99")


def test_an_act_that_is_over_in_one_database_can_be_cancelled_in_the_others(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    fill(clusters, world, 12)
    acts = rooms(world).acts
    begun = acts.start("cancel", "handler:mail")
    first = world.shards()[0]
    for job in claims.claim(first, MACHINERY, 10, worker_id="m", lease=LEASE):
        while verbs.run_batch(first, job):
            continue
    assert acts.get(begun.id).state == "running"
    assert [each.id for each in acts.list(state="running")] == [begun.id]
    assert list(acts.list(state="done")) == []
    assert acts.cancel(begun.id).state == "cancelled"
    assert 0 < acts.get(begun.id).changed < 12


def test_a_reschedule_is_undone_in_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    ids = fill(clusters, world, 12)
    times = {each: jobs.get(world, each).run_at for each in ids}
    acts = rooms(world).acts
    begun = acts.start("reschedule", "handler:mail", delay=3600)
    with pytest.raises(NotAllowed):
        acts.undo(begun.id)
    assert {jobs.get(world, each).run_at for each in ids} == set(times.values())  # nothing was undone anywhere
    work_on_acts(world)
    undone = acts.undo(begun.id)
    assert (undone.undoes, undone.matched) == (begun.id, 12)
    work_on_acts(world)
    assert acts.get(undone.id).changed == 12
    assert {each: jobs.get(world, each).run_at for each in ids} == times


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_an_act_names_the_database_that_it_did_not_reach_also_later(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill(clusters, world, 20)
    assert world.cluster is not None
    members = {each.number: each for each in world.cluster.shard_map.members}
    assert members[3].name == "db-3"
    store = world.cluster.store_of(3)
    begun = rooms(world).acts.start("cancel", "handler:mail")
    store.transact(lambda tx: tx.acts.forget(clusters.clock.now(), limit=1))  # not over: it stays
    assert rooms(world).acts.get(begun.id).incomplete == ()
    lose(world, urls, 3)
    world = clusters.open(urls[0])
    assert rooms(world).acts.get(begun.id).incomplete == ("db-3",)
    late = rooms(world).acts.start("cancel", "handler:mail")
    assert late.incomplete == ("db-3",)
    assert rooms(world).acts.list().page().incomplete == ("db-3",)


def test_an_act_whose_process_died_between_two_databases_names_those_without_a_part(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 12)
    planned = verbs.plan(world, "cancel", "handler:mail")
    from dataclasses import replace

    begun = verbs.begin(world.shards()[0], replace(planned, databases=("1", "2", "3")))
    found = rooms(world).acts.get(begun.id)
    assert found.incomplete == ("db-2", "db-3")


def test_a_tenants_act_stays_in_its_database_and_an_operator_sees_it(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill(clusters, world, 12)
    own = rooms(world, tenant("owner-7", "owner-7")).acts
    begun = own.start("cancel", "handler:mail")
    assert (begun.owner, begun.matched, begun.incomplete) == ("owner-7", 1, ())
    assert work_on_acts(world) == 1
    assert own.get(begun.id).changed == 1
    assert rooms(world).acts.get(begun.id).changed == 1
    assert [each.id for each in own.list()] == [begun.id]


# -- error groups ------------------------------------------------------------------------------------------------------


def test_failures_of_the_house_with_one_cause_are_one_row_of_the_list(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    kill_jobs(clusters, world, 20)
    [group] = rooms(world).error_groups.list()
    assert (group.owner, group.handler, group.count) == ("system", "mail", 20)
    assert rooms(world).error_groups.get(group.fingerprint).count == 20
    assert [each.count for each in rooms(world).error_groups.list(owner="system")] == [20]
    pages = walk(lambda cursor: rooms(world).error_groups.list().page(cursor, limit=1))  # type: ignore[arg-type,return-value]
    assert [each.count for page in pages for each in page.items] == [20]  # type: ignore[attr-defined]


def test_a_muted_group_is_left_out_of_the_list_of_all_databases(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    kill_jobs(clusters, world, 12)
    [group] = rooms(world).error_groups.list()
    rooms(world).error_groups.mute(group.fingerprint, reason="known")
    assert list(rooms(world).error_groups.list(muted=False)) == []
    [muted] = rooms(world).error_groups.list(muted=True)
    assert (muted.count, muted.muted) == (12, True)
    unmute(world.shards()[0], group.fingerprint)  # as if the mute had not reached it
    assert list(rooms(world).error_groups.list(muted=False)) == []
    assert [each.count for each in rooms(world).error_groups.list(muted=True)] == [12]


def test_the_retry_of_an_error_group_revives_its_jobs_in_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    kill_jobs(clusters, world, 20)
    [group] = rooms(world).error_groups.list()
    begun = rooms(world).error_groups.retry(group.fingerprint, reason="mended")
    assert begun.matched == 20
    assert work_on_acts(world) == 3
    assert rooms(world).acts.get(begun.id).changed == 20
    assert rooms(world).jobs.counts(where="state:queued").groups[0].count == 20
    with pytest.raises(NotFound):
        rooms(world).error_groups.retry("0" * 16)


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_the_timetable_counts_the_past_of_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(12):
        schedules.create(world, a_schedule(f"s{index}"))
    clusters.clock.advance(timedelta(days=1))
    fire_all(world)
    held = [len(list(schedules.iterate(shard, ScheduleFilter()))) for shard in world.shards()]
    assert sum(held) == 12
    assert max(held) < 12
    seen = rooms(world).schedules.timetable(days=2, past=2)
    assert seen.schedules == 12
    assert sum(hour.ran + hour.missed for hour in seen.hours) >= 12
    busiest = max(seen.hours, key=lambda each: each.ran)
    assert busiest.ran == 12
    entries = rooms(world).schedules.timetable(days=2, past=2, hour=busiest.at).entries
    assert sorted(each.key for each in entries) == sorted(f"s{index}" for index in range(12))


def test_the_forecast_knows_the_quiet_hours_and_pile_ups_of_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(8):
        owner = f"owner-{index}"
        schedules.create(world, a_schedule("nightly", owner=owner, expression="0 13 * * *"))
        quiet_owner(world, owner, "00:00-23:00")
    ahead = rooms(world).schedules.forecast(hours=24)
    assert len(ahead.fires) == 8
    assert all(fire.starts_at is not None for fire in ahead.fires)
    assert Counter(pile.fires for pile in ahead.pile_ups) == {8: 1}
    assert len(rooms(world).owners.list_quiet()) == 8
    own = rooms(world).schedules.forecast(hours=24, owner="owner-3")
    assert [fire.starts_at is not None for fire in own.fires] == [True]


def test_the_overview_of_governance_counts_objects_of_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(9):
        owner = f"owner-{index}"
        rooms(world).objects.propose("memory", "Ann likes tea", id=f"m{index}", subject="tea", owner=owner)
    seen = rooms(world).objects.overview()
    assert (seen.looked_at, sum(each.count for each in seen.counts), seen.incomplete) == (9, 9, ())
    assert len(seen.counts) == 1


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_each_of_these_names_a_database_that_is_away(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    rooms(world).calendars.set("holidays", ["12-25"])
    kill_jobs(clusters, world, 12)
    [group] = rooms(world).error_groups.list()
    lose(world, urls, 3)
    world = clusters.open(urls[0])
    seen = rooms(world)
    assert seen.schedules.timetable().incomplete == ("db-3",)
    assert seen.schedules.forecast().incomplete == ("db-3",)
    assert seen.objects.overview().incomplete == ("db-3",)
    assert seen.calendars.get("holidays").incomplete == ("db-3",)
    assert seen.calendars.set("holidays", ["12-26"]).incomplete == ("db-3",)
    assert seen.acts.preview("revive", "handler:mail").incomplete == ("db-3",)
    assert seen.error_groups.retry(group.fingerprint).incomplete == ("db-3",)
    assert seen.error_groups.list().page().incomplete == ("db-3",)


def test_schedules_of_one_tenant_are_listed_with_their_results_wherever_they_are(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    store_definitions(world, [StoredDefinition("greet", "default", tenants=True)])
    for index in range(9):
        schedules.create(world, a_schedule("nightly", owner=f"owner-{index}"))
    clusters.clock.advance(timedelta(days=1))
    for shard in world.shards():
        while fires.fire_due(shard):
            continue
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE):
            endings.settle(shard, [(job, Outcome("succeeded"))])
    for index in range(9):
        owner = f"owner-{index}"
        for caller, named in ((None, owner), (tenant(owner, owner), None)):
            seen = rooms(world, caller).schedules
            for order in ("key", "next"):
                [found] = seen.list(owner=named, order=order, results=5)
                assert (found.key, found.owner) == ("nightly", owner)
                assert [each.outcome for each in found.results or ()] == ["succeeded"]
        assert rooms(world, tenant(owner, owner)).expectations.list().page().items == ()


def test_an_operator_retries_the_errors_of_a_tenant_wherever_it_is(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(6):
        jobs.enqueue(world, Request("mail", {}, owner=f"owner-{index}", retry=Retry.none()))
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    for shard in world.shards():
        for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE):
            endings.settle(shard, [(job, Outcome("failed", error="ValueError: no such address"))])
    clusters.clock.advance(timedelta(minutes=5))
    for shard in world.shards():
        roll_up.keep_up(shard)
    seen = rooms(world).error_groups
    for index in range(6):
        [group] = seen.list(owner=f"owner-{index}")
        assert seen.retry(group.fingerprint, owner=f"owner-{index}").matched == 1
