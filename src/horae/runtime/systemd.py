"""Report the state of this process to systemd (ready, alive, stopping); do nothing where systemd did not ask for it.

A unit of ``Type=notify`` counts as started once ``READY=1`` has arrived. With ``WatchdogSec=`` systemd kills and
restarts a process whose signs of life stop. They are sent from the event loop, so that a blocked loop is noticed too.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from horae.ports.world import Clock
from horae.runtime.loop import Alarm

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


def notify(*facts: str) -> bool:
    """Send one message, such as ``notify(READY, "STATUS=serves mail")``; false without ``NOTIFY_SOCKET``."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    path = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.connect(path)
            line.sendall("\n".join(facts).encode())
    except OSError:  # a worker must work even if systemd cannot be reached
        return False
    return True


def watchdog_rhythm() -> timedelta | None:
    """Return how often to send a sign of life: twice per watchdog timeout; None without a watchdog."""
    for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    try:
        micros = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return timedelta(microseconds=micros) / 2 if for_us and micros > 0 else None


@asynccontextmanager
async def supervised(clock: Clock) -> AsyncIterator[None]:
    """Send signs of life while the block runs; the block itself calls ``notify(READY)`` once it serves."""
    rhythm = watchdog_rhythm()
    signs = None if rhythm is None else asyncio.create_task(_send_signs_of_life(clock, rhythm), name="horae-systemd")
    try:
        yield
    finally:
        if signs is not None:
            signs.cancel()
            with suppress(asyncio.CancelledError):
                await signs


async def _send_signs_of_life(clock: Clock, rhythm: timedelta) -> None:
    alarm = Alarm(clock)
    while True:
        notify(ALIVE)
        await alarm.sleep(None, rhythm)
