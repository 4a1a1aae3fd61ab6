"""Metrics at a port of their own, for a process without the service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import timedelta
from typing import Any

from horae.errors import ConfigurationError
from horae.server.http_server import HttpServer, run
from horae.server.socket import listen
from horae.service.prometheus import MEDIA, MetricsReader, expose

GRACE = timedelta(seconds=1)
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def serve(read: MetricsReader, *, host: str, port: int) -> Callable[[], None]:
    """Serve scrapes in a thread, with the limits that the service has for heads of requests; return what ends it."""
    try:
        listening = listen(host, port)
    except ConfigurationError as problem:
        why = str(problem.facts.get("problem"))
        raise ConfigurationError("metrics_port_taken", host=host, port=port, problem=why) from None

    async def answer(_scope: MutableMapping[str, Any], _receive: object, send: Send) -> None:
        body = await asyncio.to_thread(expose, read)
        headers = [(b"content-type", MEDIA.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    server = HttpServer(answer, listening, grace=GRACE, lifespan="off")
    thread = threading.Thread(target=lambda: run(server.run_until_stopped()), name="horae-metrics", daemon=True)
    thread.start()

    def close() -> None:
        server.stop()
        thread.join()
        listening.close()

    return close
