"""Applications on real stores."""

import importlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from horae import Horae
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.runtime import processes


@pytest.fixture
def app() -> Iterator[Horae]:
    """An application on SQLite in memory."""
    with Horae("sqlite://") as app:
        yield app


@pytest.fixture
def app_on() -> Iterator[Callable[[str], Horae]]:
    """Applications on a given database, with its tables in place."""
    made: list[Horae] = []

    def on(url: str) -> Horae:
        made.append(Horae(url))
        migrate(made[-1].engine)
        return made[-1]

    yield on
    for app in made:
        app.close()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables, to be copied: that is faster than making them for every test."""
    file = tmp_path_factory.mktemp("migrated") / "horae.db"
    engine = create_store_engine(f"sqlite:///{file}")
    migrate(engine)
    engine.dispose()
    return file


@pytest.fixture
def process_app(
    sqlite_database_url: str, migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Horae]:
    """The application of ``tests.runtime.processes``, on a database of its own, here and in child processes."""
    shutil.copy(migrated_file, tmp_path / "horae.db")
    monkeypatch.setenv("HORAE_DATABASE_URL", sqlite_database_url)
    importlib.reload(processes)
    yield processes.app
    processes.app.close()
