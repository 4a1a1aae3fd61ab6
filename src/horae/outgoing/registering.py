"""Give an application the handlers that call out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from horae.core.targets import Rules
from horae.handles import JobHandle, Jobs
from horae.outgoing import dispatch, webhook
from horae.outgoing.breakers import Breakers
from horae.outgoing.calls import Calls, Limits
from horae.outgoing.keyring import Keyring, MemoryKeyring

MARGIN = 15.0  # seconds beyond a call's own limit, so that its error and not the worker's tells the story


def public_only(owner: str) -> Rules:
    """What a tenant may reach unless the operator says otherwise."""
    return Rules()


@dataclass(frozen=True)
class Outgoing:
    """How an application calls out. Tenants' rules come from *rules_for* their name; the defaults allow only https to
    public addresses.
    """

    calls: Calls
    keyring: Keyring
    orchestrator: dispatch.Orchestrator
    rules_for: webhook.RulesFor = public_only
    task_of: dispatch.TaskOf = dispatch.schedule_of
    webhook_limits: Limits = webhook.LIMITS
    dispatch_limits: Limits = dispatch.LIMITS
    queue: str = "default"

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Outgoing:
        """From the environment; whatever is *given* wins."""
        known = os.environ if environment is None else environment
        defaults: dict[str, Any] = {"calls": Calls(), "keyring": MemoryKeyring()}
        return cls(**{**defaults, "orchestrator": dispatch.Orchestrator.read(known), **given})


@dataclass(frozen=True)
class Registered:
    """The two built-in jobs, to be enqueued like any other."""

    webhook: JobHandle[..., Any]
    dispatch: JobHandle[..., Any]
    breakers: Breakers


def register(app: Jobs, outgoing: Outgoing | None = None) -> Registered:
    """Declare ``webhook`` and ``dispatch`` in an application."""
    how = outgoing or Outgoing.read()
    webhooks = webhook.Webhooks(
        app, how.calls, how.rules_for, how.keyring, limits=how.webhook_limits, breakers=Breakers()
    )
    dispatcher = dispatch.Dispatcher(how.calls, how.orchestrator, how.task_of, how.dispatch_limits)
    return Registered(
        app.job(
            "webhook",
            queue=how.queue,
            retry=webhook.RETRY,
            decide=webhooks.decide,
            timeout=timedelta(seconds=how.webhook_limits.total + MARGIN),
        )(webhooks.deliver),
        app.job(
            "dispatch",
            queue=how.queue,
            retry=dispatch.RETRY,
            timeout=timedelta(seconds=how.dispatch_limits.total + MARGIN),
        )(dispatcher.execute),
        webhooks.breakers,
    )
