"""The built-in handler ``webhook``: post a signed message until the receiver accepts it or refuses it for good.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from horae.core.access.secrets import references, resolve_references
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job
from horae.core.jobs.outcomes import Snooze
from horae.core.jobs.payloads import encode
from horae.core.jobs.retry import Retry
from horae.core.outgoing.signatures import SigningSecret, signed_headers
from horae.core.outgoing.targets import Rules, Target, target_of
from horae.core.outgoing.webhooks import checked_headers, signing_name
from horae.declare.handles import Blueprint
from horae.errors import AddressRefused, CallFailed, DeliveryFailed, DeliveryRefused, InvalidInput
from horae.outgoing.breakers import Breakers
from horae.outgoing.calls import Answer, Calls, Limits
from horae.outgoing.keyring import Keyring
from horae.outgoing.trace_context import trace_headers
from horae.runtime.worker.context import Context

# Standard Webhooks' own example of a retry schedule: seconds after the first, second, … failure.
WAITS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
RETRY = Retry.external(attempts=len(WAITS) + 1, default=300)
SPREAD = 0.2
LIMITS = Limits()
SNOOZE_FOR_AT_MOST = timedelta(days=3)  # since the job was planned; so that a target cannot ask for ever
SHORTEST_SNOOZE, LONGEST_SNOOZE = timedelta(seconds=10), timedelta(days=1)
TRY_AGAIN = {408, 425, 429}
SAYS_WHEN = {429, 503}

RulesFor = Callable[[str], Rules]


FINAL = (AddressRefused.__name__, DeliveryRefused.__name__)


@dataclass(frozen=True, slots=True)
class Letter:
    """A message ready to be sent: every secret in place, so it is never stored, shown or logged."""

    target: Target
    rules: Rules
    content: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    keys: Sequence[SigningSecret] = ()
    secrets: Sequence[str] = field(default=(), repr=False)


class Webhooks:
    """Delivers webhooks for one application."""

    def __init__(
        self,
        home: Blueprint,
        calls: Calls,
        rules_for: RulesFor,
        keyring: Keyring,
        *,
        limits: Limits,
        breakers: Breakers,
    ) -> None:
        self._home, self._calls, self._rules_for, self._keyring = home, calls, rules_for, keyring
        self._limits, self.breakers = limits, breakers

    async def deliver(
        self,
        ctx: Context,
        url: str | dict[str, str],
        body: Any = None,
        headers: dict[str, str | dict[str, str]] | None = None,
        secret: str | dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Post *body* as JSON to *url*; *secret* is the name of the secret that signs it.

        ``{"$secret": "name"}`` stands for a secret of the owner's anywhere in body, in a header, or as the URL.
        """
        letter = await asyncio.to_thread(self._compose, ctx.owner, url, body, headers or {}, secret)
        now = self._home.world.clock.now()
        key = (ctx.owner, letter.target.origin)
        wait = self.breakers.ask(key, now)
        if wait is not None:
            raise self._snooze(ctx, now, wait, f"{letter.target} keeps failing and is left alone for a while")
        signed = signed_headers(letter.keys, ctx.job_id, letter.content, now=now)
        answer = await self._call(key, letter, {**trace_headers(ctx.claimed), **letter.headers, **signed})
        return await asyncio.to_thread(self._result_of, ctx, letter, answer)  # to mask a long answer takes a while

    def _compose(self, owner: str, url: Any, body: Any, headers: Any, secret: Any) -> Letter:
        """Return the message with its secrets in place; refuse one that can never be sent. Reads the store."""
        try:
            content = [url, body, headers]
            texts = {name: self._texts(owner, name)[0] for name in references(content)}
            url, body, resolved_headers = resolve_references(content, texts)
            rules = self._rules_for(owner)
            return Letter(
                target=_target(url, rules, is_secret=url != content[0]),
                rules=rules,
                content=encode(body, "body").encode(),
                headers=checked_headers(resolved_headers, headers),
                keys=self._keys(owner, secret),
                secrets=tuple(texts.values()),
            )
        except AddressRefused:
            raise
        except InvalidInput as problem:
            raise DeliveryRefused("webhook_unsendable", problem=str(problem)) from None

    async def _call(self, key: tuple[str, str], letter: Letter, headers: Mapping[str, str]) -> Answer:
        """Return the answer; record in the target's circuit how the call ended."""
        clock = self._home.world.clock
        try:
            answer = await self._calls.post(letter.target, letter.content, headers, letter.rules, self._limits)
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

    def _result_of(self, ctx: Context, letter: Letter, answer: Answer) -> dict[str, Any]:
        status, target, now = answer.status, letter.target, self._home.world.clock.now()
        if 200 <= status < 300:
            return {"status": status, "body": answer.without(letter.secrets)}
        wait = retry_after(answer.headers.get("retry-after", ""), now) if status in SAYS_WHEN else None
        if wait is not None:
            raise self._snooze(ctx, now, wait, f"{target} answered {status} and asked to wait")
        if status == 410:
            raise DeliveryRefused("webhook_target_gone", target=str(target))
        if 300 <= status < 400:
            raise DeliveryFailed("webhook_redirected", target=str(target), status=status)
        if 400 <= status < 500 and status not in TRY_AGAIN:
            raise DeliveryRefused("webhook_refused", target=str(target), status=status)
        raise DeliveryFailed("webhook_not_taken", target=str(target), status=status)

    def _snooze(self, ctx: Context, now: datetime, wait: timedelta, reason: str) -> Exception:
        if now - ctx.planned_at > SNOOZE_FOR_AT_MOST:
            return DeliveryRefused("webhook_given_up", problem=reason, days=SNOOZE_FOR_AT_MOST.days)
        return Snooze(min(LONGEST_SNOOZE, max(SHORTEST_SNOOZE, wait)), reason)

    def _keys(self, owner: str, secret: Any) -> tuple[SigningSecret, ...]:
        """Return the secrets that sign, the current one first."""
        name = signing_name(secret)
        return () if name is None else tuple(SigningSecret.read(text) for text in self._texts(owner, name))

    def _texts(self, owner: str, name: str) -> Sequence[str]:
        texts = self._keyring.texts(owner, name)
        if not texts:
            raise DeliveryRefused("webhook_secret_unknown")
        return texts

    async def decide(self, job: Job, error: str) -> timedelta | None:
        """Return how long to wait before the next try; None after an answer that is final."""
        if error.split(":", 1)[0] in FINAL:
            return None
        roll = self._home.world.dice.roll()
        if job.retry.kind != "external":  # this job came with a policy of its own
            return job.retry.wait(job.attempt + 1, roll)
        seconds = WAITS[min(job.attempt, len(WAITS) - 1)]
        return timedelta(seconds=seconds * (1 + SPREAD * (2 * roll - 1)))


def _target(url: str, rules: Rules, *, is_secret: bool) -> Target:
    try:
        target = target_of(url)
    except AddressRefused:
        if is_secret:  # the reason may repeat a part of it
            raise AddressRefused("webhook_secret_no_url") from None
        raise
    rules.check(target)
    return target


def retry_after(text: str, now: datetime) -> timedelta | None:
    """Return how long a ``Retry-After`` header asks to wait: seconds, or a date; None when it cannot be read."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:10]), 10**9))
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(timedelta(0), (date if date.tzinfo else date.replace(tzinfo=UTC)) - now)
