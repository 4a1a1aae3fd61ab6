"""Applications on real stores."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from horae import Horae
from horae.stores.schema import migrate
from tests.runtime import processes
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url
from tests.support.templates import put_tables


@pytest.fixture
def app() -> Iterator[Horae]:
    """An application on SQLite in memory."""
    with Horae("sqlite://") as app:
        yield app


@pytest.fixture
def app_on() -> Iterator[Callable[..., Horae]]:
    """Applications on a given database, with its tables in place."""
    made: list[Horae] = []

    def on(url: str, **options: Any) -> Horae:
        made.append(Horae(url, **options))
        migrate(made[-1].engine)
        return made[-1]

    yield on
    for app in made:
        app.close()


@pytest.fixture
def process_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Horae]:
    """The application of ``tests.runtime.processes``, on a database of its own, here and in child processes."""
    monkeypatch.setenv("HORAE_DATABASE_URL", put_tables(tmp_path / "horae.db"))
    importlib.reload(processes)
    yield processes.app
    processes.app.close()
