"""How often one may call: a bucket for each token and each address, in this process's memory.

A limit of 300 a second lets 600 through at once and then one every 1/300 s. Buckets are bounded in number: whoever has
been quiet longest is forgotten first, which only forgives. Several processes each count for themselves.

Wrong tokens have a bucket of their own, for each address. When it is empty only further wrong ones are turned away:
a right one still enters, so nobody can lock out a neighbour behind the same address.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from horae.core.access.callers import Caller
from horae.errors import TooManyRequests

MOST_BUCKETS = 20_000
BURST = 2.0  # seconds' worth of calls at once
WRONG_BURST = 20.0  # the same for wrong tokens, which are counted by the minute


@dataclass(frozen=True)
class Rates:
    """What the operator allows; 0: as often as they like."""

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
        """Take one; 0, or the seconds until there is one."""
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

    def come_from(self, address: str | None) -> None:
        """A request from there, before anything else is known of it."""
        wait = self._addresses.take(neighbourhood(address), self._monotonic())
        if wait:
            raise TooManyRequests("too_many_from_address", wait, "calls_per_address")

    def recognised(self, caller: Caller) -> None:
        """A request of somebody known."""
        wait = self._tokens.take(caller.identity, self._monotonic())
        if wait:
            raise TooManyRequests("too_many_with_token", wait, "calls_per_token")

    def not_recognised(self, address: str | None) -> None:
        """A wrong token from there."""
        wait = self._wrong.take(neighbourhood(address), self._monotonic())
        if wait:
            raise TooManyRequests("too_many_wrong_tokens", wait, "wrong_per_address")


def neighbourhood(address: str | None) -> str:
    """Who counts as one: an IPv4 address, or the /64 that one IPv6 customer has to himself."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
