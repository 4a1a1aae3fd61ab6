"""PostgreSQL under pg_auto_failover: a monitor that decides, and two nodes, each with its keeper.

Only the long soak uses it: the monitor takes twenty seconds to believe that a primary is dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.support import programs
from tests.support.kinds import HOST, Server, StopMode
from tests.support.servers import Servers
from tests.support.waiting import wait_until

PATIENCE = 180.0  # seconds until two nodes agree on their roles
SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"


class Supervised(Server):
    """A monitor or a node, with the PostgreSQL server that its keeper runs."""

    program = programs.PG_AUTO_FAILOVER
    user = "postgres"
    monitor: Supervised | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def prepare(self) -> None:
        """Nothing: the keeper makes the data directory."""

    def command(self) -> Sequence[str | Path]:
        if self.data.exists():
            return [self.binary, "run", "--pgdata", self.data]
        tool = programs.find(programs.POSTGRES).with_name("pg_ctl")
        common: list[str | Path] = [
            "--pgctl",
            tool,
            "--pgdata",
            self.data,
            "--pgport",
            str(self.port),
            "--hostname",
            HOST,
        ]
        security = ["--auth", "trust", "--no-ssl", "--run"]
        if self.monitor is None:
            return [self.binary, "create", "monitor", *common, *security]
        place = f"postgresql://autoctl_node@{HOST}:{self.monitor.port}/pg_auto_failover?sslmode=disable"
        return [self.binary, "create", "postgres", *common, "--monitor", place, *security]

    def ping(self) -> None:
        self.ask("SELECT 1")

    def stop(self, mode: StopMode = "fast") -> None:
        """Kill everything: a keeper that ends leaves its server running."""
        if self.process is not None and self.is_running:
            self.kill_tree()
        super().stop("immediate")

    def ask(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(
            host=HOST, port=self.port, user="postgres", dbname=database, autocommit=True, connect_timeout=5
        ) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


@dataclass
class AutoFailover:
    """A monitor and two nodes; with its defaults a commit waits for the standby."""

    servers: Servers
    monitor: Supervised = field(init=False)
    nodes: list[Supervised] = field(default_factory=list)
    database: str = "horae"

    def __post_init__(self) -> None:
        self.monitor = self.servers.own(Supervised, durable=True)
        for _ in range(2):
            node = self.servers.make(Supervised, durable=True)
            node.monitor = self.monitor
            self.nodes.append(node)
            node.start()
        self.until_synchronous()
        self.primary().ask(f"CREATE DATABASE {self.database}")

    @property
    def url(self) -> str:
        hosts = ",".join(f"{HOST}:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/{self.database}?target_session_attrs=read-write"

    def primary(self) -> Supervised:
        able = [node for node in self.nodes if node.is_running and not node.ask("SELECT pg_is_in_recovery()")[0][0]]
        assert len(able) == 1, f"{len(able)} nodes can be written to"
        return able[0]

    def until_synchronous(self) -> None:
        """Wait until one node follows the other, and the other waits for it."""
        wait_until(self._is_synchronous, "two nodes that agree", PATIENCE, every=0.2)

    def _is_synchronous(self) -> bool:
        try:
            return any(node.ask(SYNCHRONOUS) for node in self.nodes)
        except psycopg.Error:
            return False
