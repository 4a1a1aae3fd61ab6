"""Compile each statement once in a process, not once for each engine.

SQLAlchemy keeps compiled statements with the engine, and nearly every test opens an engine of its own: compiling took a
quarter of the time of the tests of verbs. Engines of one kind of database and one version share what is compiled.
"""

from collections.abc import Hashable
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import Dialect

MOST = 5_000  # statements; tests that make tables of their own would fill the memory


class SharedStatements(dict[Hashable, Any]):
    """Compiled statements by what they depend on; SQLAlchemy asks with the dialect of the one engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._shared(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= MOST:
            self.clear()
        super().__setitem__(self._shared(key), compiled)

    def _shared(self, key: tuple[Dialect, Any]) -> Hashable:
        dialect, *statement = key
        return (type(dialect), dialect.server_version_info, dialect.paramstyle, *statement)


def share_statements() -> None:
    """Let all engines of this process share what they compile."""
    statements = SharedStatements()

    @event.listens_for(Engine, "engine_connect")
    def use_shared(connection: Connection) -> None:
        connection.execution_options(compiled_cache=statements)
