"""Look at governed objects: read what a verifier needs, and judge by stored evidence where there is no verifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, Protocol

from horae.actions.governance import queries
from horae.actions.governance.keeper import UNCLAIMED
from horae.api.governance.object_values import Evidence, ObjectToVerify, RecalledObject
from horae.api.governance.objects import Objects
from horae.api.operation import Sender
from horae.api.values import enrich, to_public
from horae.core.governance.answers import ATTEND
from horae.core.governance.timers import LOOKS
from horae.core.jobs.outcomes import Snooze
from horae.errors import InvalidInput, NotFound
from horae.ports.world import World
from horae.runtime.worker.context import Context

ELSEWHERE = timedelta(seconds=30)  # after which a job comes back whose verifier is in another process


class App(Protocol):
    """An application, as far as verifiers need it."""

    @property
    def world(self) -> World: ...
    @property
    def objects(self) -> Objects[Sender]: ...
    @property
    def acts_on_service(self) -> bool: ...


def must_look(ctx: Context, payload: Mapping[str, Any]) -> bool:
    """Return whether a verifier has to be asked, or time alone decides; or an agent was asked already."""
    job = ctx.claimed
    if job.object_type is None or job.object_id is None:
        raise InvalidInput("job_without_object", id=job.id, handler=job.handler)
    asked = isinstance(job.checkpoint, Mapping) and ATTEND in job.checkpoint
    return job.action in LOOKS and payload.get("look", True) is not False and not asked


def examine(app: App, ctx: Context) -> ObjectToVerify:
    """Read the object of a job as its verifier sees it, from the database or from the service."""
    job = ctx.claimed
    id, kind, owner = job.object_id or "", job.object_type or "", job.owner  # noqa: A001  # the public name of the field
    about: dict[str, Any] = {"action": job.action}
    try:
        if app.acts_on_service:
            found: Any = app.objects.get(id, kind=kind, owner=owner)  # type: ignore[arg-type]  # a stored kind
            seen = {each.name: getattr(found, each.name) for each in fields(RecalledObject)}
            seen |= about | {"evidence": app.objects.why(id, kind=kind, owner=owner).evidence}  # type: ignore[arg-type]  # a stored kind
            return ObjectToVerify(
                **{each.name: seen[each.name] for each in fields(ObjectToVerify) if each.name in seen}
            )
        view, pieces = queries.to_verify(app.world, id, owner=owner, kind=kind)
    except NotFound:
        known: Any = {"owner": owner, "kind": kind, "id": id, "status": "", "standing": "uncertain", "version": 0}
        return ObjectToVerify(**known, **about, created_at=job.created_at, state_since=job.created_at, stored=False)
    evidence = tuple(to_public(Evidence, each) for each in pieces)
    about |= {"content": view.content, "rests_on": view.rests_on, "evidence": evidence, "stored": True}
    read: ObjectToVerify = enrich(ObjectToVerify, view.object, **about)
    return read


def judge_by_evidence(app: App, ctx: Context, payload: Mapping[str, Any]) -> None:
    """Let the stored evidence decide, unless the verifier of that kind is in another process."""
    job = ctx.claimed
    if not must_look(ctx, payload):
        return
    is_stored, is_elsewhere = (True, True) if app.acts_on_service else queries.has_verifier(app.world, job)
    if not is_stored:
        raise Snooze(UNCLAIMED, f"{job.object_type} {job.object_id} is stored nowhere; declare a verifier for it")
    if is_elsewhere and app.world.clock.now() - job.planned_at < UNCLAIMED:
        raise Snooze(ELSEWHERE, f"the verifier of {job.object_type} is in another process")
