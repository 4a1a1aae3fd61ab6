"""``horae reload module:app``: take over a changed jobs.conf, on all hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from horae.cli.installation.check import Config, Target, load_application
from horae.cli.terminal import Terminal, command

if TYPE_CHECKING:
    from horae.ports.world import World


def register(app: typer.Typer) -> None:
    command(app, "reload")(reload)


def reload(terminal: Terminal, target: Target = None, config: Config = None) -> None:
    """Bring the store in line with the code and jobs.conf, now.

    Schedules live in the store, so that one reload is enough for all hosts: every worker follows by itself. What was
    changed through the API or `horae schedule` stays. A running worker does the same on SIGHUP.
    """
    from horae.actions.schedules import declared

    with load_application(terminal, target, config, "reload") as app:
        plan = app.plan()
        keys = [schedule.key for schedule in plan.schedules]
        before, limits = declared.find_stored(app.world, keys), _limits(app.world)
        declared.bring_in_line(app.world, plan)
        after, limits_now = declared.find_stored(app.world, keys), _limits(app.world)
    changes = [_change(before.get(key), row) for key, row in after.items() if _version(before.get(key)) != row.version]
    lines = [f"{each['key']}: {', '.join(each['changed']) or 'new'}" for each in changes]
    moved = {name: limits_now.get(name) for name in limits | limits_now if limits.get(name) != limits_now.get(name)}
    lines += [f"limit {name}: {limits.get(name) or 'none'} → {most or 'none'}" for name, most in sorted(moved.items())]
    lines.append(f"{len(changes)} of {len(keys)} schedules changed")
    terminal.result({"reload": {"schedules": len(keys), "changes": changes, "limits": moved}}, "\n".join(lines))


def _limits(world: World) -> dict[str, int | None]:
    from horae.actions.jobs.running_limits import list_limits

    return {each.name: each.max_running for each in list_limits(world)}


def _version(schedule: Any) -> int:
    return 0 if schedule is None else int(schedule.version)


def _change(before: Any, after: Any) -> dict[str, Any]:
    from horae.actions.schedules.entries import schedule_dict

    if before is None:
        return {"key": after.key, "new": True, "changed": []}
    old, new = schedule_dict(before), schedule_dict(after)
    system = ("version", "next_fire_at")
    changed = [f"{name} {old[name]} → {new[name]}" for name in new if old[name] != new[name] and name not in system]
    if before.inactive != after.inactive:
        changed.append(f"inactive: {after.inactive}" if after.inactive else "active again")
    return {"key": after.key, "new": False, "changed": changed or ["where its values come from"]}
