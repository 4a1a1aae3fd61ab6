"""What handlers have logged, by attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, select

from horae.core.jobs.lines import AttemptLines, LogLine
from horae.core.time.instants import instant, micros
from horae.stores.tables.lines import lines


class LineRows:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def of_job(self, number: int) -> list[AttemptLines]:
        """Return the lines of every attempt at a job that logged any, the oldest first."""
        query = select(lines.c.token, lines.c.attempt, lines.c.content, lines.c.dropped)
        rows = self.connection.execute(query.where(lines.c.job_id == number).order_by(lines.c.token))
        return [AttemptLines(token, attempt, _decode(text), dropped) for token, attempt, text, dropped in rows]


def encode(kept: Sequence[LogLine]) -> str:
    """Return lines as the text of their column."""
    return json.dumps([[micros(line.at), line.level, line.text] for line in kept], ensure_ascii=False)


def _decode(text: str) -> tuple[LogLine, ...]:
    return tuple(LogLine(instant(at), level, said) for at, level, said in json.loads(text))
