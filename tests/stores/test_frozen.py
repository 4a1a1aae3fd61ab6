"""Rows that a transaction keeps locked, because its process froze or takes its time: everybody else goes on."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from horae.actions.jobs import endings
from horae.actions.jobs import jobs as verbs
from horae.core.jobs.job import Job, Lease, Outcome, settlement
from horae.core.timeouts import Timeouts
from horae.errors import StoreBusy
from horae.ports.world import World
from horae.stores.jobs.jobs import Jobs
from horae.stores.opening import create_store_engine, open_store
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import put, read_job, take
from tests.stores.conftest import url_of
from tests.support.proxy import Proxy

SHORT = Timeouts(
    connect=timedelta(seconds=2),
    hot=timedelta(seconds=2.5),
    statement=timedelta(seconds=3),
    silence=timedelta(seconds=3),
    idle=timedelta(seconds=2),
)
SERVERS = [pytest.param(kind, marks=pytest.mark.server) for kind in ("postgres", "mysql")]
LATER = NOON + LEASE * 2


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    return url_of(request.param, request)


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with closing(open_store(create_store_engine(url, timeouts=SHORT), SHORT)) as store:
        yield store


@pytest.fixture
def held(store: SqlStore) -> list[Job]:
    """Three jobs in somebody's hands."""
    put(store, *(a_new_job() for _ in range(3)))
    return take(store)


@contextmanager
def locked(store: SqlStore, *jobs: Job) -> Iterator[None]:
    """Somebody is in the middle of a transaction that holds these rows, and has time."""
    engine = create_store_engine(store.engine.url.render_as_string(hide_password=False))
    with engine.begin() as connection:
        for job in jobs:
            assert Jobs(connection).lock(job.number) is not None
        yield
    engine.dispose()


def leases(jobs: list[Job]) -> list[Lease]:
    return [Lease(job.number, job.token) for job in jobs]


def test_lost_leases_are_handed_on_although_the_row_of_one_is_locked(store: SqlStore, held: list[Job]) -> None:
    world = World(store, VirtualClock(LATER), LoadedDice())
    with locked(store, held[0]):
        lost = endings.lose_expired(world)
        again = endings.lose_expired(world)

    assert [job.number for job, _ in lost] == [job.number for job in held[1:]]
    assert again == []
    assert [job.number for job, _ in endings.lose_expired(world)] == [held[0].number]


def test_a_lease_that_is_found_lost_and_locked_a_moment_later_stops_nobody(store: SqlStore, held: list[Job]) -> None:
    world = World(store, VirtualClock(LATER), LoadedDice())
    found = store.find_expired(now=LATER, limit=10)
    with locked(store, held[1]):
        lost = endings.lose(world, found)

    assert [job.number for job, _ in lost] == [held[0].number, held[2].number]


def test_renewing_passes_a_locked_row_over_and_does_not_call_it_lost(store: SqlStore, held: list[Job]) -> None:
    with locked(store, held[1]):
        renewed = store.renew(leases(held), until=LATER)

    assert renewed.held == {job.number for job in held}
    assert renewed.busy == {held[1].number}
    assert [read_job(store, job.number).leased_until for job in held] == [LATER, NOON + LEASE, LATER]
    assert store.renew(leases(held), until=LATER).busy == frozenset()


def test_a_locked_row_that_belongs_to_somebody_else_by_now_is_not_taken_for_ours(
    store: SqlStore, held: list[Job]
) -> None:
    endings.lose_expired(World(store, VirtualClock(LATER), LoadedDice()))
    assert take(store, now=LATER)
    with locked(store, *held):
        renewed = store.renew(leases(held), until=LATER)

    assert renewed.held == renewed.busy == frozenset()


def test_somebody_who_should_stop_is_told_although_his_row_is_locked(store: SqlStore, held: list[Job]) -> None:
    verbs.cancel(World(store, VirtualClock(), LoadedDice()), held[0].id)
    with locked(store, held[0]):
        assert store.renew(leases(held), until=LATER).cancelled == {held[0].number}


def test_an_ending_waits_for_its_row_and_gives_up_in_time(store: SqlStore, held: list[Job]) -> None:
    done = [settlement(held[0], Outcome("succeeded"), now=NOON, roll=0.5)]
    with locked(store, held[0]), pytest.raises(StoreBusy):
        store.settle(done, now=NOON)

    assert store.settle(done, now=NOON) == set()


def test_the_transaction_of_a_host_that_vanished_is_ended_by_the_server(url: str, held: list[Job]) -> None:
    """Its proxy stands for the host: nothing more comes from it, and no word that it is gone."""
    with Proxy(url) as proxy, closing(open_store(create_store_engine(url))) as other:
        vanished = create_store_engine(proxy.url, timeouts=SHORT)
        with suppress(DBAPIError), vanished.begin() as connection:
            assert Jobs(connection).lock(held[0].number) is not None
            proxy.swallow()

            assert other.transact(lambda tx: tx.jobs.lock(held[0].number)) is not None
        vanished.dispose()


def test_the_server_is_told_to_end_what_vanished(store: SqlStore) -> None:
    """Statements, lock waits, idle transactions and silent clients: each session of ours has limits for them."""
    names = {
        "postgresql": ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "tcp_user_timeout",
                       "tcp_keepalives_idle", "client_connection_check_interval"],
        "mysql": ["max_statement_time", "innodb_lock_wait_timeout", "idle_transaction_timeout"],
    }  # fmt: skip
    ask = {"postgresql": "SHOW {}", "mysql": "SELECT @@{}"}[store.dialect.name]
    with store.engine.connect() as connection:
        found = {name: connection.execute(text(ask.format(name))).scalar() for name in names[store.dialect.name]}

    assert not [name for name, value in found.items() if str(value) in ("0", "0.0", "None")]
