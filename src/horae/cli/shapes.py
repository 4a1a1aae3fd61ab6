"""Values as the JSON that ``--json`` prints. Fields may be added; none changes its meaning or goes away before 2.0."""

from __future__ import annotations

from datetime import datetime

from horae.core.time.instants import iso


def moment(value: datetime | None) -> str | None:
    return None if value is None else iso(value)
