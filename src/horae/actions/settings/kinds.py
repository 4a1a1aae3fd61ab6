"""The kinds of shared settings: how a database takes a decision over, and what a first database had before.

Each takes the verb that a person would use there, with the actor and the reason of the decision, so that the audit of
every database tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.actions import error_groups, retention
from horae.actions.jobs import queues, quiet_queues, running_limits
from horae.actions.schedules import calendars
from horae.actions.settings.budgets import apply_budget, budget_value
from horae.actions.settings.decisions import Apply
from horae.actions.settings.divisions import put_division
from horae.core.cluster.settings import Division, Kind, Portion, SharedSetting
from horae.core.error_groups import MOST_GROUPS
from horae.core.governance.budgets import JobBudget
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.parameters import parameter_from, parameter_json
from horae.core.jobs.running_limits import BY_HAND, LimitSource
from horae.core.time.instants import MICROSECOND, from_iso, instant, iso, micros
from horae.ports.definitions import StoredDefinition

if TYPE_CHECKING:
    from horae.ports.queues import Queue
    from horae.ports.store import Tx
    from horae.ports.world import World

FIRST_VERSION = 1  # of what was set before there was a cluster: every decision is later
A_MOMENT = timedelta(seconds=1)
MOST_BUDGETS = 10_000


# -- values ------------------------------------------------------------------------------------------------------------


def until_value(until: datetime | None) -> str | None:
    return None if until is None else iso(until)


def limits_value(declared: Mapping[str, LimitSource]) -> dict[str, Any]:
    return {"limits": {name: [each.source, each.max_running] for name, each in sorted(declared.items())}}


def retention_value(keep: timedelta | None, queue: str | None, outcome: str | None) -> dict[str, Any]:
    return {"keep": None if keep is None else keep // MICROSECOND, "queue": queue, "outcome": outcome}


def retention_name(queue: str | None, outcome: str | None) -> str:
    return f"{queue or ''}:{outcome or ''}"


def definition_value(definition: StoredDefinition) -> dict[str, Any]:
    parameters = None if definition.parameters is None else [parameter_json(each) for each in definition.parameters]
    return {
        "queue": definition.queue,
        "tenants": definition.tenants,
        "app": definition.app,
        "stored_at": micros(definition.stored_at) if definition.stored_at is not None else 0,
        "stored_by": definition.stored_by,
        "sensitive": list(definition.sensitive),
        "parameters": parameters,
        "description": definition.description,
        "budget": None if definition.budget is None else definition.budget.as_json(),
    }


def read_definition(setting: SharedSetting) -> StoredDefinition:
    value = setting.value
    return StoredDefinition(
        setting.name,
        value["queue"],
        value["tenants"],
        value["app"],
        instant(value["stored_at"]),
        value["stored_by"],
        tuple(value["sensitive"]),
        None if value["parameters"] is None else tuple(parameter_from(each) for each in value["parameters"]),
        value["description"],
        None if value["budget"] is None else JobBudget.from_json(value["budget"]),
    )


# -- copies ------------------------------------------------------------------------------------------------------------


def _by(setting: SharedSetting) -> dict[str, Any]:
    return {"actor": setting.actor, "reason": setting.reason}


def _pause(world: World, setting: SharedSetting, _: Portion) -> Queue:
    value, by = setting.value, _by(setting)
    if not value["paused"]:  # a pause that began after the decision, as of quiet hours, is left alone
        return queues.resume_queue(world, setting.name, begun_before=instant(setting.version), **by)
    until = None if value["until"] is None else from_iso(value["until"])
    if until is not None:  # one that has ended meanwhile ends at once, as such a pause does: into quiet hours, if any
        until = max(until, world.clock.now() + A_MOMENT)
    return queues.pause_queue(world, setting.name, until=until, **by)


def _quiet(world: World, setting: SharedSetting, _: Portion) -> Queue:
    value = setting.value
    return quiet_queues.quiet_queue(
        world, setting.name, value["quiet_hours"], value["zone"], actor=setting.actor, reason=setting.reason
    )


def _order(world: World, setting: SharedSetting, _: Portion) -> Queue:
    order = setting.value["order"]
    return queues.order_queue(world, setting.name, order, actor=setting.actor, reason=setting.reason)


def _fair(world: World, setting: SharedSetting, _: Portion) -> Queue:
    fair = setting.value["fair"]
    return queues.share_queue(world, setting.name, fair, actor=setting.actor, reason=setting.reason)


def _limit(world: World, setting: SharedSetting, portion: Portion) -> Any:
    by = _by(setting)
    if not setting.value["is_set"]:
        return running_limits.reset_limit(world, setting.name, **by)
    return running_limits.set_share(world, setting.name, portion.share(setting.value["max_running"]), **by)


def _limits(world: World, setting: SharedSetting, portion: Portion) -> None:
    declared = {
        name: LimitSource(name, setting.name, source, portion.share(most))
        for name, (source, most) in setting.value["limits"].items()
    }
    running_limits.store_declared(world, setting.name, declared)


def _retention(world: World, setting: SharedSetting, _: Portion) -> Any:
    value = setting.value
    keep = None if value["keep"] is None else value["keep"] * MICROSECOND
    given = {"queue": value["queue"], "outcome": value["outcome"]}
    return retention.set_retention(world, keep, **given, actor=setting.actor, reason=setting.reason)


def _calendar(world: World, setting: SharedSetting, _: Portion) -> Any:
    value, by = setting.value, _by(setting)
    if value["days"] is None:
        return calendars.remove_copy(world, setting.name, **by)
    return calendars.set_calendar(
        world, setting.name, value["days"], title=value["title"], becomes=value["version"], **by
    )


def _mute(world: World, setting: SharedSetting, _: Portion) -> Any:
    value = setting.value
    if not value["is_muted"]:
        return error_groups.unmute(world, setting.name, actor=setting.actor, reason=setting.reason)
    until = None if value["until"] is None else from_iso(value["until"])
    if until is not None and until <= world.clock.now():  # it has ended meanwhile
        return error_groups.unmute(world, setting.name, actor=setting.actor, reason=setting.reason)
    return error_groups.mute(world, setting.name, until=until, actor=setting.actor, reason=setting.reason)


APPLY: dict[Kind, Apply] = {  # definitions come in numbers: actions/settings/definitions.py
    "budget": apply_budget,
    "calendar": _calendar,
    "limit": _limit,
    "limits": _limits,
    "mute": _mute,
    "queue.fair": _fair,
    "queue.order": _order,
    "queue.pause": _pause,
    "queue.quiet": _quiet,
    "retention": _retention,
}


# -- what there was before the cluster ---------------------------------------------------------------------------------


def adopt(tx: Tx, number: int, now: datetime) -> int:
    """Note what is set in the database of which a cluster is made, so that those added later get it; return how much.

    It is older than every decision of the cluster.
    """
    mark = Portion()
    found = [
        SharedSetting(kind, name, FIRST_VERSION, number, value, actor, applied=mark.mark(kind))
        for kind, name, value, actor in _present(tx, now)
    ]
    for each in found:
        tx.settings.lock(each.kind, [each.name])
    tx.settings.put(*found)
    put_division(tx, number, Division(FIRST_VERSION, (number,), mark))
    return len(found)


def _present(tx: Tx, now: datetime) -> Iterator[tuple[Kind, str, dict[str, Any], str]]:
    for definition in tx.definitions.all():
        yield "definition", definition.name, definition_value(definition), definition.stored_by
    for queue in tx.queues.all():
        yield from _of_queue(queue)
    declared: dict[str, dict[str, LimitSource]] = {}
    for source in tx.limits.sources():
        if source.app == BY_HAND:
            yield "limit", source.name, {"is_set": True, "max_running": source.max_running}, ""
        else:
            declared.setdefault(source.app, {})[source.name] = source
    for app, sources in declared.items():
        yield "limits", app, limits_value(sources), ""
    for rule in tx.retention.all():
        value = retention_value(rule.keep, rule.queue or None, rule.outcome or None)
        yield "retention", retention_name(rule.queue, rule.outcome), value, rule.stored_by
    for calendar in tx.calendars.all():
        value = {"days": list(calendar.days), "title": calendar.title, "version": calendar.version}
        yield "calendar", calendar.name, value, ""
    for budget in tx.budgets.find(owner=SYSTEM, name=None, limit=MOST_BUDGETS):
        yield "budget", budget.id, budget_value(budget), budget.changed_by
    anything = {"handler": None, "seen_since": None, "before": None}
    for group in tx.error_groups.find(owner=SYSTEM, muted=True, now=now, limit=MOST_GROUPS, **anything):
        value = {"is_muted": True, "until": until_value(group.muted_until)}
        yield "mute", group.fingerprint, value, group.muted_by or ""


def _of_queue(queue: Queue) -> Iterator[tuple[Kind, str, dict[str, Any], str]]:
    if queue.paused_at is not None and queue.paused_by != quiet_queues.ACTOR:
        value = {"paused": True, "until": until_value(queue.paused_until)}
        yield "queue.pause", queue.name, value, queue.paused_by or ""
    if queue.quiet_hours is not None:
        value = {"quiet_hours": queue.quiet_hours, "zone": queue.quiet_zone}
        yield "queue.quiet", queue.name, value, ""
    if queue.order != "priority":
        yield "queue.order", queue.name, {"order": queue.order}, ""
    if queue.fair is not None:
        yield "queue.fair", queue.name, {"fair": queue.fair}, ""
