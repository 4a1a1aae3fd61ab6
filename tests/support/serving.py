"""A running server: the service over a database, on a free port of this machine, in a thread.

    with serving("sqlite:////tmp/horae.db") as served:
        token = served.token("alice", "tasks", "worker")
        httpx.get(f"{served.url}/scheduler/jobs", headers={"Authorization": f"Bearer {token}"})

What crosses the wire is real: sockets, headers, disconnects. Time is real too.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fastapi import FastAPI

from horae import Horae
from horae.actions.access.tokens import create_token
from horae.ports.world import World
from horae.server.process import ServiceServer
from horae.server.socket import listen, url_of
from horae.service.asgi import build
from horae.service.options import Options
from horae.stores.schema import migrate

SOON = 30.0  # seconds: a start that takes longer has failed


@dataclass(frozen=True)
class Served:
    """Where it listens, and the world behind it."""

    url: str
    world: World
    server: ServiceServer

    def token(self, owner: str, *scopes: str, queues: tuple[str, ...] = (), agent: str | None = None) -> str:
        may = scopes or ("tasks", "worker")
        return create_token(self.world, owner=owner, scopes=may, queues=queues, agent=agent)[1]


@contextmanager
def serving(database_url: str, options: Options | None = None, **further: Any) -> Iterator[Served]:
    """Serve until the block ends; the tables are made first."""
    with Horae(database_url) as app:
        migrate(app.engine)
        service = build(lambda: app.world, options or Options(version="test"))
        with answering(service, **further) as server:
            yield Served(server.url, app.world, server)


class Answering(ServiceServer):
    """A server that knows its address."""

    url = ""


@contextmanager
def answering(service: FastAPI, **further: Any) -> Iterator[Answering]:
    """Serve an application until the block ends."""
    listening, listens = listen("127.0.0.1", 0), threading.Event()
    server = Answering(service, listening, grace=timedelta(seconds=5), started=listens.set, **further)
    server.url = url_of(listening)
    thread = threading.Thread(target=lambda: asyncio.run(server.run_until_stopped()), name="serving", daemon=True)
    thread.start()
    try:
        assert listens.wait(SOON), "the server did not start; its log says why"
        yield server
    finally:
        server.stop()
        thread.join(SOON)
        listening.close()
