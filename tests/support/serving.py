"""A running server: the service over a database, on a free port of this machine, in a thread.

    with serving("sqlite:////tmp/horae.db") as served:
        token = served.token("alice", "tasks", "worker")
        httpx.get(f"{served.url}/scheduler/jobs", headers={"Authorization": f"Bearer {token}"})

What crosses the wire is real: sockets, headers, disconnects. Time is real too.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from horae import Horae
from horae.actions.tokens import create_token
from horae.ports import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.service.waiting import room_of
from horae.stores.schema import migrate

SOON = 30.0  # seconds: a start that takes longer has failed


@dataclass(frozen=True)
class Served:
    """Where it listens, and the world behind it."""

    url: str
    world: World
    server: uvicorn.Server

    def token(self, owner: str, *scopes: str, queues: tuple[str, ...] = ()) -> str:
        return create_token(self.world, owner=owner, scopes=scopes or ("tasks", "worker"), queues=queues)[1]


class _Server(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def shutdown(self, sockets: object = None) -> None:
        room_of(self.config.app).close()  # type: ignore[arg-type]
        await super().shutdown(sockets)  # type: ignore[arg-type]

    async def startup(self, sockets: object = None) -> None:
        await super().startup(sockets)  # type: ignore[arg-type]
        self.listens.set()


@contextmanager
def serving(database_url: str, options: Options | None = None) -> Iterator[Served]:
    """Serve until the block ends; the tables are made first."""
    with Horae(database_url) as app:
        migrate(app.engine)
        config = uvicorn.Config(
            build(lambda: app.world, options or Options(version="test")),
            host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=5,
        )  # fmt: skip
        server = _Server(config)
        thread = threading.Thread(target=server.run, name="serving", daemon=True)
        thread.start()
        try:
            assert server.listens.wait(SOON), "the server did not start; its log says why"
            port = server.servers[0].sockets[0].getsockname()[1]
            yield Served(f"http://127.0.0.1:{port}", app.world, server)
        finally:
            server.should_exit = True
            thread.join(SOON)
