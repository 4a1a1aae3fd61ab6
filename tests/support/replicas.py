"""Databases on several servers: a PostgreSQL primary with a standby, and a Galera cluster of MariaDB.

    pair = PostgresPair(servers, synchronous=True)
    pair.primary.kill()
    pair.promote()              # the standby becomes the primary; `pair.url` names both hosts
    pair.primary.start()        # and here is the old one again, able to write
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from tests.support import programs
from tests.support.ground import Ground
from tests.support.kinds import HOST, MariaDBServer, PostgresServer, ServerFailed, free_port, name_in
from tests.support.servers import Servers
from tests.support.waiting import wait_until


class Standby(PostgresServer):
    """A copy of a primary that follows it. Set ``primary`` before it is started for the first time."""

    primary: PostgresServer

    def prepare(self) -> None:
        source = f"host={HOST} port={self.primary.port} user=postgres"
        self.run(self.binary.with_name("pg_basebackup"), "-D", self.data, "-d", source, "-R", "-c", "fast", "-X", "stream")

    def promote(self) -> None:
        self.run(self.binary.with_name("pg_ctl"), "promote", "-D", self.data, "-w", "-t", "60")


@dataclass
class PostgresPair:
    """A primary and a standby; with *synchronous* a commit is acknowledged when both have it."""

    servers: Servers
    synchronous: bool = True
    durable: bool = False
    primary: PostgresServer = field(init=False)
    standby: Standby = field(init=False)
    database: str = ""

    def __post_init__(self) -> None:
        self.primary = self.servers.make(PostgresServer, durable=self.durable)
        self.primary.settings["synchronous_commit"] = "on"
        self.primary.start()
        self.database = name_in(self.primary.create_database())
        self.standby = self.follow(self.primary)
        if self.synchronous:  # in its own file, so that the standby, once promoted, waits for no one
            self.ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.ask(self.primary, "SELECT pg_reload_conf()")
        state = "sync" if self.synchronous else "async"
        find = f"SELECT 1 FROM pg_stat_replication WHERE sync_state = '{state}' AND state = 'streaming'"
        wait_until(lambda: self.ask(self.primary, find), "replication")

    def follow(self, primary: PostgresServer) -> Standby:
        standby = self.servers.make(Standby, durable=self.durable)
        standby.primary = primary
        standby.settings["synchronous_commit"] = "on"
        standby.start()
        return standby

    @property
    def url(self) -> str:
        """Both hosts in one URL, the first primary first."""
        hosts = ",".join(f"{HOST}:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/{self.database}?target_session_attrs=read-write"

    def url_of(self, server: PostgresServer) -> str:
        return server.database_url(self.database)

    def promote(self) -> None:
        self.standby.promote()

    def senders(self) -> list[int]:
        """Return the processes of the primary that send to the standby; a stopped one lets the standby fall behind."""
        return [row[0] for row in self.ask(self.primary, "SELECT pid FROM pg_stat_replication")]

    def ask(self, server: PostgresServer, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(
            host=HOST, port=server.port, user="postgres", dbname=self.database, autocommit=True
        ) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


class GaleraNode(MariaDBServer):
    """One node of a cluster. All begin with the same data, so that none has to copy another's."""

    def __init__(self, ground: Ground, home: Path, *, durable: bool = False) -> None:
        super().__init__(ground, home, durable=durable)
        self.library = programs.find(programs.GALERA)
        self.bus, self.transfer = free_port(), free_port()
        self.cluster: GaleraCluster
        self.position = ""

    def prepare(self) -> None:
        super().prepare()
        state = self.data / "grastate.dat"
        state.write_text(f"version: 2.1\nuuid: {self.cluster.name}\nseqno: 0\nsafe_to_bootstrap: 1\n")
        state.chmod(0o666)

    def command(self) -> Sequence[str | Path]:
        options = {
            "base_host": HOST,
            "base_port": self.bus,
            "gmcast.listen_addr": f"tcp://{HOST}:{self.bus}",
            "ist.recv_addr": f"{HOST}:{self.transfer}",
            "gcache.size": "64M",
            "evs.keepalive_period": "PT0.5S",
            "evs.inactive_check_period": "PT0.3S",
            "evs.suspect_timeout": "PT2S",
            "evs.inactive_timeout": "PT4S",
        }
        others = [f"{HOST}:{node.bus}" for node in self.cluster.nodes if node is not self and node.is_running]
        return [
            *super().command(),
            "--wsrep-on=ON",
            f"--wsrep-provider={self.library}",
            f"--wsrep-provider-options={';'.join(f'{name}={value}' for name, value in options.items())}",
            "--wsrep-cluster-name=horae",
            f"--wsrep-cluster-address=gcomm://{','.join(others)}",
            f"--wsrep-node-address={HOST}:{self.bus}",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            *([f"--wsrep-start-position={self.position}"] if self.position else []),
        ]

    def ping(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
            found = cursor.fetchone()
            if not found or found[1] != "ON":
                raise ServerFailed(f"the node is not ready: {found}")

    def come_back(self) -> None:
        """Start a node that was killed; it finds out how far it had come, and is sent what it missed."""
        with self.log.open("ab") as log:
            self.ground.popen([*self.command(), "--wsrep-recover"], self.user, self.home, log).wait()
        found = re.findall(r"Recovered position: (\S+)", self.log.read_text(errors="replace"))
        self.position = found[-1]
        self.start()


@dataclass
class GaleraCluster:
    """Several nodes, each of which may be written to."""

    servers: Servers
    size: int = 3
    durable: bool = False
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    nodes: list[GaleraNode] = field(default_factory=list)
    database: str = ""

    def __post_init__(self) -> None:
        for _ in range(self.size):
            node = self.servers.make(GaleraNode, durable=self.durable)
            node.cluster = self
            self.nodes.append(node)
            node.start()
        self.database = name_in(self.nodes[0].create_database())

    @property
    def url(self) -> str:
        """All nodes in one URL."""
        hosts = ",".join(f"{HOST}:{node.port}" for node in self.nodes)
        return f"mysql://root@{hosts}/{self.database}?charset=utf8mb4"

    def url_of(self, node: GaleraNode) -> str:
        return node.database_url(self.database)

    def ask(self, node: GaleraNode, sql: str) -> list[tuple[Any, ...]]:
        connection = pymysql.connect(
            host=HOST, port=node.port, user="root", database=self.database, autocommit=True, ssl_disabled=True
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def status(self, node: GaleraNode, name: str) -> str:
        [(_, value)] = self.ask(node, f"SHOW GLOBAL STATUS LIKE '{name}'")
        return str(value)
