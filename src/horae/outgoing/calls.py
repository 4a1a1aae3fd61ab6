"""One outgoing call: bounded in time, in bytes read and in bytes kept. Its errors hold no secrets.

An error names the target by scheme, host and port only, because paths and queries often hold keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from horae.core.access.masking import hide_secrets
from horae.core.dataclass import dataclass
from horae.core.outgoing.targets import Rules, Target
from horae.errors import CallFailed, MissingExtra

if TYPE_CHECKING:
    import ssl

    import httpcore

    from horae.outgoing.transport import Resolver

if missing := [name for name in ("httpcore", "httpx") if find_spec(name) is None]:
    raise MissingExtra("calls_extra_missing", module=missing[-1])

CUT = " … (cut)"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one call: seconds, and bytes of the answer's body that are read."""

    connect: float = 5.0
    total: float = 30.0
    body: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call: the status, a few headers, and the beginning of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool  # there was more

    @property
    def is_encoded(self) -> bool:
        """Whether it is compressed, although plain bytes were asked for; it is not unpacked, so a bomb stays small."""
        return self.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")

    @property
    def text(self) -> str:
        """The body to be kept: storable text, with a mark where it was cut."""
        return self.without(())

    def without(self, secrets: Iterable[str]) -> str:
        """Return the text without these secrets; one that the cut has left a part of is hidden too."""
        if self.is_encoded:
            return f"({len(self.body):,} compressed bytes were not unpacked)"
        text = self.body.decode(errors="replace").replace("\x00", "\ufffd")
        return hide_secrets(text, secrets) + (CUT if self.cut else "")


class Calls:
    """Makes outgoing calls; what it needs of the network can be replaced in tests.

    *headers* is asked at each call, in its task, for what a tracer wants to send along, such as ``traceparent``. The
    library that calls is imported with the first call: it takes 10 MB, and most workers never call out.
    """

    def __init__(
        self,
        *,
        resolve: Resolver | None = None,
        dial: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._resolve, self._dial, self._tls, self._headers = resolve, dial, tls, headers

    async def post(
        self, target: Target, body: bytes, headers: Mapping[str, str], rules: Rules, limits: Limits | None = None
    ) -> Answer:
        """Post JSON and read the answer, whatever its status; ``CallFailed`` when there is none in time."""
        limits = limits or Limits()
        rules.check(target)
        sent = {**headers, **self._headers()}
        exchange: Any = await asyncio.to_thread(import_module, "horae.outgoing.exchange")
        try:
            async with asyncio.timeout(limits.total):
                answer: Answer = await exchange.post(
                    target, body, sent, rules, limits, resolve=self._resolve, dial=self._dial, tls=self._tls
                )
        except TimeoutError:
            raise CallFailed("answer_too_slow", target=str(target), seconds=limits.total) from None
        return answer
