"""Agents in the lab: the real driver without threads of its own, under virtual time, with deaths at named points."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, get_args

from horae.actions.attention import lanes
from horae.actions.attention.lanes import Drive
from horae.actions.attention.queries import find_holder
from horae.actions.attention.turns import ActionResult, Perform, Think, Work
from horae.attention import Attention
from horae.ports.world import World
from horae.runtime.lanes.driver import LaneDriver
from horae.runtime.lanes.spec import AgentSpec, Bill

T = TypeVar("T")
AgentPoint = Literal["think.before", "decide.before", "act.before", "facts.before"]
AGENT_POINTS: tuple[AgentPoint, ...] = get_args(AgentPoint)
NOTICE = timedelta(microseconds=1)  # a lease counts up to and including its end


class Crash(BaseException):
    """The process of an agent is gone; no code of the agent or of Horae tidies up."""


class LabDriver(LaneDriver):
    """A driver that does one thing after another on the lab's own thread, keeps its lease, and dies when it is told.

    A plain function of the agent still runs in a thread, because it may block; nothing else happens meanwhile.
    """

    def __init__(self, world: World, spec: AgentSpec, name: str, dies_at: Callable[[AgentPoint], bool]) -> None:
        super().__init__(world, spec, name)
        self._dies_at = dies_at

    async def step(self) -> bool:
        if self.drive is not None:  # in virtual time this process has lived all the while, and renewed its lease
            lanes.renew(self.world, self.drive, self.spec.lease)
        return await super().step()

    def keep(self, drive: Drive) -> None:
        """Leave the lease to :meth:`step`: a thread would renew it in real time."""

    async def _ask(self, work: Callable[[], T], limit: timedelta | None = None) -> T:
        return work()

    async def _think(self, think: Think) -> Work | None:
        self._die_at("think.before")
        return await super()._think(think)

    async def _call(self, name: str, work: Callable[[], Any], limit: timedelta) -> Any:
        answer = await super()._call(name, work, limit)
        if name.startswith("cognition "):
            self._die_at("decide.before")
        return answer

    async def _perform(self, perform: Perform) -> None:
        self._die_at("act.before")
        await super()._perform(perform)

    async def _write_facts(
        self,
        drive: Drive,
        perform: Perform,
        found: ActionResult | Callable[[Any], ActionResult],
        bill: Bill,
        limit: timedelta | None = None,
    ) -> None:
        if callable(found):
            await super()._write_facts(drive, perform, self._dying(found), bill, limit)
            return
        self._die_at("facts.before")
        await super()._write_facts(drive, perform, found, bill, limit)

    def _dying(self, action: Callable[[Any], ActionResult]) -> Callable[[Any], ActionResult]:
        """Return a transactional action that may die after it has written, inside its transaction."""

        def run(connection: Any) -> ActionResult:
            result = action(connection)
            self._die_at("facts.before")
            return result

        return run

    def _die_at(self, point: AgentPoint) -> None:
        if self._dies_at(point):
            raise Crash(point)


class AttendedAgent:
    """One agent that the lab drives, from one process to the next."""

    def __init__(self, world: World, agent: Attention, dies_at: Callable[[str, AgentPoint], bool]) -> None:
        self.agent = agent
        self._world, self._dies_at = world, dies_at
        self._driver: LabDriver | None = None
        self._processes = 0

    async def step(self) -> bool:
        """Do one thing, if there is one to do now; the process may die of it."""
        driver = self._driver or self._start()
        try:
            return await driver.step()
        except Crash:
            self._driver = None
            return True

    def _start(self) -> LabDriver:
        self._processes += 1
        name, spec = f"lab-{self._processes}", self.agent.driver("lab").spec
        self._driver = LabDriver(self._world, spec, name, lambda point: self._dies_at(self.agent.name, point))
        return self._driver

    def next_instant(self) -> datetime | None:
        """Return when the lease of a process that died ends, for then another one takes the lane."""
        if self._driver is not None and self._driver.drive is not None:
            return None
        holder = find_holder(self._world, self.agent.name, owner=self.agent.owner)
        return None if holder is None else holder.leased_until + NOTICE

    async def close(self) -> None:
        if self._driver is not None:
            await self._driver.close()
