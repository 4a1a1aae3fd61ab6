"""Whether the databases of a cluster answer and agree about the map."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from horae.actions import cluster
from horae.actions.jobs.reasons import SILENT
from horae.actions.settings.catching_up import find_lagging
from horae.clock import clock_of
from horae.doctor.findings import Finding, Installation, ok, problem
from horae.doctor.work import PATIENCE, due_in_open_queues
from horae.errors import ConfigurationError
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.cluster.opening import with_cluster
from horae.stores.store import SqlStore

LATE = cluster.UNDELIVERED.total_seconds()


def cluster_members(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Ask each database of the cluster; nothing to say where there is none."""
    if installation.world is None:
        return
    settings = installation.settings
    try:
        world = with_cluster(
            installation.world,
            store,
            urls=settings.cluster_urls,
            make_clock=lambda each: clock_of(each, fix=False),
            timeouts=settings.timeouts,
        )
    except ConfigurationError as held:
        mend = "horae cluster restored --db URL"
        yield problem("cluster", "cluster_member_away", mend, name="of HORAE_DATABASE_URL", problem=str(held))
        return
    if world.cluster is None:
        return
    try:
        state = cluster.look(world)
        unserved = _find_unserved(world, state, installation.now)
        lagging = find_lagging(world)
    finally:
        world.store.close()
    for each in state.members:
        if each.problem is not None:
            yield problem("cluster", "cluster_member_away", "horae cluster check", name=each.name, problem=each.problem)
        elif each.version != state.version:
            yield problem("cluster", "cluster_member_behind", "horae cluster check --repair", name=each.name,
                          version=each.version or 0, newest=state.version)  # fmt: skip
        elif each.moving:
            yield problem("cluster", "cluster_member_moving", "horae cluster list", name=each.name, count=each.moving)
    late = [(each.name, left) for each in state.members for left in each.undelivered if left.age > LATE]
    for name, left in late:
        yield problem("cluster", "cluster_undelivered", "horae cluster check", name=name, to=left.to,
                      count=left.count, age=f"{left.age:.0f} s")  # fmt: skip
    for name in unserved:
        yield problem("cluster", "cluster_member_unserved", "horae worker MODULE:APP", name=name)
    for name, count in lagging.items():
        yield problem("cluster", "cluster_settings_behind", "horae cluster check --repair", name=name, count=count)
    if state.is_well and not unserved and not late and not lagging:
        yield ok("cluster", "cluster_well", count=len(state.members), version=state.version)


def _find_unserved(world: World, state: cluster.ClusterState, now: datetime) -> list[str]:
    """Return the databases that keep something that no live worker serves, while one serves another or jobs wait."""
    assert world.cluster is not None
    served, idle, waiting = False, [], False
    for each in state.members:
        if each.problem is None and each.vshards:
            alive, due = world.cluster.store_of(each.number).read(lambda tx: _look(tx, now))
            served, waiting = served or alive, waiting or (due and not alive)
            idle += [] if alive else [each.name]
    return idle if served or waiting else []


def _look(tx: Tx, now: datetime) -> tuple[bool, bool]:
    """Return whether a live worker serves this database, and whether jobs have been due there for long."""
    alive = any(node.seen_at > now - SILENT for node in tx.nodes.all())
    return alive, any(each.oldest < now - PATIENCE for each in due_in_open_queues(tx, now))
