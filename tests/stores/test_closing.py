"""Whatever an application opened is closed: when it is closed, when it is forgotten, and when its process ends."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from horae import Horae
from horae.errors import SchemaTooNew, StoreError
from horae.stores.databases.sqlite import SqliteStore, prepare_sqlite
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.support.templates import put_tables

FILES = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not FILES.exists(), reason="needs /proc to see what is open")

NEVER_CLOSED = """
import atexit, os, sys, threading
from pathlib import Path

file = sys.argv[1]

def left_open():  # asked first, so that it is called last
    files = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists()]
    print([each for each in files if file in each])

atexit.register(left_open)
from horae import Horae

app = Horae(f"sqlite:///{file}")
app.job("a")(lambda: None)
threads = [threading.Thread(target=app.enqueue, args=["a"]) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
app.get("job_1")
unsubscribe = app.world.store.subscribe(print)  # and somebody watches the file
"""


def left_open(file: Path) -> list[str]:
    links = []
    for each in FILES.iterdir():
        try:
            links.append(os.readlink(each))
        except OSError:  # the one that lists the others
            continue
    return [link for link in links if str(file) in link]


def use(app: Horae) -> None:
    app.job("a")(lambda: None)
    app.enqueue("a")
    app.get("job_1")


def test_a_process_that_never_closes_its_application_leaves_nothing_open_at_its_end(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", NEVER_CLOSED, str(tmp_path / "horae.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout.splitlines()[-1] == "[]"
    assert "ResourceWarning" not in ended.stderr


def test_a_closed_application_has_nothing_open(tmp_path: Path) -> None:
    file = tmp_path / "horae.db"
    with Horae(put_tables(file)) as app:
        use(app)
        app.world.store.subscribe(lambda _: None)
        assert left_open(file)

    assert left_open(file) == []


def test_an_application_that_is_forgotten_has_nothing_open(tmp_path: Path) -> None:
    file = tmp_path / "horae.db"
    app = Horae(put_tables(file))
    use(app)

    del app
    gc.collect()

    assert left_open(file) == []


def test_an_application_that_could_not_be_opened_has_nothing_open(tmp_path: Path) -> None:
    file = tmp_path / "horae.db"
    engine = create_engine(put_tables(file))
    with engine.begin() as connection:
        connection.execute(text("UPDATE horae_version SET version_num = '9999'"))
    engine.dispose()
    app = Horae(f"sqlite:///{file}")

    with pytest.raises(SchemaTooNew):
        use(app)

    assert left_open(file) == []


def test_a_file_that_is_no_database_is_not_kept_open(tmp_path: Path) -> None:
    file = tmp_path / "horae.db"
    file.write_text("nonsense" * 1000)

    with pytest.raises(StoreError):
        use(Horae(f"sqlite:///{file}"))

    gc.collect()
    assert left_open(file) == []


def test_nobody_uses_the_connection_of_a_store_in_memory_while_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads share it, and closing it under a statement ended the process with a segmentation fault."""
    app = Horae("sqlite://")
    use(app)
    store = app.world.store
    assert isinstance(store, SqliteStore)
    begun, closes = threading.Event(), threading.Event()
    user = threading.Thread(target=lambda: closes.wait(60) and store.transact(lambda tx: begun.set()))
    dispose, seen = store.engine.dispose, []

    def disposing() -> None:
        closes.set()
        begun.wait(0.2)
        seen.append(begun.is_set())
        dispose()

    monkeypatch.setattr(store.engine, "dispose", disposing)
    user.start()
    app.close()
    user.join(60)

    assert (seen, begun.is_set()) == ([False], True)


def test_an_engine_of_the_callers_own_outlives_the_application(tmp_path: Path) -> None:
    engine = prepare_sqlite(create_engine(put_tables(tmp_path / "horae.db")))
    with engine.connect() as theirs:
        with Horae(engine) as app:
            use(app)
        pool = engine.pool

        assert theirs.execute(text("SELECT count(*) FROM horae_jobs")).scalar() == 1
    assert engine.pool is pool  # nobody disposed of it
    engine.dispose()


FORKED = """
import os, sys
from horae import Horae

app = Horae(sys.argv[1])
app.job("a")(lambda: None)
app.enqueue("a")

def backend():
    with app.world.store.direct() as connection:
        return connection.execute("SELECT pg_backend_pid()").fetchone()[0]

before = backend()
if os.fork() == 0:
    sys.exit(0)
os.wait()
print(backend() == before)
"""


def test_a_forked_child_that_ends_leaves_its_parents_connections_alone(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    engine.dispose()
    command = [sys.executable, "-c", FORKED, postgres_database_url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout.splitlines() == ["True"]
