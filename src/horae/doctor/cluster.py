"""Whether the databases of a cluster answer and agree about the map."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from horae.actions import cluster
from horae.actions.jobs.reasons import SILENT
from horae.actions.settings.catching_up import find_lagging
from horae.clock import clock_of
from horae.core.cluster.assignment import CHOICE
from horae.core.dataclass import dataclass
from horae.doctor.cluster_bus import bus_members
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
        on_bus = list(bus_members(world, installation))
    finally:
        world.store.close()
    yield from on_bus
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
    for name, queues in unserved:
        if queues:
            yield problem("cluster", "cluster_queues_unserved", "horae worker MODULE:APP", name=name, queues=queues)
        else:
            yield problem("cluster", "cluster_member_unserved", "horae worker MODULE:APP", name=name)
    for name, count in lagging.items():
        yield problem("cluster", "cluster_settings_behind", "horae cluster check --repair", name=name, count=count)
    if state.is_well and not unserved and not late and not lagging:
        yield ok("cluster", "cluster_well", count=len(state.members), version=state.version)


@dataclass(frozen=True, slots=True)
class Served:
    """The queues that live workers serve in a database, and whether jobs have been due there for long."""

    name: str
    queues: frozenset[str]
    is_late: bool


def _find_unserved(world: World, state: cluster.ClusterState, now: datetime) -> list[tuple[str, list[str]]]:
    """Return the databases that keep something and are not served, each with the queues that are served elsewhere.

    Where there are none such queues no worker lives at all, and jobs wait.
    """
    assert world.cluster is not None
    kept = [each for each in state.members if each.vshards]
    has_leases, found = len([each for each in state.members if each.takes_shards]) > CHOICE, []
    for each in kept:
        if each.problem is None:
            shard = world.cluster.whole(world, each.number)
            found.append(_look(shard, each.name, now, has_leases=has_leases))
    anywhere = frozenset[str]().union(*(each.queues for each in found))
    return [
        (each.name, sorted(anywhere - each.queues))
        for each in found
        if anywhere - each.queues or (each.is_late and not each.queues)
    ]


def _look(shard: World, name: str, now: datetime, *, has_leases: bool) -> Served:
    """Read who serves a database: by their leases in a cluster of many, else by their heartbeats."""

    def read(tx: Tx) -> Served:
        steady = shard.clock.steady()
        if has_leases:
            queues = {each.queue for each in tx.cluster.holdings() if each.leased_until > steady}
        else:
            nodes = [each for each in tx.nodes.all() if each.seen_at > now - SILENT]
            queues = {queue for each in nodes for queue in each.queues if each.serves(queue)}
        is_late = any(each.oldest < now - PATIENCE for each in due_in_open_queues(tx, now))
        return Served(name, frozenset(queues), is_late)

    return shard.route().store.read(read)
