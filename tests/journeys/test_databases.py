"""The database goes away under load, or forgets to tell that there is work."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from horae.actions.jobs import jobs as verbs
from horae.errors import StoreUnavailable
from horae.stores.jobs.jobs import Jobs
from horae.testing.builders import a_new_job
from tests.journeys.conftest import LIMIT, Journey, setting_out
from tests.support.servers import MariaDBServer, PostgresServer, Server
from tests.support.waiting import wait_until

KINDS: list[type[PostgresServer] | type[MariaDBServer]] = [PostgresServer, MariaDBServer]

CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%') AND pid <> pg_backend_pid()"
)


class Producer(threading.Thread):
    """Enqueues with keys, and repeats what it got no answer for, as a careful caller does."""

    def __init__(self, journey: Journey, first: int) -> None:
        super().__init__(name="producer")
        self.journey, self.number = journey, first
        self.refused = 0
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.wait(0.005):
            self.number += 1
            self._insist(self.number)

    def _insist(self, number: int) -> None:
        request = self.journey.brief(number, key=f"key:{number}")
        while True:
            try:
                placed = verbs.enqueue(self.journey.app.world, request)
            except StoreUnavailable:
                self.refused += 1
                if self.enough.wait(0.05):
                    return
                continue
            self.journey.acknowledged.append(placed.job.number)
            return


def has_run(journey: Journey, count: int) -> bool:
    return len(journey.ran()) > count


@pytest.fixture(params=KINDS, ids=["postgres", "mysql"])
def shaky(
    request: pytest.FixtureRequest, own_server: Callable[..., PostgresServer | MariaDBServer], tmp_path: Path
) -> Iterator[tuple[Journey, Server]]:
    """A journey on a server of its own, which keeps what it acknowledged even when it is killed."""
    server = own_server(request.param, durable=True)
    for journey in setting_out(server.create_database(), tmp_path):
        yield journey, server


def test_a_database_restarted_under_load_loses_nothing_and_everybody_comes_back(shaky: tuple[Journey, Server]) -> None:
    journey, server = shaky
    workers = [journey.worker(lease=2.0), journey.worker(lease=2.0)]
    producer = Producer(journey, first=0)
    producer.start()
    wait_until(lambda: len(journey.ran()) > 20, "work before the restart")

    for _ in range(2):
        server.restart("immediate")
        enough = len(journey.ran()) + 20
        wait_until(partial(has_run, journey, enough), "work after the restart")
    producer.enough.set()
    producer.join(LIMIT)
    journey.until_done()

    assert [worker.process.poll() for worker in workers] == [None, None]  # nobody fell over
    workers[0].end()
    journey.enqueue_brief(1)  # the other one is back too, whether or not it had found anything to do
    journey.until_done()
    assert journey.ran()[-1].pid == workers[1].pid
    assert len(set(journey.acknowledged)) == len(journey.acknowledged)
    assert set(journey.acknowledged) <= {effect.job for effect in journey.ran()}
    assert journey.complaints() == []


def test_a_listener_that_is_cut_off_does_not_keep_work_waiting(postgres_journey: Journey) -> None:
    journey = postgres_journey
    worker = journey.worker()

    def cut() -> int:  # each time anew: a transaction sees the activity of its beginning
        with journey.app.engine.connect() as connection:
            return int(connection.execute(text(CUT)).scalar_one())

    wait_until(cut, "a listener to cut")

    journey.enqueue("brief", number=1)
    ran = worker.until("ran")

    assert ran.job == journey.acknowledged[0]
    journey.until_done()
    assert journey.complaints() == []


def test_work_that_nobody_announced_is_found_by_the_next_look(journey: Journey) -> None:
    worker = journey.worker(look_every=1.0)
    journey.enqueue("brief", number=1)
    worker.until("ran")

    silent = _enqueue_without_a_word(journey)
    worker.until("ran", count=2)

    journey.acknowledged.append(silent)
    journey.until_done()
    assert journey.complaints() == []


def _enqueue_without_a_word(journey: Journey) -> int:
    """A row and no notification: as if that had been lost."""
    now = journey.app.world.clock.now()
    job = a_new_job({"number": 2}, handler="brief", run_at=now)
    with journey.app.engine.begin() as connection:
        return Jobs(connection).insert([job], now)[0].number
