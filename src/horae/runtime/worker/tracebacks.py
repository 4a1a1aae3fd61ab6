"""Errors as text: whatever an exception does when it is asked for its text, there is some to show.

Frames of our own around a handler say nothing about its failure and are left out; where no other code took part, the
error is ours, and everything is kept.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from horae.actions.jobs.jobs import truncate
from horae.errors import HandlerFailed

OURS = f"{Path(__file__).parents[2]}{os.sep}"  # the folder of the package
LONGEST_LINE = 5_000  # characters: the traceback below it must fit into what is stored


class Reported(Exception):
    """A failure that happened in another process; its text is all there is to tell."""


def error_line(problem: BaseException) -> str:
    """Return ``Type: text``, whatever the exception does when it is asked for its text."""
    name = "error"
    try:
        name = str(type(problem).__name__)
        text = str(problem)
    except BaseException:  # also SystemExit: an error that ends the process when it is printed
        text = "(its text cannot be shown)"
    return truncate(f"{name}: {text}", LONGEST_LINE)


def error_text(problem: BaseException) -> str:
    """Return ``Type: text`` first, because people read one line, then where it happened."""
    if isinstance(problem, Reported):
        return truncate(str(problem))
    if isinstance(problem, HandlerFailed):  # said on purpose, to whoever owns the job: our files are not their business
        return error_line(problem)
    return truncate(f"{error_line(problem)}\n\n{trace_of(problem)}")


def trace_of(problem: BaseException) -> str:
    """Return the traceback, without our own frames above those of the application."""
    try:
        summary = traceback.TracebackException.from_exception(problem)
        _leave_us_out(summary)
        return "".join(summary.format())
    except BaseException:
        return "(its traceback cannot be shown)\n"


def loggable(problem: BaseException | None) -> BaseException | None:
    """Return what to log as ``exc_info``: the exception itself, unless a logger would stumble over its text.

    What was said on purpose, or in another process, has no traceback worth a look.
    """
    if problem is None or problem.__traceback__ is None or isinstance(problem, HandlerFailed | Reported):
        return None
    return problem if is_printable(problem) else None


def for_log(
    problem: BaseException | None, error: str | None, *, is_logged: bool = False
) -> tuple[str, BaseException | None]:
    """Return what a line of the log says of a failure, and the exception to show below it.

    Where there is no exception to show, the whole text is said: it may hold the traceback of another process. With
    *is_logged* another line has said all that already.
    """
    text = error or ""
    shows = loggable(problem)
    return (text.partition("\n")[0] if shows is not None or is_logged else text.rstrip()), shows


def without_our_frames(problem: BaseException) -> BaseException:
    """Let the traceback of an exception begin where the application's code does."""
    trace = problem.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return problem if trace is None else problem.with_traceback(trace)


def is_printable(problem: BaseException) -> bool:
    """Return whether listeners, tracers and loggers can be trusted with an exception, and with those behind it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [problem]
    try:
        while waiting:
            each = waiting.pop()
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                _ = str(each), repr(each)
                waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
        traceback.format_exception(problem)
    except BaseException:
        return False
    return True


def _leave_us_out(summary: traceback.TracebackException) -> None:
    seen: set[int] = set()
    waiting: list[traceback.TracebackException | None] = [summary]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        kept = next((place for place, frame in enumerate(each.stack) if not _is_ours(frame.filename)), 0)
        del each.stack[:kept]
        waiting += [each.__cause__, each.__context__, *(each.exceptions or ())]


def _is_ours(file: str) -> bool:
    return file.startswith(OURS)
