"""What happens to jobs, as lines that a newcomer can follow."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from horae.cli.terminal import Terminal

MACHINE_LINES = ("job.started", "job.done", "job.failed")  # of schedules; the job's own lines say the same


class Story(logging.Handler):
    """Prints what the worker and the jobs log, as lines that a newcomer can follow."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        job_id = getattr(record, "job_id", "")
        about = record.getMessage().partition("\n")[0].removeprefix(f"{job_id} ")
        if about.startswith(MACHINE_LINES):
            return
        self.line(datetime.fromtimestamp(record.created, UTC), job_id, about)

    def line(self, at: datetime, job_id: str, text: str) -> None:
        if self.terminal.is_json:
            self.terminal.event({"event": "told", "time": at.isoformat(), "job_id": job_id or None, "text": text})
        else:
            self.terminal.out(f"{at:%H:%M:%S}  {job_id:<8}  {text}")
