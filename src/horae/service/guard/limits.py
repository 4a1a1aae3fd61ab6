"""Rate limits: a bucket for each token and each address, in the memory of this process.

A limit of 300 a second lets 600 through at once and then one every 1/300 s. The number of buckets is bounded: the one
that was used longest ago is dropped first, which only allows more. Several processes each count for themselves.

Wrong tokens have a bucket of their own, for each address. When it is empty only further wrong ones are refused: a right
one is still accepted, so that a caller cannot lock out others behind the same address.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable

from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.errors import TooManyRequests

MOST_BUCKETS = 20_000
BURST = 2.0  # seconds' worth of calls at once
WRONG_BURST = 20.0  # the same for wrong tokens, which are counted by the minute


@dataclass(frozen=True)
class Rates:
    """Rates that the operator allows; 0: no limit."""

    per_token: int = 0  # a second
    per_address: int = 0  # a second
    wrong_per_address: int = 0  # a minute


class Buckets:
    """One bucket for each key, all of one size (a virtual-scheduling meter: one number for each)."""

    def __init__(self, rate: float, burst: float, most: int = MOST_BUCKETS) -> None:
        self._cost = 1 / rate if rate else 0.0
        self._depth = max(burst, self._cost)
        self._most = most
        self._empty_until: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._empty_until)

    def take(self, key: str, now: float) -> float:
        """Take one token from a bucket; return 0, or the seconds until there is one."""
        if not self._cost:
            return 0.0
        with self._lock:
            filled_at = max(now, self._empty_until.get(key, now)) + self._cost
            missing = filled_at - now - self._depth
            if missing > 1e-9:
                return missing
            self._empty_until[key] = filled_at
            self._empty_until.move_to_end(key)
            if len(self._empty_until) > self._most:
                self._empty_until.popitem(last=False)
        return 0.0


class Limits:
    """The buckets of one service."""

    def __init__(self, rates: Rates, monotonic: Callable[[], float], most: int = MOST_BUCKETS) -> None:
        self._monotonic = monotonic
        self._tokens = Buckets(rates.per_token, BURST, most)
        self._addresses = Buckets(rates.per_address, BURST, most)
        self._wrong = Buckets(rates.wrong_per_address / 60, WRONG_BURST, most)

    def count_address(self, address: str | None) -> None:
        """Count a request by its address; refuse one too many."""
        wait = self._addresses.take(address_group(address), self._monotonic())
        if wait:
            raise TooManyRequests("too_many_from_address", wait, "calls_per_address")

    def count_caller(self, caller: Caller) -> None:
        """Count a request by its token; refuse one too many."""
        wait = self._tokens.take(caller.identity, self._monotonic())
        if wait:
            raise TooManyRequests("too_many_with_token", wait, "calls_per_token")

    def count_wrong_token(self, address: str | None) -> None:
        """Count a wrong token by its address; refuse one too many."""
        wait = self._wrong.take(address_group(address), self._monotonic())
        if wait:
            raise TooManyRequests("too_many_wrong_tokens", wait, "wrong_per_address")


def address_group(address: str | None) -> str:
    """Return what counts as one address: an IPv4 address, or the /64 network of an IPv6 customer."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
