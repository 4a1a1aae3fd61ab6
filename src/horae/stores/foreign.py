"""Read tables that are not ours: those of other schedulers, whatever columns their version has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import MetaData, Table, select
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError

from horae.errors import InvalidInput, StoreUnavailable
from horae.stores.opening import create_store_engine, read_url

Row = Mapping[str, Any]


def read_tables(url: str, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Return all rows of these tables, read in one transaction; nothing is written."""
    safe_url = read_url(url).render_as_string(hide_password=True)
    engine = create_store_engine(url)
    try:
        with engine.connect() as connection:
            found: dict[str, list[Row]] = {}
            for name in tables:
                table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
                found[name] = [dict(row) for row in connection.execute(select(table)).mappings()]
            return found
    except NoSuchTableError as problem:
        raise InvalidInput("import_table_missing", table=str(problem), url=safe_url) from problem
    except SQLAlchemyError as problem:
        raise StoreUnavailable("import_database_silent", url=safe_url, problem=type(problem).__name__) from None
    finally:
        engine.dispose()
