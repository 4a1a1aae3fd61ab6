"""A connection to NATS with JetStream that outlives its servers: made once, mended by itself, every wait bounded."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from horae.errors import BusUnavailable, ContentTooLarge, MissingExtra
from horae.ports.world import Dice
from horae.runtime.loop import Backoff
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.bus")
CONNECT = 5.0  # seconds until a server answers
ACKNOWLEDGE = 5.0  # seconds until a stream acknowledges
ONE_TRY = 2.0  # seconds for one try of a publish that is repeated under the same id
SPARE = 1024  # bytes of a message that headers take


def load_client() -> ModuleType:
    """Import the client of NATS; it comes with an extra."""
    try:
        import nats
    except ImportError as problem:
        raise MissingExtra("nats_extra_missing", problem=str(problem)) from problem
    return nats


async def connect(servers: Sequence[str], options: Mapping[str, Any], **own: Any) -> Any:
    """Connect within bounded time; *options* are the caller's and win over ours."""
    usual = {"connect_timeout": CONNECT, "name": "horae", "error_cb": _quietly, **own, **options}
    client = load_client()
    try:
        async with asyncio.timeout(2 * CONNECT):
            return await client.connect(list(servers), **usual)
    except Exception as problem:
        raise BusUnavailable("bus_unreachable", problem=error_line(problem)) from problem


async def close(client: Any) -> None:
    """End a connection, whatever state it is in."""
    if client is not None:
        with suppress(Exception):
            async with asyncio.timeout(CONNECT):
                await client.close()


def encode(message: Any) -> bytes:
    """Return a message as it travels."""
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class LastingConnection:
    """One connection that reconnects by itself for as long as it is wanted."""

    def __init__(
        self, servers: Sequence[str], options: Mapping[str, Any], dice: Dice, reconnected: Callable[[], None]
    ) -> None:
        load_client()
        self._servers, self._options, self._dice = list(servers), dict(options), dice
        self._reconnected = reconnected
        self.client: Any = None
        self.streams: Any = None

    @property
    def is_connected(self) -> bool:
        return self.client is not None and bool(self.client.is_connected)

    async def open(self) -> None:
        """Connect; later breaks mend themselves."""

        async def tell() -> None:
            self._reconnected()

        self.client = await connect(
            self._servers, self._options,
            max_reconnect_attempts=-1, reconnect_time_wait=0.2, ping_interval=5, max_outstanding_pings=2,
            reconnected_cb=tell,
        )  # fmt: skip
        self.streams = self.client.jetstream(timeout=ACKNOWLEDGE)

    async def close(self) -> None:
        client, self.client = self.client, None
        await close(client)

    async def hint(self, subject: str, message: Any) -> None:
        """Send what may get lost: to whom it may concern, kept by no stream."""
        with suppress(Exception):
            await self.client.publish(subject, encode(message))

    async def publish(self, subject: str, message: Any, *, message_id: str, within: float) -> None:
        """Store a message in its stream; repeat it under its id, which the stream knows again, until it is known to be.

        ``BusUnavailable`` when that took longer than *within* seconds: it may be stored or not.
        """
        body, backoff = encode(message), Backoff(self._dice, cap=1.0)
        most = 0 if self.client is None else int(self.client.max_payload)
        if most and len(body) > most - SPARE:
            raise ContentTooLarge("bus_message_too_large", size=len(body), most=most)
        last: Exception | None = None
        try:
            async with asyncio.timeout(within):
                while True:
                    try:
                        headers = {"Nats-Msg-Id": message_id}
                        await self.streams.publish(subject, body, timeout=min(ONE_TRY, within), headers=headers)
                        return
                    except Exception as problem:  # no leader, no answer, no connection: all of them pass
                        last = problem
                    await backoff.pause()
        except TimeoutError:
            shown = "no acknowledgement" if last is None else error_line(last)
            raise BusUnavailable("bus_unreachable", problem=shown) from last


async def _quietly(problem: Exception) -> None:
    log.debug("the connection to NATS: %s", problem)
