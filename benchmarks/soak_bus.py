"""``make soak ARGS=--bus``: load over three NATS servers while parts of it are killed; what was lost?"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from horae import Horae
from horae.stores.schema import migrate
from tests.bus.soaking import BusSoak
from tests.support.kinds import nats_cluster
from tests.support.servers import MariaDBServer, PostgresServer, Servers

SERVERS: dict[str, type[PostgresServer | MariaDBServer]] = {"postgres": PostgresServer, "mariadb": MariaDBServer}


def soak_bus(database: str, minutes: float, rate: float, every: tuple[float, float]) -> int:
    """Break something every now and then, and print how long it took until a new job was done; 1 if one was lost."""
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        server = servers.own(SERVERS[database], durable=True) if database in SERVERS else None
        url = server.create_database() if server else f"sqlite:///{Path(folder) / 'soak.db'}"
        with Horae(url) as app:
            migrate(app.engine)
        nodes = [servers.own(kind, durable=True) for kind in nats_cluster()]
        soak = BusSoak(url, nodes, Path(folder), rate=rate)
        try:
            soak.start()
            print(f"{soak.time_to_go_on():6.1f} s until the first job was done", flush=True)
            ends = time.monotonic() + minutes * 60
            while time.monotonic() < ends:
                time.sleep(random.uniform(*every))
                what = random.choice(["leader killed", "relay killed", "worker killed", "worker ended"])
                print(f"{_break(soak, what):6.1f} s until a new job was done: {what}", flush=True)
            found = soak.finish()
        finally:
            soak.close()
    lost = found["jobs"] - found["states"].get("succeeded", 0)
    missing, doubled = found["without effect"], found["doubled"]
    print(f"\n{found}\n{lost} lost, {missing} without effect, {doubled} doubled effects")
    return 1 if lost or doubled or missing else 0


def _break(soak: BusSoak, what: str) -> float:
    if what == "leader killed":
        leader, seconds = soak.kill_leader()
        leader.start()
        return seconds
    if what == "relay killed":
        soak.kill(soak.acting_relay(), soak.relay)
    elif what == "worker killed":
        soak.kill(random.choice(soak.workers), soak.worker)
    else:
        soak.end_worker()
    return soak.time_to_go_on()
