"""Keep what a handler logs through ``ctx.logger``: the last lines of its attempt, stored with its ending."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.lines import MOST_BYTES, MOST_LINES, LogLine, bound, log_line, mask_lines
from horae.core.jobs.masking import secrets_of
from horae.runtime.logs import JobLogger, job_fields, logger_name

if TYPE_CHECKING:
    from horae.runtime.worker.context import Context

Write = Callable[[str, str], None]  # a level and a text


class Recorder:
    """The last lines of one attempt; any thread may add to them."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._dropped = 0
        self._adding = threading.Lock()

    def add(self, line: LogLine) -> None:
        with self._adding:
            self._lines.append(line)
            self._size += line.size
            while len(self._lines) > MOST_LINES or self._size > MOST_BYTES:
                self._size -= self._lines.popleft().size
                self._dropped += 1

    def end(self, outcome: Outcome, secrets: set[str]) -> Outcome:
        """Return the outcome with the lines, without secrets."""
        with self._adding:
            kept = bound(mask_lines(self._lines, secrets), self._dropped)
        return replace(outcome, lines=kept)


class RecordingLogger(JobLogger):
    """A logger whose lines carry the job and are kept with its attempt: from INFO on, whatever is printed."""

    def __init__(self, job: Job, write: Write) -> None:
        super().__init__(logging.getLogger(logger_name(job.handler)), job_fields(job))
        self._write = write

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO or self.isEnabledFor(level):
            self._write(_name(level), _text(msg, args, kwargs.get("exc_info")))
        super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})


def _name(level: int) -> str:
    steps = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
    return logging.getLevelName(next((each for each in steps if level >= each), logging.DEBUG))


def _text(msg: object, args: tuple[object, ...], problem: Any) -> str:
    """Return the text of a line; a line that cannot be put together must not fail the handler."""
    try:
        text = logging.LogRecord("", 0, "", 0, msg, args, None).getMessage()
        if isinstance(problem, BaseException):
            return f"{text}\n{''.join(traceback.format_exception(problem)).rstrip()}"
        trace = traceback.format_exc().rstrip() if problem else ""
    except Exception as wrong:
        return f"(a line that cannot be shown: {type(wrong).__name__})"
    return f"{text}\n{trace}" if trace and not trace.startswith("NoneType") else text


def record(ctx: Context, at: datetime, level: str, text: str) -> None:
    """Add a line to those of an attempt; any thread may."""
    recorder: Recorder = ctx.recorder or vars(ctx).setdefault("recorder", Recorder())
    recorder.add(log_line(at, level, text))


def with_lines(ctx: Context, outcome: Outcome, handler: Any) -> Outcome:
    """Return the outcome of an attempt with what it logged, unless its job is declared with ``logs=False``."""
    if ctx.recorder is None or not getattr(handler, "logs", True):
        return outcome
    return ctx.recorder.end(outcome, secrets_of(ctx.claimed.payload, getattr(handler, "sensitive", ())))
