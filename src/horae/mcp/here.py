"""What a server knows: its world, its lane, who calls, what a commit is worth; and the seats it drives lanes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp.server.auth.middleware.auth_context import get_access_token

from horae.api.attention.room import Attention
from horae.api.here import Here as Behalf
from horae.api.here import house, tenant
from horae.api.operation import Sender
from horae.api.senders.local import Local
from horae.core.access.callers import Caller
from horae.core.attention.lanes import lane_name
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.errors import Unauthorized
from horae.mcp.lane_sessions import LaneSessions
from horae.ports import World

LANE = "main"
COMMITTED = "committed to the database before this reply; it survives a restart of this server and of its host"


@dataclass(frozen=True, slots=True)
class Who:
    """On whose behalf a call is made."""

    owner: str
    actor: str


def by_token() -> Who:
    """Over HTTP the token says who calls; without one nothing is done, whatever let the call through."""
    found = get_access_token()
    if found is None or found.subject is None:
        raise Unauthorized("Nobody was recognised. Send a token: Authorization: Bearer horae_…")
    return Who(found.subject, found.client_id)


@dataclass(frozen=True)
class Here:
    """One server: the lane of that name, for each owner that calls."""

    world: World
    lane: str
    who: Callable[[], Who]
    sessions: LaneSessions
    durability: str = COMMITTED
    is_alone: bool = True  # whether all calls come from one owner, so that updates may be told to all

    @property
    def attention(self) -> Attention[Sender]:
        """The attention room of the owner that calls: an agent's, from where no approval is within reach."""
        who = self.who()
        return self._room(tenant(who.owner, who.actor))

    @property
    def all_attention(self) -> Attention[Sender]:
        """The attention room of an operator, who approves."""
        return self._room(house(self.who().actor))

    def _room(self, caller: Caller) -> Attention[Sender]:
        return Attention(Local(lambda: Behalf(self.world, caller)))

    @classmethod
    def for_one(
        cls, world: World, lane: str = LANE, *, owner: str = SYSTEM, actor: str = "mcp", durability: str = COMMITTED
    ) -> Here:
        """Over stdio: whoever started the server."""
        who = Who(label(owner, "owner"), actor)
        return cls(world, lane_name(lane), lambda: who, LaneSessions(world), durability)

    @classmethod
    def for_many(cls, world: World, lane: str = LANE, *, durability: str = COMMITTED) -> Here:
        """Over HTTP: one seat for each owner, given up when its owner has been silent for long."""
        return cls(world, lane_name(lane), by_token, LaneSessions(world, lets_go=True), durability, is_alone=False)
