"""Log lines on stderr: for people, or one JSON object each for machines. No line shows a token of ours."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from horae.core.access.callers import mask_tokens
from horae.core.time.instants import iso
from horae.errors import InvalidInput
from horae.settings import LEVELS

if TYPE_CHECKING:
    from horae.cli.terminal import Terminal

RECORD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "facts",
}  # not a field of the caller
LogFormat = Annotated[
    str | None,
    typer.Option("--log-format", metavar="FORMAT", help="text or json, on stderr; else $HORAE_LOG_FORMAT, else text."),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", metavar="LEVEL", help=f"{', '.join(LEVELS)}; else $HORAE_LOG_LEVEL, else info."),
]


class TextLines(logging.Formatter):
    """``06:00:00.123 warning job_2 example.charge: failed, …``; a record of facts is JSON here too."""

    def format(self, record: logging.LogRecord) -> str:
        if hasattr(record, "facts"):
            return JsonLines().format(record)
        at = datetime.fromtimestamp(record.created, UTC)
        about = [str(getattr(record, fact)) for fact in ("job_id", "handler") if hasattr(record, fact)]
        if not about or not record.name.startswith("horae."):  # a library's, also where it wrote for a job
            about.append(record.name)
        line = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}Z {record.levelname.lower():<7} "
        line += f"{' '.join(about)}: {record.getMessage()}"
        return mask_tokens("\n".join(part for part in (line, trace_in(self, record), record.stack_info) if part))


class JsonLines(logging.Formatter):
    """One object for each line: ours, and every field that was given with ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        ours: dict[str, object] = {
            "time": iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        ours |= getattr(record, "facts", None) or {"message": record.getMessage()}
        extra = {name: value for name, value in vars(record).items() if name not in RECORD}
        fields = ours | {f"extra_{name}" if name in ours else name: value for name, value in extra.items()}
        trace = trace_in(self, record)
        if trace:
            fields.setdefault("error", trace.rstrip().rpartition("\n")[2])
            fields["traceback"] = trace
        if record.stack_info:
            fields["stack"] = record.stack_info
        return mask_tokens(_dump(fields))


def trace_in(form: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the traceback that belongs to a record; one from a child process comes as text."""
    if record.exc_info:
        return form.formatException(record.exc_info)
    return record.exc_text or ""


def _dump(fields: dict[str, object]) -> str:
    try:
        return json.dumps(fields, ensure_ascii=False, default=str)
    except Exception:  # a field that cannot be written must not cost the line
        return json.dumps({name: _text(value) for name, value in fields.items()}, ensure_ascii=False)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def start_chosen_logging(terminal: Terminal, log_format: str | None, log_level: str | None) -> None:
    """Start logging as the command line says, else as the settings do; lines beside JSON are JSON too."""
    settings = terminal.settings
    form = log_format or ("json" if terminal.is_json else settings.log_format)
    level = log_level or settings.log_level
    if form not in ("text", "json") or level not in LEVELS:
        raise InvalidInput("log_option_unknown", format=form, level=level, levels=list(LEVELS))
    start_logging(form, level)


def start_logging(log_format: str, level: str) -> None:
    """Send every log line of this process to stderr; the application's own loggers too."""
    from horae.runtime.logs import JobLogFilter

    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines() if log_format == "json" else TextLines())
    lines.addFilter(JobLogFilter())
    logging.basicConfig(level=level.upper(), handlers=[lines], force=True)
    for chatty in ("alembic", "httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
