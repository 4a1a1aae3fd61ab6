"""Every field of a core value is public or listed as hidden, whatever its room."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType

import pytest

import horae.api
import horae.core
import horae.ports

# What a public value leaves out of the core value or row of the same name. A field that is public under another name
# has it behind an arrow: what would be lost is found by the same test.
HIDDEN: dict[tuple[str, str], str] = {
    ("api.access.values.LoginCode", "core.access.sessions"): "created_at digest",
    ("api.access.values.OwnerHours", "ports.queues"): "",
    ("api.access.values.Session", "core.access.sessions"): (
        "actor csrf digest expires_at→ends_at session_id→id"  # whose session it is, its reader knows
    ),
    ("api.admin.Retention", "core.retention"): "keys nodes",
    ("api.admin.RetentionRule", "core.retention"): "",
    ("api.error_groups.ErrorGroup", "core.error_groups"): "sample_token→sample_run",
    ("api.governance.budgets.Budget", "core.governance.budgets"): "created_at number",
    ("api.governance.object_values.Evidence", "core.governance.evidence"): "object owner",  # it is read with its object
    ("api.governance.object_values.GovernedObject", "core.governance.objects"): (
        "admitted_version asked_action asked_at fingerprint kept_until new_evidence number opinions put_backs "
        "reinforcements reinstate_signal reviewed_at reviews stability state→epistemic_state subject_key"
    ),
    ("api.governance.object_values.ObjectVersion", "core.governance.objects"): (
        "content_key fields→facts object owner state→epistemic_state"
    ),
    ("api.governance.object_values.StateCount", "core.governance.objects"): "state→epistemic_state",
    ("api.governance.object_verbs.Rollback", "core.governance.rollbacks"): (
        "actor agent job number owner position root→about"
    ),
    ("api.governance.personas.Boundary", "core.governance.gates"): "",
    ("api.governance.report.ReportSpan", "core.governance.report"): "",
    ("api.jobs.held.Upcoming", "ports.workers"): (  # what the loops of a worker ask for; callers wait until `due_in`
        "next_due_at→due_in next_expiry_at next_fire_at next_machinery_at next_object_at open store_time unlabelled "
        "unrolled unsealed unsealed_lines unsettled"
    ),
    ("api.jobs.room.Parent", "core.jobs.reasons"): "lost",
    ("api.jobs.room.Reason", "core.jobs.reasons"): "",
    ("api.overview.Need", "core.needs"): "why→reason",
    ("api.queues.LimitSource", "core.jobs.running_limits"): "name",
    ("api.queues.Queue", "ports.queues"): "",
    ("api.queues.RunningLimit", "core.jobs.running_limits"): "",
    ("api.scheduled_tasks.values.ScheduledTaskRun", "ports.scheduled_tasks"): "run→result",
    ("api.schedules.calendars.Calendar", "core.schedules.day_lists"): "",
    ("api.schedules.expectations.MissedRun", "core.schedules.expectations"): "check_job number→id subject→job told",
    ("api.schedules.values.ScheduleResult", "core.schedules.schedule"): "job_number→job_id token→id",
    ("api.views.View", "core.views"): "number→id",
}
# Pairs with a test beside their room, which knows more about them.
BESIDE_THE_ROOM = {
    ("api.access.values.Token", "core.access.callers"),
    ("api.acts.Act", "core.jobs.acts"),
    ("api.attention.values.Event", "core.attention.lanes"),
    ("api.attention.values.Lane", "core.attention.lanes"),
    ("api.attention.values.Task", "core.attention.lanes"),
    ("api.governance.decisions.Decision", "core.governance.decisions"),
    ("api.governance.personas.Persona", "core.governance.personas"),
    ("api.governance.reviews.Review", "core.governance.reviews"),
    ("api.jobs.room.Job", "core.jobs.job"),
    ("api.jobs.room.Run", "core.jobs.job"),
    ("api.schedules.values.Fire", "core.schedules.schedule"),
    ("api.schedules.values.Schedule", "core.schedules.schedule"),
}
# Of one name, but not made of each other.
NAMESAKES = {
    ("api.attention.values.Wait", "core.attention.directives"),
    ("api.examination.Finding", "core.governance.verdicts"),
    ("api.gather.Join", "core.attention.directives"),
    ("api.governance.object_values.StateCount", "core.governance.report"),
    ("api.governance.policies.Policy", "core.attention.task"),
    ("api.governance.policies.Policy", "core.governance.policies"),  # numbers there; here which of them are set
    ("api.jobs.room.JobCounts", "core.governance.report"),
    ("api.jobs.room.Parent", "core.traces"),
    ("api.jobs.room.Run", "core.schedules.phrases"),
    ("api.operation.Answer", "core.cluster.messages"),
    ("api.views.View", "core.access.masking"),
    ("api.waits.Wait", "core.attention.directives"),
}


def values_of(package: ModuleType) -> Iterator[type]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if isinstance(kind, type) and kind.__module__ == module.name and is_dataclass(kind) and name[0] != "_":
                yield kind


def place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}".removeprefix("horae.")


def pairs() -> dict[tuple[str, str], tuple[type, type]]:
    """Return public values with stored ones of the same name, by the place of one and the module of the other."""
    stored = [*values_of(horae.core), *values_of(horae.ports)]
    return {
        (place(public), each.__module__.removeprefix("horae.")): (public, each)
        for public in values_of(horae.api)
        for each in stored
        if each.__name__ == public.__name__
    }


PAIRS = pairs()


def names_of(kind: type) -> set[str]:
    return {each.name for each in fields(kind)}


@pytest.mark.parametrize("pair", HIDDEN, ids=lambda pair: pair[0])
def test_every_field_is_public_or_hidden(pair: tuple[str, str]) -> None:
    public, stored = PAIRS[pair]
    hidden = [each.partition("→") for each in HIDDEN[pair].split()]

    assert names_of(stored) - names_of(public) == {name for name, _, _ in hidden}
    assert {renamed for _, _, renamed in hidden if renamed} <= names_of(public)


def test_every_pair_of_one_name_is_known() -> None:
    assert set(PAIRS) == HIDDEN.keys() | BESIDE_THE_ROOM | NAMESAKES
