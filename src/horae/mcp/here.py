"""What a server knows: its world, its lane, its caller, the durability of a commit, and its lane sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp.server.auth.middleware.auth_context import get_access_token

from horae.api.attention.room import Attention
from horae.api.governance.decisions import Decisions
from horae.api.governance.objects import Objects
from horae.api.here import Here as Behalf
from horae.api.here import Origin, house, tenant
from horae.api.operation import Sender
from horae.api.schedules.room import Schedules
from horae.api.senders.local import Local
from horae.core.access.callers import Caller
from horae.core.attention.lanes import lane_name
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.errors import Unauthorized
from horae.mcp.lane_sessions import LaneSessions
from horae.ports import World

LANE = "main"
LONGEST_AGENT = 100
AGENTS = Origin("mcp")
COMMITTED = "committed to the database before this reply; it survives a restart of this server and of its host"


@dataclass(frozen=True, slots=True)
class Who:
    """The owner and the actor on whose behalf a call is made."""

    owner: str
    actor: str


def by_token() -> Who:
    """Return the caller that the HTTP token names; refuse a call without one, whatever let it through."""
    token = get_access_token()
    if token is None or token.subject is None:
        raise Unauthorized("mcp_token_missing")
    return Who(token.subject, token.client_id)


@dataclass(frozen=True)
class Here:
    """One server: the lane of that name, for each owner that calls."""

    world: World
    lane: str
    who: Callable[[], Who]
    sessions: LaneSessions
    durability: str = COMMITTED
    is_alone: bool = True  # whether all calls come from one owner, so that updates may be announced to all

    @property
    def attention(self) -> Attention[Sender]:
        """The attention room of the owner that calls; as an agent's, it cannot approve."""
        who = self.who()
        return self._room(tenant(who.owner, who.actor))

    @property
    def all_attention(self) -> Attention[Sender]:
        """The attention room of an operator, who approves."""
        return self._room(house(self.who().actor))

    def schedules(self, origin: Origin = AGENTS) -> Schedules[Sender]:
        """Return the schedules room, in which every call must name the owner.

        An agent's token has no scope for it: the server acts for the agent, within what its tools allow.
        """
        caller = house(self.who().actor)
        return Schedules(Local(lambda: Behalf(self.world, caller, origin=origin)))

    @property
    def decisions(self) -> Decisions[Sender]:
        """The decisions of the owner that calls, as an agent's."""
        who = self.who()
        return Decisions(Local(lambda: Behalf(self.world, tenant(who.owner, who.actor))))

    @property
    def objects(self) -> Objects[Sender]:
        """What the owner that calls remembers, as an agent's."""
        who = self.who()
        return Objects(Local(lambda: Behalf(self.world, tenant(who.owner, who.actor))))

    @property
    def agent(self) -> str:
        """The name under which this server's agent decides: that of its lane."""
        return self.lane if len(self.lane) <= LONGEST_AGENT else EVERY_AGENT

    def _room(self, caller: Caller) -> Attention[Sender]:
        return Attention(Local(lambda: Behalf(self.world, caller)))

    @classmethod
    def for_one(
        cls, world: World, lane: str = LANE, *, owner: str = SYSTEM, actor: str = "mcp", durability: str = COMMITTED
    ) -> Here:
        """Return a server over stdio, which acts for the user that started it."""
        who = Who(label(owner, "owner"), actor)
        return cls(world, lane_name(lane), lambda: who, LaneSessions(world), durability)

    @classmethod
    def for_many(cls, world: World, lane: str = LANE, *, durability: str = COMMITTED) -> Here:
        """Return a server over HTTP: one session for each owner, given up when its owner has been silent for long."""
        return cls(world, lane_name(lane), by_token, LaneSessions(world, lets_go=True), durability, is_alone=False)
