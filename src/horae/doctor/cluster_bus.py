"""Whether every database of a cluster notes and publishes its events, and has a relay where jobs are dispatched."""

from __future__ import annotations

from collections.abc import Iterator

from horae.actions.bus import look_everywhere
from horae.actions.shards import members
from horae.core.time.instants import iso
from horae.doctor.findings import Finding, Installation, ok, problem
from horae.doctor.work import LATE
from horae.ports.world import World


def bus_members(world: World, installation: Installation) -> Iterator[Finding]:
    """Look at the bus in each database; one that is away is named by the check of the cluster itself."""
    found, _ = look_everywhere(world)
    is_on = any(each.status.enabled for each in found)
    keeping, trouble = {each.name for each in members(world)}, False  # in one that was drained there are no jobs
    for each in found:
        name, status = each.name or "", each.status
        missing = status.missing or (("all of them",) if is_on and not status.enabled else ())
        if missing:
            yield problem("bus", "cluster_bus_incomplete", "horae bus on", name=name, names=", ".join(missing))
        elif status.oldest_at is not None and each.is_behind(installation.now - LATE):
            yield problem("bus", "cluster_bus_behind", "horae bus status", name=name, count=status.waiting,
                          since=iso(status.oldest_at))  # fmt: skip
        if installation.settings.nats_dispatch and each.relay is None and name in keeping:
            yield problem("dispatch", "cluster_dispatch_missing", "horae bus status", name=name)
            trouble = True
        trouble = trouble or bool(missing) or each.is_behind(installation.now - LATE)
    if not trouble and (is_on or installation.settings.nats_dispatch):
        yield ok("bus", "cluster_bus_well", count=len(found))
