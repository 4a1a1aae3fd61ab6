"""Private, throw-away PostgreSQL, MariaDB and Redis servers for tests and benchmarks.

Each server has its own data directory in a temporary place, listens on loopback only, on a free port, without
passwords, and runs as an unprivileged user when we are root (they refuse root). Everything ends with the process that
started it, however that ends: `Servers.close`, `atexit`, and for `kill -9` a watchdog. Nothing else is touched.

    with Servers() as servers:
        url = servers.postgres.create_database()            # started on first use, shared
        mine = servers.own(PostgresServer, durable=True)    # a server to restart or kill, not shared
        mine.restart(mode="immediate")

`python -m tests.support.servers` runs all three in the foreground and prints their URLs as JSON; `--install` only makes
sure that the programs are there.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Self, TypeVar

from tests.support import programs
from tests.support.ground import Ground
from tests.support.kinds import MariaDBServer, NatsServer, PostgresServer, RedisServer, Server, ServerFailed, StopMode
from tests.support.programs import ServerMissing

__all__ = [
    "MariaDBServer",
    "NatsServer",
    "PostgresServer",
    "RedisServer",
    "Server",
    "ServerFailed",
    "ServerMissing",
    "Servers",
    "StopMode",
    "in_ci",
]

S = TypeVar("S", bound=Server)


class Servers:
    """The servers of one process: shared ones started on first use, and as many owned ones as a test asks for.

    With *in_memory*, those that are not durable keep their files in memory, where there is enough of it.
    """

    def __init__(self, *, in_memory: bool = False) -> None:
        self.ground = Ground(at_exit=self.close, in_memory=in_memory)
        self._all: list[Server] = []
        self._numbers = itertools.count(1)

    @cached_property
    def postgres(self) -> PostgresServer:
        return self.own(PostgresServer)

    @cached_property
    def mariadb(self) -> MariaDBServer:
        return self.own(MariaDBServer)

    @cached_property
    def redis(self) -> RedisServer:
        return self.own(RedisServer)

    @cached_property
    def nats(self) -> NatsServer:
        return self.own(NatsServer)

    def own(self, kind: type[S], *, durable: bool = False) -> S:
        """Return a running server that no other test uses. `durable` turns fsync on, as benchmarks need it."""
        server = self.make(kind, durable=durable)
        server.start()
        return server

    def make(self, kind: type[S], *, durable: bool = False) -> S:
        """Return a server that the caller starts, after setting it up."""
        folder = self.ground.home if durable else self.ground.memory
        server = kind(self.ground, folder / f"{kind.user}-{next(self._numbers)}", durable=durable)
        self._all.append(server)
        return server

    def discard(self, server: Server) -> None:
        """Stop one owned server and remove its data."""
        server.stop("immediate")
        shutil.rmtree(server.home, ignore_errors=True)
        self._all.remove(server)

    def close(self) -> None:
        """Stop everything and remove the data. Safe to call twice."""
        for server in self._all:
            server.stop("immediate")
        self._all.clear()
        self.ground.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def install() -> int:
    """Make sure the programs are there; the exit code is a failure only where skipping is not allowed."""
    absent = programs.install_missing()
    if not absent:
        return 0
    titles = ", ".join(program.title for program in absent)
    print(f"Not installed: {titles}. Tests that need them will be {'refused' if in_ci() else 'skipped'}.")
    print(f"To run them, install the programs first: {programs.install_command(absent)}", flush=True)
    return 1 if in_ci() else 0


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.servers", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--install", action="store_true", help="only install what is missing, where that is allowed")
    parser.add_argument("--durable", action="store_true", help="run with fsync on, as benchmarks need it")
    options = parser.parse_args(arguments)
    if options.install:
        return install()
    with Servers() as servers:
        postgres = servers.own(PostgresServer, durable=options.durable)
        mariadb = servers.own(MariaDBServer, durable=options.durable)
        urls = {
            "postgres": postgres.create_database(),
            "mysql": mariadb.create_database(),
            "redis": servers.own(RedisServer, durable=options.durable).url,
        }
        print(json.dumps(urls), flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
