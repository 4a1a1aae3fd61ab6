"""Messages between a worker and its child processes: one JSON object per line over a socket pair.

Never pickle: a message must not be able to run code.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from horae.core.governance.budgets import JobBudget
from horae.core.jobs.job import Job
from horae.core.jobs.retry import Retry
from horae.core.time.instants import instant, micros

Message = dict[str, Any]


class Channel:
    """One end of the socket pair; any thread may send, one thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Message) -> bool:
        """Send a message; return False if the other side has ended."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._end.sendall(line)
        except OSError:
            return False
        return True

    def receive(self) -> Message | None:
        """Return the next message; None when the other side has ended."""
        try:
            line = self._lines.readline()
        except (OSError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None  # cut off in the middle of a message
        message: Message = json.loads(line)
        return message

    def hang_up(self) -> None:
        """End the connection for both sides; this wakes a thread that waits for a message."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.hang_up()
        with suppress(OSError):
            self._lines.close()
            self._end.close()


def job_as_json(job: Job) -> Message:
    values = {field.name: getattr(job, field.name) for field in fields(Job)}
    instants = {name: micros(value) for name, value in values.items() if isinstance(value, datetime)}
    special = {"retry", "timeout", "budget", *instants}
    return {
        "plain": {name: value for name, value in values.items() if name not in special},
        "instants": instants,
        "retry": job.retry.as_json() | {"attempts": job.retry.attempts},
        "timeout": None if job.timeout is None else job.timeout.total_seconds(),
        "budget": None if job.budget is None else job.budget.as_json(),
    }


def job_from_json(message: Message) -> Job:
    values: dict[str, Any] = dict(message["plain"])
    values |= {name: instant(value) for name, value in message["instants"].items()}
    values["tags"] = tuple(values["tags"])
    values["retry"] = Retry.from_json(message["retry"], attempts=message["retry"]["attempts"])
    values["timeout"] = None if message["timeout"] is None else timedelta(seconds=message["timeout"])
    values["budget"] = None if message["budget"] is None else JobBudget.from_json(message["budget"])
    return Job(**values)
