"""Every page of the console with what stands in its path, for tests that walk over all of them.

A new page needs a line here only when its path has a part of a new name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from horae.console.install import doors
from horae.console.routing import Door

# Doors that stand on no operation, and why.
WITHOUT_OPERATION = {
    ("GET", "/login"): "comes before a caller is known",
    ("POST", "/login"): "comes before a caller is known",
    ("POST", "/logout"): "ends the browser's own session",
    ("POST", "/preferences"): "sets cookies of the browser alone",
}
UNKNOWN = {
    "job_id": "job_999999",
    "key": "unknown",
    "task_id": f"task_{'0' * 32}",
    "act_id": "act_999999",
    "fingerprint": "0" * 16,
    "name": "unknown",
    "worker_id": "unknown",
    "view_id": "view_999999",
    "lane": "unknown",
    "batch_id": "batch_999999",
    "wait": "999999",
    "object_id": "mem_unknown",
    "review_id": "rev_unknown",
    "decision_id": "dec_unknown",
    "unit": "calls",
    "kind": "unknown",
    "agent": "unknown",
    "token_id": "0" * 12,
    "session_id": "0" * 12,
}


# What is asked of a page that shows little without a question.
QUERIES = {
    "/jobs/bulk": "?verb=cancel&all=yes&q=state:queued",
    "/jobs/new": "?handler=orders.charge",
}


def pages() -> list[Door]:
    return [door for door in doors() if door.method == "GET"]


def acts() -> list[Door]:
    return [door for door in doors() if door.method == "POST"]


def paths(found: Mapping[str, str]) -> Iterator[str]:
    """Return the path of every page, its parts filled in."""
    for door in pages():
        yield filled(door.path, found) + QUERIES.get(door.path, "")


def filled(path: str, found: Mapping[str, str]) -> str:
    known = {**UNKNOWN, **found}
    if path.startswith("/attention/") and "lane_task" in found:
        known["task_id"] = found["lane_task"]

    def fill(part: re.Match[str]) -> str:
        assert part[1] in known, f"add what stands in {path} to tests/console/pages.py"
        return quote(known[part[1]], safe="")

    return re.sub(r"\{(\w+)(?::\w+)?\}", fill, path)
