"""Connections to MariaDB with a timeout for every read and write, adjustable per use."""

from __future__ import annotations

import socket
from contextlib import suppress
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CR
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection

from horae.core.timeouts import Timeouts, client_limit
from horae.errors import ConfigurationError
from horae.stores.databases.hosts import Host, Hosts, Standing, split_hosts

DEFAULT = 3306  # port
MOST_TEXT = 1_048_576  # bytes of a text that is put together; the default of MariaDB, but not everywhere
UNABLE = {1047, 1290, 1836}  # a node without its cluster, a server that was made read-only
# A node of a Galera cluster that has lost the majority, still catches up or was told to, refuses to work.
STANDING = (
    "SELECT @@global.read_only = 0 AND (SELECT COUNT(*) FROM information_schema.global_variables WHERE "
    "(variable_name = 'WSREP_ON' AND variable_value = 'ON' AND EXISTS (SELECT 1 FROM information_schema.global_status "
    "WHERE variable_name = 'WSREP_READY' AND variable_value <> 'ON')) OR "
    "(variable_name = 'WSREP_REJECT_QUERIES' AND variable_value <> 'NONE')) = 0"
)

if TYPE_CHECKING:
    _Connection = pymysql.connections.Connection[Any]
else:
    _Connection = pymysql.connections.Connection


class BoundedConnection(_Connection):
    """A connection whose reads and writes each time out after ``limit`` seconds; None waits without limit."""

    hosts: Hosts[BoundedConnection] | None = None
    search = 0

    def query(self, sql: Any, unbuffered: bool = False) -> Any:
        """Send a statement; leave a server that answers but may not be written to any more."""
        try:
            return super().query(sql, unbuffered)
        except pymysql.MySQLError as problem:
            if self.hosts is not None and problem.args and problem.args[0] in UNABLE:
                self._force_close()
            raise

    def close(self) -> None:
        self.hosts = None
        super().close()

    def _force_close(self) -> None:
        """Close without a word, as PyMySQL does with a lost connection: the next one asks all hosts again."""
        if self.hosts is not None:
            self.hosts.forget(self.search)
        super()._force_close()  # type: ignore[misc]

    @property
    def limit(self) -> float | None:
        return self._read_timeout

    @limit.setter
    def limit(self, seconds: float | None) -> None:
        self._read_timeout = self._write_timeout = seconds  # PyMySQL applies both at every read and write

    def _create_ssl_ctx(self, sslp: dict[str, Any]) -> SSLContext:
        """Where no option asks for TLS, encrypt if the server can and verify nothing, as PyMySQL does.

        It would read all certificates of the machine nevertheless: 27 ms of processor time for each connection.
        """
        if sslp:
            return super()._create_ssl_ctx(sslp)  # type: ignore[misc, no-any-return]
        unverified = SSLContext(PROTOCOL_TLS_CLIENT)
        unverified.check_hostname = False
        unverified.verify_mode = CERT_NONE
        return unverified

    def keep_alive(self, silence: float) -> None:
        """Tune TCP keepalive, so that a vanished host is noticed also during a statement without a limit."""
        third = max(1, round(silence / 3))
        options = {"TCP_KEEPIDLE": third, "TCP_KEEPINTVL": third, "TCP_KEEPCNT": 2}
        options["TCP_USER_TIMEOUT"] = round(silence * 1000)
        own: socket.socket = vars(self)["_sock"]
        for name, value in options.items():
            with suppress(OSError, AttributeError):  # a socket of another family, a system without it
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def create_mysql_engine(url: str, timeouts: Timeouts) -> Engine:
    """Make an engine with timeouts on client and server; options in the URL win.

    Where the URL names several hosts, connections lead to the first that can be written to.
    """
    parsed, listed = take_hosts(make_url(url))
    limits = {"connect_timeout": max(1, round(timeouts.connect.total_seconds())), "init_command": _session(timeouts)}
    engine = create_engine(
        parsed,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_recycle=1800,
        max_overflow=20,
        pool_timeout=timeouts.hot.total_seconds(),
        connect_args={name: value for name, value in limits.items() if name not in parsed.query},
    )
    ping, statement = timeouts.ping.total_seconds(), client_limit(timeouts.statement)
    login = timeouts.connect.total_seconds()

    def connect_to(arguments: Any, parameters: Any) -> BoundedConnection:
        made = BoundedConnection(*arguments, **{"read_timeout": login, "write_timeout": login, **parameters})
        made.keep_alive(timeouts.silence.total_seconds())
        return made

    hosts: list[Hosts[BoundedConnection]] = []

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> DBAPIConnection:
        if len(listed) < 2:
            return connect_to(arguments, parameters)  # type: ignore[return-value]

        def ask(host: Host) -> tuple[BoundedConnection, Standing]:
            made = connect_to(arguments, {**parameters, **host})
            try:
                standing = Standing(_can_write(made))
            except BaseException:
                made.close()
                raise
            made.hosts, made.search = hosts[0], hosts[0].searches
            return made, standing

        if not hosts:
            hosts.append(Hosts(listed, ask, _refuse, login))
        return hosts[0].connect()  # type: ignore[return-value]

    @event.listens_for(engine, "checkin")
    def rest(connection: Any, _: Any) -> None:
        """Use the short timeout of the liveness check while the connection is idle in the pool."""
        if connection is not None:
            connection.limit = ping

    @event.listens_for(engine, "checkout")
    def work(connection: Any, *_: Any) -> None:
        connection.limit = statement

    return engine


def take_hosts(parsed: URL) -> tuple[URL, tuple[Host, ...]]:
    """Return a URL that names one host, as PyMySQL wants it, and all hosts that were named."""
    given = ",".join(parsed.normalized_query.get("host", ()))
    if not given:
        return parsed, ()
    places = [place.partition(":") if place.count(":") == 1 else (place, "", "") for place in given.split(",")]
    ports = parsed.normalized_query.get("port") or [",".join(port for *_, port in places)]
    listed = split_hosts({"host": ",".join(name for name, *_ in places), "port": ",".join(ports)})
    if len(listed) != len(places):
        raise ConfigurationError("database_url_unreadable")
    hosts = tuple({"host": each["host"], "port": int(each.get("port") or parsed.port or DEFAULT)} for each in listed)
    return parsed.set(**hosts[0]).difference_update_query(["host", "port"]), hosts


def _can_write(connection: BoundedConnection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(STANDING)
        [(able,)] = cursor.fetchall()
    return bool(able)


def _refuse(why: str) -> Exception:
    return pymysql.OperationalError(CR.CR_CONN_HOST_ERROR, why)


def _session(timeouts: Timeouts) -> str:
    """Return server-side timeouts: lock waits everywhere; statements and idle transactions on MariaDB.

    Texts that are put together must not be cut, however the server is set.
    """
    lock = max(1, round(timeouts.lock.total_seconds()))
    idle = max(1, round(timeouts.idle.total_seconds()))
    statement = timeouts.statement.total_seconds()
    return (
        f"SET SESSION innodb_lock_wait_timeout = {lock}, SESSION group_concat_max_len = {MOST_TEXT}"
        f"/*M!100300 , SESSION idle_transaction_timeout = {idle}, SESSION max_statement_time = {statement:g} */"
    )
