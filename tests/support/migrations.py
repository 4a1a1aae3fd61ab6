"""Tables as an older version has left them."""

from importlib import import_module
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, text

from horae.stores import schema

SCRIPTS = Path(schema.__file__).parent / "migrations" / "versions"


def go_back(engine: Engine, version: str) -> None:
    """Undo every migration after *version*, the newest first."""
    steps = sorted((path.stem for path in SCRIPTS.glob("[0-9]*.py") if path.stem[:4] > version), reverse=True)
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        for step in steps:
            import_module(f"horae.stores.migrations.versions.{step}").downgrade()
        connection.execute(text("UPDATE horae_version SET version_num = :version"), {"version": version})
