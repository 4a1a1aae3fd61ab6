"""Log lines on stderr: for people, or one JSON object each for machines. No line shows a token of ours."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from horae.core.access import masked
from horae.core.instants import iso
from horae.errors import InvalidInput
from horae.settings import LEVELS

if TYPE_CHECKING:
    from horae.cli.terminal import Terminal

FACTS = ("job_id", "run_id", "handler", "queue", "owner", "request_id")
LogFormat = Annotated[
    str | None,
    typer.Option("--log-format", metavar="FORMAT", help="text or json, on stderr; else $HORAE_LOG_FORMAT, else text."),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", metavar="LEVEL", help=f"{', '.join(LEVELS)}; else $HORAE_LOG_LEVEL, else info."),
]


class TextLines(logging.Formatter):
    """``06:00:00.123 warning job_2 example.charge: failed, …``; what is a set of facts is JSON here too."""

    def format(self, record: logging.LogRecord) -> str:
        if hasattr(record, "facts"):
            return JsonLines().format(record)
        at = datetime.fromtimestamp(record.created, UTC)
        about = " ".join(str(getattr(record, fact)) for fact in ("job_id", "handler") if hasattr(record, fact))
        line = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}Z {record.levelname.lower():<7} "
        line += f"{about or record.name}: {record.getMessage()}"
        return masked(line + ("\n" + self.formatException(record.exc_info) if record.exc_info else ""))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        told |= getattr(record, "facts", None) or {"message": record.getMessage()}
        told |= {fact: getattr(record, fact) for fact in FACTS if hasattr(record, fact)}
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return masked(json.dumps(told, ensure_ascii=False, default=str))


def start_told_logging(terminal: Terminal, log_format: str | None, log_level: str | None) -> None:
    """As the command line says, else as the settings do; lines beside JSON are JSON too."""
    settings = terminal.settings
    form = log_format or ("json" if terminal.is_json else settings.log_format)
    level = log_level or settings.log_level
    if form not in ("text", "json") or level not in LEVELS:
        raise InvalidInput(f"Logs are text or json, and their level one of {', '.join(LEVELS)}.")
    start_logging(form, level)


def start_logging(log_format: str, level: str) -> None:
    """Send every log line of this process to stderr; the application's own loggers too."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[lines], force=True)
    for chatty in ("alembic", "httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
