"""The built-in handler ``webhook``: tell another system, signed, until it has heard or says that it does not want to.

Every attempt at one job carries the same ``webhook-id``, so that a receiver can drop repetitions. What an answer means:

=====================================  ==============================================================
2xx                                    delivered
429, 503 with ``Retry-After``          asked again then; no attempt is counted
408, 425, 429, 3xx, 5xx, no answer     tried again, with growing waits over three days
410, other 4xx, a refused address      final: the job is dead, and the audit says why
=====================================  ==============================================================

A target that keeps failing is left alone for a while, and its jobs are snoozed instead of tried.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from horae.core.jobs import Job
from horae.core.outcomes import Snooze
from horae.core.payloads import encode
from horae.core.retry import Retry
from horae.core.signatures import SigningSecret, signed_headers
from horae.core.targets import Rules, Target, target_of
from horae.errors import AddressRefused, CallFailed, DeliveryFailed, DeliveryRefused
from horae.handles import Jobs
from horae.outgoing.breakers import Breakers
from horae.outgoing.calls import Answer, Calls, Limits
from horae.outgoing.keyring import Keyring
from horae.runtime.context import Context

# Standard Webhooks' own example of a retry schedule: seconds after the first, second, … failure.
WAITS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
RETRY = Retry.external(attempts=len(WAITS) + 1, default=300)
SPREAD = 0.2
LIMITS = Limits()
SNOOZE_FOR_AT_MOST = timedelta(days=3)  # since the job was planned; so that a target cannot ask for ever
SHORTEST_SNOOZE, LONGEST_SNOOZE = timedelta(seconds=10), timedelta(days=1)
TRY_AGAIN = {408, 425, 429}
SAYS_WHEN = {429, 503}
MOST_HEADERS = 20
_HEADER = re.compile(r"accept-language|x-(?!forwarded-|real-ip|http-method|original-)[a-z0-9-]{1,60}")
_VALUE = re.compile(r"[\x20-\x7e]{0,1024}")
_NAME = re.compile(r"(?!whsec_)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

RulesFor = Callable[[str], Rules]


FINAL = (AddressRefused.__name__, DeliveryRefused.__name__)


class Webhooks:
    """Delivers webhooks for one application."""

    def __init__(
        self, home: Jobs, calls: Calls, rules_for: RulesFor, keyring: Keyring, *, limits: Limits, breakers: Breakers
    ) -> None:
        self._home, self._calls, self._rules_for, self._keyring = home, calls, rules_for, keyring
        self._limits, self.breakers = limits, breakers

    async def deliver(
        self,
        ctx: Context,
        url: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        secret: str | dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Post *body* as JSON to *url*; *secret* is the name of the secret that signs it."""
        target, rules = target_of(url), self._rules_for(ctx.owner)
        rules.check(target)
        own, keys = checked_headers(headers or {}), self._keys(ctx.owner, secret)
        content = encode(body, "body").encode()
        now = self._home.world.clock.now()
        key = (ctx.owner, target.origin)
        wait = self.breakers.ask(key, now)
        if wait is not None:
            raise self._snooze(ctx, now, wait, f"{target} keeps failing and is left alone for a while")
        told = own | signed_headers(keys, ctx.job_id, content, now=now)
        answer = await self._call(key, target, content, told, rules)
        return self._judged(ctx, target, answer)

    async def _call(
        self, key: tuple[str, str], target: Target, content: bytes, headers: Mapping[str, str], rules: Rules
    ) -> Answer:
        """The answer; however the call ends, the target's circuit learns of it."""
        clock = self._home.world.clock
        try:
            answer = await self._calls.post(target, content, headers, rules, self._limits)
        except CallFailed:
            self.breakers.failed(key, clock.now())
            raise
        except (Exception, asyncio.CancelledError):
            self.breakers.broken_off(key, clock.now())
            raise
        if answer.status >= 500:
            self.breakers.failed(key, clock.now())
        else:
            self.breakers.succeeded(key)
        return answer

    def _judged(self, ctx: Context, target: Target, answer: Answer) -> dict[str, Any]:
        status, now = answer.status, self._home.world.clock.now()
        if 200 <= status < 300:
            return {"status": status, "body": answer.text}
        wait = retry_after(answer.headers.get("retry-after", ""), now) if status in SAYS_WHEN else None
        if wait is not None:
            raise self._snooze(ctx, now, wait, f"{target} answered {status} and asked to wait")
        if status == 410:
            raise DeliveryRefused(f"{target} answered 410: it is gone and wants no more messages. Remove this webhook.")
        if 300 <= status < 400:
            raise DeliveryFailed(
                f"{target} answered {status}; redirects are not followed. Use the address it moved to."
            )
        if 400 <= status < 500 and status not in TRY_AGAIN:
            raise DeliveryRefused(f"{target} answered {status}: it refuses this message, so it is not sent again.")
        raise DeliveryFailed(f"{target} answered {status}; the message will be sent again.")

    def _snooze(self, ctx: Context, now: datetime, wait: timedelta, reason: str) -> Exception:
        if now - ctx.planned_at > SNOOZE_FOR_AT_MOST:
            return DeliveryRefused(f"{reason}, and has been for {SNOOZE_FOR_AT_MOST.days} days; given up.")
        return Snooze(min(LONGEST_SNOOZE, max(SHORTEST_SNOOZE, wait)), reason)

    def _keys(self, owner: str, secret: str | dict[str, str] | None) -> tuple[SigningSecret, ...]:
        """The secrets that a reference means, ``"name"`` or ``{"$secret": "name"}``; no error repeats a reference
        that may be a secret itself.
        """
        if secret is None:
            return ()
        name = secret.get("$secret") if isinstance(secret, dict) else secret
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeliveryRefused(
                "A webhook names its secret and never holds it: keep it in the keyring, pass its name."
            )
        keys = tuple(self._keyring.secrets(owner, name))
        if not keys:
            raise DeliveryRefused(
                "The secret that this webhook names is not in the keyring of its owner; add it there."
            )
        return keys

    async def decide(self, job: Job, error: str) -> timedelta | None:
        """When to try again; never after an answer that is final."""
        if error.split(":", 1)[0] in FINAL:
            return None
        roll = self._home.world.dice.roll()
        if job.retry.kind != "external":  # this job came with a policy of its own
            return job.retry.wait(job.attempt + 1, roll)
        seconds = WAITS[min(job.attempt, len(WAITS) - 1)]
        return timedelta(seconds=seconds * (1 + SPREAD * (2 * roll - 1)))


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that a payload may set: its own ``x-…`` ones. None that route, authenticate or describe the message."""
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        raise DeliveryRefused(f"The headers of a webhook are an object with at most {MOST_HEADERS} entries.")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name.lower()):
            raise DeliveryRefused(f"The header {name[:60]!r} may not be set; use names that begin with x-.")
        if not isinstance(value, str) or not _VALUE.fullmatch(value) or value != value.strip():
            raise DeliveryRefused(
                f"The value of the header {name[:60]!r} is not one line of at most 1,024 plain characters."
            )
    return {name.lower(): value for name, value in headers.items()}


def retry_after(text: str, now: datetime) -> timedelta | None:
    """How long a ``Retry-After`` header asks to wait: seconds, or a date; None when it cannot be read."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:10]), 10**9))
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(timedelta(0), (date if date.tzinfo else date.replace(tzinfo=UTC)) - now)
