"""Give an application the handlers that call out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from horae.core.dataclass import dataclass
from horae.declare.handles import Blueprint, JobHandle
from horae.outgoing import dispatch, webhook
from horae.outgoing.breakers import Breakers
from horae.outgoing.calls import Calls, Limits
from horae.outgoing.encryption import sealer_from
from horae.outgoing.keyring import Keyring, StoreKeyring
from horae.outgoing.tenants import StoreRules, StoreTasks
from horae.ports.access import Sealer
from horae.ports.world import World
from horae.telemetry import headers

MARGIN = 15.0  # seconds beyond a call's own limit, so that its error and not the worker's tells the story


@dataclass(frozen=True)
class Outgoing:
    """How an application calls out. What is None is asked of the store when it is needed: tenants' rules, tenants'
    secrets, and which task a job belongs to. Without an operator's word, only https to public addresses is allowed.
    """

    calls: Calls
    orchestrator: dispatch.Orchestrator
    keyring: Keyring | None = None
    sealer: Sealer | None = None  # opens what the keyring finds in the store
    rules_for: webhook.RulesFor | None = None
    task_of: dispatch.TaskOf | None = None
    webhook_limits: Limits = webhook.LIMITS
    dispatch_limits: Limits = dispatch.LIMITS
    queue: str = "default"

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Outgoing:
        """Read the settings from the environment; *given* values win. Opens no connection."""
        known = os.environ if environment is None else environment
        defaults: dict[str, Any] = {"calls": Calls(headers=headers), "sealer": sealer_from(known)}
        return cls(**{**defaults, "orchestrator": dispatch.Orchestrator.read(known), **given})


@dataclass(frozen=True)
class Registered:
    """The two built-in jobs, to be enqueued like any other."""

    webhook: JobHandle[..., Any]
    dispatch: JobHandle[..., Any]
    breakers: Breakers


def register(app: Blueprint, outgoing: Outgoing | None = None) -> Registered:
    """Declare ``webhook`` and ``dispatch`` in an application; a job of that name that it has already stays.

    Nothing is opened before the first of them runs.
    """
    how = outgoing or Outgoing.read()

    def opens() -> World:
        return app.world

    webhooks = webhook.Webhooks(
        app,
        how.calls,
        how.rules_for or StoreRules(opens),
        how.keyring or StoreKeyring(opens, how.sealer),
        limits=how.webhook_limits,
        breakers=Breakers(),
    )
    dispatcher = dispatch.Dispatcher(how.calls, how.orchestrator, how.task_of or StoreTasks(opens), how.dispatch_limits)
    how_webhooks = app.job(
        "webhook",
        queue=how.queue,
        retry=webhook.RETRY,
        decide=webhooks.decide,
        tenants=True,
        check_types=False,  # the handler judges what it is given, as it does for jobs that come over HTTP
        timeout=timedelta(seconds=how.webhook_limits.total + MARGIN),
    )
    how_dispatch = app.job(
        "dispatch",
        queue=how.queue,
        retry=dispatch.RETRY,
        tenants=True,
        timeout=timedelta(seconds=how.dispatch_limits.total + MARGIN),
    )
    return Registered(
        _there(app, "webhook") or how_webhooks(webhooks.deliver),
        _there(app, "dispatch") or how_dispatch(dispatcher.execute),
        webhooks.breakers,
    )


def _there(app: Blueprint, name: str) -> JobHandle[..., Any] | None:
    found = app.definitions.find(name)
    return None if found is None else JobHandle(app, found)
