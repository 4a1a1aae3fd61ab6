"""``horae attention serve module:agent``: drive an agent until a signal; the lane is free for the next process then."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from horae.cli.failures import Exit
from horae.cli.logs import LogFormat, LogLevel, start_chosen_logging
from horae.cli.terminal import Terminal, command
from horae.cli.words import span
from horae.core.time.spans import span_from

if TYPE_CHECKING:
    import asyncio

    from horae.attention import Attention
    from horae.runtime.lanes.driver import LaneDriver


def register(group: typer.Typer) -> None:
    command(group, "serve", examples=("horae attention serve ops:agent", "horae attention serve ops:agent --grace 2m"))(
        serve
    )


def serve(
    terminal: Terminal,
    target: Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="Where the agent is, such as ops:agent.")],
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace", metavar="SPAN", help="How long a turn or action may take to end; else $HORAE_GRACE, else 30s."
        ),
    ] = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
) -> None:
    """Drive an agent until Ctrl-C or SIGTERM.

    Several processes may serve the same agent: one drives, the others stand by. A signal ends it at the next safe
    point, within the grace; a second one ends it at once. Either way the lane is given back, so that the next process
    need not wait for the lease to run out.
    """
    from horae.cli.process.foreground import run_to_its_end
    from horae.cli.process.targets import agent

    start_chosen_logging(terminal, log_format, log_level)
    found = agent(target, terminal.database)
    patience = terminal.settings.grace if grace is None else span_from(grace, "grace")
    found.app.wait_for_store()
    try:
        ended = run_to_its_end(terminal, AgentServing(terminal, found, patience).run())
    finally:
        found.app.close()
    if ended:
        raise typer.Exit(ended)


class AgentServing:
    """One driver of an agent, from its first step to the moment when the lane is given back."""

    def __init__(self, terminal: Terminal, agent: Attention, grace: timedelta) -> None:
        self.terminal, self.agent, self.grace = terminal, agent, grace
        self.signals = 0
        self._serving: asyncio.Task[None] | None = None

    async def run(self) -> Exit:
        """Serve until a signal; return the exit code that says why it ended."""
        import asyncio
        import signal

        from horae.runtime.systemd import READY, notify, supervised

        loop, driver = asyncio.get_running_loop(), self.agent.driver()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, driver, signal.Signals(number).name)
        self._serving = asyncio.create_task(driver.serve())
        self._report_start(driver)
        notify(READY, f"STATUS=serves {self.agent.name}")
        async with supervised(self.agent.world.clock):
            await asyncio.wait([self._serving])
        return self._report_end(driver)

    def _on_signal(self, driver: LaneDriver, name: str) -> None:
        """Stop at the next safe point; leave what goes on after the grace, or at a second signal, where it is."""
        import asyncio

        from horae.runtime.systemd import STOPPING, notify

        self.signals += 1
        assert self._serving is not None
        if self.signals > 1:
            self._serving.cancel()
            return
        notify(STOPPING)
        self.terminal.say(f"\n{name}: stops at the next safe point (within {span(self.grace)}); once more ends at once")
        self.terminal.event({"event": "stopping", "signal": name})
        driver.stop()
        asyncio.get_running_loop().call_later(self.grace.total_seconds(), self._serving.cancel)

    def _report_start(self, driver: LaneDriver) -> None:
        from horae.cli.process.targets import database_of

        agent, at = self.agent, database_of(self.agent.app)
        kinds = sorted(driver.spec.cognitions)
        self.terminal.say(f"agent {agent.name} of {agent.owner} on {at}, driver {driver.name}")
        self.terminal.say("  knows   " + (", ".join(kinds) or "no kind of task yet: declare one with @agent.cognition"))
        self.terminal.say(f"  lease {span(driver.spec.lease)}, grace {span(self.grace)}; Ctrl-C ends it in order")
        self.terminal.event(
            {"event": "started", "lane": agent.name, "owner": agent.owner, "driver": driver.name, "kinds": kinds}
        )

    def _report_end(self, driver: LaneDriver) -> Exit:
        assert self._serving is not None
        late = self._serving.cancelled()
        problem = None if late else self._serving.exception()
        if problem is not None:
            raise problem
        how = "in the middle of a step; its next driver decides" if late else "at a safe point"
        self.terminal.say(f"ended: {how}; lane {self.agent.name} is given back")
        self.terminal.event({"event": "ended", "lane": self.agent.name, "at_safe_point": not late})
        return Exit.OK
