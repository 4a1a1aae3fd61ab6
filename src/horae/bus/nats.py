"""Publish to NATS JetStream; every message waits for the acknowledgement of its stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from horae.core.bus import BusMessage
from horae.errors import BusUnavailable
from horae.runtime.nats import ACKNOWLEDGE, CONNECT, close, connect, encode, load_client
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.bus")
IN_FLIGHT = 100  # messages that wait for their acknowledgement at once
DUPLICATES = timedelta(hours=1)  # within which a stream of ours knows the id of a message again


class NatsPublisher:
    """A connection to NATS that is made when it is needed, and made anew after it broke."""

    def __init__(
        self,
        servers: Sequence[str],
        *,
        stream: str,
        prefix: str,
        replicas: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        load_client()
        self._servers, self._stream, self._prefix = list(servers), stream, prefix
        self._options, self._replicas = dict(options or {}), replicas
        self._client: Any = None
        self._streams: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def publish(self, messages: Sequence[BusMessage]) -> list[int]:
        """Publish messages that may overtake one another; return the numbers of those that were acknowledged."""
        await self._connect()
        acknowledged: list[int] = []
        for start in range(0, len(messages), IN_FLIGHT):
            group = messages[start : start + IN_FLIGHT]
            answers = await asyncio.gather(*map(self._send, group), return_exceptions=True)
            acknowledged += [each.number for each, answer in zip(group, answers, strict=True) if answer is True]
            problems = [answer for answer in answers if isinstance(answer, BaseException)]
            if problems:
                await self.close()
                if not acknowledged:
                    raise BusUnavailable("bus_does_not_answer", problem=error_line(problems[0])) from problems[0]
                break
        return acknowledged

    async def _send(self, message: BusMessage) -> bool:
        headers = dict(message.headers)
        await self._streams.publish(message.subject, encode(message.body), timeout=ACKNOWLEDGE, headers=headers)
        return True

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        if self._client is not None and self._client.is_connected and self._loop is loop:
            return
        await self.close()
        try:
            self._client = await connect(self._servers, self._options, max_reconnect_attempts=2)
            self._streams = self._client.jetstream(timeout=ACKNOWLEDGE)
            self._loop = loop
            async with asyncio.timeout(CONNECT):
                await self._make_stream()
        except BusUnavailable:
            raise
        except Exception as problem:
            await self.close()
            raise BusUnavailable("bus_unreachable", problem=error_line(problem)) from problem

    async def _make_stream(self) -> None:
        """Make the stream where there is none; one that is there is left as it is."""
        from nats.js.errors import NotFoundError

        try:
            await self._streams.stream_info(self._stream)
        except NotFoundError:
            await self._streams.add_stream(
                name=self._stream,
                subjects=[f"{self._prefix}.>"],
                num_replicas=self._replicas,
                duplicate_window=DUPLICATES.total_seconds(),
            )
            log.info("made the stream %s for the subjects %s.>", self._stream, self._prefix)

    async def close(self) -> None:
        """End the connection; entries that were not acknowledged stay in the outbox."""
        client, self._client = self._client, None
        await close(client)
