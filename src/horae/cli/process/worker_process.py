"""A worker as a child process: started again when it dies, ended with its parent.

The parent holds the child's standard input open and writes nothing to it. When the parent ends, in whatever way, that
pipe closes and the child ends in order, so that none is left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from horae.cli.terminal import Terminal
from horae.cli.words import span
from horae.ports.world import Clock, Dice
from horae.runtime.loop import Alarm, Backoff

STDIN = 0
MODULE = "horae.cli.process.up_worker"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a dead worker is started again
STEADY = 30.0  # seconds: a worker that lived for so long did not die of its start
LAST_PATIENCE = timedelta(seconds=10)  # beyond the grace, before a child that does not end is killed


class WorkerProcess:
    """Keeps one worker process at work until it is asked to stop."""

    def __init__(self, terminal: Terminal, clock: Clock, dice: Dice, options: Mapping[str, Any]) -> None:
        self._terminal, self._clock = terminal, clock
        self._command = [sys.executable, "-m", MODULE, json.dumps(dict(options))]
        self._backoff = Backoff(dice, FIRST_PAUSE, LONGEST_PAUSE)
        self._alarm = Alarm(clock)
        self._stopping = False
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Start the worker, and again whenever it dies; return when it was stopped, or left because it was asked to."""
        while not self._is_stopping():
            began = self._clock.monotonic()
            # A session of its own: Ctrl-C reaches the parent alone, which ends the child in order.
            self._child = child = await asyncio.create_subprocess_exec(
                *self._command, stdin=subprocess.PIPE, start_new_session=True
            )
            self._terminal.event({"event": "worker_started", "pid": child.pid})
            code = await child.wait()
            if self._is_stopping():
                return
            if code == 0:
                self._terminal.say("The worker has left, as it was asked to; the service goes on without one.")
                self._terminal.event({"event": "worker_left", "pid": child.pid})
                return
            if self._clock.monotonic() - began >= STEADY:
                self._backoff.reset()
            await self._pause(child.pid, how_it_ended(code), code)

    def _is_stopping(self) -> bool:
        return self._stopping

    async def _pause(self, pid: int, ended: str, code: int) -> None:
        pause = self._backoff.next()
        self._terminal.say(f"The worker (process {pid}) {ended}; another one starts in {span(pause)}.")
        self._terminal.event({"event": "worker_died", "pid": pid, "code": code, "again_in": pause.total_seconds()})
        await self._alarm.until(self._is_stopping, pause)

    def stop(self) -> None:
        """Let the worker finish what it runs, and start no other; from the loop's thread."""
        self._stopping = True
        self._alarm.ring()
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def kill(self) -> None:
        """End the worker at once; its jobs run again when their leases expire."""
        self._stopping = True
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.kill()

    async def ended(self, running: asyncio.Task[None], grace: timedelta) -> None:
        """Wait for the end of *running*, the task of :meth:`run`; kill a worker that takes longer than its grace."""
        await asyncio.wait({running}, timeout=(grace + LAST_PATIENCE).total_seconds())
        if not running.done():
            self.kill()
        await running


def how_it_ended(code: int) -> str:
    """Say how a process ended, from its exit code as Python gives it."""
    if code >= 0:
        return f"ended with code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def on_parent_end(act: Callable[[], object]) -> None:
    """Call *act*, in a thread, when the process that holds our standard input has closed it or has ended."""

    def wait() -> None:
        with suppress(OSError):  # not through sys.stdin: a thread that holds its lock makes the interpreter's end fail
            while os.read(STDIN, 1):
                continue
        act()

    threading.Thread(target=wait, name="horae-parent", daemon=True).start()
