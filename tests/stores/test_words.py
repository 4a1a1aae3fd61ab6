"""What a database says, in our words: which error, and what to do about it."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import QueuePool

from horae.errors import ConfigurationError, SchemaMissing, StoreBusy, StoreUnavailable
from horae.ports.claims import Claim
from horae.stores.databases import sqlite as sqlite_store
from horae.stores.opening import create_store_engine, open_store, store_on
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once, put, take
from tests.stores.conftest import KINDS, opened
from tests.support.refusals import refused
from tests.support.servers import MariaDBServer, PostgresServer, Server

Verb = Callable[[SqlStore], object]
VERBS: dict[str, Verb] = {
    "insert": lambda store: put(store, a_new_job()),
    "insert many": lambda store: put(store, a_new_job(), a_new_job()),
    "insert with a key": lambda store: put(store, a_new_job(key="k")),
    "claim": lambda store: store.claim(Claim("default", 1, "w", LEASE), now=NOON),
    "expired": lambda store: store.find_expired(now=NOON, limit=1),
    "peek": lambda store: store.peek(["default"]),
    "read": lambda store: store.read(lambda tx: tx.jobs.get(1)),
    "transact": lambda store: store.transact(lambda tx: tx.queues.all()),
}
NOWHERE = {"postgres": "postgresql://nobody@127.0.0.1:1/none", "mysql": "mysql://nobody@127.0.0.1:1/none"}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", NOWHERE)
def test_a_database_that_is_down_is_unavailable(kind: str, verb: str) -> None:
    store = store_on(create_store_engine(NOWHERE[kind]))

    with refused(StoreUnavailable, "database_not_reached"):
        VERBS[verb](store)
    store.close()


@pytest.mark.parametrize("verb", VERBS)
def test_missing_tables_are_named_with_the_command_that_makes_them(database_url: str, verb: str) -> None:
    store = store_on(create_store_engine(database_url))

    with refused(SchemaMissing, "tables_missing"):
        VERBS[verb](store)
    store.close()


def test_a_file_that_somebody_keeps_locked_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_MS", 50)
    store = opened(f"sqlite:///{tmp_path / 'horae.db'}")
    rude = sqlite3.connect(tmp_path / "horae.db", isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")

    with refused(StoreBusy, "sqlite_locked"):
        put(store, a_new_job())
    with pytest.raises(StoreBusy):
        put(store, a_new_job(key="k"))

    rude.execute("ROLLBACK")
    rude.close()
    assert len(put(store, a_new_job())) == 1
    store.close()


def test_a_neighbour_in_the_same_group_commit_does_not_pay_for_a_bad_job(tmp_path: Path) -> None:
    """SQLite writes waiting enqueues together; one that cannot be written fails alone."""
    store = opened(f"sqlite:///{tmp_path / 'horae.db'}")

    def enqueue(index: int) -> str:
        limit = 2**70 if index % 4 == 0 else 1  # larger than any column
        try:
            put(store, *(a_new_job(concurrency_limit=limit) for _ in range(20)))
        except OverflowError:
            return "refused"
        return "stored"

    assert at_once(12, enqueue) == ["refused" if index % 4 == 0 else "stored" for index in range(12)]
    store.close()


def test_an_unknown_kind_of_database_is_a_configuration_error() -> None:
    with refused(ConfigurationError, "database_unsupported"):
        create_store_engine("oracle://somewhere")


def test_a_url_that_cannot_be_read_is_a_configuration_error_without_the_password() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        create_store_engine("postgresql//user:secret@host")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("kind", [PostgresServer, MariaDBServer])
def test_the_first_verb_after_a_restart_of_the_server_succeeds(
    own_server: Callable[..., Any], kind: type[Server]
) -> None:
    """Connections that went stale while nobody used them are found before they are used."""
    server = own_server(kind)
    store = opened(server.create_database())
    put(store, a_new_job())
    take(store)
    at_once(4, lambda _: put(store, a_new_job()))

    server.restart()

    assert len(put(store, a_new_job())) == 1
    store.close()


@pytest.mark.parametrize("kind", [PostgresServer, MariaDBServer])
def test_a_server_that_dies_is_unavailable_and_welcome_back(own_server: Callable[..., Any], kind: type[Server]) -> None:
    server = own_server(kind)
    store = opened(server.create_database())
    put(store, a_new_job())
    server.stop("fast")

    with pytest.raises(StoreUnavailable):
        put(store, a_new_job())

    server.start()
    assert len(take(store)) == 1
    store.close()


# -- wake-ups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store_url", KINDS[:2], indirect=True)
def test_another_process_is_heard(store: SqlStore, open_another: Callable[[], SqlStore]) -> None:
    """NOTIFY on PostgreSQL, the data version on SQLite; MariaDB has neither and is looked at."""
    heard = Event()
    ready = Event()

    def listen(queue: str) -> None:
        (heard if ready.is_set() else Event()).set()
        assert queue in ("*", "default")

    unsubscribe = store.subscribe(listen)
    other = open_another()
    ready.set()

    for _ in range(600):  # until the listener is up
        put(other, a_new_job())
        if heard.wait(0.1):
            break

    unsubscribe()
    assert heard.is_set()


def test_our_own_process_is_heard_at_once(store: SqlStore) -> None:
    answer: list[str] = []
    unsubscribe = store.subscribe(answer.append)

    put(store, a_new_job(queue="mail"), a_new_job(queue="mail"))
    unsubscribe()
    put(store, a_new_job(queue="late"))

    assert "mail" in answer
    assert "late" not in answer


def test_a_postgres_listener_survives_a_restart(own_server: Callable[..., Any]) -> None:
    server = own_server(PostgresServer)
    url = server.create_database()
    listener, speaker = opened(url), opened(url)
    heard = Event()
    listener.subscribe(lambda queue: heard.set() if queue == "default" else None)
    server.restart()

    for _ in range(600):
        put(speaker, a_new_job())
        if heard.wait(0.1):
            break

    assert heard.is_set()
    listener.close()
    speaker.close()


def test_a_mysql_engine_with_default_isolation_still_keeps_limits(mysql_database_url: str) -> None:
    """An application may bring its own engine, which shows each transaction the past unless configured otherwise."""
    engine = create_engine(mysql_database_url)
    migrate(engine)
    store = open_store(engine)
    put(store, *(a_new_job(concurrency_key="c") for _ in range(12)))

    taken = at_once(6, lambda index: take(store, 2, worker=f"w{index}"))

    with engine.connect() as connection:
        running = connection.execute(text("SELECT COUNT(*) FROM horae_jobs WHERE state = 'running'")).scalar()
    assert (sum(map(len, taken)), running) == (1, 1)
    assert abs((store.read_time() or NOON) - datetime.now(UTC)).total_seconds() < 60
    store.close()


def test_a_pool_with_no_connection_left_is_busy(sqlite_database_url: str) -> None:
    opened(sqlite_database_url).close()
    small = create_engine(sqlite_database_url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.05)
    store = store_on(small)

    with small.connect(), refused(StoreBusy, "pool_exhausted"):
        VERBS["read"](store)
    store.close()
