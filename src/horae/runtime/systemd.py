"""Tell systemd how we are: ready, alive, stopping. Says nothing where nobody listens.

A unit of ``Type=notify`` counts as started once ``READY=1`` came, and with ``WatchdogSec=`` a process whose signs of
life stop coming is killed and started again. The signs are sent from the event loop, so that a loop which is blocked
for longer than that is noticed too.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from horae.ports import Clock
from horae.runtime.loop import Alarm

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


def notify(*facts: str) -> bool:
    """Send one message, such as ``notify(READY, "STATUS=serves mail")``; false when nobody asked for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    place = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.connect(place)
            line.sendall("\n".join(facts).encode())
    except OSError:  # whether systemd hears us must not decide whether we work
        return False
    return True


def watchdog_rhythm() -> timedelta | None:
    """How often to give a sign of life: twice within the time that systemd waits; None when it does not wait."""
    for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    try:
        micros = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return timedelta(microseconds=micros) / 2 if for_us and micros > 0 else None


@asynccontextmanager
async def supervised(clock: Clock) -> AsyncIterator[None]:
    """Give signs of life while the block runs. ``notify(READY)`` is the block's own to say, once it serves."""
    rhythm = watchdog_rhythm()
    signs = None if rhythm is None else asyncio.create_task(_keep_telling(clock, rhythm), name="horae-systemd")
    try:
        yield
    finally:
        if signs is not None:
            signs.cancel()
            with suppress(asyncio.CancelledError):
                await signs


async def _keep_telling(clock: Clock, rhythm: timedelta) -> None:
    alarm = Alarm(clock)
    while True:
        notify(ALIVE)
        await alarm.sleep(None, rhythm)
