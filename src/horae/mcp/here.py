"""What a server knows: its world, its lane, its caller, the durability of a commit, and its lane sessions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import field

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from horae.api.attention.room import Attention
from horae.api.governance.decisions import Decisions
from horae.api.governance.objects import Objects
from horae.api.here import Here as Behalf
from horae.api.here import Origin, house, tenant
from horae.api.operation import Sender
from horae.api.queues import Workers
from horae.api.schedules.room import Schedules
from horae.api.senders.local import Local
from horae.core.access.callers import Caller
from horae.core.attention.lanes import lane_name
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.errors import TooManyRequests, Unauthorized
from horae.mcp.lane_sessions import LaneSessions
from horae.ports.world import World
from horae.service.auth.validity import Watch

LANE = "main"
LONGEST_AGENT = 100
AGENTS = Origin("mcp")
MOST_WAITING = 10  # calls of one owner held open at a time; each looks at the lane whenever it changes
MOST_TASKS = 200  # of one lane that have not ended: an agent that adds them in a loop does not fill the store
COMMITTED = "committed to the database before this reply; it survives a restart of this server and of its host"


@dataclass(frozen=True, slots=True)
class Who:
    """The owner and the actor on whose behalf a call is made."""

    owner: str
    actor: str


class KnownUser(AuthenticatedUser):
    """The caller of an HTTP request, where the SDK looks for one."""

    def __init__(self, caller: Caller) -> None:
        scopes = sorted(caller.scopes)
        super().__init__(AccessToken(token="", client_id=caller.actor, scopes=scopes, subject=caller.owner))
        self.caller = caller


def known_caller() -> Caller | None:
    """Return the caller whose HTTP request is being answered; None over stdio."""
    user = auth_context_var.get()
    return user.caller if isinstance(user, KnownUser) else None


def by_token() -> Who:
    """Return the caller that the HTTP token names; refuse a call without one, whatever let it through."""
    caller = known_caller()
    if caller is None:
        raise Unauthorized("mcp_token_missing")
    return Who(caller.owner, caller.actor)


@dataclass(frozen=True)
class Here:
    """One server: the lane of that name, for each owner that calls."""

    world: World
    lane: str
    who: Callable[[], Who]
    sessions: LaneSessions
    durability: str = COMMITTED
    is_alone: bool = True  # whether all calls come from one owner, so that updates may be announced to all
    watch: Watch = field(default_factory=Watch)
    waits: Counter[str] = field(default_factory=Counter)  # calls held open, by owner
    held: set[Callable[[], None]] = field(default_factory=set)  # what lets each of them answer now

    @contextmanager
    def waiting(self, end: Callable[[], None], answer: Callable[[], None]) -> Iterator[None]:
        """Hold a call open; *end* is called on its loop once its token is not valid any more, *answer* at a stop."""
        owner, loop = self.who().owner, asyncio.get_running_loop()
        if self.waits[owner] >= MOST_WAITING:
            raise TooManyRequests("too_many_calls_wait", 5.0, most=MOST_WAITING)

        def end_from_elsewhere() -> None:
            with suppress(RuntimeError):  # the loop has ended, and the call with it
                loop.call_soon_threadsafe(end)

        caller = known_caller()
        watched = nullcontext() if caller is None else self.watch.watching(self.world, caller, end_from_elsewhere)
        self.waits[owner] += 1
        self.held.add(answer)
        try:
            with watched:
                yield
        finally:
            self.held.discard(answer)
            self.waits[owner] -= 1

    def answer_waiting(self) -> None:
        """Let every call that waits answer now, because the server stops; from its loop."""
        for answer in tuple(self.held):
            answer()

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
    def has_worker(self) -> bool:
        """Whether a worker runs that would fire a schedule."""
        caller = house(self.who().actor)
        workers: Workers[Sender] = Workers(Local(lambda: Behalf(self.world, caller)))
        return any(each.state == "running" for each in workers.list())

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
        return Attention(Local(lambda: Behalf(self.world, caller, max_live_tasks=MOST_TASKS)))

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
