"""No room left, and nobody there: what the store and the service say, and that both recover by themselves."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, text

from horae import Horae
from horae.actions.access.tokens import create_token, recognise
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.requests import Request
from horae.errors import StoreError, StoreFull
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.stores.opening import create_store_engine, store_on
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import put
from tests.stores.conftest import opened
from tests.support.mounting import on_small_disk
from tests.support.refusals import refused
from tests.support.servers import PostgresServer

BALLAST = "x" * 100_000


class Disk:
    """A disk for one SQLite database that is as large as the test says: SQLite itself refuses the next page."""

    def __init__(self, app: Horae) -> None:
        self.app = app
        self.pages = 2**30
        self.connections: list[Any] = []
        event.listen(app.engine, "connect", self._connected)

    def _connected(self, connection: Any, _record: Any) -> None:
        self.connections.append(connection)
        connection.execute(f"PRAGMA max_page_count = {self.pages}")

    def holds(self, pages: int) -> None:
        self.pages = pages
        for connection in self.connections:
            connection.execute(f"PRAGMA max_page_count = {pages}")

    def is_full(self) -> None:
        self.holds(1)  # SQLite never goes below what there is already


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Horae]:
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}") as app:
        yield app


@pytest.fixture
def disk(app: Horae) -> Disk:
    disk = Disk(app)
    _ = app.world
    return disk


def again_and_again(write: Callable[[], object]) -> None:
    """Until the pages that SQLite has left in hand are used up."""
    for _ in range(100):
        write()


WRITES: dict[str, Callable[[World], object]] = {
    "enqueue": lambda world: enqueue(world, Request("a", {"ballast": BALLAST})),
    "enqueue with a key": lambda world: enqueue(world, Request("a", {"ballast": BALLAST}, key="k")),
    "token": lambda world: [create_token(world, owner="alice", scopes=["tasks"]) for _ in range(100)],
}


@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_is_told_as_such_and_what_was_accepted_is_still_there(write: str, app: Horae, disk: Disk) -> None:
    kept = enqueue(app.world, Request("kept"))
    disk.is_full()

    with refused(StoreFull, "database_full"):
        again_and_again(lambda: WRITES[write](app.world))
    disk.holds(2**30)

    WRITES[write](app.world)
    assert app.world.store.read(lambda tx: tx.jobs.get(int(kept.id.removeprefix("job_")))) is not None


def test_disk_full_on_a_small_file_system_costs_nothing_that_was_accepted(tmp_path: Path) -> None:
    """Fault catalogue, small disk: a file system of four mebibytes, in a mount namespace of its own."""
    program = tmp_path / "small_disk.py"
    program.write_text(SMALL_DISK)
    (tmp_path / "disk").mkdir()
    command = on_small_disk(tmp_path / "disk", "4m", f"exec {sys.executable} {program} {tmp_path}/disk")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert answer["problem"] == "StoreFull"
    assert answer["accepted"] == answer["found"] > 100, "the empty tables must leave room, or no job was ever accepted"
    assert answer["integrity"] == "ok"


SMALL_DISK = """
import json, sqlite3, sys
from pathlib import Path
from horae import Horae
from horae.actions.jobs.jobs import counts, enqueue
from horae.actions.jobs.requests import Request
from horae.errors import StoreError

folder = Path(sys.argv[1])
ballast = folder / "ballast"
ballast.write_bytes(b"x" * 500_000)
accepted, problem = 0, ""
with Horae(f"sqlite:///{folder / 'horae.db'}") as app:
    while not problem:
        try:
            enqueue(app.world, Request("fill", {"ballast": "x" * 2000}))
            accepted += 1
        except StoreError as error:
            problem = type(error).__name__
    ballast.unlink()
    enqueue(app.world, Request("again", {"ballast": "x" * 2000}))
    found = sum(sum(states.values()) for states in counts(app.world).values())
