"""Somebody freezes: the way to the database, the database, or a worker in the middle of a transaction."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.conftest import STEADY, Journey, setting_out, until_renewed
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

SERVERS = [pytest.param(kind, marks=pytest.mark.server) for kind in ("postgres", "mysql")]
# So that a test takes seconds; what is promised are several times as many.
SHORT = {
    "HORAE_CONNECT_TIMEOUT": "3s",
    "HORAE_HOT_TIMEOUT": "2s",
    "HORAE_STATEMENT_TIMEOUT": "4s",
    "HORAE_SILENCE_TIMEOUT": "3s",
    "HORAE_IDLE_TIMEOUT": "3s",
}
ENDLESS = dict.fromkeys(SHORT, "10m")  # whoever waits for an answer waits for longer than any test


@pytest.fixture(params=SERVERS)
def silent_journey(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journey]:
    """On each of the two servers."""
    yield from setting_out(request.getfixturevalue(f"{request.param}_database_url"), tmp_path)


@pytest.fixture
def proxy(silent_journey: Journey) -> Iterator[Proxy]:
    with Proxy(silent_journey.url) as proxy:
        yield proxy


def behind(proxy: Proxy, limits: dict[str, str] = SHORT) -> dict[str, str]:
    return {"HORAE_DATABASE_URL": proxy.url, **limits}


# -- the way to the database -------------------------------------------------------------------------------------------


def test_a_worker_whose_connections_fell_silent_works_again_without_a_restart(
    silent_journey: Journey, proxy: Proxy
) -> None:
    journey = silent_journey
    worker = journey.worker(environment=behind(proxy), lease=5.0)
    journey.enqueue("brief", number=1)
    worker.until("ran")

    proxy.swallow()
    journey.enqueue("brief", number=2)
    wait_until(lambda: "does not answer" in worker.log.read_text() or "cannot be reached" in worker.log.read_text())
    proxy.let_through()

    worker.until("ran", count=2)
    journey.enqueue("brief", number=3)
    worker.until("ran", count=3)
    journey.until_done()
    assert worker.process.poll() is None
    assert journey.complaints() == []


def test_a_sleeping_worker_notices_that_it_can_no_longer_hear(silent_journey: Journey, proxy: Proxy) -> None:
    """It has nothing to do and looks once a minute: only a sign of life that does not come can wake it."""
    journey = silent_journey
    worker = journey.worker(environment=behind(proxy), look_every=60.0)
    journey.enqueue("brief", number=1)
    worker.until("ran")
    proxy.swallow()
    proxy.let_through()  # whatever was open stays silent, as behind a firewall that has forgotten it

    journey.enqueue("brief", number=2)

    worker.until("ran", count=2)
    journey.until_done()
    assert journey.complaints() == []


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with an ending to write"])
def test_a_worker_whose_store_is_silent_ends_when_it_is_told_to(
    silent_journey: Journey, proxy: Proxy, busy: bool
) -> None:
    journey = silent_journey
    worker = journey.worker(environment=behind(proxy, ENDLESS), grace=1.0, lease=30.0)
    if busy:
        journey.enqueue("gated", gate="gate")
        worker.until("started")
    else:
        journey.enqueue("brief", number=1)
        worker.until("ran")
        journey.until_done()
    proxy.swallow()
    if busy:
        journey.open("gate")
        worker.until("passed")

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0  # although every thread that asks the store would wait for minutes


def test_a_job_of_a_worker_that_lost_its_way_to_the_store_is_handed_on(silent_journey: Journey, proxy: Proxy) -> None:
    journey = silent_journey
    lost = journey.worker(environment=behind(proxy), lease=3.0)
    job = journey.enqueue("gated", gate="gate")
    lost.until("started")
    heir = journey.worker(lease=STEADY)

    proxy.swallow()
    heir.until("started")
    journey.open("gate")
    journey.until_done([job])
    proxy.let_through()

    assert journey.app.get(job.id).result == heir.pid
    counts = lost.end()
    assert counts.get("lost", 0) + counts.get("stale", 0) == 1  # it knew by its own clock, or was told when it ended
    assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
    assert journey.complaints() == []


# -- a process in the middle of a transaction --------------------------------------------------------------------------


def test_one_frozen_transaction_does_not_keep_other_leases_from_being_handed_on(silent_journey: Journey) -> None:
    journey = silent_journey
    frozen = journey.worker(environment=SHORT)
    inside = journey.enqueue("ledgered", gate="never")
    frozen.until("inside")
    others = [journey.enqueue("gated", gate="gate") for _ in range(3)]
    frozen.until("started", count=3)

    frozen.send(signal.SIGSTOP)  # with the row of one of its jobs locked
    heir = journey.worker(environment=SHORT, lease=STEADY)
    heir.until("started", count=3)
    journey.open("gate")
    journey.until_done(others)
    journey.open("never")
    heir.until("inside")  # and this one when the server has ended the transaction in which nothing happened
    journey.until_done([inside])

    assert [run.outcome for run in journey.runs(inside)] == ["lost", "succeeded"]
    assert journey.complaints() == []


def test_a_handler_that_is_long_in_its_ledger_costs_no_job_its_lease(silent_journey: Journey) -> None:
    journey = silent_journey
    holder = journey.worker(lease=6.0)
    inside = journey.enqueue("ledgered", gate="gate")
    holder.until("inside")
    other = journey.enqueue("gated", gate="gate")
    holder.until("started")
    heir = journey.worker(lease=STEADY)
    until_renewed(journey, other.id, times=4)  # each comes after a third of the lease: it would have run out by now

    journey.open("gate")
    journey.until_done()

    for job in (inside, other):
        assert [run.outcome for run in journey.runs(job)] == ["succeeded"]
        assert journey.app.get(job.id).result == holder.pid
    assert heir.end() == {}
    assert journey.complaints() == []
