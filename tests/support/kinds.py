"""One server of each kind: how it is prepared, started, stopped, restarted, asked for a database.

Use them through `tests.support.servers.Servers`, which knows where they live and sees to their end.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import psycopg
import pymysql
import redis

from tests.support import programs
from tests.support.ground import Ground
from tests.support.programs import Program, ServerMissing

StopMode = Literal["fast", "immediate"]
START_LIMIT = 60.0  # seconds; a start takes about one, but continuous-integration machines can be slow
STOP_LIMIT = 30.0
HOST = "127.0.0.1"


class ServerFailed(Exception):
    """A server did not start or stop; the message ends with the last lines of its log."""


class Server(ABC):
    """One server process with its own data directory. `start`, `stop` and `restart` keep port and data."""

    program: ClassVar[Program]
    user: ClassVar[str]
    fast_stop: ClassVar[signal.Signals] = signal.SIGTERM
    immediate_stop: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, ground: Ground, home: Path, *, durable: bool = False) -> None:
        self.ground = ground
        self.home = home
        self.durable = durable
        self.binary = programs.find(self.program)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id, for tests that send signals of their own."""
        if self.process is None or not self.is_running:
            raise ServerFailed(f"{self.program.title} is not running")
        return self.process.pid

    @property
    @abstractmethod
    def url(self) -> str:
        """The server itself, in SQLAlchemy form (Redis: in its own form)."""

    @abstractmethod
    def prepare(self) -> None:
        """Fill the data directory of a server that has never run."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """The command line that runs the server in the foreground."""

    @abstractmethod
    def ping(self) -> None:
        """Raise unless the server answers."""

    def start(self) -> Self:
        """Start the server and return when it answers; the port is chosen once and kept."""
        if self.is_running:
            return self
        if not self.home.exists():
            self.ground.make_directory(self.home, self.user)
            self.prepare()
        if self.port:
            self._launch()
            return self
        for attempt in range(3):  # another process may take the port between our look and the server's
            self.port = free_port()
            try:
                self._launch()
                break
            except ServerFailed:
                if attempt == 2:
                    raise
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server: `fast` in good order, `immediate` as a crash would, without a word to its clients."""
        if self.process is None:
            return
        self.process.send_signal(self.fast_stop if mode == "fast" else self.immediate_stop)
        try:
            self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.ground.forget(self.process.pid)
        self.process = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def run(self, *command: str | Path) -> None:
        """Run one of the server's tools as the server's user."""
        with self.log.open("ab") as log:
            done = self.ground.popen(command, self.user, self.home, log).wait()
        if done:
            raise ServerFailed(f"{' '.join(map(str, command))} failed with {done}\n{self._log_tail()}")

    def kill(self) -> None:
        """Kill the server and its children with signal 9, as when its machine loses power."""
        self.kill_tree()
        self.stop("immediate")

    def kill_tree(self) -> None:
        for each in tree_of(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def _launch(self) -> None:
        with self.log.open("ab") as log:
            self.process = self.ground.popen(self.command(), self.user, self.home, log)
        self.ground.watch(self.process.pid)
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                self.ping()
                return
            except Exception as problem:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop("immediate")
                    raise ServerFailed(
                        f"{self.program.title} did not start: {problem}\n{self._log_tail()}"
                    ) from problem
            time.sleep(0.02)

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


class PostgresServer(Server):
    program = programs.POSTGRES
    user = "postgres"
    fast_stop = signal.SIGINT
    immediate_stop = signal.SIGQUIT

    def __init__(self, ground: Ground, home: Path, *, durable: bool = False) -> None:
        super().__init__(ground, home, durable=durable)
        self._released: list[str] = []
        self.settings: dict[str, str] = {}  # beside those of every test; they win

    @property
    def url(self) -> str:
        return self.database_url("postgres")

    def database_url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@{HOST}:{self.port}/{name}"

    def prepare(self) -> None:
        template = self.ground.template(self.user, self._initialise)
        self.run("cp", "-a", template, self.data)

    def _initialise(self, data: Path) -> None:
        locale = (
            ("--locale=C.UTF-8", "--encoding=UTF8") if sys.platform == "linux" else ("--locale=C", "--encoding=UTF8")
        )
        self.run(self.binary.with_name("initdb"), "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", *locale)

    def command(self) -> Sequence[str | Path]:
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if not self.durable:
            settings |= {
                "fsync": "off",
                "synchronous_commit": "off",
                "full_page_writes": "off",
                "max_wal_size": "512MB",
            }
        settings |= self.settings
        options = itertools.chain.from_iterable(("-c", f"{name}={value}") for name, value in settings.items())
        return [self.binary, "-D", self.data, *options]

    def ping(self) -> None:
        self._connect().close()

    def create_database(self) -> str:
        """Return the URL of an empty database, a released one if there is any (creating costs 70 ms, emptying 10)."""
        name = f"horae_{next(self._numbers)}"
        with self._connect() as connection:
            if not (self._released and self._rename(connection, self._released.pop(), name)):
                connection.execute(f'create database "{name}" template template0'.encode())
        return self.database_url(name)

    def copy_database(self, url: str) -> str:
        """Return the URL of a copy of a database to which nobody is connected."""
        name = f"horae_{next(self._numbers)}"
        with self._connect() as connection:
            connection.execute(f'create database "{name}" template "{name_in(url)}"'.encode())
        return self.database_url(name)

    def drop_database(self, url: str) -> None:
        with self._connect() as connection:
            connection.execute(f'drop database "{name_in(url)}" with (force)'.encode())

    def disconnect(self, url: str) -> None:
        """End whatever is still connected to a database."""
        with self._connect() as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name_in(url),)
            )

    def release_database(self, url: str) -> None:
        """Give a database back: whatever is still connected to it is ended, and everything in it is dropped."""
        name = name_in(url)
        self.disconnect(url)
        with self._connect(name) as connection:
            schemas = connection.execute(
                "select nspname from pg_namespace where nspname !~ '^pg_|^information_schema$'"
            )
            for (schema,) in schemas.fetchall():
                connection.execute(f'drop schema "{schema}" cascade'.encode())
            connection.execute("create schema public")
        self._released.append(name)

    def _rename(self, connection: psycopg.Connection[Any], old: str, new: str) -> bool:
        """Rename for each test, so that a process left over from the last one cannot come back into the next."""
        try:
            connection.execute(f'alter database "{old}" rename to "{new}"'.encode())
        except psycopg.errors.ObjectInUse:
            return False
        return True

    def _connect(self, name: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=HOST, port=self.port, user="postgres", dbname=name, autocommit=True, connect_timeout=5
        )


