"""A worker in the foreground: signals end it in order, a second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from horae.actions import jobs
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal
from horae.cli.words import span
from horae.core.jobs import CLOSED
from horae.ports import Filter
from horae.runtime.loop import Alarm
from horae.runtime.systemd import READY, STOPPING, notify, supervised
from horae.runtime.worker import Worker

SAME_PRESS = 0.3  # seconds: a shell or `make` may pass one Ctrl-C on twice
LOOK_EVERY = timedelta(milliseconds=200)


class Serving:
    """One worker, from its first claim to its last settlement."""

    def __init__(self, terminal: Terminal, worker: Worker, ending: Callable[[], None] | None = None) -> None:
        self.terminal = terminal
        self.worker = worker
        self.ending = ending  # told with the worker: whatever else this process does
        self.signals = 0
        self._asked_at = 0.0

    async def run(self, *, until_empty: bool = False, started: Callable[[], None] | None = None) -> Exit:
        """Serve until told to end; the exit code says why it ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told_to_end, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._told_to_reload)
        serving = asyncio.create_task(self.worker.run())
        watching = asyncio.create_task(self._until_empty()) if until_empty else None
        if started is not None:
            started()
        notify(READY, f"STATUS=serves {', '.join(self.worker.settings.queues)}")
        try:
            async with supervised(self.worker.world.clock):
                await serving
        finally:
            if watching is not None:
                watching.cancel()
        emptied = watching is not None and watching.done() and not watching.cancelled()
        self._tell_end()
        return Exit.OK if self.signals or emptied else Exit.TRY_AGAIN

    def _told_to_reload(self) -> None:
        self.terminal.say("SIGHUP: reads jobs.conf again")
        self.terminal.event({"event": "reloading"})
        self.worker.reload()

    def _told_to_end(self, name: str) -> None:
        asked_at = self.worker.world.clock.monotonic()
        if self.signals and asked_at - self._asked_at < SAME_PRESS:
            return
        self.signals += 1
        self._asked_at = asked_at
        if self.signals > 1:
            lease = span(self.worker.settings.lease)
            self.terminal.say(
                f"{name} again: ended at once; what was running is handed on when its lease ends ({lease})"
            )
            self.terminal.event({"event": "ended_at_once", "signal": name})
            os._exit(Exit.INTERRUPTED)
        notify(STOPPING)
        grace = span(self.worker.settings.grace)
        self.terminal.say(f"\n{name}: claims nothing more, finishes what runs (up to {grace}); once more ends at once")
        self.terminal.event({"event": "stopping", "signal": name})
        self.worker.stop()
        if self.ending is not None:
            self.ending()

    async def _until_empty(self) -> None:
        """Stop once the served queues hold neither waiting nor running jobs that a worker of the house may run."""
        alarm = Alarm(self.worker.world.clock)
        while not await asyncio.to_thread(self._is_empty):
            await alarm.sleep(None, LOOK_EVERY)
        self.worker.stop()

    def _is_empty(self) -> bool:
        wanted = Filter(states=("queued", "running"), not_held=(CLOSED,))
        live = (replace(wanted, queue=queue) for queue in self.worker.settings.queues)
        return not any(jobs.find(self.worker.world, each, limit=1) for each in live)

    def _tell_end(self) -> None:
        counts = dict(self.worker.counts)
        told = ", ".join(f"{number} {ending}" for ending, number in sorted(counts.items())) or "nothing ran"
        self.terminal.say(f"ended: {told}")
        self.terminal.event({"event": "ended", "runs": counts})
