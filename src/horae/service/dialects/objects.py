"""Governed objects in document 000's words, beside the jobs that are about them."""

from __future__ import annotations

from horae.actions.governance.queries import last_entry_about, object_about
from horae.core.jobs.job import Job
from horae.ports.world import World
from horae.service.dialects.job_shapes import ObjectShape

PREFIX = "aud_"


def object_shape(world: World, job: Job) -> ObjectShape | None:
    """Return the stored object that a job is about; None where none is stored."""
    it = None if job.object_type is None else object_about(world, job)
    if it is None:
        return None
    return ObjectShape(
        object_type=it.kind,
        object_id=it.id,
        status=it.status,
        epistemic_state=it.epistemic_state,
        version=it.version,
        next_action=it.next_action,
        next_action_at=it.next_action_at,
    )


def last_entry_id(world: World, job: Job) -> str | None:
    """Return the id of the last entry about a job that names an object."""
    number = None if job.object_type is None else last_entry_about(world, job)
    return None if number is None else f"{PREFIX}{number}"
