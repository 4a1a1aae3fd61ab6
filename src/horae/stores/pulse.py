"""One look at what may have changed: the end of an index or a small table for each part, in one statement."""

from __future__ import annotations

from sqlalchemy import Connection, text

from horae.core.pulse import Part
from horae.stores.jobs.nodes import LEFT

AUDIT = "(SELECT id FROM horae_audit ORDER BY id DESC LIMIT 1)"  # what people and agents do is written there
NEWEST_JOB = "(SELECT id FROM horae_jobs ORDER BY id DESC LIMIT 1)"
LAST_ENDING = "(SELECT finished_at FROM horae_runs ORDER BY finished_at DESC LIMIT 1)"
LEASE = "(SELECT leased_until FROM horae_jobs WHERE state = 'running' ORDER BY leased_until{} LIMIT 1)"
# A claim takes a lease, an ending gives it back; renewals move it too.
LOOKS: dict[Part, tuple[str, ...]] = {
    "jobs": (NEWEST_JOB, LAST_ENDING, LEASE.format(""), LEASE.format(" DESC"), AUDIT),
    "schedules": (
        "(SELECT next_due_at FROM horae_schedules WHERE next_due_at > 0 ORDER BY next_due_at LIMIT 1)",
        LAST_ENDING,
        AUDIT,
    ),
    "workers": (
        f"(SELECT COUNT(*) FROM horae_nodes WHERE state <> '{LEFT}')",
        "(SELECT MAX(seen_at) FROM horae_nodes)",
        AUDIT,
    ),
    "errors": ("(SELECT last_seen FROM horae_error_groups ORDER BY last_seen DESC LIMIT 1)", AUDIT),
    "attention": (
        "(SELECT SUM(seq) FROM horae_lanes)",
        "(SELECT id FROM horae_waits ORDER BY id DESC LIMIT 1)",
        AUDIT,
    ),
    "statistics": ("(SELECT rolled_until FROM horae_roll_up WHERE id = 1)",),
    "acts": ("(SELECT SUM(position) FROM horae_acts WHERE state = 'running')", AUDIT),
    "audit": (AUDIT,),
}
PARTS_OF_STATEMENT = tuple(dict.fromkeys(each for looks in LOOKS.values() for each in looks))
STATEMENT = text(f"SELECT {', '.join(PARTS_OF_STATEMENT)}")


class Pulse:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def look(self) -> dict[Part, tuple[object, ...]]:
        """Return, by part, values that differ when something in it may have changed."""
        row = self.connection.execute(STATEMENT).one()
        found = {
            look: None if value is None else int(value) for look, value in zip(PARTS_OF_STATEMENT, row, strict=True)
        }
        return {part: tuple(found[each] for each in looks) for part, looks in LOOKS.items()}
