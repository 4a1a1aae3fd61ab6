"""Leases as people see them: they end by the clock on the wall, though they are kept on a line that nobody can set."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from horae.core.jobs import Job
from horae.core.lanes import Lane
from horae.ports import World

L = TypeVar("L", Job, Lane)


def on_clock(world: World, leased: L) -> L:
    """The same job or lane, with the end of its lease by the clock that people read."""
    until = world.on_clock(leased.leased_until)
    return leased if until == leased.leased_until else replace(leased, leased_until=until)
