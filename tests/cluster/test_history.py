"""What has ended stays where it ended, and every way of looking at it goes there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from horae.actions import moves, roll_up
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.actions.schedules import schedules
from horae.api.gather import Merged
from horae.api.here import Here, house, tenant
from horae.api.shards import gather_of_owner
from horae.core.access.callers import Caller
from horae.core.jobs.job import Filter, Job, Outcome
from horae.core.jobs.retry import Retry
from horae.errors import NotFound
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.testing.builders import a_schedule
from tests.cluster.conftest import Clusters, fire_all
from tests.cluster.test_lists import fill, rooms, walk
from tests.cluster.test_moving import vshard_of
from tests.cluster.test_nothing_partial import kill_jobs
from tests.cluster.test_settings import Absence

LEASE = timedelta(seconds=30)
NAMES = ("first", "db-2", "db-3")


def database_of(world: World, owner: str) -> str:
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    return shard_map.member(shard_map.database_of(vshard_of(world, owner))).name


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
    fire_all(world)
    work(world)
    for index in range(4):
        assert [run.schedule for run in rooms(world).admin.runs(schedule=f"s{index}")] == [f"s{index}"]
    with pytest.raises(NotFound):
        rooms(world).admin.runs(schedule="unheard").page()


# -- lists and counts after a move -------------------------------------------------------------------------------------


def counted(world: World, caller: Caller | None = None, owner: str | None = None) -> dict[str, int]:
    """Return how much each way of looking at what has succeeded shows."""
    seen = rooms(world, caller)
    return {
        "list": len(list(seen.jobs.list(state="succeeded", owner=owner))),
        "words": len(list(seen.jobs.list(where="state:succeeded handler:mail", owner=owner))),
        "by end": len(list(seen.jobs.list(where="ended:>-1d", owner=owner))),
        "counts": sum(group.count for group in seen.jobs.counts(owner=owner).groups),
    }


def figures(world: World, caller: Caller | None = None) -> dict[str, int]:
    seen = rooms(world, caller).statistics
    by: Any = "queue" if caller is None else "owner"
    name = "default" if caller is None else caller.owner
    return {
        "by name": sum(each.runs for each in seen.list(by)),
        "series": sum(each.runs for each in seen.series(by, name)),
    }


def test_what_has_ended_is_listed_and_counted_after_its_database_was_drained(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    ids = fill_and_work(clusters, world, 12)
    before = counted(world), figures(world), len(list(rooms(world).audit.list()))
    assert before[:2] == (
        {"list": 12, "words": 12, "by end": 12, "counts": 12},
        {"by name": 12, "series": 12},
    )  # fmt: skip
    moves.drain(world, "db-2")
    assert (counted(world), figures(world)) == before[:2]
    assert len(list(rooms(world).audit.list())) >= before[2]
    assert len(list(rooms(world).admin.runs(handler="mail"))) == 12
    pages = walk(lambda cursor: rooms(world).jobs.list(state="succeeded").page(cursor, limit=5))
    assert [len(page.items) for page in pages] == [5, 5, 2]
    assert sorted(job.id for page in pages for job in page.items) == sorted(ids)


def test_what_has_ended_of_a_tenant_is_listed_and_counted_after_a_move(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    fill_and_work(clusters, world, 6)
    owner = "owner-3"
    itself = tenant(owner, owner)
    source = database_of(world, owner)
    moves.move(world, [vshard_of(world, owner)], next(name for name in NAMES if name != source))
    live = jobs.enqueue(world, Request("mail", {}, owner=owner)).id
    for caller, named in ((itself, None), (None, owner)):
        assert counted(world, caller, named) == {"list": 1, "words": 1, "by end": 1, "counts": 2}
        listing = rooms(world, caller).jobs.list(owner=named)
        pages = walk(lambda cursor, listing=listing: listing.page(cursor, limit=1))  # type: ignore[misc]
        assert [len(page.items) for page in pages][:2] == [1, 1]
        assert live in [job.id for page in pages for job in page.items]
    assert figures(world, itself) == {"by name": 1, "series": 1}
    assert len(list(rooms(world).admin.runs(handler="mail", owner=owner))) == 1
    assert list(rooms(world, tenant("owner-2", "owner-2")).jobs.list(state="dead")) == []


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_list_of_a_tenant_names_the_database_that_is_away(clusters: Clusters) -> None:
    world, urls = clusters.make(3)
    fill_and_work(clusters, world, 6)
    owner = "owner-3"
    itself, source = tenant(owner, owner), database_of(world, owner)
    target = next(name for name in NAMES if name != source)
    moves.move(world, [vshard_of(world, owner)], target)
    for name, shown in ((source, 0), (target, 1)):
        absence = Absence(urls, NAMES.index(name) + 1)
        if name == "first":
            continue  # without the home nothing opens
        absence.begin(world, NAMES.index(name) + 1)
        seen = rooms(clusters.open(urls[0]), itself)
        page = seen.jobs.list(state="succeeded").page()
        assert (len(page.items), page.incomplete) == (shown, (name,))
        assert seen.jobs.counts().incomplete == (name,)
        absence.end()
        world = clusters.open(urls[0])


def test_a_tenant_that_moves_while_it_lists_sees_each_job_once(clusters: Clusters) -> None:
    world, urls = clusters.make(2)
    ids = [jobs.enqueue(world, Request("mail", {}, owner="owner-3")).id for _ in range(3)]
    source = database_of(world, "owner-3")
    mover, moved = clusters.open(urls[0]), list[str]()

    def move_and_gather(here: Here) -> Merged:
        """Let the tenant move away after one of the databases has answered."""
        parts = list[list[str]]()
        for shard in world.shards():
            parts.append([job.id for job in jobs.find(shard, Filter(owner="owner-3"))])
            if not moved:
                moved.append(next(name for name in NAMES[:2] if name != source))
                moves.move(mover, [vshard_of(mover, "owner-3")], moved[0])
        return Merged(sorted(each for part in parts for each in part))

    found = gather_of_owner(Here(world, house("ann")), "owner-3", move_and_gather)
    assert found.answer == sorted(ids)


@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_that_never_kept_a_shard_is_asked_for_no_history(clusters: Clusters) -> None:
    world, urls = clusters.make(2, guest=True)
    fill_and_work(clusters, world, 6)
    Absence(urls, 3).begin(world, 3)
    world = clusters.open(urls[0])
    assert rooms(world).jobs.list().page().incomplete == ()
    assert counted(world)["list"] == 6


def test_errors_of_a_tenant_are_found_muted_and_retried_after_a_move(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    owner = "owner-3"
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    jobs.enqueue(world, Request("mail", {}, owner=owner, retry=Retry.none()))
    work(world, Outcome("failed", error="ValueError: no such address"))
    clusters.clock.advance(timedelta(minutes=5))
    for shard in world.shards():
        roll_up.keep_up(shard)
    source = database_of(world, owner)
    moves.move(world, [vshard_of(world, owner)], next(name for name in NAMES if name != source))
    seen = rooms(world, tenant(owner, owner)).error_groups
    [group] = seen.list()
    assert (group.count, seen.get(group.fingerprint).count) == (1, 1)
    assert seen.mute(group.fingerprint, reason="known").muted
    assert [each.muted for each in seen.list(muted=True)] == [True]
    assert list(seen.list(muted=False)) == []
    assert not seen.unmute(group.fingerprint).muted
    assert seen.retry(group.fingerprint).matched == 1


def test_secrets_of_jobs_in_a_drained_database_stay_masked_as_the_others_are(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    for index in range(12):
        jobs.enqueue(world, Request("mail", {"pin": "1234"}, owner=f"owner-{index}"))
    work(world)
    moves.drain(world, "db-2")
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True, sensitive=("pin",))])
    assert {job.payload["pin"] for job in rooms(world).jobs.list(state="succeeded")} == {"[masked]"}


def test_a_group_of_errors_is_unmuted_also_where_a_drained_database_has_a_part_of_it(clusters: Clusters) -> None:
    world, _ = clusters.make(2)
    kill_jobs(clusters, world, 12)
    seen = rooms(world).error_groups
    [group] = seen.list()
    seen.mute(group.fingerprint, reason="known")
    moves.drain(world, "db-2")
    assert [(each.muted, each.count) for each in seen.list()] == [(True, 12)]
    seen.unmute(group.fingerprint)
    assert [(each.muted, each.count) for each in seen.list(muted=False)] == [(False, 12)]
    assert not seen.get(group.fingerprint).muted


def test_runs_of_a_task_are_listed_after_its_tenant_has_moved(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    owner = "owner-3"
    store_definitions(world, [StoredDefinition("dispatch", "default", tenants=True)])
    mine = rooms(world, tenant(owner, owner)).scheduled_tasks
    made = mine.create(name="report", schedule_type="interval", schedule_expr="3600", payload={"message": "go"})
    ran = list[str]()
    for name in ("first", "db-2", "db-3"):
        if database_of(world, owner) != name:
            moves.move(world, [vshard_of(world, owner)], name)
        mine.trigger(made.id)
        clusters.clock.advance(timedelta(seconds=5))
        ran = [f"{job.id}.{job.token}" for job in work(world)] + ran
        clusters.clock.advance(timedelta(seconds=5))
    assert [run.id for run in mine.runs(made.id)] == ran
    pages = walk(lambda cursor: mine.runs(made.id).page(cursor, limit=2))  # type: ignore[arg-type,return-value]
    assert [run.id for page in pages for run in page.items] == ran
    with pytest.raises(NotFound):
        rooms(world, tenant("owner-2", "owner-2")).scheduled_tasks.runs(made.id).page()
