"""Security check 3: as the application's role, without a tenant set, there is nothing to see and nothing to write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from horae import Horae
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.errors import ConfigurationError, StoreError
from horae.stores.databases.isolation import isolate
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.support.copied import postgres_database_url as postgres_database_url
from tests.support.refusals import refused

ROLE = "horae_tenants"


@pytest.fixture
def role_url(postgres_database_url: str) -> Iterator[str]:
    """The database as a role sees it that owns nothing, with the wall raised."""
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    isolate(engine)
    with engine.begin() as connection:
        connection.execute(text(f"DROP ROLE IF EXISTS {ROLE}"))
        connection.execute(text(f"CREATE ROLE {ROLE} LOGIN"))
        connection.execute(text(f"GRANT USAGE ON SCHEMA public TO {ROLE}"))
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}"))
        connection.execute(text(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {ROLE}"))
    yield make_url(postgres_database_url).set(username=ROLE).render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP OWNED BY {ROLE}"))
        connection.execute(text(f"DROP ROLE {ROLE}"))
    engine.dispose()


def seen(connection: Connection) -> list[str]:
    return sorted(connection.execute(text("SELECT owner FROM horae_jobs")).scalars())


def test_a_session_sees_only_the_tenant_it_names_and_horae_sees_all(role_url: str) -> None:
    with Horae(role_url) as app:
        for owner in ("alice", "bob"):
            jobs.enqueue(app.world, Request("work", owner=owner))
        (pulled,) = claims.pull(app.world, worker_id="w", owner="alice")
        assert endings.ack(app.world, pulled.id, pulled.token).state == "succeeded"
        assert len(jobs.find(app.world)) == 2
        jobs.enqueue(app.world, Request("work", owner="alice"))
    engine = create_engine(make_url(role_url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        assert seen(connection) == []
        assert connection.execute(text("SELECT count(*) FROM horae_audit")).scalar() == 0
        connection.execute(text("SELECT set_config('horae.owner', 'bob', true)"))
        assert seen(connection) == ["bob"]
        assert connection.execute(text("DELETE FROM horae_jobs WHERE owner = 'alice'")).rowcount == 0
    with pytest.raises(DBAPIError, match="row-level security"), engine.begin() as connection:
        connection.execute(text("INSERT INTO horae_owners VALUES ('mallory', '{}', 0, 0)"))
    engine.dispose()


def test_an_engine_of_the_callers_own_has_to_say_for_whom_it_acts(role_url: str) -> None:
    url = make_url(role_url).set(drivername="postgresql+psycopg")
    silent, open_to_all = create_engine(url), create_engine(url, connect_args={"options": "-c horae.owner=*"})
    with Horae(open_to_all) as app:
        made = jobs.enqueue(app.world, Request("work"))
        assert [job.id for job in claims.pull(app.world, worker_id="w")] == [made.id]
    with Horae(silent) as app:
        assert jobs.find(app.world) == []
        with refused(StoreError, "database_refused", product="PostgreSQL"):
            jobs.enqueue(app.world, Request("work"))
    silent.dispose()
    open_to_all.dispose()


def test_every_table_of_ours_is_behind_the_wall(role_url: str) -> None:
    engine = create_engine(make_url(role_url).set(drivername="postgresql+psycopg"))
    query = "SELECT relname, relforcerowsecurity FROM pg_class WHERE relname LIKE 'horae%' AND relkind IN ('r', 'p')"
    with engine.begin() as connection:
        tables = {row.relname: row.relforcerowsecurity for row in connection.execute(text(query))}
    engine.dispose()
    assert set(metadata.tables) <= set(tables)
    assert [name for name, walled in tables.items() if not walled] == ["horae_version"]


def test_a_table_that_a_migration_makes_is_behind_the_wall_that_stands(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    isolate(engine)
    with engine.begin() as connection:  # as the tables were before a release added one
        connection.execute(text("DROP TABLE horae_lines"))
        connection.execute(text("UPDATE horae_version SET version_num = '0013_quiet_queues'"))
    migrate(engine)
    with engine.begin() as connection:
        query = text("SELECT relforcerowsecurity FROM pg_class WHERE relname = 'horae_lines'")
        assert connection.execute(query).scalar() is True
    engine.dispose()


def test_the_wall_can_be_taken_down(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    isolate(engine)
    isolate(engine, on=False)
    with engine.begin() as connection:
        query = text("SELECT count(*) FROM pg_class WHERE relname LIKE 'horae%' AND relrowsecurity")
        assert connection.execute(query).scalar() == 0
    engine.dispose()


def test_elsewhere_there_is_no_such_wall(tmp_path: object) -> None:
    engine = create_store_engine(f"sqlite:///{tmp_path}/horae.db")
    with refused(ConfigurationError, "row_security_unsupported"):
        isolate(engine)
