"""What has ended stays where it ended, and every way of looking at it goes there."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.actions import moves, roll_up
from horae.actions.jobs import claims, endings
from horae.actions.jobs.definitions import store_definitions
from horae.actions.schedules import fires, schedules
from horae.core.jobs.job import Job, Outcome
from horae.errors import NotFound
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters
from tests.cluster.test_lists import fill, rooms
from tests.cluster.test_settings import Absence

LEASE = timedelta(seconds=30)


def work(world: World, outcome: Outcome = Outcome("succeeded")) -> list[Job]:  # noqa: B008  # a frozen value
    """Let every job that is due end, wherever it is."""
    ended = list[Job]()
    for shard in world.databases():
        taken = claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)
        endings.settle(shard, [(job, outcome) for job in taken])
        ended += taken
    return ended


def fill_and_work(clusters: Clusters, world: World, count: int) -> list[str]:
    """Let jobs of so many owners end in every database, and count them; return their ids, the newest first."""
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    ids = fill(clusters, world, count)
    work(world)
    clusters.clock.advance(timedelta(hours=2))
    for shard in world.shards():
        roll_up.keep_up(shard)
    return ids


def test_every_run_that_is_listed_is_found_by_its_id(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill_and_work(clusters, world, 12)
    listed = list(rooms(world).admin.runs(handler="mail"))
    assert len(listed) == 12
    assert [rooms(world).admin.run(run.id).id for run in listed] == [run.id for run in listed]
    moves.drain(world, "db-2")
    assert [rooms(world).admin.run(run.id).outcome for run in listed] == ["succeeded"] * 12


def test_a_clean_up_removes_the_runs_of_every_database(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill_and_work(clusters, world, 20)
    moves.drain(world, "db-2")
    clusters.clock.advance(timedelta(days=30))
    admin = rooms(world).admin
    assert admin.clean_runs(handler="mail", older_than=86400).removed == 20
    assert admin.clean_runs(handler="mail", older_than=86400, owner="owner-3").removed == 1
    done = admin.clean_runs(handler="mail", older_than=86400, dry_run=False)
    assert (done.removed, done.more, done.incomplete) == (20, False, ())
    assert list(admin.runs(handler="mail")) == []


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_clean_up_names_the_database_that_it_did_not_reach(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill_and_work(clusters, world, 20)
    clusters.clock.advance(timedelta(days=30))
    absence = Absence(urls, 3)
    absence.begin(world, 3)
    done = rooms(clusters.open(urls[0])).admin.clean_runs(handler="mail", older_than=86400, dry_run=False)
    absence.end()
    assert done.incomplete == ("db-3",)
    assert done.removed + len(list(rooms(clusters.open(urls[0])).admin.runs(handler="mail"))) == 20


def test_the_report_on_governance_counts_what_every_database_has(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(9):
        rooms(world).objects.propose("memory", "Ann likes tea", id=f"m{index}", subject="tea", owner=f"owner-{index}")
        rooms(world).budgets.set("api", "calls", capacity=10, owner=f"owner-{index}")
    rooms(world).budgets.set("api", "calls", capacity=90)
    seen = rooms(world).governance.report()
    assert (sum(each.count for each in seen.objects), sum(seen.events.values()), seen.incomplete) == (9, 9, ())
    assert sum(sum(span.events.values()) for span in seen.series) == 9
    assert sorted(each.capacity or 0 for each in seen.budgets) == [*[10] * 9, 90]
    assert len(seen.budgets) == 10
    assert [each.count for each in rooms(world).governance.report(owner="owner-4").objects] == [1]


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_the_report_on_governance_names_a_database_that_is_away(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    Absence(urls, 2).begin(world, 2)
    assert rooms(clusters.open(urls[0])).governance.report().incomplete == ("db-2",)


def test_objects_of_every_database_are_planned_anew_and_exported(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(9):
        rooms(world).objects.propose("memory", "Ann likes tea", id=f"m{index}", subject="tea", owner=f"owner-{index}")
    assert rooms(world).policies.replan().looked_at == 9
    assert rooms(world).policies.replan(owner="owner-4").looked_at == 1
    header, *lines, end = rooms(world).objects.export()
    assert (header["owner"], end["objects"]) == (None, 9)
    assert sorted(line["object"]["id"] for line in lines if "object" in line) == sorted(f"m{n}" for n in range(9))


def test_runs_of_a_schedule_are_listed_wherever_the_schedule_is(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    for index in range(4):
        schedules.create(world, a_schedule(f"s{index}"))
    clusters.clock.advance(timedelta(days=1))
    for shard in world.shards():
        while fires.fire_due(shard):
            continue
    work(world)
    for index in range(4):
        assert [run.schedule for run in rooms(world).admin.runs(schedule=f"s{index}")] == [f"s{index}"]
    with pytest.raises(NotFound):
        rooms(world).admin.runs(schedule="unheard").page()
