"""A claim that holds tenants' jobs back, and somebody who opens their handler in the same moment: both orders."""

import threading
from collections.abc import Callable
from typing import Any

from horae.ports.claims import Claim
from horae.ports.definitions import StoredDefinition
from horae.stores.jobs.definitions import Definitions
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import declare, numbers, put, read_job, take

A_MOMENT = 0.3  # seconds that we look for what must not happen: shorter would only notice a mistake less surely
SOON = 60.0


def test_opening_a_handler_waits_for_a_claim_that_is_holding_its_jobs(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    """The claim has read "closed" and has not committed: a release before its commit would miss the job for ever."""
    [number] = put(store, a_new_job(owner="alice"))
    other, is_open = open_another(), threading.Event()

    def open_it() -> None:
        declare(other)
        is_open.set()

    opening = threading.Thread(target=open_it, daemon=True)
    with store.open_driver() as driver:
        assert store.hot.claim(driver, Claim("default", 10, "w1", LEASE), NOON) == []
        opening.start()
        assert not is_open.wait(A_MOMENT)
    opening.join(SOON)

    assert is_open.is_set()
    assert read_job(store, number).held == ""
    assert numbers(take(store)) == [number]


def test_a_claim_waits_for_somebody_who_is_opening_the_handler(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    """It reads "closed" at first, and again once it has the lock: then it takes the job."""
    [number] = put(store, a_new_job(owner="alice"))
    other, claimed = open_another(), list[Any]()
    claiming = threading.Thread(target=lambda: claimed.extend(take(store)), daemon=True)
    with other.writing() as connection:
        rows = Definitions(connection)
        rows.lock()
        rows.put(StoredDefinition("greet", "default", True, "shop", NOON, "system/start"))
        claiming.start()
        claiming.join(A_MOMENT)
        assert claiming.is_alive()
    claiming.join(SOON)

    assert numbers(claimed) == [number]


def test_opening_a_handler_releases_a_held_job_that_somebody_looks_at_just_now(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    """A row that is locked for a moment is waited for: passed over, it would be held until somebody opened it again."""
    [number] = put(store, a_new_job(owner="alice"))
    assert take(store) == []
    other = open_another()
    opening = threading.Thread(target=declare, args=[other], daemon=True)
    with store.open_driver() as driver:
        driver.rows("SELECT id FROM horae_jobs WHERE id = %s" + store.dialect.waiting_lock, [number])
        opening.start()
        opening.join(A_MOMENT)
        assert opening.is_alive()
    opening.join(SOON)

    assert read_job(store, number).held == ""


def test_a_claim_of_system_jobs_asks_nothing_about_definitions(store: SqlStore) -> None:
    """The traffic of an application without tenants does not pay for them: no lock, no statement more."""
    put(store, *[a_new_job() for _ in range(3)])
    asked: list[str] = []
    with store.open_driver() as driver:
        rows = driver.rows

        class Listening:
            connection, placeholder = driver.connection, driver.placeholder
            change, many = driver.change, driver.many

            def rows(self, sql: str, parameters: Any = ()) -> Any:
                asked.append(sql)
                return rows(sql, parameters)

        assert len(store.hot.claim(Listening(), Claim("default", 10, "w1", LEASE), NOON)) == 3  # type: ignore[arg-type]

    assert not [sql for sql in asked if "horae_definitions" in sql]
