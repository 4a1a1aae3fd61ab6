"""Plans of statements: whether the tables of jobs, runs, labels or the audit are read from one end to the other."""

from __future__ import annotations

import json
from typing import Any

from horae.stores.store import SqlStore

BIG = ("horae_jobs", "horae_runs", "horae_labels", "horae_audit")
FEW = 300  # rows that may be sorted: those of a page, of the heads of indexes, or of a tenant's newest jobs
MANY = 10_000  # of the statistics: those of some minutes or days by name, which MariaDB sorts to group them


def explain(store: SqlStore, sql: str, values: Any) -> Any:
    """Return the plan of a statement: nodes of PostgreSQL, rows of MariaDB, lines of SQLite."""
    if not sql.lstrip().upper().startswith(("SELECT", "WITH")):
        return []
    with store.engine.connect() as connection:
        if store.dialect.name == "postgresql":
            found = connection.exec_driver_sql("EXPLAIN (FORMAT JSON) " + sql, values).scalar_one()
            return _nodes([found[0]["Plan"]])
        if store.dialect.name == "mysql":
            return [dict(row) for row in connection.exec_driver_sql("EXPLAIN " + sql, values).mappings()]
        return [row[3] for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + sql, values)]


def reads_everything(plan: list[Any], sql: str) -> bool:
    """Return whether a plan scans a big table without an index, or sorts more than a page.

    SQLite calls a walk along the numbers of jobs a scan; with a limit it ends.
    """
    is_walk = "ORDER BY horae_jobs.id" in sql and "LIMIT" in sql
    return any(_is_bad(part) and not (is_walk and part == "SCAN horae_jobs") for part in plan)


def _is_bad(part: Any) -> bool:
    if isinstance(part, str):  # SQLite: a scan along an index that holds the order names it
        scans = any(part == f"SCAN {table}" or part.startswith(f"SCAN {table} AS") for table in BIG)
        return scans or "TEMP B-TREE FOR ORDER BY" in part
    if "Node Type" in part:
        if "Sort" in part["Node Type"]:
            return bool(part["Plan Rows"] > FEW)
        is_big = part.get("Relation Name", "").startswith(BIG) and part["Plan Rows"] > FEW
        return bool(part["Node Type"] == "Seq Scan" and is_big)
    scans = part["type"] == "ALL" and part["table"] in BIG and _rows(part) > FEW
    most = MANY if part["table"] == "horae_stats" else FEW
    return scans or ("filesort" in (part["Extra"] or "") and _rows(part) > most)


def _rows(part: dict[str, Any]) -> int:
    """Return how many rows MariaDB expects; it may add a share in brackets."""
    return int(str(part["rows"] or 0).split()[0])


def _nodes(plans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    waiting = list(plans)
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.get("Plans", [])
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
