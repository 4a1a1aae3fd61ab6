"""Is it alive, is it ready, which version is it, how is it doing."""

from __future__ import annotations

from typing import Any

from horae.api.operation import GET, Call, Room, S
from horae.client import reading
from horae.client.answers import Ready


class Health(Room[S]):
    """What a monitor asks; nothing but ``metrics`` needs a token."""

    @GET("/healthz")
    def alive(self) -> Call[dict[str, Any]]:
        """Answers when the process does."""
        return Call(read=reading.body)

    @GET("/readyz")
    def ready(self) -> Call[Ready]:
        """Whether the service can do its work: ready, degraded or unready, and what was looked at."""
        return Call(read=reading.one(Ready), accepts=(503,))

    @GET("/version")
    def version(self) -> Call[str]:
        """Which Horae it is, such as ``0.1.0``."""
        return Call(read=lambda answer: str(reading.body(answer)["version"]))

    @GET("/metrics")
    def metrics(self) -> Call[str]:
        """The metrics as Prometheus reads them."""
        return Call(read=reading.text)
