"""Whether the databases of a cluster answer and agree about the map."""

from __future__ import annotations

from collections.abc import Iterator

from horae.actions import cluster
from horae.clock import clock_of
from horae.doctor.findings import Finding, Installation, ok, problem
from horae.stores.cluster.opening import with_cluster
from horae.stores.store import SqlStore


def cluster_members(store: SqlStore, installation: Installation) -> Iterator[Finding]:
    """Ask each database of the cluster; nothing to say where there is none."""
    if installation.world is None:
        return
    settings = installation.settings
    world = with_cluster(
        installation.world,
        store,
        urls=settings.cluster_urls,
        make_clock=lambda each: clock_of(each, fix=False),
        timeouts=settings.timeouts,
    )
    if world.cluster is None:
        return
    try:
        state = cluster.look(world)
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
    if state.is_well:
        yield ok("cluster", "cluster_well", count=len(state.members), version=state.version)