class MariaDBServer(Server):
    program = programs.MARIADB
    user = "mysql"

    @property
    def url(self) -> str:
        return self.database_url("mysql")

    def database_url(self, name: str) -> str:
        return f"mysql+pymysql://root@{HOST}:{self.port}/{name}?charset=utf8mb4"

    def prepare(self) -> None:
        template = self.ground.template(self.user, self._initialise)
        self.run("cp", "-a", template, self.data)

    def _initialise(self, data: Path) -> None:
        tool = shutil.which("mariadb-install-db") or shutil.which("mysql_install_db")
        if tool is None:
            raise ServerMissing(f"mariadb-install-db is missing; {programs.install_command([self.program])}")
        quick = ("--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")
        access = ("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
        self.run(tool, "--no-defaults", f"--datadir={data}", f"--tmpdir={self.home}", *access, *quick)

    def command(self) -> Sequence[str | Path]:
        durability: tuple[str, ...] = ("--innodb-flush-log-at-trx-commit=1",)
        if not self.durable:
            durability = (
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-doublewrite=0",
                "--innodb-flush-method=nosync",
            )
        return [
            self.binary,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.home}",
            f"--socket={self.home / 'socket'}",
            f"--pid-file={self.home / 'pid'}",
            f"--bind-address={HOST}",
            f"--port={self.port}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--performance-schema=off",
            "--max-connections=200",
            "--character-set-server=utf8mb4",
            "--default-time-zone=+00:00",
            "--innodb-buffer-pool-size=128M",
            "--innodb-log-file-size=64M",
            *durability,
        ]

    def ping(self) -> None:
        self._connect().close()

    def create_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"horae_{next(self._numbers)}"
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"create database `{name}`")
        return self.database_url(name)

    def disconnect(self, url: str) -> None:
        """End whatever is still connected to a database."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("select id from information_schema.processlist where db = %s", (name_in(url),))
            for (connection_id,) in cursor.fetchall():
                with contextlib.suppress(pymysql.OperationalError):  # it left by itself
                    cursor.execute(f"kill {int(connection_id)}")

    def drop_database(self, url: str) -> None:
        """Drop a database, ending whatever is still connected to it (an open transaction would block the drop)."""
        self.disconnect(url)
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"drop database if exists `{name_in(url)}`")

    release_database = drop_database

    def _connect(self) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        # without ssl_disabled, PyMySQL reads the machine's certificates for each connection: 35 ms
        return pymysql.connect(
            host=HOST, port=self.port, user="root", autocommit=True, connect_timeout=5, ssl_disabled=True
        )


class RedisServer(Server):
    program = programs.REDIS
    user = "redis"

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def prepare(self) -> None:
        self.ground.make_directory(self.data, self.user)

    def command(self) -> Sequence[str | Path]:
        keeps = ("--appendonly", "yes", "--appendfsync", "always") if self.durable else ("--appendonly", "no")
        return [self.binary, "--bind", HOST, "--port", str(self.port), "--dir", self.data, "--save", "", *keeps]

    def ping(self) -> None:
        with redis.Redis(host=HOST, port=self.port, socket_timeout=5) as client:
            client.ping()

    def empty(self) -> None:
        with redis.Redis(host=HOST, port=self.port) as client:
            client.flushall()


class NatsServer(Server):
    """A NATS server with JetStream."""

    program = programs.NATS
    user = "nobody"
    more: ClassVar[tuple[str, ...]] = ()  # options
    config: ClassVar[str] = ""  # of a file, beside the options

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    def prepare(self) -> None:
        self.ground.make_directory(self.data, self.user)
        shutil.copy(self.binary, self.home / "nats-server")  # the environment may lie where that user cannot look
        (self.home / "nats-server").chmod(0o755)
        (self.home / "nats.conf").write_text(self.config)
        (self.home / "nats.conf").chmod(0o644)

    def command(self) -> Sequence[str | Path]:
        return [
            self.home / "nats-server",
            "-js",
            "-sd",
            self.data,
            "-a",
            HOST,
            "-p",
            str(self.port),
            *self.more,
            "-c",
            self.home / "nats.conf",
        ]

    def ping(self) -> None:
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            if not connection.recv(4).startswith(b"INFO"):
                raise ServerFailed("it does not speak NATS")


def nats_cluster(count: int = 3) -> list[type[NatsServer]]:
    """Return the kinds of NATS servers that make one cluster; start one of each."""
    ports = [free_port() for _ in range(count)]
    routes = ",".join(f"nats://{HOST}:{port}" for port in ports)
    return [
        type(f"NatsNode{port}", (NatsServer,), {"more": (
            "-n", f"node-{port}", "--cluster_name", f"test-{ports[0]}", "--cluster", f"nats://{HOST}:{port}",
            "--routes", routes,
        )})
        for port in ports
    ]  # fmt: skip


def free_port() -> int:
    """Return a port without a listener, below the range of outgoing connections, so that a restart finds it free."""
    for port in random.sample(range(20000, 32000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise ServerFailed("no free port between 20000 and 32000")


def tree_of(pid: int) -> list[int]:
    """Return a process and all that it has started, itself first, so that it cannot start another."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [pid, *(each for child in found.stdout.split() for each in tree_of(int(child)))]


def name_in(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]
