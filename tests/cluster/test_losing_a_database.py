"""One database of a cluster is away, at the start or under load: the others go on, and nothing of it is lost."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from horae import Horae
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.clock import SystemClock
from horae.errors import HoraeError
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.test_walk import Shop
from tests.support.servers import PostgresServer, Servers
from tests.support.waiting import wait_until

SOON = 60.0  # seconds until a database that is back is served: the look every 15, and a slow machine
PATIENCE = 100.0


@pytest.fixture
def hosts(servers: Servers) -> Iterator[list[PostgresServer]]:
    made = [servers.own(PostgresServer, durable=True) for _ in range(2)]
    yield made
    for each in made:
        if each.is_running:
            each.stop("immediate")


class Load:
    """Enqueues for ever new owners, and remembers which were acknowledged."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: dict[str, int] = {}
        self.ids: list[str] = []
        self.refused = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        index = 0
        while not self._ends.wait(0.02):
            index += 1
            try:
                self.send(f"owner-{index}")
            except HoraeError:
                self.refused += 1

    def send(self, owner: str) -> None:
        self.ids.append(jobs.enqueue(self.world, Request("mail", {"to": owner}, owner=owner)).id)
        self.acknowledged[owner] = self.database_of(owner)

    def database_of(self, owner: str) -> int:
        assert self.world.cluster is not None
        shard_map = self.world.cluster.shard_map
        return shard_map.database_of(shard_map.vshard_of(owner=owner))

    def of(self, number: int) -> set[str]:
        return {owner for owner, kept in list(self.acknowledged.items()) if kept == number}


def findings(shop: Shop) -> list[str]:
    command = [sys.executable, "-m", "horae", "doctor", "--json"]
    ended = subprocess.run(command, cwd=shop.folder, env=shop.environment, capture_output=True, text=True, check=False)
    return [each["text"] for each in json.loads(ended.stdout)["doctor"]["checks"] if each["level"] == "problem"]


def is_served(shop: Shop) -> bool:
    return not any("No live worker serves" in each for each in findings(shop))


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(400)
@pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)
def test_a_database_that_is_away_stops_neither_the_start_nor_the_others_and_none_of_its_jobs_is_lost(
    clusters: Clusters, hosts: list[PostgresServer], tmp_path: Path
) -> None:
    urls = [each.create_database() for each in hosts]
    shop = Shop(tmp_path)
    shop.environment["HORAE_DATABASE_URL"] = urls[0]
    for url in urls:
        shop.run("-m", "horae", "db", "migrate", "--db", url)
    shop.horae("cluster", "init")
    shop.horae("cluster", "add", "second", urls[1])
    load = Load(replace(clusters.open(urls[0]), clock=SystemClock()))
    worker = shop.worker()
    try:  # a first start stores what may run for tenants, in both
        wait_until(lambda: _is_declared(load.world), "the definitions", within=SOON)
    finally:
        _end(worker)
    for index in range(10):
        load.send(f"early-{index}")
    hosts[1].stop("immediate")
    worker = shop.worker(SHOP_TAKES="0.1")  # so that some run whenever a server is killed
    try:
        wait_until(lambda: load.of(1) <= set(shop.sent()), "the jobs of the one that is there", within=SOON)
        assert not load.of(2) & set(shop.sent())
        assert any("second of the cluster cannot be asked" in each for each in findings(shop))
        hosts[1].start()
        wait_until(lambda: load.of(2) <= set(shop.sent()), "the jobs of the one that is back", within=SOON)
        wait_until(lambda: is_served(shop), "the heartbeat of the worker in the one that is back", within=SOON)

        load.start()
        wait_until(lambda: len(load.acknowledged) > 50, "some load")
        hosts[1].stop("immediate")
        before = len(load.of(1))
        wait_until(lambda: load.refused > 3, "a refusal of the one that is away")
        wait_until(lambda: len(load.of(1)) > before + 20, "more jobs in the other")
        there = load.of(1)
        wait_until(lambda: there <= set(shop.sent()), "the other one goes on", within=SOON)
        hosts[1].start()
        known = len(load.of(2))
        wait_until(lambda: len(load.of(2)) > known + 5, "new jobs in the one that is back", within=SOON)
        load.end()
        wait_until(lambda: set(load.acknowledged) <= set(shop.sent()), "every acknowledged job", within=PATIENCE)
    finally:
        load.end()
        _end(worker)
    with Horae(urls[0]) as app:
        ended = {each: [run.outcome for run in app.jobs.runs(each)] for each in load.ids}
    assert {outcomes.count("succeeded") for outcomes in ended.values()} == {1}
    # Whoever ran while its database was away may have lost its lease and run again; nobody else did.
    assert shop.sent().total() <= sum(map(len, ended.values()))


def _is_declared(world: World) -> bool:
    with suppress(HoraeError):
        return all(shard.store.read(lambda tx: tx.definitions.all()) for shard in world.shards())
    return False


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGTERM)
    try:
        worker.wait(60)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait(60)
        raise
