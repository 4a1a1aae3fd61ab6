"""The verbs of running limits: how many jobs run at once over all, in a group or in a queue (S3-53)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from horae.core.audit.entries import Entry
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.running_limits import (
    BY_HAND,
    QUEUE,
    LimitSource,
    RunningLimit,
    check_limit_name,
    check_max_running,
)
from horae.ports.store import Tx
from horae.ports.world import World


def set_limit(
    world: World, name: str, max_running: int | None, *, actor: str = SYSTEM, reason: str = ""
) -> RunningLimit:
    """Let at most so many jobs run at once, whatever file and code say; None lifts the limit."""
    return set_share(world, name, None if max_running is None else check_max_running(max_running), actor, reason)


def set_share(world: World, name: str, max_running: int | None, actor: str, reason: str) -> RunningLimit:
    """Set the share of one database of a cluster; it is 0 while others have not lowered theirs."""
    check_limit_name(name)
    source = LimitSource(name, BY_HAND, "api", max_running)
    after = world.route().store.transact(lambda tx: write_source(world, tx, name, BY_HAND, source, actor, reason))
    world.route().store.wake(["*"])
    return after


def reset_limit(world: World, name: str, *, actor: str = SYSTEM, reason: str = "") -> RunningLimit:
    """Forget what was set through a verb: file and code decide again."""
    check_limit_name(name)
    after = world.route().store.transact(lambda tx: write_source(world, tx, name, BY_HAND, None, actor, reason))
    world.route().store.wake(["*"])
    return after


def list_limits(world: World) -> list[RunningLimit]:
    """Return every limit by name, with its sources and how many jobs run under it."""

    def read(tx: Tx) -> list[RunningLimit]:
        sources, running = tx.limits.sources(), tx.limits.running()
        names = sorted({each.name for each in sources})
        return [_limit(name, [each for each in sources if each.name == name], running) for name in names]

    return world.route().store.read(read)


def declare_limits(world: World, app: str, declared: Mapping[str, LimitSource]) -> list[str]:
    """Store the limits that an application declares, remove those it no longer declares, return the changed names.

    What was set through a verb stays, and so does what other applications declare. In a cluster every database gets
    its share.
    """
    if world.cluster is not None:
        from horae.actions.settings.limits import decide_declared  # a single database does not need it

        return decide_declared(world, app, declared)
    return store_declared(world, app, declared)


def store_declared(world: World, app: str, declared: Mapping[str, LimitSource]) -> list[str]:
    """Store the limits of an application in one database; return the changed names."""
    before = {each.name: each for each in world.route().store.read(lambda tx: tx.limits.sources(app=app))}
    changed = sorted(name for name in {*before, *declared} if before.get(name) != declared.get(name))

    def write(tx: Tx) -> None:
        for name in changed:  # in one order, so that two starts do not wait for each other
            write_source(world, tx, name, app, declared.get(name), "system/start", "")

    if changed:
        world.route().store.transact(write)
        world.route().store.wake(["*"])
    return changed


def write_source(
    world: World, tx: Tx, name: str, app: str, source: LimitSource | None, actor: str, reason: str
) -> RunningLimit:
    """Store one source of a limit (None removes it), update the effective limit, and write an audit entry."""
    tx.limits.lock(name)
    before = RunningLimit(name, tuple(tx.limits.sources(name)))
    if source is None:
        tx.limits.remove_source(name, app)
    else:
        tx.limits.put_source(source)
    after = _limit(name, tx.limits.sources(name), tx.limits.running())
    if after.max_running != before.max_running:
        tx.limits.apply(name, after.max_running)
    if replace(after, running=0) != before:
        tx.audit.append(_entry(world, before, after, actor, reason))
    return after


def _limit(name: str, sources: list[LimitSource], running: Mapping[str, int]) -> RunningLimit:
    return RunningLimit(name, tuple(sources), running.get(name, 0))


def _entry(world: World, before: RunningLimit, after: RunningLimit, actor: str, reason: str) -> Entry:
    name = after.name
    kind, about = ("queue", name.removeprefix(QUEUE)) if name.startswith(QUEUE) else ("limit", name)
    old, new = ({"max_running": each.max_running, "source": each.source} for each in (before, after))
    return Entry(world.clock.now(), actor, "limit", kind, about, reason=reason or None, before=old, after=new)
