"""Databases of a cluster are migrated one after the other: processes serve the revisions around theirs meanwhile."""

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from horae.actions import cluster as verbs
from horae.actions.jobs import claims, jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.errors import HoraeError, SchemaMissing, SchemaTooNew
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.stores.opening import create_store_engine
from horae.stores.revisions import oldest_code, oldest_tables
from horae.stores.schema import HEAD, KNOWN, SCRIPTS, inspect_schema, migrate, require_current
from tests.cluster.conftest import Clusters
from tests.cluster.test_working import LEASE
from tests.support.refusals import refused

NEXT = "9999_next"


def set_revision(url: str, revision: str, oldest: str | None = None) -> None:
    engine = create_store_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE horae_version SET version_num = :is"), {"is": revision})
        if oldest is not None:
            connection.execute(text("UPDATE horae_version SET oldest = :is"), {"is": oldest})
    engine.dispose()


def take_back_newest(engine: Engine) -> None:
    """Undo the newest migration, as tables are that code of the revision before has made."""
    module = ScriptDirectory(str(SCRIPTS)).get_revision(HEAD).module
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        module.downgrade()
        connection.execute(text("UPDATE horae_version SET version_num = :is"), {"is": KNOWN[-2]})


def walk(world: World, count: int = 20) -> set[int]:
    """Enqueue for many owners and claim all of it; return in which databases that was."""
    store_definitions(world, [StoredDefinition("mail", "default", tenants=True)])
    ids = {jobs.enqueue(world, Request("mail", {}, owner=f"owner-{n}")).id for n in range(count)}
    assert world.cluster is not None
    found: set[int] = set()
    for member, shard in world.cluster.worlds(world):
        taken = {job.id for job in claims.claim(shard, "default", 100, worker_id="w", lease=LEASE)}
        found |= {member.number} if taken else set()
        ids -= taken
    assert ids == set()
    return found


def owner_in(world: World, number: int) -> str:
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    return next(f"o{n}" for n in range(100) if shard_map.database_of(shard_map.vshard_of(owner=f"o{n}")) == number)


def test_code_of_before_goes_on_with_a_database_that_has_the_next_revision(clusters: Clusters) -> None:
    _, urls = clusters.make(2)
    set_revision(urls[1], NEXT, oldest=HEAD)
    for first in urls:  # told of either of them, as after a restart
        world = clusters.open(first)
        assert walk(world) == {1, 2}
        assert verbs.look(world).is_well
    engine = create_store_engine(urls[1])
    assert migrate(engine).found == NEXT  # which this code cannot take back, and does not try
    with pytest.raises(SchemaTooNew):
        require_current(engine)  # an export would leave out what it does not know
    engine.dispose()


def test_a_next_revision_that_excludes_this_code_is_refused_and_the_others_go_on(clusters: Clusters) -> None:
    _, urls = clusters.make(2)
    set_revision(urls[1], NEXT, oldest=NEXT)
    world = clusters.open(urls[0])
    assert world.cluster is not None
    assert jobs.enqueue(world, Request("mail", {}, owner=owner_in(world, 1))).id
    with pytest.raises(SchemaTooNew):
        jobs.enqueue(world, Request("mail", {}, owner=owner_in(world, 2)))
    assert [each.problem is None for each in verbs.look(world).members] == [True, False]
    further = world.cluster.further(world)
    assert further() == []
    set_revision(urls[1], HEAD)
    assert len(further()) == 1


@pytest.mark.server
@pytest.mark.parametrize("clusters", ["postgres"], indirect=True)
def test_this_code_serves_a_database_of_the_revision_before_or_waits_for_it(clusters: Clusters) -> None:
    _, urls = clusters.make(2)
    engine = create_store_engine(urls[1])
    take_back_newest(engine)
    # Not through `clusters.open`, which migrates what it opens.
    world = clusters.open(urls[0])
    assert jobs.enqueue(world, Request("mail", {}, owner=owner_in(world, 1))).id
    if oldest_tables() <= KNOWN[-2]:
        assert inspect_schema(engine).is_near
        assert walk(world) == {1, 2}
    else:
        with pytest.raises(SchemaMissing):
            jobs.enqueue(world, Request("mail", {}, owner=owner_in(world, 2)))
    migrate(engine)
    assert inspect_schema(engine).is_current
    assert walk(world, 25) == {1, 2}
    engine.dispose()


@pytest.mark.server
@pytest.mark.parametrize("clusters", ["postgres"], indirect=True)
def test_a_database_that_is_too_far_behind_is_waited_for_and_the_others_go_on(clusters: Clusters) -> None:
    _, urls = clusters.make(2)
    set_revision(urls[1], "0022_job_expectations")
    world = clusters.open(urls[0])
    assert world.cluster is not None
    assert jobs.enqueue(world, Request("mail", {}, owner=owner_in(world, 1))).id
    with refused(SchemaMissing, "tables_old"):
        jobs.enqueue(world, Request("mail", {}, owner=owner_in(world, 2)))
    further = world.cluster.further(world)
    assert further() == []
    engine = create_store_engine(urls[1])
    migrate(engine)
    engine.dispose()
    assert len(further()) == 1


def test_a_single_database_is_not_served_with_another_revision(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    clusters.open(url)
    set_revision(url, NEXT, oldest=HEAD)
    with refused(HoraeError, "tables_too_new"):
        clusters.open(url)


def test_the_oldest_code_stands_in_the_database_however_its_tables_were_made(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    clusters.open(url)
    engine = create_store_engine(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT oldest FROM horae_version")).scalar() == oldest_code()
    engine.dispose()
    assert oldest_code() in KNOWN
    assert oldest_tables() in KNOWN
