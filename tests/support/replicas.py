"""Databases on several servers: a PostgreSQL primary with a standby, and a Galera cluster of MariaDB.

pair = PostgresPair(servers, synchronous=True)
pair.primary.kill()
pair.promote()              # the standby becomes the primary; `pair.url` names both hosts
pair.primary.start()        # and here is the old one again, able to write
"""

from __future__ import annotations

import re
import shutil
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
        copy_of(self.primary, self)


def copy_of(primary: PostgresServer, follower: PostgresServer) -> None:
    """Fill the data directory of a server with a copy of a primary that it will follow."""
    source = f"host={HOST} port={primary.port} user=postgres"
    tool = follower.binary.with_name("pg_basebackup")
    follower.run(tool, "-D", follower.data, "-d", source, "-R", "-c", "fast", "-X", "stream")


@dataclass
class PostgresPair:
    """A primary and a standby; with *synchronous* a commit is acknowledged when both have it."""

    servers: Servers
    synchronous: bool = True
    durable: bool = False
    primary: PostgresServer = field(init=False)
    standby: PostgresServer = field(init=False)
    hosts: str = ""
    database: str = ""

    def __post_init__(self) -> None:
        self.primary = self.servers.make(PostgresServer, durable=self.durable)
        self.primary.settings["synchronous_commit"] = "on"
        self.primary.start()
        self.database = name_in(self.primary.create_database())
        self.standby = standby = self.servers.make(Standby, durable=self.durable)
        standby.primary = self.primary
        standby.settings["synchronous_commit"] = "on"
        standby.start()
        self.hosts = f"{HOST}:{self.primary.port},{HOST}:{self.standby.port}"
        self._wait_for_standby()

    def _wait_for_standby(self) -> None:
        if self.synchronous:  # in a file of its own, made after the copy: once promoted, the standby waits for no one
            self.ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.ask(self.primary, "SELECT pg_reload_conf()")
        state = "sync" if self.synchronous else "async"
        find = f"SELECT 1 FROM pg_stat_replication WHERE sync_state = '{state}' AND state = 'streaming'"
        wait_until(lambda: self.ask(self.primary, find), "replication")

    @property
    def url(self) -> str:
        """Both hosts in one URL, always in the same order."""
        return f"postgresql://postgres@{self.hosts}/{self.database}?target_session_attrs=read-write"

    def promote(self) -> None:
        self.standby.run(self.standby.binary.with_name("pg_ctl"), "promote", "-D", self.standby.data, "-w", "-t", "60")

    def rejoin(self) -> None:
        """Let the old primary follow the new one, from a fresh copy; from now on their roles are swapped."""
        self.primary, self.standby = self.standby, self.primary
        self.standby.stop("immediate")
        shutil.rmtree(self.standby.data)
        copy_of(self.primary, self.standby)
        self.standby.start()
        self._wait_for_standby()

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
        self.bus, self.transfer, self.copying = free_port(), free_port(), free_port()
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
            f"--wsrep-sst-receive-address={HOST}:{self.copying}",
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
            node.cluster, node.position = self, f"{self.name}:0"
            self.nodes.append(node)
        self.nodes[0].start()
        for node in self.nodes[1:]:  # one after the other: a node may not join by one that is still joining
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

    def catch_up(self) -> None:
        """Return when every node shows what any of them has committed; by itself a node shows it a moment later."""
        for node in self.nodes:
            self.ask(node, "SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1")

    def status(self, node: GaleraNode, name: str) -> str:
        [(_, value)] = self.ask(node, f"SHOW GLOBAL STATUS LIKE '{name}'")
        return str(value)
