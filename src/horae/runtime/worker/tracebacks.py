"""Render exceptions as text, even those whose ``__str__`` fails.

Horae's own frames above a handler say nothing about its failure and are left out. If all frames are Horae's, the error
is an internal one, and all are kept.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from horae.actions.jobs.jobs import truncate
from horae.errors import HandlerFailed

OURS = f"{Path(__file__).parents[2]}{os.sep}"  # the folder of the package
EXAMPLES = f"{OURS}cli{os.sep}demo{os.sep}"  # and in it, jobs as a user would write them
LONGEST_LINE = 5_000  # characters: the traceback below it must fit into what is stored


class Reported(Exception):
    """A failure in another process, of which only the text is known, and whether its type rules a retry out."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


def error_line(problem: BaseException) -> str:
    """Return ``Type: text``, even if the exception's ``__str__`` fails."""
    name = "error"
    try:
        name = str(type(problem).__name__)
        text = str(problem)
    except BaseException:  # BaseException: `__str__` may even raise SystemExit
        text = "(its text cannot be shown)"
    return truncate(f"{name}: {text}", LONGEST_LINE)


def error_text(problem: BaseException) -> str:
    """Return ``Type: text`` on the first line, then the traceback."""
    if isinstance(problem, Reported):
        return truncate(str(problem))
    if isinstance(problem, HandlerFailed):  # meant for the job's owner, whom Horae's files do not concern
        return error_line(problem)
    return truncate(f"{error_line(problem)}\n\n{trace_of(problem)}")


def trace_of(problem: BaseException) -> str:
    """Return the traceback without Horae's frames above those of the application."""
    try:
        summary = traceback.TracebackException.from_exception(problem)
        _leave_us_out(summary)
        return "".join(summary.format())
    except BaseException:
        return "(its traceback cannot be shown)\n"


def loggable(problem: BaseException | None) -> BaseException | None:
    """Return the exception to log as ``exc_info``; None if it cannot be printed or its traceback is of no use.

    The latter are errors raised on purpose and failures in another process.
    """
    if problem is None or problem.__traceback__ is None or isinstance(problem, HandlerFailed | Reported):
        return None
    return problem if is_printable(problem) else None


def for_log(
    problem: BaseException | None, error: str | None, *, is_logged: bool = False
) -> tuple[str, BaseException | None]:
    """Return the text of a log line about a failure, and the exception to print below it.

    Without an exception the whole text is logged: it may hold the traceback of another process. With *is_logged*
    another line has the details already.
    """
    text = error or ""
    shows = loggable(problem)
    return (text.partition("\n")[0] if shows is not None or is_logged else text.rstrip()), shows


def without_our_frames(problem: BaseException) -> BaseException:
    """Remove Horae's frames from the beginning of an exception's traceback."""
    trace = problem.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return problem if trace is None else problem.with_traceback(trace)


def is_printable(problem: BaseException) -> bool:
    """Return whether an exception, its causes and contexts can be printed by listeners, tracers and loggers."""
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
        kept = next((index for index, frame in enumerate(each.stack) if not _is_ours(frame.filename)), 0)
        del each.stack[:kept]
        waiting += [each.__cause__, each.__context__, *(each.exceptions or ())]


def _is_ours(file: str) -> bool:
    return file.startswith(OURS) and not file.startswith(EXAMPLES)