integrity = sqlite3.connect(folder / "horae.db").execute("PRAGMA integrity_check").fetchone()[0]
print(json.dumps({"problem": problem, "accepted": accepted + 1, "found": found, "integrity": integrity}))
"""


FULL = {
    "postgres": ["DO $$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file'; END $$"],
    "mysql": [f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'full'" for number in (1021, 1114)],
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.server) for kind in FULL])
def test_a_server_without_room_is_full_and_not_away(kind: str, request: pytest.FixtureRequest) -> None:
    """The server raises what it raises when its disk is full, so that the driver's own error is what we read."""
    store = store_on(create_store_engine(request.getfixturevalue(f"{kind}_database_url")))
    for statement in FULL[kind]:
        with refused(StoreFull, "database_full"):
            store.transact(lambda tx, answer=statement: tx.connection.execute(text(answer)))  # type: ignore[misc]
    store.close()


# -- the service over it ---------------------------------------------------------------------------------------------


def serving(opens: Callable[[], World]) -> TestClient:
    return TestClient(build(opens, Options(version="test", open_to_all=True)), raise_server_exceptions=False)


def post(client: TestClient) -> Any:
    return client.post("/scheduler/jobs", json={"handler": "a", "payload": {"ballast": BALLAST}})


def test_the_service_answers_507_while_the_disk_is_full_and_recovers_by_itself(app: Horae, disk: Disk) -> None:
    client = serving(lambda: app.world)
    assert post(client).status_code == 201
    disk.is_full()

    refused = [post(client) for _ in range(50)][-1]
    looked = client.get("/scheduler/jobs")
    disk.holds(2**30)

    assert refused.status_code == 507
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "store_full"
    assert int(refused.headers["retry-after"]) > 0
    assert looked.status_code == 200, "looking needs no room"
    assert post(client).status_code == 201


def test_a_token_is_recognised_while_its_use_cannot_be_noted(app: Horae, disk: Disk) -> None:
    _, token = create_token(app.world, owner="system", scopes=["admin"])
    service = build(lambda: app.world, Options(version="test"))
    disk.is_full()
    with pytest.raises(StoreFull):
        again_and_again(lambda: enqueue(app.world, Request("fill", {"ballast": BALLAST})))

    assert recognise(app.world, token).owner == "system"
    assert TestClient(service).get("/healthz").status_code == 200


@pytest.mark.server
def test_the_service_answers_503_while_postgres_is_down_and_recovers_by_itself(
    own_server: Callable[..., PostgresServer],
) -> None:
    server = own_server(PostgresServer, durable=True)
    url = server.create_database()
    opened(url).close()
    with Horae(url) as app:
        client = serving(lambda: app.world)
        assert post(client).status_code == 201
        server.stop("immediate")

        refused, alive = post(client), client.get("/healthz")
        server.start()

        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert int(refused.headers["retry-after"]) > 0
        assert alive.status_code == 200
        assert post(client).status_code == 201


@pytest.mark.server
def test_a_service_that_starts_before_its_database_answers_once_it_is_there(
    own_server: Callable[..., PostgresServer],
) -> None:
    server = own_server(PostgresServer, durable=True)
    url = server.create_database()
    opened(url).close()
    server.stop("fast")
    with Horae(url) as app:
        client = serving(lambda: app.world)

        early = post(client)
        server.start()

        assert early.status_code == 503
        assert post(client).status_code == 201


def test_an_error_of_the_store_is_no_more_than_that(app: Horae, disk: Disk) -> None:
    """I1: a refused enqueue leaves nothing behind that a later claim could find."""
    store = app.world.store
    disk.is_full()
    refused = 0
    for _ in range(50):
        try:
            put(store, a_new_job(payload=json.dumps({"ballast": BALLAST})))
        except StoreError:
            refused += 1
    disk.holds(2**30)

    found = store.read(lambda tx: tx.jobs.counts(None, None, now=NOON))

    assert refused
    assert sum(found.values()) == 50 - refused
