"""Health checks for monitors."""

from __future__ import annotations

from typing import Any, Literal

from horae.actions.health import checkup
from horae.api.operation import GET, Answer, Call, Room, S
from horae.api.values import Unreadable
from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at: ``seconds`` is how far this host's clock is behind the database's, ``count`` how
    many workers were seen lately.
    """

    __pydantic_config__ = PYDANTIC

    name: Literal["store", "migrations", "clock", "workers"]
    status: Literal["ok", "warning", "failed", "unknown"]
    detail: str
    seconds: float | None = None
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Whether the service can work, and the checks that were made."""

    __pydantic_config__ = PYDANTIC

    status: Literal["ready", "degraded", "unready"]
    checks: tuple[Check, ...]


class Health(Room[S]):
    """Health checks; nothing but ``metrics`` needs a token. In this process only ``ready`` has an answer."""

    @GET("/healthz")
    def alive(self) -> Call[dict[str, Any]]:
        """Return as soon as the process answers."""
        return Call(dict[str, Any])

    @GET("/readyz")
    def ready(self) -> Call[Ready]:
        """Return whether the service can work: ready, degraded or unready, with its checks."""
        return Call(Ready, lambda here: checkup(lambda: here.world), accepts=(503,))

    @GET("/version")
    def version(self) -> Call[str]:
        """Return the version of the service, such as ``0.1.0``."""
        return Call(read=_version)

    @GET("/metrics")
    def metrics(self) -> Call[str]:
        """Return the metrics as Prometheus reads them."""
        return Call(read=lambda answer: answer.text)


def _version(answer: Answer) -> str:
    if not isinstance(answer.body, dict) or "version" not in answer.body:
        raise Unreadable("a version", answer.text)
    return str(answer.body["version"])
