"""An application's own Alembic leaves our tables alone."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table

from horae.alembic import include_object
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate


def differences(database_url: str, metadata: MetaData, **options: object) -> list[str]:
    engine = create_store_engine(database_url)
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        found = [str(difference[0]) for difference in compare_metadata(context, metadata) if difference]
    engine.dispose()
    return found


def test_autogenerate_would_drop_our_tables(database_url: str) -> None:
    assert "remove_table" in differences(database_url, MetaData())


def test_with_the_filter_it_sees_only_the_applications_own(database_url: str) -> None:
    metadata = MetaData()
    Table("orders", metadata, Column("id", Integer, primary_key=True))

    assert differences(database_url, metadata, include_object=include_object) == ["add_table"]
