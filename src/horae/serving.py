"""uvicorn as every process of ours runs it: quiet, over a socket that listens already, and stopped by its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    import socket


class HttpServer(uvicorn.Server):
    """Serves one application; the signals are left to whoever runs it."""

    def __init__(
        self,
        app: Callable[..., Any],
        listening: socket.socket,
        *,
        grace: timedelta,
        proxies: tuple[str, ...] = (),
        **further: Any,
    ) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=max(1, round(grace.total_seconds())),
            **further,
        )
        super().__init__(config)
        self._listening = listening

    async def run_until_stopped(self) -> None:
        await self.serve([self._listening])

    def stop(self) -> None:
        """Accept nothing more, finish what is being answered, up to the grace."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
