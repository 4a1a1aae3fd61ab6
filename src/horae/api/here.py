"""The world and the caller with which an operation runs in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from horae.core.access.callers import SCOPES, Caller, Reach
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM

if TYPE_CHECKING:
    from horae.actions.jobs.quotas import RoomLeft
    from horae.core.scheduled_tasks.task import Terms
    from horae.ports.access import Sealer
    from horae.ports.world import World


def no_sealer() -> Sealer | None:
    """Return no sealer: without a key no secrets can be kept."""
    return None


def usual_terms() -> Terms:
    """Return the default terms of users' tasks."""
    from horae.core.jobs.job import WEBHOOK
    from horae.core.scheduled_tasks.task import ATTEND, DISPATCH, Terms

    return Terms(handlers=(DISPATCH, WEBHOOK, ATTEND))


ShowSettings = Callable[[], Iterable[Any]]  # returns name, variable, value without secrets, origin and help of each
Doctor: TypeAlias = "Callable[[World], Any]"  # returns findings, whether all checks were made, and when


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of new schedules, and their limit."""

    source: str = "api"  # stored as the source of each value that is not the default
    sources: Mapping[str, str] = field(default_factory=dict)  # stored as they are, besides
    most: int = 0  # of one owner and handler, each key used once for ever; 0 means no limit, and keys are used again


@dataclass(frozen=True, slots=True)
class Here:
    """A world, and the caller on whose behalf its verbs act."""

    world: World
    caller: Caller
    max_unfinished_jobs: int = 0  # of a tenant; 0 means no limit
    terms: Callable[[], Terms] = usual_terms  # the operator's terms of users' tasks; called only by their verbs
    sealer: Callable[[], Sealer | None] = no_sealer  # called only when a secret is to be sealed
    origin: Origin = Origin()  # of schedules that are made from here
    queue: str = "governance"  # into which the jobs of objects go that are proposed from here
    doctor: Doctor | None = None  # examines the installation; None where this process does not offer that
    settings: ShowSettings | None = None  # the settings of this process; None where it does not offer that
    max_live_tasks: int = 0  # of a lane, for tasks that are added from here; 0 means no limit
    everywhere: World | None = None  # the world of the cluster, where *world* is one of its databases
    room_left: RoomLeft | None = None  # what is known about the room of tenants; None: it is counted each time

    @property
    def actor(self) -> str:
        """The name that the audit records."""
        return self.caller.actor

    @property
    def owner(self) -> str:
        """The owner of what the caller creates."""
        return self.caller.owner

    @property
    def reach(self) -> Reach:
        """The owner and the queues to which the caller's view is limited."""
        return self.caller.reach


def house(actor: str) -> Caller:
    """Return a caller that acts for the house and sees everything."""
    return Caller(SYSTEM, frozenset(SCOPES), actor)


def tenant(owner: str, actor: str) -> Caller:
    """Return a caller that acts for one tenant and sees nothing else."""
    return Caller(owner, frozenset({"tasks", "worker", "read"}), actor)
