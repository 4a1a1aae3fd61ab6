"""A worker in the foreground: signals end it in order, a second one ends it at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

from horae.actions.jobs.leftovers import are_sent, find_stuck, may_move
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal
from horae.cli.words import count, span
from horae.core.cluster.numbers import job_id
from horae.core.governance.objects import GOVERNANCE
from horae.errors import StoreError
from horae.runtime.loop import Alarm
from horae.runtime.systemd import READY, STOPPING, notify, supervised
from horae.runtime.worker.worker import Worker

log = logging.getLogger("horae.worker")
LAST_WORDS = 2.0  # seconds for giving back, when a second signal ends the worker at once
SAME_PRESS = 0.3  # seconds: a shell or `make` may pass one Ctrl-C on twice
LOOK_EVERY = timedelta(milliseconds=200)
DECLARED_WITHIN = 60.0  # seconds for the declared jobs to be stored, before an empty queue is believed to be empty
MOST_READ, MOST_NAMED = 1000, 5


class Serving:
    """One worker, from its first claim to its last settlement."""

    def __init__(self, terminal: Terminal, worker: Worker, ending: Callable[[], None] | None = None) -> None:
        self.terminal = terminal
        self.worker = worker
        self.ending = ending  # called when the worker is stopped: ends what else this process does
        self.signals = 0
        self._asked_at = 0.0
        self._left: list[tuple[int, int]] = []  # jobs that wait for ever, each with the one that it waits for

    async def run(self, *, until_empty: bool = False, started: Callable[[], None] | None = None) -> Exit:
        """Serve until a signal or a break; return the exit code that says why it ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
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
        self._report_end()
        return Exit.OK if self.signals or emptied or self.worker.has_left else Exit.TRY_AGAIN

    def _on_hangup(self) -> None:
        self.terminal.say("SIGHUP: reads jobs.conf again")
        self.terminal.event({"event": "reloading"})
        self.worker.reload()

    def _on_signal(self, name: str) -> None:
        asked_at = self.worker.world.clock.monotonic()
        if self.signals and asked_at - self._asked_at < SAME_PRESS:
            return
        self.signals += 1
        self._asked_at = asked_at
        if self.signals > 2:  # it is about to end, within moments
            return
        if self.signals > 1:
            self.terminal.say(f"{name} again: gives back what runs, and ends at once")
            self.terminal.event({"event": "ended_at_once", "signal": name})
            end_at_once(self.worker)
            return
        notify(STOPPING)
        grace = span(self.worker.settings.grace)
        self.terminal.say(f"\n{name}: claims nothing more, finishes what runs (up to {grace}); once more ends at once")
        self.terminal.event({"event": "stopping", "signal": name})
        self.worker.stop()
        if self.ending is not None:
            self.ending()

    def end_quietly(self) -> None:
        """End in order, as a first signal does, without a word: the caller has said so."""
        if not self.signals:
            self.signals = 1
            self.worker.stop()

    async def _until_empty(self) -> None:
        """Stop once the served queues hold neither running jobs nor any that may run without help."""
        alarm = Alarm(self.worker.world.clock)
        served = list(self.worker.settings.queues)
        queues = [each for each in served if each != GOVERNANCE] or served  # what is remembered never ends to come due
        worker = self.worker
        clock = worker.world.clock
        known_by = clock.monotonic() + DECLARED_WITHIN  # jobs of tenants are held until the store knows what may run
        while True:
            is_known = worker.declared.in_line or clock.monotonic() > known_by  # first: what it lets in may run
            if not await self._may_go_on(queues) and is_known:
                break
            await alarm.sleep(None, LOOK_EVERY)
        with suppress(StoreError):
            self._left = await worker.database.call(
                lambda: [each for world in worker.worlds() for each in find_stuck(world, queues, limit=MOST_READ)]
            )
        self.worker.stop()

    async def _may_go_on(self, queues: list[str]) -> bool:
        try:
            return await self.worker.database.call(lambda: self._has_more(queues))
        except StoreError:  # a store that does not answer is not empty
            return True

    def _has_more(self, queues: list[str]) -> bool:
        if are_sent(self.worker.declared.everywhere):  # first: what is not on the way any more has arrived
            return True
        return any(may_move(world, queues) for world in self.worker.worlds())

    def _report_end(self) -> None:
        if self._left:
            waiting = ", ".join(f"{job_id(job)} for {job_id(root)}" for job, root in self._left[:MOST_NAMED])
            more = "" if len(self._left) <= MOST_NAMED else " …"
            self.terminal.say(
                f"left: {count(len(self._left), 'job')} waiting for jobs that are dead or cancelled: {waiting}{more}"
            )
            self.terminal.event({"event": "left", "jobs": {job_id(job): job_id(root) for job, root in self._left}})
        counts = dict(self.worker.counts)
        text = ", ".join(f"{number} {ending}" for ending, number in sorted(counts.items())) or "nothing ran"
        self.terminal.say(f"ended: {text}")
        self.terminal.event({"event": "ended", "runs": counts})


def run_to_its_end(terminal: Terminal, main: Coroutine[Any, Any, int]) -> int:
    """Run the loop of a command, also where code that it runs stops the loop or cancels all of its tasks."""
    try:
        return asyncio.run(main)
    except asyncio.CancelledError:
        pass
    except RuntimeError as problem:
        if "Event loop stopped" not in str(problem):
            raise
    terminal.say("interrupted: code that it ran stopped the event loop or cancelled its tasks; start it again")
    terminal.event({"event": "interrupted"})
    return Exit.TRY_AGAIN


def end_at_once(worker: Worker) -> None:
    """Give back what runs, and leave: beside the loop, and within a moment, whatever the store does."""

    def give_back() -> None:
        try:
            worker.give_back_now()
        except Exception as problem:
            log.error("running jobs could not be released; they run again when their leases expire: %s", problem)
        finally:
            os._exit(Exit.INTERRUPTED)

    impatience = threading.Timer(LAST_WORDS, os._exit, [Exit.INTERRUPTED])
    impatience.daemon = True
    impatience.start()
    threading.Thread(target=give_back, name="horae-give-back", daemon=True).start()
