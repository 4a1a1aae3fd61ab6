"""The primary dies and another host takes over: nothing that was acknowledged is lost, and no process is restarted.

These are the short forms; ``make soak ARGS="--failover"`` runs them for minutes.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from horae.actions.jobs import jobs as verbs
from horae.clock import SystemClock
from horae.doctor.database import primaries
from horae.doctor.findings import Installation
from horae.errors import StoreError, StoreUnavailable
from horae.settings import Settings
from horae.stores.opening import create_store_engine, open_store
from tests.conftest import do_without
from tests.journeys.conftest import STEADY, Journey, setting_out
from tests.journeys.program import build
from tests.journeys.test_service import Serve
from tests.journeys.test_service import serve as serve
from tests.support.kinds import name_in
from tests.support.refusals import refused
from tests.support.replicas import GaleraCluster, PostgresPair
from tests.support.servers import ServerMissing, Servers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]
SHORT = {"HORAE_CONNECT_TIMEOUT": "2s", "HORAE_HOT_TIMEOUT": "2s", "HORAE_SILENCE_TIMEOUT": "3s"}
SOME_CLIENT = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND query NOT LIKE '%pg_notify%' LIMIT 1"
)
MOST_GAP = 30.0  # seconds from the death to the next acknowledgement; on a quiet machine one


@dataclass
class Producer:
    """Enqueues jobs with keys, each again and again until it is acknowledged, as a careful application would."""

    journey: Journey
    acknowledged_at: list[float] = field(default_factory=list)
    failures: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def working(self) -> Iterator["Producer"]:
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _work(self) -> None:
        number = 0
        while not self._ended.wait(0.01):
            number += 1
            while not self._enqueue(number):
                self._ended.wait(0.05)

    def _enqueue(self, number: int) -> bool:
        try:
            [job] = self.journey.app.enqueue_many([self.journey.brief(number, key=f"producer-{number}")])
        except StoreError:
            self.failures += 1
            return False
        self.journey.acknowledged.append(job.job.number)
        self.acknowledged_at.append(time.monotonic())
        return True

    def until_acknowledged(self, since: float, count: int = 20) -> None:
        wait_until(lambda: sum(at > since for at in self.acknowledged_at) >= count, "acknowledgements", MOST_GAP)

    def gap(self, since: float) -> float:
        """How long after the death the next job was acknowledged."""
        return min(at for at in self.acknowledged_at if at > since) - since


@contextmanager
def replicated(servers: Servers, *, synchronous: bool) -> Iterator[PostgresPair]:
    try:
        pair = PostgresPair(servers, synchronous=synchronous)
    except ServerMissing as missing:
        do_without(missing)
    try:
        yield pair
    finally:
        for server in (pair.primary, pair.standby):
            servers.discard(server)


@pytest.fixture
def journeys(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def set_out(stack: ExitStack, url: str, home: Path) -> Journey:
    return stack.enter_context(contextmanager(setting_out)(url, home))


@pytest.fixture
def pair(servers: Servers) -> Iterator[PostgresPair]:
    """A primary whose commits wait for the standby."""
    with replicated(servers, synchronous=True) as pair:
        yield pair


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def test_a_primary_killed_under_load_loses_and_doubles_nothing_and_nobody_restarts(
    pair: PostgresPair, journeys: ExitStack, tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    journey = set_out(journeys, pair.url, tmp_path)
    server = serve(pair.url)
    client = journeys.enter_context(server.client(server.token("ada")))
    workers = [journey.worker(lease=STEADY, look_every=60.0) for _ in range(2)]
    held = journey.enqueue("gated", gate="open")
    wait_until(lambda: journey.ran("started"))

    with Producer(journey).working() as producer:
        producer.until_acknowledged(0.0)
        pair.primary.kill()
        died = time.monotonic()
        pair.promote()
        producer.until_acknowledged(died)
        gap = producer.gap(died)
    journey.open("open")
    journey.until_done()

    with capsys.disabled():
        print(f"\n[failover] gap {gap:.2f} s, {len(journey.acknowledged)} acknowledged, {producer.failures} repeated")
    assert journey.complaints() == []
    assert [run.outcome for run in journey.runs(held)] == ["succeeded"], "its lease went on at the new primary"
    assert [worker.process.poll() for worker in workers] == [None, None]
    wait_until(lambda: client.get("/readyz").status_code == 200, "the service")
    assert client.get("/scheduled-tasks").status_code == 200


def test_an_old_primary_that_comes_back_is_refused(
    pair: PostgresPair, journeys: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT.items():
        monkeypatch.setenv(name, value)
    journey = set_out(journeys, pair.url, tmp_path)
    journey.enqueue("brief", number=1)
    pair.primary.kill()
    pair.promote()
    wait_until(lambda: _tries(journey, 2))
    pair.primary.start()
    pair.ask(pair.primary, "ALTER SYSTEM RESET synchronous_standby_names")  # it would acknowledge by itself
    pair.ask(pair.primary, "SELECT pg_reload_conf()")

    with build(pair.url) as newcomer:  # which has never heard of the new primary
        newcomer.enqueue("brief", number=3)
    pair.standby.stop()
    wait_until(lambda: not _tries(journey, 4))
    with refused(StoreUnavailable, "database_not_reached", product="PostgreSQL") as refusal:
        journey.enqueue("brief", number=5)
    assert "its timeline is 1, but 2 has begun elsewhere" in str(refusal.value.facts["problem"])

    assert pair.ask(pair.primary, "SELECT count(*) FROM horae_jobs") == [(1,)], "nothing was written to it"
    pair.standby.start()
    journey.enqueue("brief", number=6)
    assert pair.ask(pair.standby, "SELECT count(*) FROM horae_jobs")[0][0] >= 4


def test_a_commit_that_the_standby_has_not_got_is_not_acknowledged(
    pair: PostgresPair, journeys: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT.items():
        monkeypatch.setenv(name, value)
    journey = set_out(journeys, pair.url, tmp_path)
    journey.enqueue("brief", number=1)

    for sender in pair.senders():
        os.kill(sender, signal.SIGSTOP)

    with pytest.raises(StoreUnavailable) as refused:
        journey.enqueue("brief", number=2)
    assert refused.value.outcome_unknown
    pair.primary.kill()
    pair.promote()
    assert wait_until(lambda: _numbers(journey)) == journey.acknowledged


def test_an_asynchronous_failover_loses_what_the_standby_had_not_got_and_goes_on(
    servers: Servers, journeys: ExitStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = journeys.enter_context(replicated(servers, synchronous=False))
    journey = set_out(journeys, pair.url, tmp_path)
    first = [journey.enqueue("brief", number=number) for number in range(5)]
    wait_until(lambda: pair.ask(pair.standby, "SELECT count(*) FROM horae_jobs") == [(5,)])
    for sender in pair.senders():
        os.kill(sender, signal.SIGSTOP)
    journey.enqueue_brief(10)

    pair.primary.kill()
    pair.promote()

    found = wait_until(lambda: _numbers(journey))
    lost = [number for number in journey.acknowledged if number not in found]
    with capsys.disabled():
        print(f"\n[failover] asynchronous: {len(lost)} of {len(journey.acknowledged)} acknowledged jobs were lost")
    assert len(lost) == 10
    assert set(found) == {job.job.number for job in first}
    journey.acknowledged = sorted(found)
    worker = journey.worker()
    journey.enqueue("brief", number=99)
    worker.until("ran", count=6)
    journey.until_done()
    assert journey.complaints() == []


def test_connections_to_a_primary_that_never_died_are_dropped_once_its_successor_was_met(
    servers: Servers, journeys: ExitStack, tmp_path: Path
) -> None:
    """Nobody has fenced it: no promise holds for what is written there, but not for longer than need be."""
    pair = journeys.enter_context(replicated(servers, synchronous=False))
    journey = set_out(journeys, pair.url, tmp_path)
    count = "SELECT count(*) FROM horae_jobs"

    def write_both_ways(number: int) -> bool:
        """On a connection of the hot verbs, and on one of the pool; return whether the new primary was met."""
        _tries(journey, number)
        with suppress(StoreError):
            journey.app.enqueue_many([journey.brief(number, key=f"key-{number}")])
        return bool(pair.ask(pair.standby, count)[0][0] > 2)

    write_both_ways(0)
    pair.promote()
    pair.ask(pair.primary, f"SELECT pg_terminate_backend(({SOME_CLIENT}))")
    wait_until(lambda: write_both_ways(len(journey.acknowledged)))
    before = pair.ask(pair.primary, count)

    for number in range(1000, 1010):
        write_both_ways(number)

    assert pair.ask(pair.primary, count) == before
    assert pair.ask(pair.standby, count)[0][0] >= 20


def test_a_primary_that_never_died_is_refused_by_all_who_reach_its_successor_and_the_doctor_names_it(
    servers: Servers, journeys: ExitStack, tmp_path: Path
) -> None:
    """No connection is lost: only the watch over the other hosts can notice, and whoever starts later asks all."""
    pair = journeys.enter_context(replicated(servers, synchronous=False))
    journey = set_out(journeys, pair.url, tmp_path)
    count = "SELECT count(*) FROM horae_jobs"
    assert _tries(journey, 0)
    pair.promote()

    def has_met_successor() -> bool:
        _tries(journey, len(journey.acknowledged))
        return bool(pair.ask(pair.standby, count)[0][0] > 1)

    wait_until(has_met_successor, "the watch to notice", 60.0)
    before = pair.ask(pair.primary, count)
    for number in range(1000, 1010):
        assert _tries(journey, number)
    late = create_store_engine(pair.url)  # as a process does that starts now; both can be written to
    try:
        with late.connect() as connection:
            [[timeline]] = connection.exec_driver_sql("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
        found = list(primaries(open_store(late), Installation(Settings.read({}), {}, SystemClock())))
    finally:
        late.dispose()
    assert timeline == "00000002"
    assert [each.why.reason for each in found] == ["hosts_old_primary"]
    assert pair.ask(pair.primary, count) == before
    assert pair.ask(pair.standby, count)[0][0] >= 11


def _numbers(journey: Journey) -> list[int]:
    try:
        return sorted(job.number for job in verbs.find(journey.app.world))
    except StoreError:
        return []


def _tries(journey: Journey, number: int) -> bool:
    try:
        journey.enqueue("brief", number=number)
    except StoreError:
        return False
    return True


# -- Galera ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_nodes(servers: Servers) -> Iterator[GaleraCluster]:
    try:
        cluster = GaleraCluster(servers)
    except ServerMissing as missing:
        do_without(missing)
    yield cluster
    for node in cluster.nodes:
        servers.discard(node)


@pytest.fixture
def cluster(three_nodes: GaleraCluster) -> GaleraCluster:
    """The three nodes with an empty database; a node that a test has killed comes back."""
    for node in three_nodes.nodes:
        if not node.is_running:
            node.come_back()
    three_nodes.database = name_in(three_nodes.nodes[0].create_database())
    three_nodes.catch_up()
    return three_nodes


def test_two_writers_of_a_galera_cluster_never_hold_one_job_at_a_time(
    cluster: GaleraCluster, journeys: ExitStack, tmp_path: Path
) -> None:
    journey = set_out(journeys, cluster.url_of(cluster.nodes[0]), tmp_path)
    journey.enqueue_brief(300)
    cluster.catch_up()

    workers = [
        journey.worker(environment={"HORAE_DATABASE_URL": cluster.url_of(node)}, ready=False) for node in cluster.nodes
    ]

    journey.until_done()
    assert journey.complaints() == []
    assert len({(effect.job, effect.token) for effect in journey.ran()}) == len(journey.ran())
    assert [worker.process.poll() for worker in workers] == [None] * 3


def test_a_galera_node_that_answers_but_refuses_to_work_is_left(
    cluster: GaleraCluster, journeys: ExitStack, tmp_path: Path
) -> None:
    """It has lost the majority, and its connections stay open."""
    journey = set_out(journeys, cluster.url, tmp_path)
    journey.enqueue("brief", number=1)
    worker = journey.worker(lease=STEADY)
    worker.until("ran")
    cluster.ask(cluster.nodes[0], "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
    try:
        wait_until(lambda: cluster.status(cluster.nodes[0], "wsrep_ready") == "OFF")
        wait_until(lambda: _tries(journey, 2), within=MOST_GAP)
        worker.until("ran", count=2)
    finally:
        cluster.ask(cluster.nodes[0], "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
        wait_until(lambda: cluster.status(cluster.nodes[0], "wsrep_ready") == "ON")

    assert worker.process.poll() is None
    journey.until_done()
    assert journey.complaints() == []


def test_the_writer_of_a_galera_cluster_is_killed_and_all_go_on_at_the_next(
    cluster: GaleraCluster, journeys: ExitStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journey = set_out(journeys, cluster.url, tmp_path)
    workers = [journey.worker(lease=STEADY) for _ in range(2)]

    with Producer(journey).working() as producer:
        producer.until_acknowledged(0.0)
        cluster.nodes[0].kill()
        died = time.monotonic()
        producer.until_acknowledged(died)
        gap = producer.gap(died)
    journey.until_done()

    with capsys.disabled():
        print(f"\n[failover] Galera: gap {gap:.2f} s, {len(journey.acknowledged)} acknowledged")
    assert journey.complaints() == []
    assert [worker.process.poll() for worker in workers] == [None, None]
